/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Gets whose miss registers the allocation around the range: what is registered, when not, and that
 * it ends with the allocation.
 */
#include "tests/gpu/gpu.h"
#include "tests/gpu/reuse.h"
#include "tests/support/queries.h"

#include <hmreg/group.h>
#include <hmreg/loopback.h>
#include <pthread.h>

#define TENSORS     1265 /* of a language model, as an inference engine allocates them */
#define ALLOCATIONS 60
#define LEN         (22 * 4096)

static struct fixture {
    struct hmem *self;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    uint64_t memory; /* LEN */
} fixture;

static void close_fixture(void)
{
    if (!fixture.lib)
        return;
    gpu.free(fixture.memory, HMREG_MEM_DEVICE);
    assert_ok(hmreg_domain_close(fixture.domain));
    assert_ok(hmreg_close(fixture.lib));
    gpu.end(fixture.self);
    fixture.lib = NULL;
}

static void open_fixture(const struct hmreg_domain_config *asked)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(gpu.ops->iface)};
    struct hmreg_domain_config mapped = *asked;

    close_fixture();
    gpu_need_fake();
    test_after(close_fixture);
    mapped.size = sizeof(mapped);
    mapped.order[0] = HMREG_PATH_MAPPED;
    fixture.self = gpu.begin();
    assert_ok(hmreg_open(&config, &fixture.lib));
    assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, &mapped, &fixture.domain));
    fixture.memory = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);
}

static struct hmreg_mr *get(uint64_t addr, size_t len, uint64_t access)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(fixture.domain, (void *)(uintptr_t)addr, len, access, &mr));
    return mr;
}

static struct hmreg_mr *get_with(uint64_t addr, size_t len, uint64_t access, uint64_t flags)
{
    struct iovec range = {(void *)(uintptr_t)addr, len};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .iov = &range, .iov_count = 1, .access = access};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get_attr(fixture.domain, &attr, flags, &mr));
    return mr;
}

/* Puts a region, which is of this range. */
static void put_of(struct hmreg_mr *mr, uint64_t addr, uint64_t len)
{
    assert_int_equal(test_info_of(mr).addr, addr);
    assert_int_equal(test_info_of(mr).len, len);
    hmreg_mr_put(mr);
}

static uint64_t register_tensors(enum hmreg_cover cover)
{
    struct hmreg_domain_config config = {.cover = cover};
    uint64_t allocation[ALLOCATIONS];
    struct hmreg_stats stats;

    open_fixture(&config);
    for (unsigned i = 0; i < ALLOCATIONS; i++)
        allocation[i] = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);
    hmreg_fail(-EXDEV, "before");
    for (unsigned i = 0; i < TENSORS; i++)
        hmreg_mr_put(
            get(allocation[i % ALLOCATIONS] + i / ALLOCATIONS * 4096, 4096, HMREG_ACCESS_LOCAL));
    assert_int_equal(hmreg_last_error()->code, -EXDEV);
    stats = test_stats_of(fixture.domain);
    assert_int_equal(stats.hits + stats.misses, TENSORS);
    assert_int_equal(stats.regions, stats.misses);
    for (unsigned i = 0; i < ALLOCATIONS; i++)
        gpu.free(allocation[i], HMREG_MEM_DEVICE);
    return stats.misses;
}

TEST(tensors__covered__one_registration_for_each_allocation)
{
    assert_int_equal(register_tensors(HMREG_COVER_ALLOCATION), ALLOCATIONS);
    assert_int_equal(register_tensors(HMREG_COVER_DEFAULT), TENSORS);
}

TEST(remote_rights__covered_only_where_the_owner_says_so)
{
    struct hmreg_domain_config config = {.cover = HMREG_COVER_ALLOCATION};

    open_fixture(&config);
    put_of(get(fixture.memory + 4096, 100, HMREG_ACCESS_REMOTE), fixture.memory + 4096, 100);
    put_of(get(fixture.memory + 8192, 100, HMREG_ACCESS_LOCAL), fixture.memory, LEN);
    config.cover = HMREG_COVER_REMOTE;
    open_fixture(&config);
    put_of(get(fixture.memory + 4096, 100, HMREG_ACCESS_REMOTE), fixture.memory, LEN);
}

TEST(get_attr__flags__count_before_the_domain)
{
    struct hmreg_domain_config config = {.cover = HMREG_COVER_REMOTE};

    open_fixture(&config);
    put_of(get_with(fixture.memory + 4096, 100, HMREG_ACCESS_LOCAL, HMREG_REG_EXACT),
           fixture.memory + 4096, 100);
    config.cover = HMREG_COVER_EXACT;
    open_fixture(&config);
    put_of(get_with(fixture.memory + 4096, 100, HMREG_ACCESS_REMOTE, HMREG_REG_COVER),
           fixture.memory, LEN);
    put_of(get(fixture.memory + 4096, 100, HMREG_ACCESS_REMOTE), fixture.memory, LEN);
}

TEST(too_long__range_is_registered_exactly)
{
    struct hmreg_domain_config limits[] = {
        {.cover = HMREG_COVER_ALLOCATION, .cover_max = LEN - 1},
        {.cover = HMREG_COVER_ALLOCATION, .max_bytes = LEN - 1},
    };

    for (unsigned i = 0; i < 2; i++) {
        open_fixture(&limits[i]);
        put_of(get(fixture.memory + 1, 100, HMREG_ACCESS_LOCAL), fixture.memory + 1, 100);
        assert_int_equal(test_stats_of(fixture.domain).regions, 1);
    }
}

