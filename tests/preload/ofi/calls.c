/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The hook on a simulated fabric: what the provider gets, what the program gets, and what is
 * recorded, for what the fabrics of a test machine do not do. The cases of one mode run in one
 * process (HMREG_RUN_MODE).
 */
#include "preload/mode.h"
#include "preload/ofi/domain_hook.h"
#include "preload/record.h"
#include "tests/preload/ofi/recorded.h"
#include "tests/preload/ofi/vendor_memory.h"
#include "tests/support/fake_fabric.h"
#include "tests/support/test.h"

#include <dlfcn.h>
#include <hmreg/hmreg.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>
#include <sys/mman.h>

struct fi_provider *fi_prov_ini(void);

static char memory[8192] __attribute__((aligned(4096)));

/* ---- a fabric of ours above the simulated domain ----------------------------------------- */

static struct {
    int domain_close_code;
    unsigned domains_closed;
    uint64_t domain_bind_flags;
    const struct fi_mr_attr *attr; /* of the last fi_mr_regattr() */
    struct fid_mr *shared;         /* given to each caller, as a provider with a cache does */
    unsigned uses;
    bool inside;       /* the guard, in the last registration */
    bool inside_close; /* ...and in the last end of a domain */
    unsigned extra;
    struct fid_fabric *opens; /* whose domain is opened below */
    bool hands_through;       /* the domain below is the program's */
} fabric;

static struct fi_ops_mr *simulated;

static int close_domain(struct fid *fid)
{
    fabric.inside_close = (record_guard.frame != 0);
    if (fabric.domain_close_code)
        return fabric.domain_close_code;
    if (fake_fabric.live)
        return -FI_EBUSY;
    fabric.domains_closed++;
    return 0;
}

static int bind_domain(struct fid *fid, struct fid *object, uint64_t flags)
{
    fabric.domain_bind_flags = flags;
    return 0;
}

static int close_shared(struct fid *fid)
{
    fabric.uses--;
    return 0;
}

static struct fi_ops shared_ops = {.size = sizeof(shared_ops), .close = close_shared};

static int regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                   struct fid_mr **out)
{
    fabric.attr = attr;
    fabric.inside = (record_guard.frame != 0);
    if (!fabric.shared)
        return simulated->regattr(fid, attr, flags, out);
    fabric.uses++;
    *out = fabric.shared;
    return 0;
}

/* The simulated domain reads the struct as long as libfabric 2's. */
union wide_attr {
    struct fi_mr_attr attr;
    uint64_t words[14];
};

static int regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access,
                uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
    union wide_attr given = {.words = {0}};

    given.attr.mr_iov = iov;
    given.attr.iov_count = count;
    given.attr.access = access;
    given.attr.offset = offset;
    given.attr.requested_key = key;
    given.attr.context = context;
    return regattr(fid, &given.attr, flags, mr);
}

static int reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
               uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
    struct iovec iov = {(void *)(uintptr_t)buf, len};

    return regv(fid, &iov, 1, access, offset, key, flags, mr, context);
}

static void extra(void)
{
    fabric.extra++;
}

/* A table with an operation that this header does not know. */
static struct {
    struct fi_ops_mr known;
    void (*extra)(void);
} mr_ops = {{sizeof(mr_ops), reg, regv, regattr}, extra};

static struct fi_ops domain_ops;

/* A domain on the simulated one, as ofi_rxm's is on another provider's. */
static int reg_above(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
                     uint64_t key, uint64_t flags, struct fid_mr **mr, void *context)
{
    return fi_mr_reg(&fake_fabric.domain, buf, len, access, offset, key, flags, mr, context);
}

static int close_above(struct fid *fid)
{
    return fi_close(&fake_fabric.domain.fid);
}

static struct fi_ops_mr mr_ops_above = {.size = sizeof(mr_ops_above), .reg = reg_above};
static struct fi_ops ops_above = {.size = sizeof(ops_above), .close = close_above};
static struct fid_domain above;

static int open_domain(struct fid_fabric *self, struct fi_info *info, struct fid_domain **out,
                       void *context)
{
    int rc;

    *out = &fake_fabric.domain;
    if (!fabric.opens || self == fabric.opens)
        return 0;
    rc = fi_domain(fabric.opens, info, out, context);
    if (fabric.hands_through)
        return rc;
    above = (struct fid_domain){.fid = {FI_CLASS_DOMAIN, NULL, &ops_above}, .mr = &mr_ops_above};
    *out = &above;
    return rc;
}

