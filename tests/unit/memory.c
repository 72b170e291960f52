/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Operations on memory without registration: export, copy, allocate, free. */
#include "tests/support/test.h"
#include "tests/support/vendors.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#define BIG (700u << 10) /* more than one piece of a copy, and no multiple of a piece */

static struct hmreg *open_lib(void)
{
    struct hmreg *lib = NULL;

    vendors_reset();
    assert_ok(hmreg_open(NULL, &lib));
    return lib;
}

static void fill(char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)(i * 31 + i / 251 + seed);
}

/* ---- copy ------------------------------------------------------------------------------- */

/* Bytes before and after the copied ones do not change. */
static void check_copy(struct hmreg *lib, char *to, char *to_view, char *from, char *from_view)
{
    static char before[BIG];
    size_t len = BIG - 9;

    fill(from_view, BIG, 1);
    fill(to_view, BIG, 2);
    memcpy(before, to_view, BIG);
    assert_ok(hmreg_copy(lib, to + 3, from + 5, len));
    assert_memory_equal(to_view + 3, from_view + 5, len);
    assert_memory_equal(to_view, before, 3);
    assert_memory_equal(to_view + 3 + len, before + 3 + len, BIG - 3 - len);
}

TEST(copy__between_any_two_kinds)
{
    static const struct {
        enum hmreg_iface iface;
        int device;
        enum hmreg_mem_kind kind;
    } places[] = {
        {HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE},      {HMREG_IFACE_CUDA, 1, HMREG_MEM_DEVICE},
        {HMREG_IFACE_CUDA, 0, HMREG_MEM_MANAGED},     {HMREG_IFACE_ROCR, 0, HMREG_MEM_DEVICE},
        {HMREG_IFACE_ROCR, 0, HMREG_MEM_HOST_PINNED}, {HMREG_IFACE_ZE, 1, HMREG_MEM_DEVICE},
    };
    enum { PLACES = sizeof(places) / sizeof(places[0]) };
    struct hmreg *lib = open_lib();
    char *at[PLACES + 2], *view[PLACES + 2];

    for (int i = 0; i < PLACES; i++) {
        at[i] = vendor_memory(places[i].iface, places[i].device, places[i].kind, BIG);
        view[i] = vendor_view(at[i]);
    }
    for (int i = PLACES; i < PLACES + 2; i++)
        at[i] = view[i] = malloc(BIG);
    for (int to = 0; to < PLACES + 2; to++)
        for (int from = 0; from < PLACES + 2; from++)
            if (to != from)
                check_copy(lib, at[to], view[to], at[from], view[from]);
    for (int i = 0; i < PLACES; i++)
        vendor_memory_free(at[i]);
    for (int i = PLACES; i < PLACES + 2; i++)
        free(at[i]);
    assert_ok(hmreg_close(lib));
}

TEST(copy__bad_arguments__inval_and_their_names)
{
    struct hmreg *lib = open_lib();
    char bytes[64] = {0};

    assert_fails(hmreg_copy(NULL, bytes, bytes + 32, 8), -EINVAL, "lib");
    assert_fails(hmreg_copy(lib, NULL, bytes, 8), -EINVAL, "dst: addr is NULL");
    assert_fails(hmreg_copy(lib, bytes, NULL, 8), -EINVAL, "src: addr is NULL");
    assert_fails(hmreg_copy(lib, bytes, bytes + 32, 0), -EINVAL, "len is 0");
    assert_fails(hmreg_copy(lib, bytes, (void *)(UINTPTR_MAX - 6), 8), -EINVAL, "src");
    assert_fails(hmreg_copy(lib, (void *)(UINTPTR_MAX - 6), bytes, 8), -EINVAL, "dst");
    assert_ok(hmreg_close(lib));
}

