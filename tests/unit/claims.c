/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Trusted claims: no runtime is asked, all other rules hold, and HMREG_DEBUG=claims finds each that
 * is wrong. What a real runtime is asked at an export is counted in tests/gpu/public.c. */
#include "tests/support/queries.h"
#include "tests/support/script.h"
#include "tests/support/vendors.h"

#include <inttypes.h>
#include <fcntl.h>
#include <sys/mman.h>

static struct script_fixture fixture;

struct claim {
    struct iovec iov[2];
    struct hmreg_mr_attr attr;
};

/* A right claim about one of the fixture's ranges. */
static struct claim *claim_of(struct claim *out)
{
    out->iov[0] = (struct iovec){fixture.memory[1] + 16, 64};
    out->iov[1] = (struct iovec){fixture.memory[1] + 160, 64};
    out->attr = (struct hmreg_mr_attr){
        .size = sizeof(out->attr),
        .iov = out->iov,
        .iov_count = 1,
        .access = HMREG_SEND,
        .claim_iface = HMREG_CLAIM_TRUSTED,
        .iface = HMREG_IFACE_CUDA,
        .device = 1,
        .claim_base = (uintptr_t)fixture.memory[1],
        .claim_len = FIXTURE_BYTES,
        .claim_kind = HMREG_MEM_DEVICE,
    };
    return out;
}

static struct claim *claim_of_host(void *addr, size_t len, struct claim *out)
{
    out->iov[0] = (struct iovec){addr, len};
    out->attr = (struct hmreg_mr_attr){.size = sizeof(out->attr),
                                       .iov = out->iov,
                                       .iov_count = 1,
                                       .access = HMREG_SEND,
                                       .claim_iface = HMREG_CLAIM_TRUSTED};
    return out;
}

static int reg(const struct claim *claim, uint64_t flags, struct hmreg_mr **mr)
{
    return hmreg_mr_regattr(fixture.domain, &claim->attr, flags, mr);
}

static unsigned asked(void)
{
    unsigned count = 0;

    for (int i = 0; i < HMREG_IFACE_COUNT; i++)
        count += vendors[i].resolves + vendors[i].identities;
    return count;
}

static void open_debugging(const char *value)
{
    setenv("HMREG_DEBUG", value, 1);
    script_open(&fixture, NULL, NULL);
    unsetenv("HMREG_DEBUG");
}

static void dmabuf_is_cached_by_its_inode(enum hmreg_iface iface)
{
    struct hmreg_mr_dmabuf dmabuf = {.len = 4096, .base_addr = (void *)0x10000};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .access = HMREG_ACCESS_ALL,
                                 .dmabuf = &dmabuf,
                                 .claim_iface = HMREG_CLAIM_CHECKED,
                                 .iface = iface,
                                 .device = 40,
                                 .policy = HMREG_POLICY_KEEP};
    struct hmreg_stats host = {.size = sizeof(host)};
    struct hmreg_mr *first = NULL, *mr = NULL;

    script_open(&fixture, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        dmabuf.fd = fcntl(vendors[HMREG_IFACE_CUDA].claims[0].fd, F_DUPFD_CLOEXEC, i);
        assert_ok(hmreg_mr_get_attr(fixture.domain, &attr, HMREG_REG_DMABUF, &mr));
        close(dmabuf.fd);
        first = first ? first : mr;
        assert_ptr_equal(mr, first);
        hmreg_mr_put(mr);
    }
    assert_int_equal(script.count, 1);
    assert_ok(hmreg_domain_stats(fixture.domain, &host));
    assert_int_equal(host.misses, 1);
}

TEST(foreign__callers_dmabuf_of_the_first_iface__cached_by_its_inode)
{
    dmabuf_is_cached_by_its_inode(HMREG_IFACE_COUNT);
}

TEST(foreign__callers_dmabuf_of_the_last_iface__cached_by_its_inode)
{
    dmabuf_is_cached_by_its_inode(HMREG_IFACE_MAX);
}

