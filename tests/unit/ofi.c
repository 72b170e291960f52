/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The libfabric provider on a simulated fid_domain: its calls of libfabric for host memory, and
 * its results for each failure. hmreg_domain_open_ofi.c tests how it reads fi_info. */
#include "tests/support/fake_fabric.h"
#include "tests/support/inside.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"
#include "tests/unit/ofi_fixture.h"

#include <rdma/fi_errno.h>
#include <sys/mman.h>

static char memory[8192];

static int reg(uint64_t access, uint64_t key, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(fixture.domain, memory + 1, 4099, access, 0, key, 0, mr, &fixture.lib);
}

/* ---- registering host memory ------------------------------------------------------------ */

TEST(reg__host__translated)
{
    static const uint8_t auth[5] = "auth";
    struct iovec iov[2] = {{memory + 1, 4099}, {memory + 5000, 3}};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr),
        .iov = iov,
        .iov_count = 2,
        .access = HMREG_REMOTE_READ | HMREG_SEND,
        .requested_key = 0x1234,
        .context = memory,
        .auth_key = auth,
        .auth_key_size = sizeof(auth),
    };
    const struct fi_mr_attr *given = &fake_fabric.given.attr;
    struct hmreg_mr *mr;

    ofi_begin();
    fake_fabric.info->domain_attr->mr_iov_limit = 2;
    fake_fabric.info->domain_attr->auth_key_size = sizeof(auth);
    assert_ok(ofi_open_domain(NULL));
    assert_ok(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr));
    assert_int_equal(given->iov_count, 2);
    assert_memory_equal(fake_fabric.iov, iov, sizeof(iov));
    assert_int_equal(given->access, FI_REMOTE_READ | FI_SEND);
    assert_int_equal(given->offset, 0);
    assert_int_equal(given->requested_key, 0x1234);
    assert_ptr_equal(given->context, memory);
    assert_ptr_equal(given->auth_key, auth);
    assert_int_equal(given->auth_key_size, sizeof(auth));
    assert_int_equal(given->iface, FI_HMEM_SYSTEM);
    assert_int_equal(given->device.reserved, 0);
    assert_int_equal(fake_fabric.flags, 0);
    for (int i = 10; i < 14; i++)
        assert_int_equal(fake_fabric.given.words[i], 0);
    assert_ok(hmreg_mr_close(mr));
}

/* ---- options ---------------------------------------------------------------------------- */

/* An option with this value is accepted, or refused with the code and words before libfabric is
 * called. */
static void option_is(struct hmreg_mr_attr attr, int code, const char *words)
{
    struct iovec iov = {memory, 4096};
    struct hmreg_mr *mr = NULL;
    unsigned regs = fake_fabric.regs;

    attr.size = sizeof(attr);
    attr.iov = &iov;
    attr.iov_count = 1;
    attr.access = HMREG_ACCESS_REMOTE;
    if (!code) {
        assert_ok(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr));
        assert_int_equal(fake_fabric.given.attr.offset, 0);
        assert_int_equal(fake_fabric.flags, 0);
        assert_ok(hmreg_mr_close(mr));
        return;
    }
    assert_fails(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr), code, words);
    assert_null(mr);
    assert_int_equal(fake_fabric.regs, regs);
}

/* A fabric that moves bytes with the CPU orders its stores and pins nothing; of a device, or of an
 * unknown fabric, libfabric promises neither. */
