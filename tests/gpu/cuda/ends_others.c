/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The CUDA vendor's hooks beside those of another library in the same functions, as UCX's, which
 * come before or after and may be removed; and threads that are inside the functions while they are
 * hooked. Each case needs a process in which no function is hooked yet: CTest runs them apart.
 */
#include "core/patch/entry_hook.h"
#include "tests/gpu/cuda/driver.h"
#include "tests/support/code_filters.h"
#include "tests/support/code_watch.h"

#include <pthread.h>
#include <sys/mman.h>

#define BYTES 100000

typedef unsigned free_function(unsigned long long addr);

/* ---- what is reported ------------------------------------------------------------------- */

static _Atomic uint64_t expected;
static atomic_uint reports;

static void listen(uint64_t start, uint64_t end)
{
    uint64_t addr = atomic_load(&expected);

    if (start <= addr && end >= addr + BYTES)
        atomic_fetch_add(&reports, 1);
}

static struct bench begin(void)
{
    driver_need_hooks();
    hmem_listen(listen);
    return bench_begin();
}

/* Not where another thread still frees what was at the address. */
static bool watch_new(const struct bench *bench, uint64_t *addr)
{
    struct hmem_range range;

    *addr = cu_alloc(BYTES);
    assert_ok(bench_resolve(bench, *addr, BYTES, &range));
    if (hmem_cuda_ops.watch(bench->hmem, *addr, BYTES, &range, NULL))
        return true;
    CU(cu.free(*addr));
    return false;
}

static uint64_t watched(const struct bench *bench)
{
    uint64_t addr;

    test_wait_until(watch_new(bench, &addr));
    atomic_store(&expected, addr);
    atomic_store(&reports, 0);
    return addr;
}

/* ---- another library -------------------------------------------------------------------- */

static struct entry_hook other;
static unsigned others;

static unsigned others_free(unsigned long long addr)
{
    void *at = atomic_load(&other.original);
    free_function *original = NULL;

    others++;
    memcpy(&original, &at, sizeof(at));
    return original(addr);
}

static void hook_as_another(void)
{
    free_function *replacement = others_free;

    memcpy(&other.function, &cu.free, sizeof(cu.free));
    memcpy(&other.replacement, &replacement, sizeof(replacement));
    assert_int_equal(entry_hooks_install(&other, 1), 1);
}

/* Writes back what was there when it came. */
static void unhook_as_another(void)
{
    struct code_text text = {0};

    assert_int_equal(
        code_write(&text,
                   &(struct code_change){patch_site(&other.patch), patch_before(&other.patch),
                                         patch_size(&other.patch)},
                   1),
        0);
}

static void check_free(uint64_t addr, unsigned calls_of_other)
{
    others = 0;
    CU(cu.free(addr));
    assert_true(atomic_load(&reports) >= 1);
    assert_int_equal(others, calls_of_other);
}

TEST(before__another_hooks_first__both_called)
{
    struct bench bench = begin();
    uint64_t addr;

    hook_as_another();
    check_free(watched(&bench), 1);
    addr = watched(&bench);
    unhook_as_another(); /* and with its jump ours */
    atomic_store(&expected, addr);
    CU(cu.free(watched(&bench))); /* its watch finds that */
    atomic_store(&expected, addr);
    atomic_store(&reports, 0);
    check_free(addr, 0);
    check_free(watched(&bench), 0);
}

TEST(after__another_hooks_later__both_called)
{
    struct bench bench = begin();
    uint64_t addr = watched(&bench);

    hook_as_another();
    check_free(addr, 1);
    check_free(watched(&bench), 1); /* its watch hooks the function once more */
    unhook_as_another();
    check_free(watched(&bench), 0);
    for (int i = 0; i < 10; i++)
        check_free(watched(&bench), 0);
}

/* Another library that restores the function again and again, more often than there are slots. */
TEST(again__another_never_ends__asked_in_the_end)
{
    struct bench bench = begin();
    uint64_t addr = cu_alloc(BYTES);
    struct hmem_runtime runtime;
    struct hmem_range range;
    unsigned times = 0;

    hook_as_another();
    unhook_as_another();
    if (other.patch.via) {
        CU(cu.free(addr));
        bench_end(&bench);
        test_skip("this build's functions are hooked by a short jump, in another place");
    }
    assert_ok(bench_resolve(&bench, addr, BYTES, &range));
    while (hmem_cuda_ops.watch(bench.hmem, addr, BYTES, &range, NULL) && times++ < 100)
        unhook_as_another();
    assert_in_range(times, 10, 99);
    assert_false(hmem_cuda_ops.watch(bench.hmem, addr, BYTES, &range, NULL));
    hmem_cuda_ops.runtime(bench.hmem, &runtime);
    assert_non_null(strstr(runtime.unreported, "device, managed, ")); /* which cuMemFree ends */
    CU(cu.free(addr));
}

/* ---- a policy --------------------------------------------------------------------------- */

TEST(policy__writable_code_ends_the_process__hooked)
{
    struct bench bench = begin();
    uint64_t addr;

    if (!code_moves() || !code_filter_writable())
        test_skip("this kernel lets no code be changed but writable code");
    addr = watched(&bench);
    CU(cu.free(addr));
    assert_true(atomic_load(&reports) >= 1);
}

/* A process that places hooks. Returns its exit status. */
static int place(bool moves)
{
    struct bench bench = begin();
    uint64_t addr;

    if ((!moves && !code_filter_moves()) || code_watch_begin())
        return 77;
    addr = watched(&bench);
    CU(cu.free(addr));
    bench_end(&bench);
    return atomic_load(&reports) >= 1 ? 0 : 1;
}

static struct code_watch place_and_look(bool moves)
{
    static const char *const hooked[] = {"/libcuda.so", NULL};
    struct code_watch seen = {.files = hooked};
    pid_t child;
    int rc;

    driver_need_hooks();
    test_forks_with_threads();
    fflush(NULL);
    child = fork();
    if (child == 0)
        _exit(place(moves));
    rc = code_watch(child, &seen);
    if (rc == 77)
        test_skip("filters or ptrace(2) cannot be used here");
    assert_int_equal(rc, 0);
    assert_true(seen.stops > 20);
    assert_int_equal(seen.left, 0);
    if (seen.other)
        fail_msg("writable and executable: %s", seen.line);
    return seen;
}

TEST(writable__at_each_system_call__no_code)
{
    if (!code_moves())
        test_skip("this kernel lets no code be changed but writable code");
    assert_int_equal(place_and_look(true).code, 0);
}

TEST(writable__where_code_must_be__only_the_drivers)
{
    assert_true(place_and_look(false).code > 0);
}

/* ---- threads inside --------------------------------------------------------------------- */

#define THREADS 8

static atomic_bool done;

static void *alloc_and_free(void *arg)
{
    const struct bench *bench = arg;
    struct cuda_context *current = NULL;

    CU(cu.context_push(bench->context));
    while (!atomic_load(&done)) {
        unsigned long long addr = 0;

        CU(cu.alloc(&addr, 4096));
        CU(cu.free(addr));
    }
    CU(cu.context_pop(&current));
    return NULL;
}

TEST(threads__inside_while_hooked__go_on)
{
    struct bench bench = begin();
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, alloc_and_free, &bench), 0);
    for (unsigned long i = 0; i < test_times(500); i++) {
        uint64_t addr = watched(&bench);

        CU(cu.free(addr));
        assert_true(atomic_load(&reports) >= 1);
    }
    atomic_store(&done, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

TEST_MAIN()
