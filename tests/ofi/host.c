/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Host memory on a real fabric, reached by a peer in another process. */
#include "tests/ofi/bed.h"

#include <errno.h>

/* ---- what a peer may do ----------------------------------------------------------------- */

static void rma__odd_offsets_and_lengths__exact_bytes(void **state)
{
    struct bed bed;

    bed_open(&bed, NULL, HMREG_ACCESS_ALL);
    bed_write_and_read(&bed);
    bed_close(&bed);
}

static void rma__mr_mode_basic__the_peer_need_not_know(void **state)
{
    bed_in_old_mode(HMREG_MR_BASIC, HMREG_MR_VIRT_ADDR | HMREG_MR_PROV_KEY);
}

static void rma__region_from_get__exact_bytes(void **state)
{
    struct hmreg_mr *first, *second;
    struct bed bed;

    bed_open(&bed, NULL, HMREG_ACCESS_ALL);
    assert_ok(hmreg_mr_get(bed.fabric.domain, bed.memory, BED_BYTES, HMREG_ACCESS_ALL, &first));
    assert_ok(hmreg_mr_get(bed.fabric.domain, bed.memory, BED_BYTES, HMREG_ACCESS_ALL, &second));
    assert_ok(peer_take_region(&bed.fabric, first));
    bed_write_and_read(&bed);
    assert_ok(peer_take_region(&bed.fabric, second));
    bed_write_and_read(&bed);
    hmreg_mr_put(second);
    hmreg_mr_put(first);
    bed_close(&bed);
}

static void rma__we_start_it_from_a_region__exact_bytes(void **state)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_remote *remote;
    uint64_t addr, key;
    struct bed bed;

    bed_open(&bed, NULL, HMREG_ACCESS_ALL);
    assert_ok(peer_offer(&bed.fabric, 10000, 3, &remote));
    assert_ok(hmreg_mr_query(bed.mr, &info));
    assert_int_equal(info.local_addr, (uintptr_t)bed.memory);
    assert_ok(hmreg_remote_addr(remote, 0, 10000, &addr, &key));
    assert_int_equal(endpoint_read(&bed.fabric.endpoint, bed.memory + 5, 10000,
                                   hmreg_mr_desc(bed.mr), addr, key),
                     0);
    bed_assert_only(&bed, 5, 10000, 3);
    hmreg_remote_close(remote);
    bed_close(&bed);
}

/* ---- what it may not -------------------------------------------------------------------- */

static void rma__outside_the_region__range(void **state)
{
    struct bed bed;

    bed_open(&bed, NULL, HMREG_ACCESS_ALL);
    assert_fails(peer_write(&bed.fabric, BED_BYTES - 4, 5, 1), -ERANGE, "outside the region");
    bed_assert_only(&bed, 0, 0, 0);
    bed_close(&bed);
}

static uint64_t first_addr(const struct bed *bed)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};

    assert_ok(hmreg_domain_query(bed->fabric.domain, &info));
    return info.mr_mode & HMREG_MR_VIRT_ADDR ? (uintptr_t)bed->memory : 0;
}

static void assert_denied(struct bed *bed, uint64_t offset, uint64_t key, size_t len)
{
    int rc = peer_intrude(&bed->fabric, first_addr(bed) + offset, key, len, 1);

    if (fabric_tells_intruders())
        assert_int_not_equal(rc, 0);
    bed_assert_only(bed, 0, 0, 0);
    bed_close(bed);
}

static void rma__wrong_key__no_byte_changes(void **state)
{
    struct bed bed;

    bed_open(&bed, NULL, HMREG_ACCESS_ALL);
    assert_denied(&bed, 0, hmreg_mr_key(bed.mr) + 1, 100);
}

static void rma__key_of_a_closed_region__no_byte_changes(void **state)
{
    struct bed bed;
    uint64_t key;

    bed_open(&bed, NULL, HMREG_ACCESS_ALL);
    key = hmreg_mr_key(bed.mr);
    assert_ok(hmreg_mr_close(bed.mr));
    bed.mr = NULL;
    assert_denied(&bed, 0, key, 100);
}

static void rma__right_not_granted__no_byte_changes(void **state)
{
    struct bed bed;

    bed_open(&bed, NULL, HMREG_REMOTE_READ);
    assert_fails(peer_read(&bed.fabric, 0, 1, 0), -EBADMSG, "is 0, not 0x1");
    assert_denied(&bed, 0, hmreg_mr_key(bed.mr), 100);
}

static void rma__over_the_end__no_byte_changes(void **state)
{
    struct hmreg_mr *part;
    struct bed bed;
    uint64_t begins;

    bed_open(&bed, NULL, HMREG_ACCESS_ALL);
    assert_ok(hmreg_mr_close(bed.mr));
    assert_ok(hmreg_mr_reg(bed.fabric.domain, bed.memory + 3, 1000, HMREG_ACCESS_ALL, 0,
                           bed_key(&bed, BED_KEY), 0, &part, NULL));
    bed.mr = part;
    begins = first_addr(&bed) ? 3 : 0;
    assert_denied(&bed, begins + 995, hmreg_mr_key(part), 20);
}

