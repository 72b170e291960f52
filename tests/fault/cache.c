/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The cache when a resource fails: the fabric, a vendor, memory, descriptors, the kernel's
 * permission. Nothing is lost, the cache retries only errors that a retry can cure, and the caller
 * receives the original error.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/code_filters.h"
#include "tests/support/vendors.h"

#include "core/context/context.h"
#include "core/context/domain.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <hmreg/loopback.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define LEN 4096

static char memory[64][LEN];

static void open_fixture(const struct hmreg_domain_config *config)
{
    vendors_reset();
    fixture_open(HMREG_MONITOR_IMPORT, config);
}

static int try_get(void *addr)
{
    struct hmreg_mr *mr = (void *)1;
    int rc = hmreg_mr_get(fixture.domain, addr, LEN, HMREG_ACCESS_REMOTE, &mr);

    if (rc)
        assert_ptr_equal(mr, (void *)1);
    else
        hmreg_mr_put(mr);
    return rc;
}

static void fail_reg(int code, int times)
{
    atomic_store(&counter.reg_code, code);
    atomic_store(&counter.reg_times, times);
}

static void touch(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        fixture_key(memory[i], LEN);
}

/* ---- the fabric ------------------------------------------------------------------------- */

TEST(reg__each_error__returned_after_one_try)
{
    static const int codes[] = {-EINVAL,   -EFAULT, -EACCES, -EOPNOTSUPP, -EIO,   -EPERM,
                                -ENOTCONN, -EAGAIN, -EMFILE, -EBUSY,      -E2BIG, -EKEYREJECTED};

    open_fixture(NULL);
    touch(3);
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        unsigned before = atomic_load(&counter.regs);

        fail_reg(codes[i], -1);
        assert_int_equal(try_get(memory[9]), codes[i]);
        assert_int_equal(hmreg_last_error()->vendor_code, 4711);
        assert_string_equal(hmreg_last_error()->source, "ofi");
        assert_int_equal(atomic_load(&counter.regs), before + 1);
    }
    assert_int_equal(fixture_stats().evictions, 0);
    assert_int_equal(fixture_stats().regions, 3);
    assert_int_equal(fixture_stats().misses, 3);
    fail_reg(0, 0);
}

TEST(reg__no_room__the_least_recently_used_makes_room)
{
    struct hmreg_mr *mr = NULL;

    open_fixture(NULL);
    counter.room = 4;
    touch(4);
    assert_fails(hmreg_mr_get(fixture.domain, memory, 0, HMREG_SEND, &mr), -EINVAL, "len is 0");
    assert_int_equal(fixture_key(memory[5], LEN), 6); /* the fifth registration failed */
    assert_int_equal(fixture_stats().evictions, 1);
    assert_int_equal(fixture_key(memory[1], LEN), 2);
    assert_int_equal(fixture_key(memory[0], LEN), 8); /* the oldest was evicted */
    assert_string_equal(hmreg_last_error()->text, "range: len is 0; it must be at least 1");
}

/* A limit of bytes: 64 pages, of which 60 are in single regions. */
static void open_full(void)
{
    open_fixture(NULL);
    touch(60);
    counter.room_bytes = UINT64_C(60) * LEN;
}

TEST(reg__no_room_for_a_long_range__as_much_goes_as_it_needs)
{
    struct hmreg_mr *mr;
    char *pages = test_map(22 * LEN);

    open_full();
    assert_ok(hmreg_mr_get(fixture.domain, pages + 1, 20 * LEN, HMREG_SEND, &mr));
    hmreg_mr_put(mr);
    assert_int_equal(atomic_load(&counter.regs), 60 + 6); /* after 1, 2, 4, 8 and the rest went */
    assert_int_equal(fixture_stats().evictions, 21);      /* the pages that it touches */
    munmap(pages, 22 * LEN);
}

TEST(reg__range_never_fits__no_more_goes_than_it_would_need)
{
    open_full();
    fail_reg(-ENOMEM, -1);
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(try_get(memory[60]), -ENOMEM);
        assert_int_equal(fixture_stats().evictions, 2 * i); /* it touches two pages */
    }
    fail_reg(0, 0);
}

static struct hmreg_mr *taken;

/* Another thread takes the room that an idle region has given back. */
static void take_room(const struct provider_request *request)
{
    counter.reg_hook = NULL;
    assert_ok(hmreg_mr_reg(fixture.domain, memory[62], LEN, HMREG_SEND, 0, 0, 0, &taken, NULL));
}

static void take_room_later(const struct provider_request *request)
{
    counter.reg_hook = take_room;
}

