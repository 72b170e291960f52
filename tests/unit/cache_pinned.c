/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Host memory that a runtime has pinned: its identity says nothing of the pages. Memory of a file
 * or shared memory, which the runtime goes on to describe as before when its pages change, is
 * registered by each get; private anonymous memory, a runtime's own allocation and a driver's are
 * cached.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/vendors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#define PAGES 4

static size_t len_of_pages(void)
{
    return PAGES * fixture_page();
}

/* ---- what changes ----------------------------------------------------------------------- */

struct memory {
    int fd; /* -1: shared anonymous memory */
    char *at;
};

typedef void change(const struct memory *memory);

static void punch(const struct memory *memory)
{
    if (memory->fd >= 0)
        assert_int_equal(fallocate(memory->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                                   (off_t)fixture_page()),
                         0);
}

static void truncate_and_grow(const struct memory *memory)
{
    if (memory->fd < 0)
        return;
    assert_int_equal(ftruncate(memory->fd, 0), 0);
    assert_int_equal(ftruncate(memory->fd, (off_t)len_of_pages()), 0);
}

/* By a forked child, which shares the memory: no hook of this process sees the call. A private
 * mapping permits it no MADV_REMOVE, but its descriptor is the same file's. */
static void remove_in_a_child(const struct memory *memory)
{
    pid_t child = fork();
    int status;

    if (!child) {
        if (madvise(memory->at, fixture_page(), MADV_REMOVE) && memory->fd >= 0)
            punch(memory);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void map_over(const struct memory *memory)
{
    int flags = memory->fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;

    assert_ptr_equal(
        mmap(memory->at, len_of_pages(), PROT_READ | PROT_WRITE, flags | MAP_FIXED, memory->fd, 0),
        memory->at);
}

static change *const changes[] = {punch, truncate_and_grow, remove_in_a_child, map_over};

/* ---- memory ------------------------------------------------------------------------------ */

static int make_memfd(void)
{
    return memfd_create("pinned", MFD_CLOEXEC);
}

static int make_file(void)
{
    char path[] = "/var/tmp/hmreg-pinned-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);

    assert_true(fd >= 0);
    unlink(path);
    return fd;
}

static int make_none(void)
{
    return -1;
}

static int (*const makers[])(void) = {make_memfd, make_file, make_none};

static void map_anywhere(struct memory *memory)
{
    memory->at = mmap(NULL, len_of_pages(), PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd, 0);
    assert_ptr_not_equal(memory->at, MAP_FAILED);
}

static struct memory make(int (*maker)(void), int flags)
{
    struct memory memory = {.fd = maker()};

    assert_true(memory.fd < 0 || !ftruncate(memory.fd, (off_t)len_of_pages()));
    memory.at = mmap(NULL, len_of_pages(), PROT_READ | PROT_WRITE,
                     memory.fd < 0 ? flags | MAP_ANONYMOUS : flags, memory.fd, 0);
    assert_ptr_not_equal(memory.at, MAP_FAILED);
    memset(memory.at, 1, len_of_pages());
    return memory;
}

static void unmake(struct memory *memory)
{
    munmap(memory->at, len_of_pages());
    if (memory->fd >= 0)
        close(memory->fd);
}

/* The runtime pins it, and describes it so until the case ends. */
static struct vendor_claim *pin(enum hmreg_iface iface, const struct memory *memory)
{
    struct vendor_claim *claim =
        vendor_claim(iface, memory->at, len_of_pages(), HMREG_MEM_HOST_PINNED, -1);

    vendor_renew(claim);
    return claim;
}

static uint64_t key(const struct memory *memory)
{
    return fixture_key(memory->at, len_of_pages());
}

static void open_with(enum hmreg_monitor monitor)
{
    test_forks_with_threads();
    vendors_reset();
    if (monitor == HMREG_MONITOR_MEMHOOKS)
        fixture_open_hooked();
    else
        fixture_open(monitor, NULL);
}

/* ---- files and shared memory ------------------------------------------------------------- */

static void change_each(enum hmreg_monitor monitor, int flags)
{
    open_with(monitor);
    for (int m = 0; m < 3; m++) {
        if (m == 2 && flags == MAP_PRIVATE) /* cached, and no child changes it */
            continue;
        for (int c = 0; c < 4; c++) {
            struct memory memory = make(makers[m], flags);
            uint64_t before;

            pin(c % 2 ? HMREG_IFACE_CUDA : HMREG_IFACE_ZE, &memory);
            before = key(&memory);
            changes[c](&memory);
            assert_int_not_equal(key(&memory), before);
            vendor_unclaim(c % 2 ? HMREG_IFACE_CUDA : HMREG_IFACE_ZE, memory.at);
            unmake(&memory);
        }
    }
    assert_int_equal(fixture_stats().hits, 0);
}

TEST(change__of_shared_memory__memhooks__the_new_pages)
{
    change_each(HMREG_MONITOR_MEMHOOKS, MAP_SHARED);
}

TEST(change__of_shared_memory__userfaultfd__the_new_pages)
{
    change_each(HMREG_MONITOR_USERFAULTFD, MAP_SHARED);
}

TEST(change__of_a_private_file__memhooks__the_new_pages)
{
    change_each(HMREG_MONITOR_MEMHOOKS, MAP_PRIVATE);
}

TEST(change__of_a_private_file__userfaultfd__the_new_pages)
{
    change_each(HMREG_MONITOR_USERFAULTFD, MAP_PRIVATE);
}

static bool is_cached(const struct hmreg_mr_attr *attr)
{
    struct hmreg_mr *mr = NULL;
    bool cached;

    assert_ok(hmreg_mr_get_attr(fixture.domain, attr, 0, &mr));
    cached = fixture_is_cached(mr);
    hmreg_mr_put(mr);
    return cached;
}

/* A list with a segment of a file, and a trusted claim with an identity of the caller's. */
static void check_lists(enum hmreg_monitor monitor)
{
    struct memory file, anonymous, more;
    struct hmreg_segment segments[2] = {{0}};
    struct hmreg_mr_attr list = {.size = sizeof(list),
                                 .segments = segments,
                                 .segment_count = 2,
                                 .access = HMREG_ACCESS_REMOTE};
    struct iovec range;
    struct hmreg_mr_attr claim = {.size = sizeof(claim),
                                  .iov = &range,
                                  .iov_count = 1,
                                  .access = HMREG_ACCESS_REMOTE,
                                  .iface = HMREG_IFACE_CUDA,
                                  .device = HMREG_DEVICE_ANY,
                                  .claim_iface = HMREG_CLAIM_TRUSTED,
                                  .claim_kind = HMREG_MEM_HOST_PINNED,
                                  .claim_identity = 77};

    open_with(monitor);
    file = make(make_memfd, MAP_SHARED);
    anonymous = make(make_none, MAP_PRIVATE);
    more = make(make_none, MAP_PRIVATE);
    pin(HMREG_IFACE_CUDA, &file);
    pin(HMREG_IFACE_CUDA, &anonymous);
    pin(HMREG_IFACE_CUDA, &more);
    segments[0].u.memory = (struct iovec){anonymous.at, len_of_pages()};
    segments[1].u.memory = (struct iovec){file.at, len_of_pages()};
    assert_false(is_cached(&list));
    segments[1].u.memory.iov_base = more.at;
    assert_true(is_cached(&list));
    range = (struct iovec){file.at, len_of_pages()};
    assert_false(is_cached(&claim));
    range.iov_base = more.at;
    assert_true(is_cached(&claim));
    unmake(&file);
    unmake(&anonymous);
    unmake(&more);
}

TEST(get__list_and_trusted_claim__memhooks__a_file_is_not_cached)
{
    check_lists(HMREG_MONITOR_MEMHOOKS);
}

TEST(get__list_and_trusted_claim__userfaultfd__a_file_is_not_cached)
{
    check_lists(HMREG_MONITOR_USERFAULTFD);
}

/* ---- what is cached ---------------------------------------------------------------------- */

static void check_private(enum hmreg_monitor monitor)
{
    struct memory memory;
    uint64_t before;

    open_with(monitor);
    memory = make(make_none, MAP_PRIVATE);
    pin(HMREG_IFACE_CUDA, &memory);
    before = key(&memory);
    assert_int_equal(key(&memory), before);
    assert_int_equal(madvise(memory.at, fixture_page(), MADV_DONTNEED), 0);
    assert_int_not_equal(key(&memory), before);
    before = key(&memory);
    assert_int_equal(key(&memory), before);
    vendor_renew(&vendors[HMREG_IFACE_CUDA].claims[0]);
    assert_int_not_equal(key(&memory), before);
    unmake(&memory);
}

TEST(get__private_anonymous__memhooks__cached_until_it_changes)
{
    check_private(HMREG_MONITOR_MEMHOOKS);
}

TEST(get__private_anonymous__userfaultfd__cached_until_it_changes)
{
    check_private(HMREG_MONITOR_USERFAULTFD);
}

static bool caches(int (*maker)(void), bool allocated, bool if_unnamed)
{
    struct memory memory = make(maker, MAP_SHARED);
    struct vendor_claim *claim = pin(HMREG_IFACE_CUDA, &memory);
    uint64_t before;
    bool same;

    claim->range.allocated = allocated;
    claim->range.allocated_if_unnamed = if_unnamed;
    before = key(&memory);
    same = key(&memory) == before;
    vendor_renew(claim);
    assert_int_not_equal(key(&memory), before);
    vendor_unclaim(HMREG_IFACE_CUDA, memory.at);
    unmake(&memory);
    return same;
}

static void check_allocated(enum hmreg_monitor monitor)
{
    open_with(monitor);
    for (int m = 0; m < 3; m++) {
        assert_true(caches(makers[m], true, false));
        assert_int_equal(caches(makers[m], false, true), makers[m] == make_none);
        assert_false(caches(makers[m], false, false));
    }
}

TEST(get__allocated_by_the_runtime__memhooks__cached)
{
    check_allocated(HMREG_MONITOR_MEMHOOKS);
}

TEST(get__allocated_by_the_runtime__userfaultfd__cached)
{
    check_allocated(HMREG_MONITOR_USERFAULTFD);
}

/* ---- a driver's ------------------------------------------------------------------------- */

int __real_stat(const char *path, struct stat *out);
int __wrap_stat(const char *path, struct stat *out);

/* A file in /dev/shm passes for a character device's, which every machine has not. */
int __wrap_stat(const char *path, struct stat *out)
{
    int rc = __real_stat(path, out);

    if (!strncmp(path, "/dev/shm/hmreg-driver-", 22)) {
        out->st_mode = S_IFCHR | 0600;
        out->st_rdev = makedev(195, 255);
    }
    return rc;
}

static void check_driver(enum hmreg_monitor monitor)
{
    char path[] = "/dev/shm/hmreg-driver-XXXXXX";
    struct memory memory = {.fd = mkostemp(path, O_CLOEXEC)};
    uint64_t before;

    if (memory.fd < 0)
        test_skip("/dev/shm takes no file");
    open_with(monitor);
    assert_int_equal(ftruncate(memory.fd, (off_t)len_of_pages()), 0);
    map_anywhere(&memory);
    pin(HMREG_IFACE_ZE, &memory);
    before = key(&memory);
    if (monitor == HMREG_MONITOR_MEMHOOKS)
        assert_int_equal(key(&memory), before);
    else
        assert_int_not_equal(key(&memory), before); /* it cannot be watched */
    before = key(&memory);
    map_over(&memory);
    assert_int_not_equal(key(&memory), before);
    unlink(path);
    unmake(&memory);
}

TEST(get__of_a_driver__memhooks__cached_until_it_is_unmapped)
{
    check_driver(HMREG_MONITOR_MEMHOOKS);
}

TEST(get__of_a_driver__userfaultfd__not_cached)
{
    check_driver(HMREG_MONITOR_USERFAULTFD);
}

/* ---- an address for devices -------------------------------------------------------------- */

static void check_alias(enum hmreg_monitor monitor)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct vendor_claim *claim;
    struct memory memory;
    char *device = (char *)0x10000000;
    struct hmreg_mr *mr;

    open_with(monitor);
    memory = make(make_none, MAP_PRIVATE);
    claim = vendor_claim(HMREG_IFACE_CUDA, device, len_of_pages(), HMREG_MEM_HOST_PINNED, -1);
    vendor_renew(claim);
    claim->range.host_addr = (uintptr_t)memory.at;
    mr = fixture_get(device, len_of_pages());
    assert_false(fixture_is_cached(mr));
    assert_ok(hmreg_mr_explain(mr, &why));
    assert_non_null(strstr(why.uncached_why, "a device's address"));
    hmreg_mr_put(mr);
    claim->range.allocated_if_unnamed = true;
    mr = fixture_get(device, len_of_pages());
    assert_true(fixture_is_cached(mr));
    hmreg_mr_put(mr);
    unmake(&memory);
}

TEST(get__devices_address__memhooks__cached_if_the_runtime_allocated)
{
    check_alias(HMREG_MONITOR_MEMHOOKS);
}

TEST(get__devices_address__userfaultfd__cached_if_the_runtime_allocated)
{
    check_alias(HMREG_MONITOR_USERFAULTFD);
}

/* ---- why not ----------------------------------------------------------------------------- */

static void check_explanation(enum hmreg_monitor monitor)
{
    struct hmreg_explanation why;
    struct memory memory;
    struct hmreg_mr *mr;

    open_with(monitor);
    for (int pinned = 0; pinned < 2; pinned++)
        for (int m = 0; m < 3; m++) {
            memory = make(makers[m], MAP_SHARED);
            if (pinned)
                pin(HMREG_IFACE_CUDA, &memory);
            mr = fixture_get(memory.at, len_of_pages());
            why = (struct hmreg_explanation){.size = sizeof(why)};
            assert_ok(hmreg_mr_explain(mr, &why));
            assert_non_null(strstr(why.uncached_why, "a file's or shared"));
            assert_non_null(strstr(why.uncached_why, "hmreg_counter"));
            hmreg_mr_put(mr);
            if (pinned)
                vendor_unclaim(HMREG_IFACE_CUDA, memory.at);
            unmake(&memory);
        }
    memory = make(make_none, MAP_PRIVATE);
    mr = fixture_get(memory.at, len_of_pages());
    why = (struct hmreg_explanation){.size = sizeof(why)};
    assert_ok(hmreg_mr_explain(mr, &why));
    assert_string_equal(why.uncached_why, "");
    hmreg_mr_put(mr);
    unmake(&memory);
}

TEST(explain__uncached__memhooks__why)
{
    check_explanation(HMREG_MONITOR_MEMHOOKS);
}

TEST(explain__uncached__userfaultfd__why)
{
    check_explanation(HMREG_MONITOR_USERFAULTFD);
}

/* ---- other monitors ---------------------------------------------------------------------- */

TEST(get__file__import__cached_until_told)
{
    struct memory memory;
    uint64_t before;

    open_with(HMREG_MONITOR_IMPORT);
    memory = make(make_memfd, MAP_SHARED);
    pin(HMREG_IFACE_CUDA, &memory);
    before = key(&memory);
    assert_int_equal(key(&memory), before);
    assert_ok(hmreg_invalidate(fixture.lib, memory.at, len_of_pages()));
    assert_int_not_equal(key(&memory), before);
    unmake(&memory);
}

TEST_MAIN()