static struct fi_ops_fabric fabric_ops = {.size = sizeof(fabric_ops), .domain = open_domain};

/* Opens a fabric as libfabric does, which passes it to the hook. */
static struct fid_fabric open_fabric(void)
{
    struct fid_fabric made = {.fid.fclass = FI_CLASS_FABRIC, .ops = &fabric_ops};
    struct fid_fabric *pointer = &made;
    struct fi_fabric_attr attr = {.fabric = pointer};
    struct fi_provider *hook = fi_prov_ini();

    assert_null(hook->getinfo);
    assert_int_equal(hook->fabric(&attr, &pointer, NULL), 0);
    assert_ptr_equal(pointer, &made);
    domain_hook_of(dlsym(dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD), "fi_strerror"));
    return made;
}

static void begin(void)
{
    struct fid_domain *domain = fake_fabric_begin();

    memset(&fabric, 0, sizeof(fabric));
    simulated = domain->mr;
    domain_ops = *domain->fid.ops;
    domain_ops.close = close_domain;
    domain_ops.bind = bind_domain;
    domain->fid.ops = &domain_ops;
    domain->mr = &mr_ops.known;
    fake_fabric.info->caps = FI_RMA;
}

static struct fid_domain *open_hooked(void)
{
    struct fid_fabric opened = open_fabric();
    struct fid_domain *domain = NULL;

    assert_int_equal(fi_domain(&opened, fake_fabric.info, &domain, NULL), 0);
    assert_ptr_equal(domain, &fake_fabric.domain);
    assert_ptr_not_equal(domain->mr, &mr_ops.known);
    return domain;
}

static void end(struct fid_domain *domain)
{
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_ptr_equal(domain->mr, &mr_ops.known);
    assert_ptr_equal(domain->fid.ops, &domain_ops);
    fake_fabric_end();
}

static struct fid_mr *reg_ok(struct fid_domain *domain, uint64_t access)
{
    struct fid_mr *mr = NULL;

    assert_int_equal(fi_mr_reg(domain, memory, 4096, access, 0, 5, 0, &mr, &fabric), 0);
    assert_ptr_equal(mr->fid.context, &fabric);
    return mr;
}

static void close_ok(struct fid_mr *mr)
{
    assert_int_equal(fi_close(&mr->fid), 0);
}

static void end_after_use(struct fid_domain *domain)
{
    close_ok(reg_ok(domain, FI_SEND));
    end(domain);
}

/* ---- modes ------------------------------------------------------------------------------- */

static void only_in(bool right)
{
    if (!right)
        test_skip("the case is of another mode");
}

static void only_traced(void)
{
    only_in(!preload_mode()->gpu);
}

static void only_gpu(void)
{
    only_in(preload_mode()->gpu);
}

/* ---- trace ------------------------------------------------------------------------------- */

TEST(trace__each_call__provider_gets_its_arguments)
{
    struct iovec iov[2] = {{memory, 100}, {memory + 4096, 7}};
    struct fid_domain *domain;
    struct fid_mr *mr = NULL;
    struct counts before = recorded(NULL), counts;

    only_traced();
    begin();
    fake_fabric.info->domain_attr->name = strdup("eth7");
    domain = open_hooked();
    assert_int_equal(fi_mr_regv(domain, iov, 2, FI_SEND, 9, 4, FI_RMA_PMEM, &mr, memory), 0);
    assert_int_equal(fake_fabric.given.attr.iov_count, 2);
    assert_memory_equal(fake_fabric.iov, iov, sizeof(iov));
    assert_int_equal(fake_fabric.given.attr.access, FI_SEND);
    assert_int_equal(fake_fabric.given.attr.offset, 9);
    assert_int_equal(fake_fabric.given.attr.requested_key, 4);
    assert_ptr_equal(fake_fabric.given.attr.context, memory);
    assert_int_equal(fake_fabric.flags, FI_RMA_PMEM);
    assert_true(fabric.inside);
    close_ok(mr);
    close_ok(reg_ok(domain, FI_RECV));
    counts = recorded(&before);
    assert_int_equal(counts.passed, 2);
    assert_int_equal(counts.ends, 2);
    assert_int_equal(of_nic("eth7"), 2);
    end(domain);
}