TEST(reg__room_is_taken_by_another_thread__made_again)
{
    char *page = test_map(LEN);

    open_fixture(NULL);
    touch(8);
    counter.room = 8;
    counter.reg_hook = take_room_later; /* at the first try; the second finds the room taken */
    assert_ok(try_get(page));
    assert_int_equal(fixture_stats().evictions, 2);
    assert_ok(hmreg_mr_close(taken));
    munmap(page, LEN);
}

/* What did not fit into the empty cache empties it only once. */
TEST(reg__range_does_not_fit_into_an_empty_cache__remembered)
{
    struct hmreg_mr *mr = NULL;
    char *pages = test_map(80 * LEN);

    open_full();
    assert_int_equal(hmreg_mr_get(fixture.domain, pages, 70 * LEN, HMREG_SEND, &mr), -ENOMEM);
    assert_int_equal(fixture_stats().evictions, 60);
    touch(20);
    for (int i = 0; i < 3; i++)
        assert_int_equal(
            hmreg_mr_get(fixture.domain, pages, (size_t)(70 + i) * LEN, HMREG_SEND, &mr), -ENOMEM);
    assert_int_equal(fixture_stats().evictions, 60);
    assert_int_equal(fixture_stats().regions, 20);
    /* A shorter one may still make room, and so may the same where the cache has as much. */
    assert_ok(hmreg_mr_get(fixture.domain, pages, 50 * LEN, HMREG_SEND, &mr));
    hmreg_mr_put(mr);
    assert_true(fixture_stats().evictions > 60);
    munmap(pages, 80 * LEN);
}

static bool drop_lock_right(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    if (syscall(SYS_capget, &header, data))
        return false;
    data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
    return !syscall(SYS_capset, &header, data);
}

/* The limit can be asked for: nothing goes. */
static int exceed_lock_limit(void)
{
    struct rlimit few = {1 << 20, 1 << 20};
    struct hmreg_mr *mr = NULL;
    char *pages = test_map(4 << 20);

    open_full();
    fixture.domain->caps.pins = true;
    if (setrlimit(RLIMIT_MEMLOCK, &few) || !drop_lock_right())
        return 77;
    assert_int_equal(hmreg_mr_get(fixture.domain, pages, 2 << 20, HMREG_SEND, &mr), -ENOMEM);
    assert_int_equal(fixture_stats().evictions, 0);
    assert_ok(hmreg_mr_get(fixture.domain, pages, 10 * LEN, HMREG_SEND, &mr));
    assert_int_equal(fixture_stats().evictions, 10);
    return 0;
}

TEST(reg__range_exceeds_the_limit_of_locked_memory__nothing_goes)
{
    test_in_child_or_skip(exceed_lock_limit(), "this process keeps the right to lock memory");
}

/* ---- errors that mean "full" on some device ------------------------------------------------ */

/* The fabric has room for what is cached, and answers so when it is full. */
static void open_answering(int code, enum provider_room says)
{
    open_fixture(NULL);
    touch(8);
    counter.room = 8;
    counter.full_code = code;
    counter.says = says;
}

TEST(reg__full_by_the_drivers_word__room_is_made)
{
    open_answering(-EAGAIN, PROVIDER_ROOM_FULL);
    for (unsigned i = 8; i < 40; i++)
        assert_ok(try_get(memory[i]));
    assert_int_equal(fixture_stats().regions, 8);
}

/* One try, with a few regions given back. */
TEST(reg__error_that_may_mean_full__tried_once_more)
{
    open_answering(-EINVAL, PROVIDER_ROOM_UNKNOWN);
    assert_ok(try_get(memory[9]));
    touch(3);
    fail_reg(-EPROTO, -1);
    for (unsigned i = 0; i < 2; i++) {
        unsigned before = atomic_load(&counter.regs), evicted = (unsigned)fixture_stats().evictions;

        assert_int_equal(try_get(memory[20]), -EPROTO);
        assert_int_equal(atomic_load(&counter.regs), before + 2);
        assert_int_equal(fixture_stats().evictions, evicted + 2);
    }
    fail_reg(0, 0);
}

TEST(reg__no_room_and_all_pinned__fails_after_one_try)
{
    struct hmreg_mr *held[2];

    open_fixture(NULL);
    counter.room = 2;
    held[0] = fixture_get(memory[0], LEN);
    held[1] = fixture_get(memory[1], LEN);
    for (unsigned i = 1; i <= 5; i++) {
        assert_int_equal(try_get(memory[2]), -ENOMEM);
        assert_non_null(strstr(hmreg_last_error()->text, "no room for more than 2"));
        assert_int_equal(atomic_load(&counter.regs), 2 + i);
    }
    hmreg_mr_put(held[0]);
    hmreg_mr_put(held[1]);
}

TEST(reg__no_space__evicts_too)
{
    open_fixture(NULL);
    touch(2);
    fail_reg(-ENOSPC, 1);
    assert_int_equal(try_get(memory[5]), 0);
    assert_int_equal(fixture_stats().evictions, 1);
}

