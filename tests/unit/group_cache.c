/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The cache of a group: one entry for all rails, which is found, evicted, invalidated and
 * deregistered as one.
 */

#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"
#include "tests/support/queries.h"
#include "tests/support/vendors.h"

#include <hmreg/group.h>
#include <hmreg/loopback.h>
#include <sys/mman.h>

#define LEN  4096
#define MOST 8

static char memory[16][LEN] __attribute__((aligned(LEN)));

/* fixture.domain becomes the group, so that the fixture's functions work on it. */
static struct group {
    struct fixture fixture;
    struct hmreg_domain *members[MOST];
    size_t count;
} group;

static void close_group(void)
{
    assert_ok(hmreg_domain_close(group.fixture.domain));
    assert_int_equal(atomic_load(&counter.regions), 0);
    for (size_t i = 1; i < group.count; i++)
        assert_ok(hmreg_domain_close(group.members[i]));
    group.fixture.domain = group.members[0];
    fixture_close_in(&group.fixture);
}

static void open_flagged(size_t count, enum hmreg_monitor monitor, uint32_t flags,
                         const struct hmreg_domain_config *domain)
{
    struct hmreg_group_config config = {.size = sizeof(config), .flags = flags, .domain = domain};

    vendors_reset();
    group = (struct group){.count = count};
    fixture_open_in(&group.fixture, monitor, NULL);
    test_after(close_group);
    group.members[0] = group.fixture.domain;
    for (size_t i = 1; i < count; i++)
        group.members[i] = counter_open_more(group.fixture.lib, NULL);
    assert_ok(
        hmreg_group_open(group.fixture.lib, group.members, count, &config, &group.fixture.domain));
}

static void open_group(size_t count, enum hmreg_monitor monitor,
                       const struct hmreg_domain_config *domain)
{
    open_flagged(count, monitor, 0, domain);
}

/* Gets and puts; the number of registrations that took. */
static unsigned cost_of(void *addr)
{
    unsigned before = atomic_load(&counter.regs);

    hmreg_mr_put(fixture_get_in(&group.fixture, addr, LEN));
    return atomic_load(&counter.regs) - before;
}

static unsigned regions(void)
{
    return atomic_load(&counter.regions);
}

/* As over EFA's libfabric: what is registered there is found again without our cache. */
TEST(get__one_member_caches_itself__the_group_does_not)
{
    struct hmreg_group_config config = {.size = sizeof(config)};
    struct hmreg_domain *plain;

    open_group(2, HMREG_MONITOR_IMPORT, NULL);
    plain = group.fixture.domain;
    inside_set_caching(group.members[1]);
    assert_ok(
        hmreg_group_open(group.fixture.lib, group.members, 2, &config, &group.fixture.domain));
    assert_int_equal(cost_of(memory[0]), 2);
    assert_int_equal(cost_of(memory[0]), 2);
    assert_ok(hmreg_domain_close(group.fixture.domain));
    group.fixture.domain = plain;
    assert_int_equal(cost_of(memory[0]), 2);
    assert_int_equal(cost_of(memory[0]), 0);
}

/* ---- ends ------------------------------------------------------------------------------- */

TEST(munmap__cached_memory__all_rails_end)
{
    char *mapped;

    open_group(3, fixture_monitor(), NULL);
    mapped = fixture_map(1);
    assert_int_equal(cost_of(mapped), 3);
    assert_int_equal(cost_of(mapped), 0);
    munmap(mapped, fixture_page());
    assert_ptr_equal(fixture_map_at(mapped, 1), mapped);
    assert_int_equal(cost_of(mapped), 3);
    assert_ok(hmreg_domain_progress(group.fixture.domain));
    assert_int_equal(regions(), 3);
    munmap(mapped, fixture_page());
}

/* Room for two regions of three rails, and for one or two rails more: what a third could not finish
 * is given back, and the eldest goes. */
TEST(get__members_have_no_room__evicts_whole_regions)
{
    for (unsigned room = 6; room <= 8; room++) {
        open_group(3, HMREG_MONITOR_IMPORT, NULL);
        counter.room = room;
        for (int i = 0; i < 8; i++)
            cost_of(memory[i]);
        assert_int_equal(regions(), 6);
        assert_int_equal(fixture_stats_in(&group.fixture).regions, 2);
        assert_int_equal(fixture_stats_in(&group.fixture).evicted_memory, 6);
        assert_int_equal(cost_of(memory[7]), 0);
        test_finish();
    }
}

