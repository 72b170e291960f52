/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contracts of hmreg_copy(), hmreg_export_dmabuf() and hmreg_mem_alloc() in rows, and of
 * hmreg_mem_free(): memory without registration.
 */
#include "tests/support/table.h"
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

/* ---- rows ------------------------------------------------------------------------------- */

struct args {
    int usual_;
    enum { NOWHERE, HOST, GPU, ZE, END, PAGE_0 } to, from; /* END: 6 bytes before the last */
    uint64_t to_at, from_at;
    size_t len;
    uint64_t flags;
    /* Of an allocation: */
    enum hmreg_iface iface;
    enum hmreg_mem_kind kind;
    int device;
    bool no_lib, no_out;
};

#define SYSTEM              HMREG_IFACE_SYSTEM
#define CUDA                HMREG_IFACE_CUDA
#define WRONG(text)         FAILS(-EINVAL, text, NULL)
#define REFUSED(code, text) FAILS(code, text, NULL)
#define DONE                RETURNS(0, NULL)

static char *ze;

static void cuda_fails(void)
{
    vendors[HMREG_IFACE_CUDA].copy_code = -EIO;
    vendors[HMREG_IFACE_CUDA].export_code = -EXDEV;
}

static const struct row copies[] = {
    {"lib is NULL", ARGS(HOST, HOST, 32, 0, 8, .no_lib = true), WRONG("lib is NULL")},
    {"dst is NULL", ARGS(NOWHERE, HOST, 0, 0, 8), WRONG("dst: addr is NULL")},
    {"src is NULL", ARGS(HOST, NOWHERE, 0, 0, 8), WRONG("src: addr is NULL")},
    {"len is 0", ARGS(HOST, HOST, 32, 0, 0), WRONG("len is 0")},
    {"dst wraps", ARGS(END, HOST, 0, 0, 8), WRONG("dst")},
    {"src wraps", ARGS(HOST, END, 0, 0, 8), WRONG("src")},
    {"the same", ARGS(HOST, HOST, 0, 0, 8), WRONG("overlap")},
    {"a byte is in both", ARGS(HOST, HOST, 0, 7, 8), WRONG("overlap")},
    {"a byte is in both, the other way", ARGS(HOST, HOST, 7, 0, 8), WRONG("overlap")},
    {"a byte is in both, on a device", ARGS(GPU, GPU, 7, 0, 8), WRONG("overlap")},
    {"cuda fails, from it", .before = cuda_fails, ARGS(HOST, GPU, 0, 0, 8),
     REFUSED(-EIO, "copy of cuda failed")},
    {"cuda fails, from it to another", .before = cuda_fails, ARGS(ZE, GPU, 0, 0, 8),
     REFUSED(-EIO, "copy of cuda failed")},
    {"cuda fails, to it from another", .before = cuda_fails, ARGS(GPU, ZE, 0, 0, 8),
     REFUSED(-EIO, "copy of cuda failed")},
    {"cuda fails, to another", .before = cuda_fails, ARGS(ZE, HOST, 0, 0, 8), DONE},
    {"behind it", ARGS(HOST, HOST, 8, 0, 8), DONE},
    {"before it", ARGS(HOST, HOST, 0, 8, 8), DONE},
    {"from a device", ARGS(HOST, GPU, 1, 2, 8), DONE},
    {"to a device", ARGS(GPU, HOST, 1, 2, 8), DONE},
};

