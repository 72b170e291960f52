/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The suite on libibverbs: two connected queue pairs of this machine's first device. It has one
 * mode. As "siw" that device is Soft-iWARP. In the guest its dmabufs are of the simulated GPU.
 */
#include "tests/conformance/suite.h"
#include "tests/rdma/bench.h"
#include "tests/support/softgpu.h"

static bool has_atomics(const struct bench *bench)
{
    struct ibv_device_attr limits = {.atomic_cap = IBV_ATOMIC_NONE};

    return !ibv_query_device(bench->device, &limits) && limits.atomic_cap != IBV_ATOMIC_NONE;
}

static int open_more(struct suite_fixture *fixture, const struct hmreg_domain_config *config,
                     struct hmreg_domain **out)
{
    const struct bench *bench = fixture->own;

    return hmreg_domain_open_verbs(fixture->lib, bench->pd, config, out);
}

static bool open_pair(struct suite_fixture *fixture, unsigned variant)
{
    struct hmreg_domain_config config = {.size = sizeof(config)};
    struct bench *bench = calloc(1, sizeof(*bench));

    if (!bench_begin(bench)) {
        free(bench);
        return false;
    }
    fixture->own = bench;
    config.flags = has_atomics(bench) ? HMREG_VERBS_ATOMICS : 0;
    assert_ok(open_more(fixture, &config, &fixture->domain));
    assert_ok(open_more(fixture, &config, &fixture->peer));
    return true;
}

static void close_pair(struct suite_fixture *fixture)
{
    assert_ok(hmreg_domain_close(fixture->peer));
    assert_ok(hmreg_domain_close(fixture->domain));
    bench_end(fixture->own);
    free(fixture->own);
}

static void recover(struct suite_fixture *fixture)
{
    bench_reconnect(fixture->own);
}

/* ---- operations ------------------------------------------------------------------------- */

/* A desc is the struct ibv_mr; without one the operation uses a key of no region. */
static struct ibv_sge sge_of(const void *memory, size_t len, const void *desc)
{
    const struct ibv_mr *mr = desc;

    return (struct ibv_sge){(uintptr_t)memory, (uint32_t)len, mr ? mr->lkey : 0};
}

static int post(struct suite_fixture *fixture, struct ibv_send_wr *wr, struct ibv_sge sge)
{
    wr->sg_list = &sge;
    wr->num_sge = 1;
    return bench_post(fixture->own, wr) == IBV_WC_SUCCESS ? 0 : -EIO;
}

static int rma(struct suite_fixture *fixture, struct hmreg_remote *remote, bool write, void *local,
               size_t len, void *desc, uint64_t addr, uint64_t key)
{
    struct ibv_send_wr wr = {.opcode = write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
                             .wr.rdma = {.remote_addr = addr, .rkey = (uint32_t)key}};

    return post(fixture, &wr, sge_of(local, len, desc));
}

/* Both atomic operations of verbs fetch. */
static int add(struct suite_fixture *fixture, bool fetch, uint64_t words[2], void *desc,
               uint64_t amount, uint64_t addr, uint64_t key)
{
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
        .wr.atomic = {.remote_addr = addr, .compare_add = amount, .rkey = (uint32_t)key}};

    return has_atomics(fixture->own) ? post(fixture, &wr, sge_of(words, 8, desc)) : -EOPNOTSUPP;
}

static int message(struct suite_fixture *fixture, bool tagged, const void *from, void *from_desc,
                   void *to, void *to_desc, size_t len)
{
    struct ibv_sge sge = sge_of(to, len, to_desc);
    struct ibv_recv_wr *bad, receive = {.sg_list = &sge, .num_sge = 1};
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    struct bench *bench = fixture->own;
    struct ibv_wc wc;
    int rc, polled;

    if (tagged) /* verbs has no tags */
        return -EOPNOTSUPP;
    assert_int_equal(ibv_post_recv(bench->qp[1], &receive, &bad), 0);
    rc = post(fixture, &wr, sge_of(from, len, from_desc));
    if (rc)
        return rc;
    do { /* skip the completion of the other side */
        polled = ibv_poll_cq(bench->cq, 1, &wc);
    } while (!polled);
    return polled == 1 && wc.status == IBV_WC_SUCCESS ? 0 : -EIO;
}

/* ---- registration without hmreg --------------------------------------------------------- */

/* Only what ibv_reg_mr() has a parameter for can succeed. */
static int native(struct suite_fixture *fixture, const void *addr, size_t len, uint64_t access,
                  uint64_t offset, uint64_t key, uint64_t flags)
{
    struct bench *bench = fixture->own;
    struct ibv_mr *mr;

    if (offset || flags || key > UINT32_MAX || (access & ~HMREG_ACCESS_ALL))
        return SUITE_NO_NATIVE;
    /* siw of Linux 7 takes a range that wraps for one of 2^32 pages, and the kernel warns of it. */
    if (fixture->fabric->free_reads && (uintptr_t)addr + len < (uintptr_t)addr)
        return SUITE_NO_NATIVE;
    mr = ibv_reg_mr(bench->pd, (void *)(uintptr_t)addr, len, access ? IBV_ACCESS_LOCAL_WRITE : 0);
    if (!mr)
        return -errno;
    assert_int_equal(ibv_dereg_mr(mr), 0);
    return 0;
}

static int dmabuf(size_t bytes)
{
    return access(SOFTGPU_DEVICE, F_OK) ? -1 : softgpu_alloc(bytes, 0);
}

const struct suite_fabric *suite_fabric(const char *name)
{
    static struct suite_fabric verbs = {
        .name = "verbs",
        .reports_denials = true,
        .variants = 1,
        .open = open_pair,
        .open_more = open_more,
        .optional_access = IBV_ACCESS_OPTIONAL_RANGE & ~(unsigned)IBV_ACCESS_RELAXED_ORDERING,
        .domain_flags = HMREG_VERBS_RELAXED_ORDERING | HMREG_VERBS_ON_DEMAND |
                        HMREG_VERBS_MEMORY_WINDOWS | HMREG_VERBS_ATOMICS |
                        HMREG_VERBS_ATOMICS_IF_POSSIBLE,
        .close = close_pair,
        .rma = rma,
        .add = add,
        .message = message,
        .recover = recover,
        .native = native,
        .dmabuf = dmabuf,
    };

    if (!strcmp(name, "siw")) {
        strcpy(verbs.name, name);
        verbs.free_reads = true;
    }
    return &verbs;
}
