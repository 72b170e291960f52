/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Reused addresses of Level Zero's virtual memory under the cache: one reservation, into which
 * physical memory is mapped repeatedly.
 */
#include "tests/gpu/reuse.h"
#include "tests/gpu/ze/bench.h"

#define PLACES  8
#define LONGEST 16384 /* that tests/gpu/reuse.h asks for */

static struct app app;
static char *reserved;
static size_t granule;
static ze_physical_mem_handle_t memory[PLACES]; /* NULL: nothing is mapped there */

static void *map_somewhere(int device, size_t len)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC, .size = granule};
    unsigned at = 0;

    while (memory[at])
        at++;
    assert_int_equal(zePhysicalMemCreate(app.context, app.devices[device], &desc, &memory[at]), 0);
    assert_int_equal(zeVirtualMemMap(app.context, reserved + at * granule, granule, memory[at], 0,
                                     ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE),
                     0);
    return reserved + at * granule;
}

static void unmap_it(void *addr)
{
    size_t at = (size_t)((char *)addr - reserved) / granule;

    assert_int_equal(zeVirtualMemUnmap(app.context, addr, granule), 0);
    assert_int_equal(zePhysicalMemDestroy(app.context, memory[at]), 0);
    memory[at] = NULL;
}

TEST(reuse__mappings__never_stale)
{
    static const struct reuse mappings = {HMREG_IFACE_ZE, map_somewhere, unmap_it, false};
    void *at = NULL;

    bench_open();
    app_open(&app, 0);
    granule = bench_page() > LONGEST ? bench_page() : LONGEST;
    assert_int_equal(zeVirtualMemReserve(app.context, NULL, PLACES * granule, &at), 0);
    reserved = at;
    reuse_addresses(&mappings, 100000);
    assert_int_equal(zeVirtualMemFree(app.context, reserved, PLACES * granule), 0);
}

TEST_MAIN()