TEST(trace__attributes__same_struct)
{
    union wide_attr given = {.words = {0}};
    struct iovec iov = {memory, 100};
    struct fid_domain *domain;
    struct fid_mr *mr = NULL;

    only_traced();
    begin();
    domain = open_hooked();
    given.attr.mr_iov = &iov;
    given.attr.iov_count = 1;
    given.attr.access = FI_SEND;
    assert_int_equal(fi_mr_regattr(domain, &given.attr, 3, &mr), 0);
    assert_ptr_equal(fabric.attr, &given.attr);
    assert_int_equal(fake_fabric.flags, 3);
    close_ok(mr);
    end(domain);
}

TEST(trace__table_with_later_operations__copied_whole)
{
    struct fid_domain *domain;

    begin();
    domain = open_hooked();
    assert_int_equal(domain->mr->size, sizeof(mr_ops));
    ((__typeof__(&mr_ops))domain->mr)->extra();
    assert_int_equal(fabric.extra, 1);
    end(domain);
}

TEST(trace__one_region_for_two_callers__both_ends_recorded)
{
    struct fid_mr shared = {.fid = {.fclass = FI_CLASS_MR, .context = &fabric, .ops = &shared_ops}};
    struct counts before = recorded(NULL), counts;
    struct fid_domain *domain;

    only_traced();
    begin();
    domain = open_hooked();
    fabric.shared = &shared;
    assert_ptr_equal(reg_ok(domain, FI_SEND), &shared);
    assert_ptr_equal(reg_ok(domain, FI_SEND), &shared);
    close_ok(&shared);
    assert_int_equal(fabric.uses, 1);
    close_ok(&shared);
    assert_int_equal(fabric.uses, 0);
    counts = recorded(&before);
    assert_int_equal(counts.ends, 2);
    assert_int_equal(counts.unknown, 0);
    end(domain);
}

/* Of memory that was freed in between a cache would have saved nothing, which only watching shows.
 */
TEST(trace__registered_again__while_it_is_the_same_memory)
{
    const int how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    struct counts before = recorded(NULL);
    struct fid_domain *domain;

    only_traced();
    begin();
    domain = open_hooked();
    for (int i = 0; i < 4; i++) {
        if (i % 2 == 0)
            assert_ptr_equal(mmap(memory, 8192, PROT_READ | PROT_WRITE, how, -1, 0), memory);
        close_ok(reg_ok(domain, FI_SEND | FI_REMOTE_READ));
    }
    assert_int_equal(recorded(&before).again, preload_mode()->watch ? 2 : 3);
    end(domain);
}

TEST(trace__close_fails__still_registered)
{
    struct counts before = recorded(NULL), counts;
    struct fid_domain *domain;
    struct fid_mr *mr;

    only_traced();
    begin();
    domain = open_hooked();
    mr = reg_ok(domain, FI_SEND);
    fake_fabric.close_code = -FI_EBUSY;
    assert_int_equal(fi_close(&mr->fid), -FI_EBUSY);
    fake_fabric.close_code = 0;
    counts = recorded(&before);
    assert_int_equal(counts.ends, 0);
    assert_int_equal(counts.failures, 1);
    close_ok(mr);
    assert_int_equal(recorded(&before).ends, 1);
    end(domain);
}

TEST(trace__registration_fails__error_and_output_of_the_provider)
{
    struct fid_mr *mr = (struct fid_mr *)memory;
    struct fid_domain *domain;

    begin();
    domain = open_hooked();
    fake_fabric.reg_code = -FI_ENOKEY;
    assert_int_equal(fi_mr_reg(domain, memory, 8, FI_REMOTE_READ, 0, 1, 0, &mr, NULL), -FI_ENOKEY);
    assert_ptr_equal(mr, memory);
    fake_fabric.reg_code = 0;
    end(domain);
}

TEST(trace__domain_close_fails__stays_hooked)
{
    struct counts before = recorded(NULL);
    struct fid_domain *domain;

    only_traced();
    begin();
    domain = open_hooked();
    fabric.domain_close_code = -FI_EBUSY;
    assert_int_equal(fi_close(&domain->fid), -FI_EBUSY);
    fabric.domain_close_code = 0;
    close_ok(reg_ok(domain, FI_SEND));
    assert_int_equal(recorded(&before).passed, 1);
    end(domain);
}

/* Opens a domain of one fabric on that of another. */
static struct fid_domain *open_above(const char *provider, bool hands_through)
{
    static struct fid_fabric below, upper;
    struct fid_domain *domain = NULL;

