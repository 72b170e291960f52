/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The verbs provider on a simulated libibverbs: its calls of the device, and its results for each
 * answer. */
#include "tests/support/queries.h"
#include "tests/unit/verbs_fixture.h"

#include <hmreg/verbs.h>
#include <sys/mman.h>
#include <sys/resource.h>

static char memory[8192];

static void open_fixture(void)
{
    verbs_begin();
    verbs_open_with(0);
}

static unsigned looks; /* for a cause */
static bool look_written;

bool __real_hmreg_fault_cause(const struct iovec *iov, size_t count, bool written, char *text);
bool __wrap_hmreg_fault_cause(const struct iovec *iov, size_t count, bool written, char *text);

bool __wrap_hmreg_fault_cause(const struct iovec *iov, size_t count, bool written, char *text)
{
    looks++;
    look_written = written;
    return __real_hmreg_fault_cause(iov, count, written, text);
}

static int reg(uint64_t access, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(fixture.domain, memory + 1, 4099, access, 0, 0, 0, mr, NULL);
}

/* ---- the domain ------------------------------------------------------------------------- */

/* Exits with 0 if the call answers EPERM without a call of the device. */
static int open_in_child(void)
{
    struct hmreg_domain *domain = (void *)1;
    unsigned probes = fake_verbs.probes;

    fake_verbs.query_error = EIO;
    if (hmreg_domain_open_verbs(fixture.lib, fixture.pd, NULL, &domain) != -EPERM)
        return 1;
    return domain != (void *)1 || fake_verbs.probes != probes;
}

TEST(open__in_a_forked_child__eperm_before_the_device_is_asked)
{
    verbs_begin();
    test_in_child(open_in_child());
}

/* ---- rights ----------------------------------------------------------------------------- */

/* The expected access bits for the device, independent of the provider's table. On iWARP a read's
 * answer is a write to the reader's memory by its key. */
static unsigned expected_access(uint64_t rights, bool iwarp)
{
    unsigned access = 0;

    if (rights & (HMREG_RECV | HMREG_READ | HMREG_REMOTE_WRITE))
        access |= IBV_ACCESS_LOCAL_WRITE;
    if (rights & HMREG_REMOTE_READ)
        access |= IBV_ACCESS_REMOTE_READ;
    if (rights & (HMREG_REMOTE_WRITE | (iwarp ? HMREG_READ : 0)))
        access |= IBV_ACCESS_REMOTE_WRITE;
    return access;
}

static void register_every_combination(bool iwarp)
{
    struct hmreg_mr *mr;

    for (uint64_t bits = 1; bits < 64; bits++) {
        assert_ok(reg(bits << 8, &mr));
        assert_int_equal(fake_verbs.access, expected_access(bits << 8, iwarp));
        assert_int_equal(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL,
                         !(bits << 8 & (HMREG_REMOTE_READ | HMREG_REMOTE_WRITE)));
        assert_ok(hmreg_mr_close(mr));
    }
    assert_int_equal(fake_verbs.regs, 63);
}

TEST(reg__every_combination_of_rights__is_translated)
{
    open_fixture();
    register_every_combination(false);
}

/* The right that iWARP adds gives peers no key. */
TEST(reg__on_iwarp__results_of_reads_may_be_written)
{
    verbs_begin();
    fake_verbs_device()->transport_type = IBV_TRANSPORT_IWARP;
    verbs_open_with(0);
    register_every_combination(true);
}

TEST(reg__exact_range_at_its_own_address)
{
    struct hmreg_mr *mr;

    open_fixture();
    assert_ok(reg(HMREG_SEND, &mr));
    assert_ptr_equal(fake_verbs.addr, memory + 1);
    assert_int_equal(fake_verbs.length, 4099);
    assert_int_equal(fake_verbs.iova, (uintptr_t)(memory + 1));
    assert_ok(hmreg_mr_close(mr));
}

/* ---- keys and tokens -------------------------------------------------------------------- */

TEST(reg__keys_are_the_devices)
{
    const struct ibv_mr *native;
    struct hmreg_mr *mr;

    open_fixture();
    assert_ok(reg(HMREG_RECV | HMREG_REMOTE_READ, &mr));
    native = hmreg_mr_head_of(mr)->keys->native;
    assert_int_equal(hmreg_mr_head_of(mr)->keys->lkey, native->lkey);
    assert_int_equal(hmreg_mr_head_of(mr)->keys->rkey, native->rkey);
    assert_int_equal(hmreg_mr_key(mr), native->rkey);
    assert_ptr_equal(hmreg_mr_desc(mr), native);
    assert_int_equal(test_info_of(mr).path, HMREG_PATH_SYSTEM);
    assert_int_equal(test_info_of(mr).local_addr, (uintptr_t)(memory + 1));
    assert_ok(hmreg_mr_close(mr));
}

