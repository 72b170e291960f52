/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A libibverbs.so.1 with one simulated NIC ("simulated0"), for programs that link it, load it, or
 * look its functions up by their versions. As the real one's, its ibv_reg_mr() ends in a
 * jump to ibv_reg_mr_iova2() by the dynamic linker, an ibv_mr of a dmabuf has the offset as its
 * address, a protection domain with regions is busy, and so is a region with a bound memory window.
 *
 * Memory that this process cannot read is not registered (EFAULT), as that of a device by its
 * address; dmabufs are reached by a mapping of them.
 */
#include "tests/support/fake/ibverbs.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define EXPORTED     __attribute__((visibility("default")))
#define MOST_REGIONS 65536
#define REMOTE                                                                                     \
    (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |                 \
     IBV_ACCESS_MW_BIND)
#define KNOWN (IBV_ACCESS_LOCAL_WRITE | REMOTE | IBV_ACCESS_OPTIONAL_RANGE | IBV_ACCESS_ON_DEMAND)

struct pd {
    struct ibv_pd pd; /* first: what the caller has */
    unsigned number;  /* the kernel's: another may be at the address of one that was unimported */
};
static unsigned regions_of[MOST_REGIONS]; /* a protection domain's, by its number */

/* As libibverbs', with what it keeps behind the public fields. */
struct region {
    struct ibv_mr mr;
    int type, private_access; /* type: 1: of a dmabuf */
};

/* What the NIC knows, by the key and by the handle. */
struct entry {
    bool used;
    struct pd *pd;
    unsigned number; /* of pd */
    struct ibv_context *context;
    uint64_t iova;
    size_t length;
    unsigned access, windows;
    char *bytes, *mapped; /* mapped: whole pages of a dmabuf; NULL: host memory */
    size_t mapped_length;
};

static char *reach(uint32_t key, uint64_t addr, size_t len, unsigned access);

struct fake_ibverbs hmreg_fake_ibverbs EXPORTED = {.reach = reach};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry entries[MOST_REGIONS];
static struct ibv_device device = {
    .node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "simulated0"};

/* ---- the device -------------------------------------------------------------------------- */

static void fill_limits(struct ibv_device_attr *out)
{
    *out = (struct ibv_device_attr){.max_mr_size = UINT64_MAX,
                                    .max_mr = MOST_REGIONS,
                                    .phys_port_cnt = 1,
                                    .atomic_cap = IBV_ATOMIC_HCA};
}

EXPORTED int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *out)
{
    fill_limits(out);
    return 0;
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *in,
                           struct ibv_device_attr_ex *out, size_t size)
{
    memset(out, 0, size);
    fill_limits(&out->orig_attr);
    return 0;
}

EXPORTED struct ibv_device **ibv_get_device_list(int *count)
{
    struct ibv_device **list = calloc(2, sizeof(*list));

    if (list)
        list[0] = &device;
    if (count)
        *count = list ? 1 : 0;
    return list;
}

EXPORTED void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

EXPORTED const char *ibv_get_device_name(struct ibv_device *of)
{
    return of->name;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
static int dealloc_mw(struct ibv_mw *mw);
static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

EXPORTED struct ibv_context *ibv_open_device(struct ibv_device *of)
{
    struct verbs_context *context = calloc(1, sizeof(*context));

    if (!context)
        return NULL;
    context->sz = sizeof(*context);
    context->query_device_ex = query_device_ex;
    context->context.device = of;
    context->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
    context->context.ops.alloc_mw = alloc_mw;
    context->context.ops.dealloc_mw = dealloc_mw;
    context->context.ops.bind_mw = bind_mw;
    atomic_store(&hmreg_fake_ibverbs.pid, getpid());
    return &context->context;
}

static void enter_pd(struct entry *entry, struct pd *pd)
{
    entry->pd = pd;
    entry->number = pd->number;
    entry->context = pd->pd.context;
    regions_of[pd->number]++;
}

static void leave_pd(const struct entry *entry)
{
    regions_of[entry->number]--;
}

static void free_entry(struct entry *entry)
{
    if (entry->mapped)
        munmap(entry->mapped, entry->mapped_length);
    leave_pd(entry);
    memset(entry, 0, sizeof(*entry));
    atomic_fetch_sub(&hmreg_fake_ibverbs.live, 1);
}

/* As the kernel, it releases what was left on the device. */
EXPORTED int ibv_close_device(struct ibv_context *context)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < MOST_REGIONS; i++)
        if (entries[i].used && entries[i].context == context)
            free_entry(&entries[i]);
    pthread_mutex_unlock(&lock);
    free((char *)context - offsetof(struct verbs_context, context));
    return 0;
}

static _Atomic(struct pd *) unimported;