/* ---- threads ---------------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS  2000

/* Gets on the group and on one member, of ranges that others get, evict and invalidate. */
static void *get_and_put(void *arg)
{
    unsigned first = *(unsigned *)arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        char *addr = memory[(first + i * 7) % 16];
        struct hmreg_mr *mr = NULL, *own = NULL;

        if (hmreg_mr_get(group.fixture.domain, addr, LEN, HMREG_SEND, &mr) ||
            hmreg_mr_get(group.members[first % 3], addr, LEN, HMREG_SEND, &own))
            abort();
        for (size_t rail = 0; rail < 3; rail++)
            if (!hmreg_mr_rail(mr, rail) || !hmreg_mr_head_of(mr)->keys[rail].native)
                abort();
        hmreg_mr_put(own);
        hmreg_mr_put(mr);
        if (i % 64 == 0 && hmreg_invalidate(group.fixture.lib, addr, LEN))
            abort();
    }
    return NULL;
}

TEST(threads__on_a_group_and_its_members__all_is_deregistered)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = 6};
    unsigned first[THREADS] = {0, 1, 2, 3};

    open_group(3, HMREG_MONITOR_IMPORT, &config);
    test_on_threads(THREADS, get_and_put, first, sizeof(first[0]));
    for (size_t i = 0; i < 3; i++)
        assert_ok(hmreg_domain_flush(group.members[i]));
    assert_ok(hmreg_domain_flush(group.fixture.domain));
    assert_int_equal(regions(), 0);
}

/* ---- a member's peers ------------------------------------------------------------------- */

/* A loopback member's memory is accessed by its address: once that memory has changed, no peer
 * reaches it, even before the next call on the group. */
TEST(munmap__cached_region_of_a_group__peers_of_a_member_denied)
{
    struct hmreg_config library = {.size = sizeof(library), .monitor = fixture_monitor()};
    struct hmreg_domain *members[2], *both, *peer;
    struct hmreg_remote *remotes[2];
    struct hmreg_mr *mr = NULL;
    struct hmreg *lib;
    uint8_t token[2048];
    size_t size = sizeof(token);
    uint64_t addr, key;
    char *mapped;

    if (hmreg_open(&library, &lib))
        test_skip("%s", hmreg_last_error()->text);
    for (int i = 0; i < 2; i++)
        assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &members[i]));
    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &peer));
    assert_ok(hmreg_group_open(lib, members, 2, NULL, &both));
    mapped = fixture_map(1);
    assert_ok(hmreg_mr_get(both, mapped, LEN, HMREG_ACCESS_REMOTE, &mr));
    assert_ok(hmreg_mr_pack(mr, token, &size));
    hmreg_mr_put(mr);
    assert_ok(hmreg_remote_open_rails(both, token, size, remotes, 2));
    for (int i = 0; i < 2; i++) {
        assert_ok(hmreg_remote_addr(remotes[i], 7, 1, &addr, &key));
        assert_ok(hmreg_loopback_write(remotes[i], "x", 1, NULL, addr, key));
    }
    assert_int_equal(mapped[7], 'x');
    munmap(mapped, fixture_page());
    assert_ptr_equal(fixture_map_at(mapped, 1), mapped);
    for (int i = 0; i < 2; i++) {
        assert_ok(hmreg_remote_addr(remotes[i], 7, 1, &addr, &key));
        assert_fails(hmreg_loopback_write(remotes[i], "y", 1, NULL, addr, key), -EKEYREJECTED, "");
        hmreg_remote_close(remotes[i]);
    }
    assert_int_equal(mapped[7], 0);
    munmap(mapped, fixture_page());
    assert_ok(hmreg_domain_close(both));
    assert_ok(hmreg_domain_close(peer));
    for (int i = 0; i < 2; i++)
        assert_ok(hmreg_domain_close(members[i]));
    assert_ok(hmreg_close(lib));
}

/* ---- a member is replaced --------------------------------------------------------------- */

/* Writes one byte by a remote, at its offset. */
static int write_by(struct hmreg_remote *remote, uint64_t at, char byte)
{
    uint64_t addr, key;

    assert_ok(hmreg_remote_addr(remote, at, 1, &addr, &key));
    return hmreg_loopback_write(remote, &byte, 1, NULL, addr, key);
}