/* Some drivers report the lkey as rkey of a local region: a peer cannot use it. */
TEST(reg__local_rights_only__no_key)
{
    static const uint32_t shown[] = {0, 77};
    char token[256];
    size_t size = sizeof(token);
    struct hmreg_mr *mr;

    open_fixture();
    for (int i = 0; i < 2; i++) {
        fake_verbs.local_rkey = shown[i];
        assert_ok(reg(HMREG_ACCESS_LOCAL, &mr));
        assert_true(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL);
        assert_fails(hmreg_mr_pack(mr, token, &size), -EACCES, "remote access");
        assert_ok(hmreg_mr_close(mr));
    }
}

TEST(token__names_virtual_addresses_and_the_rkey)
{
    uint64_t addr = 0, key = 0;
    struct hmreg_remote *remote;
    struct hmreg_mr *mr;

    open_fixture();
    assert_ok(reg(HMREG_ACCESS_REMOTE, &mr));
    remote = test_remote_of(fixture.domain, mr);
    assert_ok(hmreg_remote_addr(remote, 4098, 1, &addr, &key));
    assert_int_equal(addr, (uintptr_t)(memory + 1 + 4098));
    assert_int_equal(key, hmreg_mr_head_of(mr)->keys->rkey);
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
}

/* ---- argument checks -------------------------------------------------------------------- */

TEST(get__longer_than_the_device_takes__parts_only_if_taken)
{
    struct hmreg_domain_config parts = {.size = sizeof(parts), .flags = HMREG_DOMAIN_PARTS};
    struct hmreg_piece_info piece = {.size = sizeof(piece)};
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *mr = (void *)1;

    verbs_begin();
    fake_verbs.limits.max_mr_size = sizeof(memory) / 2;
    verbs_open_with(0);
    assert_fails(hmreg_mr_get(fixture.domain, memory, sizeof(memory), HMREG_SEND, &mr), -EMSGSIZE,
                 "HMREG_DOMAIN_PARTS");
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(fake_verbs.regs, 0);
    assert_ok(hmreg_domain_open_verbs(fixture.lib, fixture.pd, &parts, &domain));
    assert_ok(hmreg_mr_get(domain, memory, sizeof(memory), HMREG_SEND, &mr));
    assert_true(hmreg_mr_key(mr) == HMREG_KEY_NOTAVAIL);
    assert_ok(hmreg_mr_piece(mr, 1, &piece));
    assert_non_null(piece.native);
    hmreg_mr_put(mr);
    assert_ok(hmreg_domain_close(domain));
}

TEST(reg__unmapped__efault_before_the_device_is_asked)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    /* No other mapping is near, so that the unmapped range stays unmapped. */
    char *hole =
        mmap((void *)0x7eb000000000, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct hmreg_mr *mr = (void *)1;

    open_fixture();
    munmap(hole + page, page);
    assert_fails(hmreg_mr_reg(fixture.domain, hole, 2 * page, HMREG_SEND, 0, 0, 0, &mr, NULL),
                 -EFAULT, "nothing is mapped");
    assert_int_equal(fake_verbs.regs, 0);
    munmap(hole, page);
}

/* ---- the device's errors ---------------------------------------------------------------- */

TEST(reg__device_says_no__its_code_and_advice)
{
    static const struct {
        int errnum, code;
        const char *words;
    } cases[] = {
        {ENOMEM, -ENOMEM, "RLIMIT_MEMLOCK"},
        {ENOMEM, -ENOMEM, "of regions is 4711"},
        {EFAULT, -EFAULT, "cannot be pinned"},
        {EINVAL, -EINVAL, "does not support this access or length"},
        {EOPNOTSUPP, -EOPNOTSUPP, "does not support this kind of registration"},
        {EIO, -EIO, "failed, is gone"},
        {ENODEV, -ENODEV, "failed, is gone"},
        {EPERM, -EPERM, "Operation not permitted"},
        {0, -EIO, "failed, is gone"},
    };

    open_fixture();
    fake_verbs.reg_fails = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hmreg_mr *mr = (void *)1;

        fake_verbs.reg_error = cases[i].errnum;
        assert_fails(reg(HMREG_SEND, &mr), cases[i].code, cases[i].words);
        assert_ptr_equal(mr, (void *)1);
        assert_string_equal(hmreg_last_error()->source, "verbs");
        assert_int_equal(hmreg_last_error()->vendor_code, -cases[i].code);
        assert_string_equal(hmreg_last_error()->vendor_text, strerror(-cases[i].code));
    }
}

