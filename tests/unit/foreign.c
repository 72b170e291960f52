/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Memory of ifaces without a runtime, registered by its address and the caller's claim. Nothing is
 * mapped there for the CPU: who touches it crashes. claims.c has a caller's dmabuf of theirs. */
#include "tests/support/queries.h"
#include "tests/support/script.h"
#include "tests/support/vendors.h"

#include <fcntl.h>
#include <hmreg/group.h>
#include <hmreg/job.h>
#include <hmreg/plan.h>
#include <hmreg/suspend.h>
#include <sys/mman.h>

#define BYTES 65536
#define LEN   4096

static struct script_fixture fixture;
static char *memory; /* BYTES without access, as a device's */

static void end(void)
{
    munmap(memory, BYTES);
    memory = NULL;
}

static void open_fixture(const struct script_caps *caps, const struct hmreg_domain_config *config)
{
    memory = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    test_after(end);
    script_open(&fixture, caps, config);
}

static unsigned asked(void)
{
    unsigned count = 0;

    for (int i = 0; i < HMREG_IFACE_COUNT; i++)
        count += vendors[i].resolves + vendors[i].identities + vendors[i].exports;
    return count;
}

/* The claim of a range, whose iov the caller's is. */
static struct hmreg_mr_attr attr_of(const struct iovec *iov, size_t count)
{
    return (struct hmreg_mr_attr){.size = sizeof(struct hmreg_mr_attr),
                                  .iov = iov,
                                  .iov_count = count,
                                  .access = HMREG_ACCESS_ALL,
                                  .claim_iface = HMREG_CLAIM_TRUSTED,
                                  .iface = HMREG_IFACE_NEURON,
                                  .device = 1};
}

static int get_with(struct hmreg_domain *domain, char *addr, size_t len,
                    const struct hmreg_mr_attr *like, struct hmreg_mr **mr)
{
    struct iovec iov = {addr, len};
    struct hmreg_mr_attr attr = *like;

    attr.iov = &iov;
    attr.iov_count = 1;
    return hmreg_mr_get_attr(domain, &attr, 0, mr);
}

static struct hmreg_mr *get_like(const struct hmreg_mr_attr *like)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(get_with(fixture.domain, memory, LEN, like, &mr));
    return mr;
}

static struct hmreg_mr *get(void)
{
    struct hmreg_mr_attr attr = attr_of(NULL, 0);

    return get_like(&attr);
}

/* ---- registering ------------------------------------------------------------------------ */

/* Also where host memory would have to be mapped for the fabric. */
TEST(reg__by_address__peermem_of_its_iface_and_device)
{
    struct script_caps caps = script_caps;
    struct iovec iov = {NULL, LEN};
    struct hmreg_mr_attr attr = attr_of(&iov, 1);

    caps.mr_mode |= HMREG_MR_ALLOCATED;
    open_fixture(&caps, NULL);
    iov = (struct iovec){memory + 100, LEN};
    for (int iface = HMREG_IFACE_COUNT; iface <= HMREG_IFACE_MAX; iface++)
        for (int device = HMREG_DEVICE_ANY; device < 41; device += 21) {
            struct hmreg_mr *mr = NULL;

            attr.iface = (enum hmreg_iface)iface;
            attr.device = device;
            assert_ok(hmreg_mr_regattr(fixture.domain, &attr, HMREG_HMEM_DEVICE_ONLY, &mr));
            assert_int_equal(script_last()->path, HMREG_PATH_PEERMEM);
            assert_int_equal(script_last()->iface, iface);
            assert_int_equal(script_last()->device, device);
            assert_int_equal(script_last()->flags, HMREG_HMEM_DEVICE_ONLY);
            assert_ptr_equal(script_last()->iov[0].iov_base, memory + 100);
            assert_int_equal(script_last()->iov[0].iov_len, LEN);
            assert_int_equal(test_info_of(mr).iface, iface);
            assert_int_equal(test_info_of(mr).local_addr, (uintptr_t)memory + 100);
            assert_int_equal(test_why_of(mr).refused, 1);
            assert_string_equal(test_why_of(mr).reasons[0].slug, "no-dmabuf-export");
            assert_non_null(strstr(test_why_of(mr).reasons[0].text, "pass the dmabuf"));
            assert_ok(hmreg_mr_close(mr));
        }
    assert_int_equal(asked(), 0);
}