/* ---- no runtime is asked --------------------------------------------------------------------- */

TEST(trusted__device_memory__registered_as_claimed)
{
    static const enum hmreg_path paths[] = {HMREG_PATH_DMABUF, HMREG_PATH_PEERMEM,
                                            HMREG_PATH_MAPPED};
    struct claim claim;
    struct hmreg_mr *mr;

    script_open(&fixture, NULL, NULL);
    claim_of(&claim)->attr.claim_identity = 77;
    for (int i = 0; i < 3; i++) {
        assert_ok(reg(&claim, HMREG_HMEM_DEVICE_ONLY, &mr));
        assert_int_equal(script_last()->path, paths[i]);
        assert_int_equal(script_last()->iface, HMREG_IFACE_CUDA);
        assert_int_equal(script_last()->device, 1);
        assert_int_equal(test_info_of(mr).iface, HMREG_IFACE_CUDA);
        assert_int_equal(test_info_of(mr).device, 1);
        if (paths[i] != HMREG_PATH_PEERMEM)
            assert_int_equal(script_last()->first, 'b');
        assert_ok(hmreg_mr_close(mr));
        script.refuse[paths[i]][1] = -EOPNOTSUPP;
    }
    assert_int_equal(asked(), 0);
    assert_int_equal(vendors[HMREG_IFACE_CUDA].exports, 4); /* 1, 1 and 2 */
}

static void begin_dmabuf(struct claim *claim, struct hmreg_mr_dmabuf *dmabuf)
{
    *dmabuf = (struct hmreg_mr_dmabuf){
        .fd = fcntl(vendors[HMREG_IFACE_CUDA].claims[1].fd, F_DUPFD_CLOEXEC, 0),
        .offset = 100,
        .len = 64,
        .base_addr = fixture.memory[1],
    };
    claim_of(claim)->attr.iov = NULL;
    claim->attr.iov_count = 0;
    claim->attr.claim_base = claim->attr.claim_len = 0;
    claim->attr.claim_kind = 0;
    claim->attr.dmabuf = dmabuf;
}

TEST(trusted__callers_dmabuf_of_no_bytes__inval)
{
    struct hmreg_mr_dmabuf dmabuf;
    struct claim claim;
    struct hmreg_mr *mr;

    script_open(&fixture, NULL, NULL);
    begin_dmabuf(&claim, &dmabuf);
    close(dmabuf.fd);
    dmabuf.fd = memfd_create("empty", MFD_CLOEXEC);
    assert_reg_fails(reg(&claim, HMREG_REG_DMABUF, &mr), mr, -EINVAL, "is beyond its 0 bytes");
    close(dmabuf.fd);
}

TEST(trusted__callers_dmabuf__no_runtime_is_asked)
{
    struct hmreg_mr_dmabuf dmabuf;
    struct claim claim;
    struct hmreg_mr *mr;

    script_open(&fixture, NULL, NULL);
    begin_dmabuf(&claim, &dmabuf);
    for (int kind = 0; kind <= HMREG_MEM_DEVICE; kind += HMREG_MEM_DEVICE) {
        claim.attr.claim_kind = (enum hmreg_mem_kind)kind;
        assert_ok(reg(&claim, HMREG_REG_DMABUF, &mr));
        assert_int_equal(script_last()->path, HMREG_PATH_DMABUF);
        assert_int_equal(script_last()->iface, HMREG_IFACE_CUDA);
        assert_int_equal(script_last()->device, 1);
        assert_int_equal(script_last()->dmabuf.fd, dmabuf.fd);
        assert_ok(hmreg_mr_close(mr));
    }
    assert_int_equal(asked(), 0);
    assert_int_equal(vendors[HMREG_IFACE_CUDA].exports, 0);
    close(dmabuf.fd);
}

/* ---- the other rules ---------------------------------------------------------------------- */

