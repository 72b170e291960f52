/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What tests of affinity begin with: a topology of a synthetic machine, places, and what is said of
 * a NIC.
 */
#ifndef TESTS_UNIT_AFFINITY_H
#define TESTS_UNIT_AFFINITY_H

#include "tests/support/synthetic.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"

#include <hmreg/affinity.h>

static struct fixture {
    struct hmreg *lib;
    struct hmreg_topology *topology;
    char path[32];
} fixture;

static inline void end(void)
{
    hmreg_topology_close(fixture.topology);
    assert_ok(hmreg_close(fixture.lib));
}

static inline void open_xml(void)
{
    struct hmreg_topology_config config = {.size = sizeof(config), .xml = fixture.path};
    int rc;

    vendors_reset();
    assert_ok(hmreg_open(NULL, &fixture.lib));
    rc = hmreg_topology_open(fixture.lib, &config, &fixture.topology);
    unlink(fixture.path);
    if (rc == -EOPNOTSUPP) {
        assert_ok(hmreg_close(fixture.lib));
        test_skip("%s", hmreg_last_error()->text);
    }
    assert_ok(rc);
    test_after(end);
}

static inline void begin(void)
{
    synthetic_machine(fixture.path, 21);
    open_xml();
}

static inline struct hmreg_pci pci(const char *text)
{
    unsigned domain = 0, bus, device, function;

    assert_int_equal(strlen(text) > 7
                         ? sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function)
                         : 1 + sscanf(text, "%x:%x.%x", &bus, &device, &function),
                     4);
    return (struct hmreg_pci){.domain = domain,
                              .bus = (uint8_t)bus,
                              .device = (uint8_t)device,
                              .function = (uint8_t)function,
                              .valid = 1};
}

static inline struct hmreg_place at_pci(const char *text)
{
    return (struct hmreg_place){
        .size = sizeof(struct hmreg_place), .kind = HMREG_PLACE_PCI, .pci = pci(text)};
}

static inline struct hmreg_place at_node(int node)
{
    return (struct hmreg_place){
        .size = sizeof(struct hmreg_place), .kind = HMREG_PLACE_NUMA_NODE, .numa_node = node};
}

static inline struct hmreg_place at_memory(const void *addr, size_t len)
{
    return (struct hmreg_place){
        .size = sizeof(struct hmreg_place), .kind = HMREG_PLACE_MEMORY, .addr = addr, .len = len};
}

static inline size_t all(const struct hmreg_place *place, struct hmreg_nic_affinity *out,
                         size_t count)
{
    out[0].size = sizeof(*out);
    assert_ok(hmreg_topology_order_nics(fixture.topology, place, NULL, 0, out, &count));
    return count;
}

static inline void assert_nic(const struct hmreg_nic_affinity *found, const char *name,
                              enum hmreg_distance distance, const char *reason)
{
    assert_string_equal(found->nic, name);
    if (found->distance != distance)
        fail_msg("%s is at %s, not at %s: %s", name, hmreg_distance_name(found->distance),
                 hmreg_distance_name(distance), found->reason);
    if (!strstr(found->reason, reason))
        fail_msg("%s: \"%s\", without \"%s\"", name, found->reason, reason);
}

#endif
