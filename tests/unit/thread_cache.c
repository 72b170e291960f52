/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a get looks up. A thread cache's hash: programs' addresses must not cluster: adjacent
 * buffers, of any usual size. And how its tables grow. The key of a get's attributes: each byte of
 * them is part of it, or named.
 */

/* A wrong hash or key shows in no result: hits only get slow, or regions are not shared. */
#include "core/base/dmabuf.h"
#include "core/cache/cache_pool.h"
#include "core/cache/thread_cache.h"
#include "core/cache/variant.h"
#include "tests/support/test.h"

#include <sys/epoll.h>
#include <sys/mman.h>

#define SLOTS 256u

/* With all regions in the table: how many of `count`, so many bytes apart, are found at their first
 * slot. */
static unsigned at_once(uint64_t base, uint64_t apart, unsigned count)
{
    static uint32_t slots[SLOTS + THREAD_CACHE_PROBES];
    unsigned found = 0;

    memset(slots, 0, sizeof(slots));
    for (unsigned i = 0; i < count; i++) {
        uint32_t *first = thread_cache_slot(slots, sizeof(slots[0]) * (SLOTS - 1),
                                            thread_cache_hash(base + i * apart));
        uint32_t *slot = first;

        assert_true(first >= slots && first < slots + SLOTS);
        while (*slot)
            slot++;
        assert_true(slot < slots + SLOTS + THREAD_CACHE_PROBES);
        *slot = pin_slot_offset(i + 1);
        found += slot == first;
    }
    return found;
}

TEST(slot__regions_side_by_side__most_in_their_first)
{
    static const uint64_t apart[] = {64,    256,    4096,    4160,    8192,    12288,  16384,
                                     65536, 262144, 1 << 20, 2 << 20, 4 << 20, 1 << 30};
    static const uint64_t bases[] = {0x310000000000, 0x7f5f3cc7a000, 0x55d0c0001040};

    for (unsigned b = 0; b < 3; b++)
        for (unsigned a = 0; a < sizeof(apart) / sizeof(apart[0]); a++)
            if (at_once(bases[b], apart[a], SLOTS / 2) < SLOTS / 2 * 6 / 10)
                fail_msg("of %u regions %d bytes apart at %#llx, only %u are found at once",
                         SLOTS / 2, (int)apart[a], (unsigned long long)bases[b],
                         at_once(bases[b], apart[a], SLOTS / 2));
}

TEST(slot__pages_side_by_side__all_in_their_first)
{
    assert_int_equal(at_once(0x310000000000, 4096, 100), 100);
    assert_int_equal(at_once(0x7f5f3cc7a000, 4096, SLOTS / 2), SLOTS / 2);
}

/* ---- tables that grow ------------------------------------------------------------------- */

#define ENTRIES 70000u

static struct {
    struct stable_array entries;
    struct thread_cache_set set;
    pthread_mutex_t lock;
} all;

static struct cache_stats *no_stats(struct thread_cache_set *set, unsigned cache)
{
    return NULL;
}

static void close_set(void)
{
    thread_cache_set_close(&all.set, no_stats);
    stable_array_free(&all.entries);
    pthread_mutex_destroy(&all.lock);
}

static struct thread_cache *open_set(void)
{
    pthread_mutex_init(&all.lock, NULL);
    stable_array_init(&all.entries, sizeof(struct hmreg_mr), sizeof(struct mr_body));
    while (all.entries.end < ENTRIES)
        assert_true(stable_array_grow(&all.entries, all.entries.end, &all.lock));
    assert_true(thread_cache_set_open(&all.set, &all.entries, &all.lock, 1, false, false));
    test_after(close_set);
    return thread_cache_join(&all.set);
}

