/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Room for registrations of every kind: whose idle regions give way, in which order, how many, and
 * what is said where none can.
 */
#define PAGES 64
#include "tests/unit/room_fixture.h"

#include <hmreg/group.h>
#include <hmreg/job.h>
#include <hmreg/suspend.h>

static int reg_of(struct hmreg_domain *domain, unsigned first, unsigned pages, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(domain, memory[first], pages * PAGE, HMREG_SEND, 0, 0, 0, mr, NULL);
}

/* ---- the process's locked memory ---------------------------------------------------------- */

TEST(get__locked_memory_is_another_domains__it_gives_way_by_the_library)
{
    struct hmreg_mr *held[4];

    open_lib();
    scarce_limit_locked(16 * PAGE);
    open_domain(0, true);
    open_domain(2, true);
    fill(domains[0], 0, 16);
    for (unsigned i = 0; i < 4; i++)
        held[i] = get_of(domains[2], memory[20 + i], PAGE);
    assert_int_equal(regions_of(domains[0]), 12);
    assert_int_equal(stats_of(domains[0]).gave_others, 4);
    assert_int_equal(stats_of(domains[0]).evicted_memory, 4);
    assert_int_equal(stats_of(domains[2]).evictions, 0);
    assert_int_equal(atomic_load(&scarce.deregs), 4);
    for (unsigned i = 0; i < 4; i++)
        hmreg_mr_put(held[i]);
}

/* Two libraries in the process may each open one. */
TEST(get__locked_memory_is_another_librarys__it_gives_way)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};
    struct hmreg_domain *other;
    struct hmreg *second;

    open_lib();
    scarce_limit_locked(16 * PAGE);
    open_domain(0, true);
    assert_ok(hmreg_open(&config, &second));
    other = scarce_open(second, 1, true, NULL);
    fill(other, 0, 16);
    hmreg_mr_put(get_of(domains[0], memory[20], 3 * PAGE));
    assert_int_equal(stats_of(other).gave_others, 3);
    assert_int_equal(regions_of(other), 13);
    assert_ok(hmreg_domain_close(other));
    assert_ok(hmreg_close(second));
}

/* Its own regions first, and of others' no more than is needed. */
TEST(get__own_and_others_are_idle__own_ones_first)
{
    struct hmreg_mr *mr;

    open_lib();
    scarce_limit_locked(16 * PAGE);
    open_domain(0, true);
    open_domain(2, true);
    fill(domains[0], 0, 12);
    fill(domains[2], 20, 4);
    mr = get_of(domains[2], memory[30], 6 * PAGE);
    assert_int_equal(stats_of(domains[2]).evictions, 4);
    assert_int_equal(regions_of(domains[0]), 10);
    hmreg_mr_put(mr);
}

TEST(reg__the_domains_cache_is_full_of_idle_ones__they_give_way)
{
    struct hmreg_mr *mr = NULL, *large = NULL;

    open_lib();
    scarce_limit_locked(16 * PAGE);
    open_domain(0, true);
    fill(domains[0], 0, 15);
    assert_ok(reg_of(domains[0], 20, 4, &mr));
    assert_int_equal(stats_of(domains[0]).gave_explicit, 3);
    assert_ok(hmreg_mr_reg_large(domains[0], memory[30], 8 * PAGE, HMREG_SEND, NULL, &large));
    assert_true(regions_of(domains[0]) >= 2);
    assert_int_equal(stats_of(domains[0]).gave_others, 0);
    assert_ok(hmreg_mr_close(large));
    assert_ok(hmreg_mr_close(mr));
}

TEST(job__in_pieces_by_threads__all_find_room)
{
    struct hmreg_job_config config = {.size = sizeof(config), .workers = 4, .piece_len = PAGE};
    struct iovec iov = {memory[32], 16 * PAGE};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .iov = &iov, .iov_count = 1, .access = HMREG_SEND};
    struct hmreg_mr *mr = NULL;
    struct hmreg_job *job;

    open_lib();
    scarce_limit_locked(16 * PAGE);
    open_domain(0, true);
    open_domain(2, true);
    fill(domains[0], 0, 8);
    fill(domains[2], 8, 8);
    assert_ok(hmreg_job_start(domains[0], &attr, 0, &config, &job));
    assert_ok(hmreg_job_wait(job, -1, &mr));
    assert_ok(hmreg_job_close(job));
    assert_int_equal(regions_of(domains[0]) + regions_of(domains[2]), 0);
    assert_ok(hmreg_mr_close(mr));
}