    begin();
    free(fake_fabric.info->fabric_attr->prov_name);
    fake_fabric.info->fabric_attr->prov_name = strdup(provider);
    below = open_fabric();
    upper = open_fabric();
    fabric.opens = &below;
    fabric.hands_through = hands_through;
    assert_int_equal(fi_domain(&upper, fake_fabric.info, &domain, NULL), 0);
    return domain;
}

static void end_above(struct fid_domain *domain)
{
    assert_int_equal(fi_close(&domain->fid), 0);
    assert_int_equal(fabric.domains_closed, 1);
    fake_fabric_end();
}

TEST(trace__domain_on_another__recorded_once)
{
    struct fid_domain *domain = open_above("tcp;ofi_rxm", false);
    struct counts before = recorded(NULL);

    close_ok(reg_ok(domain, FI_SEND | FI_REMOTE_READ));
    assert_int_equal(recorded(&before).passed, 1);
    assert_int_equal(recorded(&before).ends, 1);
    /* Of the provider's own. */
    close_ok(reg_ok(&fake_fabric.domain, FI_SEND));
    assert_int_equal(recorded(&before).passed, 2);
    assert_int_equal(recorded(&before).made, 0);
    end_above(domain);
}

/* What a provider registers on a domain of libibverbs, the interposers there record. */
TEST(trace__domain_on_one_of_libibverbs__its_own_not_recorded)
{
    struct fid_domain *domain = open_above("verbs;ofi_rxm", false);
    struct counts before = recorded(NULL);

    close_ok(reg_ok(&fake_fabric.domain, FI_SEND));
    assert_false(fabric.inside);
    assert_int_equal(recorded(&before).passed, 0);
    assert_int_equal(recorded(&before).unknown, 0);
    end_above(domain);
    assert_false(fabric.inside_close);
}

TEST(trace__domain_of_another_fabric_handed_through__hooked_once)
{
    struct fid_domain *domain = open_above("tcp", true);
    struct counts before = recorded(NULL);

    assert_ptr_equal(domain, &fake_fabric.domain);
    close_ok(reg_ok(domain, FI_SEND | FI_REMOTE_READ));
    assert_int_equal(recorded(&before).passed, 1);
    end_above(domain);
}

/* What is pending at the close names the region by its desc, which is looked up later. */
TEST(close__access_pending__region_gone)
{
    static const uint64_t rights[] = {FI_SEND, FI_RECV, FI_READ | FI_WRITE,
                                      FI_SEND | FI_REMOTE_READ};

    for (unsigned i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
        struct fid_domain *domain;

        begin();
        fake_fabric.info->domain_attr->mr_mode = FI_MR_PROV_KEY;
        domain = open_hooked();
        close_ok(reg_ok(domain, rights[i]));
        assert_int_equal(fake_fabric.given.attr.access, rights[i]);
        assert_int_equal(fake_fabric.live, 0);
        end(domain);
    }
}

/* ---- gpu --------------------------------------------------------------------------------- */

#define DEVICE_BYTES (1 << 20)

/* A domain of a fabric that imports dmabufs, with FI_HMEM. */
static struct fid_domain *open_importing(uint32_t version)
{
    begin();
    free(fake_fabric.info->fabric_attr->prov_name);
    fake_fabric.info->fabric_attr->prov_name = strdup("verbs;ofi_rxm");
    fake_fabric.info->fabric_attr->api_version = fake_fabric.version = version;
    fake_fabric.info->caps |= FI_HMEM;
    return open_hooked();
}

static int reg_device(struct fid_domain *domain, const void *device, int iface, struct fid_mr **mr)
{
    union wide_attr given = {.words = {0}};
    struct iovec iov = {(char *)(uintptr_t)device + 100, 5000};

    given.attr.mr_iov = &iov;
    given.attr.iov_count = 1;
    given.attr.access = FI_REMOTE_WRITE | FI_WRITE;
    given.attr.requested_key = 44;
    given.attr.iface = (enum fi_hmem_iface)iface;
    return fi_mr_regattr(domain, &given.attr, 0, mr);
}

