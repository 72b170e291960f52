/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * dmabufs of Level Zero memory whose descriptor covers more or less than the allocation: large
 * pages, pools, tiles; and possible driver responses to an export.
 */
#include "tests/gpu/ze/bench.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* The kernel's dmabufs report their length by lseek alone; the file of a simulated one may only
 * support fstat. With this on it behaves as the kernel's: hmem/ze/ze_export.c calls these two (see
 * CMakeLists.txt). */
static bool as_the_kernel;

off_t test_lseek(int fd, off_t offset, int whence);
int test_fstat(int fd, struct stat *status);

off_t test_lseek(int fd, off_t offset, int whence)
{
    struct stat status;

    if (!as_the_kernel)
        return lseek(fd, offset, whence);
    assert_int_equal(offset, 0);
    assert_int_equal(fstat(fd, &status), 0);
    return whence == SEEK_END ? status.st_size : 0;
}

int test_fstat(int fd, struct stat *status)
{
    int rc = fstat(fd, status);

    if (as_the_kernel) {
        status->st_mode = 0;
        status->st_size = 0;
    }
    return rc;
}

/* What another thread does before the next descriptor is duplicated. */
static void (*meanwhile)(int fd);

int test_fcntl(int fd, int command, ...);

int test_fcntl(int fd, int command, ...)
{
    void (*run)(int) = command == F_DUPFD_CLOEXEC ? meanwhile : NULL;
    va_list args;
    int value;

    va_start(args, command);
    value = va_arg(args, int);
    va_end(args);
    if (run) {
        meanwhile = NULL;
        run(fd);
    }
    return fcntl(fd, command, value);
}

static int export(struct hmem *self, uint64_t addr, size_t len, struct hmreg_dmabuf *out)
{
    struct hmem_range range = {0};

    assert_ok(ze->resolve(self, addr, len, &range));
    return ze->export_dmabuf(self, addr, len, &range, 0, out);
}

/* Maps what the export names, in whole pages. */
static unsigned char *map(const struct hmreg_dmabuf *dmabuf, size_t *mapped)
{
    uint64_t page = bench_page();
    uint64_t start = dmabuf->offset & ~(page - 1);
    void *at;

    *mapped = (size_t)(dmabuf->offset + dmabuf->length - start);
    at = mmap(NULL, *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf->fd, (off_t)start);
    assert_ptr_not_equal(at, MAP_FAILED);
    return (unsigned char *)at + (dmabuf->offset - start);
}

static void unmap(unsigned char *bytes, size_t mapped)
{
    uintptr_t page = bench_page();

    assert_int_equal(munmap((void *)((uintptr_t)bytes & ~(page - 1)), mapped), 0);
}

/* Writes by the export and finds the bytes in the memory, and the neighbours unchanged. */
static void check_names(uint64_t base, size_t alloc_len, uint64_t addr,
                        const struct hmreg_dmabuf *dmabuf)
{
    unsigned char *memory = bench_peek(base);
    size_t at = (size_t)(addr - base), len = dmabuf->length, mapped;
    unsigned char *window = map(dmabuf, &mapped);

    for (size_t i = 0; i < alloc_len; i++)
        memory[i] = pattern(i);
    assert_int_equal(window[0], pattern(at));
    assert_int_equal(window[len - 1], pattern(at + len - 1));
    assert_memory_equal(window, memory + at, len);
    memset(window, 0, len);
    for (size_t i = 0; i < alloc_len; i++)
        if (memory[i] != (i >= at && i < at + len ? 0 : pattern(i)))
            fail_msg("byte %zu of %zu after a write of %zu bytes at %zu", i, alloc_len, len, at);
    unmap(window, mapped);
}

/* Real devices round memory up to their own pages, 64 KiB and more. */
TEST(export__pages_of_the_device_are_large__names_the_bytes)
{
    struct hmem *self = bench_open();
    struct hmreg_dmabuf dmabuf = {.fd = -1};
    struct stat status;
    uint64_t addr;

    bench_set("HMREG_FAKE_ZE_PAGE", 65536);
    addr = bench_alloc(self, 0, HMREG_MEM_DEVICE, 70000);
    assert_ok(export(self, addr + 65535, 4000, &dmabuf));
    assert_int_equal(fstat(dmabuf.fd, &status), 0);
    assert_int_equal(status.st_size, 131072);
    check_names(addr, 70000, addr + 65535, &dmabuf);
    assert_int_equal(close(dmabuf.fd), 0);
    bench_free(self, addr, HMREG_MEM_DEVICE);
}