TEST(resume__others_have_taken_the_room__they_give_way)
{
    struct hmreg_mr *held, *mr = NULL;

    open_lib();
    scarce_limit_locked(16 * PAGE);
    open_domain(0, true);
    open_domain(2, true);
    held = get_of(domains[0], memory[0], 4 * PAGE);
    assert_ok(reg_of(domains[0], 4, 4, &mr));
    assert_ok(hmreg_suspend(lib, memory[0], 8 * PAGE));
    fill(domains[2], 16, 16);
    assert_ok(hmreg_resume(lib, memory[0], 8 * PAGE, NULL));
    assert_int_equal(regions_of(domains[2]), 8);
    assert_ok(hmreg_mr_close(mr));
    hmreg_mr_put(held);
}

/* ---- domains that only their own threads may call ------------------------------------------ */

TEST(get__others_fabric_is_for_its_own_threads__it_gives_way_at_its_next_call)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr *mr = NULL;

    open_lib();
    scarce_limit_locked(16 * PAGE);
    open_domain(0, false);
    open_domain(2, true);
    fill(domains[0], 0, 16);
    for (int i = 0; i < 3; i++) /* what is promised already is not promised anew */
        assert_fails(hmreg_mr_get(domains[2], memory[20], 3 * PAGE, HMREG_SEND, &mr), -ENOMEM,
                     "hmreg_domain_progress()");
    assert_int_equal(atomic_load(&scarce.deregs), 0);
    assert_int_equal(stats_of(domains[0]).gave_others, 3);
    assert_ok(hmreg_mr_explain(NULL, &why));
    assert_non_null(strstr(why.room_why, "locked memory"));
    assert_non_null(strstr(why.room_why, "nic0: 13 cached of 53248 bytes"));
    assert_ok(hmreg_domain_progress(domains[0]));
    assert_int_equal(atomic_load(&scarce.deregs), 3);
    mr = get_of(domains[2], memory[20], 3 * PAGE);
    hmreg_mr_put(mr);
}

/* ---- what is in use ------------------------------------------------------------------------- */

TEST(reg__all_is_held__fails_and_says_by_whom)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr *held, *explicit = NULL, *mr = NULL;

    open_lib();
    scarce_limit_locked(8 * PAGE);
    open_domain(0, true);
    open_domain(2, true);
    held = get_of(domains[0], memory[0], 4 * PAGE);
    assert_ok(reg_of(domains[2], 4, 4, &explicit));
    assert_fails(reg_of(domains[0], 20, 1, &mr), -ENOMEM,
                 "the test's fabric is full; the registration is short");
    assert_ok(hmreg_mr_explain(NULL, &why));
    assert_int_equal(why.refused, 0);
    assert_non_null(strstr(why.room_why, "RLIMIT_MEMLOCK is 32768"));
    assert_non_null(strstr(why.room_why, "scarce nic0: 1 cached of 16384 bytes"));
    assert_non_null(strstr(why.room_why, "scarce nic1: 1 explicit"));
    hmreg_mr_put(held);
    assert_ok(reg_of(domains[2], 20, 1, &mr));
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_mr_close(explicit));
}

static void open_group(size_t count)
{
    assert_ok(hmreg_group_open(lib, domains, count, NULL, &group));
}

/* Of three rails 2 would find room. */
TEST(get__a_groups_rails_exceed_the_limit_together__nothing_gives_way)
{
    struct hmreg_mr *mr = NULL;

    open_lib();
    scarce_limit_locked(16 * PAGE);
    for (unsigned i = 0; i < 3; i++)
        open_domain(i, true);
    open_group(3);
    fill(domains[0], 0, 10);
    assert_fails(hmreg_mr_get(group, memory[20], 6 * PAGE, HMREG_SEND, &mr), -ENOMEM,
                 "it locks 73728 bytes; RLIMIT_MEMLOCK is 65536");
    assert_int_equal(regions_of(domains[0]), 10);
    assert_int_equal(atomic_load(&scarce.locked), 10 * PAGE);
}

