/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Device memory in the cache, distinguished by its identity, which is read before registering,
 * compared afterwards, and read again at every hit.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/vendors.h"

#include "core/cache/cache_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LEN 65536

static struct vendor *cuda = &vendors[HMREG_IFACE_CUDA];

static void open_fixture(struct fixture *fixture, const struct hmreg_domain_config *config)
{
    vendors_reset();
    fixture_open(fixture, HMREG_MONITOR_IMPORT, config);
}

/* Device memory at some address; its bytes do not matter here. */
static struct vendor_claim *claim(int device, enum hmreg_mem_kind kind)
{
    static char place[VENDOR_CLAIMS][LEN] __attribute__((aligned(LEN)));

    return vendor_claim(HMREG_IFACE_CUDA, place[cuda->count], LEN, kind, device);
}

static uint64_t key_of(const struct fixture *fixture, const struct vendor_claim *claimed)
{
    return fixture_key(fixture, (void *)(uintptr_t)claimed->addr, LEN);
}

static struct hmreg_mr *get_claimed(const struct fixture *fixture,
                                    const struct vendor_claim *claimed)
{
    return fixture_get(fixture, (void *)(uintptr_t)claimed->addr, LEN);
}

/* ---- hits ------------------------------------------------------------------------------- */

TEST(get__same_identity__same_region)
{
    struct vendor_claim *memory;
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    memory = claim(1, HMREG_MEM_DEVICE);
    assert_int_equal(key_of(&fixture, memory), 1);
    assert_int_equal(key_of(&fixture, memory), 1);
    assert_int_equal(fixture_stats(&fixture).hits, 1);
    assert_int_equal(cuda->resolves, 1); /* a hit does not resolve */
    fixture_close(&fixture);
}

/* The vendor promises to report the end of the memory. */
TEST(get__end_reported__hits_ask_nobody)
{
    struct vendor_claim *memory;
    struct fixture fixture;
    unsigned asked;

    open_fixture(&fixture, NULL);
    cuda->reports = true;
    memory = claim(1, HMREG_MEM_DEVICE);
    assert_int_equal(key_of(&fixture, memory), 1);
    assert_int_equal(cuda->watches, 1);
    asked = cuda->identities;
    for (int i = 0; i < 10; i++)
        assert_int_equal(key_of(&fixture, memory), 1);
    assert_int_equal(cuda->identities, asked);
    assert_int_equal(cuda->resolves, 1);
    vendor_renew(memory);
    assert_int_equal(key_of(&fixture, memory), 2);
    assert_int_equal(key_of(&fixture, memory), 2);
    vendor_unclaim(HMREG_IFACE_CUDA, (void *)(uintptr_t)memory->addr);
    assert_int_equal(fixture_stats(&fixture).invalidations, 2);
    fixture_close(&fixture);
}

static uint64_t hits_of(const struct fixture *fixture, const struct hmreg_mr *mr)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    cache_stats_sum(&fixture->domain->caches->caches[mr_body(mr)->cache].stats, &stats);
    return stats.hits;
}

static bool asks(const struct fixture *fixture, const struct hmreg_mr *mr)
{
    const struct thread_cache *tcache =
        atomic_load(&fixture->domain->caches->pool.thread_caches.first);

    return tcache->view.pin_slots[pin_slot_number(mr->slot_offset)].check &
           THREAD_CACHE_OUT_OF_LINE;
}

/* One thread's hits of several caches: each is counted in its own. */
TEST(get__host_and_devices_by_one_thread__hits_of_each_counted)
{
    static char host[LEN];
    struct iovec iov[3] = {{host, LEN}};
    struct hmreg_mr *mrs[3];
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    cuda->reports = true;
    for (int i = 0; i < 2; i++)
        iov[i + 1] = (struct iovec){(void *)(uintptr_t)claim(i, HMREG_MEM_DEVICE)->addr, LEN};
    for (int i = 0; i < 11; i++)
        for (int j = 0; j < 3; j++) {
            mrs[j] = fixture_get(&fixture, iov[j].iov_base, LEN);
            hmreg_mr_put(mrs[j]);
        }
    for (int i = 0; i < 5; i++) {
        assert_ok(hmreg_mr_get_many(fixture.domain, iov, 3, HMREG_ACCESS_REMOTE, mrs));
        hmreg_mr_put_many(mrs, 3);
    }
    for (int j = 0; j < 3; j++) {
        assert_false(asks(&fixture, mrs[j]));
        assert_int_equal(hits_of(&fixture, mrs[j]), 15);
    }
    fixture_close(&fixture);
}

