/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Memory of every device of this machine (the simulated ones, as CMakeLists.txt runs it) on a real
 * fabric, accessed by a peer in another process. The owner checks it through the vendor's runtime.
 */
#include "tests/support/fabric.h"
#include "tests/support/queries.h"

#include <hmreg/group.h>
#include <hmreg/loopback.h>
#include <sys/mman.h>

#define BYTES 300000

struct fixture {
    struct fabric fabric;
    enum hmreg_iface iface;
    int device;
    char *memory; /* BYTES of the device, zero */
    struct hmreg_mr *mr;
};

/* ---- devices ---------------------------------------------------------------------------- */

static int devices_of(struct hmreg *lib, enum hmreg_iface iface)
{
    struct hmreg_runtime_info info = {.size = sizeof(info)};

    assert_ok(hmreg_runtime_query(lib, iface, &info));
    return info.present ? info.devices : 0;
}

static void allocate(struct fixture *fixture)
{
    static const unsigned char zero[BYTES];

    assert_ok(hmreg_mem_alloc(fixture->fabric.lib, fixture->iface, fixture->device,
                              HMREG_MEM_DEVICE, BYTES, (void **)&fixture->memory));
    assert_ok(hmreg_copy(fixture->fabric.lib, fixture->memory, zero, BYTES));
}

static void on_each_device(const struct endpoint_hints *hints,
                           void (*test)(struct fixture *fixture))
{
    struct fixture fixture = {.mr = NULL};
    int tested = 0;

    fabric_open_pair(&fixture.fabric, hints);
    for (int iface = HMREG_IFACE_CUDA; iface < HMREG_IFACE_COUNT; iface++) {
        for (int i = 0; i < devices_of(fixture.fabric.lib, iface); i++, tested++) {
            fixture.iface = iface;
            fixture.device = i;
            allocate(&fixture);
            test(&fixture);
            assert_ok(hmreg_mr_close(fixture.mr));
            fixture.mr = NULL;
            assert_ok(hmreg_mem_free(fixture.fabric.lib, fixture.memory));
        }
    }
    fabric_close(&fixture.fabric);
    if (!tested)
        test_skip("no runtime of a vendor has a device here");
}

/* Checks that the device's memory is zero but for len bytes at offset, which are the seed's. */
static void assert_only(struct fixture *fixture, size_t offset, size_t len, unsigned seed)
{
    static unsigned char bytes[BYTES];

    assert_ok(hmreg_copy(fixture->fabric.lib, bytes, fixture->memory, BYTES));
    for (size_t i = 0; i < BYTES; i++) {
        bool inside = i >= offset && i - offset < len;
        unsigned char wanted = inside ? fabric_byte(seed, i - offset) : 0;

        if (bytes[i] != wanted)
            fail_msg("%s device %d: byte %zu is %#x, not %#x; the peer wrote %zu bytes at %zu",
                     hmreg_iface_name(fixture->iface), fixture->device, i, bytes[i], wanted, len,
                     offset);
    }
}

/* ---- expectations ----------------------------------------------------------------------- */

static bool is_shm(void)
{
    return !strcmp(fabric_name(), "shm");
}

/* Does a mapping of the memory's descriptor have pages, as process_vm_readv(2) needs them? */
static bool has_pages(struct fixture *fixture)
{
    struct hmreg_dmabuf dmabuf;
    struct iovec to, from;
    char byte, *mapped;
    bool found;

    assert_ok(hmreg_export_dmabuf(fixture->fabric.lib, fixture->memory, BYTES, 0, &dmabuf));
    mapped = mmap(NULL, dmabuf.offset + BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf.fd, 0);
    close(dmabuf.fd);
    assert_ptr_not_equal(mapped, MAP_FAILED);
    to = (struct iovec){&byte, 1};
    from = (struct iovec){mapped + dmabuf.offset, 1};
    found = process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
    munmap(mapped, dmabuf.offset + BYTES);
    return found;
}

static bool cma_is_off(const struct fixture *fixture)
{
    const char *setting = getenv("FI_SHM_DISABLE_CMA");

    return (setting && !strcmp(setting, "1")) || fixture->fabric.endpoint.info->caps & FI_HMEM;
}

static bool can_be_reached(struct fixture *fixture)
{
    return !is_shm() || cma_is_off(fixture) || has_pages(fixture);
}

static int reg(struct fixture *fixture)
{
    return hmreg_mr_reg(fixture->fabric.domain, fixture->memory, BYTES, HMREG_ACCESS_ALL, 0, 0, 0,
                        &fixture->mr, NULL);
}

