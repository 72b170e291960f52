/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Device memory in the cache, distinguished by its identity, which is read before registering,
 * compared afterwards, and read again at every hit.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"
#include "tests/support/queries.h"
#include "tests/support/vendors.h"

#include <sys/mman.h>

#define LEN 65536

static struct vendor *cuda = &vendors[HMREG_IFACE_CUDA];

static void open_fixture(const struct hmreg_domain_config *config)
{
    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, config);
}

/* Device memory at some address; its bytes do not matter here. */
static struct vendor_claim *claim(int device, enum hmreg_mem_kind kind)
{
    static char place[VENDOR_CLAIMS][LEN] __attribute__((aligned(LEN)));

    return vendor_claim(HMREG_IFACE_CUDA, place[cuda->count], LEN, kind, device);
}

static uint64_t key_of(const struct vendor_claim *claimed)
{
    return fixture_key((void *)(uintptr_t)claimed->addr, LEN);
}

/* ---- hits ------------------------------------------------------------------------------- */

static uint64_t hits_of(const struct hmreg_mr *mr)
{
    return inside_stats_with(fixture.domain, mr).hits;
}

static bool asks(const struct hmreg_mr *mr)
{
    return inside_asks(fixture.domain, mr);
}

/* One thread's hits of several caches: each is counted in its own. */
TEST(get__host_and_devices_by_one_thread__hits_of_each_counted)
{
    static char host[LEN];
    struct iovec iov[3] = {{host, LEN}};
    struct hmreg_mr *mrs[3];

    open_fixture(NULL);
    cuda->reports = true;
    for (int i = 0; i < 2; i++)
        iov[i + 1] = (struct iovec){(void *)(uintptr_t)claim(i, HMREG_MEM_DEVICE)->addr, LEN};
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 3; j++) {
            mrs[j] = fixture_get(iov[j].iov_base, LEN);
            hmreg_mr_put(mrs[j]);
        }
    for (int j = 0; j < 3; j++) {
        assert_false(asks(mrs[j]));
        assert_int_equal(hits_of(mrs[j]), 15);
    }
}

TEST(get__host_memory_unmapped_and_now_a_devices__not_the_hosts_region)
{
    char *memory = fixture_map(LEN / fixture_page());
    struct hmreg_mr *mr;

    vendors_reset();
    fixture_open(HMREG_MONITOR_USERFAULTFD, NULL);
    assert_int_equal(fixture_key(memory, LEN), 1);
    munmap(memory, LEN);
    assert_ptr_equal(
        mmap(memory, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
        memory);
    vendor_claim(HMREG_IFACE_CUDA, memory, LEN, HMREG_MEM_DEVICE, 1);
    mr = fixture_get(memory, LEN);
    assert_int_equal(test_info_of(mr).iface, HMREG_IFACE_CUDA);
    assert_int_equal(test_info_of(mr).device, 1);
    assert_int_equal(hmreg_mr_key(mr), 2);
    hmreg_mr_put(mr);
    munmap(memory, LEN);
}

TEST(get__each_device_and_pinned_memory__a_cache_each)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = 1};
    struct vendor_claim *memory[3];
    static char host[LEN];

    open_fixture(&config);
    memory[0] = claim(0, HMREG_MEM_DEVICE);
    memory[1] = claim(1, HMREG_MEM_DEVICE);
    memory[2] = claim(-1, HMREG_MEM_HOST_PINNED);
    memory[2]->range.identity = 77;
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(key_of(memory[i]), i + 1);
        assert_int_equal(fixture_key(host, LEN), 4);
    }
    assert_int_equal(fixture_stats().regions, 4); /* one each: no limit was met */
    assert_int_equal(fixture_stats().evictions, 0);
}

/* ---- memory that cannot be validated ---------------------------------------------------- */

TEST(get__device_or_managed_without_identity__not_cached)
{
    struct vendor_claim *memory;

    open_fixture(NULL);
    memory = claim(0, HMREG_MEM_DEVICE);
    memory->range.identity = 0;
    assert_int_equal(key_of(memory), 1);
    assert_int_equal(key_of(memory), 2);
    memory = claim(0, HMREG_MEM_MANAGED);
    memory->range.identity = 0;
    assert_int_equal(key_of(memory), 3);
    assert_int_equal(key_of(memory), 4);
    assert_int_equal(fixture_stats().uncached, 4);
    assert_int_equal(atomic_load(&counter.regions), 0);
}

