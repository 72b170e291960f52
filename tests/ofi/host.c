/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Host memory on a real fabric, reached by a peer in another process. */
#include "tests/support/fabric.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 300000
#define KEY   77

struct bed {
    struct fabric fabric;
    unsigned char *memory; /* BYTES, zero */
    struct hmreg_mr *mr;   /* all of it; not with open_lonely() */
};

static uint64_t own_key(const struct bed *bed, uint64_t key)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};

    assert_ok(hmreg_domain_query(bed->fabric.domain, &info));
    return info.mr_mode & HMREG_MR_PROV_KEY ? 0 : key;
}

static void open_lonely(struct bed *bed)
{
    fabric_open(&bed->fabric, NULL);
    bed->memory = calloc(1, BYTES);
    bed->mr = NULL;
}

static void open_bed(struct bed *bed, const struct endpoint_hints *hints, uint64_t access)
{
    fabric_open_pair(&bed->fabric, hints);
    bed->memory = calloc(1, BYTES);
    assert_ok(hmreg_mr_reg(bed->fabric.domain, bed->memory, BYTES, access, 0, own_key(bed, KEY), 0,
                           &bed->mr, NULL));
    assert_ok(peer_take_region(&bed->fabric, bed->mr));
}

static void close_bed(struct bed *bed)
{
    assert_ok(hmreg_mr_close(bed->mr));
    fabric_close(&bed->fabric);
    free(bed->memory);
}

/* All of the memory is zero but for len bytes at offset, which are the seed's. */
static void assert_only(const struct bed *bed, size_t offset, size_t len, unsigned seed)
{
    for (size_t i = 0; i < BYTES; i++) {
        bool inside = i >= offset && i - offset < len;
        unsigned char wanted = inside ? fabric_byte(seed, i - offset) : 0;

        if (bed->memory[i] != wanted)
            fail_msg("byte %zu is %#x, not %#x; the peer wrote %zu bytes at %zu", i, bed->memory[i],
                     wanted, len, offset);
    }
}

/* ---- what a peer may do ----------------------------------------------------------------- */

/* Reads before we look: net's writes are done before they arrive. */
static void write_and_read(struct bed *bed)
{
    static const struct {
        size_t offset, len;
    } places[] = {{0, 1}, {1, 1}, {4097, 777}, {4095, 5001}, {333, 200001}, {BYTES - 1, 1}};

    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        memset(bed->memory, 0, BYTES);
        assert_ok(peer_write(&bed->fabric, places[i].offset, places[i].len, i));
        assert_ok(peer_read(&bed->fabric, places[i].offset, places[i].len, i));
        assert_only(bed, places[i].offset, places[i].len, i);
    }
}

static void rma__odd_offsets_and_lengths__exact_bytes(void **state)
{
    struct bed bed;

    open_bed(&bed, NULL, HMREG_ACCESS_ALL);
    write_and_read(&bed);
    close_bed(&bed);
}

static void in_old_mode(int mode, uint32_t becomes)
{
    struct endpoint_hints hints = {.old_mr_mode = mode};
    struct hmreg_domain_info info = {.size = sizeof(info)};
    struct bed bed;

    open_bed(&bed, &hints, HMREG_ACCESS_ALL);
    assert_ok(hmreg_domain_query(bed.fabric.domain, &info));
    assert_int_equal(info.mr_mode & (HMREG_MR_VIRT_ADDR | HMREG_MR_PROV_KEY), becomes);
    write_and_read(&bed);
    close_bed(&bed);
}

static void rma__mr_mode_basic__the_peer_need_not_know(void **state)
{
    in_old_mode(HMREG_MR_BASIC, HMREG_MR_VIRT_ADDR | HMREG_MR_PROV_KEY);
}

static void rma__mr_mode_scalable__the_peer_need_not_know(void **state)
{
    in_old_mode(HMREG_MR_SCALABLE, 0);
}