TEST(options__of_each_fabric__done_or_refused)
{
    static const struct {
        const char *name;
        bool cpu;
    } fabrics[] = {{"tcp;ofi_rxm", true}, {"shm", true},  {"verbs;ofi_rxm", false},
                   {"efa", false},        {"new", false}, {NULL, false}};

    for (size_t i = 0; i < sizeof(fabrics) / sizeof(fabrics[0]); i++) {
        int refused = fabrics[i].cpu ? 0 : -EOPNOTSUPP;

        ofi_begin();
        ofi_set_provider(fabrics[i].name);
        assert_ok(ofi_open_domain(NULL));
        option_is((struct hmreg_mr_attr){.ordering = HMREG_ORDERING_RELAXED}, 0, "");
        option_is((struct hmreg_mr_attr){.ordering = HMREG_ORDERING_STRICT}, refused,
                  "does not support it; accepted: 0 (default), 2 (relaxed)");
        option_is((struct hmreg_mr_attr){.on_demand = HMREG_CHOICE_ON}, refused,
                  "does not support it; accepted: 0 (default)");
        option_is((struct hmreg_mr_attr){.on_demand = HMREG_CHOICE_OFF}, refused,
                  "does not support it; accepted: 0 (default)");
        option_is((struct hmreg_mr_attr){.optional_access = 1u << 21}, -HMREG_EBADFLAGS,
                  "optional_access");
        option_is((struct hmreg_mr_attr){.provider_flags = UINT64_C(1) << 61}, -HMREG_EBADFLAGS,
                  "provider_flags");
        test_finish();
    }
}

/* bit 61: FI_EFA_MR_RELAXED_ORDERING */
#define EFA_RELAXED (UINT64_C(1) << 61)

static struct hmreg_mr_attr attr_of(const struct iovec *iov)
{
    return (struct hmreg_mr_attr){
        .size = sizeof(struct hmreg_mr_attr), .iov = iov, .iov_count = 1, .access = HMREG_RECV};
}

static void open_efa(uint32_t version)
{
    const struct hmreg_domain_config config = {
        .size = sizeof(config), .max_regions = 10, .max_bytes = 1 << 20};

    ofi_begin();
    ofi_set_provider("efa");
    fake_fabric.version = version;
    fake_fabric.info->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    assert_ok(ofi_open_domain(&config));
}

/* Registers and returns the flags that libfabric got. */
static uint64_t flags_of(const struct hmreg_mr_attr *attr, uint64_t flags)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_regattr(fixture.domain, attr, flags, &mr));
    assert_ok(hmreg_mr_close(mr));
    return fake_fabric.flags;
}

TEST(provider_flags__efas__passed_on_where_libfabric_has_it)
{
    struct iovec iov = {memory, 4096};
    struct hmreg_mr_attr attr = attr_of(&iov);
    struct hmreg_mr *mr = NULL;

    open_efa(FI_VERSION(2, 7));
    attr.provider_flags = EFA_RELAXED;
    assert_int_equal(flags_of(&attr, HMREG_REG_SINGLE), EFA_RELAXED);
    attr.provider_flags = EFA_RELAXED | EFA_RELAXED << 1;
    assert_fails(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr), -HMREG_EBADFLAGS,
                 "0x4000000000000000; accepted are 0x2000000000000000");
    attr.provider_flags = 0;
    assert_fails(hmreg_mr_get_attr(fixture.domain, &attr, EFA_RELAXED, &mr), -HMREG_EBADFLAGS,
                 "flags has unknown bits 0x2000000000000000");
    test_finish();
    open_efa(FI_VERSION(2, 6));
    attr.provider_flags = EFA_RELAXED;
    assert_fails(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr), -HMREG_EBADFLAGS,
                 "provider_flags has unknown bits 0x2000000000000000; accepted are 0");
    attr.provider_flags = 0;
    attr.ordering = HMREG_ORDERING_RELAXED;
    assert_int_equal(flags_of(&attr, 0), 0);
    assert_null(mr);
}

TEST(ordering__relaxed__efas_flag)
{
    struct iovec iov = {memory, 4096};
    struct hmreg_mr_attr attr = attr_of(&iov);

    open_efa(FI_VERSION(2, 7));
    assert_int_equal(flags_of(&attr, 0), 0);
    attr.ordering = HMREG_ORDERING_RELAXED;
    assert_int_equal(flags_of(&attr, 0), EFA_RELAXED);
}

