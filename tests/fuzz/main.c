/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fuzzer's test: a fixed seed and number of calls, or those of HMREG_FUZZ_SEED and
 * HMREG_FUZZ_CALLS; on the simulated devices that the environment offers. The harness counts
 * descriptors.
 */
#include "tests/fuzz/fuzz.h"
#include "tests/support/test.h"

#include <pthread.h>

#define THREADS 2

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *value = getenv(name);

    return value ? strtoull(value, NULL, 0) : otherwise;
}

static void *play(void *arg)
{
    struct fuzz *fuzz = arg;
    uint64_t calls = from_environment("HMREG_FUZZ_CALLS", test_times(200000));

    while (fuzz->calls < calls)
        fuzz_call(fuzz);
    fuzz_end(fuzz);
    return NULL;
}

TEST(calls__any_arguments__nothing_breaks)
{
    uint64_t seed = from_environment("HMREG_FUZZ_SEED", 1);
    static struct fuzz fuzz[THREADS];
    pthread_t threads[THREADS];
    struct hmreg *lib = NULL;

    assert_ok(hmreg_open(NULL, &lib));
    for (unsigned i = 0; i < THREADS; i++)
        fuzz_places_make(&fuzz[i]);
    for (unsigned i = 0; i < THREADS; i++) {
        fuzz[i].lib = lib;
        fuzz[i].state = (seed + i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        assert_int_equal(pthread_create(&threads[i], NULL, play, &fuzz[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        fuzz_places_free(&fuzz[i]);
        print_message("%lu calls, %lu succeeded\n", fuzz[i].calls, fuzz[i].successes);
        assert_true(fuzz[i].successes >
                    fuzz[i].calls / 10); /* the argument checks do not refuse all of them */
    }
    assert_ok(hmreg_close(lib));
}

TEST_MAIN()
