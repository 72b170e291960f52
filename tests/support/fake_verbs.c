/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See fake_verbs.h.
 */
#include "tests/support/fake_verbs.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef ibv_reg_mr /* a macro that chooses between the two functions below */
#define INTERPOSED __attribute__((visibility("default")))

#define DEVICE_ACCESS                                                                              \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                   \
     IBV_ACCESS_REMOTE_ATOMIC)

struct fake_verbs fake_verbs;

static struct ibv_device device;
static int query_device_ex(struct ibv_context *of, const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *out, size_t size)
{
    memset(out, 0, size);
    out->orig_attr = fake_verbs.limits;
    out->odp_caps.general_caps = fake_verbs.odp ? IBV_ODP_SUPPORT : 0;
    return 0;
}

static struct verbs_context extended = {
    .sz = sizeof(extended),
    .query_device_ex = query_device_ex,
    .context = {.device = &device, .abi_compat = __VERBS_ABI_IS_EXTENDED},
};
static struct ibv_pd pd = {.context = &extended.context};
static uint32_t last_key;

/* A region; open ones are linked. */
struct fake_mr {
    struct ibv_mr mr; /* first, since the application holds its address */
    uint64_t iova;
    unsigned access;
    char *attached; /* the bytes of a dmabuf, NULL: none are known */
    struct fake_mr *next;
};
static struct fake_mr *regions;
/* Of regions and the counters: jobs register in several threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct ibv_device *fake_verbs_device(void)
{
    return &device;
}

struct ibv_pd *fake_verbs_reset(void)
{
    device = (struct ibv_device){
        .node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "fake0"};
    fake_verbs = (struct fake_verbs){
        .limits = {.max_mr_size = 1u << 30, .max_mr = 4711, .atomic_cap = IBV_ATOMIC_HCA},
        .takes = IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_MW_BIND,
        .dmabuf_probe = EBADF,
        .ex_probe = EBADF,
        .fd = -1};
    return &pd;
}

INTERPOSED int ibv_query_device(struct ibv_context *of, struct ibv_device_attr *out)
{
    if (fake_verbs.query_error)
        return fake_verbs.query_error;
    *out = fake_verbs.limits;
    return 0;
}

/* As the kernel, it takes an iova at the memory's own offset in its page only. */
static bool takes(const void *addr, size_t length, uint64_t iova, unsigned access)
{
    bool writes = access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    if (((uint64_t)(uintptr_t)addr ^ iova) & (page - 1))
        return false;
    return length && length <= fake_verbs.limits.max_mr_size &&
           !(access & ~(DEVICE_ACCESS | fake_verbs.takes)) &&
           !(writes && !(access & IBV_ACCESS_LOCAL_WRITE));
}

static struct ibv_mr *reg_locked(void *addr, size_t length, uint64_t iova, unsigned access)
{
    bool remote = access & DEVICE_ACCESS & ~(unsigned)IBV_ACCESS_LOCAL_WRITE;
    struct fake_mr *made;
    struct ibv_mr *mr;

    fake_verbs.regs++;
    fake_verbs.addr = addr;
    fake_verbs.length = length;
    fake_verbs.iova = iova;
    fake_verbs.access = access;
    fake_verbs.fd = -1;
    if (!takes(addr, length, iova, access) || fake_verbs.reg_fails) {
        errno = fake_verbs.reg_fails ? fake_verbs.reg_error : EINVAL;
        return NULL;
    }
    made = calloc(1, sizeof(*made));
    if (!made)
        return NULL;
    *made = (struct fake_mr){.iova = iova, .access = access, .next = regions};
    regions = made;
    mr = &made->mr;
    *mr = (struct ibv_mr){.context = pd.context, .pd = &pd, .addr = addr, .length = length};
    mr->lkey = ++last_key << 8;
    mr->rkey = remote ? mr->lkey | 1 : fake_verbs.local_rkey;
    fake_verbs.live++;
    return mr;
}

static struct ibv_mr *reg(void *addr, size_t length, uint64_t iova, unsigned access)
{
    struct ibv_mr *mr;

    pthread_mutex_lock(&lock);
    mr = reg_locked(addr, length, iova, access);
    pthread_mutex_unlock(&lock);
    return mr;
}

INTERPOSED struct ibv_mr *ibv_reg_mr(struct ibv_pd *on, void *addr, size_t length, int access)
{
    return reg(addr, length, (uint64_t)(uintptr_t)addr, (unsigned)access);
}

INTERPOSED struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *on, void *addr, size_t length,
                                           uint64_t iova, unsigned access)
{
    return reg(addr, length, iova, access);
}

static void undo(struct ibv_mr *mr, int error)
{
    ibv_dereg_mr(mr);
    fake_verbs.deregs--;
    errno = error;
}

static struct ibv_mr *import(uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
    char *attached = NULL;
    struct ibv_mr *mr;

    /* As with libibverbs, the region's address is its offset. */
    mr = reg((void *)(uintptr_t)offset, length, iova, (unsigned)access);
    fake_verbs.fd = fd;
    fake_verbs.offset = offset;
    if (!mr)
        return NULL;
    errno = fake_verbs.dmabuf_error;
    if (!errno && fake_verbs.attach)
        attached = fake_verbs.attach(fd);
    if (attached || !errno) {
        ((struct fake_mr *)mr)->attached = attached;
        return mr;
    }
    undo(mr, errno);
    return NULL;
}