TEST(copy__overlapping__inval_and_nothing_moves)
{
    struct hmreg *lib = open_lib();
    char bytes[64], before[64];

    fill(bytes, sizeof(bytes), 3);
    memcpy(before, bytes, sizeof(bytes));
    assert_fails(hmreg_copy(lib, bytes, bytes, 8), -EINVAL, "overlap");
    assert_fails(hmreg_copy(lib, bytes, bytes + 7, 8), -EINVAL, "overlap");
    assert_fails(hmreg_copy(lib, bytes + 7, bytes, 8), -EINVAL, "overlap");
    assert_memory_equal(bytes, before, sizeof(bytes));
    assert_ok(hmreg_copy(lib, bytes + 8, bytes, 8));
    assert_ok(hmreg_copy(lib, bytes, bytes + 8, 8));
    assert_ok(hmreg_close(lib));
}

TEST(copy__host_memory_that_is_not_there_or_not_permitted__efault)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct hmreg *lib = open_lib();
    char *pages = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char bytes[16] = {0};

    mprotect(pages, page, PROT_READ);
    assert_fails(hmreg_copy(lib, pages, bytes, 8), -EFAULT, "not mapped for writing");
    assert_ok(hmreg_copy(lib, bytes, pages, 8));
    assert_fails(hmreg_copy(lib, bytes, pages + page, 8), -EFAULT, "not mapped for reading");
    assert_fails(hmreg_copy(lib, bytes, pages + page - 4, 8), -EFAULT, "not mapped for reading");
    assert_fails(hmreg_copy(lib, pages + page, bytes, 8), -EFAULT, "not mapped for writing");
    assert_fails(hmreg_copy(lib, (void *)8, bytes, 8), -EFAULT, "nothing is mapped at 0x8");
    munmap(pages, 3 * page);
    assert_ok(hmreg_close(lib));
}

TEST(copy__vendors_copy_fails__its_error)
{
    struct hmreg *lib = open_lib();
    char *cuda = vendor_memory(HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE, 4096);
    char *ze = vendor_memory(HMREG_IFACE_ZE, 0, HMREG_MEM_DEVICE, 4096);
    char bytes[16];

    vendors[HMREG_IFACE_CUDA].copy_code = -EIO;
    assert_fails(hmreg_copy(lib, bytes, cuda, 8), -EIO, "copy of cuda failed");
    assert_fails(hmreg_copy(lib, ze, cuda, 8), -EIO, "copy of cuda failed");
    assert_fails(hmreg_copy(lib, cuda, ze, 8), -EIO, "copy of cuda failed");
    assert_ok(hmreg_copy(lib, ze, bytes, 8));
    vendor_memory_free(cuda);
    vendor_memory_free(ze);
    assert_ok(hmreg_close(lib));
}

/* ---- export ----------------------------------------------------------------------------- */

TEST(export__device_memory__names_its_bytes)
{
    struct hmreg *lib = open_lib();
    char *memory = vendor_memory(HMREG_IFACE_ROCR, 0, HMREG_MEM_DEVICE, 8192);
    struct hmreg_dmabuf dmabuf = {.fd = -1};
    char bytes[100];

    fill(vendor_view(memory), 8192, 4);
    assert_ok(hmreg_export_dmabuf(lib, memory + 4097, 100, 0, &dmabuf));
    assert_int_equal(dmabuf.length, 100);
    assert_int_equal(pread(dmabuf.fd, bytes, 100, (off_t)dmabuf.offset), 100);
    assert_memory_equal(bytes, vendor_view(memory + 4097), 100);
    assert_true(fcntl(dmabuf.fd, F_GETFD) & FD_CLOEXEC);
    close(dmabuf.fd);
    vendor_memory_free(memory);
    assert_ok(hmreg_close(lib));
}