/* Gets with the flag and without share no region; the key that is asked for makes no difference. */
TEST(provider_flags__part_of_the_cached_key)
{
    struct iovec iov = {memory, 4096};
    struct hmreg_mr_attr attr = attr_of(&iov);
    struct hmreg_mr *with[2] = {NULL}, *without[2] = {NULL};

    open_efa(FI_VERSION(2, 7));
    for (int i = 0; i < 2; i++) {
        attr.requested_key = i ? HMREG_KEY_ANY : 0;
        attr.provider_flags = EFA_RELAXED;
        assert_ok(hmreg_mr_get_attr(fixture.domain, &attr, 0, &with[i]));
        attr.provider_flags = 0;
        assert_ok(hmreg_mr_get_attr(fixture.domain, &attr, 0, &without[i]));
    }
    assert_ptr_equal(with[0], with[1]);
    assert_ptr_equal(without[0], without[1]);
    assert_ptr_not_equal(with[0], without[0]);
    for (int i = 0; i < 2; i++) {
        hmreg_mr_put(with[i]);
        hmreg_mr_put(without[i]);
    }
}

/* libfabric leaves them to its providers. */
_Static_assert(((HMREG_REG_SINGLE | HMREG_REG_PARTS | HMREG_REG_COVER | HMREG_REG_EXACT) >> 60) ==
                   0,
               "hmreg's own flags leave bits 60 to 63");

/* HMREG_REMOTE_WRITE grants them wherever there are any. */
TEST(options__atomics__as_fi_atomic_is)
{
    for (int atomic = 0; atomic < 2; atomic++) {
        ofi_begin();
        fake_fabric.info->caps = FI_RMA | (atomic ? FI_ATOMIC : 0);
        assert_ok(ofi_open_domain(NULL));
        option_is((struct hmreg_mr_attr){.atomics = HMREG_CHOICE_ON}, atomic ? 0 : -EOPNOTSUPP,
                  "accepted: 0 (default), 1 (off)");
        option_is((struct hmreg_mr_attr){.atomics = HMREG_CHOICE_OFF}, atomic ? -EOPNOTSUPP : 0,
                  "accepted: 0 (default), 2 (on)");
        test_finish();
    }
}

TEST(options__iova__0_where_peers_use_offsets)
{
    const struct hmreg_mr_attr zero = {.set_iova = 1};
    const struct hmreg_mr_attr other = {.set_iova = 1, .iova = 0x1000};

    ofi_begin_with(0);
    option_is(zero, 0, "");
    option_is(other, -EOPNOTSUPP, "iova is 0x1000, but peers of this domain use offsets");
    test_finish();
    ofi_begin_with(FI_MR_VIRT_ADDR);
    option_is(zero, -EOPNOTSUPP, "set_iova is 1, iova 0, but tcp;ofi_rxm lets no caller");
    option_is(other, -EOPNOTSUPP, "set_iova is 1, iova 0x1000, but tcp;ofi_rxm");
}

TEST(reg__host__what_libfabric_made)
{
    struct hmreg_mr *mr;

    ofi_begin_with(0);
    assert_ok(reg(HMREG_ACCESS_ALL, 0x77, &mr));
    assert_int_equal(hmreg_mr_key(mr), 0x77);
    assert_non_null(hmreg_mr_head_of(mr)->keys->native);
    assert_ptr_equal(hmreg_mr_desc(mr), fi_mr_desc(hmreg_mr_head_of(mr)->keys->native));
    assert_ptr_equal(hmreg_mr_context(mr), &fixture.lib);
    assert_ok(hmreg_mr_close(mr));
}

