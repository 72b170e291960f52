/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A vendor's memory through the public interface: query and export, and regions that a peer
 * accesses. kinds.c tests each kind of memory from its query to its reuse.
 */
#include "tests/gpu/gpu.h"
#include "tests/support/queries.h"

#include <hmreg/loopback.h>
#include <sys/mman.h>

#define LEN   100000
#define SKIP  4097
#define PIECE 12345

static struct hmreg *open_library(void)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(gpu.ops->iface)};
    struct hmreg *lib = NULL;

    assert_ok(hmreg_open(&config, &lib));
    return lib;
}

static char *alloc(struct hmreg *lib, int device, enum hmreg_mem_kind kind)
{
    void *made = NULL;

    assert_ok(hmreg_mem_alloc(lib, gpu.ops->iface, device, kind, LEN, &made));
    return made;
}

TEST(runtime_and_devices__opened__described)
{
    struct hmreg_runtime_info runtime = {.size = sizeof(runtime)};
    struct hmreg_device_info device = {.size = sizeof(device)};
    struct hmem *self = gpu.begin();
    struct hmreg *lib = open_library();

    assert_ok(hmreg_runtime_query(lib, gpu.ops->iface, &runtime));
    assert_int_equal(runtime.present, 1);
    assert_ok(hmreg_device_query(lib, gpu.ops->iface, runtime.devices - 1, &device));
    assert_true(device.pci.valid);
    if (gpu.fake()) {
        assert_int_equal(runtime.devices, 2);
        assert_string_equal(runtime.version, gpu.version);
        assert_string_equal(runtime.why, "");
        assert_string_equal(device.name, gpu.device_names[1]);
        assert_int_equal(device.flags, HMREG_DEVICE_SIMULATED | HMREG_DEVICE_DMABUF);
    }
    assert_fails(hmreg_device_query(lib, gpu.ops->iface, runtime.devices, &device), -ENODEV,
                 "no device");
    assert_ok(hmreg_close(lib));
    gpu.end(self);
}

TEST(query__each_kind__described)
{
    struct hmem *self = gpu.begin();
    struct hmreg *lib = open_library();

    for (unsigned k = 0; k < gpu.kinds; k++) {
        struct hmreg_mem_info info = {.size = sizeof(info)};
        struct hmreg_device_info device = {.size = sizeof(device)};
        uint64_t addr = gpu.alloc(gpu.devices() - 1, gpu_kinds[k], LEN);
        char *memory = (char *)(uintptr_t)addr;
        bool by_cpu = gpu_kinds[k] != HMREG_MEM_DEVICE;

        assert_ok(hmreg_query(lib, memory + SKIP, PIECE, &info));
        assert_int_equal(info.iface, gpu.ops->iface);
        assert_int_equal(info.kind, gpu_kinds[k]);
        assert_int_equal(info.alloc_base, addr);
        assert_int_equal(info.alloc_len, LEN);
        assert_int_equal(info.segments, 1);
        assert_int_not_equal(info.identity, 0);
        assert_int_equal(info.host_addr, by_cpu ? addr + SKIP : 0);
        assert_int_equal(!!(info.flags & HMREG_MEM_INFO_CPU_ACCESS), by_cpu);
        if (gpu.fake() && !by_cpu) {
            assert_int_equal(info.flags, HMREG_MEM_INFO_EXPORTABLE | HMREG_MEM_INFO_SIMULATED);
            assert_int_equal(info.device, 1);
            assert_ok(hmreg_device_query(lib, gpu.ops->iface, 1, &device));
            assert_memory_equal(&info.pci, &device.pci, sizeof(info.pci));
        }
        if (gpu_kinds[k] != HMREG_MEM_HOST_PINNED) /* what follows may be the system's */
            assert_fails(hmreg_query(lib, memory + 1, LEN, &info), -ERANGE,
                         "beyond its allocation");
        assert_ok(hmreg_query(lib, &info, sizeof(info), &info));
        assert_int_equal(info.iface, HMREG_IFACE_SYSTEM);
        gpu.free(addr, gpu_kinds[k]);
    }
    assert_ok(hmreg_close(lib));
    gpu.end(self);
}

/* Both are found to be of one allocation, and the exports of both have their offsets in it. */
static void check_whole_and_odd(struct hmreg *lib, char *memory, int device,
                                enum hmreg_mem_kind kind)
{
    const size_t starts[] = {0, SKIP}, lengths[] = {LEN, PIECE};
    struct hmreg_mem_info found[2] = {{.size = sizeof(found[0])}, {.size = sizeof(found[0])}};
    struct hmreg_dmabuf exported[2];