/* ---- registering ------------------------------------------------------------------------ */

/* libfabric 1.17 wants unique keys of these too. */
static void reg__regions_without_remote_access__share_no_key(void **state)
{
    struct hmreg_mr *mrs[20];
    struct bed bed;

    bed_open_lonely(&bed);
    for (int i = 0; i < 20; i++) {
        assert_ok(hmreg_mr_reg(bed.fabric.domain, bed.memory, 10, HMREG_ACCESS_LOCAL, 0, 0, 0,
                               &mrs[i], NULL));
        assert_int_equal(hmreg_mr_key(mrs[i]), HMREG_KEY_NOTAVAIL);
    }
    assert_ok(
        hmreg_mr_reg(bed.fabric.domain, bed.memory, 10, HMREG_ACCESS_ALL, 0, 0, 0, &bed.mr, NULL));
    assert_int_equal(hmreg_mr_key(bed.mr),
                     bed_key(&bed, 1) ? 0 : fi_mr_key(hmreg_mr_native(bed.mr)));
    for (int i = 0; i < 20; i++)
        assert_ok(hmreg_mr_close(mrs[i]));
    bed_close(&bed);
}

static void reg__native_and_desc__libfabrics(void **state)
{
    struct fid_mr *native;
    struct bed bed;

    bed_open_lonely(&bed);
    assert_ok(hmreg_mr_reg(bed.fabric.domain, bed.memory, 10, HMREG_ACCESS_ALL, 0,
                           bed_key(&bed, BED_KEY), 0, &bed.mr, &bed));
    native = hmreg_mr_native(bed.mr);
    assert_non_null(native);
    assert_int_equal(native->fid.fclass, FI_CLASS_MR);
    assert_ptr_equal(native->fid.context, &bed);
    assert_ptr_equal(hmreg_mr_desc(bed.mr), fi_mr_desc(native));
    assert_int_equal(hmreg_mr_key(bed.mr), fi_mr_key(native));
    bed_close(&bed);
}

static void explain__host_memory__path_system(void **state)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct bed bed;

    bed_open_lonely(&bed);
    assert_ok(hmreg_mr_reg(bed.fabric.domain, bed.memory, 10, HMREG_ACCESS_ALL, 0,
                           bed_key(&bed, BED_KEY), 0, &bed.mr, NULL));
    assert_ok(hmreg_explain(bed.mr, &why));
    assert_int_equal(why.path, HMREG_PATH_SYSTEM);
    assert_int_equal(why.refused, 0);
    bed_close(&bed);
}

/* ---- the domain ------------------------------------------------------------------------- */

static void query__domain__as_fi_info_says(void **state)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};
    const struct fi_info *theirs;
    struct bed bed;

    bed_open_lonely(&bed);
    theirs = bed.fabric.endpoint.info;
    assert_ok(hmreg_domain_query(bed.fabric.domain, &info));
    assert_string_equal(info.provider, "ofi");
    assert_string_equal(info.fabric, theirs->fabric_attr->prov_name);
    assert_int_equal(info.mr_mode, theirs->domain_attr->mr_mode);
    assert_int_equal(info.key_size, theirs->domain_attr->mr_key_size);
    assert_int_equal(info.iov_limit, 1); /* shm and sockets state more, and check the first only */
    assert_int_equal(info.max_len, HMREG_LIMIT_NONE);
    bed_close(&bed);
}

static void close__regions_open__busy(void **state)
{
    struct bed bed;

    bed_open(&bed, NULL, HMREG_ACCESS_ALL);
    assert_fails(hmreg_domain_close(bed.fabric.domain), -EBUSY, "1 regions");
    assert_fails(hmreg_close(bed.fabric.lib), -EBUSY, "1 domains");
    bed_close(&bed);
}

FABRIC_TEST_MAIN(TEST(rma__odd_offsets_and_lengths__exact_bytes),
                 TEST(rma__mr_mode_basic__the_peer_need_not_know),
                 TEST(rma__region_from_get__exact_bytes),
                 TEST(rma__we_start_it_from_a_region__exact_bytes),
                 TEST(rma__outside_the_region__range), TEST(rma__wrong_key__no_byte_changes),
                 TEST(rma__key_of_a_closed_region__no_byte_changes),
                 TEST(rma__right_not_granted__no_byte_changes),
                 TEST(rma__over_the_end__no_byte_changes),
                 TEST(reg__regions_without_remote_access__share_no_key),
                 TEST(reg__native_and_desc__libfabrics), TEST(explain__host_memory__path_system),
                 TEST(query__domain__as_fi_info_says), TEST(close__regions_open__busy))