/* ---- pinned host memory, which the monitor may watch ------------------------------------ */

TEST(get__pinned_without_identity__watched_like_any_host_memory)
{
    char *memory = fixture_map(LEN / fixture_page());

    vendors_reset();
    fixture_open(HMREG_MONITOR_USERFAULTFD, NULL);
    vendor_claim(HMREG_IFACE_CUDA, memory, LEN, HMREG_MEM_HOST_PINNED, -1);
    assert_int_equal(fixture_key(memory, LEN), 1);
    assert_int_equal(fixture_key(memory, LEN), 1);
    madvise(memory, LEN, MADV_DONTNEED);
    assert_int_equal(fixture_key(memory, LEN), 2);
    munmap(memory, LEN);
}

/* ---- switched off ----------------------------------------------------------------------- */

TEST(get__switched_off_in_the_environment__not_cached)
{
    struct vendor_claim *memory;
    static char host[LEN];

    setenv("FI_MR_CUDA_CACHE_MONITOR_ENABLED", "0", 1);
    open_fixture(NULL);
    unsetenv("FI_MR_CUDA_CACHE_MONITOR_ENABLED");
    memory = claim(0, HMREG_MEM_DEVICE);
    assert_int_equal(key_of(memory), 1);
    assert_int_equal(key_of(memory), 2);
    assert_int_equal(fixture_key(host, LEN), 3);
    assert_int_equal(fixture_key(host, LEN), 3);
    memory = vendor_claim(HMREG_IFACE_ZE, (void *)0x10000, LEN, HMREG_MEM_DEVICE, 0);
    assert_int_equal(key_of(memory), 4);
    assert_int_equal(key_of(memory), 4);
}

/* ---- repetition ------------------------------------------------------------------------- */

/* ---- a runtime that starts after the domain was opened ----------------------------------- */

static struct hmreg_stats stats_of(int device)
{
    return inside_stats_of(fixture.domain, HMREG_IFACE_CUDA, device);
}

TEST(runtime__starts_after_the_domain__each_device_has_its_cache)
{
    struct hmreg_domain_config config = {
        .size = sizeof(config), .max_regions = 1, .max_bytes = LEN};

    open_fixture(&config);
    assert_int_equal(cuda->opens, 0);
    assert_int_equal(fixture_stats().caches, HMREG_IFACE_COUNT);
    for (int device = 0; device < 2; device++) {
        struct vendor_claim *memory = claim(device, HMREG_MEM_DEVICE);

        assert_int_equal(key_of(memory), device + 1);
        assert_int_equal(key_of(memory), device + 1);
    }
    for (int device = 0; device < 2; device++) {
        assert_int_equal(stats_of(device).regions, 1);
        assert_int_equal(stats_of(device).hits, 1);
        assert_int_equal(stats_of(device).caches, 1);
    }
    assert_int_equal(fixture_stats().evictions, 0); /* the limit is each cache's */
    assert_int_equal(fixture_stats().caches, HMREG_IFACE_COUNT + 2);
}

/* ---- what a vendor is asked ------------------------------------------------------------- */

static struct {
    uint64_t addr, identity;
    size_t len;
    bool answer;
} question;

static bool answer_question(uint64_t addr, size_t len, uint64_t identity)
{
    question.addr = addr;
    question.len = len;
    question.identity = identity;
    return question.answer;
}

TEST(is_same__of_a_vendor_that_compares__asked_about_the_range)
{
    open_fixture(NULL);
    inside_compare_by(fixture.lib, HMREG_IFACE_CUDA, answer_question);
    for (int i = 0; i < 2; i++) {
        question.answer = i;
        assert_int_equal(inside_is_same(fixture.lib, HMREG_IFACE_CUDA, 0x5000, 0x7000, 9), i);
        assert_int_equal(question.addr, 0x5000);
        assert_int_equal(question.len, 0x2000);
        assert_int_equal(question.identity, 9);
    }
}

TEST_MAIN()
