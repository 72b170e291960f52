/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * How much stack calls take of the thread that makes them: docs/locks.md promises bounds, since
 * user-level threads have small stacks. The case runs on a stack that is filled with a pattern
 * before each call; what the call has overwritten is counted behind it.
 */
#include "tests/support/cache_fixture.h"

#include <hmreg/loopback.h>
#include <hmreg/plan.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum { STACK = 256 << 10, PATTERN = 0x5a, NEAR = 256 };

/* The bounds of the document, bytes. */
enum { SHORT = 2 << 10, MIDDLE = 12 << 10, LONG = 16 << 10, LONGEST = 48 << 10 };

static unsigned char *lowest; /* of the stack */
static char *memory;
static struct hmreg *lib;
static struct hmreg_domain *domain;
static struct hmreg_mr *mr;
static struct hmreg_remote *remote;
static unsigned over; /* calls beyond their bound; the case's own thread asserts */
static char token[4096];
static size_t size;

/* The volatile accesses keep compilers from calling memset(3), whose frame would be overwritten. */
static __attribute__((noinline)) void fill(void)
{
    volatile unsigned char *end = (unsigned char *)__builtin_frame_address(0) - NEAR;

    for (volatile unsigned char *at = lowest; at < end; at++)
        *at = PATTERN;
}

static __attribute__((noinline)) void check(const char *what, void (*call)(void), size_t bound)
{
    unsigned char *top = __builtin_frame_address(0), *at = lowest;

    fill();
    call();
    while (*at == PATTERN)
        at++;
    print_message("%s: %td bytes of stack\n", what, top - at);
    over += (size_t)(top - at) > bound;
}

static void get(void)
{
    assert_true(hmreg_mr_get(domain, memory, 10, HMREG_ACCESS_ALL, &mr) == 0);
}

static void put(void)
{
    hmreg_mr_put(mr);
}

static void get_wrong(void)
{
    assert_true(hmreg_mr_get(domain, memory, 0, HMREG_ACCESS_ALL, &mr) == -EINVAL);
}

static void query_unmapped(void)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};

    assert_true(hmreg_query(lib, (void *)(uintptr_t)64, 10, &info) == -EFAULT);
}

static void reg(void)
{
    assert_true(
        hmreg_mr_reg(domain, memory, 10, HMREG_ACCESS_ALL, 0, HMREG_KEY_ANY, 0, &mr, NULL) == 0);
}

static void pack(void)
{
    size = sizeof(token);
    assert_true(hmreg_mr_pack(mr, token, &size) == 0);
}

static void open_remote(void)
{
    assert_true(hmreg_remote_open(domain, token, size, &remote) == 0);
}

static void close_remote(void)
{
    hmreg_remote_close(remote);
}

static void close_region(void)
{
    assert_true(hmreg_mr_close(mr) == 0);
}

static void explain(void)
{
    static struct hmreg_explanation out = {.size = sizeof(out)};

    assert_true(hmreg_domain_explain(domain, HMREG_IFACE_SYSTEM, 0, &out) == 0);
}

static void plan(void)
{
    static struct hmreg_plan out = {.size = sizeof(out)};

    assert_true(hmreg_domain_plan(domain, HMREG_IFACE_SYSTEM, 0, 1 << 20, &out) == 0);
}

static void open_library(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = fixture_monitor()};

    if (hmreg_open(&config, &lib) == 0)
        assert_true(hmreg_domain_open_loopback(lib, NULL, NULL, &domain) == 0);
}

static void close_library(void)
{
    assert_true(hmreg_domain_close(domain) == 0);
    assert_true(hmreg_close(lib) == 0);
}

static void *call_all(void *unused)
{
    check("hmreg_open()", open_library, LONG); /* installs the hooks that it names */
    if (!lib)
        return NULL;
    check("first get", get, LONG);
    put();
    get(); /* looks once more (docs/memhooks.md) */
    put();
    check("hit", get, SHORT);
    check("put", put, SHORT);
    assert_true(madvise(memory, 1, MADV_DONTNEED) == 0);
    check("miss", get, MIDDLE);
    put();
    check("get, wrong arguments", get_wrong, MIDDLE);
    check("query of no memory", query_unmapped, LONG);
    check("registration", reg, MIDDLE);
    check("pack", pack, MIDDLE);
    check("remote's open", open_remote, MIDDLE);
    check("remote's close", close_remote, SHORT);
    check("region's close", close_region, MIDDLE);
    check("hmreg_domain_explain()", explain, LONGEST);
    check("hmreg_domain_plan()", plan, LONGEST);
    check("hmreg_close()", close_library, LONG);
    return NULL;
}

TEST(calls__on_a_small_stack__within_the_documents_bounds)
{
    pthread_attr_t attr;
    pthread_t thread;

    memory = fixture_map(1);
    lowest = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(lowest != MAP_FAILED);
    assert_true(pthread_attr_init(&attr) == 0);
    assert_true(pthread_attr_setstack(&attr, lowest, STACK) == 0);
    assert_true(pthread_create(&thread, &attr, call_all, NULL) == 0);
    assert_true(pthread_join(thread, NULL) == 0);
    pthread_attr_destroy(&attr);
    assert_int_equal(over, 0);
    if (!lib)
        test_skip("the machine does not permit %s", hmreg_monitor_name(fixture_monitor()));
}

TEST_MAIN()
