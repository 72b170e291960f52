/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Level Zero through the public interface: query, export, copy, and a region of device memory
 * that a peer reaches by the built-in loopback.
 */
#include "tests/gpu/ze/bench.h"

#include <errno.h>
#include <hmreg/loopback.h>
#include <unistd.h>

#define BYTES 100000

static struct hmreg *open_library(void)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_ZE)};
    struct hmreg *lib = NULL;

    assert_ok(hmreg_open(&config, &lib));
    return lib;
}

static char *alloc(struct hmreg *lib, int device, enum hmreg_mem_kind kind)
{
    void *made = NULL;

    assert_ok(hmreg_mem_alloc(lib, HMREG_IFACE_ZE, device, kind, BYTES, &made));
    return made;
}

static void runtime_and_devices__are_told(void **state)
{
    struct hmreg *lib = open_library();
    struct hmreg_runtime_info runtime = {.size = sizeof(runtime)};
    struct hmreg_device_info device = {.size = sizeof(device)};

    assert_ok(hmreg_runtime_query(lib, HMREG_IFACE_ZE, &runtime));
    assert_int_equal(runtime.present, 1);
    assert_int_equal(runtime.devices, 2);
    assert_string_equal(runtime.version, "1.4, driver 100");
    assert_ok(hmreg_device_query(lib, HMREG_IFACE_ZE, 1, &device));
    assert_string_equal(device.name, "simulated Level Zero device 1");
    assert_int_equal(device.flags, HMREG_DEVICE_SIMULATED | HMREG_DEVICE_DMABUF);
    assert_int_equal(device.pci.bus, 0x61);
    assert_fails(hmreg_device_query(lib, HMREG_IFACE_ZE, 2, &device), -ENODEV, "no device 2");
    assert_ok(hmreg_close(lib));
}

static void query__each_kind__is_told(void **state)
{
    struct hmreg *lib = open_library();
    struct hmreg_mem_info info = {.size = sizeof(info)};
    char *device = alloc(lib, 1, HMREG_MEM_DEVICE);
    char *pinned = alloc(lib, 0, HMREG_MEM_HOST_PINNED);
    char *shared = alloc(lib, 0, HMREG_MEM_MANAGED);

    assert_ok(hmreg_query(lib, device + 3, BYTES - 3, &info));
    assert_int_equal(info.iface, HMREG_IFACE_ZE);
    assert_int_equal(info.device, 1);
    assert_int_equal(info.pci.bus, 0x61);
    assert_int_equal(info.kind, HMREG_MEM_DEVICE);
    assert_int_equal(info.flags, HMREG_MEM_EXPORTABLE | HMREG_MEM_SIMULATED);
    assert_int_equal(info.alloc_base, (uintptr_t)device);
    assert_int_equal(info.alloc_len, BYTES);
    assert_ok(hmreg_query(lib, pinned, BYTES, &info));
    assert_int_equal(info.kind, HMREG_MEM_HOST_PINNED);
    assert_int_equal(info.flags & HMREG_MEM_CPU_ACCESS, HMREG_MEM_CPU_ACCESS);
    assert_ok(hmreg_query(lib, shared, BYTES, &info));
    assert_int_equal(info.kind, HMREG_MEM_MANAGED);
    assert_ok(hmreg_query(lib, &info, sizeof(info), &info));
    assert_int_equal(info.iface, HMREG_IFACE_SYSTEM);
    assert_fails(hmreg_query(lib, device + 1, BYTES, &info), -ERANGE, "leaves");
    assert_ok(hmreg_mem_free(lib, device));
    assert_ok(hmreg_mem_free(lib, pinned));
    assert_ok(hmreg_mem_free(lib, shared));
    assert_ok(hmreg_close(lib));
}