TEST(trusted__incomplete_or_contradictory__refused)
{
    static char host[64];
    struct claim claims[13];
    static const struct {
        int code;
        const char *words;
        uint64_t flags;
    } expected[] = {
        {-EINVAL, "claim_iface is 3", 0},
        {-EINVAL, "device is HMREG_DEVICE_ANY", 0},
        {-EINVAL, "device is 2; cuda has 2 devices", 0},
        {-EINVAL, "claim_base and claim_len are 0", 0},
        {-EINVAL, "set both or neither", 0},
        {-EINVAL, "wraps around", 0},
        {-EINVAL, "claim_kind is 4", 0},
        {-EINVAL, "claim_kind is host; for cuda it must be device, pinned host or managed", 0},
        {-EINVAL, "claim_kind is device; for system it must be host", 0},
        {-EINVAL, "claim_identity is set", 0},
        {-ERANGE, "not within the claimed allocation", 0},
        {-ERANGE, "not within the claimed allocation", 0},
        {-EINVAL, "HMREG_HMEM_HOST_ALLOC", HMREG_HMEM_HOST_ALLOC},
    };

    script_open(&fixture, NULL, NULL);
    for (int i = 0; i < 13; i++)
        claim_of(&claims[i]);
    claims[0].attr.claim_iface = 3;
    claims[1].attr.device = HMREG_DEVICE_ANY;
    claims[2].attr.device = 2;
    claims[3].attr.claim_base = claims[3].attr.claim_len = 0;
    claims[4].attr.claim_len = 0;
    claims[5].attr.claim_len = UINT64_MAX;
    claims[6].attr.claim_kind = HMREG_MEM_MANAGED + 1;
    claims[7].attr.claim_kind = HMREG_MEM_HOST;
    claim_of_host(host, sizeof(host), &claims[8])->attr.claim_kind = HMREG_MEM_DEVICE;
    claim_of_host(host, sizeof(host), &claims[9])->attr.claim_identity = 1;
    claims[10].attr.claim_base += 17;
    claims[11].attr.claim_len = 79;
    for (int i = 0; i < 13; i++) {
        struct hmreg_mr *mr;

        assert_reg_fails(reg(&claims[i], expected[i].flags, &mr), mr, expected[i].code,
                         expected[i].words);
    }
    assert_int_equal(script.count, 0);
    assert_int_equal(asked(), 0);
}

/* A fabric that pins pages at registration is not asked to pin what the process cannot touch. */
TEST(trusted__host_memory_on_a_pinning_fabric__mappings_are_checked)
{
    struct script_caps caps = script_caps;
    struct claim claim;
    struct hmreg_mr *mr;
    char *page;

    caps.mr_mode |= HMREG_MR_ALLOCATED;
    script_open(&fixture, &caps, NULL);
    page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    claim_of_host(page, 64, &claim);
    assert_ok(reg(&claim, 0, &mr));
    assert_ok(hmreg_mr_close(mr));
    claim.attr.access = HMREG_RECV;
    assert_reg_fails(reg(&claim, 0, &mr), mr, -EFAULT, "read-only");
    munmap(page, 4096);
    assert_reg_fails(reg(&claim, 0, &mr), mr, -EFAULT, "");
    assert_int_equal(asked(), 0);
}

/* ---- ifaces without a runtime -------------------------------------------------------------- */

TEST(foreign__callers_dmabuf__registered_under_its_iface)
{
    struct hmreg_mr_dmabuf dmabuf;
    struct claim claim;

    script_open(&fixture, NULL, NULL);
    begin_dmabuf(&claim, &dmabuf);
    dmabuf.base_addr = (void *)0x10000;
    claim.attr.claim_kind = 0;
    for (int iface = HMREG_IFACE_COUNT; iface <= HMREG_IFACE_MAX; iface++)
        for (int trusted = 0; trusted <= 1; trusted++) {
            struct hmreg_mr *mr;

            claim.attr.claim_iface = HMREG_CLAIM_CHECKED + trusted;
            claim.attr.iface = (enum hmreg_iface)iface;
            assert_ok(reg(&claim, HMREG_REG_DMABUF, &mr));
            assert_int_equal(script_last()->path, HMREG_PATH_DMABUF);
            assert_int_equal(script_last()->iface, iface);
            assert_int_equal(script_last()->device, 1);
            assert_int_equal(test_why_of(mr).iface, iface);
            assert_ok(hmreg_mr_close(mr));
        }
    close(dmabuf.fd);
}

