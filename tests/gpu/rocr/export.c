/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Exports: a descriptor and an offset that truly name the bytes, whose owner is the caller.
 */
#include "tests/gpu/rocr/app.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define MIB (1u << 20)

static const struct hmem_ops *ops = &hmem_rocr_ops;

static struct hmreg_dmabuf export_range(struct hmem *rocr, const char *addr, size_t len)
{
    struct hmem_range range = app_resolve(rocr, addr, len);
    struct hmreg_dmabuf dmabuf = {.fd = -1};

    assert_ok(ops->export_dmabuf(rocr, at(addr), len, &range, &dmabuf));
    assert_true(dmabuf.fd >= 0);
    assert_int_equal(dmabuf.length, len);
    return dmabuf;
}

/* The exported bytes, as a fabric would see them. */
static unsigned char *map(const struct hmreg_dmabuf *dmabuf, char **whole, size_t *whole_len)
{
    *whole_len = dmabuf->offset + dmabuf->length;
    *whole = mmap(NULL, *whole_len, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf->fd, 0);
    assert_ptr_not_equal(*whole, MAP_FAILED);
    return (unsigned char *)*whole + dmabuf->offset;
}

/* Bytes written by the runtime are at the offset, bytes written there reach the memory, and
 * those around them stay. */
static void check_names(struct hmem *rocr, char *memory, size_t whole_len, size_t skip, size_t len)
{
    struct hmreg_dmabuf dmabuf = export_range(rocr, memory + skip, len);
    unsigned char *peek = app.fake->peek(at(memory));
    unsigned char *bytes;
    size_t mapped_len;
    char *mapped;

    app_fill(memory, whole_len, 3);
    bytes = map(&dmabuf, &mapped, &mapped_len);
    assert_int_equal(bytes[0], pattern(skip, 3));
    assert_int_equal(bytes[len - 1], pattern(skip + len - 1, 3));
    memset(bytes, 0xee, len);
    assert_int_equal(peek[skip], 0xee);
    assert_int_equal(peek[skip + len - 1], 0xee);
    for (size_t i = 0; i < whole_len; i++)
        if ((i < skip || i >= skip + len) && peek[i] != pattern(i, 3))
            fail_msg("byte %zu beside the range from %zu to %zu changed", i, skip, skip + len);
    munmap(mapped, mapped_len);
    close(dmabuf.fd);
}

/* ---- which bytes ------------------------------------------------------------------------ */

static void export__whole_allocation__offset_0(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    struct hmreg_dmabuf dmabuf = export_range(rocr, memory, MIB);

    assert_int_equal(dmabuf.offset, 0);
    close(dmabuf.fd);
    check_names(rocr, memory, MIB, 0, MIB);
    app_free(memory);
    app_close(rocr);
}

static void export__odd_offsets_and_lengths__exact_bytes(void **state)
{
    static const size_t cases[][2] = {
        {1, 1},       {4095, 2},    {4096, 4096}, {12345, 67891}, {65537, 4097},
        {MIB - 1, 1}, {3, MIB - 3}, {0, 1},       {8191, 1},      {MIB / 2 + 7, 333}};
    struct hmem *rocr = app_open();
    char *memory = app_alloc(1, MIB);

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hmreg_dmabuf dmabuf = export_range(rocr, memory + cases[i][0], cases[i][1]);

        assert_int_equal(dmabuf.offset, cases[i][0]);
        close(dmabuf.fd);
        check_names(rocr, memory, MIB, cases[i][0], cases[i][1]);
    }
    app_free(memory);
    app_close(rocr);
}

/* The block is shared: the offset is that in the block, and is not added to once more. */
static void export__small_ones_in_one_block__their_own_bytes(void **state)
{
    struct hmem *rocr = app_open();
    char *first = app_alloc(0, 600), *second = app_alloc(0, 600), *third = app_alloc(0, 600);
    struct hmreg_dmabuf dmabuf = export_range(rocr, second + 5, 100);

    assert_int_equal(dmabuf.offset, (uint64_t)(second - first) + 5);
    close(dmabuf.fd);
    app_fill(first, 600, 1);
    app_fill(third, 600, 2);
    check_names(rocr, second, 600, 5, 590);
    app_check(first, 600, 1);
    app_check(third, 600, 2);
    app_free(first);
    app_free(second);
    app_free(third);
    app_close(rocr);
}

