/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Each kind of change of memory, by whatever means: is it counted, once, by the time the call
 * returns? And does what leaves the pages in place count nothing?
 */
#include "tests/counter/device.h"
#include "tests/counter/kinds.h"
#include "tests/support/test.h"

#include <sys/mman.h>

static struct device device;

/* Makes the kind's change, which must be counted so often for the region's slot. */
static void count(const struct kind *kind, uint64_t expected)
{
    struct hmreg_counter_change change;
    struct hmreg_counter_range range;
    uint64_t generation, counted;
    size_t size;
    char *memory = kind_make(kind, &size);

    range = device_watch(&device, memory, size);
    generation = device_generation(&device);
    kind_change(kind);
    counted = device_slot(&device, range.slot) - range.seq;
    if (counted != expected || device_generation(&device) - generation != expected)
        fail_msg("%s: counted %d times, and generation %d times", kind->name, (int)counted,
                 (int)(device_generation(&device) - generation));
    change = device_change(&device, generation);
    if (counted &&
        (change.start < range.start || change.start >= change.end || change.end > range.end))
        fail_msg("%s: the ring does not name a part of the range", kind->name);
    assert_int_equal(device_unwatch(device.fd, range.slot), 0);
    kind_end();
}

static void takes_pages(const struct kind *kind, void *unused)
{
    count(kind, 1);
}

static void leaves_pages(const struct kind *kind, void *unused)
{
    count(kind, 0);
}

TEST(change__takes_pages_away__counted_once_when_the_call_returns)
{
    device = device_open(512);
    kinds_each_that_takes_pages(takes_pages, NULL);
    device_close(&device);
}

TEST(change__leaves_the_pages__counts_nothing)
{
    device = device_open(512);
    kinds_each_that_leaves_pages(leaves_pages, NULL);
    device_close(&device);
}

TEST(ksm__merges_pages__counted)
{
    size_t size = 16 * PAGE;
    char *memory = kinds_small_pages(size), *twin = kinds_small_pages(size);
    struct hmreg_counter_range range;

    device = device_open(512);
    range = device_watch(&device, memory, size);
    assert_int_equal(madvise(memory, size, MADV_MERGEABLE), 0);
    assert_int_equal(madvise(twin, size, MADV_MERGEABLE), 0);
    assert_true(kinds_write_file("/sys/kernel/mm/ksm/sleep_millisecs", "1"));
    assert_true(kinds_write_file("/sys/kernel/mm/ksm/pages_to_scan", "1000"));
    assert_true(kinds_write_file("/sys/kernel/mm/ksm/run", "1"));
    test_wait_until(device_counted(&device, &range));
    assert_true(kinds_write_file("/sys/kernel/mm/ksm/run", "2"));
    assert_true(kinds_write_file("/sys/kernel/mm/ksm/run", "0"));
    munmap(memory, size);
    munmap(twin, size);
    device_close(&device);
}

TEST_MAIN()
