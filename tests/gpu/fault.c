/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Each call of the runtime fails, in each operation, at each time the operation makes it: nothing
 * crashes, outputs do not change, nothing leaks, the error has the runtime's code and its name, and
 * the next attempt succeeds. Letting each call fail shows which calls an operation makes; the
 * vendor's table lists those that it must survive.
 */
#include "tests/gpu/gpu.h"

#define LEN 8192

static uint64_t here, there; /* memory of two devices */
static struct hmem_range resolved;
static void *spare; /* memory for one trial */

/* ---- operations ------------------------------------------------------------------------- */

/* With the runtime's description, for which a vendor may make further calls. */
static int run_open(struct hmem *self, union gpu_output *out)
{
    struct hmem_runtime runtime;
    int rc = gpu.ops->open(&out->hmem);

    if (!rc)
        gpu.ops->runtime(out->hmem, &runtime);
    return rc;
}

static void undo_open(struct hmem *self, union gpu_output *out)
{
    gpu.ops->close(out->hmem);
}

static int run_resolve(struct hmem *self, union gpu_output *out)
{
    return gpu.ops->resolve(self, here, LEN, &out->range);
}

static int run_resolve_new(struct hmem *self, union gpu_output *out)
{
    return gpu.ops->resolve(self, (uintptr_t)spare, LEN, &out->range);
}

static int run_identity(struct hmem *self, union gpu_output *out)
{
    return gpu.ops->identity(self, here, LEN, &out->identity);
}

static int run_identity_new(struct hmem *self, union gpu_output *out)
{
    return gpu.ops->identity(self, (uintptr_t)spare, LEN, &out->identity);
}

static int run_export(struct hmem *self, union gpu_output *out)
{
    return gpu.ops->export_dmabuf(self, here + 5, 4000, &resolved, 0, &out->dmabuf);
}

static int run_export_claimed(struct hmem *self, union gpu_output *out)
{
    const struct hmem_range claim = {.device = 0,
                                     .kind = HMREG_MEM_DEVICE,
                                     .alloc_base = here,
                                     .alloc_len = LEN,
                                     .segments = 1,
                                     .claimed = true};

    return gpu.ops->export_dmabuf(self, here + 5, 4000, &claim, 0, &out->dmabuf);
}

static void undo_export(struct hmem *self, union gpu_output *out)
{
    assert_int_equal(out->dmabuf.offset, 5);
    close(out->dmabuf.fd);
}

static int run_copy(struct hmem *self, union gpu_output *out)
{
    char bytes[128] = "";

    return gpu.ops->copy(self, here, (uintptr_t)bytes, sizeof(bytes));
}

static int run_copy_across(struct hmem *self, union gpu_output *out)
{
    return gpu.ops->copy(self, here, there, LEN);
}

static int run_alloc_device(struct hmem *self, union gpu_output *out)
{
    return gpu.ops->alloc(self, 1, HMREG_MEM_DEVICE, 5000, &out->addr);
}

static void undo_alloc_device(struct hmem *self, union gpu_output *out)
{
    assert_ok(gpu.ops->free(self, out->addr, HMREG_MEM_DEVICE));
}

static int run_alloc_pinned(struct hmem *self, union gpu_output *out)
{
    return gpu.ops->alloc(self, 1, HMREG_MEM_HOST_PINNED, 5000, &out->addr);
}

static void undo_alloc_pinned(struct hmem *self, union gpu_output *out)
{
    assert_ok(gpu.ops->free(self, out->addr, HMREG_MEM_HOST_PINNED));
}

static int run_free(struct hmem *self, union gpu_output *out)
{
    int rc = gpu.ops->free(self, spare, HMREG_MEM_DEVICE);

    spare = rc ? spare : NULL;
    return rc;
}

static int run_alloc_managed(struct hmem *self, union gpu_output *out)
{
    return gpu.ops->alloc(self, 1, HMREG_MEM_MANAGED, 5000, &out->addr);
}

static void undo_alloc_managed(struct hmem *self, union gpu_output *out)
{
    assert_ok(gpu.ops->free(self, out->addr, HMREG_MEM_MANAGED));
}

static const struct gpu_operation common[] = {
    {"open", run_open, undo_open},
    {"resolve", run_resolve, NULL},
    {"resolve new memory", run_resolve_new, NULL},
    {"identity", run_identity, NULL},
    {"identity of new memory", run_identity_new, NULL},
    {"export", run_export, undo_export},
    {"export of a claim", run_export_claimed, undo_export},
    {"copy", run_copy, NULL},
    {"copy across devices", run_copy_across, NULL},
    {"alloc device", run_alloc_device, undo_alloc_device},
    {"alloc pinned", run_alloc_pinned, undo_alloc_pinned},
    {"free", run_free, NULL},
    {"alloc managed", run_alloc_managed,
     undo_alloc_managed}, /* last, since not every vendor has it */
};