TEST(host_memory_and_exact_domains__never_covered)
{
    struct hmreg_domain_config config = {.cover = HMREG_COVER_REMOTE}, exact = {0};
    static char host[8192];
    uint64_t pinned;

    open_fixture(&config);
    pinned = gpu.alloc(gpu.pinned_device, HMREG_MEM_HOST_PINNED, LEN);
    put_of(get((uintptr_t)host + 5, 100, HMREG_ACCESS_LOCAL), (uintptr_t)host + 5, 100);
    put_of(get(pinned + 5, 100, HMREG_ACCESS_LOCAL), pinned + 5, 100);
    gpu.free(pinned, HMREG_MEM_HOST_PINNED);
    exact.flags = HMREG_DOMAIN_EXACT;
    open_fixture(&exact);
    put_of(get_with(fixture.memory + 5, 100, HMREG_ACCESS_LOCAL, HMREG_REG_COVER),
           fixture.memory + 5, 100);
}

TEST(group__covered_on_all_rails)
{
    struct hmreg_domain_config config = {0};
    struct hmreg_group_config both = {.size = sizeof(both)};
    struct hmreg_domain *members[2], *group = NULL;
    struct hmreg_mr *mr = NULL;

    open_fixture(&config);
    config.size = sizeof(config);
    config.order[0] = HMREG_PATH_MAPPED;
    members[0] = fixture.domain;
    assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, &config, &members[1]));
    config.order[0] = HMREG_PATH_NONE;
    config.cover = HMREG_COVER_ALLOCATION;
    both.domain = &config;
    assert_ok(hmreg_group_open(fixture.lib, members, 2, &both, &group));
    assert_ok(hmreg_mr_get(group, (void *)(uintptr_t)(fixture.memory + 4096), 100,
                           HMREG_ACCESS_LOCAL, &mr));
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(test_info_of(hmreg_mr_rail(mr, i)).addr, fixture.memory);
        assert_int_equal(test_info_of(hmreg_mr_rail(mr, i)).len, LEN);
    }
    put_of(mr, fixture.memory, LEN);
    assert_ok(hmreg_domain_close(group));
    assert_ok(hmreg_domain_close(members[1]));
}

TEST(wrong_arguments__refused)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .cover = HMREG_COVER_REMOTE + 1};
    struct hmreg_domain_config none = {0};
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *mr = NULL;
    struct iovec range;
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .iov = &range, .iov_count = 1, .access = HMREG_ACCESS_LOCAL};

    open_fixture(&none);
    range = (struct iovec){(void *)(uintptr_t)fixture.memory, 100};
    assert_fails(hmreg_domain_open_loopback(fixture.lib, NULL, &config, &domain), -EINVAL,
                 "config->cover is 4");
    config.cover = HMREG_COVER_ALLOCATION;
    config.flags = HMREG_DOMAIN_EXACT;
    assert_fails(hmreg_domain_open_loopback(fixture.lib, NULL, &config, &domain), -EINVAL,
                 "HMREG_DOMAIN_EXACT");
    assert_fails(hmreg_mr_get_attr(fixture.domain, &attr, HMREG_REG_COVER | HMREG_REG_EXACT, &mr),
                 -HMREG_EBADFLAGS, "give one of them");
    assert_fails(hmreg_mr_regattr(fixture.domain, &attr, HMREG_REG_COVER, &mr), -HMREG_EBADFLAGS,
                 "flags");
}

/* ---- threads ----------------------------------------------------------------------------- */

#define CREW 4

struct member {
    pthread_t thread;
    unsigned number, wrong;
    pthread_barrier_t *start;
};

static void *get_a_tensor(void *arg)
{
    struct member *member = arg;
    struct hmreg_mr *mr = NULL;
    char *addr = (char *)(uintptr_t)fixture.memory + member->number * 4096ul;

    pthread_barrier_wait(member->start);
    member->wrong = hmreg_mr_get(fixture.domain, addr, 4096, HMREG_ACCESS_LOCAL, &mr) != 0;
    hmreg_mr_put(mr);
    return NULL;
}

TEST(threads__each_its_tensor__one_registration)
{
    struct hmreg_domain_config config = {.cover = HMREG_COVER_ALLOCATION};
    struct member crew[CREW];
    pthread_barrier_t start;

    open_fixture(&config);
    pthread_barrier_init(&start, NULL, CREW);
    for (unsigned i = 0; i < CREW; i++) {
        crew[i] = (struct member){.number = i, .start = &start};
        assert_int_equal(pthread_create(&crew[i].thread, NULL, get_a_tensor, &crew[i]), 0);
    }
    for (unsigned i = 0; i < CREW; i++)
        pthread_join(crew[i].thread, NULL);
    for (unsigned i = 0; i < CREW; i++)
        assert_int_equal(crew[i].wrong, 0);
    assert_int_equal(test_stats_of(fixture.domain).misses, 1);
    assert_int_equal(test_stats_of(fixture.domain).regions, 1);
    pthread_barrier_destroy(&start);
}

/* ---- ends -------------------------------------------------------------------------------- */

static void *alloc_device(int device, size_t len)
{
    return (void *)(uintptr_t)gpu.alloc(device, HMREG_MEM_DEVICE, len);
}

static void free_device(void *addr)
{
    gpu.free((uintptr_t)addr, HMREG_MEM_DEVICE);
}

/* Each allocation is a miss of a part, then a hit of the whole. */
TEST(reused_addresses__covered__never_stale)
{
    struct reuse reuse = {
        .iface = gpu.ops->iface, .alloc = alloc_device, .free = free_device, .covered = true};
    struct hmem *self;

    gpu_need_fake();
    self = gpu.begin();
    reuse_addresses(&reuse, 100000);
    gpu.end(self);
}

TEST_MAIN()
