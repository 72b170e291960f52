/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory that no runtime knows and the process cannot read: no query calls it host memory, a domain
 * with HMREG_MR_ALLOCATED refuses it, and another registers it, warns once, and explains it.
 */
#include "tests/support/vendors.h"
#include "tests/support/world.h"

#include <sys/mman.h>

static char said[1024];
static unsigned warnings;

static void take(enum hmreg_log_level level, const char *text, void *context)
{
    if (level != HMREG_LOG_WARN)
        return;
    warnings++;
    snprintf(said, sizeof(said), "%s", text);
}

static struct hmreg_domain *strict, *lax; /* with HMREG_MR_ALLOCATED and without */
static char *pages;                       /* three: readable, without rights, not mapped */
static size_t page;

static void unmap(void)
{
    munmap(pages, 3 * page);
}

static void open_all(enum hmreg_monitor monitor)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = monitor, .log = take};

    page = (size_t)sysconf(_SC_PAGESIZE);
    warnings = 0;
    pages = test_map(3 * page);
    test_after(unmap);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    assert_int_equal(munmap(pages + 2 * page, page), 0);
    world_open(.library = &config, .mr_mode = HMREG_MR_VIRT_ADDR | HMREG_MR_ALLOCATED);
    strict = world.domain;
    lax = world_add(.mr_mode = HMREG_MR_VIRT_ADDR);
}

/* What is queried and registered in each case. */
static struct {
    size_t first, count; /* pages */
} const cases[] = {{1, 1}, {0, 2}, {2, 1}, {0, 3}};

#define CASES (sizeof(cases) / sizeof(cases[0]))

static void check_refused(size_t index)
{
    char *at = pages + cases[index].first * page;
    size_t len = cases[index].count * page;
    struct hmreg_mem_info info = {.size = sizeof(info), .iface = HMREG_IFACE_CUDA};
    struct hmreg_mr *mr = NULL;

    assert_int_equal(hmreg_query(world.lib, at, len, &info), -EFAULT);
    assert_int_equal(info.iface, HMREG_IFACE_CUDA);
    assert_int_equal(hmreg_mr_reg(strict, at, len, HMREG_SEND, 0, 0, 0, &mr, NULL), -EFAULT);
    assert_int_equal(hmreg_mr_get(strict, at, len, HMREG_SEND, &mr), -EFAULT);
    assert_null(mr);
}

TEST(query_and_allocated__refused)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};

    open_all(HMREG_MONITOR_DISABLED);
    for (size_t i = 0; i < CASES; i++)
        check_refused(i);
    assert_fails(hmreg_query(world.lib, pages, 2 * page, &info), -EFAULT,
                 "no runtime knows the memory");
    assert_ok(hmreg_query(world.lib, pages, page, &info));
    assert_int_equal(info.flags, HMREG_MEM_INFO_CPU_ACCESS);
}

/* Registers, or gets, each case's range where it is permitted. */
static void check_taken(enum hmreg_monitor monitor, bool gets)
{
    open_all(monitor);
    for (size_t i = 0; i < CASES; i++) {
        char *at = pages + cases[i].first * page;
        size_t len = cases[i].count * page;
        struct hmreg_mr *mr;

        if (gets)
            assert_ok(hmreg_mr_get(lax, at, len, HMREG_SEND, &mr));
        else
            assert_ok(hmreg_mr_reg(lax, at, len, HMREG_SEND, 0, 0, 0, &mr, NULL));
        assert_int_equal(warnings, 1); /* of the first alone */
        assert_non_null(strstr(test_why_of(mr).uncached_why, "no runtime knows the memory"));
        if (gets)
            hmreg_mr_put(mr);
        else
            assert_ok(hmreg_mr_close(mr));
    }
    assert_non_null(strstr(said, "registered as host memory, although no runtime knows"));
}

TEST(reg__permitted__one_warning_and_explained)
{
    check_taken(HMREG_MONITOR_DISABLED, false);
}

TEST(get__not_cached__one_warning_and_explained)
{
    check_taken(HMREG_MONITOR_DISABLED, true);
}

TEST(get__default_monitor__one_warning_and_explained)
{
    check_taken(HMREG_MONITOR_DEFAULT, true);
}

TEST(readable_memory__nothing_said)
{
    struct hmreg_mr *mr;

    open_all(HMREG_MONITOR_DISABLED);
    assert_ok(hmreg_mr_reg(lax, pages, page, HMREG_SEND, 0, 0, 0, &mr, NULL));
    assert_string_equal(test_why_of(mr).uncached_why, "");
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_mr_get(lax, pages, page, HMREG_SEND, &mr));
    hmreg_mr_put(mr);
    assert_int_equal(warnings, 0);
}

/* What a runtime knows is its memory, however the CPU may access it. */
TEST(runtimes_memory__its_until_it_is_freed__then_refused)
{
    enum hmreg_mem_kind kinds[] = {HMREG_MEM_DEVICE, HMREG_MEM_MANAGED};

    open_all(HMREG_MONITOR_DISABLED);
    for (int i = 0; i < 2; i++) {
        char *memory = vendor_memory(HMREG_IFACE_CUDA, 0, kinds[i], page);
        struct hmreg_mem_info info = {.size = sizeof(info)};

        assert_ok(hmreg_query(world.lib, memory, page, &info));
        assert_int_equal(info.iface, HMREG_IFACE_CUDA);
        assert_int_equal(info.kind, kinds[i]);
        assert_int_equal(warnings, i); /* of refused queries */
        vendor_memory_free(memory);
        assert_int_equal(hmreg_query(world.lib, memory, page, &info), -EFAULT);
    }
}

TEST_MAIN()