TEST(reg__provider_key__the_providers)
{
    struct hmreg_mr *mr = NULL;

    ofi_begin_with(FI_MR_PROV_KEY);
    fake_fabric.key = 0xabcd;
    assert_fails(reg(HMREG_ACCESS_ALL, 1, &mr), -EKEYREJECTED, "HMREG_MR_PROV_KEY");
    assert_ok(reg(HMREG_ACCESS_ALL, 0, &mr));
    assert_int_equal(fake_fabric.given.attr.requested_key, 0);
    assert_int_equal(hmreg_mr_key(mr), 0xabcd);
    assert_ok(hmreg_mr_close(mr));
}

TEST(reg__no_remote_access__a_key_of_its_own_that_is_not_shown)
{
    struct hmreg_mr *one, *two;
    uint64_t first;

    ofi_begin_with(0);
    assert_ok(reg(HMREG_SEND, 0, &one));
    first = fake_fabric.given.attr.requested_key;
    assert_ok(reg(HMREG_SEND, 0, &two));
    assert_int_not_equal(fake_fabric.given.attr.requested_key, first);
    assert_int_equal(hmreg_mr_key(one), HMREG_KEY_NOTAVAIL);
    assert_ok(hmreg_mr_close(one));
    assert_ok(hmreg_mr_close(two));
}

/* A key that is already in use in the fabric is replaced if the library chose it. */
TEST(reg__our_key_is_in_use_below__another)
{
    struct hmreg_mr *mr;

    ofi_begin_with(0);
    fake_fabric.reg_code = -FI_ENOKEY;
    fake_fabric.reg_failures = 2;
    assert_ok(hmreg_mr_get(fixture.domain, memory, 100, HMREG_ACCESS_ALL, &mr));
    assert_int_equal(fake_fabric.regs, 3);
    hmreg_mr_put(mr);
}

/* Where the fabric refuses a key in use, hmreg keeps no list of those that it drew. */
TEST(get__fabric_refuses_keys_in_use__key_not_kept)
{
    static const struct {
        const char *name;
        uint64_t size;
        bool kept;
    } fabrics[] = {
        {"tcp;ofi_rxm", 8, false}, {"shm", 8, false}, {"tcp", 2, true}, {"efa", 8, true}};

    for (size_t i = 0; i < sizeof(fabrics) / sizeof(fabrics[0]); i++) {
        struct hmreg_mr *mr;
        uint64_t key;

        ofi_begin();
        ofi_set_provider(fabrics[i].name);
        fake_fabric.info->domain_attr->mr_mode = 0;
        fake_fabric.info->domain_attr->mr_key_size = fabrics[i].size;
        assert_ok(ofi_open_domain(NULL));
        fake_fabric.reg_code = -FI_ENOKEY;
        fake_fabric.reg_failures = 2;
        assert_ok(hmreg_mr_get(fixture.domain, memory, 100, HMREG_ACCESS_ALL, &mr));
        assert_int_equal(fake_fabric.regs, 3);
        key = fake_fabric.given.attr.requested_key;
        assert_int_equal(hmreg_mr_key(mr), key);
        assert_int_equal(inside_keeps_keys(fixture.domain), fabrics[i].kept);
        hmreg_mr_put(mr);
        assert_ok(hmreg_domain_flush(fixture.domain));
        assert_false(inside_keeps_keys(fixture.domain));
        test_finish();
    }
}

TEST(reg__hint_fields__to_a_libfabric_that_has_them)
{
    struct iovec iov = {memory, 100};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_SEND,
                                 .hmem_data = memory,
                                 .page_size = 4096};
    static const struct {
        uint32_t library, api;
        bool data, page;
    } cases[] = {
        {FI_VERSION(1, 17), FI_VERSION(1, 17), false, false},
        {FI_VERSION(1, 19), FI_VERSION(1, 19), true, false},
        {FI_VERSION(2, 0), FI_VERSION(1, 18), false, false},
        {FI_VERSION(2, 0), FI_VERSION(1, 22), true, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hmreg_mr *mr;

        ofi_begin();
        fake_fabric.version = cases[i].library;
        fake_fabric.info->fabric_attr->api_version = cases[i].api;
        assert_ok(ofi_open_domain(NULL));
        assert_ok(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr));
        assert_int_equal(fake_fabric.given.words[10], cases[i].data ? (uintptr_t)memory : 0);
        assert_int_equal(fake_fabric.given.words[11], cases[i].page ? 4096 : 0);
        assert_ok(hmreg_mr_close(mr));
        test_finish();
    }
}

