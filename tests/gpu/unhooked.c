/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A driver's function that cannot be hooked: hits on the memory that it can end ask the runtime,
 * and hmreg_mr_explain() says so, with the function and the reason. The process finds a driver's
 * functions once, so these cases are not among those of ended.c.
 */
#include "core/patch/code.h"
#include "core/patch/entry_hook.h"
#include "tests/gpu/gpu.h"

#include <hmreg/loopback.h>
#include <sys/mman.h>

#define LEN 65536

#if defined(__aarch64__)
static const uint8_t breakpoint[] = {0x00, 0x00, 0x20, 0xd4};
#else
static const uint8_t breakpoint[] = {0xcc};
#endif

struct bench {
    struct hmem *application; /* beside the library */
    struct hmreg *lib;
    struct hmreg_domain *domain;
};

/* As a debugger does, at the beginning of a function. Returns the function's name. */
static const char *set_breakpoint(void)
{
    struct code_text text = {0};
    const char *name;
    uint8_t *at = gpu.unused_end(&name);

    assert_non_null(at);
    assert_true(code_start());
    assert_int_equal(
        code_write(&text, &(struct code_change){at, breakpoint, sizeof(breakpoint)}, 1), 0);
    return name;
}

static void open_bench(struct bench *bench)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(gpu.ops->iface)};
    struct hmreg_domain_config domain = {.size = sizeof(domain), .order = {HMREG_PATH_MAPPED}};

    assert_ok(hmreg_open(&config, &bench->lib));
    assert_ok(hmreg_domain_open_loopback(bench->lib, NULL, &domain, &bench->domain));
}

static void close_bench(struct bench *bench)
{
    assert_ok(hmreg_domain_close(bench->domain));
    assert_ok(hmreg_close(bench->lib));
    gpu.end(bench->application);
}

static struct hmreg_explanation explain(struct bench *bench, void *addr)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(bench->domain, addr, LEN, HMREG_ACCESS_REMOTE, &mr));
    assert_ok(hmreg_mr_explain(mr, &why));
    hmreg_mr_put(mr);
    return why;
}

static struct hmreg_explanation explain_kind(struct bench *bench, enum hmreg_mem_kind kind)
{
    uint64_t addr = gpu.alloc(0, kind, LEN);
    struct hmreg_explanation why = explain(bench, (void *)(uintptr_t)addr);

    gpu.free(addr, kind);
    return why;
}

TEST(explain__function_not_hooked__it_and_the_reason)
{
    struct hmreg_runtime_info runtime = {.size = sizeof(runtime)};
    struct hmreg_explanation why;
    struct bench bench;
    char text[128];
    const char *name;

    if (entry_hooks_refusal())
        test_skip("%s", entry_hooks_refusal());
    gpu_need_fake();
    bench.application = gpu.begin();
    name = set_breakpoint();
    snprintf(text, sizeof(text), "%s cannot be hooked: there is a breakpoint", name);
    open_bench(&bench);
    why = explain_kind(&bench, HMREG_MEM_DEVICE);
    assert_int_equal(why.asks, HMREG_ASKS_RUNTIME);
    assert_ptr_equal(strstr(why.asks_why, text), why.asks_why);
    assert_ok(hmreg_runtime_query(bench.lib, gpu.ops->iface, &runtime));
    assert_non_null(strstr(runtime.unreported, text));
    if (gpu.ops->iface == HMREG_IFACE_CUDA) { /* this function ends no such memory */
        why = explain_kind(&bench, HMREG_MEM_MANAGED);
        assert_int_equal(why.asks, 0);
        assert_string_equal(why.asks_why, "");
    }
    close_bench(&bench);
}

TEST(explain__host_memory__nothing_of_it)
{
    struct hmreg_explanation why;
    struct bench bench;
    void *memory = calloc(1, LEN);

    if (entry_hooks_refusal())
        test_skip("%s", entry_hooks_refusal());
    gpu_need_fake();
    bench.application = gpu.begin();
    set_breakpoint();
    open_bench(&bench);
    why = explain(&bench, memory);
    assert_int_equal(why.asks & HMREG_ASKS_RUNTIME, 0);
    assert_string_equal(why.asks_why, "");
    close_bench(&bench);
    free(memory);
}

TEST_MAIN()