static void rma__region_from_get__exact_bytes(void **state)
{
    struct hmreg_mr *first, *second;
    struct bed bed;

    open_bed(&bed, NULL, HMREG_ACCESS_ALL);
    assert_ok(hmreg_mr_get(bed.fabric.domain, bed.memory, BYTES, HMREG_ACCESS_ALL, &first));
    assert_ok(hmreg_mr_get(bed.fabric.domain, bed.memory, BYTES, HMREG_ACCESS_ALL, &second));
    assert_ok(peer_take_region(&bed.fabric, first));
    write_and_read(&bed);
    assert_ok(peer_take_region(&bed.fabric, second));
    write_and_read(&bed);
    hmreg_mr_put(second);
    hmreg_mr_put(first);
    close_bed(&bed);
}

static void rma__we_start_it_from_a_region__exact_bytes(void **state)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_remote *remote;
    uint64_t addr, key;
    struct bed bed;

    open_bed(&bed, NULL, HMREG_ACCESS_ALL);
    assert_ok(peer_offer(&bed.fabric, 10000, 3, &remote));
    assert_ok(hmreg_mr_query(bed.mr, &info));
    assert_int_equal(info.local_addr, (uintptr_t)bed.memory);
    assert_ok(hmreg_remote_addr(remote, 0, 10000, &addr, &key));
    assert_int_equal(endpoint_read(&bed.fabric.endpoint, bed.memory + 5, 10000,
                                   hmreg_mr_desc(bed.mr), addr, key),
                     0);
    assert_only(&bed, 5, 10000, 3);
    hmreg_remote_close(remote);
    close_bed(&bed);
}

/* ---- what it may not -------------------------------------------------------------------- */

static void rma__outside_the_region__range(void **state)
{
    struct bed bed;

    open_bed(&bed, NULL, HMREG_ACCESS_ALL);
    assert_fails(peer_write(&bed.fabric, BYTES - 4, 5, 1), -ERANGE, "outside the region");
    assert_only(&bed, 0, 0, 0);
    close_bed(&bed);
}

/* Fabrics that tell the intruder; the others let it wait for ever, or (net) report success. */
static bool tells_intruders(void)
{
    return !strcmp(fabric_name(), "tcp") || !strcmp(fabric_name(), "sockets");
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

    if (tells_intruders())
        assert_int_not_equal(rc, 0);
    assert_only(bed, 0, 0, 0);
    close_bed(bed);
}

static void rma__wrong_key__no_byte_changes(void **state)
{
    struct bed bed;

    open_bed(&bed, NULL, HMREG_ACCESS_ALL);
    assert_denied(&bed, 0, hmreg_mr_key(bed.mr) + 1, 100);
}

static void rma__key_of_a_closed_region__no_byte_changes(void **state)
{
    struct bed bed;
    uint64_t key;

    open_bed(&bed, NULL, HMREG_ACCESS_ALL);
    key = hmreg_mr_key(bed.mr);
    assert_ok(hmreg_mr_close(bed.mr));
    bed.mr = NULL;
    assert_denied(&bed, 0, key, 100);
}

static void rma__right_not_granted__no_byte_changes(void **state)
{
    struct bed bed;

    open_bed(&bed, NULL, HMREG_REMOTE_READ);
    assert_fails(peer_read(&bed.fabric, 0, 1, 0), -EBADMSG, "is 0, not 0x1");
    assert_denied(&bed, 0, hmreg_mr_key(bed.mr), 100);
}

static void rma__over_the_end__no_byte_changes(void **state)
{
    struct hmreg_mr *part;
    struct bed bed;
    uint64_t begins;

    open_bed(&bed, NULL, HMREG_ACCESS_ALL);
    assert_ok(hmreg_mr_close(bed.mr));
    assert_ok(hmreg_mr_reg(bed.fabric.domain, bed.memory + 3, 1000, HMREG_ACCESS_ALL, 0,
                           own_key(&bed, KEY), 0, &part, NULL));
    bed.mr = part;
    begins = first_addr(&bed) ? 3 : 0;
    assert_denied(&bed, begins + 995, hmreg_mr_key(part), 20);
}