static const struct hmreg_reason *reason(const struct hmreg_explanation *why, enum hmreg_path path)
{
    for (uint32_t i = 0; i < why->refused; i++)
        if (why->reasons[i].path == path)
            return &why->reasons[i];
    fail_msg("path %s was not refused", hmreg_path_name(path));
    return NULL;
}

/* ---- tests ------------------------------------------------------------------------------ */

static void check_refusal(struct fixture *fixture)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    assert_fails(reg(fixture), -EOPNOTSUPP, "no path to this");
    assert_null(fixture->mr);
    assert_ok(hmreg_mr_explain(NULL, &why));
    assert_int_equal(why.path, HMREG_PATH_NONE);
    assert_int_equal(why.iface, fixture->iface);
    assert_int_equal(why.device, fixture->device);
    assert_int_equal(why.refused, 3);
    assert_string_equal(reason(&why, HMREG_PATH_MAPPED)->slug, "mapping-has-no-pages");
    assert_int_equal(reason(&why, HMREG_PATH_MAPPED)->vendor_code, EFAULT);
    assert_non_null(strstr(reason(&why, HMREG_PATH_MAPPED)->text, "FI_SHM_DISABLE_CMA=1"));
}

static void write_and_read(struct fixture *fixture)
{
    static const struct {
        size_t offset, len;
    } places[] = {{1, 1}, {4097, 777}, {4095, 5001}, {333, 200001}, {BYTES - 1, 1}};
    static const unsigned char zero[BYTES];

    if (!can_be_reached(fixture)) {
        check_refusal(fixture);
        return;
    }
    assert_ok(reg(fixture));
    assert_ok(peer_take_region(&fixture->fabric, fixture->mr));
    for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        assert_ok(hmreg_copy(fixture->fabric.lib, fixture->memory, zero, BYTES));
        assert_ok(peer_write(&fixture->fabric, places[i].offset, places[i].len, i));
        assert_ok(peer_read(&fixture->fabric, places[i].offset, places[i].len, i));
        assert_only(fixture, places[i].offset, places[i].len, i);
    }
}

TEST(rma__device_memory__exact_bytes_or_a_reason)
{
    on_each_device(NULL, write_and_read);
}

/* A part of an allocation, at an odd offset: the peer must not reach its neighbours. */
static void write_part(struct fixture *fixture)
{
    if (!can_be_reached(fixture))
        return;
    assert_ok(hmreg_mr_reg(fixture->fabric.domain, fixture->memory + 70001, 9999, HMREG_ACCESS_ALL,
                           0, 0, 0, &fixture->mr, NULL));
    assert_ok(peer_take_region(&fixture->fabric, fixture->mr));
    assert_fails(peer_write(&fixture->fabric, 9998, 2, 1), -ERANGE, "outside the region");
    assert_ok(peer_write(&fixture->fabric, 0, 9999, 6));
    assert_ok(peer_read(&fixture->fabric, 0, 9999, 6));
    assert_only(fixture, 70001, 9999, 6);
}

TEST(rma__part_of_an_allocation__exact_bytes)
{
    on_each_device(NULL, write_part);
}

static void check_paths(struct fixture *fixture)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr_info info = {.size = sizeof(info)};

    if (!can_be_reached(fixture))
        return;
    assert_ok(reg(fixture));
    assert_ok(hmreg_mr_explain(fixture->mr, &why));
    assert_int_equal(why.path, HMREG_PATH_MAPPED);
    assert_int_equal(why.refused, 2);
    assert_int_equal(why.reasons[0].path, HMREG_PATH_DMABUF);
    assert_string_equal(why.reasons[0].slug, "fabric-imports-no-dmabuf");
    assert_int_equal(why.reasons[1].path, HMREG_PATH_PEERMEM);
    assert_string_equal(why.reasons[1].slug, "no-fi-hmem");
    assert_ok(hmreg_mr_query(fixture->mr, &info));
    assert_int_equal(info.iface, fixture->iface);
    assert_int_equal(info.device, fixture->device);
    assert_int_equal(info.addr, (uintptr_t)fixture->memory);
    assert_int_not_equal(info.local_addr, info.addr);
}

TEST(explain__device_memory__path_and_reasons)
{
    on_each_device(NULL, check_paths);
}

