/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Loopback peers that are killed, stopped, short of descriptors, interrupted, of another user or of
 * another pid namespace: the other side continues, or receives an error. */
#include "tests/fault/target.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

static char bytes[TARGET_BYTES];

/* ---- targets that end ------------------------------------------------------------------- */

TEST(target__killed__hostunreach_from_then_on)
{
    struct initiator initiator;
    struct target target;

    target_start(&target, NULL);
    initiator_open(&initiator, &target);
    assert_ok(initiator_write(&initiator, 0, "before", 6));
    assert_memory_equal(target.bytes, "before", 6);
    kill(target.pid, SIGKILL);
    assert_int_equal(status_of(target.pid), -1);
    target.pid = 0;
    for (int i = 0; i < 3; i++) {
        assert_fails(initiator_write(&initiator, 0, "after", 5), -EHOSTUNREACH, "gone");
        assert_fails(initiator_read(&initiator, 0, bytes, 5), -EHOSTUNREACH, "gone");
    }
    assert_memory_equal(target.bytes, "before", 6);
    initiator_close(&initiator);
    target_end(&target);
}

/* It has its region at the same address, with the same key. */
TEST(target__killed_and_restarted__remote_is_dead_and_reaches_nothing)
{
    enum hmreg_remote_state state = HMREG_REMOTE_CURRENT;
    struct hmreg_remote_flat before, after;
    struct initiator initiator, other;
    struct target target;

    target_start(&target, NULL);
    initiator_open(&initiator, &target);
    assert_ok(initiator_write(&initiator, 0, "before", 6));
    target_end(&target);
    target_start(&target, NULL);
    initiator_open(&other, &target);
    assert_ok(hmreg_remote_flatten(initiator.remote, &before));
    assert_ok(hmreg_remote_flatten(other.remote, &after));
    assert_true(before.base == after.base && before.key == after.key);
    assert_fails(initiator_write(&initiator, 0, "stale", 5), -EHOSTUNREACH, "gone");
    assert_ok(
        hmreg_remote_check(initiator.remote, target.page->token, target.page->token_size, &state));
    assert_int_equal(state, HMREG_REMOTE_DEAD);
    assert_fails(hmreg_remote_renew(initiator.remote, target.page->token, target.page->token_size),
                 -EOWNERDEAD, "another process");
    assert_ok(initiator_write(&other, 0, "fresh", 5));
    assert_memory_equal(target.bytes, "fresh", 6);
    initiator_close(&other);
    initiator_close(&initiator);
    target_end(&target);
}

TEST(target__gone_before_the_first_access__hostunreach)
{
    struct initiator initiator;
    struct target target;

    target_start(&target, NULL);
    kill(target.pid, SIGKILL);
    assert_int_equal(status_of(target.pid), -1);
    target.pid = 0;
    initiator_open(&initiator, &target);
    assert_fails(initiator_write(&initiator, 0, "after", 5), -EHOSTUNREACH, "gone");
    initiator_close(&initiator);
    target_end(&target);
}

struct attempt {
    struct initiator *initiator;
    size_t len;
    int rc;
    char text[768];
    atomic_int done;
};

static void *write_in_thread(void *arg)
{
    struct attempt *attempt = arg;

    attempt->rc = initiator_write(attempt->initiator, 0, bytes, attempt->len);
    snprintf(attempt->text, sizeof(attempt->text), "%s", hmreg_last_error()->text);
    atomic_store(&attempt->done, 1);
    return NULL;
}

static void stop(pid_t pid)
{
    int status;

    kill(pid, SIGSTOP);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
}

static atomic_uint looks; /* of initiators: does the target live? */

int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout);

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    int rc = __real_poll(fds, count, timeout);

    if (!timeout)
        atomic_fetch_add(&looks, 1);
    return rc;
}

TEST(target__stopped_and_continued__the_write_arrives)
{
    struct initiator initiator;
    struct attempt attempt = {.initiator = &initiator, .len = TARGET_BYTES};
    struct target target;
    pthread_t thread;
    unsigned before;

    memset(bytes, 's', sizeof(bytes));
    target_start(&target, NULL);
    initiator_open(&initiator, &target);
    stop(target.pid);
    before = atomic_load(&looks);
    assert_int_equal(pthread_create(&thread, NULL, write_in_thread, &attempt), 0);
    test_wait_until(atomic_load(&looks) > before);
    assert_int_equal(atomic_load(&attempt.done), 0);
    kill(target.pid, SIGCONT);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(attempt.rc, 0);
    assert_memory_equal(target.bytes, bytes, TARGET_BYTES);
    initiator_close(&initiator);
    target_end(&target);
}