TEST(pin_slots__each_growth__the_slot_is_there_and_the_others_as_they_were)
{
    static const uint32_t numbers[] = {1, 63, 64, 255, 256, 1023, 1024, 4095, 4096, ENTRIES - 1};
    struct thread_cache *tcache = open_set();

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct pin_slot *slot = thread_cache_pin_slot(tcache, numbers[i]);

        assert_non_null(slot);
        assert_true(pin_slot_offset(numbers[i]) < tcache->view.room);
        assert_int_equal(slot->check, 0);
        atomic_store(&slot->pins, numbers[i]);
        atomic_store(&slot->used, 1);
        slot->cache = (uint16_t)(i + 1);
        slot->check = ~numbers[i];
        for (size_t j = 0; j <= i; j++) {
            slot = thread_cache_pin_slot(tcache, numbers[j]);
            assert_int_equal(thread_cache_pins(&all.set, numbers[j]), numbers[j]);
            assert_int_equal(atomic_load(&slot->used), 1);
            assert_int_equal(slot->cache, j + 1);
            assert_int_equal(slot->check, ~numbers[j]);
        }
    }
    assert_int_equal(thread_cache_pins(&all.set, ENTRIES * 2), 0);
}

static bool is_mapped(char *page)
{
    unsigned char resident;

    return mincore(page, 1, &resident) == 0;
}

/* At most a quarter of a small table is in use, and half of a large one, which is given back in
 * parts once it is replaced. */
TEST(slots__each_growth__never_fuller_than_its_size_permits)
{
    struct thread_cache *tcache = open_set();
    unsigned small = 0, large = 0;

    assert_non_null(thread_cache_pin_slot(tcache, ENTRIES - 1));
    for (uint32_t i = 1; i < ENTRIES; i++) {
        uint32_t size = tcache->view.mask / 4 + 1, used = tcache->used;
        char *replaced = tcache->old_slots;

        thread_cache_remember(tcache, 0x310000000000 + i * 4096ull, i, 0, false);
        assert_true(!replaced || tcache->old_slots || !is_mapped(replaced));
        if (tcache->view.mask / 4 + 1 == size)
            continue;
        assert_int_equal(used, size < 1u << 14 ? size / 4 : size / 2);
        assert_int_equal(tcache->old_slots != NULL, size > 1u << 14);
        *(size < 1u << 14 ? &small : &large) += 1;
    }
    assert_true(small && large);
    assert_null(tcache->old_slots);
}

TEST(set_close__after_large_tables__none_stays_mapped)
{
    unsigned long before = 0;

    for (int round = 0; round < 3; round++) {
        struct thread_cache *tcache = open_set();

        before =
            test_mapped_pages(); /* the last round's, in which all else is as in those before */
        assert_non_null(thread_cache_pin_slot(tcache, ENTRIES - 1));
        for (uint32_t i = 1; i < ENTRIES / 4; i++)
            thread_cache_remember(tcache, 0x310000000000 + i * 4096ull, i, 0, false);
        assert_true(test_mapped_pages() > before);
        test_finish();
    }
    open_set();
    assert_int_equal(test_mapped_pages(), before);
}

/* ---- the key of attributes ---------------------------------------------------------------- */

#define LEN 4096

static char memory[LEN];

/* Is the byte of struct hmreg_mr_attr one that the key leaves out, or that it contains in another
 * form? A field that is not named here is part of the key. */
static bool is_left_out(size_t byte)
{
#define FIELD(name)                                                                                \
    (byte - offsetof(struct hmreg_mr_attr, name) < sizeof(((struct hmreg_mr_attr *)0)->name))
    return FIELD(size) || FIELD(iov) || FIELD(iov_count) || FIELD(access) || FIELD(requested_key) ||
           FIELD(context) || FIELD(auth_key) || FIELD(segments) || FIELD(claim_iface) ||
           FIELD(iface) || FIELD(device) || FIELD(dmabuf) || FIELD(endpoint) || FIELD(endpoints) ||
           FIELD(endpoint_count) || byte >= offsetof(struct hmreg_mr_attr, policy) ||
           (byte >= offsetof(struct hmreg_mr_attr, device) + sizeof(int) &&
            byte < offsetof(struct hmreg_mr_attr, dmabuf)) || /* padding */
           (byte >= offsetof(struct hmreg_mr_attr, claim_kind) + sizeof(int) &&
            byte < offsetof(struct hmreg_mr_attr, endpoints)); /* padding */
#undef FIELD
}