static void assert_by_dmabuf(const void *device)
{
    assert_int_equal(fake_fabric.flags, HMREG_REG_DMABUF);
    assert_true(fake_fabric.dmabuf_fd_open);
    assert_int_equal(fake_fabric.dmabuf.len, 5000);
    assert_ptr_equal((char *)fake_fabric.dmabuf.base_addr + fake_fabric.dmabuf.offset,
                     (const char *)device + 100);
    assert_int_equal(fake_fabric.given.attr.requested_key, 44);
    assert_int_equal(fake_fabric.given.attr.access, FI_REMOTE_WRITE | FI_WRITE);
}

static const struct vendor *cuda_or_skip(void)
{
    const struct vendor *cuda = vendor_find("cuda");

    only_gpu();
    if (!cuda)
        test_skip("this build is without CUDA");
    return cuda;
}

TEST(gpu__provider_refuses_the_device__dmabuf)
{
    const struct vendor *cuda = cuda_or_skip();
    void *device = cuda->alloc(DEVICE_BYTES);
    struct fid_domain *domain = open_importing(FI_VERSION(1, 20));
    struct counts before = recorded(NULL), counts;
    struct fid_mr *mr = NULL;

    fake_fabric.reg_code = -FI_ENOSYS;
    fake_fabric.reg_failures = 1;
    assert_int_equal(reg_device(domain, device, FI_HMEM_CUDA, &mr), 0);
    assert_by_dmabuf(device);
    assert_int_equal(fi_mr_key(mr), 44);
    counts = recorded(&before);
    assert_int_equal(counts.made, 1);
    assert_int_equal(counts.passed, 0);
    close_ok(mr);
    assert_int_equal(fake_fabric.live, 0);
    end(domain);
    cuda->release(device);
}

TEST(gpu__provider_takes_the_device__left_to_it)
{
    const struct vendor *cuda = cuda_or_skip();
    void *device = cuda->alloc(DEVICE_BYTES);
    struct fid_domain *domain = open_importing(FI_VERSION(1, 20));
    struct counts before = recorded(NULL);
    struct fid_mr *mr = NULL;

    assert_int_equal(reg_device(domain, device, FI_HMEM_CUDA, &mr), 0);
    assert_int_equal(fake_fabric.regs, 1);
    assert_int_equal(fake_fabric.flags, 0);
    assert_int_equal(recorded(&before).peermem, 1);
    close_ok(mr);
    end(domain);
    cuda->release(device);
}

TEST(gpu__device_memory_as_the_hosts__dmabuf)
{
    const struct vendor *cuda = cuda_or_skip();
    void *device = cuda->alloc(DEVICE_BYTES);
    struct fid_domain *domain = open_importing(FI_VERSION(1, 20));
    struct fid_mr *mr = NULL;

    assert_int_equal(reg_device(domain, device, FI_HMEM_SYSTEM, &mr), 0);
    assert_int_equal(fake_fabric.regs, 1);
    assert_by_dmabuf(device);
    close_ok(mr);
    end(domain);
    cuda->release(device);
}

/* libfabric 1.17 has no dmabufs: the provider's ibv_reg_mr() is for the interposers below, who take
 * it for a call of the program. */
TEST(gpu__libfabric_without_dmabufs__left_to_libibverbs)
{
    const struct vendor *cuda = cuda_or_skip();
    void *device = cuda->alloc(DEVICE_BYTES);
    struct fid_domain *domain = open_importing(FI_VERSION(1, 17));
    struct counts before = recorded(NULL), counts;
    struct fid_mr *mr = NULL;

    fake_fabric.reg_code = -FI_EFAULT; /* the provider, and hmreg by peer memory */
    fake_fabric.reg_failures = 2;
    assert_int_equal(reg_device(domain, device, FI_HMEM_CUDA, &mr), 0);
    assert_int_equal(fake_fabric.regs, 3);
    assert_false(fabric.inside);
    counts = recorded(&before);
    assert_int_equal(counts.made + counts.passed + counts.unknown, 0);
    assert_int_equal(reason("libfabric-too-old"), 1);
    close_ok(mr);
    assert_int_equal(recorded(&before).unknown, 0);
    end(domain);
    cuda->release(device);
}

/* ---- a region of hmreg's ------------------------------------------------------------------- */

static const struct vendor *owner;
static void *owned;

/* Opens a domain, and registers device memory that the program does not claim. */
static struct fid_mr *reg_ours(struct fid_domain **domain, uint32_t version)
{
    struct fid_mr *mr = NULL;

