/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The kernel copies pinned pages for a forked child: idle regions are given back before. With a
 * number of MiB in MEASURE the program measures instead (docs/fork.md has the table). */
#include "tests/rdma/bench.h"
#include "tests/support/test.h"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#define REGIONS 16
#define MIB     ((size_t)1 << 20)

extern char **environ;

static struct bench bench;
static char *memory;
static size_t bytes;

/* As under fork_max_bytes of struct hmreg_config. */
static void open_all(size_t mib, uint64_t fork_max_bytes)
{
    struct hmreg_config config = {.size = sizeof(config), .fork_max_bytes = fork_max_bytes};

    if (!bench_begin(&bench))
        test_skip("no RDMA device with an active port");
    assert_ok(hmreg_open(&config, &bench.lib));
    assert_ok(hmreg_domain_open_verbs(bench.lib, bench.pd, NULL, &bench.domain));
    bytes = mib * MIB;
    memory = test_map(bytes);
}

/* Of a huge page that is pinned in part the kernel copies all; and it splits the page, which the
 * monitor counter counts as a change. */
static void fill_small_pages(void)
{
    assert_int_equal(madvise(memory, bytes, MADV_NOHUGEPAGE), 0);
    memset(memory, 1, bytes);
}

static void close_all(void)
{
    bench_close(&bench);
    munmap(memory, bytes);
}

static struct hmreg_mr *get(unsigned i)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(bench.domain, memory + i * (bytes / REGIONS), bytes / REGIONS,
                           HMREG_ACCESS_LOCAL, &mr));
    return mr;
}

static void make_idle(void)
{
    for (unsigned i = 0; i < REGIONS; i++)
        hmreg_mr_put(get(i));
}

/* How many bytes of the memory no other process shares with this one, in MiB. */
static long own_mib(void)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    unsigned long start, end;
    long kib = 0, one;
    bool inside = false;
    char line[256];

    while (file && fgets(line, sizeof(line), file))
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            inside = start < (uintptr_t)memory + bytes && end > (uintptr_t)memory;
        else if (inside && (sscanf(line, "Private_Clean: %ld kB", &one) == 1 ||
                            sscanf(line, "Private_Dirty: %ld kB", &one) == 1))
            kib += one;
    if (file)
        fclose(file);
    return kib >> 10;
}

/* ---- a fork -----------------------------------------------------------------------------------
 */

/* A child that waits to be let go. */
struct forked {
    pid_t child;
    int in[2], out[2];
    long copied; /* MiB */
    double ms;
};

static double now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

static void be_child(const struct forked *forked)
{
    long own = own_mib();
    char byte;

    if (write(forked->out[1], &own, sizeof(own)) == sizeof(own))
        (void)!read(forked->in[0], &byte, 1);
    _exit(0);
}

static struct forked begin_fork(void)
{
    struct forked forked;
    double before;

    assert_int_equal(pipe(forked.in), 0);
    assert_int_equal(pipe(forked.out), 0);
    before = now();
    forked.child = fork();
    if (!forked.child)
        be_child(&forked);
    forked.ms = now() - before;
    assert_true(forked.child > 0);
    assert_int_equal(read(forked.out[0], &forked.copied, sizeof(long)), sizeof(long));
    return forked;
}

static void end_fork(const struct forked *forked)
{
    assert_int_equal(write(forked->in[1], "", 1), 1);
    waitpid(forked->child, NULL, 0);
    for (int i = 0; i < 2; i++) {
        close(forked->in[i]);
        close(forked->out[i]);
    }
}

static long copied(void)
{
    struct forked forked = begin_fork();

    end_fork(&forked);
    return forked.copied;
}

/* ---- tests ------------------------------------------------------------------------------------
 */

