/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * For LD_PRELOAD, in place of a fabric's library whose handlers of signals call exit(3) and whose
 * destructor then waits for ever, as libfabric's psm providers do. The handlers are installed when
 * it is loaded, and again, as by one that is loaded later, by fi_getinfo(). ibv_get_device_list()
 * tells the test that this process is inside it, and does not return: in the process
 * EXITER_COMMAND, or with EXITER_IN=child in others only. What it tells are `struct exiter_word`s
 * in EXITER_PIPE.
 */
#include "tests/support/exiter.h"

#include <infiniband/verbs.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

static volatile sig_atomic_t is_handling;

static void tell(int what)
{
    struct exiter_word word = {.pid = getpid(), .what = what};
    const char *pipe = getenv("EXITER_PIPE");

    if (!pipe || write(atoi(pipe), &word, sizeof(word)) != sizeof(word))
        abort();
}

static void wait_for_ever(void)
{
    for (;;)
        pause();
}

static void handle(int number)
{
    is_handling = 1;
    exit(1);
}

__attribute__((constructor)) static void install(void)
{
    const struct sigaction action = {.sa_handler = handle};

    sigaction(SIGHUP, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
}

__attribute__((destructor)) static void end(void)
{
    if (!is_handling)
        return;
    tell(EXITER_ENDS);
    if (!getenv("EXITER_IN"))
        wait_for_ever();
}

EXPORTED int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                        const struct fi_info *hints, struct fi_info **info)
{
    install();
    return -FI_ENODATA;
}

EXPORTED struct ibv_device **ibv_get_device_list(int *count)
{
    const char *in = getenv("EXITER_IN"), *command = getenv("EXITER_COMMAND");

    if (!command || (in && !strcmp(in, "child")) == (atoi(command) == getpid()))
        return calloc(1, sizeof(struct ibv_device *));
    tell(EXITER_INSIDE);
    wait_for_ever();
    return NULL;
}

EXPORTED void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}
