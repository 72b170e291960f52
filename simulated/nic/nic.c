/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * For LD_PRELOAD: libibverbs with RDMA devices made up here, for programs that connect a queue
 * pair with itself. Regions of host memory are reached by address, those of dmabufs by a mapping
 * of them, so bytes really move; memory of a device by its address faults, as it does for a NIC
 * without peer memory. Where the simulated CUDA driver makes descriptors as NVIDIA's does, it
 * attaches the NIC to them, or refuses.
 *
 *     HMREG_FAKE_NICS="mlx5_0,mlx5_1:down"  their names; what is wrong with one; none if unset
 *     HMREG_FAKE_NIC=STATE                what is wrong with those of which nothing is said:
 *       no-dmabuf   the driver imports no dmabufs      refuse   ...or not this one (524)
 *       down        no port is active                  closed   the device file is not readable
 *       error       operations complete with an error  flip     they complete, a byte is wrong
 *       few         100 regions                        small    regions of up to 1 MiB
 *       dead        it registers nothing (EIO)         good     nothing
 *       crash       operations end the process         hang     they never return
 *       fatal       opening it ends the process        no-qp    no queue pair (ENOMEM)
 *       late        writes arrive before the next operation
 *       stay        the doctor's other processes, which prove, never end
 *     HMREG_FAKE_MLX5=FILE                a simulated libmlx5, loaded for them as a driver's
 * library HMREG_FAKE_DATA_DIRECT=1            they have data direct, by that library
 *
 * A dmabuf with the PCIe mapping registers, but is reached by data direct only.
 */
#undef _FORTIFY_SOURCE /* clang: poll(2) is an inline function then */
#include "simulated/engine/fake.h"
#include "simulated/engine/pcie.h"
#include "simulated/nic/mlx5.h"

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_query_port

struct ibv_mr_init_attr; /* of rdma-core 59 */
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);

#define MOST_NICS    32
#define MOST_REGIONS 1024
#define EXPORTED     __attribute__((visibility("default")))

struct region {
    struct ibv_mr mr; /* first: what the caller has */
    uint64_t iova;
    char *bytes;
    char *mapped; /* the whole pages of a dmabuf, NULL: host memory, or attached */
    size_t mapped_len;
    char *attached;   /* the dmabuf's bytes by its driver, NULL: not so */
    bool unreachable; /* it has the PCIe mapping, and was not imported for data direct */
};

static struct ibv_device devices[MOST_NICS];
static char states[MOST_NICS][16]; /* empty: as HMREG_FAKE_NIC says */
static struct verbs_context contexts[MOST_NICS];
static struct ibv_pd pds[MOST_NICS];
static struct region *regions[MOST_REGIONS];
static struct ibv_wc completed;
static int completions;

static bool is(const struct ibv_device *device, const char *state)
{
    const char *own = states[device - devices], *all = getenv("HMREG_FAKE_NIC");

    return !strcmp(own[0] ? own : all ? all : "", state);
}

/* Before the devices are listed, too. */
static bool is_any(const char *state)
{
    const char *all = getenv("HMREG_FAKE_NIC"), *named = getenv("HMREG_FAKE_NICS");
    char own[24];

    snprintf(own, sizeof(own), ":%s", state);
    return (all && !strcmp(all, state)) || (named && strstr(named, own));
}

/* ---- processes that never return --------------------------------------------------------- */

#define LONG_MS 1000 /* the time that the tool gives such a process is longer */

/* For its parent it has then hung for as long as that waits; see poll() and nanosleep(). */
static void never_return(void)
{
    for (;;)
        raise(SIGSTOP);
}

static bool a_child_has_stopped(void)
{
    siginfo_t child = {.si_pid = 0};

    return !waitid(P_ALL, 0, &child, WSTOPPED | WNOHANG | WNOWAIT) && child.si_pid;
}

/* Long waits end when a child has stopped for good, and no sooner: however slow the machine is. */
EXPORTED int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    static int (*_Atomic known)(struct pollfd *, nfds_t, int);
    int (*real)(struct pollfd *, nfds_t, int) = known;
    bool stopped = false;
    int rc;

    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "poll");
        known = real;
    }
    if (timeout < LONG_MS || (!is_any("hang") && !is_any("stay")))
        return real(fds, count, timeout);
    while (!(rc = real(fds, count, 10)) && !stopped)
        stopped = a_child_has_stopped();
    return rc;
}