/* No runtime has the last word about it, but one that knows the address has another. */
TEST(reg__checked_claim__other_runtimes_may_contradict)
{
    struct iovec iov = {NULL, LEN};
    struct hmreg_mr_attr attr = attr_of(&iov, 1);
    struct hmreg_mr *mr = NULL;

    open_fixture(NULL, NULL);
    attr.claim_iface = HMREG_CLAIM_CHECKED;
    iov.iov_base = memory;
    assert_ok(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr));
    assert_int_equal(script_last()->path, HMREG_PATH_PEERMEM);
    assert_int_equal(script_last()->iface, HMREG_IFACE_NEURON);
    assert_ok(hmreg_mr_close(mr));
    iov.iov_base = fixture.memory[1];
    assert_reg_fails(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr), mr, -EINVAL,
                     "iface: the caller claims neuron, the memory is cuda");
    assert_reg_fails(hmreg_mr_get_attr(fixture.domain, &attr, 0, &mr), mr, -EINVAL,
                     "iface: the caller claims neuron, the memory is cuda");
}

TEST(reg__claims_debugged__other_runtimes_may_contradict)
{
    struct iovec iov = {NULL, LEN};
    struct hmreg_mr_attr attr = attr_of(&iov, 1);
    struct hmreg_mr *mr = NULL;

    setenv("HMREG_DEBUG", "claims", 1);
    open_fixture(NULL, NULL);
    unsetenv("HMREG_DEBUG");
    iov.iov_base = memory;
    assert_ok(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr));
    assert_ok(hmreg_mr_close(mr));
    iov.iov_base = fixture.memory[1];
    assert_reg_fails(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr), mr, -EINVAL,
                     "the caller claims neuron, the memory has cuda");
    attr.claim_iface = HMREG_CLAIM_CHECKED;
    assert_reg_fails(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr), mr, -EINVAL,
                     "iface: the caller claims neuron, the memory is cuda");
}

TEST(reg__claim_that_does_not_suit__refused)
{
    struct iovec iov = {NULL, LEN};
    struct hmreg_mr_attr attr = attr_of(&iov, 1), bad = attr;
    struct hmreg_mr *mr = NULL;

    open_fixture(NULL, NULL);
    iov.iov_base = memory;
    bad.claim_kind = HMREG_MEM_HOST_PINNED;
    assert_reg_fails(hmreg_mr_regattr(fixture.domain, &bad, 0, &mr), mr, -EINVAL,
                     "claim_kind is pinned host; for neuron it must be device, or 0");
    bad = attr;
    bad.claim_identity = 1;
    assert_reg_fails(hmreg_mr_get_attr(fixture.domain, &bad, 0, &mr), mr, -EINVAL,
                     "claim_identity is set; it must be 0 for memory of neuron by its address");
    bad = attr;
    bad.claim_base = (uintptr_t)memory;
    bad.claim_len = LEN - 1;
    assert_reg_fails(hmreg_mr_regattr(fixture.domain, &bad, 0, &mr), mr, -ERANGE,
                     "not within the claimed allocation");
    assert_int_equal(script.count, 0);
    bad.claim_kind = HMREG_MEM_DEVICE;
    bad.claim_len = LEN;
    assert_ok(hmreg_mr_regattr(fixture.domain, &bad, 0, &mr));
    assert_ok(hmreg_mr_close(mr));
}

TEST(reg__peermem_refused__each_path_says_why)
{
    struct iovec iov = {NULL, LEN};
    struct hmreg_mr_attr attr = attr_of(&iov, 1);
    struct hmreg_explanation why;
    struct hmreg_mr *mr = NULL;

    open_fixture(NULL, NULL);
    iov.iov_base = memory;
    script.refuse[HMREG_PATH_PEERMEM][1] = -EFAULT;
    assert_reg_fails(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr), mr, -EOPNOTSUPP,
                     "no path to this neuron memory on script; peermem: script: peermem refused");
    why = test_why_of(NULL);
    assert_int_equal(why.iface, HMREG_IFACE_NEURON);
    assert_int_equal(why.refused, 3);
    assert_string_equal(why.reasons[0].slug, "no-dmabuf-export");
    assert_string_equal(why.reasons[1].slug, "script-refused");
    assert_string_equal(why.reasons[2].slug, "no-dmabuf-export");
    assert_int_equal(script.count, 1);
    assert_int_equal(asked(), 0);
}