static struct vendor_claim *ending; /* ends inside the vendor's watch() */

static void end_in_watch(const char *call, uint64_t addr, size_t len)
{
    if (strcmp(call, "watch") || !ending)
        return;
    vendor_renew(ending);
    ending = NULL;
}

/* The end is not reported: it came before the vendor watched. */
TEST(get__ended_before_it_is_watched__not_that_region)
{
    struct vendor_claim *memory;
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    cuda->reports = true;
    cuda->hook = end_in_watch;
    memory = ending = claim(0, HMREG_MEM_DEVICE);
    assert_int_equal(key_of(&fixture, memory), 2);
    assert_int_equal(key_of(&fixture, memory), 2);
    fixture_close(&fixture);
}

TEST(get__reports_switched_off__hits_ask)
{
    struct vendor_claim *memory;
    struct fixture fixture;
    unsigned asked;

    setenv("HMREG_DEVICE_MONITOR", "off", 1);
    open_fixture(&fixture, NULL);
    unsetenv("HMREG_DEVICE_MONITOR");
    cuda->reports = true;
    memory = claim(0, HMREG_MEM_DEVICE);
    assert_int_equal(key_of(&fixture, memory), 1);
    asked = cuda->identities;
    assert_int_equal(key_of(&fixture, memory), 1);
    assert_int_equal(cuda->identities, asked + 1);
    assert_int_equal(cuda->watches, 0);
    fixture_close(&fixture);
}

/* The flag of regions that a hit must validate is not an access right. */
TEST(get__rights_that_look_like_the_mark__refused)
{
    struct vendor_claim *memory;
    struct hmreg_mr *mr = NULL;
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    memory = claim(0, HMREG_MEM_DEVICE);
    assert_int_equal(key_of(&fixture, memory), 1);
    vendor_renew(memory);
    assert_fails(hmreg_mr_get(fixture.domain, (void *)(uintptr_t)memory->addr, LEN,
                              HMREG_ACCESS_REMOTE | THREAD_CACHE_OUT_OF_LINE, &mr),
                 -EINVAL, "unknown bits");
    assert_null(mr);
    fixture_close(&fixture);
}

TEST(get__address_reused__registered_anew)
{
    struct vendor_claim *memory;
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    memory = claim(0, HMREG_MEM_DEVICE);
    assert_int_equal(key_of(&fixture, memory), 1);
    vendor_renew(memory);
    assert_int_equal(key_of(&fixture, memory), 2);
    assert_int_equal(key_of(&fixture, memory), 2);
    assert_int_equal(fixture_stats(&fixture).invalidations, 1);
    assert_int_equal(atomic_load(&counter.regions), 1);
    fixture_close(&fixture);
}

TEST(get__address_reused_while_held__held_one_ends_with_its_put)
{
    struct vendor_claim *memory;
    struct hmreg_mr *held;
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    memory = claim(0, HMREG_MEM_DEVICE);
    held = get_claimed(&fixture, memory);
    vendor_renew(memory);
    assert_int_equal(key_of(&fixture, memory), 2);
    assert_int_equal(fixture_stats(&fixture).zombies, 1);
    assert_int_equal(atomic_load(&counter.deregs), 0);
    hmreg_mr_put(held);
    assert_int_equal(atomic_load(&counter.deregs), 1);
    fixture_close(&fixture);
}

