/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The structs that the library fills, as named tuples: each has the fields of its struct in the C
 * header, in this order. Enumerations are their names; an absent key is None.
 */
#include "binding.h"

#include <hmreg/group.h>
#include <hmreg/plan.h>
#include <hmreg/region.h>
#include <hmreg/remote.h>
#include <stddef.h>
#include <string.h>

enum value {
    U64,
    U32,
    I64,
    INT,
    KEY,   /* of 64 bits */
    KEY32, /* of verbs */
    TEXT,
    PCI,
    IFACE,
    MEM_KIND,
    PATH,
    WAY,
    MONITOR,
    TIMES,
    REASONS,
    LIMITS,
    POINTER,
    OBJECT,
    STATE,
    STRING,
};

struct field {
    const char *name;
    enum value value;
    size_t offset;
};

struct record {
    const char *name, *doc;
    const struct field *fields;
    int count;
};

#define FIELD(type, name, value)                                                                   \
    {                                                                                              \
#name, value, offsetof(struct type, name)                                                  \
    }
#define RECORD(name, doc, fields)                                                                  \
    {                                                                                              \
        "hmreg." name, doc, fields, sizeof(fields) / sizeof(*fields)                               \
    }

static const struct field stats_fields[] = {
    FIELD(hmreg_stats, hits, U64),           FIELD(hmreg_stats, misses, U64),
    FIELD(hmreg_stats, evictions, U64),      FIELD(hmreg_stats, invalidations, U64),
    FIELD(hmreg_stats, uncached, U64),       FIELD(hmreg_stats, regions, U64),
    FIELD(hmreg_stats, bytes, U64),          FIELD(hmreg_stats, retired, U64),
    FIELD(hmreg_stats, caches, U64),         FIELD(hmreg_stats, shown, U64),
    FIELD(hmreg_stats, evicted_limit, U64),  FIELD(hmreg_stats, evicted_memory, U64),
    FIELD(hmreg_stats, evicted_room, U64),   FIELD(hmreg_stats, evicted_keys, U64),
    FIELD(hmreg_stats, failures, U64),       FIELD(hmreg_stats, regions_max, U64),
    FIELD(hmreg_stats, bytes_max, U64),      FIELD(hmreg_stats, waits, U64),
    FIELD(hmreg_stats, waiting, U64),        FIELD(hmreg_stats, reg_ns, U64),
    FIELD(hmreg_stats, reg_longest_ns, U64), FIELD(hmreg_stats, reg_times, TIMES),
    FIELD(hmreg_stats, wrong_puts, U64),     FIELD(hmreg_stats, gave_explicit, U64),
    FIELD(hmreg_stats, gave_others, U64),
};

static const struct field domain_fields[] = {
    FIELD(hmreg_domain_info, provider, TEXT),   FIELD(hmreg_domain_info, fabric, TEXT),
    FIELD(hmreg_domain_info, mr_mode, U32),     FIELD(hmreg_domain_info, key_size, U32),
    FIELD(hmreg_domain_info, iov_limit, U32),   FIELD(hmreg_domain_info, max_len, U64),
    FIELD(hmreg_domain_info, max_regions, U64), FIELD(hmreg_domain_info, max_bytes, U64),
    FIELD(hmreg_domain_info, nic, TEXT),        FIELD(hmreg_domain_info, pci, PCI),
    FIELD(hmreg_domain_info, lost, TEXT),
};

static const struct field memory_fields[] = {
    FIELD(hmreg_mem_info, iface, IFACE),    FIELD(hmreg_mem_info, device, INT),
    FIELD(hmreg_mem_info, pci, PCI),        FIELD(hmreg_mem_info, kind, MEM_KIND),
    FIELD(hmreg_mem_info, flags, U32),      FIELD(hmreg_mem_info, segments, U32),
    FIELD(hmreg_mem_info, alloc_base, U64), FIELD(hmreg_mem_info, alloc_len, U64),
    FIELD(hmreg_mem_info, identity, U64),   FIELD(hmreg_mem_info, host_addr, U64),
};

static const struct field region_fields[] = {
    FIELD(hmreg_mr_info, iface, IFACE),  FIELD(hmreg_mr_info, device, INT),
    FIELD(hmreg_mr_info, path, PATH),    FIELD(hmreg_mr_info, addr, U64),
    FIELD(hmreg_mr_info, len, U64),      FIELD(hmreg_mr_info, access, U64),
    FIELD(hmreg_mr_info, identity, U64), FIELD(hmreg_mr_info, local_addr, U64),
    FIELD(hmreg_mr_info, cached, INT),   FIELD(hmreg_mr_info, way, WAY),
    FIELD(hmreg_mr_info, asks, U32),     FIELD(hmreg_mr_info, policy, INT),
};

static const struct field remote_fields[] = {
    FIELD(hmreg_remote_info, len, U64),
    FIELD(hmreg_remote_info, access, U64),
    FIELD(hmreg_remote_info, segments, U32),
    FIELD(hmreg_remote_info, iface, IFACE),
};

