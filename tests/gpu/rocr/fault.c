/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Every call into the runtime fails once, at each of its turns: nothing crashes or leaks, the
 * outputs stay, the code and the vendor's are told. Then the runtime shuts down under us.
 */
#include "tests/gpu/rocr/app.h"

#include <stdlib.h>
#include <unistd.h>

#define LEN 8192u

static const struct hmem_ops *ops = &hmem_rocr_ops;

/* ---- open ------------------------------------------------------------------------------- */

/* Fails a call at its 1st, 2nd... turn while the vendor opens, until it fails no more. Returns
 * how often open failed; every time it must say -EIO. */
static unsigned fail_each_turn_of_open(const char *call)
{
    unsigned failures = 0;

    for (int turn = 0;; turn++) {
        struct hmem *rocr = NULL;
        unsigned long calls;
        int rc;

        app_start();
        app.fake->reset();
        app_fail(call, HSA_STATUS_ERROR, turn, 1);
        rc = ops->open(&rocr);
        calls = app.fake->calls(call);
        if (rc) {
            failures++;
            assert_int_equal(rc, -EIO);
            assert_int_equal(hmreg_last_error()->code, -EIO);
            assert_int_equal(hmreg_last_error()->vendor_code, HSA_STATUS_ERROR);
            assert_string_equal(hmreg_last_error()->vendor_text, "HSA_STATUS_ERROR (simulated)");
            assert_null(rocr);
            app_stop();
        } else {
            app_close(rocr);
        }
        if (calls <= (unsigned long)turn)
            return failures;
    }
}

static void open__needed_call_fails__io(void **state)
{
    assert_int_equal(fail_each_turn_of_open("hsa_init"), 1);
    assert_int_equal(fail_each_turn_of_open("hsa_iterate_agents"), 1);
    assert_int_equal(fail_each_turn_of_open("hsa_amd_agent_iterate_memory_pools"), 3);
    /* For each of three agents: the segments of three pools, and three more of two of them. */
    assert_int_equal(fail_each_turn_of_open("hsa_amd_memory_pool_get_info"), 3 * (3 + 2 * 3));
}

/* Types must be known, names and addresses need not. */
static void open__agents_cannot_be_asked__io_only_for_types(void **state)
{
    assert_int_equal(fail_each_turn_of_open("hsa_agent_get_info"), 3);
}

static void open__dispensable_call_fails__opens(void **state)
{
    assert_int_equal(fail_each_turn_of_open("hsa_system_get_info"), 0);
    assert_int_equal(fail_each_turn_of_open("hsa_amd_agent_memory_pool_get_info"), 0);
    assert_int_equal(fail_each_turn_of_open("hsa_status_string"), 0);
}

static void open__status_has_no_words__fails_all_the_same(void **state)
{
    struct hmem *rocr = NULL;

    app_start();
    app_fail("hsa_init", HSA_STATUS_ERROR, 0, 1);
    app_fail("hsa_status_string", HSA_STATUS_ERROR, 0, 1);
    assert_fails(ops->open(&rocr), -EIO, "hsa_init failed");
    assert_string_equal(hmreg_last_error()->vendor_text, "");
    assert_int_equal(hmreg_last_error()->vendor_code, HSA_STATUS_ERROR);
    app_stop();
}

/* ---- the operations --------------------------------------------------------------------- */

struct scene {
    struct hmem *rocr;
    char *device, *pinned, *host, *imported;
};

static void set_up(struct scene *scene)
{
    hsa_amd_ipc_memory_t handle;

    scene->rocr = app_open();
    scene->device = app_alloc(0, LEN);
    scene->pinned = app_alloc_host(LEN);
    scene->host = calloc(1, LEN);
    assert_int_equal(app.hsa_amd_ipc_memory_create(scene->device, LEN, &handle), 0);
    assert_int_equal(
        app.hsa_amd_ipc_memory_attach(&handle, LEN, 0, NULL, (void **)&scene->imported), 0);
    app.fake->reset();
}

static void tear_down(struct scene *scene)
{
    app.fake->reset();
    assert_int_equal(app.hsa_amd_ipc_memory_detach(scene->imported), 0);
    app_free(scene->device);
    app_free(scene->pinned);
    free(scene->host);
    app_close(scene->rocr);
}

/* The vendor met a shutdown: it does not give its reference back, since none is left to give. */
static void tear_down_gone(struct scene *scene)
{
    assert_int_equal(app.hsa_shut_down(), HSA_STATUS_SUCCESS);
    tear_down(scene);
}

static int do_resolve(struct scene *scene)
{
    struct hmem_range range;
    int rc;

    memset(&range, 0x5a, sizeof(range));
    rc = ops->resolve(scene->rocr, at(scene->device), LEN, &range);
    if (rc)
        assert_int_equal(range.alloc_base, 0x5a5a5a5a5a5a5a5a);
    return rc;
}

static int do_identity(struct scene *scene)
{
    uint64_t found = 77;
    int rc = ops->identity(scene->rocr, at(scene->device), LEN, &found);

    if (rc)
        assert_int_equal(found, 77);
    return rc;
}

