/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See fake.h. One recursive lock protects everything: a fake need not be fast.
 */
#include "simulated/engine/fake.h"

#include "simulated/guest/softgpu.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAX_DEVICES 8
#define MAX_CALLS   256

struct arena {
    uint64_t base;
    size_t len;
};

struct call {
    char name[80];
    unsigned long count;
    long code;
    int skip, times; /* times 0: no failure requested */
};

static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct arena arenas[MAX_DEVICES + 1]; /* the last: host and managed memory of no device */
static struct fake_block *blocks;            /* ordered by address */
static struct fake_alloc *allocs;
static uint64_t last_id;
static struct call calls[MAX_CALLS];
static unsigned call_count;

size_t fake_page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

long fake_env(const char *name, long otherwise)
{
    const char *value = getenv(name);

    return value && *value ? strtol(value, NULL, 0) : otherwise;
}

int fake_devices(const char *name, int max)
{
    long count = fake_env(name, fake_env("HMREG_FAKE_DEVICES", 2));

    return count < 0 ? 0 : count > max ? max : (int)count;
}

size_t fake_device_memory(void)
{
    return (size_t)fake_env("HMREG_FAKE_MEMORY", 16l << 30);
}

/* ---- calls and failures ----------------------------------------------------------------- */

static struct call *call_named(const char *name)
{
    for (unsigned i = 0; i < call_count; i++)
        if (!strcmp(calls[i].name, name))
            return &calls[i];
    if (call_count == MAX_CALLS) {
        fprintf(stderr, "simulated runtime: more than %d entry points\n", MAX_CALLS);
        abort();
    }
    snprintf(calls[call_count].name, sizeof(calls[call_count].name), "%s", name);
    return &calls[call_count++];
}

static void control_fail(const char *name, long code, int skip, int times)
{
    fake_lock();
    struct call *call = call_named(name);

    call->code = code;
    call->skip = skip;
    call->times = times;
    fake_unlock();
}

static void read_failures(void)
{
    const char *value = getenv("HMREG_FAKE_FAIL");
    char *copy = value ? strdup(value) : NULL;
    char *rest = NULL;

    for (char *one = copy ? strtok_r(copy, ",", &rest) : NULL; one;
         one = strtok_r(NULL, ",", &rest)) {
        char name[80];
        long code = 0;
        int skip = 0, times = -1;

        if (sscanf(one, "%79[^:]:%li:%d:%d", name, &code, &skip, &times) >= 2)
            control_fail(name, code, skip, times);
    }
    free(copy);
}

static void init(void)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

static void init_failures(void)
{
    static bool done;

    if (!done) {
        done = true;
        read_failures();
    }
}

void fake_lock(void)
{
    pthread_once(&once, init);
    pthread_mutex_lock(&lock);
    init_failures();
}

void fake_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

bool fake_fails(const char *name, long *code)
{
    bool fails = false;

    fake_lock();
    struct call *call = call_named(name);

    call->count++;
    if (call->times && call->skip-- <= 0) {
        call->skip = 0;
        if (call->times > 0)
            call->times--;
        *code = call->code;
        fails = true;
    }
    fake_unlock();
    return fails;
}

/* ---- memory ----------------------------------------------------------------------------- */

bool fake_is_dmabuf(void)
{
    static int dmabuf = -1;

    if (dmabuf < 0)
        dmabuf = !access(SOFTGPU_DEVICE, R_OK | W_OK);
    return dmabuf;
}

static bool has_secret_memory(void)
{
    static int has = -1;

    if (has < 0) {
        int fd = fake_env("HMREG_FAKE_MEMFD", 0) ? -1 : (int)syscall(SYS_memfd_secret, O_CLOEXEC);

        has = fd >= 0;
        if (fd >= 0)
            close(fd);
    }
    return has;
}

bool fake_is_strict(void)
{
    return fake_is_dmabuf() || has_secret_memory();
}

