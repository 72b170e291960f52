/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * A fork by another thread just after a fork handler of the library was registered: the child does
 * not register it again, which would make its own next fork wait for itself. Loopback registers its
 * handlers when it is loaded; one test runs in a process in which that failed. */
#include "tests/support/test.h"

#include <hmreg/loopback.h>
#include <pthread.h>
#include <sys/wait.h>

#define MOST 8

/* Exit statuses of the children; each is forked in the middle of a registration. */
static int statuses[MOST];
static unsigned forks;
static bool in_test;
static pid_t in_child;

/* With each monitor that this machine supports. */
static int open_and_close(void)
{
    static const enum hmreg_monitor monitors[] = {HMREG_MONITOR_USERFAULTFD,
                                                  HMREG_MONITOR_MEMHOOKS};

    for (int i = 0; i < 2; i++) {
        struct hmreg_config config = {
            .size = sizeof(config), .ifaces = HMREG_IFACE_BIT(0), .monitor = monitors[i]};
        struct hmreg_domain *domain = NULL;
        struct hmreg *lib = NULL;

        if (hmreg_open(&config, &lib))
            continue;
        if (hmreg_domain_open_loopback(lib, NULL, NULL, &domain) || hmreg_domain_close(domain) ||
            hmreg_close(lib))
            return 1;
    }
    return 0;
}

/* In the child: uses the library, and forks again. */
static int live_on(void)
{
    in_child = getpid();
    if (open_and_close())
        return 1;
    test_in_child(0);
    return 0;
}

static void *fork_now(void *arg)
{
    pid_t child = test_fork();

    if (child == 0)
        _exit(live_on());
    statuses[forks] = -1;
    waitpid(child, &statuses[forks], 0);
    forks++;
    return NULL;
}

int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
int __real_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

int __wrap_pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    pthread_t thread;
    int rc;

    if (!in_test && getenv("HMREG_TEST_REFUSE"))
        return ENOMEM;
    rc = __real_pthread_atfork(prepare, parent, child);
    if (in_test && !in_child && forks < MOST && !pthread_create(&thread, NULL, fork_now, NULL))
        pthread_join(thread, NULL);
    return rc;
}

TEST(fork__while_handlers_are_registered__child_registers_none_twice)
{
    test_forks_with_threads();
    in_test = true;
    assert_int_equal(open_and_close(), 0);
    if (!forks)
        test_skip("there is no monitor here that needs fork handlers");
    for (unsigned i = 0; i < forks; i++)
        assert_int_equal(statuses[i], 0);
}

TEST(load__handlers_are_refused__no_loopback)
{
    struct hmreg_config config = {.size = sizeof(config), .ifaces = HMREG_IFACE_BIT(0)};
    struct hmreg_domain *domain = NULL;
    struct hmreg *lib = NULL;
    pid_t child;

    in_test = true;
    if (getenv("HMREG_TEST_REFUSE")) {
        assert_ok(hmreg_open(&config, &lib));
        assert_fails(hmreg_domain_open_loopback(lib, NULL, NULL, &domain), -ENOMEM, "no memory");
        assert_ok(hmreg_close(lib));
        return;
    }
    child = fork();
    if (child == 0) {
        setenv("HMREG_TEST_REFUSE", "1", 1);
        execl("/proc/self/exe", "refused", "load__", NULL);
        _exit(77);
    }
    test_await_or_skip(child, "a program cannot execute itself here: an emulator");
}

TEST_MAIN()