TEST(target__stopped_and_killed__hostunreach)
{
    struct initiator initiator;
    struct attempt attempt = {.initiator = &initiator, .len = TARGET_BYTES};
    struct target target;
    pthread_t thread;

    target_start(&target, NULL);
    initiator_open(&initiator, &target);
    stop(target.pid);
    assert_int_equal(pthread_create(&thread, NULL, write_in_thread, &attempt), 0);
    test_wait_until_others_sleep();
    kill(target.pid, SIGKILL);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(attempt.rc, -EHOSTUNREACH);
    initiator_close(&initiator);
    target_end(&target);
}

static int lifeline[2]; /* of a child without a parent: it ends when the test closes this */

/* A forked child has all sockets of the target, until it execs. */
static void leave_a_child(int signal)
{
    if (fork() == 0) {
        char none;

        prctl(PR_SET_PDEATHSIG, 0);
        close(lifeline[1]);
        _exit((int)read(lifeline[0], &none, 1));
    }
    raise(SIGKILL);
}

static void fork_on_signal(void)
{
    signal(SIGUSR1, leave_a_child);
}

TEST(target__dead_but_its_forked_child_runs__hostunreach)
{
    struct initiator initiator;
    struct target target;

    assert_int_equal(pipe(lifeline), 0);
    target_start(&target, fork_on_signal);
    initiator_open(&initiator, &target);
    assert_ok(initiator_write(&initiator, 0, "x", 1));
    kill(target.pid, SIGUSR1);
    assert_int_equal(status_of(target.pid), -1);
    target.pid = 0;
    assert_fails(initiator_write(&initiator, 0, "y", 1), -EHOSTUNREACH, "gone");
    assert_fails(initiator_read(&initiator, 0, bytes, 1), -EHOSTUNREACH, "gone");
    initiator_close(&initiator);
    target_end(&target);
    close(lifeline[0]);
    close(lifeline[1]);
}

/* ---- initiators that end ---------------------------------------------------------------- */

TEST(initiator__killed_at_any_moment__others_are_served)
{
    struct initiator initiator;
    struct target target;

    target_start(&target, NULL);
    initiator_open(&initiator, &target);
    for (int i = 0; i < 20; i++) {
        pid_t child;

        target.page->ready = 0;
        child = test_fork();
        if (child == 0) {
            struct initiator own;

            initiator_open(&own, &target);
            for (;; target.page->ready++)
                initiator_write(&own, TARGET_BYTES / 2, bytes, TARGET_BYTES / 2);
        }
        while (target.page->ready < i)
            sched_yield();
        kill(child, SIGKILL);
        assert_int_equal(status_of(child), -1);
        memset(bytes, 'a' + i, 1000);
        assert_ok(initiator_write(&initiator, 7, bytes, 1000));
        assert_memory_equal(target.bytes + 7, bytes, 1000);
    }
    initiator_close(&initiator);
    target_end(&target);
}

/* ---- many ------------------------------------------------------------------------------- */

/* One descriptor per remote would exceed many processes' limit. */
TEST(remotes__many_to_one_target__one_connection)
{
    enum { REMOTES = 400 };
    struct hmreg_remote *remotes[REMOTES];
    struct initiator initiator;
    uint64_t addr, key;
    struct target target;
    int fds;

    target_start(&target, NULL);
    initiator_open(&initiator, &target);
    assert_ok(initiator_write(&initiator, 0, "x", 1));
    fds = test_count_fds();
    for (int i = 0; i < REMOTES; i++) {
        assert_ok(hmreg_remote_open(initiator.domain, target.page->token, target.page->token_size,
                                    &remotes[i]));
        assert_ok(hmreg_remote_addr(remotes[i], (uint64_t)i, 1, &addr, &key));
        assert_ok(hmreg_loopback_write(remotes[i], "y", 1, NULL, addr, key));
    }
    assert_int_equal(test_count_fds(), fds);
    for (int i = 0; i < REMOTES; i++)
        hmreg_remote_close(remotes[i]);
    assert_ok(initiator_write(&initiator, 0, "z", 1));
    assert_memory_equal(target.bytes, "zyyy", 4);
    initiator_close(&initiator);
    target_end(&target);
}