struct ibv_mr *fake_verbs_reg_mlx5(struct ibv_pd *on, uint64_t offset, size_t length, uint64_t iova,
                                   int fd, int access, int mlx5_access)
{
    struct ibv_mr *mr;
    int usual = fake_verbs.dmabuf_error;

    fake_verbs.dmabuf_error = fake_verbs.mlx5_error;
    mr = import(offset, length, iova, fd, access);
    fake_verbs.dmabuf_error = usual;
    fake_verbs.by_mlx5 = mlx5_access;
    return mr;
}

INTERPOSED struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *on, uint64_t offset, size_t length,
                                            uint64_t iova, int fd, int access)
{
    if (fd >= 0 && fake_verbs.dmabuf_probe == EBADF) {
        fake_verbs.by_ex = false;
        fake_verbs.by_mlx5 = 0;
        return import(offset, length, iova, fd, access);
    }
    fake_verbs.probes++;
    errno = fake_verbs.dmabuf_probe;
    return NULL;
}

/* struct ibv_mr_init_attr of rdma-core 59. */
struct init_attr {
    size_t length;
    int access;
    uint64_t comp_mask, iova;
    void *addr;
    int fd;
    uint64_t fd_offset;
};
#define OF_A_DMABUF 0xd /* iova, fd and fd_offset are set, and no address */

static struct ibv_mr *reg_mr_ex(struct ibv_pd *on, const struct init_attr *attr)
{
    if (attr->comp_mask != OF_A_DMABUF || attr->addr) {
        errno = EINVAL;
        return NULL;
    }
    if (attr->fd >= 0 && fake_verbs.ex_probe == EBADF) {
        fake_verbs.by_ex = true;
        return import(attr->fd_offset, attr->length, attr->iova, attr->fd, attr->access);
    }
    fake_verbs.ex_probes++;
    errno = fake_verbs.ex_probe;
    return NULL;
}

struct ibv_mr_init_attr;
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *on, struct ibv_mr_init_attr *attr);

/* For programs whose library finds calls by dlsym(3) itself, in a libibverbs that may have it. */
INTERPOSED struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *on, struct ibv_mr_init_attr *attr)
{
    errno = EOPNOTSUPP;
    if (!fake_verbs.reg_mr_ex)
        return NULL;
    return reg_mr_ex(on, (const struct init_attr *)attr);
}

/* Finds these calls instead of the real library's, whichever it has. */
void *test_dlsym(void *handle, const char *name)
{
    if (!strcmp(name, "ibv_reg_mr_ex"))
        return fake_verbs.reg_mr_ex ? (void *)reg_mr_ex : NULL;
    return fake_verbs.no_reg_dmabuf ? NULL : dlsym(handle, name);
}

/* The bytes at an address of a region that contains them and has the right; else NULL. */
static char *bytes_of(const struct fake_mr *mr, uint64_t addr, size_t len, unsigned right)
{
    bool inside = mr && addr >= mr->iova && addr - mr->iova < mr->mr.length &&
                  len <= mr->mr.length - (addr - mr->iova);

    char *first = mr && mr->attached ? mr->attached + (uintptr_t)mr->mr.addr
                  : mr               ? mr->mr.addr
                                     : NULL;

    return inside && (mr->access & right) == right ? first + (addr - mr->iova) : NULL;
}

bool fake_verbs_rma(bool write, void *local, size_t len, const struct ibv_mr *desc, uint64_t addr,
                    uint64_t rkey)
{
    unsigned right = write ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
    const struct fake_mr *mr;
    char *there, *here;

    pthread_mutex_lock(&lock);
    mr = regions;
    while (mr && mr->mr.rkey != rkey)
        mr = mr->next;
    pthread_mutex_unlock(&lock);
    there = bytes_of(mr, addr, len, right);
    here = bytes_of((const struct fake_mr *)desc, (uintptr_t)local, len,
                    write ? 0 : IBV_ACCESS_LOCAL_WRITE);
    if (!there || !here)
        return false;
    memcpy(write ? there : here, write ? here : there, len);
    return true;
}

static int dereg_locked(struct ibv_mr *mr)
{
    struct fake_mr **link = &regions;

    fake_verbs.deregs++;
    if (fake_verbs.dereg_result) {
        errno = fake_verbs.dereg_errno;
        return fake_verbs.dereg_result;
    }
    fake_verbs.live--;
    while (*link != (struct fake_mr *)mr)
        link = &(*link)->next;
    *link = (*link)->next;
    if (((struct fake_mr *)mr)->attached)
        fake_verbs.detach(((struct fake_mr *)mr)->attached);
    free(mr);
    return 0;
}

INTERPOSED int ibv_dereg_mr(struct ibv_mr *mr)
{
    int rc;

    pthread_mutex_lock(&lock);
    rc = dereg_locked(mr);
    pthread_mutex_unlock(&lock);
    return rc;
}
