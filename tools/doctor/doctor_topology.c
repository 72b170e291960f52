/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Judges the PCI tree between pairs: distance, bridges with ACS redirect, address translation.
 */
#include "tools/doctor/doctor.h"
#include "tools/doctor/findings.h"
#include "tools/topology.h"

#include <string.h>

static const json_t *member_named(const json_t *topology, const char *name)
{
    return doc_find(json_object_get(topology, "members"), "name", name);
}

/* ---- distance --------------------------------------------------------------------------- */

/* The distance of a device's nearest NIC; NULL: no NIC is on the bus. */
static const char *nearest_nic(const json_t *topology, const char *device)
{
    const char *nearest = NULL;
    const json_t *between;

    doc_each(between, json_object_get(topology, "distances")) {
        const char *distance = doc_words(between, "distance");

        if (!doc_equals(between, "one", device) || !strcmp(distance, "?") ||
            !doc_equals(member_named(topology, doc_words(between, "other")), "kind", "nic"))
            continue;
        if (!nearest || topology_rank(distance) < topology_rank(nearest))
            nearest = distance;
    }
    return nearest;
}

static void judge_distance(const json_t *topology, json_t *findings)
{
    struct names far = {.count = 0};
    const json_t *member;

    doc_each(member, json_object_get(topology, "members")) {
        const char *nearest = doc_equals(member, "kind", "device")
                                  ? nearest_nic(topology, doc_words(member, "name"))
                                  : NULL;

        if (nearest && !strcmp(nearest, "SYS"))
            names_add(&far, doc_words(member, "name"));
    }
    if (far.count)
        finding_add(findings, "far-nic", "/sys/bus/pci/devices, hmreg topo",
                    "The nearest RDMA device is across NUMA nodes (SYS) from %s.",
                    names_text(&far));
}

/* ---- bridges between -------------------------------------------------------------------- */

static bool redirects(const json_t *topology, const json_t *bridge)
{
    const json_t *bridges = json_object_get(topology, "bridges");

    return doc_is(json_object_get(bridges, json_string_value(bridge)), "acs_redirect");
}

static bool is_above(const json_t *member, const json_t *bridge)
{
    const json_t *above;

    doc_each(above, json_object_get(member, "bridges"))
        if (json_equal(above, bridge))
            return true;
    return false;
}

/* Adds the redirecting bridges above `one` that are not also above `other`. */
static void add_redirecting(const json_t *topology, const json_t *one, const json_t *other,
                            json_t *all)
{
    const json_t *bridge;

    doc_each(bridge, json_object_get(one, "bridges"))
        if (!is_above(other, bridge) && redirects(topology, bridge))
            doc_set(all, json_string_value(bridge), json_true());
}

static void judge_acs(const json_t *topology, json_t *findings)
{
    json_t *all = doc_object();
    struct names names = {.count = 0};
    const json_t *between;
    const char *pci;
    json_t *is;

    doc_each(between, json_object_get(topology, "distances")) {
        const json_t *one = member_named(topology, doc_words(between, "one"));
        const json_t *other = member_named(topology, doc_words(between, "other"));
        int rank = topology_rank(doc_words(between, "distance"));

        if (!doc_equals(one, "kind", "device") || !doc_equals(other, "kind", "nic") ||
            rank > topology_rank("PXB"))
            continue;
        add_redirecting(topology, one, other, all);
        add_redirecting(topology, other, one, all);
    }
    json_object_foreach(all, pci, is)
        names_add(&names, pci);
    if (names.count)
        finding_add(findings, "acs-redirects", "/sys/bus/pci/devices/*/config (ACS)",
                    "ACS request redirect is on at %s, between a device and an RDMA device.",
                    names_text(&names));
    json_decref(all);
}

/* ---- addresses -------------------------------------------------------------------------- */

static void judge_iommu(const json_t *topology, json_t *findings)
{
    struct names names = {.count = 0};
    const json_t *member;

    doc_each(member, json_object_get(topology, "members"))
        if (!strncmp(doc_words(member, "iommu"), "DMA", 3))
            names_add(&names, doc_words(member, "name"));
    if (names.count)
        finding_add(findings, "iommu-translates", "/sys/bus/pci/devices/*/iommu_group/type",
                    "The IOMMU translates the addresses of %s.", names_text(&names));
}

void topology_judge(const json_t *facts, json_t *findings)
{
    const json_t *topology = json_object_get(facts, "topology");

    judge_distance(topology, findings);
    judge_acs(topology, findings);
    judge_iommu(topology, findings);
}
