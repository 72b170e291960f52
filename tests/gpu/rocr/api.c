/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * ROCm memory through the public interface: what a program sees of it.
 */
#include "tests/gpu/rocr/app.h"

#include <hmreg/loopback.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEN   65536u
#define SKIP  4097u
#define PIECE 12345u

static struct hmreg *open_library(void)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_ROCR),
                                  .monitor = HMREG_MONITOR_DISABLED};
    struct hmreg *lib = NULL;

    app_start();
    assert_ok(hmreg_open(&config, &lib));
    return lib;
}

static void close_library(struct hmreg *lib)
{
    assert_ok(hmreg_close(lib));
    app_stop();
}

static struct hmreg_mem_info query(struct hmreg *lib, const void *addr, size_t len)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};

    assert_ok(hmreg_query(lib, addr, len, &info));
    return info;
}

static void runtime__simulated__present(void **state)
{
    struct hmreg *lib = open_library();
    struct hmreg_runtime_info info = {.size = sizeof(info)};

    assert_ok(hmreg_runtime_query(lib, HMREG_IFACE_ROCR, &info));
    assert_int_equal(info.present, 1);
    assert_int_equal(info.devices, 2);
    assert_string_equal(info.why, "");
    close_library(lib);
}

static void runtime__no_driver__absent_and_why(void **state)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_DISABLED};
    struct hmreg_runtime_info info = {.size = sizeof(info)};
    struct hmreg *lib = NULL;
    void *memory = lib;
    char local[16];

    app_start();
    app_fail("hsa_init", HSA_STATUS_ERROR_OUT_OF_RESOURCES, 0, -1);
    assert_ok(hmreg_open(&config, &lib));
    assert_ok(hmreg_runtime_query(lib, HMREG_IFACE_ROCR, &info));
    assert_int_equal(info.present, 0);
    assert_non_null(strstr(info.why, "/dev/kfd"));
    assert_int_equal(query(lib, local, sizeof(local)).iface, HMREG_IFACE_SYSTEM);
    assert_fails(hmreg_mem_alloc(lib, HMREG_IFACE_ROCR, 0, HMREG_MEM_DEVICE, 1, &memory), -ENODEV,
                 "/dev/kfd");
    close_library(lib);
}

static void query__device_memory__what_it_is(void **state)
{
    struct hmreg *lib = open_library();
    char *memory = app_alloc(1, LEN);
    struct hmreg_mem_info info = query(lib, memory + SKIP, PIECE);

    assert_int_equal(info.iface, HMREG_IFACE_ROCR);
    assert_int_equal(info.device, 1);
    assert_int_equal(info.pci.bus, 0x63);
    assert_int_equal(info.kind, HMREG_MEM_DEVICE);
    assert_int_equal(info.flags, HMREG_MEM_EXPORTABLE | HMREG_MEM_SIMULATED);
    assert_int_equal(info.segments, 1);
    assert_int_equal(info.alloc_base, at(memory));
    assert_int_equal(info.alloc_len, LEN);
    assert_int_not_equal(info.identity, 0);
    assert_int_equal(info.host_addr, 0);
    app_free(memory);
    close_library(lib);
}

static void query__pinned_memory__what_it_is(void **state)
{
    struct hmreg *lib = open_library();
    char *memory = app_alloc_host(LEN);
    struct hmreg_mem_info info = query(lib, memory + SKIP, PIECE);

    assert_int_equal(info.iface, HMREG_IFACE_ROCR);
    assert_int_equal(info.device, -1);
    assert_int_equal(info.kind, HMREG_MEM_HOST_PINNED);
    assert_int_equal(info.flags, HMREG_MEM_CPU_ACCESS);
    assert_int_equal(info.host_addr, at(memory + SKIP));
    app_free(memory);
    close_library(lib);
}

static void query__leaves_the_allocation__range(void **state)
{
    struct hmreg *lib = open_library();
    char *memory = app_alloc(0, LEN);
    struct hmreg_mem_info info = {.size = sizeof(info), .device = 77};

    assert_fails(hmreg_query(lib, memory + 1, LEN, &info), -ERANGE, "leaves its allocation");
    assert_int_equal(info.device, 77);
    app_free(memory);
    close_library(lib);
}

static void export__odd_offset__its_bytes(void **state)
{
    struct hmreg *lib = open_library();
    char *memory = app_alloc(0, LEN);
    struct hmreg_dmabuf dmabuf = {.fd = -1};
    unsigned char *mapped;

    app_fill(memory, LEN, 3);
    assert_ok(hmreg_export_dmabuf(lib, memory + SKIP, PIECE, 0, &dmabuf));
    assert_int_equal(dmabuf.offset, SKIP);
    mapped = mmap(NULL, LEN, PROT_READ, MAP_SHARED, dmabuf.fd, 0);
    assert_ptr_not_equal(mapped, MAP_FAILED);
    assert_int_equal(mapped[dmabuf.offset], pattern(SKIP, 3));
    assert_int_equal(mapped[dmabuf.offset + PIECE - 1], pattern(SKIP + PIECE - 1, 3));
    munmap(mapped, LEN);
    close(dmabuf.fd);
    app_free(memory);
    close_library(lib);
}