static enum hmreg_remote_state renew(struct hmreg_remote *remote, const struct hmreg_mr *mr,
                                     size_t rail)
{
    enum hmreg_remote_state state;
    uint8_t token[2048];
    const void *part;
    size_t size = sizeof(token), part_size;

    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_token_rail(token, size, rail, &part, &part_size));
    assert_ok(hmreg_remote_check(remote, part, part_size, &state));
    if (state == HMREG_REMOTE_RENEWED)
        assert_ok(hmreg_remote_renew(remote, part, part_size));
    return state;
}

/* The peer writes over both rails; of the one whose NIC is new it learns the key, of the other
 * nothing. */
TEST(replace__peer_writes__by_the_new_key_of_one_rail)
{
    struct hmreg_group_member info = {.size = sizeof(info)};
    struct hmreg_domain *members[3], *both;
    struct hmreg_remote *remotes[2];
    struct hmreg_mr *mr = NULL;
    struct hmreg *lib;
    uint8_t token[2048];
    size_t size = sizeof(token);
    static char written[LEN];

    assert_ok(hmreg_open(NULL, &lib));
    for (int i = 0; i < 3; i++)
        assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &members[i]));
    assert_ok(hmreg_group_open(lib, members, 2, NULL, &both));
    assert_ok(hmreg_mr_get(both, written, LEN, HMREG_ACCESS_REMOTE, &mr));
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open_rails(both, token, size, remotes, 2));
    for (int i = 0; i < 2; i++)
        assert_ok(write_by(remotes[i], (uint64_t)i, 'a'));
    assert_ok(hmreg_group_withdraw(both, 1, "cable cut"));
    assert_ok(write_by(remotes[0], 0, 'b'));
    assert_ok(hmreg_group_replace(both, 1, members[2]));
    do
        assert_ok(hmreg_group_query(both, 1, &info));
    while (info.state == HMREG_MEMBER_REPLACING);
    assert_int_equal(renew(remotes[0], mr, 0), HMREG_REMOTE_CURRENT);
    assert_int_equal(renew(remotes[1], mr, 1), HMREG_REMOTE_RENEWED);
    for (int i = 0; i < 2; i++)
        assert_ok(write_by(remotes[i], (uint64_t)i, 'c'));
    assert_memory_equal(written, "cc", 2);
    hmreg_mr_put(mr);
    for (int i = 0; i < 2; i++)
        hmreg_remote_close(remotes[i]);
    assert_ok(hmreg_domain_close(both));
    for (int i = 0; i < 3; i++)
        assert_ok(hmreg_domain_close(members[i]));
    assert_ok(hmreg_close(lib));
}

/* ---- forks ------------------------------------------------------------------------------ */

TEST(fork__the_parents_group__child_gets_eperm)
{
    struct hmreg_domain *out = NULL;
    struct hmreg_remote *remotes[2];
    struct hmreg_mr *mr, *other = NULL;
    pid_t child;

    test_forks_with_threads();
    test_forks_wipe();
    open_group(2, HMREG_MONITOR_IMPORT, NULL);
    mr = fixture_get_in(&group.fixture, memory[0], LEN);
    child = fork();
    if (!child) {
        struct hmreg_domain *domain = group.fixture.domain;
        struct hmreg_group_member info = {.size = sizeof(info)};
        bool right = hmreg_group_withdraw(domain, 0, "x") == -EPERM &&
                     hmreg_group_replace(domain, 0, domain) == -EPERM &&
                     hmreg_group_query(domain, 0, &info) == -EPERM &&
                     hmreg_mr_get(domain, memory[0], LEN, HMREG_ACCESS_REMOTE, &other) == -EPERM &&
                     !hmreg_mr_rail(mr, 0) && hmreg_last_error()->code == -EPERM &&
                     hmreg_remote_open_rails(domain, "token", 5, remotes, 2) == -EPERM &&
                     hmreg_group_open(group.fixture.lib, group.members, 2, NULL, &out) == -EPERM;

        _exit(right ? 0 : 1);
    }
    test_await(child);
    hmreg_mr_put(mr);
    assert_int_equal(cost_of(memory[0]), 0);
}

TEST_MAIN()