TEST(get__part_of_a_region_whose_tail_changed__registered_anew)
{
    char *place = mmap(NULL, 2 * LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct vendor_claim *head, *tail;
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    head = vendor_claim(HMREG_IFACE_CUDA, place, LEN, HMREG_MEM_DEVICE, 0);
    tail = vendor_claim(HMREG_IFACE_CUDA, place + LEN, LEN, HMREG_MEM_DEVICE, 0);
    head->goes_on = true;
    assert_int_equal(fixture_key(&fixture, place, 2 * LEN), 1);
    assert_int_equal(fixture_key(&fixture, place, 100), 1);
    vendor_renew(tail);
    assert_int_equal(fixture_key(&fixture, place, 100), 2);
    assert_int_equal(fixture_key(&fixture, place, 2 * LEN), 3);
    fixture_close(&fixture);
    munmap(place, 2 * LEN);
}

TEST(get__memory_freed_and_now_the_systems__not_the_devices_region)
{
    struct vendor_claim *memory;
    struct fixture fixture;
    char *at;

    open_fixture(&fixture, NULL);
    memory = claim(0, HMREG_MEM_DEVICE);
    at = (char *)(uintptr_t)memory->addr;
    assert_int_equal(key_of(&fixture, memory), 1);
    cuda->count = 0;
    assert_int_equal(fixture_key(&fixture, at, LEN), 2);
    assert_int_equal(fixture_stats(&fixture).regions, 1);
    fixture_close(&fixture);
}

TEST(get__host_memory_unmapped_and_now_a_devices__not_the_hosts_region)
{
    char *memory = fixture_map(LEN / fixture_page());
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr;
    struct fixture fixture;

    vendors_reset();
    fixture_open(&fixture, HMREG_MONITOR_USERFAULTFD, NULL);
    assert_int_equal(fixture_key(&fixture, memory, LEN), 1);
    munmap(memory, LEN);
    assert_ptr_equal(
        mmap(memory, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
        memory);
    vendor_claim(HMREG_IFACE_CUDA, memory, LEN, HMREG_MEM_DEVICE, 1);
    mr = fixture_get(&fixture, memory, LEN);
    assert_ok(hmreg_mr_query(mr, &info));
    assert_int_equal(info.iface, HMREG_IFACE_CUDA);
    assert_int_equal(info.device, 1);
    assert_int_equal(hmreg_mr_key(mr), 2);
    hmreg_mr_put(mr);
    munmap(memory, LEN);
    fixture_close(&fixture);
}

static enum hmreg_iface iface_of(const struct fixture *fixture, const void *addr)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr = fixture_get(fixture, addr, fixture_page());

    assert_ok(hmreg_mr_query(mr, &info));
    hmreg_mr_put(mr);
    return info.iface;
}

/* No runtime is loaded, and the thread knows the mapping of which these are the first pages. */
static void open_knowing(struct fixture *fixture, const char *memory)
{
    vendors_reset();
    vendors_unload();
    fixture_open_hooked(fixture);
    for (int i = 0; i < 2; i++)
        assert_int_equal(iface_of(fixture, memory + i * fixture_page()), HMREG_IFACE_SYSTEM);
}

/* Without a runtime the thread asks about a mapping once; a runtime that is loaded after that maps
 * its memory elsewhere. */
TEST(get__mapping_is_known__runtime_loaded_since_is_found)
{
    size_t page = fixture_page();
    char *memory = fixture_map(3), *device = fixture_map(1);
    struct fixture fixture;

    open_knowing(&fixture, memory);
    vendor_is_loaded(HMREG_IFACE_ROCR);
    vendor_claim(HMREG_IFACE_ROCR, device, page, HMREG_MEM_DEVICE, 0);
    assert_int_equal(iface_of(&fixture, memory + 2 * page), HMREG_IFACE_SYSTEM);
    assert_int_equal(iface_of(&fixture, device), HMREG_IFACE_ROCR);
    munmap(memory, 3 * page);
    munmap(device, page);
    fixture_close(&fixture);
}

/* Or at the same addresses, once the program has unmapped them. */
TEST(get__known_mapping_unmapped_for_a_runtime__its_memory_is_found)
{
    size_t page = fixture_page();
    char *memory = fixture_map(3);
    struct fixture fixture;

    open_knowing(&fixture, memory);
    munmap(memory, 3 * page);
    assert_ptr_equal(fixture_map_at(memory, 3), memory);
    vendor_is_loaded(HMREG_IFACE_ROCR);
    vendor_claim(HMREG_IFACE_ROCR, memory, 3 * page, HMREG_MEM_DEVICE, 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(iface_of(&fixture, memory + i * page), HMREG_IFACE_ROCR);
    munmap(memory, 3 * page);
    fixture_close(&fixture);
}

TEST(get__each_device_and_pinned_memory__a_cache_each)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = 1};
    struct vendor_claim *memory[3];
    static char host[LEN];
    struct fixture fixture;

    open_fixture(&fixture, &config);
    memory[0] = claim(0, HMREG_MEM_DEVICE);
    memory[1] = claim(1, HMREG_MEM_DEVICE);
    memory[2] = claim(-1, HMREG_MEM_HOST_PINNED);
    memory[2]->range.identity = 77;
    for (int round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(key_of(&fixture, memory[i]), i + 1);
        assert_int_equal(fixture_key(&fixture, host, LEN), 4);
    }
    assert_int_equal(fixture_stats(&fixture).regions, 4); /* one each: no limit was met */
    assert_int_equal(fixture_stats(&fixture).evictions, 0);
    fixture_close(&fixture);
}