/* More than a target keeps open: it closes idle connections, which are opened again later. */
TEST(initiators__more_than_a_target_keeps__all_are_served)
{
    enum { DOMAINS = 300 };
    struct hmreg_domain *domains[DOMAINS];
    struct hmreg_remote *remotes[DOMAINS];
    struct hmreg *lib;
    uint64_t addr, key;
    struct target target;

    target_start(&target, NULL);
    assert_ok(hmreg_open(NULL, &lib));
    for (int i = 0; i < DOMAINS; i++) {
        assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &domains[i]));
        assert_ok(hmreg_remote_open(domains[i], target.page->token, target.page->token_size,
                                    &remotes[i]));
    }
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < DOMAINS; i++) {
            char byte = (char)(round + i);

            assert_ok(hmreg_remote_addr(remotes[i], (uint64_t)i, 1, &addr, &key));
            assert_ok(hmreg_loopback_write(remotes[i], &byte, 1, NULL, addr, key));
            assert_int_equal(target.bytes[i], byte);
        }
    for (int i = 0; i < DOMAINS; i++) {
        hmreg_remote_close(remotes[i]);
        assert_ok(hmreg_domain_close(domains[i]));
    }
    assert_ok(hmreg_close(lib));
    target_end(&target);
}

/* ---- descriptors ------------------------------------------------------------------------ */

TEST(initiator__no_descriptor_left__emfile_and_again_later)
{
    struct rlimit before, none;
    struct initiator initiator;
    struct target target;
    int lowest;

    target_start(&target, NULL);
    initiator_open(&initiator, &target);
    lowest = dup(0);
    close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){(rlim_t)lowest + 1, before.rlim_max}; /* one, to read the memory */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(initiator_write(&initiator, 0, "x", 1), -EMFILE);
    close(lowest);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_ok(initiator_write(&initiator, 0, "x", 1));
    initiator_close(&initiator);
    target_end(&target);
}

static void use_up_descriptors(int signal)
{
    int before = errno;
    struct rlimit low;
    int fd;

    getrlimit(RLIMIT_NOFILE, &low);
    low.rlim_cur = 64;
    setrlimit(RLIMIT_NOFILE, &low);
    do {
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    } while (fd >= 0);
    target_page->ready = 2;
    errno = before;
}

static void use_up_on_signal(void)
{
    signal(SIGUSR1, use_up_descriptors);
}

#define REFUSED 6

/* Of a target without a descriptor: how often it tried to accept an initiator, and when. */
static struct {
    atomic_uint count;
    int64_t ms[REFUSED];
} * refused;

int __real_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);

int __wrap_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
    int accepted = __real_accept4(fd, addr, len, flags);
    unsigned count = refused ? atomic_load(&refused->count) : REFUSED;
    struct timespec now;
    int before = errno;

    if (accepted >= 0 || count == REFUSED)
        return accepted;
    clock_gettime(CLOCK_MONOTONIC, &now);
    refused->ms[count] = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    atomic_store(&refused->count, count + 1);
    errno = before;
    return accepted;
}

