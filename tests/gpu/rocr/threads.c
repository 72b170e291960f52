/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Many threads at once: one identity for one memory, none that is over, nothing broken.
 */
#include "tests/gpu/rocr/app.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS 6
#define BLOCKS  32
#define ROUNDS  100
#define LEN     4096u

static const struct hmem_ops *ops = &hmem_rocr_ops;

static void run_all(void *(*work)(void *), void *args, size_t each)
{
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (char *)args + i * each), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

/* ---- one memory ------------------------------------------------------------------------- */

struct look {
    struct hmem *rocr;
    char **memory;
    pthread_barrier_t *start;
    uint64_t numbers[BLOCKS];
    unsigned wrong;
};

static void *look_at_all(void *arg)
{
    struct look *look = arg;

    pthread_barrier_wait(look->start);
    for (unsigned i = 0; i < BLOCKS; i++) {
        struct hmem_range range = {0};
        uint64_t number = 0;

        look->wrong += ops->resolve(look->rocr, at(look->memory[i]), LEN, &range) != 0;
        look->wrong += ops->identity(look->rocr, at(look->memory[i]) + 1, 1, &number) != 0;
        look->wrong += range.identity != number || range.device != (int)(i % 2);
        look->numbers[i] = number;
    }
    return NULL;
}

static void resolve__same_memory_on_all_threads__one_identity(void **state)
{
    struct hmem *rocr = app_open();
    struct look looks[THREADS] = {0};
    pthread_barrier_t start;
    char *memory[BLOCKS];

    pthread_barrier_init(&start, NULL, THREADS);
    for (unsigned i = 0; i < BLOCKS; i++)
        memory[i] = app_alloc(i % 2, LEN);
    for (unsigned i = 0; i < THREADS; i++)
        looks[i] = (struct look){.rocr = rocr, .memory = memory, .start = &start};
    run_all(look_at_all, looks, sizeof(looks[0]));
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(looks[i].wrong, 0);
        assert_memory_equal(looks[i].numbers, looks[0].numbers, sizeof(looks[0].numbers));
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        assert_int_not_equal(looks[0].numbers[i], 0);
        app_free(memory[i]);
    }
    pthread_barrier_destroy(&start);
    app_close(rocr);
}

/* ---- memory that comes and goes --------------------------------------------------------- */

struct churn {
    struct hmem *rocr;
    hsa_amd_memory_pool_t pool;
    uint64_t numbers[ROUNDS];
    unsigned wrong;
};

/* No assertions here: cmocka's jump back to the test's own thread. */
static void *allocate_and_free(void *arg)
{
    struct churn *churn = arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        struct hmreg_dmabuf dmabuf = {.fd = -1};
        struct hmem_range range = {0};
        void *memory = NULL;

        churn->wrong += app.hsa_amd_memory_pool_allocate(churn->pool, 600, 0, &memory) != 0;
        churn->wrong += ops->resolve(churn->rocr, at(memory), 600, &range) != 0;
        churn->wrong += ops->export_dmabuf(churn->rocr, at(memory) + 3, 5, &range, &dmabuf) != 0;
        churn->wrong += close(dmabuf.fd) != 0;
        churn->numbers[i] = range.identity;
        churn->wrong += app.hsa_amd_memory_pool_free(memory) != 0;
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void identity__memory_comes_and_goes__never_twice(void **state)
{
    struct hmem *rocr = app_open();
    struct churn churns[THREADS] = {0};
    uint64_t all[THREADS * ROUNDS];

    for (unsigned i = 0; i < THREADS; i++)
        churns[i] = (struct churn){.rocr = rocr, .pool = app_pool(i % 2)};
    run_all(allocate_and_free, churns, sizeof(churns[0]));
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(churns[i].wrong, 0);
        memcpy(all + i * ROUNDS, churns[i].numbers, sizeof(churns[i].numbers));
    }
    qsort(all, THREADS * ROUNDS, sizeof(all[0]), by_value);
    assert_int_not_equal(all[0], 0);
    for (unsigned i = 1; i < THREADS * ROUNDS; i++)
        assert_int_not_equal(all[i], all[i - 1]);
    app_close(rocr);
}

/* ---- an address used again and again ---------------------------------------------------- */

struct watch {
    struct hmem *rocr;
    uint64_t addr;
    _Atomic uint64_t over; /* the identity that ended last */
    _Atomic bool stop;
    _Atomic unsigned wrong;
};

static void *look_again(void *arg)
{
    struct watch *watch = arg;

    while (!watch->stop) {
        uint64_t over = watch->over, number = 0;
        int rc = ops->identity(watch->rocr, watch->addr, LEN, &number);

        if (rc && rc != -HMEM_NOT_MINE)
            watch->wrong++;
        if (!rc && number && number == over)
            watch->wrong++;
    }
    return NULL;
}

static void identity__freed_under_readers__never_the_old_one(void **state)
{
    struct watch watch = {.rocr = app_open()};
    pthread_t readers[2];
    char *memory = app_alloc(0, LEN);

    watch.addr = at(memory);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, look_again, &watch), 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t number = 0;

        ops->identity(watch.rocr, watch.addr, LEN, &number);
        app_free(memory);
        watch.over = number;
        memory = app_alloc(0, LEN);
        watch.wrong += at(memory) != watch.addr;
    }
    watch.stop = true;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    assert_int_equal(watch.wrong, 0);
    app_free(memory);
    app_close(watch.rocr);
}

/* ---- vendors that come and go ----------------------------------------------------------- */

struct visit {
    void *memory;
    unsigned wrong;
};

static void *open_and_close(void *arg)
{
    struct visit *visit = arg;

    for (unsigned i = 0; i < ROUNDS / 4; i++) {
        struct hmem *rocr = NULL;
        struct hmem_range range = {0};

        if (ops->open(&rocr)) {
            visit->wrong++;
            continue;
        }
        visit->wrong += ops->resolve(rocr, at(visit->memory), LEN, &range) != 0;
        visit->wrong += range.identity == 0;
        ops->close(rocr);
    }
    return NULL;
}

static void open__on_all_threads__each_its_own(void **state)
{
    struct visit visits[THREADS] = {0};
    void *memory;

    app_start();
    memory = app_alloc(0, LEN);
    for (unsigned i = 0; i < THREADS; i++)
        visits[i].memory = memory;
    run_all(open_and_close, visits, sizeof(visits[0]));
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(visits[i].wrong, 0);
    app_free(memory);
    app_stop();
}

TEST_MAIN(TEST(resolve__same_memory_on_all_threads__one_identity),
          TEST(identity__memory_comes_and_goes__never_twice),
          TEST(identity__freed_under_readers__never_the_old_one),
          TEST(open__on_all_threads__each_its_own))