/* The fabric's local operations use the mapping's address and the region's desc. */
static void start_from_it(struct fixture *fixture)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_remote *remote;
    uint64_t addr, key;

    if (!can_be_reached(fixture))
        return;
    assert_ok(reg(fixture));
    assert_ok(hmreg_mr_query(fixture->mr, &info));
    assert_ok(peer_offer(&fixture->fabric, 50000, 3, &remote));
    assert_ok(hmreg_remote_addr(remote, 0, 50000, &addr, &key));
    assert_int_equal(endpoint_read(&fixture->fabric.endpoint, (char *)info.local_addr + 77, 50000,
                                   hmreg_mr_desc(fixture->mr), addr, key),
                     0);
    assert_only(fixture, 77, 50000, 3);
    assert_ok(hmreg_remote_addr(remote, 1, 10000, &addr, &key));
    assert_int_equal(endpoint_write(&fixture->fabric.endpoint, (char *)info.local_addr + 77, 10000,
                                    hmreg_mr_desc(fixture->mr), addr, key),
                     0);
    /* Each operation is followed by a read of the bytes: see host.c. */
    assert_int_equal(endpoint_read(&fixture->fabric.endpoint, (char *)info.local_addr + 77, 10000,
                                   hmreg_mr_desc(fixture->mr), addr, key),
                     0);
    assert_ok(peer_check(&fixture->fabric, 0, 1, 3));
    assert_ok(peer_check(&fixture->fabric, 1, 10000, 3));
    hmreg_remote_close(remote);
}

TEST(rma__we_start_it_from_device_memory__exact_bytes)
{
    on_each_device(NULL, start_from_it);
}

/* A freed address is reused at once; a region of the old memory must not be. */
static void free_and_allocate(struct fixture *fixture)
{
    void *before = fixture->memory;
    struct hmreg_mr *mr;

    if (!can_be_reached(fixture))
        return;
    assert_ok(hmreg_mr_get(fixture->fabric.domain, fixture->memory, BYTES, HMREG_ACCESS_ALL, &mr));
    hmreg_mr_put(mr);
    assert_ok(hmreg_mem_free(fixture->fabric.lib, fixture->memory));
    allocate(fixture);
    if (fixture->memory != before)
        return; /* a real runtime may choose another address */
    assert_ok(hmreg_mr_get(fixture->fabric.domain, fixture->memory, BYTES, HMREG_ACCESS_ALL, &mr));
    assert_ok(peer_take_region(&fixture->fabric, mr));
    assert_ok(peer_write(&fixture->fabric, 99, 5000, 4));
    assert_ok(peer_read(&fixture->fabric, 99, 5000, 4));
    assert_only(fixture, 99, 5000, 4);
    hmreg_mr_put(mr);
}

TEST(get__memory_freed_and_allocated_anew__the_new_bytes)
{
    on_each_device(NULL, free_and_allocate);
}

/* For a fabric, a device runtime's host memory is host memory. */
static void use_pinned(struct fixture *fixture)
{
    unsigned char *pinned = NULL;

    assert_ok(hmreg_mem_alloc(fixture->fabric.lib, fixture->iface, fixture->device,
                              HMREG_MEM_HOST_PINNED, 9000, (void **)&pinned));
    memset(pinned, 0, 9000);
    assert_ok(hmreg_mr_reg(fixture->fabric.domain, pinned + 1, 8000, HMREG_ACCESS_ALL, 0, 0, 0,
                           &fixture->mr, NULL));
    assert_int_equal(test_info_of(fixture->mr).path, HMREG_PATH_SYSTEM);
    assert_ok(peer_take_region(&fixture->fabric, fixture->mr));
    assert_ok(peer_write(&fixture->fabric, 5, 7000, 2));
    assert_ok(peer_read(&fixture->fabric, 5, 7000, 2));
    assert_int_equal(pinned[5], 0);
    assert_int_equal(pinned[6], fabric_byte(2, 0));
    assert_int_equal(pinned[7005], fabric_byte(2, 6999));
    assert_int_equal(pinned[7006], 0);
    assert_ok(hmreg_mr_close(fixture->mr));
    fixture->mr = NULL;
    assert_ok(hmreg_mem_free(fixture->fabric.lib, pinned));
}

TEST(rma__pinned_host_memory__path_system)
{
    on_each_device(NULL, use_pinned);
}

/* ---- two rails -------------------------------------------------------------------------- */