/* It rests for 100 ms between two attempts, and serves the waiting initiators later. */
TEST(target__no_descriptor_left__initiators_wait)
{
    struct initiator late;
    struct attempt attempt = {.initiator = &late, .len = 1000};
    struct rlimit more = {4096, 4096};
    struct target target;
    pthread_t thread;

    refused =
        mmap(NULL, sizeof(*refused), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(refused, MAP_FAILED);
    target_start(&target, use_up_on_signal);
    kill(target.pid, SIGUSR1);
    while (target.page->ready != 2)
        sched_yield();
    initiator_open(&late, &target);
    memset(bytes, 'l', 1000);
    assert_int_equal(pthread_create(&thread, NULL, write_in_thread, &attempt), 0);
    test_wait_until(atomic_load(&refused->count) == REFUSED);
    assert_true(refused->ms[REFUSED - 1] - refused->ms[0] >= (REFUSED - 1) * 99);
    if (prlimit(target.pid, RLIMIT_NOFILE, &more, NULL))
        test_skip("limits of another process are not ours to change here");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(attempt.rc, 0);
    assert_memory_equal(target.bytes, bytes, 1000);
    initiator_close(&late);
    target_end(&target);
    munmap(refused, sizeof(*refused));
    refused = NULL;
}

/* ---- interrupted ------------------------------------------------------------------------ */

static volatile sig_atomic_t alarms;

static void count_alarm(int signal)
{
    alarms++;
}

TEST(rma__interrupted_by_signals__completes)
{
    struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = count_alarm}, before; /* no SA_RESTART */
    struct initiator initiator;
    struct target target;

    target_start(&target, NULL);
    initiator_open(&initiator, &target);
    alarms = 0;
    sigaction(SIGALRM, &action, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 20 || alarms < 20; i++) {
        memset(bytes, i, sizeof(bytes));
        assert_ok(initiator_write(&initiator, 0, bytes, TARGET_BYTES));
        assert_ok(initiator_read(&initiator, 0, bytes, TARGET_BYTES));
        assert_int_equal(target.bytes[i], (char)i);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    initiator_close(&initiator);
    target_end(&target);
}

/* ---- memory that is not there ----------------------------------------------------------- */

TEST(rma__local_memory_partly_unmapped__no_byte_moves)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = 40 * page; /* more than one piece */
    struct initiator initiator;
    struct target target;
    char *local = mmap((void *)0x220000000000, whole, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    memset(local, 'l', whole);
    munmap(local + whole - page, page);
    target_start(&target, NULL);
    initiator_open(&initiator, &target);
    assert_fails(initiator_write(&initiator, 0, local, whole), -EFAULT, "nothing is mapped");
    assert_int_equal(target.bytes[0], 0);
    memset(target.bytes, 't', TARGET_BYTES);
    assert_fails(initiator_read(&initiator, 0, local, whole), -EFAULT, "nothing is mapped");
    assert_int_equal(local[0], 'l');
    mprotect(local + page, page, PROT_READ);
    assert_fails(initiator_read(&initiator, 0, local, 2 * page), -EFAULT, "not mapped for writing");
    assert_int_equal(local[0], 'l');
    mprotect(local + page, page, PROT_NONE);
    assert_fails(initiator_write(&initiator, 0, local, 2 * page), -EFAULT,
                 "not mapped for reading");
    assert_int_equal(target.bytes[0], 't');
    munmap(local, whole - page);
    initiator_close(&initiator);
    target_end(&target);
}

/* ---- identity of the target's process --------------------------------------------------- */

static int as_nobody(const struct target *target)
{
    struct initiator initiator;

    if (setgid(65534) || setuid(65534))
        return 77;
    initiator_open(&initiator, target);
    return initiator_write(&initiator, 0, "n", 1) == -EHOSTUNREACH &&
                   strstr(hmreg_last_error()->text, "not of our user")
               ? 0
               : 1;
}

TEST(initiator__of_another_user__hostunreach)
{
    struct target target;
    int status;
    pid_t child;

    if (geteuid() != 0)
        test_skip("only root can become another user");
    target_start(&target, NULL);
    child = fork();
    if (child == 0)
        _exit(as_nobody(&target));
    status = status_of(child);
    assert_int_equal(target.bytes[0], 0);
    target_end(&target);
    if (status == 77)
        test_skip("becoming another user is not permitted here");
    assert_int_equal(status, 0);
}

/* Runs as the first process of a new pid namespace; 77: not permitted. */
static int as_pid_1(int (*run)(const struct target *target), const struct target *target)
{
    pid_t child;

    if (unshare(CLONE_NEWPID))
        return 77;
    child = fork();
    if (child == 0)
        _exit(getpid() == 1 ? run(target) : 10);
    return status_of(child);
}

/* A token of another process with pid 1 must not reach our memory. */
static int write_as_pid_1(const struct target *target)
{
    static char own[TARGET_BYTES];
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;
    struct hmreg *lib;
    struct initiator initiator;

    /* The same as the target's, including the key. */
    if (hmreg_open(NULL, &lib) || hmreg_domain_open_loopback(lib, NULL, NULL, &domain) ||
        hmreg_mr_reg(domain, own, sizeof(own), HMREG_ACCESS_REMOTE, 0, 9, 0, &mr, NULL))
        return 1;
    initiator = (struct initiator){.lib = lib, .domain = domain};
    if (hmreg_remote_open(domain, target->page->token, target->page->token_size, &initiator.remote))
        return 2;
    if (initiator_write(&initiator, 0, "far", 3))
        return 3;
    return own[0] ? 4 : 0;
}

static void become_pid_1(void)
{
    pid_t child;

    if (unshare(CLONE_NEWPID))
        return;
    child = fork();
    if (child) { /* the target is the child, and must end with this process */
        status_of(child);
        _exit(0);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* As in two containers. */
TEST(peers__both_are_process_1__each_is_itself)
{
    struct target target;
    int status;
    pid_t child;

    target_start(&target, become_pid_1);
    child = fork();
    if (child == 0)
        _exit(as_pid_1(write_as_pid_1, &target));
    status = status_of(child);
    if (status == 77)
        test_skip("new pid namespaces are not permitted here");
    assert_int_equal(status, 0);
    assert_memory_equal(target.bytes, "far", 3);
    target_end(&target);
}

TEST_MAIN()