/* ...and short ones, of a parent that looks again and again, are none then. */
EXPORTED int nanosleep(const struct timespec *duration, struct timespec *left)
{
    if ((is_any("hang") || is_any("stay")) && a_child_has_stopped())
        return 0;
    errno = clock_nanosleep(CLOCK_REALTIME, 0, duration, left);
    return errno ? -1 : 0;
}

/* ---- devices ---------------------------------------------------------------------------- */

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                      size_t size)
{
    struct ibv_port_attr filled = {
        .state = is(context->device, "down") ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
        .active_mtu = IBV_MTU_1024,
        .gid_tbl_len = 1,
        .link_layer = IBV_LINK_LAYER_ETHERNET,
    };

    memcpy(attr, &filled, size < sizeof(filled) ? size : sizeof(filled));
    return 0;
}

static void fill_limits(const struct ibv_device *device, struct ibv_device_attr *out)
{
    *out = (struct ibv_device_attr){
        .max_mr_size = is(device, "small") ? 1 << 20 : UINT64_MAX,
        .max_mr = is(device, "few") ? 100 : 1 << 20,
        .phys_port_cnt = 1,
    };
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *in,
                           struct ibv_device_attr_ex *out, size_t size)
{
    memset(out, 0, size);
    fill_limits(context->device, &out->orig_attr);
    return 0;
}

EXPORTED int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *out)
{
    fill_limits(context->device, out);
    return 0;
}

EXPORTED int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
    memset(gid, 0, sizeof(*gid));
    gid->raw[10] = gid->raw[11] = 0xff;
    return 0;
}

static bool is_mlx5(struct ibv_device *device)
{
    return !strncmp(device->name, "mlx5", 4);
}

static int data_direct_path(struct ibv_context *context, char *path, size_t size)
{
    if (!getenv("HMREG_FAKE_DATA_DIRECT"))
        return ENODEV;
    snprintf(path, size, "/sys/devices/pci0000:40/0000:40:02.0");
    return 0;
}

static struct ibv_mr *reg_data_direct(struct ibv_pd *pd, uint64_t offset, size_t length,
                                      uint64_t iova, int fd, int access, int mlx5_access);

/* libibverbs loads the libraries of its NICs' drivers, too. */
static void load_mlx5(void)
{
    const char *file = getenv("HMREG_FAKE_MLX5");
    void *library = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
    struct fake_mlx5 *fake = library ? dlsym(library, "hmreg_fake_mlx5") : NULL;

    if (fake)
        *fake = (struct fake_mlx5){is_mlx5, data_direct_path, reg_data_direct};
}

EXPORTED struct ibv_device **ibv_get_device_list(int *count)
{
    const char *names = getenv("HMREG_FAKE_NICS");
    struct ibv_device **list = calloc(MOST_NICS + 1, sizeof(*list));
    int found = 0;

    load_mlx5();
    for (; list && names && *names && found < MOST_NICS; found++) {
        size_t length = strcspn(names, ","), name = strcspn(names, ",:");

        devices[found].node_type = IBV_NODE_CA;
        devices[found].transport_type = IBV_TRANSPORT_IB;
        snprintf(devices[found].name, sizeof(devices[found].name), "%.*s", (int)name, names);
        name += names[name] == ':';
        snprintf(states[found], sizeof(states[found]), "%.*s", (int)(length - name), names + name);
        list[found] = &devices[found];
        names += length + (names[length] == ',');
    }
    if (count)
        *count = found;
    return list;
}

EXPORTED void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

EXPORTED const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

/* ---- operations ------------------------------------------------------------------------- */

/* Translates len bytes at addr of the region with this key; NULL: no such key or range. */
static char *reach(uint32_t key, uint64_t addr, size_t len)
{
    const struct region *region = key && key <= MOST_REGIONS ? regions[key - 1] : NULL;

    if (!region || region->unreachable || addr < region->iova ||
        addr + len > region->iova + region->mr.length)
        return NULL;
    return region->bytes + (addr - region->iova);
}

/* A write on its way. A thread of the program deregisters while another one moves bytes. */
static struct {
    pthread_mutex_t lock;
    char *to;
    void *bytes;
    size_t len;
} posted = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* With the lock held. */
static void arrive(void)
{
    if (posted.bytes)
        memcpy(posted.to, posted.bytes, posted.len);
    free(posted.bytes);
    posted.bytes = NULL;
}