/* The peer writes by the fabric, then we by loopback, with what one token says. */
static void write_on_both(struct fixture *fixture, struct hmreg_domain *loopback,
                          const struct hmreg_mr *mr)
{
    struct hmreg_remote *remote = NULL;
    unsigned char bytes[100], token[4096];
    size_t size = sizeof(token), rail_size;
    uint64_t addr, key;
    const void *rail;

    for (unsigned i = 0; i < sizeof(bytes); i++)
        bytes[i] = fabric_byte(7, 5000 + i);
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_token_rail(token, size, 0, &rail, &rail_size));
    assert_ok(peer_take(&fixture->fabric, rail, rail_size));
    assert_ok(peer_write(&fixture->fabric, 333, 5000, 7));
    assert_ok(hmreg_token_rail(token, size, 1, &rail, &rail_size));
    assert_ok(hmreg_remote_open(loopback, rail, rail_size, &remote));
    assert_ok(hmreg_remote_addr(remote, 5333, sizeof(bytes), &addr, &key));
    assert_ok(hmreg_loopback_write(remote, bytes, sizeof(bytes), NULL, addr, key));
    hmreg_remote_close(remote);
    assert_ok(peer_read(&fixture->fabric, 333, 5100, 7));
    assert_only(fixture, 333, 5100, 7);
}

/* The fabric's rail goes by a mapping, loopback's by the device's address. */
static void use_group(struct fixture *fixture)
{
    struct hmreg_domain *members[2] = {fixture->fabric.domain, NULL}, *group = NULL;
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr = NULL;

    if (!can_be_reached(fixture))
        return;
    assert_ok(hmreg_domain_open_loopback(fixture->fabric.lib, NULL, NULL, &members[1]));
    assert_ok(hmreg_group_open(fixture->fabric.lib, members, 2, NULL, &group));
    assert_ok(hmreg_mr_get(group, fixture->memory, BYTES, HMREG_ACCESS_ALL, &mr));
    assert_ok(hmreg_mr_query(hmreg_mr_rail(mr, 0), &info));
    assert_int_equal(info.path, HMREG_PATH_MAPPED);
    assert_int_not_equal(info.local_addr, (uintptr_t)fixture->memory);
    assert_ok(hmreg_mr_query(hmreg_mr_rail(mr, 1), &info));
    assert_int_equal(info.path, HMREG_PATH_PEERMEM);
    assert_int_equal(info.local_addr, (uintptr_t)fixture->memory);
    write_on_both(fixture, members[1], mr);
    hmreg_mr_put(mr);
    assert_ok(hmreg_domain_close(group));
    assert_ok(hmreg_domain_close(members[1]));
}

TEST(group__device_memory__exact_bytes_on_both_rails)
{
    on_each_device(NULL, use_group);
}

/* ---- FI_HMEM ---------------------------------------------------------------------------- */

/* Debian's libfabric is built without any runtime: it refuses the address, and shm, which never
 * uses CMA with FI_HMEM, uses the mapping. */
static void check_hmem(struct fixture *fixture)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    write_and_read(fixture);
    assert_ok(hmreg_mr_explain(fixture->mr, &why));
    if (why.path == HMREG_PATH_PEERMEM)
        return;
    assert_int_equal(why.path, HMREG_PATH_MAPPED);
    assert_string_equal(reason(&why, HMREG_PATH_PEERMEM)->slug, "fabric-refused");
    assert_int_equal(reason(&why, HMREG_PATH_PEERMEM)->code, -ENOSYS);
    assert_int_equal(reason(&why, HMREG_PATH_PEERMEM)->vendor_code, -ENOSYS);
}

TEST(rma__domain_with_fi_hmem__exact_bytes)
{
    struct endpoint_hints hints = {.caps = FI_HMEM};

    on_each_device(&hints, check_hmem);
}

/* Debian's libfabric is built without Neuron's runtime. */
static void check_neuron(struct fixture *fixture)
{
    struct iovec iov = {(void *)0x10000, 4096};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_ALL,
                                 .claim_iface = HMREG_CLAIM_TRUSTED,
                                 .iface = HMREG_IFACE_NEURON};
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_regattr(fixture->fabric.domain, &attr, 0, &mr);

    assert_ok(hmreg_mr_explain(mr, &why));
    if (rc == 0) {
        assert_int_equal(why.path, HMREG_PATH_PEERMEM);
        assert_ok(hmreg_mr_close(mr));
        return;
    }
    assert_int_equal(rc, -EOPNOTSUPP);
    assert_string_equal(reason(&why, HMREG_PATH_PEERMEM)->slug, "fabric-refused");
    assert_int_equal(reason(&why, HMREG_PATH_PEERMEM)->vendor_code, -ENOSYS);
}

TEST(reg__neurons_memory_with_fi_hmem__libfabric_decides)
{
    struct endpoint_hints hints = {.caps = FI_HMEM};

    on_each_device(&hints, check_neuron);
}

FABRIC_TEST_MAIN()