/* A runtime that knows the dmabuf's address contradicts a checked claim. */
TEST(foreign__address_of_a_vendors_memory__inval)
{
    struct hmreg_mr_dmabuf dmabuf;
    struct claim claim;
    struct hmreg_mr *mr;

    open_debugging("claims");
    begin_dmabuf(&claim, &dmabuf);
    claim.attr.iface = HMREG_IFACE_SYNAPSEAI;
    assert_reg_fails(reg(&claim, HMREG_REG_DMABUF, &mr), mr, -EINVAL,
                     "the caller claims synapseai, the memory has cuda");
    claim.attr.claim_iface = HMREG_CLAIM_CHECKED;
    assert_reg_fails(reg(&claim, HMREG_REG_DMABUF, &mr), mr, -EINVAL,
                     "the caller claims synapseai, the memory is cuda");
    close(dmabuf.fd);
}

TEST(foreign__segments__of_dmabufs)
{
    struct hmreg_mr_dmabuf dmabuf;
    struct hmreg_segment segments[2];
    struct claim claim;
    struct hmreg_mr *mr;

    script_open(&fixture, NULL, NULL);
    begin_dmabuf(&claim, &dmabuf);
    claim.attr.iface = HMREG_IFACE_MAX;
    claim.attr.dmabuf = NULL;
    claim.attr.segments = segments;
    claim.attr.segment_count = 2;
    for (int i = 0; i < 2; i++)
        segments[i] = (struct hmreg_segment){HMREG_SEGMENT_DMABUF, .u.dmabuf = dmabuf};
    assert_ok(reg(&claim, 0, &mr));
    assert_int_equal(script_last()->iface, HMREG_IFACE_MAX);
    assert_ok(hmreg_mr_close(mr));
    close(dmabuf.fd);
}

TEST(foreign__other_calls__refuse_it)
{
    struct hmreg_runtime_info runtime = {.size = sizeof(runtime)};

    script_open(&fixture, NULL, NULL);
    for (int iface = HMREG_IFACE_COUNT; iface <= HMREG_IFACE_MAX; iface++) {
        enum hmreg_iface asked = (enum hmreg_iface)iface;

        assert_fails(hmreg_runtime_query(fixture.lib, asked, &runtime), -EINVAL, "iface is");
    }
}

/* hmreg_domain_explain() answers for the caller's dmabuf too, and as a registration of it then
 * goes.
 */
TEST(foreign__explained__as_registered)
{
    struct hmreg_explanation why = {.size = sizeof(why)}, done = {.size = sizeof(done)};
    struct hmreg_mr_dmabuf dmabuf;
    struct claim claim;
    struct hmreg_mr *mr;

    script_open(&fixture, NULL, NULL);
    begin_dmabuf(&claim, &dmabuf);
    for (int i = 0; i < 2; i++) {
        script.can[HMREG_PATH_DMABUF][1] = script.can[HMREG_PATH_PEERMEM][1] = i ? -EPERM : 0;
        for (int iface = HMREG_IFACE_COUNT; iface <= HMREG_IFACE_MAX; iface++) {
            claim.attr.iface = (enum hmreg_iface)iface;
            assert_ok(
                hmreg_domain_explain(fixture.domain, claim.attr.iface, claim.attr.device, &why));
            assert_int_equal(why.path, i ? HMREG_PATH_MAPPED : HMREG_PATH_DMABUF);
            assert_int_equal(why.iface, iface);
            assert_int_equal(why.device, claim.attr.device);
            assert_ok(reg(&claim, HMREG_REG_DMABUF, &mr));
            assert_ok(hmreg_mr_explain(mr, &done));
            assert_int_equal(done.path, why.path);
            assert_int_equal(why.refused, 2 * i);
            assert_int_equal(done.refused, i); /* peermem takes no dmabuf and is not among them */
            assert_string_equal(done.reasons[0].text, why.reasons[0].text);
            assert_ok(hmreg_mr_close(mr));
        }
    }
    assert_int_equal(why.reasons[0].code, -EPERM);
    assert_int_equal(asked(), 0);
    close(dmabuf.fd);
}