static void move(char *to, const char *from, size_t len, bool late)
{
    pthread_mutex_lock(&posted.lock);
    arrive();
    posted.bytes = late ? malloc(len) : NULL;
    posted.to = to;
    posted.len = len;
    memcpy(posted.bytes ? posted.bytes : to, from, len);
    pthread_mutex_unlock(&posted.lock);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    char *local = reach(wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
    char *remote = reach(wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->sg_list->length);
    const struct ibv_device *device = qp->context->device;
    bool write = wr->opcode == IBV_WR_RDMA_WRITE;

    if (is(device, "crash"))
        raise(SIGKILL); /* some libraries catch other signals */
    if (is(device, "hang"))
        never_return();
    completed = (struct ibv_wc){.wr_id = wr->wr_id, .status = IBV_WC_SUCCESS};
    completions = 1;
    if (!local || !remote || is(device, "error")) {
        completed.status = IBV_WC_REM_ACCESS_ERR;
        completed.vendor_err = 0x88;
        return 0;
    }
    move(write ? remote : local, write ? local : remote, wr->sg_list->length,
         write && is(device, "late"));
    if (is(device, "flip"))
        (write ? remote : local)[4711] ^= 1;
    return 0;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    int polled = completions;

    if (polled)
        *wc = completed;
    completions = 0;
    return polled;
}

EXPORTED struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct verbs_context *context = &contexts[device - devices];

    if (is(device, "fatal"))
        raise(SIGKILL);
    if (is(device, "closed")) {
        errno = EACCES;
        return NULL;
    }
    *context = (struct verbs_context){
        .sz = sizeof(*context),
        .query_device_ex = query_device_ex,
        .query_port = query_port,
        .context = {.device = device, .abi_compat = __VERBS_ABI_IS_EXTENDED},
    };
    context->context.ops.post_send = post_send;
    context->context.ops.poll_cq = poll_cq;
    return &context->context;
}

EXPORTED int ibv_close_device(struct ibv_context *context)
{
    return 0;
}

EXPORTED struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = &pds[context->device - devices];

    pd->context = context;
    return pd;
}

EXPORTED int ibv_dealloc_pd(struct ibv_pd *pd)
{
    return 0;
}

EXPORTED struct ibv_cq *ibv_create_cq(struct ibv_context *context, int size, void *user,
                                      struct ibv_comp_channel *channel, int vector)
{
    struct ibv_cq *cq = calloc(1, sizeof(*cq));

    if (cq)
        cq->context = context;
    return cq;
}

EXPORTED int ibv_destroy_cq(struct ibv_cq *cq)
{
    free(cq);
    return 0;
}

EXPORTED struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct ibv_qp *qp = is(pd->context->device, "no-qp") ? NULL : calloc(1, sizeof(*qp));

    errno = qp ? errno : ENOMEM;
    if (qp)
        *qp = (struct ibv_qp){.context = pd->context, .pd = pd, .qp_num = 17};
    return qp;
}

EXPORTED int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    return (mask & IBV_QP_DEST_QPN) && attr->dest_qp_num != qp->qp_num ? EINVAL : 0;
}

EXPORTED int ibv_destroy_qp(struct ibv_qp *qp)
{
    free(qp);
    return 0;
}

/* ---- regions ---------------------------------------------------------------------------- */

static bool is_dead(const struct ibv_pd *pd)
{
    return is(pd->context->device, "dead");
}

static struct ibv_mr *add_region(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                 char *bytes)
{
    struct region *region = calloc(1, sizeof(*region));
    uint32_t key = 0;

    while (key < MOST_REGIONS && regions[key])
        key++;
    if (!region || key == MOST_REGIONS) {
        free(region);
        errno = ENOMEM;
        return NULL;
    }
    *region = (struct region){.iova = iova, .bytes = bytes};
    region->mr = (struct ibv_mr){.context = pd->context,
                                 .pd = pd,
                                 .addr = addr,
                                 .length = length,
                                 .lkey = key + 1,
                                 .rkey = key + 1};
    regions[key] = region;
    return &region->mr;
}

EXPORTED struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
                                         uint64_t iova, unsigned access)
{
    char byte;
    struct iovec to = {&byte, 1}, from = {addr, 1};

    if (is_dead(pd)) {
        errno = EIO;
        return NULL;
    }
    if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) != 1) {
        errno = EFAULT;
        return NULL;
    }
    return add_region(pd, addr, length, iova, addr);
}