/* One rail would find room, the other one not. */
TEST(get__a_groups_rails_exceed_what_is_idle_together__nothing_gives_way)
{
    struct hmreg_mr *held, *mr = NULL;

    open_lib();
    scarce_limit_locked(16 * PAGE);
    for (unsigned i = 0; i < 3; i++)
        open_domain(i, true);
    open_group(2);
    held = get_of(domains[1], memory[40], 6 * PAGE);
    fill(domains[2], 0, 10);
    assert_fails(hmreg_mr_get(group, memory[20], 6 * PAGE, HMREG_SEND, &mr), -ENOMEM,
                 "it locks 49152 bytes; RLIMIT_MEMLOCK is 65536");
    assert_int_equal(regions_of(domains[2]), 10);
    mr = get_of(group, memory[20], 5 * PAGE);
    assert_int_equal(regions_of(domains[2]), 0);
    hmreg_mr_put(mr);
    hmreg_mr_put(held);
}

/* The first pieces would find room. */
TEST(reg_large__its_pieces_exceed_what_is_idle_together__nothing_gives_way)
{
    struct hmreg_job_config pieces = {.size = sizeof(pieces), .piece_len = PAGE, .workers = 1};
    struct hmreg_mr *held, *mr = NULL;

    open_lib();
    scarce_limit_locked(16 * PAGE);
    open_domain(0, true);
    open_domain(2, true);
    held = get_of(domains[2], memory[40], 12 * PAGE);
    fill(domains[2], 0, 2);
    assert_int_equal(hmreg_mr_reg_large(domains[0], memory[20], 5 * PAGE, HMREG_SEND, &pieces, &mr),
                     -ENOMEM);
    assert_int_equal(regions_of(domains[2]), 3);
    assert_ok(hmreg_mr_reg_large(domains[0], memory[20], 4 * PAGE, HMREG_SEND, &pieces, &mr));
    assert_int_equal(regions_of(domains[2]), 1);
    assert_ok(hmreg_mr_close(mr));
    hmreg_mr_put(held);
}

/* ---- the NIC's and the device's ------------------------------------------------------------ */

TEST(reg__a_nic_is_full__only_its_regions_give_way)
{
    struct hmreg_mr *mr = NULL;

    open_lib();
    for (unsigned i = 0; i < DOMAINS; i++)
        open_domain(i, true);
    fill(domains[1], 0, 8);
    fill(domains[2], 0, 8);
    fill(domains[3], 0, 8);
    scarce.most_regions = 8;
    assert_ok(reg_of(domains[0], 20, 1, &mr));
    assert_int_equal(regions_of(domains[1]), 7);
    assert_int_equal(stats_of(domains[1]).evicted_room, 1);
    assert_int_equal(regions_of(domains[2]) + regions_of(domains[3]), 16);
    assert_ok(hmreg_mr_close(mr));
}

/* A region of a group that is not registered on the rail that is short stays. */
TEST(get__of_a_group__a_rail_is_full__regions_on_it_give_way)
{
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .iov_count = 1, .access = HMREG_ACCESS_REMOTE};
    struct hmreg_mr *mr = NULL;

    open_lib();
    open_domain(0, true);
    open_domain(2, true);
    domains[1] = domains[2];
    domains[2] = NULL;
    open_group(2);
    for (unsigned i = 0; i < 8; i++) {
        struct iovec iov = {memory[i], PAGE};

        attr.iov = &iov;
        attr.rails = 1u << i % 2;
        assert_ok(hmreg_mr_get_attr(group, &attr, 0, &mr));
        hmreg_mr_put(mr);
    }
    fill(domains[1], 8, 1);
    scarce.most_regions = 5;
    mr = get_of(group, memory[20], PAGE);
    assert_int_equal(atomic_load(&scarce.regions[0]), 5);
    assert_int_equal(atomic_load(&scarce.regions[1]), 5);
    assert_int_equal(regions_of(group), 8);
    assert_int_equal(regions_of(domains[1]), 1);
    hmreg_mr_put(mr);
}

static void claim(unsigned first, unsigned count, int device)
{
    for (unsigned i = first; i < first + count; i++) {
        struct vendor_claim *claim =
            vendor_claim(HMREG_IFACE_CUDA, memory[i], PAGE, HMREG_MEM_DEVICE, device);

        claim->fd = -1;
    }
}