TEST(foreign__explained_without_a_path__none)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .order = {HMREG_PATH_PEERMEM}};
    struct hmreg_explanation why = {.size = sizeof(why)}, before;

    script_open(&fixture, NULL, &config);
    script.can[HMREG_PATH_PEERMEM][0] = -EPERM;
    assert_ok(hmreg_domain_explain(fixture.domain, HMREG_IFACE_NEURON, HMREG_DEVICE_ANY, &why));
    assert_int_equal(why.path, HMREG_PATH_NONE);
    assert_int_equal(why.refused, 1);
    assert_int_equal(why.device, HMREG_DEVICE_ANY);
    before = why;
    assert_fails(hmreg_domain_explain(fixture.domain, HMREG_IFACE_NEURON, -2, &why), -ENODEV,
                 "device is -2; it must be 0 or more, or HMREG_DEVICE_ANY");
    assert_fails(
        hmreg_domain_explain(fixture.domain, (enum hmreg_iface)(HMREG_IFACE_MAX + 1), 0, &why),
        -EINVAL, "iface is 16; accepted are 0 (system) to 3 (cuda, rocr, ze), and up to 15 for");
    assert_memory_equal(&why, &before, sizeof(why));
}

TEST(foreign__each__has_a_name)
{
    assert_string_equal(hmreg_iface_name(HMREG_IFACE_NEURON), "neuron");
    assert_string_equal(hmreg_iface_name(HMREG_IFACE_SYNAPSEAI), "synapseai");
    assert_string_equal(hmreg_iface_name((enum hmreg_iface)6), "iface6");
    assert_string_equal(hmreg_iface_name(HMREG_IFACE_MAX), "iface15");
    assert_string_equal(hmreg_iface_name(HMREG_IFACE_MAX + 1), "?");
}

/* ---- HMREG_DEBUG=claims -------------------------------------------------------------------- */

TEST(debug__each_wrong_field__fails_and_names_it)
{
    static char host[64], pinned[64];
    struct claim claims[8];
    char bases[96];
    static const struct {
        const char *words[2];
    } expected[] = {
        {{"iface: the caller claims ze, the memory has cuda", "claim about the 64 bytes"}},
        {{"device: the caller claims 0, the memory has 1", ""}},
        {{"claim_kind: the caller claims managed, the memory has device", ""}},
        {{"claim_base: the caller claims", ""}},
        {{"claim_len: the caller claims 4096, the memory has 196608", ""}},
        {{"iface: the caller claims cuda, the memory has system", ""}},
        {{"iface: the caller claims system, the memory has rocr", ""}},
        {{"the CPU's address: the caller claims 0x", ", the memory has 0x"}},
    };

    open_debugging("claims");
    vendor_claim(HMREG_IFACE_ROCR, pinned, sizeof(pinned), HMREG_MEM_HOST_PINNED, 1)
        ->range.host_addr += 4096;
    for (int i = 0; i < 5; i++)
        claim_of(&claims[i]);
    claims[0].attr.iface = HMREG_IFACE_ZE;
    claims[1].attr.device = 0;
    claims[2].attr.claim_kind = HMREG_MEM_MANAGED;
    snprintf(bases, sizeof(bases), "claims %#" PRIx64 ", the memory has %#" PRIx64,
             claims[3].attr.claim_base + 16, claims[3].attr.claim_base);
    claims[3].attr.claim_base += 16;
    claims[3].attr.claim_len -= 16;
    claims[4].attr.claim_len = 4096;
    claim_of_host(host, sizeof(host), &claims[5])->attr.iface = HMREG_IFACE_CUDA;
    claims[5].attr.claim_kind = HMREG_MEM_HOST_PINNED;
    claim_of_host(pinned, sizeof(pinned), &claims[6]);
    claim_of_host(pinned, sizeof(pinned), &claims[7])->attr.iface = HMREG_IFACE_ROCR;
    claims[7].attr.claim_kind = HMREG_MEM_HOST_PINNED;
    claims[7].attr.device = 1;
    for (int i = 0; i < 8; i++) {
        struct hmreg_mr *mr;

        assert_reg_fails(reg(&claims[i], 0, &mr), mr, -EINVAL, "trusted claim about");
        for (int word = 0; word < 2; word++)
            assert_non_null(strstr(hmreg_last_error()->text, expected[i].words[word]));
        if (i == 3)
            assert_non_null(strstr(hmreg_last_error()->text, bases));
    }
    assert_int_equal(script.count, 0);
}

