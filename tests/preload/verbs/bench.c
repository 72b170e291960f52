/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See bench.h.
 */
#include "tests/preload/verbs/bench.h"

#include <sys/mman.h>

/* Before the test program counts descriptors: libhmreg keeps two, which it opens at its first use.
 */
__attribute__((constructor)) static void warm_up(void)
{
    struct bench bench;

    if (getenv("PRELOAD_COLD"))
        return;
    bench = bench_open();
    bench_dereg(bench_reg(&bench, bench_map(NULL, 65536), 65536, READ));
    bench_close(&bench);
}

bool bench_mode(const char *mode)
{
    const char *words = getenv("HMREG_RUN_MODE"), *at = words ? strstr(words, mode) : NULL;

    return at && (at[strlen(mode)] == '\0' || at[strlen(mode)] == ',');
}

void bench_need(const char *mode)
{
    if (!bench_mode(mode))
        test_skip("of mode %s", mode);
}

static struct bench opened;

static void close_opened(void)
{
    if (opened.device)
        bench_close(&opened);
}

void bench_closed(void)
{
    opened.device = NULL;
}

struct bench bench_open(void)
{
    struct bench bench;
    struct ibv_device **list;
    int count;

    if (!ib.open_device)
        calls_find();
    list = ib.get_device_list(&count);
    assert_int_equal(count, 1);
    bench.device = ib.open_device(list[0]);
    ib.free_device_list(list);
    assert_non_null(bench.device);
    bench.pd = ib.alloc_pd(bench.device);
    assert_non_null(bench.pd);
    assert_int_equal(atomic_load(&ib.fake->live), 0);
    bench.regs = atomic_load(&ib.fake->regs);
    opened = bench;
    test_after(close_opened);
    return bench;
}

void bench_close(struct bench *bench)
{
    assert_int_equal(ib.dealloc_pd(bench->pd), 0);
    assert_int_equal(atomic_load(&ib.fake->live), 0);
    assert_int_equal(ib.close_device(bench->device), 0);
    bench_closed();
}

unsigned bench_regs(const struct bench *bench)
{
    return atomic_load(&ib.fake->regs) - bench->regs;
}

char *bench_map(void *where, size_t len)
{
    char *made = mmap(where, len, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0), -1, 0);

    assert_true(made != MAP_FAILED);
    memset(made, 1, len);
    return made;
}

struct ibv_mr *bench_reg(struct bench *bench, void *addr, size_t len, int access)
{
    struct ibv_mr *mr = ib.reg_mr(bench->pd, addr, len, access);

    if (!mr)
        fail_msg("ibv_reg_mr: %s", strerror(errno));
    assert_ptr_equal(mr->addr, addr);
    assert_int_equal(mr->length, len);
    assert_ptr_equal(mr->pd, bench->pd);
    assert_ptr_equal(mr->context, bench->device);
    return mr;
}

void bench_dereg(struct ibv_mr *mr)
{
    assert_int_equal(ib.dereg_mr(mr), 0);
}