/* Cached regions use keys, and a fabric with keys of one byte has few. */
TEST(reg__no_key_left__evicts_too)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};
    struct hmreg_loopback_config loopback = {.size = sizeof(loopback), .key_size = 1};

    vendors_reset();
    fixture_close_after();
    assert_ok(hmreg_open(&config, &fixture.lib));
    assert_ok(hmreg_domain_open_loopback(fixture.lib, &loopback, NULL, &fixture.domain));
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(try_get(memory[0] + i), 0);
    assert_int_equal(fixture_stats().misses, 1000);
    assert_in_range(fixture_stats().regions, 1, 256);
}

TEST(reg__no_room__other_caches_of_the_domain_make_room)
{
    open_fixture(NULL);
    vendor_claim(HMREG_IFACE_ZE, memory[8], LEN, HMREG_MEM_DEVICE, 1);
    counter.room = 2;
    touch(2);
    assert_int_equal(fixture_key(memory[8], LEN), 4);
    assert_int_equal(fixture_stats().evictions, 1);
}

TEST(reg__no_room_in_a_domain_without_cache__nothing_to_evict)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .flags = HMREG_DOMAIN_NO_CACHE};
    struct hmreg_mr *held;

    open_fixture(&config);
    counter.room = 1;
    held = fixture_get(memory[0], LEN);
    assert_int_equal(try_get(memory[1]), -ENOMEM);
    assert_int_equal(atomic_load(&counter.regs), 2);
    hmreg_mr_put(held);
}

/* ---- memory ----------------------------------------------------------------------------- */

static int callocs_left = -1; /* -1: all succeed */

void *__wrap_calloc(size_t count, size_t size);
void *__real_calloc(size_t count, size_t size);
int __wrap_mprotect(void *addr, size_t len, int prot);
int __real_mprotect(void *addr, size_t len, int prot);

/* Stable arrays get their memory by mprotect(). */
int __wrap_mprotect(void *addr, size_t len, int prot)
{
    if (callocs_left == 0) {
        errno = ENOMEM;
        return -1;
    }
    if (callocs_left > 0)
        callocs_left--;
    return __real_mprotect(addr, len, prot);
}

void *__wrap_calloc(size_t count, size_t size)
{
    if (callocs_left == 0)
        return NULL;
    if (callocs_left > 0)
        callocs_left--;
    return __real_calloc(count, size);
}

/* A region of two ranges has an extension, natives and a list. */
static int try_get_extended(void)
{
    const struct hmreg_segment segments[2] = {
        {.kind = HMREG_SEGMENT_MEMORY, .u.memory = {memory[0], LEN}},
        {.kind = HMREG_SEGMENT_MEMORY, .u.memory = {memory[2], LEN}},
    };
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .segments = segments,
                                 .segment_count = 2,
                                 .access = HMREG_ACCESS_REMOTE};
    struct hmreg_mr *mr = (void *)1;
    int rc = hmreg_mr_get_attr(fixture.domain, &attr, 0, &mr);

    if (rc)
        assert_ptr_equal(mr, (void *)1);
    else
        hmreg_mr_put(mr);
    return rc;
}

TEST(calloc__each_fails_in_turn__enomem_and_nothing_lost)
{
    int failures = 0, rc;

    open_fixture(NULL);
    do {
        callocs_left = failures;
        rc = try_get_extended();
        callocs_left = -1;
        if (rc)
            assert_int_equal(rc, -ENOMEM);
        failures += rc != 0;
        assert_int_equal(atomic_load(&counter.regions), rc ? 0 : 2);
    } while (rc);
    assert_true(failures >= 4); /* for the ranges, the extension and the natives */
    assert_int_equal(fixture_stats().regions, 1);
    assert_int_equal(fixture_key(memory[0], LEN), fixture_key(memory[0], LEN));
}

/* Without memory for its thread cache a thread takes the slow path. */
TEST(calloc__fails_for_what_threads_remember__hits_all_the_same)
{
    uint64_t key;

    open_fixture(NULL);
    fixture_key(memory[0], LEN);
    assert_ok(hmreg_invalidate(fixture.lib, memory[0], LEN));
    for (unsigned i = 1; i < 64; i++) /* fills the reserved memory */
        fixture_key(memory[i], LEN);
    fixture_key(memory[0], LEN);
    key = fixture_key(memory[0] + 64, 64);
    callocs_left = 0;
    for (int i = 0; i < 10; i++)
        assert_int_equal(fixture_key(memory[0] + 64 + i, 8), key);
    callocs_left = -1;
    assert_int_equal(atomic_load(&counter.regs), 65);
}

