/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See linker_stops.h.
 */
#include "tests/support/linker_stops.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct linker_stops *linker_stops_new(void)
{
    struct linker_stops *stops =
        mmap(NULL, sizeof(*stops), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(stops != MAP_FAILED);
    return stops;
}

void linker_stops_free(struct linker_stops *stops)
{
    munmap(stops, sizeof(*stops));
}

/* ---- the linker ------------------------------------------------------------------------- */

/* Is code of one of the tests' libraries mapped that the linker does not know? It maps a file
 * before it enters it. */
static bool has_unlisted_code(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    bool unlisted = false;
#if __GLIBC_PREREQ(2, 35)
    struct dl_find_object found;
    unsigned long start;
    char line[512];

    while (maps && !unlisted && fgets(line, sizeof(line), maps))
        unlisted = sscanf(line, "%lx-", &start) == 1 && strstr(line, " r-xp ") &&
                   (strstr(line, "/libtest_loads_") || strstr(line, "/true")) &&
                   _dl_find_object((void *)start, &found);
#endif
    if (maps)
        fclose(maps);
    return unlisted;
}

bool linker_is_busy(void)
{
    const struct r_debug *list = NULL;

    for (const ElfW(Dyn) *entry = _DYNAMIC; entry->d_tag; entry++)
        if (entry->d_tag == DT_DEBUG)
            list = (const void *)entry->d_un.d_ptr;
    while (list) {
        if (__atomic_load_n(&list->r_state, __ATOMIC_ACQUIRE) != RT_CONSISTENT)
            return true;
#if __GLIBC_PREREQ(2, 35)
        list = list->r_version > 1 ? (const void *)((const struct r_debug_extended *)list)->r_next
                                   : NULL;
#else
        list = NULL;
#endif
    }
    return has_unlisted_code();
}

/* ---- the child -------------------------------------------------------------------------- */

static void *do_deeds(void *arg)
{
    struct linker_stops *stops = arg;
    char one;

    atomic_store(&stops->thread, (int)syscall(SYS_gettid));
    while (read(stops->ask[0], &one, 1) == 1) {
        atomic_fetch_add(&stops->taken, 1);
        stops->deed();
        atomic_fetch_add(&stops->ended, 1);
    }
    return NULL;
}

static void ask(struct linker_stops *stops)
{
    atomic_fetch_add(&stops->asked, 1);
    if (write(stops->ask[1], "", 1) != 1)
        abort();
}

static bool is_idle(struct linker_stops *stops)
{
    return atomic_load(&stops->ended) == atomic_load(&stops->asked);
}

static void await(struct linker_stops *stops)
{
    while (!is_idle(stops))
        usleep(100);
}

void linker_stops_start_thread(struct linker_stops *stops, void (*deed)(void))
{
    pthread_t thread;

    stops->deed = deed;
    if (pthread_create(&thread, NULL, do_deeds, stops))
        abort();
    while (!atomic_load(&stops->thread))
        sched_yield();
}

void linker_stops_do(struct linker_stops *stops, void (*deed)(void))
{
    void (*before)(void) = stops->deed;

    stops->deed = deed;
    ask(stops);
    await(stops);
    stops->deed = before;
}

bool linker_stops_begin(struct linker_stops *stops)
{
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) || raise(SIGSTOP))
        return false;
    atomic_store(&stops->loading, true);
    return true;
}

void linker_stops_end(struct linker_stops *stops)
{
    atomic_store(&stops->loading, false);
    raise(SIGSTOP); /* the tracer leaves */
    await(stops);
}

/* ---- the tracer ------------------------------------------------------------------------- */

static bool sleeps(pid_t child, int thread)
{
    char path[64], text[512] = "";
    FILE *stat;
    const char *name_end;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)child, thread);
    stat = fopen(path, "re");
    if (!stat)
        return true; /* it has ended */
    if (!fgets(text, sizeof(text), stat))
        text[0] = '\0';
    fclose(stat);
    name_end = strrchr(text, ')');
    return name_end && name_end[1] && name_end[2] == 'S';
}

/* Does the deed's thread sleep, and not only for a moment? Where it does, the loading thread goes
 * on too early, and the deed's result holds all the same. */
static bool waits(const struct linker_stops *stops, pid_t child)
{
    for (int i = 0; i < 5; i++, usleep(200))
        if (atomic_load(&stops->taken) != atomic_load(&stops->asked) ||
            !sleeps(child, atomic_load(&stops->thread)))
            return false;
    return true;
}

static void have_done(struct linker_stops *stops, pid_t child)
{
    atomic_fetch_add(&stops->held, 1);
    if (is_idle(stops))
        ask(stops);
    while (!is_idle(stops) && !waits(stops, child))
        sched_yield();
    atomic_fetch_add(&stops->held, 1);
}

/* Handles one stop, and returns how the child goes on. */
static int at_stop(struct linker_stops *stops, pid_t child, int signal, bool *begun)
{
    const int at_call = SIGTRAP | 0x80;
    bool ends = signal == SIGSTOP && *begun;

    if (signal == SIGSTOP && !*begun) {
        *begun = true;
        ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)PTRACE_O_TRACESYSGOOD);
    } else if (signal == at_call && atomic_load(&stops->loading)) {
        if (stops->only < 0 || stops->count == stops->only)
            have_done(stops, child);
        stops->count++;
    }
    signal = signal == SIGSTOP || signal == at_call ? 0 : signal;
    return (int)ptrace(ends ? PTRACE_DETACH : PTRACE_SYSCALL, child, NULL,
                       (void *)(uintptr_t)signal);
}

int linker_stops_run(struct linker_stops *stops, int (*body)(struct linker_stops *stops))
{
    bool begun = false;
    int status = 0;
    pid_t child;

    *stops = (struct linker_stops){.only = stops->only};
    assert_int_equal(pipe(stops->ask), 0);
    fflush(NULL);
    child = test_fork();
    if (child == 0)
        _exit(body(stops));
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status))
        if (at_stop(stops, child, WSTOPSIG(status), &begun))
            break;
    close(stops->ask[0]);
    close(stops->ask[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