/* ---- failures --------------------------------------------------------------------------- */

TEST(reg__fails__the_fabrics_code)
{
    struct hmreg_mr *mr = (void *)1;

    ofi_begin_with(0);
    fake_fabric.reg_code = -FI_EIO;
    fake_fabric.litter = true;
    assert_fails(reg(HMREG_ACCESS_ALL, 7, &mr), -EIO, "tcp;ofi_rxm: fi_mr_regattr()");
    assert_string_equal(hmreg_last_error()->source, "ofi");
    assert_int_equal(hmreg_last_error()->vendor_code, -FI_EIO);
    assert_string_equal(hmreg_last_error()->vendor_text, fi_strerror(FI_EIO));
    assert_ptr_equal(mr, (void *)1);
    /* The key is free again. */
    fake_fabric.reg_code = 0;
    assert_ok(reg(HMREG_ACCESS_ALL, 7, &mr));
    assert_ok(hmreg_mr_close(mr));
}

TEST(reg__efault__its_cause)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd = memfd_create("hmreg", MFD_CLOEXEC);
    struct hmreg_mr *mr = NULL;
    char *file;

    ofi_begin_with(0);
    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    file = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    fake_fabric.reg_code = -FI_EFAULT;
    assert_fails(hmreg_mr_reg(fixture.domain, file + 1, page, HMREG_SEND, 0, 0, 0, &mr, NULL),
                 -EFAULT, "beyond the end of the mapped file");
    assert_non_null(strstr(hmreg_last_error()->text, "tcp;ofi_rxm: fi_mr_regattr() failed: 0x"));
    assert_string_equal(hmreg_last_error()->source, "ofi");
    assert_int_equal(hmreg_last_error()->vendor_code, -FI_EFAULT);
    assert_fails(reg(HMREG_ACCESS_ALL, 7, &mr), -EFAULT, fi_strerror(FI_EFAULT));
    assert_null(mr);
    munmap(file, 2 * page);
    close(fd);
}

TEST(reg__fails_with_a_positive_number__negative)
{
    struct hmreg_mr *mr = NULL;

    ofi_begin_with(0);
    fake_fabric.reg_code = FI_EINVAL;
    assert_fails(reg(HMREG_ACCESS_ALL, 7, &mr), -EINVAL, "fi_mr_regattr()");
    assert_null(mr);
}

/* Gets of more ranges than the fabric has room for, of which all but one are idle. */
static void get_many(const char *provider, int full_code)
{
    /* With a cache, though some fabrics have one of their own. */
    struct hmreg_domain_config config = {.size = sizeof(config), .max_regions = 64};
    char *pages = test_map(40 << 12);

    ofi_begin();
    ofi_set_provider(provider);
    assert_ok(ofi_open_domain(&config));
    fake_fabric.room = 8;
    fake_fabric.full_code = full_code;
    for (unsigned i = 0; i < 40; i++) {
        struct hmreg_mr *mr;

        assert_ok(hmreg_mr_get(fixture.domain, pages + (i << 12), 4096, HMREG_ACCESS_REMOTE, &mr));
        hmreg_mr_put(mr);
    }
    assert_int_equal(fake_fabric.live, 8);
    test_finish();
    munmap(pages, 40 << 12);
}

