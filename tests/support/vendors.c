/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See vendors.h. The three share their functions: a vendor's struct hmem is its entry here.
 */
#include "tests/support/vendors.h"

#include "core/base/error.h"
#include "core/contract/hmem.h"
#include "simulated/engine/pcie.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct vendor vendors[HMREG_IFACE_COUNT];
int (*vendor_called)(enum hmreg_iface iface, const char *call, uint64_t addr, size_t len);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for claims and counts */
static uint64_t last_identity;
static _Atomic uint64_t loads = 1; /* libraries loaded */

static struct vendor *of(struct hmem *self)
{
    return (struct vendor *)self;
}

static const char *name_of(const struct vendor *vendor)
{
    return hmreg_iface_name((enum hmreg_iface)(vendor - vendors));
}

static int answer(const struct vendor *vendor, int code, const char *call)
{
    if (code && code != -HMEM_NOT_MINE && !vendor->silent)
        return hmreg_fail_vendor(code, name_of(vendor), 999, "TEST_ERROR", "%s of %s failed", call,
                                 name_of(vendor));
    return code;
}

/* What the test has this call fail with. */
static int asked(const struct vendor *vendor, const char *call, uint64_t addr, size_t len)
{
    return vendor_called
               ? answer(vendor,
                        vendor_called((enum hmreg_iface)(vendor - vendors), call, addr, len), call)
               : 0;
}

static struct vendor_claim *find(struct vendor *vendor, uint64_t addr)
{
    for (unsigned i = 0; i < vendor->count; i++)
        if (addr - vendor->claims[i].addr < vendor->claims[i].len)
            return &vendor->claims[i];
    return NULL;
}

/* ---- the operations --------------------------------------------------------------------- */

static int open_vendor(struct vendor *vendor, struct hmem **out)
{
    int rc = asked(vendor, "open", 0, 0);

    pthread_mutex_lock(&lock);
    vendor->opens++;
    pthread_mutex_unlock(&lock);
    if (rc)
        return rc;
    if (vendor->on_open)
        vendor->on_open();
    if (vendor->open_code)
        return answer(vendor, vendor->open_code, "open");
    *out = (struct hmem *)vendor;
    return 0;
}

static bool loaded_cuda(void)
{
    return !vendors[HMREG_IFACE_CUDA].unloaded;
}

static bool loaded_rocr(void)
{
    return !vendors[HMREG_IFACE_ROCR].unloaded;
}

static bool loaded_ze(void)
{
    return !vendors[HMREG_IFACE_ZE].unloaded;
}

static int load_cuda(void)
{
    if (vendors[HMREG_IFACE_CUDA].on_load)
        vendors[HMREG_IFACE_CUDA].on_load();
    return 0;
}

static int open_cuda(struct hmem **out)
{
    return open_vendor(&vendors[HMREG_IFACE_CUDA], out);
}

static int open_rocr(struct hmem **out)
{
    return open_vendor(&vendors[HMREG_IFACE_ROCR], out);
}

static int open_ze(struct hmem **out)
{
    return open_vendor(&vendors[HMREG_IFACE_ZE], out);
}

static void close_vendor(struct hmem *self)
{
    pthread_mutex_lock(&lock);
    of(self)->closes++;
    pthread_mutex_unlock(&lock);
    asked(of(self), "close", 0, 0);
}

static void runtime(struct hmem *self, struct hmem_runtime *out)
{
    *out = (struct hmem_runtime){.version = "1.2", .library = "the test", .lacks = "nothing"};
}

static int device_count(struct hmem *self)
{
    return of(self)->devices;
}

static void device(struct hmem *self, int index, struct hmem_device *out)
{
    *out = (struct hmem_device){
        .pci = {.bus = (uint8_t)(index + 1), .valid = 1},
        .memory = 1u << 30,
        .simulated = !of(self)->real,
        .dmabuf = of(self)->dmabuf,
        .coherent = of(self)->coherent,
    };
    if (of(self)->split && index >= of(self)->split) {
        out->driver = 1;
        out->driver_first = (unsigned)of(self)->split;
    }
    snprintf(out->name, sizeof(out->name), "simulated %s %d", name_of(of(self)), index);
}