TEST(export__refused__output_stays)
{
    struct hmreg *lib = open_lib();
    char *memory = vendor_memory(HMREG_IFACE_ROCR, 0, HMREG_MEM_DEVICE, 8192);
    struct hmreg_dmabuf dmabuf, before;

    memset(&before, 'u', sizeof(before));
    dmabuf = before;
    assert_fails(hmreg_export_dmabuf(NULL, memory, 1, 0, &dmabuf), -EINVAL, "lib");
    assert_fails(hmreg_export_dmabuf(lib, NULL, 1, 0, &dmabuf), -EINVAL, "addr");
    assert_fails(hmreg_export_dmabuf(lib, memory, 0, 0, &dmabuf), -EINVAL, "len");
    assert_fails(hmreg_export_dmabuf(lib, memory, SIZE_MAX, 0, &dmabuf), -EINVAL, "wraps");
    assert_fails(hmreg_export_dmabuf(lib, memory, 1, 2, &dmabuf), -HMREG_EBADFLAGS, "flags");
    assert_fails(hmreg_export_dmabuf(lib, memory, 1, 0, NULL), -EINVAL, "out");
    assert_fails(hmreg_export_dmabuf(lib, memory, 8193, 0, &dmabuf), -ERANGE, "ends at");
    assert_fails(hmreg_export_dmabuf(lib, &before, 1, 0, &dmabuf), -EOPNOTSUPP, "host memory");
    assert_fails(hmreg_export_dmabuf(lib, (void *)8, 1, 0, &dmabuf), -EFAULT, "0x8");
    vendors[HMREG_IFACE_ROCR].export_code = -EXDEV;
    assert_fails(hmreg_export_dmabuf(lib, memory, 1, 0, &dmabuf), -EXDEV, "export of rocr");
    assert_memory_equal(&dmabuf, &before, sizeof(before));
    vendor_memory_free(memory);
    assert_ok(hmreg_close(lib));
}

/* ---- allocation ------------------------------------------------------------------------- */

TEST(alloc__host_memory__page_aligned_and_writable)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct hmreg *lib = open_lib();
    void *memory = NULL;

    for (int device = -1; device <= 0; device++) {
        assert_ok(hmreg_mem_alloc(lib, HMREG_IFACE_SYSTEM, device, HMREG_MEM_HOST, 5, &memory));
        assert_int_equal((uintptr_t)memory % page, 0);
        memset(memory, 1, 5);
        assert_ok(hmreg_mem_free(lib, memory));
    }
    assert_ok(hmreg_close(lib));
}

TEST(alloc__bad_arguments__refused_and_output_stays)
{
    struct hmreg *lib = open_lib();
    void *out = (void *)1;

    assert_fails(hmreg_mem_alloc(NULL, 0, -1, 0, 8, &out), -EINVAL, "lib");
    assert_fails(hmreg_mem_alloc(lib, 0, -1, 0, 8, NULL), -EINVAL, "out");
    assert_fails(hmreg_mem_alloc(lib, HMREG_IFACE_COUNT, 0, 0, 8, &out), -EINVAL, "iface is 4");
    assert_fails(hmreg_mem_alloc(lib, (enum hmreg_iface) - 1, 0, 0, 8, &out), -EINVAL,
                 "iface is -1");
    assert_fails(hmreg_mem_alloc(lib, 0, -1, 4, 8, &out), -EINVAL, "kind is 4");
    assert_fails(hmreg_mem_alloc(lib, 0, -1, (enum hmreg_mem_kind) - 1, 8, &out), -EINVAL, "kind");
    assert_fails(hmreg_mem_alloc(lib, 0, -1, 0, 0, &out), -EINVAL, "len is 0");
    assert_fails(hmreg_mem_alloc(lib, 0, 1, 0, 8, &out), -ENODEV, "no device 1");
    assert_fails(hmreg_mem_alloc(lib, 0, -2, 0, 8, &out), -ENODEV, "no device -2");
    assert_fails(hmreg_mem_alloc(lib, HMREG_IFACE_CUDA, 2, 2, 8, &out), -ENODEV, "no device 2");
    assert_fails(hmreg_mem_alloc(lib, HMREG_IFACE_CUDA, -1, 2, 8, &out), -ENODEV, "no device -1");
    for (int kind = HMREG_MEM_HOST_PINNED; kind <= HMREG_MEM_MANAGED; kind++)
        assert_fails(hmreg_mem_alloc(lib, 0, -1, kind, 8, &out), -EOPNOTSUPP, "only the kind host");
    assert_fails(hmreg_mem_alloc(lib, 0, -1, 0, SIZE_MAX, &out), -ENOMEM, "not available");
    assert_fails(hmreg_mem_alloc(lib, 0, -1, 0, SIZE_MAX / 2, &out), -ENOMEM, "not available");
    vendors[HMREG_IFACE_ZE].alloc_code = -ENOMEM;
    assert_fails(hmreg_mem_alloc(lib, HMREG_IFACE_ZE, 0, 2, 8, &out), -ENOMEM, "alloc of ze");
    assert_ptr_equal(out, (void *)1);
    assert_ok(hmreg_close(lib));
}

