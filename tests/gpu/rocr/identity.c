/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The identity of an allocation: the same while it lives, another when its address is used
 * again, 0 where nobody can tell.
 */
#include "tests/gpu/rocr/app.h"

#define MIB  (1u << 20)
#define MANY 300

static const struct hmem_ops *ops = &hmem_rocr_ops;

static uint64_t identity(struct hmem *rocr, const void *addr, size_t len)
{
    uint64_t found = 0;

    assert_ok(ops->identity(rocr, at(addr), len, &found));
    return found;
}

static void identity__same_memory__as_resolve_said(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    uint64_t before = app_resolve(rocr, memory, MIB).identity;

    assert_int_not_equal(before, 0);
    assert_int_equal(identity(rocr, memory, MIB), before);
    assert_int_equal(identity(rocr, memory + 5, 1), before);
    assert_int_equal(identity(rocr, memory + MIB - 1, 1), before);
    assert_int_equal(app_resolve(rocr, memory + 9, 9).identity, before);
    app_free(memory);
    app_close(rocr);
}

static void identity__not_resolved_before__number(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    uint64_t first = identity(rocr, memory, 1);

    assert_int_not_equal(first, 0);
    assert_int_equal(app_resolve(rocr, memory, 1).identity, first);
    app_free(memory);
    app_close(rocr);
}

/* The second look costs no call into the runtime. */
static void identity__known_memory__no_vendor_call(void **state)
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
    app_close(rocr);
}

static void identity__address_used_again__another(void **state)
{
    struct hmem *rocr = app_open();
    char *before = app_alloc(0, MIB);
    uint64_t first = app_resolve(rocr, before, MIB).identity;
    uint64_t second;
    char *after;

    app_free(before);
    after = app_alloc(0, MIB);
    assert_ptr_equal(after, before);
    second = identity(rocr, after, MIB);
    assert_int_not_equal(second, 0);
    assert_int_not_equal(second, first);
    assert_int_equal(app_resolve(rocr, after, MIB).identity, second);
    app_free(after);
    app_close(rocr);
}

static void identity__pinned_address_used_again__another(void **state)
{
    struct hmem *rocr = app_open();
    char *before = app_alloc_host(MIB);
    uint64_t first = app_resolve(rocr, before, MIB).identity;
    char *after;

    app_free(before);
    after = app_alloc_host(MIB);
    assert_ptr_equal(after, before);
    assert_int_not_equal(identity(rocr, after, MIB), first);
    app_free(after);
    app_close(rocr);
}

/* Two small allocations become one large: neither number survives. */
static void identity__merged_into_larger__another(void **state)
{
    struct hmem *rocr = app_open();
    char *low = app_alloc(0, MIB), *high = app_alloc(0, MIB);
    uint64_t a = identity(rocr, low, MIB), b = identity(rocr, high, MIB), c;
    char *both;

    app_free(low);
    app_free(high);
    both = app_alloc(0, 2 * MIB);
    assert_ptr_equal(both, low);
    c = identity(rocr, both, 2 * MIB);
    assert_int_not_equal(c, a);
    assert_int_not_equal(c, b);
    assert_int_equal(identity(rocr, high, 1), c);
    app_free(both);
    app_close(rocr);
}

static void identity__split_into_smaller__others(void **state)
{
    struct hmem *rocr = app_open();
    char *both = app_alloc(0, 2 * MIB), *low, *high;
    uint64_t first = identity(rocr, both, 2 * MIB);

    app_free(both);
    low = app_alloc(0, MIB);
    high = app_alloc(0, MIB);
    assert_ptr_equal(high, both + MIB);
    assert_int_not_equal(identity(rocr, high, MIB), first);
    assert_int_not_equal(identity(rocr, low, MIB), first);
    assert_int_not_equal(identity(rocr, low, MIB), identity(rocr, high, MIB));
    app_free(low);
    app_free(high);
    app_close(rocr);
}

