/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The names of the public enums' values, in one place, so that text, JSON and environment variables
 * use the same names.
 */
#include <hmreg/plan.h>

#define NAME_OF(table, value)                                                                      \
    ((size_t)(value) < sizeof(table) / sizeof((table)[0]) ? (table)[value] : "?")

const char *hmreg_iface_name(enum hmreg_iface iface)
{
    static const char *const names[] = {
        "system", "cuda",   "rocr",    "ze",      "neuron",  "synapseai", "iface6",  "iface7",
        "iface8", "iface9", "iface10", "iface11", "iface12", "iface13",   "iface14", "iface15"};

    _Static_assert(sizeof(names) / sizeof(names[0]) == HMREG_IFACE_MAX + 1, "a name for each");
    return NAME_OF(names, iface);
}

const char *hmreg_mem_kind_name(enum hmreg_mem_kind kind)
{
    static const char *const names[] = {"host", "pinned host", "device", "managed"};

    return NAME_OF(names, kind);
}

const char *hmreg_path_name(enum hmreg_path path)
{
    static const char *const names[] = {"none", "system", "dmabuf", "peermem", "mapped"};

    return NAME_OF(names, path);
}

const char *hmreg_way_name(enum hmreg_way way)
{
    static const char *const names[] = {"none", "plain", "data-direct", "pcie", "data-direct-pcie"};

    return NAME_OF(names, way);
}

const char *hmreg_monitor_name(enum hmreg_monitor monitor)
{
    static const char *const names[] = {"default",  "userfaultfd", "import",
                                        "disabled", "memhooks",    "counter"};

    return NAME_OF(names, monitor);
}

const char *hmreg_version(void)
{
    return HMREG_VERSION_STRING;
}