static bool is_size_of_key(size_t byte)
{
    return byte - offsetof(struct hmreg_mr_attr, auth_key_size) < sizeof(size_t);
}

TEST(variant__each_byte_of_the_attributes__part_of_the_key_or_named)
{
    static const struct iovec range = {memory, LEN};
    struct attributes attributes = {.attr = {.size = 0}, .request = {.iov = &range}};
    unsigned char *bytes = (unsigned char *)&attributes.attr;
    struct variant *variant;
    struct variants variants;
    bool identified;

    variants_open(&variants);
    for (size_t i = 0; i < sizeof(attributes.attr); i++) {
        if (i - offsetof(struct hmreg_mr_attr, claim_iface) - 1 < sizeof(int) - 1)
            continue; /* not 0 or 1 */
        bytes[i] ^= 1;
        if (i >= offsetof(struct hmreg_mr_attr, dmabuf) &&
            i < offsetof(struct hmreg_mr_attr, dmabuf) + sizeof(void *))
            attributes.attr.dmabuf = NULL;
        attributes.attr.auth_key_size = is_size_of_key(i) ? 1 : 0;
        attributes.attr.auth_key = is_size_of_key(i) ? bytes : NULL;
        assert_ok(variant_get(&variants, &attributes, NULL, 0, &variant, &identified));
        assert_true(identified);
        if (is_left_out(i) != !variant)
            fail_msg("byte %zu of struct hmreg_mr_attr", i);
        variant_put(&variants, variant);
        attributes = (struct attributes){.attr = {.size = 0}, .request = {.iov = &range}};
        memset(bytes, 0, sizeof(attributes.attr));
    }
    assert_null(variants.tree);
    variants_close(&variants);
}

/* Another thread uses the variant before this one has the lock: NULL, or which. */
static struct variant *used_before;
static pthread_mutex_t *awaited;

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);

int __wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    if (lock == awaited)
        variant_use(used_before);
    return __real_pthread_mutex_lock(lock);
}

TEST(variant_put__used_by_another_at_once__goes_with_the_last_use)
{
    static const struct iovec range = {memory, LEN};
    struct attributes attributes = {.attr = {.page_size = 4096}, .request = {.iov = &range}};
    struct variants variants;
    bool identified;

    variants_open(&variants);
    assert_ok(variant_get(&variants, &attributes, NULL, 0, &used_before, &identified));
    awaited = &variants.lock;
    variant_put(&variants, used_before);
    awaited = NULL;
    assert_non_null(variants.tree);
    variant_put(&variants, used_before);
    assert_null(variants.tree);
    variants_close(&variants);
}

/* An epoll descriptor's inode is shared by all such descriptors, as a dmabuf's was before
 * Linux 5.3. */
TEST(dmabuf__without_an_inode_of_its_own__has_no_identity)
{
    struct hmreg_mr_dmabuf dmabuf = {.fd = epoll_create1(EPOLL_CLOEXEC), .len = LEN};
    static const struct iovec range = {memory, LEN};
    struct attributes attributes = {.attr = {.dmabuf = &dmabuf}, .request = {.iov = &range}};
    struct variant *variant;
    struct variants variants;
    bool identified;

    assert_true(dmabuf_look(dmabuf.fd, &attributes.file));
    variants_open(&variants);
    assert_ok(variant_get(&variants, &attributes, NULL, HMREG_REG_DMABUF, &variant, &identified));
    assert_non_null(variant);
    assert_false(identified);
    variant_put(&variants, variant);
    variants_close(&variants);
    close(dmabuf.fd);
}

TEST_MAIN()