EXPORTED struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    static _Atomic unsigned last;
    struct pd *pd = atomic_exchange(&unimported, NULL);

    if (!pd)
        pd = malloc(sizeof(*pd));
    if (!pd)
        return NULL;
    *pd = (struct pd){.pd.context = context, .number = atomic_fetch_add(&last, 1) % MOST_REGIONS};
    return &pd->pd;
}

EXPORTED int ibv_dealloc_pd(struct ibv_pd *pd)
{
    if (regions_of[((struct pd *)pd)->number])
        return EBUSY;
    free(pd);
    return 0;
}

/* The kernel's stays, and what is registered in it; the next is at this address. */
EXPORTED void ibv_unimport_pd(struct ibv_pd *pd)
{
    free(atomic_exchange(&unimported, (struct pd *)pd));
}

EXPORTED int ibv_fork_init(void)
{
    if (atomic_load(&hmreg_fake_ibverbs.regs))
        return EINVAL;
    atomic_store(&hmreg_fake_ibverbs.fork_init, 1);
    return 0;
}

EXPORTED enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return atomic_load(&hmreg_fake_ibverbs.fork_init) ? IBV_FORK_ENABLED : IBV_FORK_UNNEEDED;
}

/* ---- registrations ----------------------------------------------------------------------- */

static bool can_read(void *addr)
{
    char byte;
    struct iovec to = {&byte, 1}, from = {addr, 1};

    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

static int check(const void *addr, size_t length, uint64_t iova, unsigned access)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    if (access & ~(unsigned)KNOWN || (((uint64_t)(uintptr_t)addr ^ iova) & (page - 1)))
        return EINVAL;
    if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
        !(access & IBV_ACCESS_LOCAL_WRITE))
        return EINVAL;
    return 0;
}

/* Fills the public fields and the NIC's entry. 0 or an errno value. */
static int add(struct region *region, struct ibv_pd *pd, const struct entry *what)
{
    static unsigned next;
    unsigned tried = 0;

    pthread_mutex_lock(&lock);
    while (tried++ < MOST_REGIONS && entries[next % MOST_REGIONS].used)
        next++;
    if (tried > MOST_REGIONS) {
        pthread_mutex_unlock(&lock);
        return ENOMEM;
    }
    region->mr.handle = next++ % MOST_REGIONS;
    entries[region->mr.handle] = *what;
    entries[region->mr.handle].used = true;
    enter_pd(&entries[region->mr.handle], (struct pd *)pd);
    atomic_fetch_add(&hmreg_fake_ibverbs.live, 1);
    pthread_mutex_unlock(&lock);
    region->mr.context = pd->context;
    region->mr.pd = pd;
    region->mr.length = what->length;
    region->mr.lkey = (region->mr.handle + 1) << 8;
    region->mr.rkey = what->access & REMOTE ? region->mr.lkey | 1 : 0;
    region->private_access = (int)what->access;
    return 0;
}

static struct ibv_mr *finish(struct region *region, struct ibv_pd *pd, const struct entry *what,
                             void *addr)
{
    int error = region ? add(region, pd, what) : ENOMEM;

    if (error) {
        free(region);
        atomic_fetch_add(&hmreg_fake_ibverbs.failed, 1);
        errno = error;
        return NULL;
    }
    region->mr.addr = addr;
    atomic_fetch_add(&hmreg_fake_ibverbs.regs, 1);
    return &region->mr;
}

EXPORTED __attribute__((noinline)) struct ibv_mr *
ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
    const struct entry what = {.iova = iova, .length = length, .access = access, .bytes = addr};
    int error = check(addr, length, iova, access);

    if (!error && length && !(access & IBV_ACCESS_ON_DEMAND) && !can_read(addr))
        error = EFAULT;
    if (error) {
        atomic_fetch_add(&hmreg_fake_ibverbs.failed, 1);
        errno = error;
        return NULL;
    }
    return finish(calloc(1, sizeof(struct region)), pd, &what, addr);
}

EXPORTED struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, (uint64_t)(uintptr_t)addr, (unsigned)access);
}

EXPORTED struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                        int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

/* Of rdma-core 65, whose own is a call of another function, too. */
EXPORTED struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *addr,
                                       size_t length, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, (uint64_t)(uintptr_t)addr, (unsigned)access);
}