TEST(get__managed_memory__cached_by_identity)
{
    struct vendor_claim *memory;
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    memory = claim(0, HMREG_MEM_MANAGED);
    assert_int_equal(key_of(&fixture, memory), 1);
    assert_int_equal(key_of(&fixture, memory), 1);
    vendor_renew(memory);
    assert_int_equal(key_of(&fixture, memory), 2);
    fixture_close(&fixture);
}

/* ---- memory that cannot be validated ---------------------------------------------------- */

TEST(get__device_or_managed_without_identity__not_cached)
{
    struct vendor_claim *memory;
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    memory = claim(0, HMREG_MEM_DEVICE);
    memory->range.identity = 0;
    assert_int_equal(key_of(&fixture, memory), 1);
    assert_int_equal(key_of(&fixture, memory), 2);
    memory = claim(0, HMREG_MEM_MANAGED);
    memory->range.identity = 0;
    assert_int_equal(key_of(&fixture, memory), 3);
    assert_int_equal(key_of(&fixture, memory), 4);
    assert_int_equal(fixture_stats(&fixture).uncached, 4);
    assert_int_equal(atomic_load(&counter.regions), 0);
    fixture_close(&fixture);
}

/* ---- pinned host memory, which the monitor may watch ------------------------------------ */

TEST(get__pinned_without_identity__watched_like_any_host_memory)
{
    char *memory = fixture_map(LEN / fixture_page());
    struct fixture fixture;

    vendors_reset();
    fixture_open(&fixture, HMREG_MONITOR_USERFAULTFD, NULL);
    vendor_claim(HMREG_IFACE_CUDA, memory, LEN, HMREG_MEM_HOST_PINNED, -1);
    assert_int_equal(fixture_key(&fixture, memory, LEN), 1);
    assert_int_equal(fixture_key(&fixture, memory, LEN), 1);
    madvise(memory, LEN, MADV_DONTNEED);
    assert_int_equal(fixture_key(&fixture, memory, LEN), 2);
    munmap(memory, LEN);
    fixture_close(&fixture);
}

/* Even if the runtime reports which device pinned it, the pages are the host's. The runtime does
 * not notice memory unmapped before it is unpinned, and reports the old identity. */
TEST(get__pinned_for_a_device__unmapped_and_mapped_anew__not_the_old_region)
{
    const uint64_t identities[] = {0, 77};

    for (unsigned i = 0; i < 2; i++) {
        char *memory = fixture_map(LEN / fixture_page());
        struct vendor_claim *pinned;
        struct fixture fixture;

        vendors_reset();
        fixture_open(&fixture, HMREG_MONITOR_USERFAULTFD, NULL);
        pinned = vendor_claim(HMREG_IFACE_CUDA, memory, LEN, HMREG_MEM_HOST_PINNED, 1);
        pinned->range.identity = identities[i];
        assert_int_equal(key_of(&fixture, pinned), 1);
        assert_int_equal(key_of(&fixture, pinned), 1);
        munmap(memory, LEN);
        assert_ptr_equal(fixture_map_at(memory, LEN / fixture_page()), memory);
        assert_int_equal(key_of(&fixture, pinned), 2);
        munmap(memory, LEN);
        fixture_close(&fixture);
    }
}

TEST(get__pinned_without_identity__no_monitor__not_cached)
{
    struct vendor_claim *memory;
    struct fixture fixture;

    vendors_reset();
    fixture_open(&fixture, HMREG_MONITOR_DISABLED, NULL);
    memory = claim(-1, HMREG_MEM_HOST_PINNED);
    assert_int_equal(key_of(&fixture, memory), 1);
    assert_int_equal(key_of(&fixture, memory), 2);
    fixture_close(&fixture);
}

/* Its address at the device may later mean other host memory, and no event reports that. */
TEST(get__pinned_by_its_address_at_the_device__not_cached)
{
    static char host[LEN];
    struct vendor_claim *memory;
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    memory = claim(-1, HMREG_MEM_HOST_PINNED);
    memory->range.host_addr = (uintptr_t)host;
    assert_int_equal(key_of(&fixture, memory), 1);
    assert_int_equal(key_of(&fixture, memory), 2);
    fixture_close(&fixture);
}

/* ---- switched off ----------------------------------------------------------------------- */