static const struct row exports[] = {
    {"lib is NULL", ARGS(.from = GPU, .len = 1, .no_lib = true), WRONG("lib is NULL")},
    {"addr is NULL", ARGS(.from = NOWHERE, .len = 1), WRONG("addr is NULL")},
    {"len is 0", ARGS(.from = GPU), WRONG("len is 0")},
    {"the range wraps", ARGS(.from = GPU, .len = SIZE_MAX), WRONG("wraps")},
    {"an unknown flag", ARGS(.from = GPU, .len = 1, .flags = 2),
     REFUSED(-HMREG_EBADFLAGS, "flags")},
    {"out is NULL", ARGS(.from = GPU, .len = 1, .no_out = true), WRONG("out is NULL")},
    {"a byte more than the allocation", ARGS(.from = GPU, .len = WORLD_BYTES + 1),
     REFUSED(-ERANGE, "ends at")},
    {"host memory", ARGS(.from = HOST, .len = 1), REFUSED(-EOPNOTSUPP, "host memory")},
    {"nothing is mapped there", ARGS(.from = PAGE_0, .len = 1), REFUSED(-EFAULT, "0x8")},
    {"cuda fails", .before = cuda_fails, ARGS(.from = GPU, .len = 1),
     REFUSED(-EXDEV, "export of cuda")},
    {"a part of a device's", ARGS(.from = GPU, .from_at = 4097, .len = 100), DONE},
    {"all of a device's", ARGS(.from = GPU, .len = WORLD_BYTES), DONE},
};

#define ALLOC(whose, number, sort, bytes)                                                          \
    .iface = (whose), .device = (number), .kind = (sort), .len = (bytes)
#define ABSENT(text)    REFUSED(-ENODEV, text)
#define NO_MEMORY(text) REFUSED(-ENOMEM, text)

static void ze_has_no_memory(void)
{
    vendors[HMREG_IFACE_ZE].alloc_code = -ENOMEM;
}

static const struct row allocations[] = {
    {"lib is NULL", ARGS(ALLOC(SYSTEM, -1, HMREG_MEM_HOST, 8), .no_lib = true),
     WRONG("lib is NULL")},
    {"out is NULL", ARGS(ALLOC(SYSTEM, -1, HMREG_MEM_HOST, 8), .no_out = true),
     WRONG("out is NULL")},
    {"iface is 4", ARGS(ALLOC(HMREG_IFACE_COUNT, 0, 0, 8)), WRONG("iface is 4")},
    {"iface is -1", ARGS(ALLOC(SYSTEM - 1, 0, 0, 8)), WRONG("iface is -1")},
    {"kind is 4", ARGS(ALLOC(SYSTEM, -1, 4, 8)), WRONG("kind is 4")},
    {"kind is -1", ARGS(ALLOC(SYSTEM, -1, (enum hmreg_mem_kind) - 1, 8)), WRONG("kind")},
    {"len is 0", ARGS(ALLOC(SYSTEM, -1, HMREG_MEM_HOST, 0)), WRONG("len is 0")},
    {"the system's device 1", ARGS(ALLOC(SYSTEM, 1, HMREG_MEM_HOST, 8)), ABSENT("no device 1")},
    {"the system's device -2", ARGS(ALLOC(SYSTEM, -2, HMREG_MEM_HOST, 8)), ABSENT("no device -2")},
    {"no device 2", ARGS(ALLOC(CUDA, 2, HMREG_MEM_DEVICE, 8)), ABSENT("no device 2")},
    {"no device -1", ARGS(ALLOC(CUDA, -1, HMREG_MEM_DEVICE, 8)), ABSENT("no device -1")},
    {"the system's, pinned", ARGS(ALLOC(SYSTEM, -1, HMREG_MEM_HOST_PINNED, 8)),
     REFUSED(-EOPNOTSUPP, "only the kind host")},
    {"the system's, of a device", ARGS(ALLOC(SYSTEM, -1, HMREG_MEM_DEVICE, 8)),
     REFUSED(-EOPNOTSUPP, "only the kind host")},
    {"the system's, managed", ARGS(ALLOC(SYSTEM, -1, HMREG_MEM_MANAGED, 8)),
     REFUSED(-EOPNOTSUPP, "only the kind host")},
    {"all addresses", ARGS(ALLOC(SYSTEM, -1, HMREG_MEM_HOST, SIZE_MAX)),
     NO_MEMORY("not available")},
    {"half of all addresses", ARGS(ALLOC(SYSTEM, -1, HMREG_MEM_HOST, SIZE_MAX / 2)),
     NO_MEMORY("not available")},
    {"ze has no memory", .before = ze_has_no_memory,
     ARGS(ALLOC(HMREG_IFACE_ZE, 0, HMREG_MEM_DEVICE, 8)), NO_MEMORY("alloc of ze")},
    {"the system's", ARGS(ALLOC(SYSTEM, -1, HMREG_MEM_HOST, 5)), DONE},
    {"the system's device 0", ARGS(ALLOC(SYSTEM, 0, HMREG_MEM_HOST, 5)), DONE},
    {"a device's", ARGS(ALLOC(CUDA, 1, HMREG_MEM_DEVICE, 5)), DONE},
};