EXPORTED struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, (uint64_t)(uintptr_t)addr, (unsigned)access);
}

/* The simulated CUDA driver, if it is in the process. */
static const struct fake_control *exporter(void)
{
    const struct fake_control *(*control)(void) = NULL;
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), *entry;

    if (!library)
        return NULL;
    entry = dlsym(library, "hmreg_fake_control");
    memcpy(&control, &entry, sizeof(entry));
    dlclose(library); /* who loaded it keeps it */
    return control ? control() : NULL;
}

/* Either a mapping of the dmabuf, or what its driver gives. Sets bytes, and what undoes it; an
 * errno value. */
static int reach_dmabuf(struct region *out, uint64_t offset, size_t length, int fd)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), skew = offset & (page - 1);
    const struct fake_control *driver = exporter();
    char *bytes = driver ? driver->attach(fd) : NULL;

    if (bytes) {
        out->attached = bytes;
        out->bytes = bytes + offset;
        return 0;
    }
    if (driver && errno != ENOENT)
        return errno;
    bytes =
        mmap(NULL, length + skew, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(offset - skew));
    if (bytes == MAP_FAILED)
        return errno;
    out->mapped = bytes;
    out->mapped_len = length + skew;
    out->bytes = bytes + skew;
    return 0;
}

static void leave_dmabuf(const struct region *region)
{
    if (region->attached)
        exporter()->detach(region->attached);
    if (region->mapped)
        munmap(region->mapped, region->mapped_len);
}

/* A descriptor that says how long it is must contain the range. */
static bool is_within(int fd, uint64_t offset, size_t length)
{
    struct stat about;

    return fstat(fd, &about) || !about.st_size ||
           (offset <= (uint64_t)about.st_size && length <= (uint64_t)about.st_size - offset);
}

static struct ibv_mr *import(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                             int fd)
{
    struct region reached = {.mapped = NULL};
    struct ibv_mr *mr;

    errno = is_dead(pd)                            ? EIO
            : is(pd->context->device, "no-dmabuf") ? EOPNOTSUPP
            : fd < 0                               ? EBADF
            : is(pd->context->device, "refuse")    ? 524
                                                   : 0;
    if (!errno && !is_within(fd, offset, length))
        errno = EINVAL;
    if (!errno)
        errno = reach_dmabuf(&reached, offset, length, fd);
    if (errno)
        return NULL;
    mr = add_region(pd, (void *)(uintptr_t)offset, length, iova, reached.bytes);
    if (!mr) {
        leave_dmabuf(&reached);
        errno = ENOMEM;
        return NULL;
    }
    ((struct region *)mr)->mapped = reached.mapped;
    ((struct region *)mr)->mapped_len = reached.mapped_len;
    ((struct region *)mr)->attached = reached.attached;
    return mr;
}

EXPORTED struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                          uint64_t iova, int fd, int access)
{
    struct ibv_mr *mr = import(pd, offset, length, iova, fd);

    if (mr)
        ((struct region *)mr)->unreachable = fake_is_pcie(fd);
    return mr;
}

/* Its drivers have the older call only, whatever the libibverbs that is loaded has. */
EXPORTED struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
    errno = EOPNOTSUPP;
    return NULL;
}

static struct ibv_mr *reg_data_direct(struct ibv_pd *pd, uint64_t offset, size_t length,
                                      uint64_t iova, int fd, int access, int mlx5_access)
{
    return import(pd, offset, length, iova, fd);
}

EXPORTED int ibv_dereg_mr(struct ibv_mr *mr)
{
    struct region *region = (struct region *)mr;

    pthread_mutex_lock(&posted.lock);
    arrive();
    pthread_mutex_unlock(&posted.lock);
    regions[mr->lkey - 1] = NULL;
    leave_dmabuf(region);
    free(region);
    return 0;
}

/* ---- the process's end ------------------------------------------------------------------ */

/* As a driver's thread that a library waits for when it is unloaded. */
__attribute__((destructor)) static void leave(void)
{
    char line[256] = "";
    FILE *file = is_any("stay") ? fopen("/proc/self/cmdline", "re") : NULL;
    size_t length = file ? fread(line, 1, sizeof(line) - 1, file) : 0;

    if (file)
        fclose(file);
    if (memmem(line, length, "/proof", sizeof("/proof") - 1))
        never_return();
}
