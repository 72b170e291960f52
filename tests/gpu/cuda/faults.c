/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Each of the driver's calls made to fail, under each operation, at each time it is called:
 * nothing crashes, outputs stay as they were, nothing is left behind, and the driver's code
 * comes through with its name. Which calls an operation makes is found out by letting each
 * fail; which of them it must survive is written down here.
 */
#include "tests/gpu/cuda/driver.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define MIB       1048576ul
#define FAIL_CODE CUDA_UNKNOWN_ERROR
#define MAX_TURNS 16

/* Memory of every sort, made before calls fail. */
static struct scene {
    struct hmem *hmem;
    unsigned long long plain, pool, pieces;
    size_t granule;
    struct hmem_range range_of_pieces;
} scene;

static const char *const calls[] = {
#define NAME(member, name, parameters) #name,
    CUDA_ENTRIES(NAME, NAME)
#undef NAME
};

/* ---- operations ------------------------------------------------------------------------- */

/* Every output of every operation; those of a failed one must not change. */
union output {
    struct hmem_range range;
    uint64_t identity;
    struct hmreg_dmabuf dmabuf;
    void *addr;
    struct hmem *hmem;
};

static int do_open(union output *out)
{
    return hmem_cuda_ops.open(&out->hmem);
}

static void undo_open(union output *out)
{
    hmem_cuda_ops.close(out->hmem);
}

static int do_resolve_plain(union output *out)
{
    return hmem_cuda_ops.resolve(scene.hmem, scene.plain, MIB, &out->range);
}

static int do_resolve_pool(union output *out)
{
    return hmem_cuda_ops.resolve(scene.hmem, scene.pool, MIB, &out->range);
}

static int do_resolve_pieces(union output *out)
{
    return hmem_cuda_ops.resolve(scene.hmem, scene.pieces, 2 * scene.granule, &out->range);
}

static int do_identity(union output *out)
{
    return hmem_cuda_ops.identity(scene.hmem, scene.pieces, 2 * scene.granule, &out->identity);
}

static int do_export_plain(union output *out)
{
    struct hmem_range range = {.kind = HMREG_MEM_DEVICE, .segments = 1};

    return hmem_cuda_ops.export_dmabuf(scene.hmem, scene.plain, MIB, &range, &out->dmabuf);
}

static int do_export_pieces(union output *out)
{
    return hmem_cuda_ops.export_dmabuf(scene.hmem, scene.pieces, 2 * scene.granule,
                                       &scene.range_of_pieces, &out->dmabuf);
}

static void undo_export(union output *out)
{
    close(out->dmabuf.fd);
}

static int do_copy_plain(union output *out)
{
    char byte = 1;

    return hmem_cuda_ops.copy(scene.hmem, scene.plain, (uintptr_t)&byte, 1);
}

static int do_copy_pieces(union output *out)
{
    char byte = 1;

    return hmem_cuda_ops.copy(scene.hmem, (uintptr_t)&byte, scene.pieces, 1);
}

static int do_alloc(union output *out)
{
    return hmem_cuda_ops.alloc(scene.hmem, 1, HMREG_MEM_DEVICE, 100, &out->addr);
}

static void undo_alloc(union output *out)
{
    assert_ok(hmem_cuda_ops.free(scene.hmem, out->addr, HMREG_MEM_DEVICE));
}

static int do_alloc_pinned(union output *out)
{
    return hmem_cuda_ops.alloc(scene.hmem, 1, HMREG_MEM_HOST_PINNED, 100, &out->addr);
}

static void undo_alloc_pinned(union output *out)
{
    assert_ok(hmem_cuda_ops.free(scene.hmem, out->addr, HMREG_MEM_HOST_PINNED));
}

static int do_alloc_managed(union output *out)
{
    return hmem_cuda_ops.alloc(scene.hmem, 1, HMREG_MEM_MANAGED, 100, &out->addr);
}

