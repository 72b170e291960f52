/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Random calls of hmreg_kfi by the client's threads (kmod/fuzz.c), each of a process that a signal
 * may kill, while the limit of time changes. All closes in the end; the guest fails if its kernel
 * complains.
 *
 *     kfi_fuzz "" [SEED [ROUNDS]]
 */
#include "tests/kfi/peer.h"
#include "tests/support/test.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>

#define PROCESSES 4
#define STEPS     1000

static unsigned seed = 1;
static unsigned long rounds;

static void change_limit(unsigned milliseconds)
{
    FILE *file = fopen("/sys/module/hmreg_kfi/parameters/timeout_ms", "w");

    assert_non_null(file);
    fprintf(file, "%u\n", milliseconds);
    assert_int_equal(fclose(file), 0);
}

static pid_t start(struct peer *peer, unsigned *random)
{
    struct client_fuzz call = {.seed = (unsigned)rand_r(random), .steps = STEPS};
    pid_t child = test_fork();

    if (!child)
        _exit(ioctl(peer->client, CLIENT_FUZZ, &call) != 0);
    return child;
}

static void await(pid_t child, bool is_killed)
{
    int status;

    if (is_killed)
        kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(is_killed || (WIFEXITED(status) && !WEXITSTATUS(status)));
}

static void pause_a_little(unsigned *random)
{
    struct timespec time = {.tv_nsec = rand_r(random) % 30000000};

    nanosleep(&time, NULL);
}

TEST(calls__random__all_closes_in_the_end)
{
    static const char *const names[FUZZ_COUNTS] = {"registered", "refused", "given up", "closed",
                                                   "not closed", "events",  "handled",  "domains"};
    static const unsigned limits[] = {1, 2, 5, 20};
    struct client_fuzzed done = {.rc = 0};
    pid_t children[PROCESSES];
    unsigned random = seed;
    struct peer peer;

    if (!rounds)
        rounds = test_times(5000);
    peer_open(&peer);
    for (unsigned i = 0; i < PROCESSES; i++)
        children[i] = start(&peer, &random);
    for (unsigned long round = 0; round < rounds; round++) {
        unsigned which = (unsigned)rand_r(&random) % PROCESSES;

        change_limit(limits[(unsigned)rand_r(&random) % 4]);
        if (rand_r(&random) % 2)
            pause_a_little(&random);
        await(children[which], rand_r(&random) % 2);
        children[which] = start(&peer, &random);
        if (round % 200 == 199)
            printf("%lu rounds of %lu\n", round + 1, rounds);
    }
    for (unsigned i = 0; i < PROCESSES; i++)
        await(children[i], false);
    change_limit(60000);
    assert_int_equal(peer_call(&peer, CLIENT_FUZZ_END, &done), 0);
    assert_int_equal(done.rc, 0);
    for (unsigned i = 0; i < FUZZ_COUNTS; i++) {
        printf("%s %u\n", names[i], done.counts[i]);
        assert_true(done.counts[i] > 0);
    }
    peer_close(&peer);
    assert_int_equal(peer_unload("hmreg_kfi_client"), 0);
    assert_int_equal(peer_unload("hmreg_kfi"), 0);
}

int main(int argc, char **argv)
{
    if (argc > 2)
        seed = (unsigned)strtoul(argv[2], NULL, 0);
    if (argc > 3)
        rounds = strtoul(argv[3], NULL, 0);
    return test_main(argc, argv);
}
