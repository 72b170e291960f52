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

static struct ibv_mw *alloc_window(struct ibv_pd *on, enum ibv_mw_type type);
static int end_window(struct ibv_mw *mw);
static int bind_window(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);

static struct verbs_context extended = {
    .sz = sizeof(extended),
    .query_device_ex = query_device_ex,
    .context = {.device = &device,
                .abi_compat = __VERBS_ABI_IS_EXTENDED,
                .ops = {.alloc_mw = alloc_window,
                        .dealloc_mw = end_window,
                        .bind_mw = bind_window,
                        .post_send = post_send}},
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

struct fake_window {
    struct ibv_mw mw; /* first */
    uint32_t rkey;    /* the bound one's */
    struct ibv_mw_bind_info bound;
    struct fake_window *next;
};
static struct fake_window *windows;

/* Of regions, windows and the counters: jobs register in several threads. */
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

static int ask(void)
{
    return fake_verbs.each_call ? fake_verbs.each_call() : 0;
}

INTERPOSED int ibv_query_device(struct ibv_context *of, struct ibv_device_attr *out)
{
    int asked = ask();

    if (asked)
        return asked;
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
    if ((fake_verbs.room && fake_verbs.live >= fake_verbs.room) ||
        (fake_verbs.room_bytes && fake_verbs.bytes + length > fake_verbs.room_bytes)) {
        errno = fake_verbs.full_error;
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
    fake_verbs.bytes += length;
    return mr;
}

static struct ibv_mr *reg(void *addr, size_t length, uint64_t iova, unsigned access)
{
    struct ibv_mr *mr;
    int asked = ask();

    if (asked) {
        errno = asked;
        return NULL;
    }
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

    fake_verbs.dmabuf_error = fake_verbs.mlx5_whole && offset ? EOPNOTSUPP : fake_verbs.mlx5_error;
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

/* ---- memory windows ---------------------------------------------------------------------- */

static struct ibv_mw *alloc_window(struct ibv_pd *on, enum ibv_mw_type type)
{
    struct fake_window *window;
    int asked = ask();

    errno = asked ? asked : fake_verbs.window_error;
    window = errno ? NULL : calloc(1, sizeof(*window));
    if (!window)
        return NULL;
    pthread_mutex_lock(&lock);
    window->mw =
        (struct ibv_mw){.context = on->context, .pd = on, .type = type, .rkey = ++last_key << 8};
    window->next = windows;
    windows = window;
    fake_verbs.windows++;
    pthread_mutex_unlock(&lock);
    return &window->mw;
}

static int end_window(struct ibv_mw *mw)
{
    struct fake_window **link = &windows;
    int asked = ask();

    if (asked)
        ((struct fake_window *)mw)->bound.mr = NULL; /* a gone device has nothing bound */
    if (asked || fake_verbs.end_error)
        return asked ? asked : fake_verbs.end_error;
    pthread_mutex_lock(&lock);
    while (*link != (struct fake_window *)mw)
        link = &(*link)->next;
    *link = (*link)->next;
    fake_verbs.windows--;
    pthread_mutex_unlock(&lock);
    free(mw);
    return 0;
}

void fake_verbs_end_windows(void)
{
    int (*each_call)(void) = fake_verbs.each_call;

    fake_verbs.each_call = NULL;
    while (windows)
        end_window(&windows->mw);
    fake_verbs.each_call = each_call;
}

static bool can_bind(const struct ibv_mw_bind_info *info)
{
    const struct fake_mr *mr = (const struct fake_mr *)info->mr;
    bool writes = info->mw_access_flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

    return mr->access & IBV_ACCESS_MW_BIND && (!writes || mr->access & IBV_ACCESS_LOCAL_WRITE) &&
           !mr->attached && info->length && info->addr >= mr->iova &&
           info->addr - mr->iova < mr->mr.length &&
           info->length <= mr->mr.length - (info->addr - mr->iova);
}

static int bind(struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info,
                uint64_t wr_id)
{
    struct fake_window *window = (struct fake_window *)mw;
    int asked = ask();

    if (asked)
        return asked;
    if (fake_verbs.post_error)
        return fake_verbs.post_error;
    fake_verbs.wr_id = wr_id;
    fake_verbs.window_access = info->mw_access_flags;
    fake_verbs.bound = can_bind(info) ? IBV_WC_SUCCESS : IBV_WC_MW_BIND_ERR;
    if (fake_verbs.bound == IBV_WC_SUCCESS) {
        window->bound = *info;
        window->rkey = rkey;
    }
    return 0;
}

static int bind_window(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *given)
{
    int error;

    if (mw->type != IBV_MW_TYPE_1 || !(given->send_flags & IBV_SEND_SIGNALED))
        return EINVAL;
    error = bind(mw, mw->rkey + 7, &given->bind_info, given->wr_id);
    mw->rkey += error ? 0 : 7;
    return error;
}

/* Of type 2 the caller chooses the low byte of the key, and may not take the last one's. */
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    uint32_t differs = wr->bind_mw.rkey ^ wr->bind_mw.mw->rkey;

    *bad = wr;
    if (wr->opcode != IBV_WR_BIND_MW || wr->next || !(wr->send_flags & IBV_SEND_SIGNALED) ||
        wr->bind_mw.mw->type != IBV_MW_TYPE_2 || !differs || differs >> 8)
        return EINVAL;
    return bind(wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info, wr->wr_id);
}

/* With the lock held: is a window bound to the region? */
static bool has_window(const struct ibv_mr *mr)
{
    const struct fake_window *window = windows;

    while (window && window->bound.mr != mr)
        window = window->next;
    return window;
}

/* With the lock held: the bytes of the window with this key, with its range and rights, and no
 * others. */
static struct fake_mr region_of(uint32_t rkey)
{
    const struct fake_window *window = windows;
    struct fake_mr part;

    while (window && (window->rkey != rkey || !window->bound.mr))
        window = window->next;
    if (!window)
        return (struct fake_mr){.iova = 0};
    part = *(const struct fake_mr *)window->bound.mr;
    part.mr.addr = (char *)part.mr.addr + (window->bound.addr - part.iova);
    part.mr.length = window->bound.length;
    part.iova = window->bound.addr;
    part.access = window->bound.mw_access_flags;
    return part;
}

/* ---- operations -------------------------------------------------------------------------- */

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
    struct fake_mr part;
    char *there, *here;

    pthread_mutex_lock(&lock);
    mr = regions;
    while (mr && mr->mr.rkey != rkey)
        mr = mr->next;
    part = mr ? *mr : region_of((uint32_t)rkey);
    pthread_mutex_unlock(&lock);
    there = bytes_of(&part, addr, len, right);
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
    if (has_window(mr))
        return EBUSY;
    if (fake_verbs.dereg_result) {
        errno = fake_verbs.dereg_errno;
        return fake_verbs.dereg_result;
    }
    fake_verbs.bytes -= mr->length;
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
    int asked = ask(), rc;

    pthread_mutex_lock(&lock);
    rc = dereg_locked(mr);
    pthread_mutex_unlock(&lock);
    return asked ? asked : rc;
}