/* ---- whose descriptor ------------------------------------------------------------------- */

static void export__descriptor__callers_own_and_close_on_exec(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    int before = test_count_fds();
    struct hmreg_dmabuf dmabuf = export_range(rocr, memory, MIB);

    assert_int_equal(test_count_fds(), before + 1);
    assert_int_equal(fcntl(dmabuf.fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(app.fake->calls("hsa_amd_portable_export_dmabuf"), 1);
    assert_int_equal(app.fake->calls("hsa_amd_portable_close_dmabuf"), 1);
    assert_int_equal(close(dmabuf.fd), 0);
    app_free(memory);
    app_close(rocr);
}

static void export__twice__two_descriptors(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    struct hmreg_dmabuf one = export_range(rocr, memory, MIB);
    struct hmreg_dmabuf two = export_range(rocr, memory, MIB);

    assert_int_not_equal(one.fd, two.fd);
    assert_int_equal(close(one.fd), 0);
    assert_int_not_equal(fcntl(two.fd, F_GETFD), -1);
    assert_int_equal(close(two.fd), 0);
    app_free(memory);
    app_close(rocr);
}

static void export__descriptor_0_is_free__given_and_valid(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    int standard_input = fcntl(0, F_DUPFD_CLOEXEC, 10);
    struct hmreg_dmabuf low = {.fd = -1};
    struct hmem_range range = app_resolve(rocr, memory, MIB);

    assert_true(standard_input >= 0);
    close(0);
    /* The runtime's descriptor takes 0, and ours may not be mistaken for none. */
    assert_ok(ops->export_dmabuf(rocr, at(memory), MIB, &range, &low));
    assert_int_equal(fcntl(0, F_GETFD), low.fd ? -1 : FD_CLOEXEC);
    close(low.fd);
    assert_int_equal(dup2(standard_input, 0), 0);
    close(standard_input);
    app_free(memory);
    app_close(rocr);
}

static void export__memory_freed__descriptor_still_valid(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    struct hmreg_dmabuf dmabuf = export_range(rocr, memory, MIB);
    size_t mapped_len;
    char *mapped;

    app_fill(memory, MIB, 9);
    app_free(memory);
    assert_int_equal(map(&dmabuf, &mapped, &mapped_len)[77], pattern(77, 9));
    munmap(mapped, mapped_len);
    close(dmabuf.fd);
    app_close(rocr);
}

/* ---- refusals --------------------------------------------------------------------------- */

static void assert_refused(struct hmem *rocr, const char *addr, const struct hmem_range *range,
                           int code, const char *words)
{
    struct hmreg_dmabuf dmabuf = {.fd = -7, .offset = 11, .length = 13};
    int before = test_count_fds();

    assert_fails(ops->export_dmabuf(rocr, at(addr), 10, range, &dmabuf), code, words);
    assert_int_equal(dmabuf.fd, -7);
    assert_int_equal(dmabuf.offset, 11);
    assert_int_equal(dmabuf.length, 13);
    assert_int_equal(test_count_fds(), before);
}

static void export__pinned__not_supported(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc_host(MIB);
    struct hmem_range range = app_resolve(rocr, memory, 10);

    assert_refused(rocr, memory, &range, -EOPNOTSUPP, "registered by its address");
    assert_int_equal(app.fake->calls("hsa_amd_portable_export_dmabuf"), 0);
    app_free(memory);
    app_close(rocr);
}

/* The fake would abort, as the runtime would crash. */
static void export__imported__not_supported(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    hsa_amd_ipc_memory_t handle;
    void *mapped = NULL;
    struct hmem_range range;

    assert_int_equal(app.hsa_amd_ipc_memory_create(memory, MIB, &handle), 0);
    assert_int_equal(app.hsa_amd_ipc_memory_attach(&handle, MIB, 0, NULL, &mapped), 0);
    range = app_resolve(rocr, mapped, 10);
    assert_refused(rocr, mapped, &range, -EOPNOTSUPP, "imported (by IPC)");
    assert_int_equal(app.hsa_amd_ipc_memory_detach(mapped), 0);
    app_free(memory);
    app_close(rocr);
}

static void export__from_a_descriptor__not_supported(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    struct hmreg_dmabuf dmabuf = export_range(rocr, memory, 10);
    struct hmem_range range;
    void *mapped = NULL;
    size_t len = 0;

    assert_int_equal(
        app.hsa_amd_interop_map_buffer(1, app.gpus, dmabuf.fd, 0, &len, &mapped, NULL, NULL), 0);
    close(dmabuf.fd);
    range = app_resolve(rocr, mapped, 10);
    assert_refused(rocr, mapped, &range, -EOPNOTSUPP, "imported (from a descriptor)");
    assert_int_equal(app.hsa_amd_interop_unmap_buffer(mapped), 0);
    app_free(memory);
    app_close(rocr);
}

static void export__freed_since_resolved__fault(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    struct hmem_range range = app_resolve(rocr, memory, 10);

    app_free(memory);
    assert_refused(rocr, memory, &range, -EFAULT, "was freed");
    app_close(rocr);
}

static void export__allocation_shorter_than_resolved__xdev(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    struct hmem_range range = app_resolve(rocr, memory, 10);

    assert_refused(rocr, memory + MIB - 9, &range, -EXDEV, "not in one allocation");
    assert_int_equal(hmreg_last_error()->vendor_code, HSA_STATUS_ERROR_INVALID_ALLOCATION);
    app_free(memory);
    app_close(rocr);
}

static void export__driver_without_dmabuf__not_supported(void **state)
{
    struct hmem_range range;
    struct hmem *rocr;
    char *memory;

    setenv("HMREG_FAKE_HSA_DMABUF", "0", 1);
    rocr = app_open();
    memory = app_alloc(0, MIB);
    range = app_resolve(rocr, memory, 10);
    assert_false(range.exportable);
    assert_refused(rocr, memory, &range, -EOPNOTSUPP, "too old for ROCm to export dmabufs");
    app_free(memory);
    app_close(rocr);
    unsetenv("HMREG_FAKE_HSA_DMABUF");
}

static void export__descriptor_too_short__proto(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    struct hmem_range range = app_resolve(rocr, memory, 10);

    setenv("HMREG_FAKE_HSA_SHORT", "4096", 1);
    assert_refused(rocr, memory + 4087, &range, -EPROTO, "4096 bytes");
    assert_refused(rocr, memory + 8192, &range, -EPROTO, "at 8192 in it");
    setenv("HMREG_FAKE_HSA_SHORT", "4097", 1);
    close(export_range(rocr, memory + 4087, 10).fd);
    unsetenv("HMREG_FAKE_HSA_SHORT");
    app_free(memory);
    app_close(rocr);
}

static void export__no_descriptor_left__emfile(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    struct hmem_range range = app_resolve(rocr, memory, 10);
    struct hmreg_dmabuf dmabuf = {.fd = -7};
    struct rlimit before, tight;
    int lowest = dup(0);

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    close(lowest);
    /* Room for the runtime's descriptor, none for ours; then not even for that. */
    tight = (struct rlimit){(rlim_t)lowest + 1, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    assert_fails(ops->export_dmabuf(rocr, at(memory), 10, &range, &dmabuf), -EMFILE, "duplicated");
    tight.rlim_cur = (rlim_t)lowest;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    assert_fails(ops->export_dmabuf(rocr, at(memory), 10, &range, &dmabuf), -EIO, "export");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(dmabuf.fd, -7);
    app_free(memory);
    app_close(rocr);
}

TEST_MAIN(TEST(export__whole_allocation__offset_0),
          TEST(export__odd_offsets_and_lengths__exact_bytes),
          TEST(export__small_ones_in_one_block__their_own_bytes),
          TEST(export__descriptor__callers_own_and_close_on_exec),
          TEST(export__twice__two_descriptors), TEST(export__descriptor_0_is_free__given_and_valid),
          TEST(export__memory_freed__descriptor_still_valid), TEST(export__pinned__not_supported),
          TEST(export__imported__not_supported), TEST(export__from_a_descriptor__not_supported),
          TEST(export__freed_since_resolved__fault),
          TEST(export__allocation_shorter_than_resolved__xdev),
          TEST(export__driver_without_dmabuf__not_supported),
          TEST(export__descriptor_too_short__proto), TEST(export__no_descriptor_left__emfile))