/* More than the default size; a region that is held is copied, and stays. */
TEST(fork__idle_regions__not_copied)
{
    struct hmreg_mr *held;
    uint32_t key;

    test_forks_with_threads();
    open_all(32, 0);
    fill_small_pages();
    assert_int_equal(copied(), 0);
    make_idle();
    assert_int_equal(copied(), 0);
    held = get(1);
    key = hmreg_mr_head_of(held)->keys->lkey;
    make_idle();
    assert_int_equal(copied(), bytes / REGIONS / MIB);
    hmreg_mr_put(held);
    held = get(1);
    assert_int_equal(hmreg_mr_head_of(held)->keys->lkey, key);
    hmreg_mr_put(held);
    close_all();
}

TEST(fork__the_application_chooses__copied)
{
    test_forks_with_threads();
    open_all(32, UINT64_MAX);
    fill_small_pages();
    make_idle();
    assert_int_equal(copied(), 32);
    assert_ok(hmreg_domain_flush(bench.domain));
    assert_int_equal(copied(), 0);
    close_all();
}

/* ---- figures ----------------------------------------------------------------------------------
 */

static double gets_ms(void)
{
    double before = now();

    make_idle();
    return now() - before;
}

static void show_others(const char *name)
{
    char *argv[] = {"true", NULL};
    double at[4];
    pid_t child;

    at[0] = now();
    assert_int_equal(posix_spawn(&child, "/bin/true", NULL, NULL, argv, environ), 0);
    at[1] = now();
    waitpid(child, NULL, 0);
    at[2] = now();
    child = vfork();
    if (!child)
        _exit(0);
    at[3] = now();
    waitpid(child, NULL, 0);
    printf("%-14s posix_spawn %.2f ms, vfork %.2f ms", name, at[1] - at[0], at[3] - at[2]);
    at[0] = now();
    assert_int_equal(system(":"), 0);
    printf(", system %.2f ms\n", now() - at[0]);
}

/* Gets after the fork: while the child lives, and with no child. */
static void show_fork(const char *name, bool again)
{
    struct forked forked = begin_fork();
    double living = again ? gets_ms() : 0;

    end_fork(&forked);
    printf("%-14s fork %9.2f ms, copied %4ld MiB, gets while the child lives %8.2f ms", name,
           forked.ms, forked.copied, living);
    forked = begin_fork();
    end_fork(&forked);
    printf("; fork %9.2f ms, gets after its end %8.2f ms\n", forked.ms, again ? gets_ms() : 0);
}

static void measure(const char *name, size_t mib, uint64_t fork_max_bytes, bool registers)
{
    struct hmreg_mr *held[REGIONS];
    bool holds = !strcmp(name, "held");

    open_all(mib, fork_max_bytes);
    memset(memory, 1, bytes);
    if (registers)
        printf("%-14s first gets %.2f ms\n", name, gets_ms());
    for (unsigned i = 0; holds && i < REGIONS; i++)
        held[i] = get(i);
    if (!strcmp(name, "flushed")) {
        double before = now();

        assert_ok(hmreg_domain_flush(bench.domain));
        printf("%-14s flush %.2f ms\n", name, now() - before);
    }
    for (int i = 0; i < 2; i++)
        show_fork(name, registers && strcmp(name, "flushed") != 0);
    show_others(name);
    for (unsigned i = 0; holds && i < REGIONS; i++)
        hmreg_mr_put(held[i]);
    close_all();
}

/* Each in a process of its own: once a page of a process was pinned, its forks differ. */
static void measure_all(size_t mib)
{
    static const struct {
        const char *name;
        uint64_t max;
        bool registers;
    } states[] = {{"none", UINT64_MAX, false},
                  {"idle, copied", UINT64_MAX, true},
                  {"flushed", UINT64_MAX, true},
                  {"given back", 1, true},
                  {"held", 1, true}};

    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        pid_t child = fork();

        if (!child) {
            measure(states[i].name, mib, states[i].max, states[i].registers);
            fflush(stdout);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

int main(int argc, char **argv)
{
    const char *mib = getenv("MEASURE");

    if (!mib)
        return test_main(argc, argv);
    measure_all((size_t)atol(mib));
    return 0;
}