static void expect_refused(struct hmem *self, uint64_t addr, size_t len, int code,
                           const char *words)
{
    struct hmreg_dmabuf dmabuf = {.fd = -7, .offset = 7, .length = 7};

    assert_fails(export(self, addr, len, &dmabuf), code, words);
    assert_int_equal(dmabuf.fd, -7);
    assert_int_equal(dmabuf.offset, 7);
    assert_int_equal(dmabuf.length, 7);
}

TEST(export__shared_memory__eopnotsupp)
{
    struct hmem *self = bench_open();
    uint64_t addr = bench_alloc(self, 0, HMREG_MEM_MANAGED, 4096);

    expect_refused(self, addr, 4096, -EOPNOTSUPP, "migrates between host and device");
    assert_int_equal(hmreg_last_error()->vendor_code, ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
    assert_string_equal(hmreg_last_error()->vendor_text, "ZE_RESULT_ERROR_UNSUPPORTED_FEATURE");
    bench_free(self, addr, HMREG_MEM_MANAGED);
}

/* An older driver does not report tiles: its descriptor is too short for the memory. */
TEST(export__unreported_tiles__eproto)
{
    struct hmem *self;
    char words[64];
    uint64_t addr;

    bench_set("HMREG_FAKE_ZE_TILES", 2);
    bench_set_text("HMREG_FAKE_ZE_MISSING", "ZE_experimental_sub_allocations");
    self = bench_open();
    addr = bench_alloc(self, 0, HMREG_MEM_DEVICE, 4 * bench_page());
    snprintf(words, sizeof(words), "has %zu bytes and cannot hold", 2 * bench_page());
    expect_refused(self, addr, 100, -EPROTO, words);
    bench_free(self, addr, HMREG_MEM_DEVICE);
}

/* A piece that begins at a page boundary looks like an allocation; the descriptor is too long for
 * it. */
TEST(export__piece_of_a_pool_at_a_page__eproto)
{
    struct hmem *self = bench_open();
    size_t page = bench_page();
    struct app app;
    uint64_t first, second;

    bench_set("HMREG_FAKE_ZE_POOL", 16 * (long)page);
    app_open(&app, 0);
    first = app_alloc(&app, app.devices[0], page - 512);
    second = app_alloc(&app, app.devices[0], 2 * page);
    assert_int_equal(second % page, 0);
    expect_refused(self, second, 2 * page, -EPROTO, "does not report its offset there");
    app_free(&app, first);
    app_free(&app, second);
}

static struct {
    struct hmem *opened;
    uint64_t addr;
    int other; /* a file, -1: none */
    int number;
} freed;

/* The driver closes its descriptor, and the number becomes another file's. */
static void free_and_reopen(int fd)
{
    bench_free(freed.opened, freed.addr, HMREG_MEM_DEVICE);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    freed.number = fd;
    if (freed.other >= 0)
        assert_int_equal(dup2(freed.other, fd), fd);
}

static void check_freed_meanwhile(int other)
{
    struct hmreg_dmabuf dmabuf = {.fd = -7};
    struct hmem_range range = {0};

    freed.other = other;
    freed.addr = bench_alloc(freed.opened, 0, HMREG_MEM_DEVICE, 4096);
    assert_ok(ze->resolve(freed.opened, freed.addr, 4096, &range));
    meanwhile = free_and_reopen;
    assert_fails(ze->export_dmabuf(freed.opened, freed.addr, 4096, &range, 0, &dmabuf), -EFAULT,
                 "freed");
    assert_null(meanwhile);
    assert_int_equal(dmabuf.fd, -7);
}

TEST(export__freed_before_the_duplicate__efault_and_no_other_file)
{
    int other = memfd_create("another", MFD_CLOEXEC);

    assert_int_equal(ftruncate(other, 4096), 0);
    freed.opened = bench_open();
    check_freed_meanwhile(-1);
    check_freed_meanwhile(other);
    close(freed.number);
    close(other);
}

/* As Intel's driver knows it with one GPU. */
TEST(export__freed_before_the_duplicate_and_still_known__efault_and_no_other_file)
{
    int other = memfd_create("another", MFD_CLOEXEC);

    assert_int_equal(ftruncate(other, 4096), 0);
    freed.opened = bench_open();
    for (int i = 0; i < 2; i++) {
        bench_set("HMREG_FAKE_ZE_KEEP", 1);
        check_freed_meanwhile(i ? other : -1);
        assert_int_equal(unsetenv("HMREG_FAKE_ZE_KEEP"), 0);
        bench_free(freed.opened, freed.addr, HMREG_MEM_DEVICE);
    }
    close(freed.number);
    close(other);
}

TEST(export__of_a_claim__names_the_bytes_or_is_refused)
{
    struct hmem *self = bench_open();
    struct hmreg_dmabuf dmabuf = {.fd = -7};
    uint64_t addr = bench_alloc(self, 1, HMREG_MEM_DEVICE, 8192);
    struct hmem_range claim = {.device = 1,
                               .kind = HMREG_MEM_DEVICE,
                               .alloc_base = addr,
                               .alloc_len = 8192,
                               .identity = 4711, /* not ours */
                               .segments = 1,
                               .claimed = true};

    assert_ok(ze->export_dmabuf(self, addr + 33, 100, &claim, 0, &dmabuf));
    check_names(addr, 8192, addr + 33, &dmabuf);
    close(dmabuf.fd);
    dmabuf.fd = -7;
    bench_free(self, addr, HMREG_MEM_DEVICE);
    assert_fails(ze->export_dmabuf(self, addr, 100, &claim, 0, &dmabuf), -EOPNOTSUPP,
                 "knows no memory");
    assert_int_equal(dmabuf.fd, -7);
}

/* ---- driver responses ------------------------------------------------------------------- */

/* The second call for properties requests the descriptor. */
TEST(export__driver_gives_no_descriptor__code_and_sentence)
{
    static const struct {
        ze_result_t result;
        int code;
        const char *words;
    } cases[] = {
        {ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY, -EIO, "gave no descriptor"},
        {ZE_RESULT_SUCCESS, -EIO, "gave no descriptor"},
        {ZE_RESULT_ERROR_UNSUPPORTED_FEATURE, -EOPNOTSUPP, "does not export"},
        {ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION, -EOPNOTSUPP, "does not export"},
    };
    struct hmem *self = bench_open();
    uint64_t addr = bench_alloc(self, 0, HMREG_MEM_DEVICE, 8192);
    struct hmreg_dmabuf dmabuf = {.fd = -7};
    struct hmem_range range = {0};

    assert_ok(ze->resolve(self, addr, 4096, &range));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bench_fail(bench_control(0), "zeMemGetAllocProperties", cases[i].result, 1, 1);
        assert_fails(ze->export_dmabuf(self, addr, 4096, &range, 0, &dmabuf), cases[i].code,
                     cases[i].words);
        assert_int_equal(hmreg_last_error()->vendor_code, cases[i].result);
        assert_int_equal(dmabuf.fd, -7);
        bench_control(0)->reset();
    }
    bench_free(self, addr, HMREG_MEM_DEVICE);
}

TEST(export__pcie_mapping__no_such_thing)
{
    struct hmem *self = bench_open();
    uint64_t addr = bench_alloc(self, 0, HMREG_MEM_DEVICE, 8192);
    struct hmreg_dmabuf dmabuf = {.fd = -7};
    struct hmem_range range = {0};

    assert_ok(ze->resolve(self, addr, 8192, &range));
    assert_fails(ze->export_dmabuf(self, addr, 8192, &range, HMREG_EXPORT_PCIE, &dmabuf),
                 -EOPNOTSUPP, "PCIe mapping");
    assert_int_equal(dmabuf.fd, -7);
    bench_free(self, addr, HMREG_MEM_DEVICE);
}

TEST_MAIN()