TEST(calloc__fails_in_domain_open__enomem)
{
    struct hmreg *lib;

    vendors_reset();
    for (int i = 0; i < 2; i++) { /* the domain, its caches */
        struct hmreg_domain *domain = NULL;
        struct provider_ops ops = {.name = "test"};
        struct provider_caps caps = {.fabric = "test", .key_size = 8, .iov_limit = 1};

        assert_ok(hmreg_open(NULL, &lib));
        callocs_left = i;
        assert_int_equal(hmreg_domain_create(lib, &ops, &caps, NULL, NULL, &domain), -ENOMEM);
        callocs_left = -1;
        assert_null(domain);
        assert_ok(hmreg_close(lib));
    }
}

TEST(calloc__fails_in_open__enomem)
{
    struct hmreg *lib = NULL;
    int rc, failures = -1;

    vendors_reset();
    do {
        callocs_left = ++failures;
        rc = hmreg_open(NULL, &lib);
        callocs_left = -1;
        if (rc)
            assert_int_equal(rc, -ENOMEM);
    } while (rc);
    assert_true(failures >= 2); /* the library, the monitor */
    assert_ok(hmreg_close(lib));
}

/* ---- the kernel ------------------------------------------------------------------------- */

/* In a child, since a filter cannot be removed. 0, or the step that failed. */
static int without_userfaultfd(int errnum)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_USERFAULTFD};
    struct hmreg_monitor_info info = {.size = sizeof(info)};
    struct hmreg *lib = NULL;

    if (!code_filter_userfaultfd(SECCOMP_RET_ERRNO | (unsigned)errnum,
                                 SECCOMP_RET_ERRNO | (unsigned)errnum))
        return 77;
    if (hmreg_open(&config, &lib) != -errnum || lib)
        return 1;
    if (!strstr(hmreg_last_error()->text, "userfaultfd") ||
        hmreg_last_error()->vendor_code != errnum)
        return 2;
    config.monitor = HMREG_MONITOR_DEFAULT;
    hmreg_copy(NULL, NULL, NULL, 0); /* an earlier error, which must not be reported */
    if (hmreg_open(&config, &fixture.lib) || hmreg_last_error()->code != -EINVAL)
        return 3;
    fixture.domain = counter_open(fixture.lib, NULL);
    if (hmreg_monitor_query(fixture.lib, &info) || info.active != HMREG_MONITOR_DEFAULT ||
        info.calls)
        return 4;
    if (fixture_key(memory[0], LEN) != 1 || fixture_key(memory[0], LEN) != 1)
        return 5;
    if (hmreg_monitor_query(fixture.lib, &info) || info.active != HMREG_MONITOR_MEMHOOKS)
        return 6;
    fixture_close();
    return 0;
}

static void run_without_userfaultfd(int errnum)
{
    if (FIXTURE_SANITIZED)
        test_skip("beside a sanitizer memhooks are no default");
    test_in_child_or_skip(without_userfaultfd(errnum), "this system has no seccomp filters");
}

TEST(open__userfaultfd_not_permitted__eperm_or_memhooks)
{
    vendors_reset();
    run_without_userfaultfd(EPERM);
}

TEST(open__userfaultfd_not_built_in__enosys_or_memhooks)
{
    vendors_reset();
    run_without_userfaultfd(ENOSYS);
}

TEST(open__no_descriptor_left__emfile_and_nothing_lost)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_USERFAULTFD};
    struct rlimit before, few;
    struct hmreg *lib = NULL;
    int failures = 0, rc = 0;

    vendors_reset();
    fixture_open(HMREG_MONITOR_USERFAULTFD, NULL); /* skips without userfaultfd */
    fixture_close();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    for (few = before; !lib; failures++) {
        int fd = dup(0);

        close(fd);
        few.rlim_cur = (rlim_t)(fd + failures);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        rc = hmreg_open(&config, &lib);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        if (rc)
            assert_int_equal(rc, -EMFILE);
    }
    assert_int_equal(failures, 2); /* userfaultfd, then its open */
    assert_ok(hmreg_close(lib));
}

/* Another userfaultfd of the process watches the memory already. */
TEST(watch__anothers_userfaultfd_is_there__served_uncached)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
    char *mapped = fixture_map(1);

    vendors_reset();
    fixture_open(HMREG_MONITOR_USERFAULTFD, NULL);
    assert_int_equal(ioctl(fd, UFFDIO_API, &api), 0);
    range.range = (struct uffdio_range){(uintptr_t)mapped, fixture_page()};
    assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &range), 0);
    assert_int_equal(fixture_key(mapped, LEN), 1);
    assert_int_equal(fixture_key(mapped, LEN), 2);
    assert_int_equal(fixture_stats().uncached, 2);
    fixture_close();
    assert_int_equal(ioctl(fd, UFFDIO_UNREGISTER, &range.range), 0); /* it is still registered */
    munmap(mapped, fixture_page());
    close(fd);
}

TEST_MAIN()