    for (size_t i = 0; i < 2; i++) {
        assert_ok(hmreg_query(lib, memory + starts[i], lengths[i], &found[i]));
        assert_int_equal(found[i].iface, gpu.ops->iface);
        assert_int_equal(found[i].kind, kind);
        if (kind == HMREG_MEM_DEVICE)
            assert_int_equal(found[i].device, device);
        assert_true(found[i].alloc_base <= (uintptr_t)memory);
        assert_true(found[i].alloc_base + found[i].alloc_len >= (uintptr_t)memory + LEN);
    }
    assert_int_equal(found[0].identity, found[1].identity);
    assert_int_equal(found[0].flags, found[1].flags);
    if (!(found[0].flags & HMREG_MEM_INFO_EXPORTABLE))
        return;
    for (size_t i = 0; i < 2; i++) {
        assert_ok(hmreg_export_dmabuf(lib, memory + starts[i], lengths[i], 0, &exported[i]));
        assert_int_equal(exported[i].length, lengths[i]);
        close(exported[i].fd);
    }
    assert_int_equal(exported[1].offset - exported[0].offset, SKIP);
}

TEST(query__every_kind_of_every_device__whole_and_odd_agree)
{
    struct hmem *self = gpu.begin();
    struct hmreg *lib = open_library();

    for (int device = 0; device < gpu.devices(); device++) {
        for (int kind = HMREG_MEM_HOST_PINNED; kind <= HMREG_MEM_MANAGED; kind++) {
            void *memory;
            int rc = hmreg_mem_alloc(lib, gpu.ops->iface, device, (enum hmreg_mem_kind)kind, LEN,
                                     &memory);

            if (kind == HMREG_MEM_MANAGED && rc == -EOPNOTSUPP)
                continue;
            assert_ok(rc);
            check_whole_and_odd(lib, memory, device, (enum hmreg_mem_kind)kind);
            assert_ok(hmreg_mem_free(lib, memory));
        }
    }
    assert_ok(hmreg_close(lib));
    gpu.end(self);
}

/* The simulation keeps its addresses reserved, so the kernel lists them; the CPU has no access. */
TEST(query__freed_device_memory__refused)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct hmreg *lib;
    char *memory;

    gpu_need_fake();
    lib = open_library();
    memory = alloc(lib, 0, HMREG_MEM_DEVICE);
    assert_ok(hmreg_mem_free(lib, memory));
    assert_fails(hmreg_query(lib, memory, 64, &info), -EFAULT, "no runtime knows the memory");
    assert_ok(hmreg_close(lib));
}

TEST(export_and_copy__odd_offset__the_same_bytes)
{
    struct hmem *self = gpu.begin();
    struct hmreg *lib = open_library();
    struct hmreg_dmabuf dmabuf = {.fd = -1};
    char *memory = alloc(lib, 0, HMREG_MEM_DEVICE);
    unsigned char out[PIECE], in[PIECE] = {0}, *view;

    for (size_t i = 0; i < PIECE; i++)
        out[i] = gpu_byte(i, 1);
    assert_ok(hmreg_copy(lib, memory + SKIP, out, PIECE));
    assert_ok(hmreg_copy(lib, in, memory + SKIP, PIECE));
    assert_memory_equal(in, out, PIECE);
    assert_ok(hmreg_export_dmabuf(lib, memory + SKIP, PIECE, 0, &dmabuf));
    assert_int_equal(dmabuf.length, PIECE);
    view = mmap(NULL, dmabuf.offset + PIECE, PROT_READ, MAP_SHARED, dmabuf.fd, 0);
    if (view != MAP_FAILED) {
        assert_memory_equal(view + dmabuf.offset, out, PIECE);
        munmap(view, dmabuf.offset + PIECE);
    } else {
        assert_null(gpu.fake());
    }
    close(dmabuf.fd);
    assert_ok(hmreg_mem_free(lib, memory));
    assert_ok(hmreg_close(lib));
    gpu.end(self);
}

/* ---- regions ---------------------------------------------------------------------------- */

/* Writes a piece as a peer, and reads it back. */
static void check_peer(struct hmreg_domain *domain, const struct hmreg_mr *mr)
{
    struct hmreg_remote *remote = NULL;
    unsigned char out[PIECE], in[PIECE] = {0};
    uint64_t addr, key;

    memset(out, 0xab, PIECE);
    remote = test_remote_of(domain, mr);
    assert_ok(hmreg_remote_addr(remote, SKIP - 1, PIECE, &addr, &key));
    assert_ok(hmreg_loopback_write(remote, out, PIECE, NULL, addr, key));
    assert_ok(hmreg_loopback_read(remote, in, PIECE, NULL, addr, key));
    assert_memory_equal(in, out, PIECE);
    hmreg_remote_close(remote);
}

static void check_region(struct hmem *self, struct hmreg *lib, unsigned k, enum hmreg_path order)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .order = {order}};
    int device = gpu.devices() - 1;
    char *memory = alloc(lib, device, gpu_kinds[k]);
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *mr = NULL;

    gpu_fill(self, (uintptr_t)memory, LEN, 1);
    assert_ok(hmreg_domain_open_loopback(lib, NULL, &config, &domain));
    assert_ok(hmreg_mr_reg(domain, memory + 1, LEN - 1, HMREG_ACCESS_REMOTE, 0, 5, 0, &mr, NULL));
    assert_ok(hmreg_mr_query(mr, &info));
    assert_int_equal(info.path, k ? HMREG_PATH_SYSTEM : order);
    assert_int_equal(info.iface, gpu.ops->iface);
    if (gpu_kinds[k] == HMREG_MEM_DEVICE)
        assert_int_equal(info.device, device);
    check_peer(domain, mr);
    test_addresses(domain, mr, mr, 0, memory + 1);
    gpu_check(self, (uintptr_t)memory, LEN, 1, SKIP, PIECE, 0xab);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_mem_free(lib, memory));
}