static void call_hook(const struct vendor *vendor, const char *call, uint64_t addr, size_t len)
{
    if (vendor->hook)
        vendor->hook(call, addr, len);
}

/* A vendor may rely on what hmem.h promises. */
static void check_range(uint64_t addr, size_t len)
{
    if (len && addr + len > addr)
        return;
    fprintf(stderr, "a vendor was called with %#zx bytes at %#" PRIx64 "\n", len, addr);
    abort();
}

static struct hmem_range range_of(const struct vendor_claim *claim)
{
    const struct vendor_range *range = &claim->range;

    return (struct hmem_range){
        .device = range->device,
        .kind = range->kind,
        .alloc_base = claim->addr,
        .alloc_len = claim->len,
        .identity = range->identity,
        .segments = range->segments,
        .host_addr = range->host_addr,
        .allocated = range->allocated,
        .allocated_if_unnamed = range->allocated_if_unnamed,
        .exportable = range->exportable,
    };
}

/* The range from claim on, over as many segments as it takes. */
static int walk(struct vendor *vendor, const struct vendor_claim *claim, uint64_t addr, size_t len,
                struct hmem_range *out)
{
    struct hmem_range range = range_of(claim);

    while (claim && addr + len > claim->addr + claim->len) {
        uint64_t end = claim->addr + claim->len;

        claim = claim->goes_on ? find(vendor, end) : NULL;
        if (!claim)
            return hmreg_fail_vendor(-ERANGE, name_of(vendor), 0, NULL,
                                     "the allocation ends at %#" PRIx64, end);
        range.identity = range.identity * 0x9e3779b97f4a7c15u + claim->range.identity;
        range.alloc_len += claim->len;
        range.segments++;
    }
    *out = range;
    return 0;
}

static int look_up(struct vendor *vendor, int code, const char *call, uint64_t addr, size_t len,
                   struct hmem_range *out)
{
    const struct vendor_claim *claim = find(vendor, addr);
    int rc;

    check_range(addr, len);
    if (code)
        return answer(vendor, code, call);
    if (!claim)
        return -HMEM_NOT_MINE;
    rc = walk(vendor, claim, addr, len, out);
    if (!rc && out->host_addr)
        out->host_addr += addr - claim->addr;
    if (!rc && claim->endless) {
        out->alloc_base = addr;
        out->alloc_len = len;
    }
    return rc;
}

static int resolve(struct hmem *self, uint64_t addr, size_t len, struct hmem_range *out)
{
    struct vendor *vendor = of(self);
    int rc = asked(vendor, "resolve", addr, len);

    call_hook(vendor, "resolve", addr, len);
    if (rc)
        return rc;
    pthread_mutex_lock(&lock);
    vendor->resolves++;
    rc = look_up(vendor, vendor->resolve_code, "resolve", addr, len, out);
    pthread_mutex_unlock(&lock);
    return rc;
}

static int identity(struct hmem *self, uint64_t addr, size_t len, uint64_t *out)
{
    struct vendor *vendor = of(self);
    struct hmem_range range;
    int rc = asked(vendor, "identity", addr, len);

    call_hook(vendor, "identity", addr, len);
    if (rc)
        return rc;
    pthread_mutex_lock(&lock);
    vendor->identities++;
    rc = look_up(vendor, vendor->identity_code, "identity", addr, len, &range);
    pthread_mutex_unlock(&lock);
    if (!rc)
        *out = range.identity;
    return rc;
}

static bool watch(struct hmem *self, uint64_t addr, size_t len, const struct hmem_range *range,
                  const char **why)
{
    struct vendor *vendor = of(self);

    asked(vendor, "watch", addr, len);
    call_hook(vendor, "watch", addr, len);
    pthread_mutex_lock(&lock);
    vendor->watches++;
    for (unsigned i = 0; i < vendor->count; i++) {
        struct vendor_claim *claim = &vendor->claims[i];

        if (vendor->reports && claim->addr < addr + len && addr < claim->addr + claim->len)
            claim->watched = true;
    }
    pthread_mutex_unlock(&lock);
    if (why)
        *why = "this vendor's script reports no end";
    return vendor->reports && range->identity;
}