/* The simulation keeps its addresses reserved, so the system knows them; nobody can touch them. */
static void query__freed_device_memory__not_of_the_device(void **state)
{
    struct hmreg *lib = open_library();
    struct hmreg_mem_info info = {.size = sizeof(info)};
    char *device = alloc(lib, 0, HMREG_MEM_DEVICE);

    assert_ok(hmreg_mem_free(lib, device));
    assert_ok(hmreg_query(lib, device, 64, &info));
    assert_int_equal(info.iface, HMREG_IFACE_SYSTEM);
    assert_int_equal(info.flags & HMREG_MEM_CPU_ACCESS, 0);
    assert_ok(hmreg_close(lib));
}

static void export_and_copy__name_the_same_bytes(void **state)
{
    struct hmreg *lib = open_library();
    struct hmreg_dmabuf dmabuf = {.fd = -1};
    char *device = alloc(lib, 0, HMREG_MEM_DEVICE);
    char out[333], in[333] = {0};

    memset(out, 'x', sizeof(out));
    assert_ok(hmreg_copy(lib, device + 4567, out, sizeof(out)));
    assert_ok(hmreg_export_dmabuf(lib, device + 4567, sizeof(out), 0, &dmabuf));
    assert_int_equal(dmabuf.offset, 4567);
    assert_int_equal(dmabuf.length, sizeof(out));
    assert_ok(hmreg_copy(lib, in, device + 4567, sizeof(in)));
    assert_memory_equal(in, out, sizeof(in));
    close(dmabuf.fd);
    assert_ok(hmreg_mem_free(lib, device));
    assert_ok(hmreg_close(lib));
}

/* A region and the remote side of it, in one process. */
struct fixture {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;
    struct hmreg_remote *remote;
};

static void open_fixture(struct fixture *fixture, char *memory)
{
    char token[4096];
    size_t size = sizeof(token);

    assert_ok(hmreg_mr_reg(fixture->domain, memory, BYTES, HMREG_ACCESS_REMOTE, 0, 5, 0,
                           &fixture->mr, NULL));
    assert_ok(hmreg_mr_pack(fixture->mr, token, &size));
    assert_ok(hmreg_remote_open(fixture->domain, token, size, &fixture->remote));
}

static void close_fixture(struct fixture *fixture)
{
    hmreg_remote_close(fixture->remote);
    assert_ok(hmreg_mr_close(fixture->mr));
}

static void check_rma(struct fixture *fixture, unsigned char *bytes)
{
    char out[999], in[999] = {0};
    uint64_t addr, key;

    memset(out, 'r', sizeof(out));
    memset(bytes, 0, BYTES);
    assert_ok(hmreg_remote_addr(fixture->remote, 8191, sizeof(out), &addr, &key));
    assert_ok(hmreg_loopback_write(fixture->remote, out, sizeof(out), NULL, addr, key));
    assert_memory_equal(bytes + 8191, out, sizeof(out));
    assert_int_equal(bytes[8190], 0);
    assert_int_equal(bytes[8191 + sizeof(out)], 0);
    assert_ok(hmreg_loopback_read(fixture->remote, in, sizeof(in), NULL, addr, key));
    assert_memory_equal(in, out, sizeof(in));
}

static void region__of_each_kind__is_reached_by_a_peer(void **state)
{
    static const struct {
        enum hmreg_mem_kind kind;
        enum hmreg_path order, path;
    } cases[] = {{HMREG_MEM_DEVICE, HMREG_PATH_MAPPED, HMREG_PATH_MAPPED},
                 {HMREG_MEM_DEVICE, HMREG_PATH_PEERMEM, HMREG_PATH_PEERMEM},
                 {HMREG_MEM_HOST_PINNED, HMREG_PATH_MAPPED, HMREG_PATH_SYSTEM},
                 {HMREG_MEM_MANAGED, HMREG_PATH_MAPPED, HMREG_PATH_SYSTEM}};
    struct fixture fixture = {.lib = open_library()};

    for (int i = 0; i < 4; i++) {
        struct hmreg_domain_config config = {.size = sizeof(config), .order = {cases[i].order}};
        struct hmreg_explanation why = {.size = sizeof(why)};
        char *memory = alloc(fixture.lib, i % 2, cases[i].kind);

        assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, &config, &fixture.domain));
        open_fixture(&fixture, memory);
        assert_ok(hmreg_explain(fixture.mr, &why));
        assert_int_equal(why.iface, HMREG_IFACE_ZE);
        assert_int_equal(why.path, cases[i].path);
        check_rma(&fixture, bench_peek((uintptr_t)memory));
        close_fixture(&fixture);
        assert_ok(hmreg_domain_close(fixture.domain));
        assert_ok(hmreg_mem_free(fixture.lib, memory));
    }
    assert_ok(hmreg_close(fixture.lib));
}

