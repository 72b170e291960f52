/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Many threads at once: each sees its own memory, one identity for one memory, and none that has
 * ended. Threads only count errors: cmocka's assertions are for the main thread.
 */
#include "tests/gpu/gpu.h"

#include <pthread.h>

#define THREADS 6
#define BLOCKS  32
#define ROUNDS  100
#define LEN     4096

static struct hmem *self;
static pthread_barrier_t start;

struct worker {
    const uint64_t *blocks; /* long-lived memory, of each kind in turn */
    uint64_t seen[ROUNDS];
    unsigned wrong;
};

static void run_all(void *(*work)(void *), struct worker *workers)
{
    pthread_barrier_init(&start, NULL, THREADS);
    test_on_threads(THREADS, work, workers, sizeof(workers[0]));
    pthread_barrier_destroy(&start);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(workers[i].wrong, 0);
}

static enum hmreg_mem_kind kind_of(unsigned i)
{
    return gpu_kinds[i % gpu.kinds];
}

/* ---- memory allocated and freed by threads ---------------------------------------------- */

/* Writes a byte of its memory, exports it, reads it back. */
static bool is_usable(uint64_t addr, size_t len, const struct hmem_range *range)
{
    unsigned char mark = (unsigned char)(range->identity | 1), seen = 0;
    struct hmreg_dmabuf dmabuf = {.fd = -1};
    bool usable = !gpu.ops->copy(self, addr + len - 1, (uintptr_t)&mark, 1);

    if (range->exportable)
        usable = !gpu.ops->export_dmabuf(self, addr, len, range, 0, &dmabuf) && !close(dmabuf.fd) &&
                 usable;
    return !gpu.ops->copy(self, (uintptr_t)&seen, addr + len - 1, 1) && seen == mark && usable;
}

static void use_own_memory(struct worker *worker, unsigned i)
{
    int device = (int)i % gpu.devices();
    size_t len = 100 + i * 613;
    struct hmem_range range = {0};
    void *made = NULL;

    if (gpu.ops->alloc(self, device, kind_of(i), len, &made)) {
        worker->wrong++;
        return;
    }
    worker->wrong += gpu.ops->resolve(self, (uintptr_t)made, len, &range) ||
                     range.alloc_base != (uintptr_t)made || range.alloc_len != len ||
                     range.kind != kind_of(i);
    if (range.kind == HMREG_MEM_DEVICE)
        worker->wrong += range.device != device || !is_usable((uintptr_t)made, len, &range);
    worker->seen[i] = range.identity;
    worker->wrong += gpu.ops->free(self, made, kind_of(i)) != 0;
}