static const struct field monitor_fields[] = {
    FIELD(hmreg_monitor_info, asked, MONITOR),   FIELD(hmreg_monitor_info, active, MONITOR),
    FIELD(hmreg_monitor_info, userfaultfd, INT), FIELD(hmreg_monitor_info, events, U64),
    FIELD(hmreg_monitor_info, calls, U64),       FIELD(hmreg_monitor_info, why, TEXT),
};

static const struct field reason_fields[] = {
    FIELD(hmreg_reason, path, PATH),       FIELD(hmreg_reason, code, INT),
    FIELD(hmreg_reason, vendor_code, I64), FIELD(hmreg_reason, slug, TEXT),
    FIELD(hmreg_reason, text, TEXT),
};

static const struct field explanation_fields[] = {
    FIELD(hmreg_explanation, iface, IFACE),       FIELD(hmreg_explanation, device, INT),
    FIELD(hmreg_explanation, path, PATH),         FIELD(hmreg_explanation, reasons, REASONS),
    FIELD(hmreg_explanation, asks, U32),          FIELD(hmreg_explanation, asks_why, TEXT),
    FIELD(hmreg_explanation, uncached_why, TEXT), FIELD(hmreg_explanation, policy, INT),
    FIELD(hmreg_explanation, rail_why, TEXT),     FIELD(hmreg_explanation, room_why, TEXT),
};

static const struct field limit_fields[] = {
    FIELD(hmreg_plan_limit, limit, U64),
    FIELD(hmreg_plan_limit, needed, U64),
    FIELD(hmreg_plan_limit, fits, U64),
    FIELD(hmreg_plan_limit, text, TEXT),
};

static const struct field plan_fields[] = {
    FIELD(hmreg_plan, len, U64),       FIELD(hmreg_plan, path, PATH),
    FIELD(hmreg_plan, regions, U64),   FIELD(hmreg_plan, region_len, U64),
    FIELD(hmreg_plan, last_len, U64),  FIELD(hmreg_plan, exports, U64),
    FIELD(hmreg_plan, pinned, U64),    FIELD(hmreg_plan, fits, U64),
    FIELD(hmreg_plan, cacheable, U64), FIELD(hmreg_plan, limits, LIMITS),
};

static const struct field keys_fields[] = {
    FIELD(hmreg_mr_keys, desc, POINTER),   FIELD(hmreg_mr_keys, key, KEY),
    FIELD(hmreg_mr_keys, lkey, KEY32),     FIELD(hmreg_mr_keys, rkey, KEY32),
    FIELD(hmreg_mr_keys, native, POINTER),
};

static const struct field member_fields[] = {
    FIELD(member, state, STATE), FIELD(member, domain, OBJECT), FIELD(member, regions, U64),
    FIELD(member, done, U64),    FIELD(member, failed, U64),    FIELD(member, why, STRING),
};

static const struct record records[RECORD_KINDS] = {
    [RECORD_STATS] = RECORD(
        "Stats", "The sums over a domain's caches: struct hmreg_stats. Times in ns.", stats_fields),
    [RECORD_DOMAIN] = RECORD("DomainInfo", "A domain: struct hmreg_domain_info. Lengths in bytes.",
                             domain_fields),
    [RECORD_MEMORY] = RECORD(
        "MemoryInfo", "What memory is: struct hmreg_mem_info. Lengths in bytes.", memory_fields),
    [RECORD_REGION] =
        RECORD("RegionInfo", "A region: struct hmreg_mr_info. Lengths in bytes.", region_fields),
    [RECORD_REMOTE] =
        RECORD("RemoteInfo", "A peer's region: struct hmreg_remote_info.", remote_fields),
    [RECORD_MONITOR] =
        RECORD("MonitorInfo", "The memory monitor: struct hmreg_monitor_info.", monitor_fields),
    [RECORD_REASON] =
        RECORD("Reason", "Why one path was refused: struct hmreg_reason.", reason_fields),
    [RECORD_EXPLANATION] = RECORD(
        "Explanation", "Why a region has its path: struct hmreg_explanation.", explanation_fields),
    [RECORD_LIMIT] =
        RECORD("PlanLimit", "One limit of a plan: struct hmreg_plan_limit.", limit_fields),
    [RECORD_PLAN] = RECORD("Plan", "How a range would be registered: struct hmreg_plan. In bytes.",
                           plan_fields),
    [RECORD_KEYS] = RECORD("Keys", "What transfers need of one registration: struct hmreg_mr_keys.",
                           keys_fields),
    [RECORD_MEMBER] =
        RECORD("Member", "A member of a group: struct hmreg_group_member.", member_fields),
};

static PyTypeObject *types[RECORD_KINDS];

#define FIELDS_MAX 32