static void undo_alloc_managed(union output *out)
{
    assert_ok(hmem_cuda_ops.free(scene.hmem, out->addr, HMREG_MEM_MANAGED));
}

/* survives: calls without which the operation does what it can. Besides these, a call that only
 * cleans up is never a failure: see is_cleanup(). */
static const struct operation {
    const char *name;
    int (*run)(union output *out);
    void (*undo)(union output *out);
    const char *survives[6];
} operations[] = {
    {"open",
     do_open,
     undo_open,
     {"cuDriverGetVersion", "cuDeviceGetName", "cuDeviceGetAttribute", "cuDeviceTotalMem_v2"}},
    {"resolve plain", do_resolve_plain, NULL, {0}},
    {"resolve pool", do_resolve_pool, NULL, {0}},
    {"resolve pieces", do_resolve_pieces, NULL, {0}},
    {"identity", do_identity, NULL, {0}},
    {"export plain", do_export_plain, undo_export, {0}},
    {"export pieces", do_export_pieces, undo_export, {0}},
    {"copy plain", do_copy_plain, NULL, {0}},
    {"copy pieces", do_copy_pieces, NULL, {0}},
    {"alloc device", do_alloc, undo_alloc, {0}},
    {"alloc pinned", do_alloc_pinned, undo_alloc_pinned, {0}},
    {"alloc managed", do_alloc_managed, undo_alloc_managed, {0}},
};
#define OPERATIONS (sizeof(operations) / sizeof(operations[0]))

static bool is_cleanup(const char *call)
{
    return !strcmp(call, "cuCtxPopCurrent_v2") || !strcmp(call, "cuDevicePrimaryCtxRelease_v2") ||
           !strcmp(call, "cuMemRelease");
}

static bool survives(const struct operation *operation, const char *call)
{
    for (size_t i = 0; i < 6 && operation->survives[i]; i++)
        if (!strcmp(operation->survives[i], call))
            return true;
    return is_cleanup(call);
}

/* ---- one trial -------------------------------------------------------------------------- */

struct trial {
    const struct operation *operation;
    const char *call;
    int turn; /* which of the operation's calls of that name fails */
    bool reached;
    char problem[400];
};

static void check_failure(struct trial *trial, int rc, const union output *out)
{
    const struct hmreg_error *error = hmreg_last_error();
    union output untouched;

    memset(&untouched, 0x5a, sizeof(untouched));
    if (survives(trial->operation, trial->call))
        snprintf(trial->problem, sizeof(trial->problem), "did not survive: %d", rc);
    else if (rc != -EIO || error->code != rc)
        snprintf(trial->problem, sizeof(trial->problem), "%d, last error %d", rc, error->code);
    else if (error->vendor_code != FAIL_CODE || strcmp(error->vendor_text, "CUDA_ERROR_UNKNOWN"))
        snprintf(trial->problem, sizeof(trial->problem), "lost the driver's code: %s", error->text);
    else if (memcmp(out, &untouched, sizeof(untouched)))
        snprintf(trial->problem, sizeof(trial->problem), "changed its output");
}

/* On a thread of its own, without a context: what a failed pop leaves there goes with it. */
static void *try_it(void *arg)
{
    struct trial *trial = arg;
    union output out;
    int before = test_count_fds(), rc;

    memset(&out, 0x5a, sizeof(out));
    cu_fail(trial->call, FAIL_CODE, trial->turn, 1);
    rc = trial->operation->run(&out);
    trial->reached = cu.fake->calls(trial->call) > (unsigned long)trial->turn;
    cu.fake->reset();
    if (!rc && trial->operation->undo)
        trial->operation->undo(&out);
    if (!rc && trial->reached && !survives(trial->operation, trial->call))
        snprintf(trial->problem, sizeof(trial->problem), "succeeded without it");
    if (rc)
        check_failure(trial, rc, &out);
    if (!trial->problem[0] && test_count_fds() != before)
        snprintf(trial->problem, sizeof(trial->problem), "left a descriptor");
    return NULL;
}