static int export_dmabuf(struct hmem *self, uint64_t addr, size_t len,
                         const struct hmem_range *range, uint64_t flags, struct hmreg_dmabuf *out)
{
    struct vendor *vendor = of(self);
    const struct vendor_claim *claim = find(vendor, addr);
    int fd, rc = asked(vendor, "export", addr, len);

    if (rc)
        return rc;
    if (flags) {
        vendor->pcie_exports++;
        if (vendor->pcie_code)
            return answer(vendor, vendor->pcie_code, "export for PCIe");
    }

    vendor->exports++;
    if (vendor->export_code)
        return answer(vendor, vendor->export_code, "export");
    if (vendor->one_by_one && range->segments > 1)
        return answer(vendor, -EXDEV, "export");
    fd = !claim ? -1 : flags ? fake_pcie_dup(claim->fd) : fcntl(claim->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return hmreg_fail_os(errno, "the test's memory has no descriptor");
    *out = (struct hmreg_dmabuf){.fd = fd, .offset = addr - claim->addr, .length = len};
    return 0;
}

static char *bytes_at(struct vendor *vendor, uint64_t addr)
{
    const struct vendor_claim *claim = find(vendor, addr);

    return claim && claim->view ? claim->view + (addr - claim->addr) : (char *)(uintptr_t)addr;
}

static int copy(struct hmem *self, uint64_t dst, uint64_t src, size_t len)
{
    struct vendor *vendor = of(self);
    int rc = asked(vendor, "copy", dst, len);

    if (rc)
        return rc;
    vendor->copies++;
    if (vendor->copy_code)
        return answer(vendor, vendor->copy_code, "copy");
    memmove(bytes_at(vendor, dst), bytes_at(vendor, src), len);
    return 0;
}

static int alloc(struct hmem *self, int index, enum hmreg_mem_kind kind, size_t len, void **out)
{
    struct vendor *vendor = of(self);
    int rc = asked(vendor, "alloc", 0, len);

    if (rc)
        return rc;
    if (vendor->alloc_code)
        return answer(vendor, vendor->alloc_code, "alloc");
    *out = vendor_memory((enum hmreg_iface)(vendor - vendors), index, kind, len);
    return 0;
}

static int free_vendor(struct hmem *self, void *addr, enum hmreg_mem_kind kind)
{
    struct vendor *vendor = of(self);
    int rc = asked(vendor, "free", (uintptr_t)addr, 0);

    if (rc)
        return rc;
    if (vendor->free_code)
        return answer(vendor, vendor->free_code, "free");
    vendor_memory_free(addr);
    return 0;
}

/* ---- the table -------------------------------------------------------------------------- */

#define VENDOR(of_iface, vendor, ...)                                                              \
    {                                                                                              \
        .iface = of_iface, .name = #vendor, .loaded = loaded_##vendor, .open = open_##vendor,      \
        .close = close_vendor, .runtime = runtime, .device_count = device_count, .device = device, \
        .resolve = resolve, .identity = identity, .watch = watch, .export_dmabuf = export_dmabuf,  \
        .copy = copy, .alloc = alloc, .free = free_vendor, ##__VA_ARGS__,                          \
    }

static const struct hmem_ops cuda = VENDOR(HMREG_IFACE_CUDA, cuda, .load = load_cuda);
static const struct hmem_ops rocr = VENDOR(HMREG_IFACE_ROCR, rocr);
static const struct hmem_ops ze = VENDOR(HMREG_IFACE_ZE, ze);
extern const struct hmem_ops hmem_system_ops;

static const struct hmem_ops *const of_tests[] = {&hmem_system_ops, &cuda, &rocr, &ze, NULL};

static uint64_t libraries_loaded(void)
{
    return loads;
}

const struct hmem_table hmem_table = {of_tests, hmem_listen, libraries_loaded};

/* ---- for tests -------------------------------------------------------------------------- */

void vendors_reset(void)
{
    for (int i = 0; i < HMREG_IFACE_COUNT; i++)
        vendors[i] = (struct vendor){.devices = 2, .dmabuf = true};
}

void vendors_unload(void)
{
    for (int i = HMREG_IFACE_SYSTEM + 1; i < HMREG_IFACE_COUNT; i++)
        vendors[i].unloaded = true;
}

void vendor_is_loaded(enum hmreg_iface iface)
{
    vendors[iface].unloaded = false;
    loads++;
}

struct vendor_claim *vendor_claim(enum hmreg_iface iface, void *addr, size_t len,
                                  enum hmreg_mem_kind kind, int index)
{
    struct vendor *vendor = &vendors[iface];
    struct vendor_claim *claim;
    uint64_t at = (uint64_t)(uintptr_t)addr;

    pthread_mutex_lock(&lock);
    claim = &vendor->claims[vendor->count++];
    *claim = (struct vendor_claim){
        .addr = at,
        .len = len,
        .fd = -1,
        .range =
            {
                .device = index,
                .kind = kind,
                .identity = kind == HMREG_MEM_HOST_PINNED ? 0 : ++last_identity,
                .segments = 1,
                .host_addr = kind == HMREG_MEM_DEVICE ? 0 : at,
                .exportable = kind == HMREG_MEM_DEVICE,
            },
    };
    pthread_mutex_unlock(&lock);
    return claim;
}

/* Before the memory ends, as vendors do, and with one of the runtime's locks held. */
static void report(struct vendor_claim *claim)
{
    if (claim->watched)
        hmem_ended(claim->addr, claim->addr + claim->len);
    claim->watched = false;
}

void vendor_renew(struct vendor_claim *claim)
{
    pthread_mutex_lock(&lock);
    report(claim);
    claim->range.identity = ++last_identity;
    pthread_mutex_unlock(&lock);
}

void vendor_unclaim(enum hmreg_iface iface, const void *addr)
{
    struct vendor *vendor = &vendors[iface];

    pthread_mutex_lock(&lock);
    report(find(vendor, (uint64_t)(uintptr_t)addr));
    *find(vendor, (uint64_t)(uintptr_t)addr) = vendor->claims[vendor->count - 1];
    vendor->count--;
    pthread_mutex_unlock(&lock);
}

static void *must(void *mapped)
{
    if (mapped != MAP_FAILED)
        return mapped;
    perror("mmap of the test's memory");
    abort();
}

void *vendor_memory(enum hmreg_iface iface, int index, enum hmreg_mem_kind kind, size_t len)
{
    bool touchable = kind != HMREG_MEM_DEVICE;
    int fd = memfd_create("vendor", MFD_CLOEXEC);
    struct vendor_claim *claim;
    void *addr;

    if (fd < 0 || ftruncate(fd, (off_t)len)) {
        perror("memfd of the test's memory");
        abort();
    }
    addr = must(mmap(NULL, len, touchable ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, fd, 0));
    claim = vendor_claim(iface, addr, len, kind, index);
    claim->fd = fd;
    claim->view = must(mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    return addr;
}

static struct vendor_claim *find_any(const void *addr, struct vendor **owner)
{
    for (int i = 0; i < HMREG_IFACE_COUNT; i++) {
        *owner = &vendors[i];
        if (find(*owner, (uint64_t)(uintptr_t)addr))
            return find(*owner, (uint64_t)(uintptr_t)addr);
    }
    return NULL;
}

void vendor_memory_free(void *addr)
{
    struct vendor *vendor;
    struct vendor_claim *claim = find_any(addr, &vendor);

    pthread_mutex_lock(&lock);
    report(claim);
    munmap(claim->view, claim->len);
    munmap((void *)(uintptr_t)claim->addr, claim->len);
    close(claim->fd);
    *claim = vendor->claims[--vendor->count];
    pthread_mutex_unlock(&lock);
}

char *vendor_view(const void *addr)
{
    struct vendor *vendor;
    const struct vendor_claim *claim = find_any(addr, &vendor);

    return claim->view + ((uint64_t)(uintptr_t)addr - claim->addr);
}