TEST(reg__several_ranges__one_registration)
{
    struct iovec iov[2] = {{NULL, LEN}, {NULL, LEN}};
    struct hmreg_mr_attr attr = attr_of(iov, 2);
    struct hmreg_mr *mr = NULL;

    open_fixture(NULL, NULL);
    iov[0] = (struct iovec){memory, LEN};
    iov[1] = (struct iovec){memory + 3 * LEN, LEN};
    assert_ok(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr));
    assert_int_equal(script.count, 1);
    assert_int_equal(script_last()->count, 2);
    assert_ptr_equal(script_last()->iov[1].iov_base, memory + 3 * LEN);
    assert_ok(hmreg_mr_close(mr));
}

/* One of them in a dmabuf of the caller's. */
TEST(reg__segments__a_piece_each)
{
    struct hmreg_segment segments[2] = {
        {HMREG_SEGMENT_DMABUF, .u.dmabuf = {.len = 64, .base_addr = (void *)0x10000}},
        {.kind = HMREG_SEGMENT_MEMORY}};
    struct hmreg_mr_attr attr = attr_of(NULL, 0);
    struct hmreg_mr *mr = NULL;

    open_fixture(NULL, NULL);
    segments[0].u.dmabuf.fd = vendors[HMREG_IFACE_CUDA].claims[0].fd;
    segments[1].u.memory = (struct iovec){memory, LEN};
    attr.segments = segments;
    attr.segment_count = 2;
    assert_ok(hmreg_mr_regattr(fixture.domain, &attr, 0, &mr));
    assert_int_equal(script.count, 2);
    assert_int_equal(script.calls[0].path, HMREG_PATH_DMABUF);
    assert_int_equal(script.calls[1].path, HMREG_PATH_PEERMEM);
    assert_int_equal(script.calls[1].iface, HMREG_IFACE_NEURON);
    assert_ok(hmreg_mr_close(mr));
    attr.policy = HMREG_POLICY_KEEP;
    for (int i = 1; i <= 2; i++) {
        assert_ok(hmreg_mr_get_attr(fixture.domain, &attr, 0, &mr));
        assert_int_equal(script.count, 2 + 2 * i);
        assert_int_equal(test_info_of(mr).policy, HMREG_POLICY_LAST_PUT);
        hmreg_mr_put(mr);
        assert_int_equal(script.live, 0);
    }
}

/* The device's driver is not one that hmreg could ask for it. */
TEST(reg__sync_memops__nothing_to_set)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .sync_memops = HMREG_CHOICE_ON};
    struct hmreg_mr_attr attr = attr_of(NULL, 0);

    open_fixture(NULL, &config);
    for (int iface = HMREG_IFACE_COUNT; iface <= HMREG_IFACE_MAX; iface++) {
        attr.iface = (enum hmreg_iface)iface;
        hmreg_mr_put(get_like(&attr));
    }
    assert_int_equal(script.count, HMREG_IFACE_MAX + 1 - HMREG_IFACE_COUNT);
    assert_int_equal(asked(), 0);
}

TEST(job__pieces__each_by_its_address)
{
    struct hmreg_job_config config = {.size = sizeof(config), .workers = 2, .piece_len = LEN};
    struct iovec iov = {NULL, LEN};
    struct hmreg_mr_attr attr = attr_of(&iov, 1);
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr = NULL;

    open_fixture(NULL, NULL);
    iov = (struct iovec){memory, 4 * LEN};
    assert_ok(hmreg_job_start(fixture.domain, &attr, 0, &config, &job));
    assert_ok(hmreg_job_wait(job, -1, &mr));
    assert_ok(hmreg_job_close(job));
    assert_int_equal(script.count, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(script.calls[i].path, HMREG_PATH_PEERMEM);
        assert_int_equal(script.calls[i].iface, HMREG_IFACE_NEURON);
    }
    assert_ok(hmreg_mr_close(mr));
    assert_int_equal(asked(), 0);
}

/* ---- gets ------------------------------------------------------------------------------- */