TEST(get__switched_off_in_the_environment__not_cached)
{
    struct vendor_claim *memory;
    static char host[LEN];
    struct fixture fixture;

    setenv("FI_MR_CUDA_CACHE_MONITOR_ENABLED", "0", 1);
    open_fixture(&fixture, NULL);
    unsetenv("FI_MR_CUDA_CACHE_MONITOR_ENABLED");
    memory = claim(0, HMREG_MEM_DEVICE);
    assert_int_equal(key_of(&fixture, memory), 1);
    assert_int_equal(key_of(&fixture, memory), 2);
    assert_int_equal(fixture_key(&fixture, host, LEN), 3);
    assert_int_equal(fixture_key(&fixture, host, LEN), 3);
    memory = vendor_claim(HMREG_IFACE_ZE, (void *)0x10000, LEN, HMREG_MEM_DEVICE, 0);
    assert_int_equal(key_of(&fixture, memory), 4);
    assert_int_equal(key_of(&fixture, memory), 4);
    fixture_close(&fixture);
}

TEST(get__monitor_disabled__device_memory_is_still_cached)
{
    struct vendor_claim *memory;
    struct fixture fixture;

    vendors_reset();
    fixture_open(&fixture, HMREG_MONITOR_DISABLED, NULL);
    memory = claim(0, HMREG_MEM_DEVICE);
    assert_int_equal(key_of(&fixture, memory), 1);
    assert_int_equal(key_of(&fixture, memory), 1);
    fixture_close(&fixture);
}

TEST(get__vendor_fails__entry_ends_and_its_error_is_returned)
{
    struct vendor_claim *memory;
    struct hmreg_mr *mr = NULL;
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    memory = claim(0, HMREG_MEM_DEVICE);
    assert_int_equal(key_of(&fixture, memory), 1);
    cuda->identity_code = -EIO;
    cuda->resolve_code = -EIO;
    assert_fails(hmreg_mr_get(fixture.domain, (void *)(uintptr_t)memory->addr, LEN,
                              HMREG_ACCESS_REMOTE, &mr),
                 -EIO, "resolve of cuda failed");
    assert_null(mr);
    assert_int_equal(hmreg_last_error()->vendor_code, 999);
    assert_int_equal(fixture_stats(&fixture).regions, 0);
    assert_int_equal(atomic_load(&counter.regions), 0);
    fixture_close(&fixture);
}

TEST(invalidate__device_memory__forgotten)
{
    struct vendor_claim *memory;
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    memory = claim(0, HMREG_MEM_DEVICE);
    assert_int_equal(key_of(&fixture, memory), 1);
    assert_ok(hmreg_invalidate(fixture.lib, (char *)(uintptr_t)memory->addr + LEN - 1, 1));
    assert_int_equal(fixture_stats(&fixture).regions, 0);
    assert_int_equal(key_of(&fixture, memory), 2);
    fixture_close(&fixture);
}

/* ---- freed while it is registered ------------------------------------------------------- */

static struct vendor_claim *to_renew;
static int renewals;

static void renew_it(const struct provider_request *request)
{
    if (renewals && renewals--)
        vendor_renew(to_renew);
}

TEST(get__freed_while_being_registered__that_registration_is_not_used)
{
    struct hmreg_mr *mr;
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    to_renew = claim(0, HMREG_MEM_DEVICE);
    renewals = 1;
    counter.reg_hook = renew_it;
    mr = get_claimed(&fixture, to_renew);
    assert_int_equal(hmreg_mr_key(mr), 2); /* the first was of the old memory */
    assert_true(fixture_is_cached(mr));
    assert_int_equal(atomic_load(&counter.deregs), 1);
    hmreg_mr_put(mr);
    assert_int_equal(key_of(&fixture, to_renew), 2);
    fixture_close(&fixture);
}

TEST(get__freed_whenever_it_is_registered__uncached_in_the_end)
{
    struct hmreg_mr *mr;
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    to_renew = claim(0, HMREG_MEM_DEVICE);
    renewals = -1;
    counter.reg_hook = renew_it;
    mr = get_claimed(&fixture, to_renew);
    renewals = 0;
    assert_false(fixture_is_cached(mr));
    assert_int_equal(atomic_load(&counter.regs), 3); /* two attempts, and the one that succeeds */
    hmreg_mr_put(mr);
    assert_int_equal(atomic_load(&counter.regions), 0);
    fixture_close(&fixture);
}

/* ---- repetition ------------------------------------------------------------------------- */