TEST(region__of_each_kind__is_reached_by_a_peer)
{
    struct hmem *self;
    struct hmreg *lib;

    gpu_need_fake(); /* the CPU may be unable to map a real device's memory */
    self = gpu.begin();
    lib = open_library();
    for (unsigned k = 0; k < gpu.kinds; k++) {
        check_region(self, lib, k, HMREG_PATH_MAPPED);
        check_region(self, lib, k, HMREG_PATH_PEERMEM);
    }
    assert_ok(hmreg_close(lib));
    gpu.end(self);
}

/* ---- trusted claims ---------------------------------------------------------------------- */

static unsigned long queries(void)
{
    unsigned long count = 0;
    char names[256], *rest = names, *name;

    snprintf(names, sizeof(names), "%s", gpu.queries);
    while ((name = strsep(&rest, " ")))
        count += gpu.fake()->calls(name);
    return count;
}

/* How many queries a registration of [memory+1, LEN-1) takes. */
static unsigned long reg_queries(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr,
                                 enum hmreg_path path, struct hmreg_mr **mr)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    unsigned long before = queries();

    assert_ok(hmreg_mr_regattr(domain, attr, 0, mr));
    before = queries() - before;
    assert_ok(hmreg_mr_query(*mr, &info));
    assert_int_equal(info.path, path);
    assert_int_equal(info.iface, gpu.ops->iface);
    assert_int_equal(info.device, attr->device);
    return before;
}

static void check_trusted(struct hmem *self, struct hmreg *lib, unsigned k, enum hmreg_path order)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .order = {order}};
    int device = gpu.devices() - 1;
    char *memory = alloc(lib, device, gpu_kinds[k]);
    struct iovec iov = {memory + 1, LEN - 1};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr),
        .iov = &iov,
        .iov_count = 1,
        .access = HMREG_ACCESS_REMOTE,
        .requested_key = 5,
        .claim_iface = HMREG_CLAIM_TRUSTED,
        .iface = gpu.ops->iface,
        .device = device,
        .claim_base = (uintptr_t)memory,
        .claim_len = LEN,
        .claim_kind = gpu_kinds[k],
    };
    bool exports = !k && order != HMREG_PATH_PEERMEM;
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *mr = NULL;

    gpu_fill(self, (uintptr_t)memory, LEN, 1);
    assert_ok(hmreg_domain_open_loopback(lib, NULL, &config, &domain));
    assert_int_equal(reg_queries(domain, &attr, k ? HMREG_PATH_SYSTEM : order, &mr),
                     exports ? gpu.export_queries : 0);
    check_peer(domain, mr);
    gpu_check(self, (uintptr_t)memory, LEN, 1, SKIP, PIECE, 0xab);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_mem_free(lib, memory));
}

TEST(trusted__of_each_kind__nothing_is_asked)
{
    struct hmem *self;
    struct hmreg *lib;

    gpu_need_fake();
    self = gpu.begin();
    lib = open_library();
    for (unsigned k = 0; k < gpu.kinds; k++) {
        check_trusted(self, lib, k, HMREG_PATH_MAPPED);
        check_trusted(self, lib, k, HMREG_PATH_PEERMEM);
    }
    assert_ok(hmreg_close(lib));
    gpu.end(self);
}

TEST(trusted__freed_memory__path_is_refused)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .order = {HMREG_PATH_MAPPED}};
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *mr = NULL;
    struct hmreg *lib;
    struct iovec iov;
    int fds;

    gpu_need_fake();
    lib = open_library();
    iov = (struct iovec){alloc(lib, 0, HMREG_MEM_DEVICE), LEN};
    assert_ok(hmreg_mem_free(lib, iov.iov_base));
    assert_ok(hmreg_domain_open_loopback(lib, NULL, &config, &domain));
    fds = test_count_fds();
    assert_fails(hmreg_mr_regattr(domain,
                                  &(struct hmreg_mr_attr){
                                      .size = sizeof(struct hmreg_mr_attr),
                                      .iov = &iov,
                                      .iov_count = 1,
                                      .access = HMREG_ACCESS_REMOTE,
                                      .claim_iface = HMREG_CLAIM_TRUSTED,
                                      .iface = gpu.ops->iface,
                                      .claim_base = (uintptr_t)iov.iov_base,
                                      .claim_len = LEN,
                                      .claim_kind = HMREG_MEM_DEVICE,
                                  },
                                  0, &mr),
                 -EOPNOTSUPP, "mapped");
    assert_null(mr);
    assert_int_equal(test_count_fds(), fds);
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
}

TEST_MAIN()