static int do_resolve_hidden(struct scene *scene)
{
    struct hmem_range range = {.device = 77};
    int rc;

    setenv("HMREG_FAKE_HSA_HIDDEN", "1", 1);
    rc = ops->resolve(scene->rocr, at(scene->imported), LEN, &range);
    unsetenv("HMREG_FAKE_HSA_HIDDEN");
    if (rc)
        assert_int_equal(range.device, 77);
    return rc;
}

static int do_export(struct scene *scene)
{
    struct hmem_range range = {.kind = HMREG_MEM_DEVICE, .exportable = true};
    struct hmreg_dmabuf dmabuf = {.fd = -7};
    int before = test_count_fds();
    int rc = ops->export_dmabuf(scene->rocr, at(scene->device), LEN, &range, &dmabuf);

    if (rc)
        assert_int_equal(dmabuf.fd, -7);
    else
        close(dmabuf.fd);
    assert_int_equal(test_count_fds(), before);
    return rc;
}

static int do_copy(struct scene *scene)
{
    return ops->copy(scene->rocr, at(scene->device), at(scene->host), LEN);
}

static int do_bounced_copy(struct scene *scene)
{
    return ops->copy(scene->rocr, at(scene->device), at(scene->pinned), LEN);
}

static int do_alloc(struct scene *scene, enum hmreg_mem_kind kind)
{
    unsigned long before = app.fake->allocations();
    void *memory = scene;
    int rc = ops->alloc(scene->rocr, 0, kind, LEN, &memory);

    if (rc) {
        assert_ptr_equal(memory, scene);
        assert_int_equal(app.fake->allocations(), before);
    } else {
        assert_int_equal(app.hsa_amd_memory_pool_free(memory), HSA_STATUS_SUCCESS);
    }
    return rc;
}

static int do_alloc_device(struct scene *scene)
{
    return do_alloc(scene, HMREG_MEM_DEVICE);
}

static int do_alloc_pinned(struct scene *scene)
{
    return do_alloc(scene, HMREG_MEM_HOST_PINNED);
}

/* Frees what it allocates, at the second attempt where the first is refused. */
static int do_free(struct scene *scene)
{
    void *memory = app_alloc(0, LEN);
    int rc = ops->free(scene->rocr, memory, HMREG_MEM_DEVICE);

    if (rc)
        app_free(memory);
    return rc;
}

struct fault {
    int (*run)(struct scene *scene);
    const char *call;
    hsa_status_t status;
    int turns;       /* how many times the operation makes the call */
    int expected[4]; /* what it answers when that turn fails */
    const char *words;
};

static void check_answer(const struct fault *fault, int turn, int rc)
{
    int expected = fault->expected[turn];

    if (rc != expected)
        fail_msg("%s failing at turn %d with %#x: %d, not %d (%s)", fault->call, turn,
                 fault->status, rc, expected, hmreg_last_error()->text);
    if (!rc) {
        assert_string_equal(hmreg_last_error()->text, "the error of before");
        return;
    }
    assert_int_equal(hmreg_last_error()->code, rc);
    assert_int_equal(hmreg_last_error()->vendor_code, fault->status);
    assert_string_equal(hmreg_last_error()->source, "rocr");
    if (!strstr(hmreg_last_error()->text, fault->words))
        fail_msg("%s: \"%s\" without \"%s\"", fault->call, hmreg_last_error()->text, fault->words);
}

static void run_fault(const struct fault *fault)
{
    for (int turn = 0; turn < fault->turns; turn++) {
        struct scene scene;

        set_up(&scene);
        app_fail(fault->call, fault->status, turn, 1);
        hmreg_fail(-EPERM, "the error of before");
        check_answer(fault, turn, fault->run(&scene));
        assert_int_equal(app.fake->calls(fault->call) > (unsigned long)turn, 1);
        /* Nothing is left broken. */
        app.fake->reset();
        assert_int_equal(fault->run(&scene), 0);
        tear_down(&scene);
    }
}

#define ERR HSA_STATUS_ERROR