static void shared_while_held(enum hmreg_policy of_domain, enum hmreg_policy of_get, int claim)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .policy = of_domain};
    struct hmreg_mr_attr attr = attr_of(NULL, 0);
    struct hmreg_mr *first;

    open_fixture(NULL, &config);
    attr.policy = of_get;
    attr.claim_iface = claim;
    for (unsigned round = 1; round <= 3; round++) {
        first = get_like(&attr);
        assert_ptr_equal(get_like(&attr), first);
        assert_int_equal(script.count, round);
        assert_int_equal(script_last()->path, HMREG_PATH_PEERMEM);
        assert_int_equal(test_info_of(first).policy, HMREG_POLICY_LAST_PUT);
        assert_int_equal(test_why_of(first).policy, HMREG_POLICY_LAST_PUT);
        assert_int_equal(test_why_of(first).asks, 0);
        assert_non_null(strstr(test_why_of(first).uncached_why, "no runtime for neuron"));
        hmreg_mr_put(first);
        assert_int_equal(script.live, 1);
        hmreg_mr_put(first);
        assert_int_equal(script.live, 0);
    }
    if (claim == HMREG_CLAIM_TRUSTED)
        assert_int_equal(asked(), 0);
    assert_int_equal(test_stats_of(fixture.domain).hits, 3);
    assert_int_equal(test_stats_of(fixture.domain).misses, 3);
    test_finish();
}

/* A get of a part does not hold the rest, where other memory may be by now. */
TEST(get__part_of_a_held_region__own_region_that_outlives_it)
{
    struct hmreg_mr_attr attr = attr_of(NULL, 0);
    struct hmreg_mr *whole, *part = NULL, *other;

    open_fixture(NULL, NULL);
    whole = get_like(&attr);
    assert_ok(get_with(fixture.domain, memory + 16, 64, &attr, &part));
    assert_ptr_not_equal(part, whole);
    hmreg_mr_put(whole);
    assert_int_equal(script.live, 1);
    other = get_like(&attr);
    assert_int_equal(script.count, 3);
    hmreg_mr_put(part);
    hmreg_mr_put(other);
    assert_int_equal(script.live, 0);
}

TEST(get__each_policy__shared_while_held_and_never_kept)
{
    for (int policy = HMREG_POLICY_DEFAULT; policy <= HMREG_POLICY_LAST_PUT; policy++)
        for (int claim = HMREG_CLAIM_CHECKED; claim <= HMREG_CLAIM_TRUSTED; claim++) {
            shared_while_held((enum hmreg_policy)policy, HMREG_POLICY_DEFAULT, claim);
            shared_while_held(HMREG_POLICY_DEFAULT, (enum hmreg_policy)policy, claim);
        }
}

/* The claim is all that tells what the memory is. */
TEST(get__another_claim_or_none__another_region)
{
    struct hmreg_mr_attr attrs[4];
    struct hmreg_mr *mrs[5];

    open_fixture(NULL, NULL);
    assert_int_equal(mprotect(memory, BYTES, PROT_READ | PROT_WRITE), 0);
    for (int i = 0; i < 4; i++) {
        attrs[i] = attr_of(NULL, 0);
        attrs[i].claim_iface = HMREG_CLAIM_CHECKED;
    }
    attrs[1].iface = HMREG_IFACE_SYNAPSEAI;
    attrs[2].device = 0;
    attrs[3].device = HMREG_DEVICE_ANY;
    for (int i = 0; i < 4; i++)
        mrs[i] = get_like(&attrs[i]);
    assert_ok(hmreg_mr_get(fixture.domain, memory, LEN, HMREG_ACCESS_ALL, &mrs[4]));
    assert_int_equal(script.count, 5);
    assert_int_equal(script_last()->path, HMREG_PATH_SYSTEM);
    for (int i = 0; i < 4; i++)
        assert_ptr_equal(get_like(&attrs[i]), mrs[i]);
    for (int i = 0; i < 9; i++)
        hmreg_mr_put(mrs[i < 5 ? i : i - 5]);
}

TEST(get__after_a_notice_while_held__registered_anew)
{
    struct hmreg_mr *old, *new;

    open_fixture(NULL, NULL);
    old = get();
    assert_ok(hmreg_invalidate(fixture.lib, memory, LEN));
    new = get();
    assert_ptr_not_equal(new, old);
    assert_int_equal(script.live, 2);
    hmreg_mr_put(old);
    hmreg_mr_put(new);
    assert_int_equal(script.live, 0);
}