/* ---- registering ------------------------------------------------------------------------ */

static void reg__key_in_use__enokey(void **state)
{
    struct hmreg_mr *first, *second = (void *)1;
    struct bed bed;

    open_lonely(&bed);
    assert_ok(hmreg_mr_reg(bed.fabric.domain, bed.memory, 10, HMREG_REMOTE_READ, 0, KEY, 0, &first,
                           NULL));
    assert_int_equal(hmreg_mr_key(first), KEY);
    assert_fails(hmreg_mr_reg(bed.fabric.domain, bed.memory + 10, 10, HMREG_REMOTE_READ, 0, KEY, 0,
                              &second, NULL),
                 -HMREG_ENOKEY, "in use");
    assert_ptr_equal(second, (void *)1);
    assert_ok(hmreg_mr_close(first));
    assert_ok(hmreg_mr_reg(bed.fabric.domain, bed.memory + 10, 10, HMREG_REMOTE_READ, 0, KEY, 0,
                           &second, NULL));
    bed.mr = second;
    close_bed(&bed);
}

/* A key that came to the fabric without us. */
static void reg__key_known_to_the_fabric_only__enokey(void **state)
{
    struct hmreg_mr *mr = NULL;
    struct fid_mr *foreign;
    struct bed bed;

    open_lonely(&bed);
    assert_int_equal(fi_mr_reg(bed.fabric.endpoint.domain, bed.memory, 10, FI_REMOTE_READ, 0, KEY,
                               0, &foreign, NULL),
                     0);
    assert_fails(
        hmreg_mr_reg(bed.fabric.domain, bed.memory, 10, HMREG_REMOTE_READ, 0, KEY, 0, &mr, NULL),
        -HMREG_ENOKEY, "fi_mr_regattr");
    assert_string_equal(hmreg_last_error()->source, "ofi");
    assert_int_equal(hmreg_last_error()->vendor_code, -HMREG_ENOKEY);
    assert_null(mr);
    assert_int_equal(fi_close(&foreign->fid), 0);
    close_bed(&bed);
}

/* The library's own choice of key avoids those. */
static void get__key_known_to_the_fabric_only__another_key(void **state)
{
    struct fid_mr *foreign = NULL;
    struct hmreg_mr *mr;
    struct bed bed;
    uint64_t next;

    open_lonely(&bed);
    assert_ok(hmreg_mr_get(bed.fabric.domain, bed.memory, 10, HMREG_REMOTE_READ, &mr));
    next = hmreg_mr_key(mr) + 1;
    assert_int_equal(fi_mr_reg(bed.fabric.endpoint.domain, bed.memory, 10, FI_REMOTE_READ, 0, next,
                               0, &foreign, NULL),
                     0);
    hmreg_mr_put(mr);
    assert_ok(hmreg_mr_get(bed.fabric.domain, bed.memory, 9, HMREG_REMOTE_WRITE, &mr));
    assert_int_not_equal(hmreg_mr_key(mr), next);
    hmreg_mr_put(mr);
    assert_int_equal(fi_close(&foreign->fid), 0);
    close_bed(&bed);
}

/* libfabric 1.17 wants unique keys of these too. */
static void reg__regions_without_remote_access__share_no_key(void **state)
{
    struct hmreg_mr *mrs[20];
    struct bed bed;

    open_lonely(&bed);
    for (int i = 0; i < 20; i++) {
        assert_ok(hmreg_mr_reg(bed.fabric.domain, bed.memory, 10, HMREG_ACCESS_LOCAL, 0, 0, 0,
                               &mrs[i], NULL));
        assert_int_equal(hmreg_mr_key(mrs[i]), HMREG_KEY_NOTAVAIL);
    }
    assert_ok(
        hmreg_mr_reg(bed.fabric.domain, bed.memory, 10, HMREG_ACCESS_ALL, 0, 0, 0, &bed.mr, NULL));
    assert_int_equal(hmreg_mr_key(bed.mr), 0);
    for (int i = 0; i < 20; i++)
        assert_ok(hmreg_mr_close(mrs[i]));
    close_bed(&bed);
}