TEST(get__a_devices_window_is_full__only_its_memory_gives_way)
{
    open_lib();
    open_domain(0, true);
    open_domain(2, true);
    claim(0, 9, 0);
    fill(domains[0], 0, 8);
    fill(domains[0], 20, 8);
    scarce.most_window = 8 * PAGE;
    fill(domains[2], 8, 1);
    assert_int_equal(stats_of(domains[0]).gave_others, 1);
    assert_int_equal(regions_of(domains[0]), 15);
    assert_int_equal(atomic_load(&scarce.useless), 0);
}

/* Some NICs answer ENOMEM for their own tables, too, of which other devices' errors say nothing. */
TEST(get__a_nic_answers_enomem_when_it_is_full__its_regions_give_way_to_a_devices_memory)
{
    struct hmreg_mr *mr = NULL;

    for (int says = 0; says < 2; says++) {
        open_lib();
        open_domain(0, true);
        claim(20, 1, 0);
        fill(domains[0], 0, 8);
        if (says) {
            scarce.enomem = true;
            scarce.most_regions = 8;
            mr = get_of(domains[0], memory[20], PAGE);
            hmreg_mr_put(mr);
            assert_int_equal(regions_of(domains[0]), 8);
        } else {
            scarce.most_window = PAGE / 2;
            assert_fails(hmreg_mr_get(domains[0], memory[20], PAGE, HMREG_SEND, &mr), -EOPNOTSUPP,
                         "BAR1");
            assert_int_equal(regions_of(domains[0]), 8);
        }
        test_finish();
    }
}

TEST(get__no_descriptor_is_left__mapped_memory_gives_way)
{
    char *mapped[5];

    open_lib();
    vendors[HMREG_IFACE_CUDA].dmabuf = true;
    open_domain(0, true);
    open_domain(2, true);
    for (int i = 0; i < 5; i++)
        mapped[i] = vendor_memory(HMREG_IFACE_CUDA, 1, HMREG_MEM_DEVICE, PAGE);
    for (int i = 0; i < 4; i++)
        hmreg_mr_put(get_of(domains[0], mapped[i], PAGE));
    fill(domains[0], 0, 8);
    claim(20, 4, 0);
    fill(domains[0], 20, 4);
    scarce.most_mappings = 4;
    hmreg_mr_put(get_of(domains[2], mapped[4], PAGE));
    assert_int_equal(regions_of(domains[0]), 15);
    assert_int_equal(atomic_load(&scarce.mappings), 4);
    for (int i = 0; i < 5; i++)
        vendor_memory_free(mapped[i]);
}

/* ---- keys ----------------------------------------------------------------------------------- */

TEST(reg__requested_key_is_in_use__nothing_gives_way)
{
    struct hmreg_mr *one = NULL, *other = NULL;

    open_lib();
    open_domain(0, true);
    fill(domains[0], 0, 8);
    assert_ok(hmreg_mr_reg(domains[0], memory[20], PAGE, HMREG_REMOTE_READ, 0, 77, 0, &one, NULL));
    assert_int_equal(
        hmreg_mr_reg(domains[0], memory[21], PAGE, HMREG_REMOTE_READ, 0, 77, 0, &other, NULL),
        -HMREG_ENOKEY);
    assert_int_equal(regions_of(domains[0]), 8);
    assert_ok(hmreg_mr_close(one));
}

/* 256 keys, and four regions in each page. */
TEST(reg__the_domains_keys_are_used_up__its_own_regions_give_way)
{
    struct hmreg_mr *mr = NULL;

    open_lib();
    scarce.key_size = 1;
    open_domain(0, true);
    open_domain(1, true);
    fill(domains[1], 0, 1);
    for (unsigned i = 0; i < 256; i++)
        hmreg_mr_put(get_of(domains[0], memory[i / 4] + i % 4 * (PAGE / 4), PAGE / 4));
    assert_int_equal(regions_of(domains[0]), 256);
    mr = get_of(domains[0], memory[0], PAGE);
    assert_int_equal(stats_of(domains[0]).evicted_keys, 1);
    assert_int_equal(regions_of(domains[1]), 1);
    hmreg_mr_put(mr);
}

TEST_MAIN()