static void copy__device_pinned_and_process__same_bytes(void **state)
{
    struct hmreg *lib = open_library();
    void *first = NULL, *second = NULL, *pinned = NULL;
    unsigned char *host = calloc(1, LEN);

    assert_ok(hmreg_mem_alloc(lib, HMREG_IFACE_ROCR, 0, HMREG_MEM_DEVICE, LEN, &first));
    assert_ok(hmreg_mem_alloc(lib, HMREG_IFACE_ROCR, 1, HMREG_MEM_DEVICE, LEN, &second));
    assert_ok(hmreg_mem_alloc(lib, HMREG_IFACE_ROCR, 0, HMREG_MEM_HOST_PINNED, LEN, &pinned));
    for (size_t i = 0; i < LEN; i++)
        host[i] = pattern(i, 9);
    assert_ok(hmreg_copy(lib, first, host, LEN));
    assert_ok(hmreg_copy(lib, second, first, LEN));
    assert_ok(hmreg_copy(lib, pinned, second, LEN));
    assert_memory_equal(pinned, host, LEN);
    assert_ok(hmreg_mem_free(lib, first));
    assert_ok(hmreg_mem_free(lib, second));
    assert_ok(hmreg_mem_free(lib, pinned));
    free(host);
    close_library(lib);
}

static void alloc__managed__not_supported(void **state)
{
    struct hmreg *lib = open_library();
    void *memory = lib;

    assert_fails(hmreg_mem_alloc(lib, HMREG_IFACE_ROCR, 0, HMREG_MEM_MANAGED, LEN, &memory),
                 -EOPNOTSUPP, "not managed");
    assert_ptr_equal(memory, lib);
    close_library(lib);
}

/* ---- registered ------------------------------------------------------------------------- */

static struct hmreg_remote *peer_of(struct hmreg_domain *domain, const struct hmreg_mr *mr)
{
    struct hmreg_remote *remote = NULL;
    unsigned char token[1024];
    size_t size = sizeof(token);

    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(domain, token, size, &remote));
    return remote;
}

static void write_by_rma(struct hmreg_domain *domain, const struct hmreg_mr *mr, const void *from,
                         size_t len)
{
    struct hmreg_remote *remote = peer_of(domain, mr);
    uint64_t addr = 0, key = 0;

    assert_ok(hmreg_remote_addr(remote, 0, len, &addr, &key));
    assert_ok(hmreg_loopback_write(remote, from, len, NULL, addr, key));
    hmreg_remote_close(remote);
}

static void check_registered(const struct hmreg_mr *mr, int device)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};

    assert_ok(hmreg_mr_query(mr, &info));
    assert_int_equal(info.iface, HMREG_IFACE_ROCR);
    assert_int_equal(info.device, device);
}

/* A peer writes an odd piece of device memory; its neighbours stay. */
static void reg__device_memory__a_peer_writes_it(void **state)
{
    struct hmreg *lib = open_library();
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *mr = NULL;
    char *memory = app_alloc(1, LEN);
    unsigned char *peek = app.fake->peek(at(memory));
    unsigned char *from = malloc(PIECE);

    memset(from, 0xab, PIECE);
    app_fill(memory, LEN, 1);
    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    assert_ok(hmreg_mr_reg(domain, memory + SKIP, PIECE, HMREG_ACCESS_ALL, 0, 7, 0, &mr, NULL));
    check_registered(mr, 1);
    write_by_rma(domain, mr, from, PIECE);
    assert_memory_equal(peek + SKIP, from, PIECE);
    assert_int_equal(peek[SKIP - 1], pattern(SKIP - 1, 1));
    assert_int_equal(peek[SKIP + PIECE], pattern(SKIP + PIECE, 1));
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain));
    free(from);
    app_free(memory);
    close_library(lib);
}

static void reg__pinned_memory__a_peer_writes_it(void **state)
{
    struct hmreg *lib = open_library();
    struct hmreg_domain *domain = NULL;
    struct hmreg_mr *mr = NULL;
    char *memory = app_alloc_host(LEN);
    char from[] = "written by a peer";

    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    assert_ok(
        hmreg_mr_reg(domain, memory + SKIP, sizeof(from), HMREG_ACCESS_ALL, 0, 7, 0, &mr, NULL));
    check_registered(mr, -1);
    write_by_rma(domain, mr, from, sizeof(from));
    assert_string_equal(memory + SKIP, from);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain));
    app_free(memory);
    close_library(lib);
}

TEST_MAIN(TEST(runtime__simulated__present), TEST(runtime__no_driver__absent_and_why),
          TEST(query__device_memory__what_it_is), TEST(query__pinned_memory__what_it_is),
          TEST(query__leaves_the_allocation__range), TEST(export__odd_offset__its_bytes),
          TEST(copy__device_pinned_and_process__same_bytes), TEST(alloc__managed__not_supported),
          TEST(reg__device_memory__a_peer_writes_it), TEST(reg__pinned_memory__a_peer_writes_it))
