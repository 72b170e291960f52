/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A deallocation callback ends the identity of an allocation; where the runtime accepts none, the
 * identity is 0.
 */
#include "tests/gpu/rocr/report.h"

#define MIB (1u << 20)

static const struct hmem_ops *ops = &hmem_rocr_ops;

static uint64_t identity(struct hmem *rocr, const void *addr, size_t len)
{
    uint64_t found = 0;

    assert_ok(ops->identity(rocr, at(addr), len, &found));
    return found;
}

/* The second query makes no call into the runtime. */
TEST(identity__known_memory__no_vendor_call)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    unsigned long asked;

    app_resolve(rocr, memory, MIB);
    asked = app.fake->calls("hsa_amd_pointer_info");
    for (int i = 0; i < 10; i++)
        identity(rocr, memory + i, 1);
    assert_int_equal(app.fake->calls("hsa_amd_pointer_info"), asked);
    assert_int_equal(app.fake->calls("hsa_amd_register_deallocation_callback"), 1);
    app_free(memory);
}

/* ---- without a callback ----------------------------------------------------------------- */

TEST(identity__callback_refused__zero_until_it_is_not)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);

    app_fail("hsa_amd_register_deallocation_callback", HSA_STATUS_ERROR_OUT_OF_RESOURCES, 0, 2);
    assert_int_equal(app_resolve(rocr, memory, MIB).identity, 0);
    assert_int_equal(identity(rocr, memory, MIB), 0);
    assert_int_not_equal(identity(rocr, memory, MIB), 0);
    app_free(memory);
}

/* Another thread replaces the memory after the runtime described it, and before the vendor's
 * callback is registered. */
static void free_and_alloc_less(void *memory)
{
    *app.on_register = NULL;
    app_free(memory);
    assert_ptr_equal(app_alloc(0, MIB / 2), memory);
}

TEST(identity__swapped_while_asked__zero_then_right)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    char *above;
    uint64_t first;

    *app.on_register = free_and_alloc_less;
    assert_int_equal(app_resolve(rocr, memory, MIB).identity, 0);
    assert_int_equal(app_resolve(rocr, memory, MIB / 2).alloc_len, MIB / 2);
    above = app_alloc(0, MIB / 2);
    assert_ptr_equal(above, memory + MIB / 2);
    first = identity(rocr, above, MIB / 2);
    assert_int_not_equal(first, identity(rocr, memory, MIB / 2));
    app_free(above);
    above = app_alloc(0, MIB / 2);
    assert_int_not_equal(identity(rocr, above, MIB / 2), first);
    app_free(above);
    app_free(memory);
}

static void free_it(void *memory)
{
    *app.on_register = NULL;
    app_free(memory);
}

TEST(identity__freed_while_asked__zero)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);

    *app.on_register = free_it;
    assert_int_equal(app_resolve(rocr, memory, MIB).identity, 0);
}

TEST(identity__imported__zero)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    hsa_amd_ipc_memory_t handle;
    void *mapped = NULL;

    assert_int_equal(app.hsa_amd_ipc_memory_create(memory, MIB, &handle), 0);
    assert_int_equal(app.hsa_amd_ipc_memory_attach(&handle, MIB, 0, NULL, &mapped), 0);
    assert_int_equal(identity(rocr, mapped, MIB), 0);
    assert_int_equal(identity(rocr, mapped, MIB), 0);
    assert_int_equal(app.hsa_amd_ipc_memory_detach(mapped), 0);
    app_free(memory);
}

/* ---- several vendors open, runtimes loaded and unloaded --------------------------------- */

TEST(identity__closed_and_opened_again__another)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    uint64_t before = identity(rocr, memory, MIB);

    ops->close(rocr);
    assert_ok(ops->open(&rocr));
    assert_int_not_equal(identity(rocr, memory, MIB), before);
    app_free(memory);
    app_close(rocr);
}

/* No callback of ours is left after the last vendor's close. */
TEST(close__live_memory__callbacks_withdrawn)
{
    struct hmem *rocr = app_open();
    char *one = app_alloc(0, MIB), *two = app_alloc(1, MIB);

    identity(rocr, one, MIB);
    identity(rocr, two, MIB);
    ops->close(rocr);
    assert_int_equal(app.fake->calls("hsa_amd_deregister_deallocation_callback"), 2);
    app_free(one);
    app_free(two);
    app_stop();
}

