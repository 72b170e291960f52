/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The library's constants under their C names without HMREG_, its names as arguments, and the
 * fields of a domain's configuration as keyword arguments.
 */
#include "binding.h"

#include <hmreg/group.h>
#include <hmreg/loopback.h>
#include <stddef.h>
#include <string.h>

/* <hmreg/verbs.h>'s, which needs libibverbs; where that is, the compiler compares them. */
#define HMREG_VERBS_RELAXED_ORDERING    (1u << 16)
#define HMREG_VERBS_ON_DEMAND           (1u << 17)
#define HMREG_VERBS_MEMORY_WINDOWS      (1u << 18)
#define HMREG_VERBS_ATOMICS             (1u << 19)
#define HMREG_VERBS_ATOMICS_IF_POSSIBLE (1u << 20)
#if __has_include(<infiniband/verbs.h>)
#include <hmreg/verbs.h>
#endif

#define CONSTANT(name)                                                                             \
    {                                                                                              \
#name, HMREG_##name                                                                        \
    }

static const struct {
    const char *name;
    uint64_t value;
} constants[] = {
    CONSTANT(READ),
    CONSTANT(WRITE),
    CONSTANT(RECV),
    CONSTANT(SEND),
    CONSTANT(REMOTE_READ),
    CONSTANT(REMOTE_WRITE),
    CONSTANT(ACCESS_LOCAL),
    CONSTANT(ACCESS_REMOTE),
    CONSTANT(ACCESS_ALL),
    CONSTANT(GET_HOST),
    CONSTANT(REG_SINGLE),
    CONSTANT(REG_PARTS),
    CONSTANT(DOMAIN_EXACT),
    CONSTANT(DOMAIN_NO_CACHE),
    CONSTANT(DOMAIN_SINGLE),
    CONSTANT(DOMAIN_PARTS),
    CONSTANT(GROUP_PARTIAL),
    CONSTANT(IFACES_STARTED),
    CONSTANT(KEY_ANY),
    CONSTANT(LIMIT_NONE),
    CONSTANT(POLICY_DEFAULT),
    CONSTANT(POLICY_KEEP),
    CONSTANT(POLICY_LAST_PUT),
    CONSTANT(RIGHTS_EXACT),
    CONSTANT(RIGHTS_LOCAL),
    CONSTANT(RIGHTS_ANY),
    CONSTANT(COVER_DEFAULT),
    CONSTANT(COVER_EXACT),
    CONSTANT(COVER_ALLOCATION),
    CONSTANT(COVER_REMOTE),
    CONSTANT(CHOICE_DEFAULT),
    CONSTANT(CHOICE_OFF),
    CONSTANT(CHOICE_ON),
    CONSTANT(VERBS_RELAXED_ORDERING),
    CONSTANT(VERBS_ON_DEMAND),
    CONSTANT(VERBS_MEMORY_WINDOWS),
    CONSTANT(VERBS_ATOMICS),
    CONSTANT(VERBS_ATOMICS_IF_POSSIBLE),
    CONSTANT(MR_LOCAL),
    CONSTANT(MR_RAW),
    CONSTANT(MR_VIRT_ADDR),
    CONSTANT(MR_ALLOCATED),
    CONSTANT(MR_PROV_KEY),
    CONSTANT(MR_HMEM),
    CONSTANT(ETOOSMALL),
    CONSTANT(EOPBADSTATE),
    CONSTANT(EBADFLAGS),
    CONSTANT(ENOKEY),
};

bool constants_add(PyObject *module)
{
    for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++) {
        PyObject *value = PyLong_FromUnsignedLongLong(constants[i].value);
        bool added = value && !PyModule_AddObjectRef(module, constants[i].name, value);

        Py_XDECREF(value);
        if (!added)
            return false;
    }
    return !PyModule_AddStringConstant(module, "version", hmreg_version());
}

int to_u64(PyObject *object, void *out)
{
    unsigned long long number = PyLong_AsUnsignedLongLong(object);

    if (number == (unsigned long long)-1 && PyErr_Occurred())
        return false;
    *(uint64_t *)out = number;
    return true;
}

int to_u32(PyObject *object, void *out)
{
    uint64_t number;

    if (!to_u64(object, &number))
        return false;
    if (number > UINT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "the number has more than 32 bits");
        return false;
    }
    *(uint32_t *)out = (uint32_t)number;
    return true;
}

/* ---- names ------------------------------------------------------------------------------ */

static bool unknown(const char *what, const char *name)
{
    PyErr_Format(PyExc_ValueError, "no %s is named '%s'", what, name);
    return false;
}

bool iface_of(const char *name, enum hmreg_iface *out)
{
    for (int i = 0; i <= HMREG_IFACE_MAX; i++) {
        if (strcmp(name, hmreg_iface_name((enum hmreg_iface)i)))
            continue;
        *out = (enum hmreg_iface)i;
        return true;
    }
    return unknown("iface", name);
}

bool monitor_of(const char *name, enum hmreg_monitor *out)
{
    for (int i = 0; i <= HMREG_MONITOR_COUNTER; i++) {
        if (strcmp(name, hmreg_monitor_name((enum hmreg_monitor)i)))
            continue;
        *out = (enum hmreg_monitor)i;
        return true;
    }
    return unknown("monitor", name);
}

/* ---- a domain's configuration ----------------------------------------------------------- */

#define SETTING(type, name)                                                                        \
    {                                                                                              \
#name, offsetof(struct type, name), sizeof(((struct type *)0)->name)                       \
    }

struct setting {
    const char *name;
    size_t offset, size;
};

static const struct setting of_domain[] = {
    SETTING(hmreg_domain_config, flags),     SETTING(hmreg_domain_config, max_regions),
    SETTING(hmreg_domain_config, max_bytes), SETTING(hmreg_domain_config, sync_memops),
    SETTING(hmreg_domain_config, policy),    SETTING(hmreg_domain_config, rights),
    SETTING(hmreg_domain_config, cover),     SETTING(hmreg_domain_config, cover_max),
    SETTING(hmreg_domain_config, key_size),  SETTING(hmreg_domain_config, key_first),
    SETTING(hmreg_domain_config, key_last),  {NULL, 0, 0},
};

static const struct setting of_loopback[] = {
    SETTING(hmreg_loopback_config, mr_mode),
    SETTING(hmreg_loopback_config, iov_limit),
    SETTING(hmreg_loopback_config, max_len),
    {NULL, 0, 0},
};

static const struct setting *setting_of(const struct setting *settings, PyObject *name)
{
    for (; settings->name; settings++)
        if (!PyUnicode_CompareWithASCIIString(name, settings->name))
            return settings;
    return NULL;
}

static bool set_number(void *config, const struct setting *setting, PyObject *number)
{
    void *field = (char *)config + setting->offset;

    return setting->size == sizeof(uint32_t) ? to_u32(number, field) : to_u64(number, field);
}

bool config_of(PyObject *keywords, struct hmreg_domain_config *config,
               struct hmreg_loopback_config *loopback)
{
    const struct setting *setting;
    PyObject *name, *number;
    Py_ssize_t at = 0;

    while (keywords && PyDict_Next(keywords, &at, &name, &number)) {
        void *to = config;

        setting = setting_of(of_domain, name);
        if (!setting && loopback) {
            to = loopback;
            setting = setting_of(of_loopback, name);
        }
        if (!setting) {
            PyErr_Format(PyExc_TypeError, "'%U' is no setting of this domain", name);
            return false;
        }
        if (!set_number(to, setting, number))
            return false;
    }
    return true;
}