/* The nth operation; NULL: there is none. */
static const struct gpu_operation *operation(unsigned n)
{
    unsigned count = sizeof(common) / sizeof(common[0]) - (gpu.kinds < 3);

    if (n < count)
        return &common[n];
    if (!gpu.operations || !gpu.operations[n - count].name)
        return NULL;
    return &gpu.operations[n - count];
}

/* ---- expected results ------------------------------------------------------------------- */

static bool names(const char *list, const char *call, int turn)
{
    size_t len = strlen(call);

    for (const char *at = list; at && (at = strstr(at, call)); at += len) {
        char *end;
        long first;

        if ((at > list && at[-1] != ' ') || (at[len] && !strchr(" :", at[len])))
            continue;
        if (at[len] != ':')
            return true;
        first = strtol(at + len + 1, &end, 10);
        if (turn == first || (turn > first && *end == '+'))
            return true;
    }
    return false;
}

static const struct gpu_survival *survival(const struct gpu_operation *operation)
{
    static const struct gpu_survival none;

    for (const struct gpu_survival *at = gpu.survives; at && at->operation; at++)
        if (!strcmp(at->operation, operation->name))
            return at;
    return &none;
}

static bool survives(const struct gpu_operation *operation, const char *call, int turn)
{
    return names(survival(operation)->calls, call, turn) || names(gpu.cleans_up, call, turn);
}

/* ---- one trial -------------------------------------------------------------------------- */

struct trial {
    struct hmem *self;
    const struct gpu_operation *operation;
    const char *call;
    int turn; /* the nth call of that name fails */
    bool reached;
    int rc;
    union gpu_output out;
    struct hmreg_error error;
};

#define expect(trial, condition)                                                                   \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("%s, call %d of %s failing: %d (%s), not " #condition,                        \
                     (trial)->operation->name, (trial)->turn + 1, (trial)->call, (trial)->rc,      \
                     (trial)->error.text);                                                         \
    } while (0)

static void *run_on_a_thread(void *arg)
{
    struct trial *trial = arg;

    memset(&trial->out, 0x5a, sizeof(trial->out));
    hmreg_fail(-EUCLEAN, "the error of before");
    trial->rc = trial->operation->run(trial->self, &trial->out);
    trial->error = *hmreg_last_error();
    return NULL;
}

/* On a thread of its own, which takes the runtime's thread state left by a failed call with it. */
static void run(struct trial *trial)
{
    test_on_a_thread(run_on_a_thread, trial);
    trial->reached = trial->call && gpu.fake()->calls(trial->call) > (unsigned long)trial->turn;
}

static void make_spare(struct hmem *self, const struct gpu_operation *operation)
{
    bool needs = operation->run == run_free || operation->run == run_resolve_new ||
                 operation->run == run_identity_new;

    if (needs)
        assert_ok(gpu.ops->alloc(self, 1, HMREG_MEM_DEVICE, LEN, &spare));
}

/* Memory that was not freed can be freed once the runtime no longer fails. */
static void free_spare(struct hmem *self)
{
    if (spare)
        assert_ok(gpu.ops->free(self, spare, HMREG_MEM_DEVICE));
    spare = NULL;
}

static void check_unchanged(const struct trial *trial)
{
    union gpu_output before;

    memset(&before, 0x5a, sizeof(before));
    expect(trial, !memcmp(&trial->out, &before, sizeof(before)));
}

static void check_result(const struct trial *trial)
{
    if (!trial->reached || survives(trial->operation, trial->call, trial->turn)) {
        expect(trial, trial->rc == 0);
        expect(trial, !strcmp(trial->error.text, "the error of before"));
        return;
    }
    expect(trial, trial->rc == -EIO);
    expect(trial, trial->error.code == -EIO);
    expect(trial, trial->error.vendor_code == gpu.failure);
    expect(trial, !strcmp(trial->error.vendor_text, gpu.failure_name));
    expect(trial, !strcmp(trial->error.source, gpu.ops->name));
    expect(trial, trial->error.text[0]);
    check_unchanged(trial);
}

static void run_without_failure(struct hmem *self, const struct gpu_operation *operation)
{
    struct trial trial = {.self = self, .operation = operation};

    make_spare(self, operation);
    run(&trial);
    expect(&trial, trial.rc == 0);
    free_spare(self);
    if (operation->undo)
        operation->undo(self, &trial.out);
}

static unsigned long objects(void)
{
    return gpu.fake()->allocations() + (gpu.objects ? gpu.objects() : 0);
}

/* False: the operation makes fewer such calls. */
static bool run_trial(struct hmem *self, const struct gpu_operation *operation, const char *call,
                      int turn)
{
    struct trial trial = {.self = self, .operation = operation, .call = call, .turn = turn};
    unsigned long before = objects();
    int fds = test_count_fds();

    make_spare(self, operation);
    gpu.fake()->reset();
    gpu_fail(call, gpu.failure, turn, 1);
    run(&trial);
    gpu.fake()->reset();
    check_result(&trial);
    free_spare(self);
    if (!trial.rc && operation->undo)
        operation->undo(self, &trial.out);
    expect(&trial, test_count_fds() == fds);
    if (names(survival(operation)->leaks, call, turn))
        gpu_leaked += objects() - before;
    else
        expect(&trial, names(gpu.cleans_up, call, turn) || objects() == before);
    if (trial.reached)
        run_without_failure(self, operation);
    return trial.reached;
}