static int new_dmabuf(size_t len)
{
    struct softgpu_alloc request = {.size = len, .fd = -1};
    int device = open(SOFTGPU_DEVICE, O_RDWR | O_CLOEXEC);

    if (device < 0)
        return -1;
    if (ioctl(device, SOFTGPU_ALLOC, &request))
        request.fd = -1;
    close(device);
    return request.fd;
}

int fake_duplicate(const struct fake_piece *piece)
{
    struct softgpu_duplicate request = {.fd = piece->block->fd,
                                        .offset = piece->block->start + piece->skip,
                                        .size = piece->len,
                                        .duplicate = -1};
    int device = open(SOFTGPU_DEVICE, O_RDWR | O_CLOEXEC);

    if (device < 0)
        return -1;
    if (ioctl(device, SOFTGPU_DUPLICATE, &request))
        request.duplicate = -1;
    close(device);
    return request.duplicate;
}

/* Closes fd on failure. */
static int with_length(int fd, size_t len)
{
    if (fd >= 0 && ftruncate(fd, (off_t)len)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* -1 also where the limit of locked memory, which such mappings count for, has no room. */
static int new_secret(size_t len)
{
    int fd = with_length((int)syscall(SYS_memfd_secret, O_CLOEXEC), len);
    void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);

    if (mapped != MAP_FAILED) {
        munmap(mapped, len);
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

int fake_file(size_t len)
{
    int fd;

    if (fake_is_dmabuf())
        return new_dmabuf(len);
    fd = has_secret_memory() ? new_secret(len) : -1;
    return fd >= 0 ? fd : with_length(memfd_create("hmreg-simulated-device", MFD_CLOEXEC), len);
}

/* With HMREG_FAKE_HIGH where Intel's driver has device memory: up to 4 MiB before the end of all
 * addresses, where no process has any. */
static void *arena_base(int device, enum fake_kind kind, size_t len)
{
    uint64_t from_end = (uint64_t)(device + 1) * len + (4 << 20);

    if (kind == FAKE_DEVICE && fake_env("HMREG_FAKE_HIGH", 0))
        return (void *)(uintptr_t)(0 - from_end);
    return mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static struct arena *arena_of(int device, enum fake_kind kind)
{
    struct arena *arena = &arenas[kind == FAKE_DEVICE ? device : MAX_DEVICES];

    if (!arena->base) {
        size_t len = fake_device_memory();
        void *base = arena_base(device, kind, len);

        if (base == MAP_FAILED)
            return NULL;
        arena->base = (uint64_t)(uintptr_t)base;
        arena->len = len;
    }
    return arena;
}

/* Finds the lowest gap of the arena that fits; *link is the block's place in the ordered list. */
static uint64_t find_gap(const struct arena *arena, size_t len, size_t align,
                         struct fake_block ***link)
{
    uint64_t at = (arena->base + align - 1) & ~(uint64_t)(align - 1);
    struct fake_block **place = &blocks;

    for (; *place; place = &(*place)->next) {
        struct fake_block *block = *place;

        if (block->addr + block->len <= arena->base)
            continue;
        if (block->addr >= arena->base + arena->len || block->addr >= at + len)
            break;
        at = (block->addr + block->len + align - 1) & ~(uint64_t)(align - 1);
    }
    *link = place;
    return at + len <= arena->base + arena->len ? at : 0;
}

static size_t whole_pages(size_t len)
{
    return (len + fake_page() - 1) & ~(fake_page() - 1);
}

/* What memory of this kind is rounded up and aligned to: NVIDIA's pages where softgpu has its
 * rules. */
static size_t page_of(enum fake_kind kind)
{
    const char *path = "/sys/module/softgpu/parameters/nvidia";
    int fd = kind == FAKE_DEVICE ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    char on = 'N';

    if (fd < 0)
        return fake_page();
    if (read(fd, &on, 1) != 1)
        on = 'N';
    close(fd);
    return on == 'Y' ? SOFTGPU_NVIDIA_PAGE : fake_page();
}

int fake_host_flags = MAP_PRIVATE;

static bool fill_host(struct fake_block *block, enum fake_kind kind)
{
    int flags = kind == FAKE_HOST ? fake_host_flags : MAP_PRIVATE;

    block->bytes = mmap((void *)(uintptr_t)block->addr, block->len, PROT_READ | PROT_WRITE,
                        flags | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return block->bytes != MAP_FAILED;
}

static void show_nothing(uint64_t addr, size_t len)
{
    mmap((void *)(uintptr_t)addr, len, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* Maps the dmabuf without access at the device's address: peer memory finds it there, and the CPU
 * faults. */
static void show(uint64_t addr, size_t len, const struct fake_block *block, size_t skip)
{
    size_t before = skip % fake_page();

    if (addr && fake_is_dmabuf())
        mmap((void *)(uintptr_t)(addr - before), whole_pages(before + len), PROT_NONE,
             MAP_SHARED | MAP_FIXED, block->fd, (off_t)(block->start + skip - before));
}

void fake_block_moved(struct fake_block *block, size_t start)
{
    block->start = start;
    for (struct fake_alloc *a = allocs; a; a = a->next)
        if (a->block == block)
            show(a->addr, a->len, block, a->skip);
}

bool fake_block_to_host(struct fake_block *block)
{
    int fd = memfd_create("simulated host memory", MFD_CLOEXEC);
    char *bytes = MAP_FAILED;

    if (fd >= 0 && !ftruncate(fd, (off_t)block->len))
        bytes = mmap(NULL, block->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    munmap(block->bytes, block->len);
    close(block->fd);
    block->bytes = bytes;
    block->fd = fd;
    fake_block_moved(block, 0);
    return true;
}

static bool fill_device(struct fake_block *block)
{
    block->fd = fake_file(block->len);
    if (block->fd < 0)
        return false;
    block->bytes = mmap(NULL, block->len, PROT_READ | PROT_WRITE, MAP_SHARED, block->fd, 0);
    if (block->bytes == MAP_FAILED) {
        close(block->fd);
        return false;
    }
    show(block->addr, block->len, block, 0);
    return true;
}

/* Reserves addresses without memory, entered in the ordered list. */
static struct fake_block *block_place(int device, enum fake_kind kind, size_t len, size_t align)
{
    struct arena *arena = arena_of(device, kind);
    struct fake_block *block = arena && len <= arena->len ? calloc(1, sizeof(*block)) : NULL;
    struct fake_block **link = NULL;
    size_t page = page_of(kind);

    if (!block)
        return NULL;
    *block = (struct fake_block){
        .len = (len + page - 1) & ~(page - 1), .device = device, .kind = kind, .fd = -1};
    block->addr = find_gap(arena, block->len, align > page ? align : page, &link);
    if (!block->addr) {
        free(block);
        return NULL;
    }
    block->next = *link;
    *link = block;
    return block;
}

static void block_unlink(const struct fake_block *block)
{
    struct fake_block **link = &blocks;

    while (*link && *link != block)
        link = &(*link)->next;
    if (*link)
        *link = block->next;
}

static void block_destroy(struct fake_block *block)
{
    block_unlink(block);
    if (block->fd >= 0) {
        if (block->addr)
            show_nothing(block->addr, block->len);
        munmap(block->bytes, block->len);
        close(block->fd);
    } else if (block->bytes) {
        show_nothing(block->addr, block->len);
    }
    free(block);
}

static struct fake_block *block_new(int device, enum fake_kind kind, size_t len, size_t align)
{
    struct fake_block *block = block_place(device, kind, len, align);

    if (!block || (kind == FAKE_DEVICE ? fill_device(block) : fill_host(block, kind)))
        return block;
    block->bytes = NULL;
    block->fd = -1;
    block_destroy(block);
    return NULL;
}

struct fake_block *fake_block_new(int device, size_t len)
{
    struct fake_block *block = calloc(1, sizeof(*block));

    if (!block)
        return NULL;
    *block = (struct fake_block){.len = whole_pages(len), .device = device, .users = 1};
    if (fill_device(block))
        return block;
    free(block);
    return NULL;
}

void fake_block_hold(struct fake_block *block)
{
    fake_lock();
    block->users++;
    fake_unlock();
}

void fake_block_put(struct fake_block *block)
{
    fake_lock();
    if (!--block->users)
        block_destroy(block);
    fake_unlock();
}

uint64_t fake_reserve(int device, size_t len, size_t align)
{
    struct fake_block *block;
    uint64_t addr;

    fake_lock();
    block = block_place(device, FAKE_DEVICE, len, align);
    addr = block ? block->addr : 0;
    fake_unlock();
    return addr;
}

bool fake_unreserve(uint64_t addr)
{
    struct fake_block *block;

    fake_lock();
    for (block = blocks; block; block = block->next)
        if (block->addr == addr && !block->bytes)
            break;
    if (block)
        block_destroy(block);
    fake_unlock();
    return block != NULL;
}

static bool is_free(uint64_t addr, size_t len)
{
    for (struct fake_alloc *a = allocs; a; a = a->next)
        if (addr < a->addr + a->len && a->addr < addr + len)
            return false;
    return true;
}

/* Finds room for a small allocation in a shared page. */
static struct fake_block *share(int device, enum fake_kind kind, size_t len, size_t align,
                                uint64_t *addr)
{
    for (struct fake_block *block = blocks; block; block = block->next) {
        if (block->device != device || block->kind != kind || block->len != fake_page() ||
            !block->bytes)
            continue;
        for (uint64_t at = block->addr; at + len <= block->addr + block->len; at += align) {
            if (!is_free(at, len))
                continue;
            *addr = at;
            return block;
        }
    }
    return NULL;
}

/* Creates an allocation of a block, to which it holds a reference. */
static struct fake_alloc *enter(struct fake_block *block, uint64_t addr, size_t len, size_t skip)
{
    struct fake_alloc *made = calloc(1, sizeof(*made));

    if (!made)
        return NULL;
    block->users++;
    *made = (struct fake_alloc){.next = allocs,
                                .addr = addr,
                                .len = len,
                                .id = ++last_id,
                                .device = block->device,
                                .kind = block->kind,
                                .block = block,
                                .skip = skip};
    allocs = made;
    return made;
}

struct fake_alloc *fake_alloc(int device, enum fake_kind kind, size_t len, size_t align)
{
    struct fake_alloc *made = NULL;
    struct fake_block *block = NULL;
    uint64_t addr = 0;

    if (!align)
        align = 512;
    fake_lock();
    if (len < fake_page() && align < fake_page())
        block = share(device, kind, len, align, &addr);
    if (!block) {
        block = block_new(device, kind, len, align);
        addr = block ? block->addr : 0;
    }
    if (block)
        made = enter(block, addr, len, (size_t)(addr - block->addr));
    if (block && !block->users)
        block_destroy(block);
    fake_unlock();
    return made;
}

struct fake_alloc *fake_map(uint64_t addr, size_t len, struct fake_block *block, size_t skip)
{
    struct fake_alloc *made;

    fake_lock();
    made = enter(block, addr, len, skip);
    if (made)
        show(addr, len, block, skip);
    fake_unlock();
    return made;
}

static bool has_allocations(const struct fake_block *block)
{
    for (const struct fake_alloc *a = allocs; a; a = a->next)
        if (a->block == block)
            return true;
    return false;
}

/* Memory that only descriptors hold has no address any more. */
static void leave_address(struct fake_block *block)
{
    if (!block->addr || block->fd < 0 || has_allocations(block))
        return;
    block_unlink(block);
    show_nothing(block->addr, block->len);
    block->addr = 0;
    block->next = NULL;
}

bool fake_free(uint64_t addr)
{
    struct fake_alloc **link = &allocs;
    struct fake_alloc *gone = NULL;

    fake_lock();
    while (*link && (*link)->addr != addr)
        link = &(*link)->next;
    gone = *link;
    if (gone) {
        *link = gone->next;
        if (!gone->block->addr)
            show_nothing(gone->addr, whole_pages(gone->len));
        leave_address(gone->block);
        fake_block_put(gone->block);
        free(gone);
    }
    fake_unlock();
    return gone != NULL;
}

struct fake_alloc *fake_find(uint64_t addr)
{
    struct fake_alloc *found = NULL;

    fake_lock();
    for (struct fake_alloc *a = allocs; a && !found; a = a->next)
        if (addr >= a->addr && addr - a->addr < a->len)
            found = a;
    fake_unlock();
    return found;
}

/* Translates a simulated address to its bytes, and how many follow in the same block. */
static char *bytes_at(uint64_t addr, size_t *follow)
{
    struct fake_alloc *a = fake_find(addr);

    if (!a)
        return NULL;
    *follow = (size_t)(a->addr + a->len - addr);
    return a->block->bytes + a->skip + (addr - a->addr);
}

static bool in_arena(uint64_t addr)
{
    for (int i = 0; i < MAX_DEVICES; i++)
        if (arenas[i].base && addr >= arenas[i].base && addr - arenas[i].base < arenas[i].len)
            return true;
    return false;
}

/* The kernel reads and writes CPU memory, so that a bad address is an error. */
static int copy_piece(uint64_t dst, uint64_t src, size_t len, char *to, char *from)
{
    struct iovec local = {to ? to : from, len};
    struct iovec remote = {(void *)(uintptr_t)(to ? src : dst), len};
    ssize_t done;

    if (to && from) {
        memmove(to, from, len);
        return 0;
    }
    if (!to && !from) {
        local.iov_base = (void *)(uintptr_t)dst;
        remote.iov_base = (void *)(uintptr_t)src;
        done = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    } else if (to) {
        done = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    } else {
        done = process_vm_writev(getpid(), &local, 1, &remote, 1, 0);
    }
    return done == (ssize_t)len ? 0 : -1;
}

int fake_copy(uint64_t dst, uint64_t src, size_t len)
{
    int rc = 0;

    fake_lock();
    while (len && !rc) {
        size_t dst_follow = len, src_follow = len, piece = len;
        char *to = bytes_at(dst, &dst_follow);
        char *from = bytes_at(src, &src_follow);

        if ((!to && in_arena(dst)) || (!from && in_arena(src))) {
            rc = -1;
            break;
        }
        piece = piece < dst_follow ? piece : dst_follow;
        piece = piece < src_follow ? piece : src_follow;
        rc = copy_piece(dst, src, piece, to, from);
        dst += piece;
        src += piece;
        len -= piece;
    }
    fake_unlock();
    return rc;
}

int fake_block_dup(const struct fake_block *block)
{
    if (block->fd < 0) {
        errno = EBADF;
        return -1;
    }
    return fcntl(block->fd, F_DUPFD_CLOEXEC, 0);
}

/* ---- control ---------------------------------------------------------------------------- */

static void control_reset(void)
{
    fake_lock();
    for (unsigned i = 0; i < call_count; i++)
        calls[i] = (struct call){0};
    call_count = 0;
    fake_unlock();
}

static unsigned long control_calls(const char *name)
{
    unsigned long count;

    fake_lock();
    count = call_named(name)->count;
    fake_unlock();
    return count;
}

static unsigned long control_allocations(void)
{
    unsigned long count = 0;

    fake_lock();
    for (struct fake_alloc *a = allocs; a; a = a->next)
        count++;
    fake_unlock();
    return count;
}

static unsigned char *control_peek(uint64_t addr)
{
    size_t follow = 0;

    return (unsigned char *)bytes_at(addr, &follow);
}

__attribute__((visibility("default"))) const struct fake_control *hmreg_fake_control(void)
{
    static const struct fake_control control = {
        .fail = control_fail,
        .reset = control_reset,
        .calls = control_calls,
        .allocations = control_allocations,
        .strict = fake_is_strict,
        .peek = control_peek,
        .attach = fake_dmabuf_attach,
        .detach = fake_dmabuf_detach,
        .window = fake_dmabuf_window,
        .held = fake_dmabuf_held,
    };

    return &control;
}