TEST(alloc__absent_runtime__enodev_and_why)
{
    struct hmreg *lib;
    void *out = (void *)1;

    vendors_reset();
    vendors[HMREG_IFACE_ROCR].open_code = -ENOENT;
    assert_ok(hmreg_open(NULL, &lib));
    assert_fails(hmreg_mem_alloc(lib, HMREG_IFACE_ROCR, 0, HMREG_MEM_DEVICE, 8, &out), -ENODEV,
                 "open of rocr failed");
    assert_ptr_equal(out, (void *)1);
    assert_ok(hmreg_close(lib));
}

TEST(free__twice_or_never_allocated__inval)
{
    struct hmreg *lib = open_lib();
    void *first, *second;
    char own;

    assert_ok(hmreg_mem_free(lib, NULL));
    assert_fails(hmreg_mem_free(NULL, &own), -EINVAL, "lib");
    assert_fails(hmreg_mem_free(lib, &own), -EINVAL, "not from hmreg_mem_alloc()");
    assert_ok(hmreg_mem_alloc(lib, HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE, 4096, &first));
    assert_ok(hmreg_mem_alloc(lib, HMREG_IFACE_ROCR, 0, HMREG_MEM_MANAGED, 4096, &second));
    assert_fails(hmreg_mem_free(lib, (char *)first + 1), -EINVAL, "not from");
    assert_ok(hmreg_mem_free(lib, first));
    assert_fails(hmreg_mem_free(lib, first), -EINVAL, "freed already");
    assert_ok(hmreg_mem_free(lib, second));
    assert_ok(hmreg_close(lib));
}

/* Memory that could not be freed stays allocated, and can be freed later. */
TEST(free__vendors_call_fails__its_error_and_a_second_chance)
{
    struct hmreg *lib = open_lib();
    void *memory;

    assert_ok(hmreg_mem_alloc(lib, HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE, 4096, &memory));
    vendors[HMREG_IFACE_CUDA].free_code = -EIO;
    assert_fails(hmreg_mem_free(lib, memory), -EIO, "free of cuda failed");
    assert_fails(hmreg_close(lib), -EBUSY, "not freed");
    vendors[HMREG_IFACE_CUDA].free_code = 0;
    assert_ok(hmreg_mem_free(lib, memory));
    assert_ok(hmreg_close(lib));
}

/* code: the vendor's error for memory that does not exist. */
static void free_gone(int code)
{
    struct hmreg *lib = open_lib();
    void *memory;

    assert_ok(hmreg_mem_alloc(lib, HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE, 4096, &memory));
    vendors[HMREG_IFACE_CUDA].free_code = code;
    vendor_memory_free(memory); /* as the runtime does */
    assert_fails(hmreg_mem_free(lib, memory), code, "free of cuda failed");
    assert_fails(hmreg_mem_free(lib, memory), -EINVAL, "freed already");
    assert_ok(hmreg_close(lib));
}

TEST(free__context_was_reset__nothing_is_left)
{
    free_gone(-EFAULT);
}

#define THREADS 4
#define ROUNDS  50

static void *alloc_and_free(void *arg)
{
    struct hmreg *lib = arg;
    void *memory[8];

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 8; i++)
            if (hmreg_mem_alloc(lib, HMREG_IFACE_SYSTEM, -1, HMREG_MEM_HOST, 64, &memory[i]))
                return lib;
        for (int i = 0; i < 8; i++)
            if (hmreg_mem_free(lib, memory[(i * 5) % 8]))
                return lib;
    }
    return NULL;
}

TEST(alloc_and_free__four_threads)
{
    struct hmreg *lib = open_lib();
    pthread_t threads[THREADS];
    void *failed;

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, alloc_and_free, lib), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_ok(hmreg_close(lib));
}

TEST_MAIN()
