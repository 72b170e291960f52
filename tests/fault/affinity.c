/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Opening a topology and asking it for the affinity of memory, as often as that makes calls that
 * can fail, each failing once: it ends with -ENOMEM, or knows less and says so; nothing is left. */
#include "tests/fault/faults.h"
#include "tests/support/synthetic.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"
#include "tests/tools/tree.h"

#include <dirent.h>
#include <hmreg/affinity.h>

#define WRAP(type, call, ...)                                                                      \
    type __real_##call(__VA_ARGS__);                                                               \
    type __wrap_##call(__VA_ARGS__);                                                               \
    type __wrap_##call(__VA_ARGS__)

WRAP(int, scandirat, int folder, const char *path, struct dirent ***list,
     int (*filter)(const struct dirent *),
     int (*compare)(const struct dirent **, const struct dirent **))
{
    int count = faults_fail("scandirat", ENOMEM)
                    ? -1
                    : __real_scandirat(folder, path, list, filter, compare);

    if (count >= 0)
        faults_had(count + (*list ? 1 : 0));
    return count;
}

WRAP(char *, realpath, const char *path, char *resolved)
{
    return faults_fail("realpath", ENOMEM) ? NULL : __real_realpath(path, resolved);
}

WRAP(int, access, const char *path, int mode)
{
    return faults_fail("access", ENOMEM) ? -1 : __real_access(path, mode);
}

#ifdef HMREG_AFFINITY_HWLOC
#include <hwloc.h>

WRAP(int, hwloc_topology_init, hwloc_topology_t *tree)
{
    return faults_fail("hwloc_topology_init", ENOMEM) ? -1 : __real_hwloc_topology_init(tree);
}

WRAP(int, hwloc_topology_load, hwloc_topology_t tree)
{
    return faults_fail("hwloc_topology_load", ENOMEM) ? -1 : __real_hwloc_topology_load(tree);
}

WRAP(int, hwloc_topology_set_xml, hwloc_topology_t tree, const char *path)
{
    return faults_fail("hwloc_topology_set_xml", ENOMEM)
               ? -1
               : __real_hwloc_topology_set_xml(tree, path);
}

WRAP(int, hwloc_topology_set_io_types_filter, hwloc_topology_t tree,
     enum hwloc_type_filter_e filter)
{
    return faults_fail("hwloc_topology_set_io_types_filter", ENOMEM)
               ? -1
               : __real_hwloc_topology_set_io_types_filter(tree, filter);
}
#endif

/* ---- a way ------------------------------------------------------------------------------ */

static struct hmreg *lib;
static char memory[4096];

static int go(const struct hmreg_topology_config *config, struct hmreg_nic_affinity *out,
              size_t *count)
{
    struct hmreg_place place = {
        .size = sizeof(place), .kind = HMREG_PLACE_MEMORY, .addr = memory, .len = sizeof(memory)};
    struct hmreg_topology *topology = NULL;
    int rc = hmreg_topology_open(lib, config, &topology);

    rc = rc ? rc : hmreg_topology_order_nics(topology, &place, NULL, 0, out, count);
    hmreg_topology_close(topology);
    return rc;
}

/* Without an error: as many NICs, or one that sysfs no longer shows; each has its reason. */
static void check(const char *call, int rc, const struct hmreg_nic_affinity *out, size_t count)
{
    if (rc && (hmreg_last_error()->code != rc || !hmreg_last_error()->text[0]))
        fail_msg("%s failed: %d without a sentence", call, rc);
    if (rc && rc != -ENOMEM && rc != -EMFILE) /* the latter: /proc/self/maps */
        fail_msg("%s failed: %d, %s", call, rc, hmreg_last_error()->text);
    for (size_t i = 0; !rc && i < count; i++)
        if (!out[i].reason[0])
            fail_msg("%s failed: %s has no reason", call, out[i].nic);
}

static void each_fails(const struct hmreg_topology_config *config, const char *const *expected)
{
    unsigned seen = 0, nth;

    vendors_reset();
    memory[0] = 1;
    assert_ok(hmreg_open(NULL, &lib));
    hmreg_topology_open(NULL, NULL, NULL); /* the thread's first error is a block that it keeps */
    for (nth = 1;; nth++) {
        struct hmreg_nic_affinity out[8] = {{.size = sizeof(out[0])}};
        size_t count = 8;
        long blocks = faults_blocks();
        const char *fired;
        int rc;

        faults_arm(nth);
        rc = go(config, out, &count);
        fired = faults_fired();
        faults_arm(0);
        if (!fired) {
            assert_ok(rc);
            break;
        }
        check(fired, rc, out, count);
        if (faults_blocks() != blocks)
            fail_msg("%s failed, and left %ld blocks", fired, faults_blocks() - blocks);
        for (unsigned i = 0; expected[i]; i++)
            seen |= (unsigned)!strcmp(fired, expected[i]) << i;
    }
    print_message("%u calls\n", nth - 1);
    for (unsigned i = 0; expected[i]; i++)
        if (!(seen & 1u << i))
            fail_msg("%s was not among the calls", expected[i]);
    assert_ok(hmreg_close(lib));
}

TEST(affinity__tree__each_call_fails_once)
{
    static const char *const expected[] = {
        "calloc", "realloc",          "scandirat",           "open",
        "fdopen", "syscall(openat2)", "syscall(move_pages)", NULL};
    struct hmreg_topology_config config = {.size = sizeof(config)};

    tree_begin();
    tree_pci("pci0000:00/0000:03:00.0", "0x020000", "0x15b3");
    tree_nic("mlx5_0", "pci0000:00/0000:03:00.0");
    tree_file("/sys/devices/system/node/node0/distance", "10\n");
    config.root = getenv("HMREG_DOCTOR_ROOT");
    each_fails(&config, expected);
}

#ifdef HMREG_AFFINITY_HWLOC
TEST(affinity__exported_file__each_call_fails_once)
{
    static const char *const expected[] = {"calloc",
                                           "realloc",
                                           "access",
                                           "hwloc_topology_init",
                                           "hwloc_topology_set_xml",
                                           "hwloc_topology_set_io_types_filter",
                                           "hwloc_topology_load",
                                           NULL};
    struct hmreg_topology_config config = {.size = sizeof(config)};
    char path[32];

    synthetic_machine(path, 21);
    config.xml = path;
    each_fails(&config, expected);
    unlink(path);
}
#endif

TEST(affinity__this_machine__each_call_fails_once)
{
    static const char *const expected[] = {"scandirat", NULL};

    each_fails(NULL, expected);
}

TEST_MAIN()