/* Each row of libfabric in docs/limits.md; verbs passes on what the driver says. */
TEST(get__fabric_is_full__in_each_providers_words)
{
    static const struct {
        const char *provider;
        int code;
    } cases[] = {{"tcp", -FI_ENOMEM},   {"shm", -FI_ENOMEM},   {"efa", -FI_ENOMEM},
                 {"opx", -FI_ENOMEM},   {"cxi", -FI_ENOSPC},   {"tcp", -FI_ENOKEY},
                 {"verbs", -FI_EAGAIN}, {"verbs", -FI_EINVAL}, {"verbs", -FI_ENOSPC},
                 {"verbs", -FI_ENOMEM}, {"verbs", -FI_EIO},    {"verbs", -EPROTO}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        get_many(cases[i].provider, cases[i].code);
}

TEST(close__busy__stays_and_closes_later)
{
    struct hmreg_mr *mr, *other = NULL;

    ofi_begin_with(0);
    assert_ok(reg(HMREG_ACCESS_ALL, 7, &mr));
    fake_fabric.close_code = -FI_EBUSY;
    assert_fails(hmreg_mr_close(mr), -EBUSY, "fi_close()");
    assert_int_equal(hmreg_mr_key(mr), 7);
    assert_fails(reg(HMREG_ACCESS_ALL, 7, &other), -HMREG_ENOKEY, "in use");
    assert_fails(hmreg_domain_close(fixture.domain), -EBUSY, "1 regions");
    fake_fabric.close_code = 0;
    assert_ok(hmreg_mr_close(mr));
}

TEST(close__fails_otherwise__final)
{
    struct hmreg_mr *mr;
    struct fid_mr *native;

    ofi_begin_with(0);
    assert_ok(reg(HMREG_ACCESS_ALL, 7, &mr));
    native = hmreg_mr_head_of(mr)->keys->native;
    fake_fabric.close_code = -FI_EIO;
    assert_fails(hmreg_mr_close(mr), -EIO, "fi_close()");
    assert_int_equal(hmreg_last_error()->vendor_code, -FI_EIO);
    assert_ok(hmreg_domain_close(fixture.domain)); /* no region of ours is left */
    fixture.domain = NULL;
    fake_fabric.close_code = 0;
    fi_close(&native->fid);
}

/* ---- raw keys --------------------------------------------------------------------------- */

static size_t pack(struct hmreg_mr *mr, unsigned char *token, size_t room)
{
    size_t size = room;

    assert_ok(hmreg_mr_pack(mr, token, &size));
    return size;
}

static void begin_raw(struct hmreg_mr **mr)
{
    ofi_begin_with(FI_MR_RAW | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR);
    fake_fabric.key = FI_KEY_NOTAVAIL;
    assert_ok(reg(HMREG_ACCESS_ALL, 0, mr));
}

TEST(remote__raw_key__mapped_and_unmapped)
{
    struct hmreg_remote *remote;
    unsigned char token[2048];
    uint64_t addr, key;
    struct hmreg_mr *mr;
    size_t size;

    begin_raw(&mr);
    size = pack(mr, token, sizeof(token));
    assert_ok(hmreg_remote_open(fixture.domain, token, size, &remote));
    assert_int_equal(fake_fabric.raw_size, FAKE_RAW_BYTES);
    assert_int_equal(fake_fabric.raw_base, 0x5000);
    for (int i = 0; i < FAKE_RAW_BYTES; i++)
        assert_int_equal(fake_fabric.raw[i], 'k');
    assert_ok(hmreg_remote_addr(remote, 10, 1, &addr, &key));
    assert_int_equal(addr, 0x5000 + 10);
    assert_int_equal(key, 0x9001);
    hmreg_remote_close(remote);
    assert_int_equal(fake_fabric.unmapped, 0x9001);
    assert_ok(hmreg_mr_close(mr));
}

/* The key is mapped with the base of all of the region, which the token has. */
TEST(remote__part_of_a_raw_region__mapped_with_the_regions_base)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_remote *remote;
    unsigned char token[2048];
    size_t size = sizeof(token);
    uint64_t addr, key;
    struct hmreg_mr *mr;

    begin_raw(&mr);
    assert_ok(hmreg_mr_query(mr, &info));
    assert_ok(hmreg_mr_pack_range(mr, (char *)(uintptr_t)info.addr + 16, 8, token, &size));
    fake_fabric.raw_base = 0;
    assert_ok(hmreg_remote_open(fixture.domain, token, size, &remote));
    assert_int_equal(fake_fabric.raw_base, 0x5000);
    assert_ok(hmreg_remote_addr(remote, 1, 7, &addr, &key));
    assert_int_equal(addr, 0x5000 + 16 + 1);
    assert_int_equal(key, 0x9001);
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
}

