/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The time that recording adds to a registration (docs/unmodified.md): preloaded LIBRARY [BYTES
 * [COUNT]] registers and deregisters one range of host memory on the first RDMA device, in
 * processes that take turns with LIBRARY (libhmreg-preload.so) in LD_PRELOAD and without it. Prints
 * the medians of each, the differences, and their share.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define TURNS  9      /* of each */
#define MOST   100000 /* registrations of one process */

struct medians {
    double reg, dereg; /* ns */
};

static int fail(const char *what)
{
    fprintf(stderr, "preloaded: %s: %s\n", what, strerror(errno));
    return 1;
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double first = *(const double *)a, second = *(const double *)b;

    return (first > second) - (first < second);
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), ascending);
    return values[count / 2];
}

/* ---- one process ------------------------------------------------------------------------- */

static struct ibv_pd *open_pd(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;

    return context ? ibv_alloc_pd(context) : NULL;
}

static int measure_once(struct ibv_pd *pd, void *memory, size_t bytes, double *reg, double *dereg)
{
    double began = now(), made, ended;
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, bytes, RIGHTS);

    made = now();
    if (!mr || ibv_dereg_mr(mr))
        return fail("a registration");
    ended = now();
    *reg = made - began;
    *dereg = ended - made;
    return 0;
}

/* Writes its medians to standard output. */
static int measure(size_t bytes, size_t count)
{
    struct ibv_pd *pd = open_pd();
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    static double reg[MOST], dereg[MOST];
    struct medians medians;

    if (!pd || memory == MAP_FAILED || !count || count > MOST)
        return fail(!pd ? "no RDMA device" : "no memory, or a wrong count");
    for (size_t i = 0; i < count; i++)
        if (measure_once(pd, memory, bytes, &reg[i], &dereg[i]))
            return 1;
    medians = (struct medians){median(reg, count), median(dereg, count)};
    return write(STDOUT_FILENO, &medians, sizeof(medians)) != sizeof(medians);
}

/* ---- turns ------------------------------------------------------------------------------- */

static int take_turn(char **words, const char *library, struct medians *out)
{
    int ends[2], status;
    ssize_t got;
    pid_t child;

    if (pipe2(ends, O_CLOEXEC))
        return fail("pipe");
    child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        unsetenv("LD_PRELOAD");
        if (library)
            setenv("LD_PRELOAD", library, 1);
        execv("/proc/self/exe", words);
        _exit(1);
    }
    close(ends[1]);
    got = read(ends[0], out, sizeof(*out));
    close(ends[0]);
    if (waitpid(child, &status, 0) != child || status || got != sizeof(*out))
        return fail("a turn");
    return 0;
}

/* Removes the trace files of the processes, and their folder. */
static void remove_folder(const char *folder)
{
    DIR *list = opendir(folder);
    struct dirent *entry;

    while (list && (entry = readdir(list)))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(list), entry->d_name, 0);
    if (list)
        closedir(list);
    rmdir(folder);
}

static int take_turns(char **words, const char *library, double values[4][TURNS])
{
    struct medians without, with;

    for (int i = 0; i < TURNS; i++) {
        if (take_turn(words, NULL, &without) || take_turn(words, library, &with))
            return 1;
        values[0][i] = without.reg;
        values[1][i] = with.reg;
        values[2][i] = without.dereg;
        values[3][i] = with.dereg;
    }
    return 0;
}

static void print(const char *what, const double *without, const double *with)
{
    printf("%-15s %10.0f ns without, %10.0f ns recorded: %+6.0f ns, %+5.1f %%\n", what, *without,
           *with, *with - *without, (*with / *without - 1) * 100);
}

int main(int argc, char **argv)
{
    char *words[] = {argv[0], "", argc > 2 ? argv[2] : "4096", argc > 3 ? argv[3] : "2000", NULL};
    char folder[] = "/tmp/hmreg-preloaded-XXXXXX";
    double values[4][TURNS], middle[4];
    int failed;

    if (argc < 2 || argc > 4)
        return fprintf(stderr, "usage: preloaded LIBRARY [BYTES [COUNT]]\n"), 2;
    if (!argv[1][0])
        return measure(strtoull(words[2], NULL, 0), strtoull(words[3], NULL, 0));
    if (!mkdtemp(folder) || setenv("HMREG_RUN_DIR", folder, 1))
        return fail(folder);
    failed = take_turns(words, argv[1], values);
    remove_folder(folder);
    if (failed)
        return 1;
    for (int i = 0; i < 4; i++)
        middle[i] = median(values[i], TURNS);
    printf("%s bytes, %s times, medians of %d processes each\n", words[2], words[3], TURNS);
    print("registration", &middle[0], &middle[1]);
    print("deregistration", &middle[2], &middle[3]);
    return 0;
}