TEST(debug__right_claims__registered_and_silent)
{
    static char host[64];
    struct hmreg_mr_dmabuf dmabuf;
    struct claim claim;
    struct hmreg_mr *mr;

    open_debugging("puts,claims");
    claim_of(&claim)->attr.iov_count = 2;
    assert_ok(reg(&claim, 0, &mr));
    assert_ok(hmreg_mr_close(mr));
    claim_of_host(host, sizeof(host), &claim);
    assert_ok(reg(&claim, 0, &mr));
    assert_ok(hmreg_mr_close(mr));
    begin_dmabuf(&claim, &dmabuf);
    assert_ok(reg(&claim, HMREG_REG_DMABUF, &mr));
    assert_ok(hmreg_mr_close(mr));
    claim.attr.iface = HMREG_IFACE_SYSTEM; /* leaves open whose it is */
    claim.attr.device = HMREG_DEVICE_ANY;
    assert_ok(reg(&claim, HMREG_REG_DMABUF, &mr));
    assert_ok(hmreg_mr_close(mr));
    claim.attr.iface = HMREG_IFACE_CUDA;
    dmabuf.base_addr = host; /* of no runtime: nothing is known about the dmabuf */
    assert_ok(reg(&claim, HMREG_REG_DMABUF, &mr));
    assert_ok(hmreg_mr_close(mr));
    dmabuf.base_addr = NULL;
    assert_ok(reg(&claim, HMREG_REG_DMABUF, &mr));
    assert_ok(hmreg_mr_close(mr));
    assert_true(asked() > 0);
    close(dmabuf.fd);
}

static void said_on_standard_error(const struct claim *change, int code, const char *words)
{
    char line[512] = "";
    struct claim claim;
    struct hmreg_mr *mr;
    int kept, pipes[2];

    open_debugging("claims");
    claim_of(&claim)->attr.device -= change->attr.device;
    claim.attr.claim_len += change->attr.claim_len;
    assert_int_equal(pipe(pipes), 0);
    kept = dup(STDERR_FILENO);
    dup2(pipes[1], STDERR_FILENO);
    assert_int_equal(reg(&claim, 0, &mr), code);
    dup2(kept, STDERR_FILENO);
    assert_true(read(pipes[0], line, sizeof(line) - 1) > 0);
    assert_ptr_equal(strstr(line, "hmreg: HMREG_DEBUG=claims: "), line);
    assert_non_null(strstr(line, words));
    close(kept);
    close(pipes[0]);
    close(pipes[1]);
    test_finish();
}

TEST(debug__wrong_claim__is_a_line_on_standard_error)
{
    said_on_standard_error(&(struct claim){.attr.device = 1}, -EINVAL, "the trusted claim about");
    said_on_standard_error(&(struct claim){.attr.claim_len = 1}, -ERANGE, "the allocation ends");
}

TEST_MAIN()