static void identity__many_allocations__all_differ(void **state)
{
    struct hmem *rocr = app_open();
    char *memory[MANY];
    uint64_t numbers[MANY];

    for (unsigned i = 0; i < MANY; i++) {
        memory[i] = app_alloc(i % 2, 4096);
        numbers[i] = identity(rocr, memory[i], 4096);
        for (unsigned j = 0; j < i; j++)
            assert_int_not_equal(numbers[i], numbers[j]);
    }
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(identity(rocr, memory[i] + 4095, 1), numbers[i]);
    for (unsigned i = 0; i < MANY; i++)
        app_free(memory[i]);
    app_close(rocr);
}

/* ---- when it cannot be had -------------------------------------------------------------- */

static void identity__freed__not_mine(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    uint64_t found = 5;

    identity(rocr, memory, MIB);
    app_free(memory);
    assert_int_equal(ops->identity(rocr, at(memory), MIB, &found), -HMEM_NOT_MINE);
    assert_int_equal(found, 5);
    app_close(rocr);
}

static void identity__leaves_the_allocation__range(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);
    uint64_t found = 5;

    identity(rocr, memory, MIB);
    assert_fails(ops->identity(rocr, at(memory) + 1, MIB, &found), -ERANGE, "leaves");
    assert_int_equal(found, 5);
    app_free(memory);
    app_close(rocr);
}

static void identity__callback_refused__zero_until_it_is_not(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);

    app_fail("hsa_amd_register_deallocation_callback", HSA_STATUS_ERROR_OUT_OF_RESOURCES, 0, 2);
    assert_int_equal(app_resolve(rocr, memory, MIB).identity, 0);
    assert_int_equal(identity(rocr, memory, MIB), 0);
    assert_int_not_equal(identity(rocr, memory, MIB), 0);
    app_free(memory);
    app_close(rocr);
}

/* Another thread, at the worst moment: after the runtime said what the memory is, and before it
 * watches it for us. */
static void free_and_alloc_less(void *memory)
{
    *app.on_register = NULL;
    app_free(memory);
    assert_ptr_equal(app_alloc(0, MIB / 2), memory);
}

static void identity__swapped_while_asked__zero_then_right(void **state)
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
    app_close(rocr);
}

static void free_it(void *memory)
{
    *app.on_register = NULL;
    app_free(memory);
}

static void identity__freed_while_asked__zero(void **state)
{
    struct hmem *rocr = app_open();
    char *memory = app_alloc(0, MIB);

    *app.on_register = free_it;
    assert_int_equal(app_resolve(rocr, memory, MIB).identity, 0);
    app_close(rocr);
}

static void identity__imported__zero(void **state)
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
    app_close(rocr);
}

/* ---- several vendors open, runtimes that come and go ------------------------------------ */

static void identity__two_opened__one_number(void **state)
{
    struct hmem *one = app_open(), *two = NULL;
    char *memory = app_alloc(0, MIB);
    uint64_t number = identity(one, memory, MIB);

    assert_ok(ops->open(&two));
    assert_int_equal(identity(two, memory, MIB), number);
    ops->close(two);
    /* The close of one takes no callback from the other. */
    assert_int_equal(identity(one, memory, MIB), number);
    app_free(memory);
    memory = app_alloc(0, MIB);
    assert_int_not_equal(identity(one, memory, MIB), number);
    app_free(memory);
    app_close(one);
}

static void identity__closed_and_opened_again__another(void **state)
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

/* No callback of ours is left when the last vendor has closed. */
static void close__live_memory__callbacks_withdrawn(void **state)
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

TEST_MAIN(TEST(identity__same_memory__as_resolve_said), TEST(identity__not_resolved_before__number),
          TEST(identity__known_memory__no_vendor_call), TEST(identity__address_used_again__another),
          TEST(identity__pinned_address_used_again__another),
          TEST(identity__merged_into_larger__another), TEST(identity__split_into_smaller__others),
          TEST(identity__many_allocations__all_differ), TEST(identity__freed__not_mine),
          TEST(identity__leaves_the_allocation__range),
          TEST(identity__callback_refused__zero_until_it_is_not),
          TEST(identity__swapped_while_asked__zero_then_right),
          TEST(identity__freed_while_asked__zero), TEST(identity__imported__zero),
          TEST(identity__two_opened__one_number), TEST(identity__closed_and_opened_again__another),
          TEST(close__live_memory__callbacks_withdrawn))