static bool record_add(PyObject *module, enum record_kind kind)
{
    const struct record *record = &records[kind];
    PyStructSequence_Field fields[FIELDS_MAX + 1] = {{NULL, NULL}};
    PyStructSequence_Desc desc = {record->name, record->doc, fields, record->count};

    for (int i = 0; i < record->count; i++)
        fields[i].name = record->fields[i].name;
    types[kind] = PyStructSequence_NewType(&desc);
    return types[kind] &&
           !PyModule_AddObjectRef(module, strchr(record->name, '.') + 1, (PyObject *)types[kind]);
}

bool records_add(PyObject *module)
{
    for (int kind = 0; kind < RECORD_KINDS; kind++)
        if (!record_add(module, (enum record_kind)kind))
            return false;
    return true;
}

/* ---- values ----------------------------------------------------------------------------- */

static PyObject *pci_of(const struct hmreg_pci *pci)
{
    if (!pci->valid)
        return Py_NewRef(Py_None);
    return PyUnicode_FromFormat("%04x:%02x:%02x.%x", pci->domain, pci->bus, pci->device,
                                pci->function);
}

/* Takes the items over as they are made: item(i) of count. */
static PyObject *tuple_of(Py_ssize_t count, PyObject *(*item)(const void *array, Py_ssize_t i),
                          const void *array)
{
    PyObject *tuple = PyTuple_New(count);

    for (Py_ssize_t i = 0; tuple && i < count; i++) {
        PyObject *each = item(array, i);

        if (!each || PyTuple_SetItem(tuple, i, each))
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *time_at(const void *array, Py_ssize_t i)
{
    return PyLong_FromUnsignedLongLong(((const uint64_t *)array)[i]);
}

static PyObject *reason_at(const void *array, Py_ssize_t i)
{
    return record_of(RECORD_REASON, (const struct hmreg_reason *)array + i);
}

static PyObject *limit_at(const void *array, Py_ssize_t i)
{
    return record_of(RECORD_LIMIT, (const struct hmreg_plan_limit *)array + i);
}

static PyObject *key_of(uint64_t key, uint64_t none)
{
    return key == none ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(key);
}

static PyObject *text_of(const char *bytes)
{
    return PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)strlen(bytes), "replace");
}

/* Every enumeration of C has the size of an int. */
static PyObject *name_of(enum value value, int number)
{
    static const char *const states[] = {[HMREG_MEMBER_PRESENT] = "present",
                                         [HMREG_MEMBER_WITHDRAWN] = "withdrawn",
                                         [HMREG_MEMBER_REPLACING] = "replacing"};

    switch (value) {
    case STATE:
        return PyUnicode_FromString(states[number]);
    case IFACE:
        return PyUnicode_FromString(hmreg_iface_name((enum hmreg_iface)number));
    case MEM_KIND:
        return PyUnicode_FromString(hmreg_mem_kind_name((enum hmreg_mem_kind)number));
    case PATH:
        return PyUnicode_FromString(hmreg_path_name((enum hmreg_path)number));
    case WAY:
        return PyUnicode_FromString(hmreg_way_name((enum hmreg_way)number));
    default:
        return PyUnicode_FromString(hmreg_monitor_name((enum hmreg_monitor)number));
    }
}

static PyObject *value_of(const struct field *field, const void *from)
{
    const void *at = (const char *)from + field->offset;

    switch (field->value) {
    case U64:
        return PyLong_FromUnsignedLongLong(*(const uint64_t *)at);
    case U32:
        return PyLong_FromUnsignedLong(*(const uint32_t *)at);
    case I64:
        return PyLong_FromLongLong(*(const int64_t *)at);
    case INT:
        return PyLong_FromLong(*(const int *)at);
    case KEY:
        return key_of(*(const uint64_t *)at, HMREG_KEY_NOTAVAIL);
    case KEY32:
        return key_of(*(const uint32_t *)at, HMREG_VERBS_KEY_NOTAVAIL);
    case TEXT:
        return text_of(at);
    case STRING:
        return text_of(*(const char *const *)at);
    case OBJECT:
        return Py_NewRef(*(PyObject *const *)at);
    case PCI:
        return pci_of(at);
    case TIMES:
        return tuple_of(HMREG_STATS_TIMES, time_at, at);
    case REASONS:
        return tuple_of(((const struct hmreg_explanation *)from)->refused, reason_at, at);
    case LIMITS:
        return tuple_of(HMREG_PLAN_KINDS, limit_at, at);
    case POINTER:
        return PyLong_FromVoidPtr(*(void *const *)at);
    default:
        return name_of(field->value, *(const int *)at);
    }
}

PyObject *record_of(enum record_kind kind, const void *from)
{
    PyObject *record = PyStructSequence_New(types[kind]);

    for (int i = 0; record && i < records[kind].count; i++) {
        PyObject *value = value_of(&records[kind].fields[i], from);

        if (value)
            PyStructSequence_SetItem(record, i, value);
        else
            Py_CLEAR(record);
    }
    return record;
}