/* Only a failure that may have a cause there looks at the mapping. */
TEST(reg__efault__its_cause_is_looked_for_after_the_failure)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int fd = memfd_create("hmreg", MFD_CLOEXEC);
    struct hmreg_mr *mr = NULL;
    char *file;

    open_fixture();
    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    file = mmap(NULL, 2 * page, PROT_READ, MAP_SHARED, fd, 0);
    looks = 0;
    assert_ok(reg(HMREG_SEND, &mr));
    assert_ok(hmreg_mr_close(mr));
    fake_verbs.reg_fails = true;
    fake_verbs.reg_error = EINVAL;
    assert_fails(reg(HMREG_SEND, &mr), -EINVAL, "does not support this access");
    assert_int_equal(looks, 0);
    fake_verbs.reg_error = EFAULT;
    assert_fails(hmreg_mr_reg(fixture.domain, file + 1, page, HMREG_SEND, 0, 0, 0, &mr, NULL),
                 -EFAULT, "beyond the end of the mapped file");
    assert_int_equal(looks, 1);
    assert_false(look_written);
    assert_string_equal(hmreg_last_error()->source, "verbs");
    assert_int_equal(hmreg_last_error()->vendor_code, EFAULT);
    fake_verbs.reg_error = EFAULT;
    assert_fails(reg(HMREG_RECV, &mr), -EFAULT,
                 "its pages cannot be pinned: they are unmapped, read-only");
    assert_true(look_written);
    munmap(file, 2 * page);
    close(fd);
}

TEST(reg__enomem__says_the_limit_of_locked_memory)
{
    struct rlimit before, lower;
    struct hmreg_mr *mr;

    open_fixture();
    fake_verbs.reg_fails = true;
    fake_verbs.reg_error = ENOMEM;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    lower = (struct rlimit){.rlim_cur = 12345, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &lower), 0);
    assert_fails(reg(HMREG_SEND, &mr), -ENOMEM, "is 12345 bytes");
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

/* ---- a device that is full ---------------------------------------------------------------- */

/* Gets of more ranges than the device has regions, of which all but one are idle. */
static void get_many(uint32_t vendor, int errnum)
{
    char *pages = test_map(40 << 12);

    verbs_begin();
    fake_verbs.limits.vendor_id = vendor;
    verbs_open_with(0);
    fake_verbs.room = 8;
    fake_verbs.full_error = errnum;
    for (unsigned i = 0; i < 40; i++) {
        struct hmreg_mr *mr;

        assert_ok(hmreg_mr_get(fixture.domain, pages + (i << 12), 4096, HMREG_ACCESS_REMOTE, &mr));
        hmreg_mr_put(mr);
    }
    assert_int_equal(fake_verbs.live, 8);
    test_finish();
    munmap(pages, 40 << 12);
}

/* Each row of docs/limits.md. */
TEST(get__device_is_full__in_each_drivers_words)
{
    static const struct {
        uint32_t vendor;
        int errnum;
    } cases[] = {{0x02c9, EAGAIN}, {0x02c9, ENOMEM}, {0xffffff, EINVAL}, {0x1dd8, EINVAL},
                 {0x1dd8, ENOSPC}, {0x1ded, ENOSPC}, {0x1ded, EIO},      {0x14e4, EIO},
                 {0x1414, EPROTO}, {0x1d0f, ENOMEM}, {0x8086, ENOMEM},   {0x626d74, ENOMEM}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        get_many(cases[i].vendor, cases[i].errnum);
}

/* Page tables that are full: a long range needs the room of many regions. */
TEST(get__device_is_full_of_pages__as_many_go_as_a_long_range_needs)
{
    static const struct {
        uint32_t vendor;
        int errnum;
    } cases[] = {{0x02c9, EAGAIN}, {0xffffff, EINVAL}, {0x1dd8, EINVAL}, {0x1dd8, ENOSPC}};
    char *pages = test_map(64 << 12);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hmreg_mr *mr;

        verbs_begin();
        fake_verbs.limits.vendor_id = cases[i].vendor;
        verbs_open_with(0);
        fake_verbs.room_bytes = 32 << 12;
        fake_verbs.full_error = cases[i].errnum;
        for (unsigned k = 0; k < 32; k++) {
            assert_ok(hmreg_mr_get(fixture.domain, pages + (k << 12), 4096, HMREG_SEND, &mr));
            hmreg_mr_put(mr);
        }
        assert_ok(hmreg_mr_get(fixture.domain, pages + (40 << 12), 20 << 12, HMREG_SEND, &mr));
        hmreg_mr_put(mr);
        assert_int_equal(fake_verbs.live, 13);
        test_finish();
    }
    munmap(pages, 64 << 12);
}