static void open_row(const struct row *row)
{
    world_open_as(&row->as);
    ze = world_memory(HMREG_IFACE_ZE, 0, HMREG_MEM_DEVICE, 4096);
    if (row->before)
        row->before();
}

static char *place(int of, uint64_t at)
{
    char *const places[] = {[HOST] = world.host,
                            [GPU] = world.gpu[0],
                            [ZE] = ze,
                            [END] = (char *)(UINTPTR_MAX - 6),
                            [PAGE_0] = (char *)8};

    return of == NOWHERE ? NULL : places[of] + at;
}

static char *bytes_at(int of, uint64_t at)
{
    return of == HOST ? place(of, at) : world_view(place(of, at));
}

static int copy(const struct row *row)
{
    const struct args *args = row->args;
    char *to = place(args->to, args->to_at), *from = place(args->from, args->from_at);
    bool looks = args->to && args->to < END && args->from && args->from < END;
    char to_before[64], from_before[64];
    int rc;

    if (looks) {
        fill(bytes_at(args->from, 0), 64, 3);
        memcpy(from_before, bytes_at(args->from, args->from_at), 32);
        memcpy(to_before, bytes_at(args->to, 0), 64);
    }
    rc = hmreg_copy(args->no_lib ? NULL : world.lib, to, from, args->len);
    if (looks && rc)
        assert_memory_equal(bytes_at(args->to, 0), to_before, 64);
    else if (looks)
        assert_memory_equal(bytes_at(args->to, args->to_at), from_before, args->len);
    return rc;
}

static int export(const struct row *row)
{
    const struct args *args = row->args;
    char *from = place(args->from, args->from_at), byte;
    struct hmreg_dmabuf dmabuf = {.fd = -77, .offset = 78};
    int rc = hmreg_export_dmabuf(args->no_lib ? NULL : world.lib, from, args->len, args->flags,
                                 args->no_out ? NULL : &dmabuf);

    if (rc) {
        assert_int_equal(dmabuf.fd, -77);
        assert_int_equal(dmabuf.offset, 78);
        return rc;
    }
    assert_int_equal(dmabuf.length, args->len);
    assert_int_equal(pread(dmabuf.fd, &byte, 1, (off_t)dmabuf.offset), 1);
    assert_int_equal(byte, *world_view(from));
    return close(dmabuf.fd);
}

static int alloc(const struct row *row)
{
    const struct args *args = row->args;
    void *out = UNTOUCHED;
    int rc = hmreg_mem_alloc(args->no_lib ? NULL : world.lib, args->iface, args->device, args->kind,
                             args->len, args->no_out ? NULL : &out);

    if (rc) {
        assert_ptr_equal(out, UNTOUCHED);
        return rc;
    }
    memset(args->iface == SYSTEM ? out : world_view(out), 1, args->len);
    return hmreg_mem_free(world.lib, out);
}

TEST(copy__each_row)
{
    CHECK_EACH_IN(copies, open_row, copy);
}

TEST(export__each_row)
{
    CHECK_EACH_IN(exports, open_row, export);
}

TEST(alloc__each_row)
{
    CHECK_EACH_IN(allocations, open_row, alloc);
}

TEST(alloc__absent_runtime__enodev_and_why)
{
    struct hmreg *lib;
    void *out = UNTOUCHED;

    vendors_reset();
    vendors[HMREG_IFACE_ROCR].open_code = -ENOENT;
    assert_ok(hmreg_open(NULL, &lib));
    assert_fails(hmreg_mem_alloc(lib, HMREG_IFACE_ROCR, 0, HMREG_MEM_DEVICE, 8, &out), -ENODEV,
                 "open of rocr failed");
    assert_ptr_equal(out, UNTOUCHED);
    assert_ok(hmreg_close(lib));
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