/* ---- the cases -------------------------------------------------------------------------- */

static struct hmem *begin(void)
{
    struct hmem *self;

    gpu_need_fake();
    self = gpu.begin();
    here = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);
    there = gpu.alloc(1, HMREG_MEM_DEVICE, LEN);
    resolved = gpu_resolve(self, here + 5, 4000);
    close(gpu_export(self, here, LEN).fd); /* a runtime may keep a descriptor from now on */
    if (gpu.prepare)
        gpu.prepare(self);
    return self;
}

static void free_all(void)
{
    gpu.fake()->reset();
    if (gpu.clean_up)
        gpu.clean_up();
    gpu.free(here, HMREG_MEM_DEVICE);
    gpu.free(there, HMREG_MEM_DEVICE);
}

static unsigned run_trials(struct hmem *self, const char *call)
{
    unsigned reached = 0;

    for (unsigned n = 0; operation(n); n++)
        for (int turn = 0; run_trial(self, operation(n), call, turn); turn++)
            reached++;
    return reached;
}

TEST(each_operation__each_call_failing__clean)
{
    struct hmem *self = begin();

    for (const char *const *call = gpu.calls; *call; call++)
        if (!names(gpu.cleans_up, *call, 0) &&
            !run_trials(self, *call) != names(gpu.uncalled, *call, 0))
            fail_msg("%s: called or not, other than the vendor's table says", *call);
    free_all();
    gpu.end(self);
}

/* The code -HMEM_NOT_MINE is no failure: the last error does not change. */
static void check_shut_down(const struct trial *trial)
{
    bool asks =
        strstr(trial->operation->name, "resolve") || strstr(trial->operation->name, "identity");

    expect(trial, trial->rc == (asks ? -HMEM_NOT_MINE : -ENODEV));
    expect(trial, strstr(trial->error.text, asks ? "the error of before" : "shut down"));
    check_unchanged(trial);
}

static unsigned long count_calls(void)
{
    unsigned long sum = 0;

    for (const char *const *call = gpu.calls; *call; call++)
        sum += gpu.fake()->calls(*call);
    return sum;
}

static void check_all_without_a_call(struct hmem *self, const char *call)
{
    unsigned long before = count_calls();

    for (unsigned n = 1; operation(n); n++) {
        struct trial trial = {.self = self, .operation = operation(n), .call = call};

        run(&trial);
        check_shut_down(&trial);
        expect(&trial, count_calls() == before);
    }
    gpu.ops->close(self);
    assert_int_equal(count_calls(), before);
    if (gpu.after_shut_down)
        gpu.after_shut_down();
}

/* An operation detects the shutdown at its first call of that name; no operation makes a call
 * afterwards. */
static void shut_down_in(struct hmem *self, const struct gpu_operation *operation, const char *call)
{
    struct trial trial = {.operation = operation, .call = call};

    assert_ok(gpu.ops->open(&trial.self));
    make_spare(self, operation);
    gpu.fake()->reset();
    gpu_fail(call, gpu.shut_down, 0, 1);
    run(&trial);
    if (trial.reached && !survives(operation, call, 0)) {
        check_shut_down(&trial);
        check_all_without_a_call(trial.self, call);
        gpu.fake()->reset();
    } else {
        gpu.fake()->reset();
        if (!trial.rc && operation->undo)
            operation->undo(trial.self, &trial.out);
        gpu.ops->close(trial.self);
    }
    free_spare(self);
}

TEST(each_operation__runtime_shuts_down__not_called_again)
{
    struct hmem *self = begin();

    for (unsigned n = 1; operation(n); n++) /* open returns another error */
        for (const char *const *call = gpu.calls; *call; call++)
            if (gpu.learns ? names(gpu.learns, *call, 0) : !names(gpu.cleans_up, *call, 0))
                shut_down_in(self, operation(n), *call);
    free_all();
    gpu.end(self);
}

/* Calls that only clean up may fail: the operation succeeds nevertheless. */
TEST(each_operation__clean_up_failing__result_stands)
{
    struct hmem *self;

    if (!gpu.cleans_up)
        test_skip("no call of this runtime only cleans up");
    self = begin();
    for (const char *const *call = gpu.calls; *call; call++)
        if (names(gpu.cleans_up, *call, 0))
            assert_true(run_trials(self, *call) > 0);
    gpu.free(here, HMREG_MEM_DEVICE);
    gpu.free(there, HMREG_MEM_DEVICE);
    gpu.after_clean_up(self);
}

TEST_MAIN()
