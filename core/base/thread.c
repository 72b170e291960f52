/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See thread.h. The attributes are set before the thread runs, since a thread that starts with its
 * creator's CPU and scheduling class may never run to set them. The timer slack is no attribute:
 * the thread inherits its creator's, which is the normal one meanwhile. If a sandbox forbids that,
 * the thread starts with its creator's attributes. The affinity mask has all CPUs; the kernel
 * restricts it to the process's cpuset.
 */
#include "core/base/thread.h"

#include "core/base/error.h"
#include "core/base/high_fd.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)512 << 10) /* a fabric's deregistration may run on it */
#define MOST_CPUS   8192
#define SLACK_NS    50000L /* the kernel's default */

#define MOMENT_TRIES 5000       /* of a tenth of a millisecond and more: about a second */
#define QUEUE_BYTES  80         /* what a read of a message queue's file returns */
#define MQUEUE_MAGIC 0x19800202 /* the file system of message queues */

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1u << 1)
#endif

struct cpus {
    cpu_set_t sets[MOST_CPUS / CPU_SETSIZE];
};

/* ---- stacks ------------------------------------------------------------------------------ */

static size_t guard_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

int thread_stack_map(struct thread_stack *out)
{
    size_t guard = guard_bytes();
    char *memory = mmap(NULL, guard + STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

    if (memory == MAP_FAILED)
        return hmreg_fail_os(errno, "hmreg has no memory for a thread's stack");
    (void)mprotect(memory, guard, PROT_NONE); /* refused: the stack has no guard */
    *out = (struct thread_stack){memory + guard, STACK_BYTES};
    return 0;
}

void thread_stack_unmap(const struct thread_stack *stack)
{
    size_t guard = guard_bytes();

    munmap((char *)stack->base - guard, guard + stack->size);
}

/* ---- the start --------------------------------------------------------------------------- */

static int set_attributes(pthread_attr_t *attr)
{
    struct sched_param normal = {.sched_priority = 0};
    struct cpus all;
    int rc;

    memset(&all, 0xff, sizeof(all));
    rc = pthread_attr_setaffinity_np(attr, sizeof(all), all.sets);
    if (!rc)
        rc = pthread_attr_setinheritsched(attr, PTHREAD_EXPLICIT_SCHED);
    if (!rc)
        rc = pthread_attr_setschedpolicy(attr, SCHED_OTHER);
    return rc ? rc : pthread_attr_setschedparam(attr, &normal);
}

/* own_stack: the caller's stack, or one of STACK_BYTES; else one of the default size. */
static int create_normal(pthread_t *out, bool own_stack, const struct thread_stack *stack,
                         void *(*run)(void *), void *arg)
{
    pthread_attr_t attr;
    int rc;

    pthread_attr_init(&attr);
    if (own_stack && stack)
        pthread_attr_setstack(&attr, stack->base, stack->size);
    else if (own_stack)
        pthread_attr_setstacksize(&attr, STACK_BYTES);
    rc = set_attributes(&attr);
    rc = rc ? rc : pthread_create(out, &attr, run, arg);
    pthread_attr_destroy(&attr);
    return rc;
}

/* EINVAL: the program's thread-local data does not fit the stack. */
static int create(pthread_t *out, const struct thread_stack *stack, void *(*run)(void *), void *arg)
{
    int rc = create_normal(out, true, stack, run, arg);

    if (rc == EINVAL)
        rc = create_normal(out, false, NULL, run, arg);
    return rc ? pthread_create(out, NULL, run, arg) : 0;
}

/* libc's prctl(3) returns an int, which may be too narrow for a slack. */
static long slack(void)
{
    return syscall(SYS_prctl, PR_GET_TIMERSLACK);
}

static void set_slack(long ns)
{
    (void)syscall(SYS_prctl, PR_SET_TIMERSLACK, ns);
}

void thread_name(const char *name)
{
    (void)prctl(PR_SET_NAME, name);
}

/* ---- the wait for a start ---------------------------------------------------------------- */

/* Not pthread_mutex_timedlock(3) or sem_timedwait(3): their deadline is by the wall clock, which
 * may be set back. */
static void pause_before_try(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

int thread_lock_to_start(pthread_mutex_t *lock)
{
    for (unsigned i = 0; i < MOMENT_TRIES; i++) {
        if (!pthread_mutex_trylock(lock))
            return 0;
        pause_before_try();
    }
    return hmreg_fail(-EAGAIN,
                      "another thread of the program is starting hmreg's thread right now");
}

bool thread_has_begun(sem_t *begun)
{
    return !sem_trywait(begun);
}

int thread_await_begin(sem_t *begun, bool wait)
{
    for (unsigned i = 0; i < MOMENT_TRIES && !thread_has_begun(begun); i++) {
        if (!wait || i + 1 == MOMENT_TRIES)
            return hmreg_fail(-EAGAIN, "hmreg's thread has not begun yet");
        pause_before_try();
    }
    return 0;
}

/* ---- descriptors of a thread's own ------------------------------------------------------- */

/* A queue is a file of 80 bytes on no device. */
static bool is_message_queue(int fd)
{
    struct stat file;
    struct statfs system;

    return !fstat(fd, &file) && S_ISREG(file.st_mode) && file.st_size == QUEUE_BYTES &&
           !major(file.st_dev) && !fstatfs(fd, &system) &&
           (unsigned long)system.f_type == MQUEUE_MAGIC;
}

/* The size of the table of descriptors; 0: it cannot be read. Without malloc(3): a thread's first
 * call may map an arena. */
static int table_size(void)
{
    int file = high_fd(open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC));
    char text[2048];
    ssize_t len = file < 0 ? 0 : read(file, text, sizeof(text) - 1);
    const char *size;

    if (file >= 0)
        close(file);
    text[len > 0 ? len : 0] = '\0';
    size = strstr(text, "FDSize:");
    return size ? atoi(size + sizeof("FDSize:") - 1) : 0;
}

/* Does not read the folder of descriptors: the kernel would make an inode for each entry. A queue
 * opened meanwhile is missed, and without /proc all are. Looking in the copied table would be too
 * late: its descriptors close when the thread ends at the latest, and any close of the queue in the
 * process ends the notification. */
static bool have_message_queue(void)
{
    int size = table_size();
    bool have = false;

    for (int fd = HIGH_FD_FIRST; fd < size && !have; fd++)
        have = is_message_queue(fd);
    return have;
}

/* from, to: ints, since `to` is -1 for "below descriptor 0". */
static bool close_between(int from, int to, unsigned flags)
{
    return from > to || !syscall(SYS_close_range, (unsigned)from, (unsigned)to, flags);
}

/* The first close_between() gives the thread its own table, without the descriptors above. */
bool thread_keep_only(int fd, int other)
{
    int low = fd < other ? fd : other, high = fd < other ? other : fd;

    return !have_message_queue() && close_between(high + 1, INT_MAX, CLOSE_RANGE_UNSHARE) &&
           close_between(low + 1, high - 1, 0) && close_between(0, low - 1, 0);
}

int thread_start(pthread_t *out, const struct thread_stack *stack, void *(*run)(void *), void *arg,
                 const char *what)
{
    long callers_slack = slack();
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (callers_slack > SLACK_NS)
        set_slack(SLACK_NS);
    rc = create(out, stack, run, arg);
    if (callers_slack > SLACK_NS)
        set_slack(callers_slack);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc ? hmreg_fail_os(rc, "hmreg could not start a thread %s", what) : 0;
}

/* ---- the end ----------------------------------------------------------------------------- */

static bool discard(void *pages, size_t size)
{
    return !madvise(pages, size, MADV_DONTNEED);
}

/* The kernel discards no locked page (EINVAL), and with mlockall(2) maps no new page beyond
 * RLIMIT_MEMLOCK. munlock(2) is called only after EINVAL: a sandbox may end the process for it. */
void thread_discard(void *pages, size_t size)
{
    if (discard(pages, size))
        return;
    if (errno == EINVAL && !munlock(pages, size) && discard(pages, size))
        return;
    (void)mmap(pages, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

#define END_YIELDS 64
#define END_TRIES  2000 /* then the task's number must be another's */

static bool task_is_there(pid_t task)
{
    struct cpus cpus;

    return syscall(SYS_sched_getaffinity, task, sizeof(cpus), &cpus) >= 0 || errno != ESRCH;
}

/* The kernel removes a task's number, and then the task, from the list of threads. It does both
 * under the lock of the process's signal handlers, for which this call waits. */
static void await_unlisting(void)
{
    struct sigaction unused;

    (void)sigaction(SIGCHLD, NULL, &unused);
}

pid_t thread_task(void)
{
    return (pid_t)syscall(SYS_gettid);
}

void thread_join(pthread_t thread, const pid_t *task)
{
    static const struct timespec pause = {.tv_nsec = 50000};
    int before = errno;

    pthread_join(thread, NULL);
    for (unsigned tries = 0; tries < END_TRIES && task_is_there(*task); tries++) {
        if (tries < END_YIELDS)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
    await_unlisting();
    errno = before;
}
