/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * A fork by another thread at the moment at which a fork handler of the library has just been
 * registered: the child registers none twice, or its own next fork would wait for itself. */
#include "tests/support/test.h"

#include <hmreg/loopback.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST 8

/* Exit statuses of the children; each is of a fork in the middle of a registration. */
static int statuses[MOST];
static unsigned forks;
static pid_t in_child;

static int open_and_close(void)
{
    struct hmreg_config config = {.size = sizeof(config), .ifaces = HMREG_IFACE_BIT(0)};
    struct hmreg_domain *domain = NULL;
    struct hmreg *lib = NULL;
    int failed = hmreg_open(&config, &lib);

    failed = failed || hmreg_domain_open_loopback(lib, NULL, NULL, &domain);
    failed = failed || hmreg_domain_close(domain);
    return failed || hmreg_close(lib);
}

/* In the child: the library is used, and forks are made. */
static int live_on(void)
{
    int status = -1;
    pid_t child;

    alarm(20);
    in_child = getpid();
    if (open_and_close())
        return 1;
    child = fork();
    if (child == 0)
        _exit(0);
    return waitpid(child, &status, 0) == child && !status ? 0 : 2;
}

static void *fork_now(void *arg)
{
    pid_t child = fork();

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
    int rc = __real_pthread_atfork(prepare, parent, child);
    pthread_t thread;

    if (!in_child && forks < MOST && !pthread_create(&thread, NULL, fork_now, NULL))
        pthread_join(thread, NULL);
    return rc;
}

static void fork__while_handlers_are_registered__child_registers_none_twice(void **state)
{
    test_forks_with_threads();
    assert_int_equal(open_and_close(), 0);
    assert_int_not_equal(forks, 0);
    for (unsigned i = 0; i < forks; i++)
        assert_int_equal(statuses[i], 0);
}

TEST_MAIN(TEST(fork__while_handlers_are_registered__child_registers_none_twice))