/* ---- closing ---------------------------------------------------------------------------- */

TEST(close__window_bound__busy_and_the_region_stays)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr;
    uint64_t key;

    open_fixture();
    assert_ok(reg(HMREG_ACCESS_REMOTE, &mr));
    key = hmreg_mr_key(mr);
    fake_verbs.dereg_result = EBUSY;
    assert_fails(hmreg_mr_close(mr), -EBUSY, "memory window");
    assert_fails(hmreg_mr_close(mr), -EBUSY, "memory window");
    assert_int_equal(hmreg_mr_key(mr), key);
    assert_ok(hmreg_mr_query(mr, &info));
    assert_fails(hmreg_domain_close(fixture.domain), -EBUSY, "1 regions");
    fake_verbs.dereg_result = 0;
    assert_ok(hmreg_mr_close(mr));
    assert_int_equal(fake_verbs.deregs, 3);
}

static void dereg_fails(int result, int errnum, int code)
{
    struct ibv_mr *native;
    struct hmreg_mr *mr;

    open_fixture();
    assert_ok(reg(HMREG_SEND, &mr));
    native = hmreg_mr_head_of(mr)->keys->native;
    fake_verbs.dereg_result = result;
    fake_verbs.dereg_errno = errnum;
    assert_fails(hmreg_mr_close(mr), code, "could not deregister");
    assert_int_equal(hmreg_last_error()->vendor_code, -code);
    fake_verbs.dereg_result = 0;
    assert_int_equal(ibv_dereg_mr(native), 0);
    test_finish();
}

/* Final for the region: hmreg's is freed, and the domain can be closed. */
TEST(close__device_fails__its_error)
{
    dereg_fails(EIO, 0, -EIO);
}

TEST(close__device_answers_minus_one__errno_is_its_error)
{
    dereg_fails(-1, ENODEV, -ENODEV);
    dereg_fails(-1, 0, -EIO);
}

/* ---- memory of vendors ---------------------------------------------------------------------- */

TEST(reg__managed_memory__refused)
{
    struct hmreg_mr *mr = (void *)1;
    void *there;

    open_fixture();
    there = vendor_memory(HMREG_IFACE_ZE, 0, HMREG_MEM_MANAGED, 4096);
    assert_fails(hmreg_mr_reg(fixture.domain, there, 4096, HMREG_SEND, 0, 0, 0, &mr, NULL),
                 -EOPNOTSUPP, "managed memory moves");
    assert_int_equal(fake_verbs.regs, 0);
    vendor_memory_free(there);
}

/* ---- unsupported by verbs ---------------------------------------------------------------- */

TEST(bind__verbs_ties_nothing_to_regions__opnotsupp)
{
    struct hmreg_mr *mr;
    int object = 0;

    open_fixture();
    assert_ok(reg(HMREG_ACCESS_ALL, &mr));
    assert_fails(hmreg_mr_bind(mr, &object, 0), -EOPNOTSUPP, "objects to which a region");
    assert_fails(hmreg_mr_bind(mr, &object, HMREG_REMOTE_WRITE), -EOPNOTSUPP,
                 "objects to which a region");
    assert_fails(hmreg_domain_bind(fixture.domain, &object, HMREG_BIND_REG_MR), -EOPNOTSUPP,
                 "queues");
    assert_ok(hmreg_mr_enable(mr));
    assert_ok(hmreg_mr_refresh(mr, NULL, 0, 0));
    assert_ok(hmreg_mr_close(mr));
}

TEST_MAIN()