/* The second of two tokens fails: the first one's key is unmapped again. */
TEST(open_many__map_raw_fails__the_first_is_closed)
{
    struct hmreg_remote *remotes[2] = {0};
    unsigned char token[2048];
    size_t size, count = 2;
    struct hmreg_mr *mr;

    begin_raw(&mr);
    size = pack(mr, token, sizeof(token));
    memcpy(token + size, token, size);
    token[size + 11] ^= 1; /* its iface */
    fake_fabric.unmapped = 0;
    assert_fails(hmreg_remote_open_many(fixture.domain, token, 2 * size, remotes, &count), -EBADMSG,
                 "tokens[1]");
    assert_int_equal(fake_fabric.unmapped, 0x9001);
    fake_fabric.map_code = -FI_ENOMEM;
    assert_fails(hmreg_remote_open_many(fixture.domain, token, size, remotes, &count), -ENOMEM,
                 "tokens[0], at byte 0: tcp;ofi_rxm: fi_mr_map_raw()");
    assert_null(remotes[0]);
    fake_fabric.raw_code = -FI_ENOSYS;
    assert_fails(hmreg_mr_pack_many(&mr, 1, token, &size), -ENOSYS,
                 "mrs[0]: tcp;ofi_rxm: fi_mr_raw_attr()");
    assert_ok(hmreg_mr_close(mr));
}

/* Older peers refuse its token, by its version. */
TEST(pack__raw_key_of_more_than_1024_bytes__reaches_the_peer)
{
    struct hmreg_remote *remote;
    unsigned char token[8192];
    size_t size = 0;
    struct hmreg_mr *mr;

    begin_raw(&mr);
    fake_fabric.raw_bytes = 5000;
    assert_fails(hmreg_mr_pack(mr, NULL, &size), -HMREG_ETOOSMALL, "the token takes");
    assert_in_range(size, 5000, sizeof(token));
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(fixture.domain, token, size, &remote));
    assert_int_equal(fake_fabric.raw_size, 5000);
    hmreg_remote_close(remote);
    fake_fabric.raw_bytes = 70000;
    assert_fails(hmreg_mr_pack(mr, token, &size), -EMSGSIZE, "room for 65535");
    assert_ok(hmreg_mr_close(mr));
}

TEST(pack__raw_key_fails__the_fabrics_code)
{
    unsigned char token[2048];
    size_t size = sizeof(token);
    struct hmreg_mr *mr;

    begin_raw(&mr);
    fake_fabric.raw_code = -FI_ENOSYS;
    assert_fails(hmreg_mr_pack(mr, token, &size), -ENOSYS, "fi_mr_raw_attr()");
    assert_int_equal(size, sizeof(token));
    assert_ok(hmreg_mr_close(mr));
}

TEST(remote__map_raw_fails__the_fabrics_code)
{
    struct hmreg_remote *remote = (void *)1;
    unsigned char token[2048];
    struct hmreg_mr *mr;
    size_t size;

    begin_raw(&mr);
    size = pack(mr, token, sizeof(token));
    fake_fabric.map_code = -FI_ENOMEM;
    assert_fails(hmreg_remote_open(fixture.domain, token, size, &remote), -ENOMEM,
                 "fi_mr_map_raw()");
    assert_ptr_equal(remote, (void *)1);
    assert_ok(hmreg_mr_close(mr));
}

TEST_MAIN()