static void *use_all_calls(void *arg)
{
    struct worker *worker = arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t block = worker->blocks[i % BLOCKS];
        struct hmem_range range = {0};

        use_own_memory(worker, i);
        worker->wrong += gpu.ops->resolve(self, block + 64, 64, &range) ||
                         range.kind != kind_of(i % BLOCKS) || range.alloc_base != block;
        worker->wrong +=
            gpu.ops->resolve(self, (uintptr_t)&range, sizeof(range), &range) != -HMEM_NOT_MINE;
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void alloc_blocks(uint64_t *blocks)
{
    for (unsigned i = 0; i < BLOCKS; i++)
        blocks[i] = gpu.alloc((int)i % gpu.devices(), kind_of(i), LEN);
}

static void free_blocks(const uint64_t *blocks)
{
    for (unsigned i = 0; i < BLOCKS; i++)
        gpu.free(blocks[i], kind_of(i));
}

TEST(all_calls__on_many_threads__each_sees_its_own)
{
    static struct worker workers[THREADS];
    uint64_t blocks[BLOCKS], all[THREADS * ROUNDS];

    self = gpu.begin();
    alloc_blocks(blocks);
    for (int i = 0; i < THREADS; i++)
        workers[i] = (struct worker){.blocks = blocks};
    run_all(use_all_calls, workers);
    for (int i = 0; i < THREADS; i++)
        memcpy(all + (size_t)i * ROUNDS, workers[i].seen, sizeof(workers[i].seen));
    qsort(all, THREADS * ROUNDS, sizeof(all[0]), by_value);
    assert_int_not_equal(all[0], 0);
    for (unsigned i = 1; i < THREADS * ROUNDS; i++)
        assert_int_not_equal(all[i], all[i - 1]);
    free_blocks(blocks);
    gpu.end(self);
}

/* ---- long-lived memory ------------------------------------------------------------------ */

static void *ask_first(void *arg)
{
    struct worker *worker = arg;

    for (unsigned i = 0; i < BLOCKS; i++) {
        struct hmem_range range = {0};

        pthread_barrier_wait(&start);
        worker->wrong += gpu.ops->resolve(self, worker->blocks[i], LEN, &range) != 0;
        worker->wrong += gpu.ops->identity(self, worker->blocks[i] + 1, 1, &worker->seen[i]) != 0;
        worker->wrong += range.identity != worker->seen[i];
    }
    return NULL;
}

TEST(identity__first_asked_on_all_threads__one)
{
    static struct worker workers[THREADS];
    uint64_t blocks[BLOCKS];

    self = gpu.begin();
    alloc_blocks(blocks);
    for (int i = 0; i < THREADS; i++)
        workers[i] = (struct worker){.blocks = blocks};
    run_all(ask_first, workers);
    for (int i = 0; i < THREADS; i++)
        assert_memory_equal(workers[i].seen, workers[0].seen, sizeof(workers[0].seen));
    for (unsigned i = 0; i < BLOCKS; i++)
        assert_int_not_equal(workers[0].seen[i], 0);
    free_blocks(blocks);
    gpu.end(self);
}

/* ---- a reused address ------------------------------------------------------------------- */

struct reader {
    uint64_t addr;
    _Atomic uint64_t over; /* the identity that ended last */
    _Atomic bool stop;
    _Atomic unsigned wrong;
};

static void *ask_again(void *arg)
{
    struct reader *reader = arg;

    while (!reader->stop) {
        uint64_t over = reader->over, identity = 0;
        int rc = gpu.ops->identity(self, reader->addr, LEN, &identity);

        reader->wrong += rc && rc != -HMEM_NOT_MINE;
        reader->wrong += !rc && identity && identity == over;
    }
    return NULL;
}

TEST(identity__freed_under_readers__never_the_old_one)
{
    struct reader reader = {0};
    pthread_t readers[2];

    gpu_need_fake();
    self = gpu.begin();
    reader.addr = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, ask_again, &reader), 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t identity = 0;

        gpu.ops->identity(self, reader.addr, LEN, &identity);
        gpu.free(reader.addr, HMREG_MEM_DEVICE);
        reader.over = identity;
        reader.wrong += gpu.alloc(0, HMREG_MEM_DEVICE, LEN) != reader.addr;
    }
    reader.stop = true;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(readers[i], NULL), 0);
    assert_int_equal(reader.wrong, 0);
    gpu.free(reader.addr, HMREG_MEM_DEVICE);
    gpu.end(self);
}

/* ---- vendors opened and closed ---------------------------------------------------------- */

static void *open_and_close(void *arg)
{
    struct worker *worker = arg;

    for (unsigned i = 0; i < ROUNDS / 4; i++) {
        struct hmem_range range = {0};
        struct hmem *own = NULL;

        if (gpu.ops->open(&own)) {
            worker->wrong++;
            continue;
        }
        worker->wrong += gpu.ops->resolve(own, worker->blocks[0], LEN, &range) || !range.identity;
        gpu.ops->close(own);
    }
    return NULL;
}

TEST(open__on_all_threads__each_its_own)
{
    static struct worker workers[THREADS];
    uint64_t addr;

    self = gpu.begin();
    addr = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);
    for (int i = 0; i < THREADS; i++)
        workers[i] = (struct worker){.blocks = &addr};
    run_all(open_and_close, workers);
    gpu.free(addr, HMREG_MEM_DEVICE);
    gpu.end(self);
}

TEST_MAIN()