static void operations__each_call_fails__code_and_sentence(void **state)
{
    static const struct fault faults[] = {
        /* The second question only confirms the identity: without it there is none. */
        {do_resolve, "hsa_amd_pointer_info", ERR, 2, {-EIO, 0}, "could not say what is at"},
        {do_resolve, "hsa_amd_register_deallocation_callback", ERR, 1, {0}, ""},
        {do_identity, "hsa_amd_pointer_info", ERR, 2, {-EIO, 0}, "could not say what is at"},
        {do_resolve_hidden, "hsa_amd_pointer_info", ERR, 2, {-EIO, -EIO}, "could not say"},
        {do_export, "hsa_amd_pointer_info", ERR, 1, {-EIO}, "could not say what is at"},
        {do_export, "hsa_amd_portable_export_dmabuf", ERR, 1, {-EIO}, "could not export"},
        {do_export,
         "hsa_amd_portable_export_dmabuf",
         HSA_STATUS_ERROR_INVALID_AGENT,
         1,
         {-EOPNOTSUPP},
         "no memory of this agent"},
        {do_export,
         "hsa_amd_portable_export_dmabuf",
         HSA_STATUS_ERROR_INVALID_ALLOCATION,
         1,
         {-EXDEV},
         "not in one allocation"},
        {do_export,
         "hsa_amd_portable_close_dmabuf",
         HSA_STATUS_ERROR_RESOURCE_FREE,
         1,
         {-EIO},
         "could not close"},
        {do_copy, "hsa_amd_pointer_info", ERR, 2, {-EIO, -EIO}, "could not say what is at"},
        {do_copy, "hsa_memory_copy", ERR, 1, {-EIO}, "could not copy"},
        {do_bounced_copy, "hsa_amd_pointer_info", ERR, 3, {-EIO, -EIO, -EIO}, "could not say"},
        {do_bounced_copy, "hsa_memory_copy", ERR, 2, {-EIO, -EIO}, "could not copy"},
        {do_alloc_device, "hsa_amd_memory_pool_allocate", ERR, 1, {-EIO}, "could not allocate"},
        {do_alloc_device,
         "hsa_amd_memory_pool_allocate",
         HSA_STATUS_ERROR_OUT_OF_RESOURCES,
         1,
         {-ENOMEM},
         "bytes left"},
        {do_alloc_device,
         "hsa_amd_memory_pool_allocate",
         HSA_STATUS_ERROR_INVALID_ALLOCATION,
         1,
         {-ENOMEM},
         "bytes left"},
        {do_alloc_pinned, "hsa_amd_memory_pool_allocate", ERR, 1, {-EIO}, "could not allocate"},
        {do_alloc_pinned, "hsa_amd_agents_allow_access", ERR, 1, {-EIO}, "map host memory"},
        {do_free, "hsa_amd_memory_pool_free", ERR, 1, {-EIO}, "could not free"},
    };

    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        run_fault(&faults[i]);
}

static void close__withdrawal_fails__closes(void **state)
{
    struct scene scene;

    set_up(&scene);
    assert_int_equal(do_resolve(&scene), 0);
    app_fail("hsa_amd_deregister_deallocation_callback", ERR, 0, -1);
    ops->close(scene.rocr);
    app.fake->reset();
    /* The callback that stayed comes when nobody waits for it any more. */
    assert_int_equal(app.hsa_amd_ipc_memory_detach(scene.imported), 0);
    app_free(scene.device);
    app_free(scene.pinned);
    free(scene.host);
    app_stop();
}

/* ---- a runtime that has shut down ------------------------------------------------------- */

static void assert_gone(int rc)
{
    assert_fails(rc, -ENODEV, "has shut down");
    assert_int_equal(hmreg_last_error()->vendor_code, HSA_STATUS_ERROR_NOT_INITIALIZED);
}

/* Each operation meets the shutdown itself, and says so without asking again. */
static void operations__runtime_gone__told_and_left_alone(void **state)
{
    static int (*const all[])(struct scene *) = {do_export,       do_copy,         do_bounced_copy,
                                                 do_alloc_device, do_alloc_pinned, do_free};
    static const char *const calls[] = {
        "hsa_amd_pointer_info",         "hsa_amd_pointer_info",         "hsa_amd_pointer_info",
        "hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_allocate", "hsa_amd_memory_pool_free"};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct scene scene;
        unsigned long before;

        set_up(&scene);
        app_fail(calls[i], HSA_STATUS_ERROR_NOT_INITIALIZED, 0, 1);
        assert_gone(all[i](&scene));
        before = app.fake->calls(calls[i]);
        if (all[i] != do_free) {
            assert_gone(all[i](&scene));
            assert_int_equal(app.fake->calls(calls[i]), before);
        }
        tear_down_gone(&scene);
    }
}

static void resolve__runtime_gone__not_mine(void **state)
{
    struct hmem_range range;
    struct scene scene;
    uint64_t found;

    set_up(&scene);
    assert_int_equal(do_identity(&scene), 0);
    app_fail("hsa_amd_pointer_info", HSA_STATUS_ERROR_NOT_INITIALIZED, 0, 1);
    assert_int_equal(ops->resolve(scene.rocr, at(scene.device), 1, &range), -HMEM_NOT_MINE);
    assert_int_equal(ops->resolve(scene.rocr, at(scene.device), 1, &range), -HMEM_NOT_MINE);
    assert_int_equal(ops->identity(scene.rocr, at(scene.device), 1, &found), -HMEM_NOT_MINE);
    assert_int_equal(app.fake->calls("hsa_amd_pointer_info"), 3);
    tear_down_gone(&scene);
}

TEST_MAIN(TEST(open__needed_call_fails__io), TEST(open__agents_cannot_be_asked__io_only_for_types),
          TEST(open__dispensable_call_fails__opens),
          TEST(open__status_has_no_words__fails_all_the_same),
          TEST(operations__each_call_fails__code_and_sentence),
          TEST(close__withdrawal_fails__closes),
          TEST(operations__runtime_gone__told_and_left_alone),
          TEST(resolve__runtime_gone__not_mine))