static void run_trial(struct trial *trial)
{
    unsigned long allocations = cu.fake->allocations(), virtuals = cu.virtuals(),
                  contexts = cu.contexts();
    pthread_t thread;

    cu.fake->reset();
    assert_int_equal(pthread_create(&thread, NULL, try_it, trial), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (!trial->problem[0] && !is_cleanup(trial->call) &&
        (cu.fake->allocations() != allocations || cu.virtuals() != virtuals ||
         cu.contexts() != contexts))
        snprintf(trial->problem, sizeof(trial->problem), "left memory or a context");
    if (trial->problem[0])
        fail_msg("%s, call %d of %s failing: %s", trial->operation->name, trial->turn + 1,
                 trial->call, trial->problem);
}

/* Lets each turn of a call fail until the operation makes no more of them. */
static unsigned run_trials(const struct operation *operation, const char *call)
{
    for (unsigned turn = 0; turn < MAX_TURNS; turn++) {
        struct trial trial = {.operation = operation, .call = call, .turn = (int)turn};

        run_trial(&trial);
        if (!trial.reached)
            return turn;
    }
    return MAX_TURNS;
}

/* ---- the scene -------------------------------------------------------------------------- */

static struct bench scene_begin(void)
{
    struct cuda_memory_prop prop = prop_on(0);
    struct bench bench;

    driver_need_fake();
    bench = bench_begin();
    scene = (struct scene){.hmem = bench.hmem, .plain = cu_alloc(MIB), .granule = cu_granule()};
    CU(cu.alloc_async(&scene.pool, MIB, NULL));
    scene.pieces = cu_reserve(2 * scene.granule);
    cu_map(scene.pieces, scene.granule, &prop);
    cu_map(scene.pieces + scene.granule, scene.granule, &prop);
    assert_ok(
        hmem_cuda_ops.resolve(bench.hmem, scene.pieces, 2 * scene.granule, &scene.range_of_pieces));
    return bench;
}

static void scene_end(void)
{
    CU(cu.free(scene.plain));
    CU(cu.free_async(scene.pool, NULL));
    CU(cu.unmap(scene.pieces, 2 * scene.granule));
    CU(cu.unreserve(scene.pieces, 2 * scene.granule));
}

static void each_operation__each_call_failing(void **state)
{
    struct bench bench = scene_begin();

    for (size_t i = 0; i < OPERATIONS; i++) {
        unsigned reached = 0;

        for (size_t j = 0; j < sizeof(calls) / sizeof(calls[0]); j++)
            if (!is_cleanup(calls[j]))
                reached += run_trials(&operations[i], calls[j]);
        assert_true(reached > 0);
    }
    scene_end();
    bench_end(&bench);
}

/* The driver's older sort: the pieces are asked for in a context that must be given back. */
static void each_operation__older_driver__each_call_failing(void **state)
{
    struct bench bench = scene_begin();

    setenv("HMREG_FAKE_CUDA_NO_MAPPING", "1", 1);
    setenv("HMREG_FAKE_CUDA_EXPORT_CONTEXT", "1", 1);
    for (size_t i = 0; i < OPERATIONS; i++)
        for (size_t j = 0; j < sizeof(calls) / sizeof(calls[0]); j++)
            if (!is_cleanup(calls[j]))
                run_trials(&operations[i], calls[j]);
    unsetenv("HMREG_FAKE_CUDA_EXPORT_CONTEXT");
    unsetenv("HMREG_FAKE_CUDA_NO_MAPPING");
    scene_end();
    bench_end(&bench);
}

/* Lets go of what the driver was not allowed to. */
static void let_go(void)
{
    for (int i = 0; i < 2; i++) {
        unsigned long long handle = 0;

        CU(cu.handle_retain(&handle, as_pointer(scene.pieces + i * scene.granule)));
        while (cu.handle_release(handle) == CUDA_OK)
            continue;
    }
    scene_end();
    CU(cu.context_pop(NULL));
    for (int device = 0; device < 2; device++)
        while (cu.primary_release(device) == CUDA_OK)
            continue;
}

/* What only cleans up may fail: the work is done all the same, and its result stands. */
static void each_operation__clean_up_failing__result_stands(void **state)
{
    struct bench bench = scene_begin();

    for (size_t i = 0; i < OPERATIONS; i++)
        for (size_t j = 0; j < sizeof(calls) / sizeof(calls[0]); j++)
            if (is_cleanup(calls[j]))
                run_trials(&operations[i], calls[j]);
    let_go();
    assert_int_equal(cu.fake->allocations(), 0);
    assert_int_equal(cu.virtuals(), 0);
    assert_int_equal(cu.contexts(), 0);
    hmem_cuda_ops.close(bench.hmem);
}

/* free() keeps what it could not free, and frees it when the driver can again. */
static void free__each_call_failing__still_there(void **state)
{
    struct bench bench = scene_begin();
    struct hmem_range range;
    void *addr = NULL;

    assert_ok(hmem_cuda_ops.alloc(scene.hmem, 1, HMREG_MEM_DEVICE, 100, &addr));
    for (size_t j = 0; j < sizeof(calls) / sizeof(calls[0]); j++) {
        if (is_cleanup(calls[j]))
            continue;
        cu.fake->reset();
        cu_fail(calls[j], FAIL_CODE, 0, 1);
        if (!strcmp(calls[j], "cuMemFree_v2") || !strcmp(calls[j], "cuPointerGetAttributes") ||
            !strcmp(calls[j], "cuCtxPushCurrent_v2") || !strcmp(calls[j], "cuCtxGetDevice"))
            assert_fails(hmem_cuda_ops.free(scene.hmem, addr, HMREG_MEM_DEVICE), -EIO, "");
    }
    cu.fake->reset();
    assert_ok(bench_resolve(&bench, (uintptr_t)addr, 100, &range));
    assert_ok(hmem_cuda_ops.free(scene.hmem, addr, HMREG_MEM_DEVICE));
    scene_end();
    bench_end(&bench);
}

/* Shutting down in the middle of an operation is no failure of resolve, and -ENODEV elsewhere. */
static void each_operation__shut_down_meanwhile(void **state)
{
    struct bench bench = scene_begin();

    for (size_t i = 1; i < OPERATIONS; i++) {
        for (size_t j = 0; j < sizeof(calls) / sizeof(calls[0]); j++) {
            bool asks =
                operations[i].run == do_identity || strncmp(operations[i].name, "resolve", 7) == 0;
            union output out;
            int rc;

            if (is_cleanup(calls[j]))
                continue;
            assert_ok(hmem_cuda_ops.open(&scene.hmem));
            cu.fake->reset();
            hmreg_fail(-EUCLEAN, "before");
            cu_fail(calls[j], CUDA_DEINITIALIZED, 0, 1);
            rc = operations[i].run(&out);
            cu.fake->reset();
            if (!rc && operations[i].undo)
                operations[i].undo(&out);
            if (rc && rc != (asks ? -HMEM_NOT_MINE : -ENODEV))
                fail_msg("%s, shut down in %s: %d", operations[i].name, calls[j], rc);
            if (asks)
                assert_string_equal(hmreg_last_error()->text, "before");
            hmem_cuda_ops.close(scene.hmem);
        }
    }
    scene_end();
    bench_end(&bench);
}

TEST_MAIN(TEST(each_operation__each_call_failing),
          TEST(each_operation__older_driver__each_call_failing),
          TEST(free__each_call_failing__still_there), TEST(each_operation__shut_down_meanwhile),
          TEST(each_operation__clean_up_failing__result_stands))