    owner = cuda_or_skip();
    owned = owner->alloc(DEVICE_BYTES);
    *domain = open_importing(version);
    assert_int_equal(reg_device(*domain, owned, FI_HMEM_SYSTEM, &mr), 0);
    return mr;
}

static void end_ours(struct fid_domain *domain)
{
    end(domain);
    owner->release(owned);
}

TEST(gpu__operations_of_a_region__go_to_the_provider)
{
    struct iovec part = {memory, 64};
    struct fid object = {.fclass = FI_CLASS_CNTR};
    struct fid_domain *domain;
    struct fid_mr *mr = reg_ours(&domain, FI_VERSION(1, 20));
    uint64_t base = 0;
    uint8_t raw[FAKE_RAW_BYTES];
    size_t size = sizeof(raw);

    assert_int_equal(fi_mr_bind(mr, &object, FI_REMOTE_WRITE), 0);
    assert_ptr_equal(fake_fabric.bound, &object);
    assert_int_equal(fake_fabric.bind_flags, FI_REMOTE_WRITE);
    assert_int_equal(fi_mr_refresh(mr, &part, 1, 6), 0);
    assert_memory_equal(&fake_fabric.refreshed_part, &part, sizeof(part));
    assert_int_equal(fake_fabric.refreshed.flags, 6);
    fake_fabric.enable_code = -FI_EOPBADSTATE;
    assert_int_equal(fi_mr_enable(mr), -FI_EOPBADSTATE);
    assert_int_equal(fi_mr_raw_attr(mr, &base, raw, &size, 0), 0);
    assert_int_equal(base, 0x5000);
    assert_int_equal(fi_set_ops(&mr->fid, "none", 0, NULL, NULL), -FI_ENOSYS);
    close_ok(mr);
    end_ours(domain);
}

TEST(gpu__region_open__domain_busy_and_as_before)
{
    struct fid_domain *domain;
    struct fid_mr *mr = reg_ours(&domain, FI_VERSION(1, 20)), *next = NULL;
    struct counts before = recorded(NULL);

    assert_int_equal(fi_close(&domain->fid), -FI_EBUSY);
    close_ok(mr);
    assert_int_equal(reg_device(domain, owned, FI_HMEM_SYSTEM, &next), 0);
    assert_int_equal(recorded(&before).made, 1);
    close_ok(next);
    end_ours(domain);
}

/* Its event names the provider's region. */
TEST(gpu__event_queue_bound__passed_on)
{
    struct fid queue = {.fclass = FI_CLASS_EQ};
    struct fid_domain *domain;
    struct fid_mr *mr = reg_ours(&domain, FI_VERSION(1, 20));
    struct counts before = recorded(NULL);

    close_ok(mr);
    mr = NULL;
    assert_int_equal(fi_domain_bind(domain, &queue, HMREG_BIND_REG_MR), 0);
    assert_int_equal(fabric.domain_bind_flags, HMREG_BIND_REG_MR);
    assert_int_equal(reg_device(domain, owned, FI_HMEM_SYSTEM, &mr), 0);
    assert_int_equal(recorded(&before).passed, 1);
    close_ok(mr);
    end_ours(domain);
}

TEST(gpu__base_of_a_region__is_the_providers)
{
    union wide_attr given = {.words = {0}};
    struct iovec iov = {memory, 100};
    struct fid_domain *domain;
    struct fid_mr *base = reg_ours(&domain, FI_VERSION(2, 0)), *mr = NULL;

    given.attr = (struct fi_mr_attr){.mr_iov = &iov, .iov_count = 1, .access = FI_SEND};
    given.words[12] = (uintptr_t)base;
    given.words[13] = 3; /* sub_mr_cnt */
    assert_int_equal(fi_mr_regattr(domain, &given.attr, 0, &mr), 0);
    assert_ptr_equal((void *)(uintptr_t)fake_fabric.given.words[12], fi_mr_desc(base));
    assert_int_equal(fake_fabric.given.words[13], 3);
    close_ok(mr);
    close_ok(base);
    end_ours(domain);
}

/* hmreg stays open once it was needed, with its descriptors. */
static void need_all_once(void)
{
    const struct vendor *cuda = preload_mode()->gpu ? vendor_find("cuda") : NULL;

    if (cuda)
        cuda->release(cuda->alloc(4096));
    begin();
    end_after_use(open_hooked());
}

int main(int argc, char **argv)
{
    need_all_once();
    return test_main(argc, argv);
}