EXPORTED struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                          uint64_t iova, int fd, int access)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), skew = offset & (page - 1);
    struct region *region = calloc(1, sizeof(*region));
    struct entry what = {
        .iova = iova, .length = length, .access = (unsigned)access, .mapped_length = length + skew};
    struct ibv_mr *mr;

    errno = fd < 0 ? EBADF : 0;
    if (!errno)
        errno =
            access & IBV_ACCESS_MW_BIND ? EINVAL : check((void *)offset, length, iova, what.access);
    if (!errno) {
        what.mapped = mmap(NULL, what.mapped_length, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                           (off_t)(offset - skew));
        errno = what.mapped == MAP_FAILED ? errno : 0;
    }
    if (errno || !region) {
        free(region);
        return NULL;
    }
    what.bytes = what.mapped + skew;
    region->type = 1;
    mr = finish(region, pd, &what, (void *)(uintptr_t)offset);
    atomic_fetch_add(&hmreg_fake_ibverbs.imported, mr != NULL);
    return mr;
}

EXPORTED int ibv_dereg_mr(struct ibv_mr *mr)
{
    struct entry *entry = &entries[mr->handle];
    int error = 0;

    pthread_mutex_lock(&lock);
    if (!entry->used || entry->pd != (struct pd *)mr->pd) {
        error = EINVAL;
    } else if (entry->windows) {
        error = EBUSY;
    } else {
        free_entry(entry);
    }
    pthread_mutex_unlock(&lock);
    if (error)
        return error;
    free(mr);
    atomic_fetch_add(&hmreg_fake_ibverbs.deregs, 1);
    return 0;
}

/* What the driver and the kernel refuse of a reregistration: an errno value. */
static int check_rereg(int flags, void *addr, size_t length, int access)
{
    if (atomic_load(&hmreg_fake_ibverbs.no_rereg))
        return EOPNOTSUPP;
    if (!flags)
        return EINVAL;
    if (flags & IBV_REREG_MR_CHANGE_TRANSLATION && !can_read(addr))
        return EFAULT;
    return flags & IBV_REREG_MR_CHANGE_ACCESS
               ? check(addr, length, (uintptr_t)addr, (unsigned)access)
               : 0;
}

/* Of host memory only, as the real one; an error of the first kind is libibverbs' own. */
EXPORTED int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
                          size_t length, int access)
{
    struct entry *entry = &entries[mr->handle];
    bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
    int error;

    if (((struct region *)mr)->type || (moves && (!addr || !length)) ||
        flags & ~IBV_REREG_MR_FLAGS_SUPPORTED ||
        (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS))) {
        errno = EINVAL;
        return IBV_REREG_MR_ERR_INPUT;
    }
    error = check_rereg(flags, addr, length, access);
    if (error) {
        errno = error;
        return IBV_REREG_MR_ERR_CMD;
    }
    pthread_mutex_lock(&lock);
    if (moves) {
        entry->bytes = mr->addr = addr;
        entry->iova = (uint64_t)(uintptr_t)addr;
        entry->length = mr->length = length;
    }
    if (flags & IBV_REREG_MR_CHANGE_ACCESS) {
        entry->access = (unsigned)access;
        ((struct region *)mr)->private_access = access;
        mr->rkey = access & REMOTE ? mr->lkey | 1 : 0;
    }
    if (flags & IBV_REREG_MR_CHANGE_PD) {
        leave_pd(entry);
        enter_pd(entry, (struct pd *)pd);
        mr->pd = pd;
    }
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&hmreg_fake_ibverbs.reregs, 1);
    return 0;
}

/* ---- memory windows ---------------------------------------------------------------------- */

struct window {
    struct ibv_mw mw;
    struct entry *bound;
};

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    struct window *window = calloc(1, sizeof(*window));

    if (!window)
        return NULL;
    window->mw.context = pd->context;
    window->mw.pd = pd;
    window->mw.type = type;
    return &window->mw;
}

static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    struct window *window = (struct window *)mw;
    const struct ibv_mr *mr = bind->bind_info.mr;

    if (window->bound)
        window->bound->windows--;
    window->bound = NULL;
    if (!bind->bind_info.length)
        return 0;
    if (((const struct region *)mr)->type ||
        !(((const struct region *)mr)->private_access & IBV_ACCESS_MW_BIND))
        return EINVAL;
    window->bound = &entries[mr->handle];
    window->bound->windows++;
    return 0;
}

static int dealloc_mw(struct ibv_mw *mw)
{
    struct window *window = (struct window *)mw;

    if (window->bound)
        window->bound->windows--;
    free(window);
    return 0;
}

/* ---- operations -------------------------------------------------------------------------- */

static char *reach(uint32_t key, uint64_t addr, size_t len, unsigned access)
{
    struct entry *entry =
        (key >> 8) && (key >> 8) <= MOST_REGIONS ? &entries[(key >> 8) - 1] : NULL;

    if (!entry || !entry->used || (entry->access & access) != access || addr < entry->iova ||
        addr - entry->iova > entry->length || len > entry->length - (addr - entry->iova))
        return NULL;
    return entry->bytes + (addr - entry->iova);
}