static void reg__native_and_desc__libfabrics(void **state)
{
    struct fid_mr *native;
    struct bed bed;

    open_lonely(&bed);
    assert_ok(hmreg_mr_reg(bed.fabric.domain, bed.memory, 10, HMREG_ACCESS_ALL, 0, KEY, 0, &bed.mr,
                           &bed));
    native = hmreg_mr_native(bed.mr);
    assert_non_null(native);
    assert_int_equal(native->fid.fclass, FI_CLASS_MR);
    assert_ptr_equal(native->fid.context, &bed);
    assert_ptr_equal(hmreg_mr_desc(bed.mr), fi_mr_desc(native));
    assert_int_equal(hmreg_mr_key(bed.mr), fi_mr_key(native));
    close_bed(&bed);
}

static void explain__host_memory__path_system(void **state)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct bed bed;

    open_lonely(&bed);
    assert_ok(hmreg_mr_reg(bed.fabric.domain, bed.memory, 10, HMREG_ACCESS_ALL, 0, KEY, 0, &bed.mr,
                           NULL));
    assert_ok(hmreg_explain(bed.mr, &why));
    assert_int_equal(why.path, HMREG_PATH_SYSTEM);
    assert_int_equal(why.refused, 0);
    close_bed(&bed);
}

/* ---- the domain ------------------------------------------------------------------------- */

static void query__domain__as_fi_info_says(void **state)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};
    const struct fi_info *theirs;
    struct bed bed;

    open_lonely(&bed);
    theirs = bed.fabric.endpoint.info;
    assert_ok(hmreg_domain_query(bed.fabric.domain, &info));
    assert_string_equal(info.provider, "ofi");
    assert_string_equal(info.fabric, theirs->fabric_attr->prov_name);
    assert_int_equal(info.mr_mode, theirs->domain_attr->mr_mode);
    assert_int_equal(info.key_size, theirs->domain_attr->mr_key_size);
    assert_int_equal(info.iov_limit, 1); /* shm and sockets state more, and check the first only */
    assert_int_equal(info.max_len, HMREG_LIMIT_NONE);
    close_bed(&bed);
}

static void close__regions_open__busy(void **state)
{
    struct bed bed;

    open_bed(&bed, NULL, HMREG_ACCESS_ALL);
    assert_fails(hmreg_domain_close(bed.fabric.domain), -EBUSY, "1 regions");
    assert_fails(hmreg_close(bed.fabric.lib), -EBUSY, "1 domains");
    close_bed(&bed);
}

FABRIC_TEST_MAIN(TEST(rma__odd_offsets_and_lengths__exact_bytes),
                 TEST(rma__mr_mode_basic__the_peer_need_not_know),
                 TEST(rma__mr_mode_scalable__the_peer_need_not_know),
                 TEST(rma__region_from_get__exact_bytes),
                 TEST(rma__we_start_it_from_a_region__exact_bytes),
                 TEST(rma__outside_the_region__range), TEST(rma__wrong_key__no_byte_changes),
                 TEST(rma__key_of_a_closed_region__no_byte_changes),
                 TEST(rma__right_not_granted__no_byte_changes),
                 TEST(rma__over_the_end__no_byte_changes), TEST(reg__key_in_use__enokey),
                 TEST(reg__key_known_to_the_fabric_only__enokey),
                 TEST(get__key_known_to_the_fabric_only__another_key),
                 TEST(reg__regions_without_remote_access__share_no_key),
                 TEST(reg__native_and_desc__libfabrics), TEST(explain__host_memory__path_system),
                 TEST(query__domain__as_fi_info_says), TEST(close__regions_open__busy))