/* A callback that could not be withdrawn runs after the close. */
TEST(close__withdrawal_fails__closes)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);

    identity(rocr, memory, MIB);
    app_fail("hsa_amd_deregister_deallocation_callback", HSA_STATUS_ERROR, 0, -1);
    ops->close(rocr);
    app.fake->reset();
    app_free(memory);
    app_stop();
}

/* ---- the end is reported ------------------------------------------------------------------- */

/* The id ends first, then the end is reported, then the address can be reused. */
TEST(watch__pool_memory__its_end_is_reported)
{
    struct hmem *rocr = app_open();
    char *memory[] = {app_alloc(0, MIB), app_alloc_host(MIB)};

    listen(rocr);
    for (int i = 0; i < 2; i++) {
        struct hmem_range range = app_resolve(rocr, memory[i] + 5, 100);

        assert_true(ops->watch(rocr, at(memory[i] + 5), 100, &range, NULL));
        assert_int_equal(report.count, i);
        app_free(memory[i]);
        assert_reported(memory[i], MIB, (unsigned)i + 1);
        assert_false(ops->watch(rocr, at(memory[i] + 5), 100, &range, NULL));
    }
    hmem_listen(NULL);
}

/* Other memory is at the address by now: its end is not that of the memory resolved. */
TEST(watch__freed_and_allocated_since__not_it)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    struct hmem_range range = app_resolve(rocr, memory, MIB);

    app_free(memory);
    assert_ptr_equal(app_alloc(0, MIB), memory);
    app_resolve(rocr, memory, MIB);
    assert_false(ops->watch(rocr, at(memory), MIB, &range, NULL));
    app_free(memory);
}

TEST(watch__no_callback__not_reported)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    hsa_amd_ipc_memory_t handle;
    struct hmem_range range;
    void *mapped = NULL;

    assert_int_equal(app.hsa_amd_ipc_memory_create(memory, MIB, &handle), 0);
    assert_int_equal(app.hsa_amd_ipc_memory_attach(&handle, MIB, 0, NULL, &mapped), 0);
    range = app_resolve(rocr, mapped, MIB);
    assert_false(ops->watch(rocr, at(mapped), MIB, &range, NULL));
    assert_int_equal(app.hsa_amd_ipc_memory_detach(mapped), 0);
    app_fail("hsa_amd_register_deallocation_callback", HSA_STATUS_ERROR_OUT_OF_RESOURCES, 0, 1);
    range = app_resolve(rocr, memory, MIB);
    assert_false(ops->watch(rocr, at(memory), MIB, &range, NULL));
    app_free(memory);
}

/* One of two users closes: the callbacks are the other's too. */
TEST(watch__another_user_closes__still_reported)
{
    struct hmem *rocr = app_open(), *other = NULL;
    char *memory = app_alloc(0, MIB);
    struct hmem_range range = app_resolve(rocr, memory, MIB);

    assert_ok(ops->open(&other));
    ops->close(other);
    assert_true(ops->watch(rocr, at(memory), MIB, &range, NULL));
    listen(rocr);
    app_free(memory);
    assert_int_equal(report.count, 1);
    hmem_listen(NULL);
}

/* The application's own callback frees other memory. */
static hsa_status_t (*pool_free)(void *);

static void free_another(void *addr, void *another)
{
    pool_free(another);
}

TEST(watch__freed_inside_a_callback__both_reported)
{
    __typeof__(hsa_amd_register_deallocation_callback) *arm;
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB), *another = app_alloc(0, MIB);
    struct hmem_range range = app_resolve(rocr, memory, MIB);
    struct hmem_range other = app_resolve(rocr, another, MIB);

    pool_free = app.hsa_amd_memory_pool_free;
    arm = app.hsa_amd_register_deallocation_callback;
    assert_int_equal(arm(memory, free_another, another), 0);
    assert_true(ops->watch(rocr, at(memory), MIB, &range, NULL));
    assert_true(ops->watch(rocr, at(another), MIB, &other, NULL));
    listen(rocr);
    app_free(memory);
    assert_int_equal(report.count, 2);
    hmem_listen(NULL);
}

TEST_MAIN()
