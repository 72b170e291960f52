/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Cached gets with attributes: the variants that tell them apart, and the life of a caller's
 * dmabuf. What one get does is in hmreg_mr_get_attr.c.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"
#include "tests/support/queries.h"
#include "tests/support/vendors.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#define LEN 4096

static char memory[8][LEN] __attribute__((aligned(LEN)));

struct asked {
    struct iovec iov;
    struct hmreg_mr_dmabuf dmabuf;
    struct hmreg_mr_attr attr;
};

static void open_fixture(uint32_t flags, uint64_t max_regions)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .flags = flags, .max_regions = max_regions};

    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, &config);
}

static struct hmreg_mr *get(const struct hmreg_mr_attr *attr, uint64_t flags)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get_attr(fixture.domain, attr, flags, &mr));
    return mr;
}

/* Gets, puts, and gives the number of the registration. */
static uint64_t key_of(const struct hmreg_mr_attr *attr, uint64_t flags)
{
    struct hmreg_mr *mr = get(attr, flags);
    uint64_t key = hmreg_mr_key(mr);

    hmreg_mr_put(mr);
    return key;
}

static unsigned variants(void)
{
    return inside_variants(fixture.domain);
}

/* ---- the key ---------------------------------------------------------------------------- */

/* A look-up that finds the slot of a plain region, in a domain that has no variants yet. */
TEST(get_attr__slot_of_a_plain_region__not_found)
{
    open_fixture(0, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fixture_key(memory[0], LEN), 1);
    assert_null(inside_remembered_in_slot(fixture.domain, memory[0], LEN, HMREG_ACCESS_REMOTE));
}

/* ---- the caller's dmabuf ---------------------------------------------------------------- */

static int dmabuf_new(size_t pages)
{
    int fd = memfd_create("hmreg-test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(pages * LEN)), 0);
    return fd;
}

static struct hmreg_mr_attr *ask_dmabuf(struct asked *asked, int fd, void *base, uint64_t offset,
                                        size_t len)
{
    asked->dmabuf =
        (struct hmreg_mr_dmabuf){.fd = fd, .base_addr = base, .offset = offset, .len = len};
    asked->attr = (struct hmreg_mr_attr){.size = sizeof(asked->attr),
                                         .access = HMREG_ACCESS_REMOTE,
                                         .dmabuf = &asked->dmabuf,
                                         .policy = HMREG_POLICY_KEEP};
    return &asked->attr;
}

static uint64_t dmabuf_key(int fd, void *base, uint64_t offset, size_t len)
{
    struct asked asked;

    return key_of(ask_dmabuf(&asked, fd, base, offset, len), HMREG_REG_DMABUF);
}

static bool is_mapped(const char *name)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    bool found = false;

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps))
        found |= strstr(line, name) != NULL;
    fclose(maps);
    return found;
}

/* On this fabric a mapping of the dmabuf keeps the memory. */
TEST(dmabuf__each_end__memory_let_go)
{
    int fd = dmabuf_new(1);

    open_fixture(0, 2);
    for (int end = 0; end < 3; end++) {
        dmabuf_key(fd, memory[0], 0, LEN);
        assert_true(is_mapped("hmreg-test"));
        if (end == 0)
            assert_ok(hmreg_domain_flush(fixture.domain));
        if (end == 1)
            assert_ok(hmreg_invalidate(fixture.lib, memory[0] + 1, 1));
        for (int i = 1; i < 8 && end == 2; i++)
            fixture_key(memory[i], LEN);
        assert_ok(hmreg_domain_progress(fixture.domain));
        assert_false(is_mapped("hmreg-test"));
        assert_int_equal(variants(), 0);
    }
    close(fd);
}

/* Its address is a vendor's memory, so it ends with that: hits ask for the identity where the
 * vendor does not report the end. */
TEST(dmabuf__of_a_known_device__ends_with_its_memory)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct vendor *cuda = &vendors[HMREG_IFACE_CUDA];
    struct vendor_claim *claim;
    struct hmreg_mr *mr;
    struct asked asked;
    int fd = dmabuf_new(1);
    unsigned asks;

    open_fixture(0, 0);
    claim = vendor_claim(HMREG_IFACE_CUDA, memory[2], LEN, HMREG_MEM_DEVICE, 1);
    mr = get(ask_dmabuf(&asked, fd, memory[2], 0, LEN), HMREG_REG_DMABUF);
    assert_ok(hmreg_mr_query(mr, &info));
    assert_int_equal(info.iface, HMREG_IFACE_CUDA);
    assert_int_equal(info.device, 1);
    assert_int_equal(info.asks, HMREG_ASKS_RUNTIME);
    asks = cuda->identities;
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(dmabuf_key(fd, memory[2], 0, LEN), hmreg_mr_key(mr));
        assert_int_equal(cuda->identities, asks + i);
    }
    vendor_renew(claim);
    assert_int_not_equal(dmabuf_key(fd, memory[2], 0, LEN), hmreg_mr_key(mr));
    hmreg_mr_put(mr);
    close(fd);
}

/* ---- threads ---------------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS  2000

struct worker {
    const int *fds;
    unsigned seed;
};

static void *work(void *arg)
{
    struct worker *worker = arg;
    uint64_t keys[2][4] = {{0}};

    for (int i = 0; i < ROUNDS; i++) {
        unsigned which = (unsigned)rand_r(&worker->seed) % 4;
        bool plain = rand_r(&worker->seed) % 2;
        uint64_t key = plain ? fixture_key(memory[which], LEN)
                             : dmabuf_key(worker->fds[which], memory[which], 0, LEN);

        if (keys[plain][which] && keys[plain][which] != key)
            return arg;
        keys[plain][which] = key;
    }
    return NULL;
}

TEST(dmabuf__many_threads__each_registered_once)
{
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    int fds[4];

    open_fixture(0, 0);
    for (int i = 0; i < 4; i++)
        fds[i] = dmabuf_new(1);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){fds, i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;

        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(atomic_load(&counter.regs), 8);
    assert_int_equal(fixture_stats().hits + 8, THREADS * ROUNDS);
    for (int i = 0; i < 4; i++)
        close(fds[i]);
}

TEST_MAIN();