TEST(reuse__ten_thousand_times__never_a_stale_hit)
{
    struct vendor_claim *memory;
    uint64_t last = 0;
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    memory = claim(0, HMREG_MEM_DEVICE);
    for (int i = 0; i < 10000; i++) {
        uint64_t key = key_of(&fixture, memory);

        assert_int_not_equal(key, last);
        assert_int_equal(key_of(&fixture, memory), key);
        vendor_renew(memory);
        last = key;
    }
    assert_int_equal(fixture_stats(&fixture).hits, 10000);
    assert_int_equal(fixture_stats(&fixture).misses, 10000);
    assert_int_equal(atomic_load(&counter.regions), 1);
    fixture_close(&fixture);
}

/* ---- a runtime that starts after the domain was opened ----------------------------------- */

static struct hmreg_stats stats_of(const struct fixture *fixture, int device)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    assert_ok(hmreg_cache_stats(fixture->domain, HMREG_IFACE_CUDA, device, &stats));
    return stats;
}

TEST(runtime__starts_after_the_domain__each_device_has_its_cache)
{
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    assert_int_equal(cuda->opens, 0);
    assert_int_equal(fixture_stats(&fixture).caches, HMREG_IFACE_COUNT);
    assert_ok(hmreg_domain_set_limits(fixture.domain, 1, LEN));
    for (int device = 0; device < 2; device++) {
        struct vendor_claim *memory = claim(device, HMREG_MEM_DEVICE);

        assert_int_equal(key_of(&fixture, memory), device + 1);
        assert_int_equal(key_of(&fixture, memory), device + 1);
    }
    for (int device = 0; device < 2; device++) {
        assert_int_equal(stats_of(&fixture, device).regions, 1);
        assert_int_equal(stats_of(&fixture, device).hits, 1);
        assert_int_equal(stats_of(&fixture, device).caches, 1);
    }
    assert_int_equal(fixture_stats(&fixture).evictions, 0); /* the limit is each cache's */
    assert_int_equal(fixture_stats(&fixture).caches, HMREG_IFACE_COUNT + 2);
    fixture_close(&fixture);
}

TEST(runtime__starts_after_the_domain__limit_of_then_holds)
{
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    assert_ok(hmreg_domain_set_limits(fixture.domain, 1, LEN));
    key_of(&fixture, claim(0, HMREG_MEM_DEVICE));
    key_of(&fixture, claim(0, HMREG_MEM_DEVICE));
    assert_int_equal(stats_of(&fixture, 0).regions, 1);
    assert_int_equal(stats_of(&fixture, 0).evictions, 1);
    fixture_close(&fixture);
}

/* Its devices from the seventeenth on share the caches of the first ones. */
TEST(runtime__of_many_devices_starts_after_the_domain__the_last_share_caches)
{
    struct vendor_claim *memory[20];
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    cuda->devices = 20;
    for (int device = 0; device < 20; device++) {
        memory[device] = claim(device, HMREG_MEM_DEVICE);
        assert_int_equal(key_of(&fixture, memory[device]), device + 1);
    }
    for (int device = 0; device < 20; device++) {
        assert_int_equal(key_of(&fixture, memory[device]), device + 1);
        assert_int_equal(stats_of(&fixture, device).regions, device < 4 || device > 15 ? 2 : 1);
    }
    vendor_renew(memory[17]);
    assert_int_equal(key_of(&fixture, memory[17]), 21);
    assert_int_equal(key_of(&fixture, memory[1]), 2);
    fixture_close(&fixture);
}

/* ---- what a vendor is asked ------------------------------------------------------------- */

static struct {
    uint64_t addr, identity;
    size_t len;
    bool answer;
} question;

static bool answer_question(struct hmem *self, uint64_t addr, size_t len, uint64_t identity)
{
    question.addr = addr;
    question.len = len;
    question.identity = identity;
    return question.answer;
}

TEST(is_same__of_a_vendor_that_compares__asked_about_the_range)
{
    struct hmem_ops compares;
    struct runtime *runtime;
    struct fixture fixture;

    open_fixture(&fixture, NULL);
    runtime = runtimes_named(&fixture.lib->runtimes, HMREG_IFACE_CUDA);
    assert_non_null(runtime);
    compares = *runtime->ops;
    compares.is_same = answer_question;
    runtime->ops = &compares;
    for (int i = 0; i < 2; i++) {
        question.answer = i;
        assert_int_equal(
            resolve_is_same(fixture.lib, HMREG_IFACE_CUDA, 0x5000, 0x7000, 9), i);
        assert_int_equal(question.addr, 0x5000);
        assert_int_equal(question.len, 0x2000);
        assert_int_equal(question.identity, 9);
    }
    fixture_close(&fixture);
}

TEST_MAIN()