/* Memory over two tiles has no one descriptor: no CPU mapping of it, and the reason is told. */
static void region__over_tiles__refused_with_the_reason(void **state)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .order = {HMREG_PATH_MAPPED}};
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct fixture fixture = {0};
    char *memory;

    bench_set("HMREG_FAKE_ZE_TILES", 2);
    fixture.lib = open_library();
    assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, &config, &fixture.domain));
    memory = alloc(fixture.lib, 0, HMREG_MEM_DEVICE);
    assert_fails(hmreg_mr_reg(fixture.domain, memory, BYTES, HMREG_ACCESS_REMOTE, 0, 5, 0,
                              &fixture.mr, NULL),
                 -EOPNOTSUPP, "lies on 2 tiles");
    assert_null(fixture.mr);
    assert_ok(hmreg_explain(NULL, &why));
    assert_int_equal(why.refused, 1);
    assert_int_equal(why.reasons[0].path, HMREG_PATH_MAPPED);
    assert_int_equal(why.reasons[0].code, -EXDEV);
    assert_ok(hmreg_mem_free(fixture.lib, memory));
    assert_ok(hmreg_domain_close(fixture.domain));
    assert_ok(hmreg_close(fixture.lib));
    bench_unset("HMREG_FAKE_ZE_TILES");
}

/* The address is used again at once: a region of the freed memory is never given out. */
static void get__after_free_at_the_same_address__fresh(void **state)
{
    struct hmreg *lib = open_library();
    struct hmreg_domain *domain = NULL;
    char *first = alloc(lib, 0, HMREG_MEM_DEVICE);
    struct hmreg_mr *before = NULL, *after = NULL;
    struct hmreg_remote *remote = NULL;
    char token[4096], out[8] = "is here";
    size_t size = sizeof(token);
    uint64_t addr, key;

    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    assert_ok(hmreg_mr_get(domain, first, BYTES, HMREG_ACCESS_REMOTE, &before));
    hmreg_mr_put(before);
    assert_ok(hmreg_mem_free(lib, first));
    assert_ptr_equal(alloc(lib, 0, HMREG_MEM_DEVICE), first);
    assert_ok(hmreg_mr_get(domain, first, BYTES, HMREG_ACCESS_REMOTE, &after));
    assert_ok(hmreg_mr_pack(after, token, &size));
    assert_ok(hmreg_remote_open(domain, token, size, &remote));
    assert_ok(hmreg_remote_addr(remote, 0, sizeof(out), &addr, &key));
    assert_ok(hmreg_loopback_write(remote, out, sizeof(out), NULL, addr, key));
    assert_string_equal((char *)bench_peek((uintptr_t)first), "is here");
    hmreg_remote_close(remote);
    hmreg_mr_put(after);
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_mem_free(lib, first));
    assert_ok(hmreg_close(lib));
}

TEST_MAIN(TEST(runtime_and_devices__are_told), TEST(query__each_kind__is_told),
          TEST(query__freed_device_memory__not_of_the_device),
          TEST(export_and_copy__name_the_same_bytes),
          TEST(region__of_each_kind__is_reached_by_a_peer),
          TEST(region__over_tiles__refused_with_the_reason),
          TEST(get__after_free_at_the_same_address__fresh))