TEST(get__to_cover__the_range_alone)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .cover = HMREG_COVER_REMOTE};
    struct hmreg_mr_attr attr = attr_of(NULL, 0);

    open_fixture(NULL, &config);
    for (int claim = HMREG_CLAIM_CHECKED; claim <= HMREG_CLAIM_TRUSTED; claim++) {
        attr.claim_iface = claim;
        hmreg_mr_put(get_like(&attr));
        assert_int_equal(script_last()->iov[0].iov_len, LEN);
    }
    assert_int_equal(script.count, 2);
}

TEST(suspend__explicit_and_got__registered_anew_as_they_were)
{
    struct iovec iov = {NULL, LEN};
    struct hmreg_mr_attr attr = attr_of(&iov, 1), checked = attr;
    struct hmreg_mr *explicit, *got;

    open_fixture(NULL, NULL);
    iov.iov_base = memory;
    checked.claim_iface = HMREG_CLAIM_CHECKED;
    assert_ok(hmreg_mr_regattr(fixture.domain, &attr, 0, &explicit));
    got = get_like(&checked);
    assert_ok(hmreg_suspend(fixture.lib, memory, LEN));
    assert_int_equal(script.live, 0);
    assert_ok(hmreg_resume(fixture.lib, memory, LEN, NULL));
    assert_int_equal(script.live, 2);
    for (unsigned i = 2; i < 4; i++) {
        assert_int_equal(script.calls[i].path, HMREG_PATH_PEERMEM);
        assert_int_equal(script.calls[i].iface, HMREG_IFACE_NEURON);
        assert_int_equal(script.calls[i].device, 1);
    }
    hmreg_mr_put(got);
    assert_ok(hmreg_mr_close(explicit));
    assert_int_equal(script.live, 0);
}

/* ---- groups, and what is foreseen ------------------------------------------------------- */

TEST(group__reg_and_get__on_each_rail)
{
    struct iovec iov = {NULL, LEN};
    struct hmreg_mr_attr attr = attr_of(&iov, 1);
    struct hmreg_domain *members[2], *group;
    struct hmreg_mr *mr = NULL, *got = NULL, *again = NULL;

    open_fixture(NULL, NULL);
    iov.iov_base = memory;
    members[0] = fixture.domain;
    assert_ok(script_domain(fixture.lib, NULL, NULL, &members[1]));
    assert_ok(hmreg_group_open(fixture.lib, members, 2, NULL, &group));
    assert_ok(hmreg_mr_regattr(group, &attr, 0, &mr));
    assert_ok(get_with(group, memory, LEN, &attr, &got));
    assert_ok(get_with(group, memory, LEN, &attr, &again));
    assert_ptr_equal(again, got);
    assert_int_equal(script.count, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(script.calls[i].path, HMREG_PATH_PEERMEM);
        assert_int_equal(script.calls[i].iface, HMREG_IFACE_NEURON);
        assert_int_equal(script.calls[i].device, 1);
    }
    hmreg_mr_put(got);
    hmreg_mr_put(again);
    assert_int_equal(script.live, 2);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(group));
    assert_ok(hmreg_domain_close(members[1]));
    script.destroys = 0;
}

/* A dmabuf of the caller's comes first in the usual order. */
TEST(foreseen__without_dmabufs__as_registered_by_address)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_plan plan = {.size = sizeof(plan)};
    struct hmreg_mr *mr;

    open_fixture(NULL, NULL);
    assert_ok(hmreg_domain_explain(fixture.domain, HMREG_IFACE_NEURON, 1, &why));
    assert_int_equal(why.path, HMREG_PATH_DMABUF);
    script.can[HMREG_PATH_DMABUF][1] = -EPERM;
    assert_ok(hmreg_domain_explain(fixture.domain, HMREG_IFACE_NEURON, 1, &why));
    assert_int_equal(why.path, HMREG_PATH_PEERMEM);
    assert_int_equal(why.refused, 1);
    mr = get();
    assert_int_equal(test_why_of(mr).path, HMREG_PATH_PEERMEM);
    assert_int_equal(test_why_of(mr).refused, 1);
    assert_string_equal(test_why_of(mr).reasons[0].text, why.reasons[0].text);
    hmreg_mr_put(mr);
    assert_ok(hmreg_domain_plan(fixture.domain, HMREG_IFACE_NEURON, 1, LEN, &plan));
    assert_int_equal(plan.path, HMREG_PATH_PEERMEM);
    assert_int_equal(plan.exports, 0);
    assert_int_equal(plan.pinned, 0);
    assert_int_equal(plan.fits, LEN);
}

TEST_MAIN()
