/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg.Library: the opened library, which opens domains. The libraries of fabrics are loaded when
 * the first domain of theirs is opened: this module needs neither libfabric nor libibverbs.
 */
#include "binding.h"

#include <errno.h>
#include <hmreg/group.h>
#include <hmreg/hibernate.h>
#include <hmreg/loopback.h>
#include <hmreg/suspend.h>

PyTypeObject *library_type;

static PyObject *library_open(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"monitor", "ifaces", "fork_max_bytes", NULL};
    struct hmreg_config config = {.size = sizeof(config)};
    const char *monitor = "default";
    struct hmreg *lib = NULL;
    PyObject *self;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|sO&O&:open", names, &monitor, to_u32,
                                     &config.ifaces, to_u64, &config.fork_max_bytes) ||
        !monitor_of(monitor, &config.monitor))
        return NULL;
    UNLOCKED(rc = hmreg_open(&config, &lib));
    if (rc)
        return raise_last(rc);
    self = object_new(library_type, lib, NULL, NULL);
    if (!self)
        hmreg_close(lib);
    return self;
}

static PyObject *library_close(PyObject *self, PyObject *args)
{
    struct hmreg *lib = handle_take(self);
    int rc = 0;

    if (!lib)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    UNLOCKED(rc = hmreg_close(lib));
    if (rc)
        ((struct object *)self)->handle = lib;
    return none_or_raise(rc);
}

/* No domain is open any more: each would refer to its library. */
static void library_end(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    UNLOCKED(hmreg_close(((struct object *)self)->handle));
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* ---- domains ---------------------------------------------------------------------------- */

static PyObject *opened(PyObject *self, int rc, struct hmreg_domain *domain, PyObject *keep)
{
    PyObject *result;

    if (rc)
        return raise_last(rc);
    result = domain_new(domain, self, keep);
    if (!result)
        hmreg_domain_close(domain);
    return result;
}

static PyObject *library_loopback(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct hmreg_domain_config config = {.size = sizeof(config)};
    struct hmreg_loopback_config loopback = {.size = sizeof(loopback)};
    struct hmreg_domain *domain = NULL;
    struct hmreg *lib;
    int rc;

    if (!PyArg_ParseTuple(args, ":loopback") || !config_of(keywords, &config, &loopback))
        return NULL;
    lib = handle_of(self);
    if (!lib)
        return NULL;
    WITHOUT_GIL(self, rc = hmreg_domain_open_loopback(lib, &loopback, &config, &domain));
    return opened(self, rc, domain, NULL);
}

static PyObject *library_verbs(PyObject *self, PyObject *args, PyObject *keywords)
{
    int (*open)(struct hmreg *, void *, const struct hmreg_domain_config *, struct hmreg_domain **);
    struct hmreg_domain_config config = {.size = sizeof(config)};
    struct hmreg_domain *domain = NULL;
    struct hmreg *lib;
    PyObject *object;
    void *pd;
    int rc;

    if (!PyArg_ParseTuple(args, "O:verbs", &object) || !config_of(keywords, &config, NULL))
        return NULL;
    *(void **)&open = function_of(HMREG_PYTHON_VERBS, "hmreg_domain_open_verbs");
    if (!open || !pd_of(object, &pd))
        return NULL;
    lib = handle_of(self);
    if (!lib)
        return NULL;
    WITHOUT_GIL(self, rc = open(lib, pd, &config, &domain));
    return opened(self, rc, domain, object);
}

static PyObject *library_ofi(PyObject *self, PyObject *args, PyObject *keywords)
{
    int (*open)(struct hmreg *, void *, const void *, const struct hmreg_domain_config *,
                struct hmreg_domain **);
    struct hmreg_domain_config config = {.size = sizeof(config)};
    struct hmreg_domain *domain = NULL;
    struct hmreg *lib;
    PyObject *object, *described;
    void *fid, *info;
    int rc;

    if (!PyArg_ParseTuple(args, "OO:ofi", &object, &described) ||
        !config_of(keywords, &config, NULL))
        return NULL;
    *(void **)&open = function_of(HMREG_PYTHON_OFI, "hmreg_domain_open_ofi");
    if (!open || !address_of(object, "domain", &fid) || !address_of(described, "info", &info))
        return NULL;
    lib = handle_of(self);
    if (!lib)
        return NULL;
    WITHOUT_GIL(self, rc = open(lib, fid, info, &config, &domain));
    return opened(self, rc, domain, object);
}

/* The handles of a list's domains. */
static bool members_of(PyObject *list, struct hmreg_domain **members, int *count)
{
    Py_ssize_t length = PyList_Size(list);

    if (length > HMREG_GROUP_MAX) {
        raise_own(-EINVAL, "a group has at most 64 members");
        return false;
    }
    for (Py_ssize_t i = 0; i < length; i++) {
        PyObject *member = PyList_GetItem(list, i);

        if (!PyObject_TypeCheck(member, domain_type)) {
            PyErr_SetString(PyExc_TypeError, "a group's members are Domains");
            return false;
        }
        members[i] = handle_of(member);
        if (!members[i])
            return false;
    }
    *count = (int)length;
    return true;
}

/* Opening a group waits for nothing, so that no thread can close a member meanwhile. */
static PyObject *library_group(PyObject *self, PyObject *args, PyObject *keywords)
{
    struct hmreg_domain_config config = {.size = sizeof(config)};
    struct hmreg_group_config group = {.size = sizeof(group), .domain = &config};
    struct hmreg_domain *members[HMREG_GROUP_MAX], *domain = NULL;
    PyObject *given, *list, *result = NULL;
    struct hmreg *lib;
    int count, rc;

    if (!PyArg_ParseTuple(args, "O|O&:group", &given, to_u32, &group.flags) ||
        !config_of(keywords, &config, NULL))
        return NULL;
    if (group.flags & HMREG_GROUP_OWNS_MEMBERS)
        return raise_own(-HMREG_EBADFLAGS, "a group does not own Python's objects: it keeps them");
    list = PySequence_List(given);
    lib = list ? handle_of(self) : NULL;
    if (lib && members_of(list, members, &count)) {
        rc = hmreg_group_open(lib, members, (size_t)count, &group, &domain);
        result = opened(self, rc, domain, list);
        if (result)
            ((struct object *)result)->members = count;
    }
    Py_XDECREF(list);
    return result;
}

/* ---- memory ----------------------------------------------------------------------------- */

static int resume(struct hmreg *lib, const void *addr, size_t len)
{
    return hmreg_resume(lib, addr, len, NULL);
}

static PyObject *with_range(PyObject *self, PyObject *object,
                            int (*call)(struct hmreg *, const void *, size_t))
{
    PyObject *result = NULL;
    struct memory memory;
    struct hmreg *lib;
    int rc;

    if (!memory_of(object, false, &memory))
        return NULL;
    lib = handle_of(self);
    if (lib) {
        WITHOUT_GIL(self, rc = call(lib, memory.addr, memory.len));
        result = none_or_raise(rc); /* before code that freeing the buffer runs */
    }
    memory_release(&memory);
    return result;
}

static PyObject *library_invalidate(PyObject *self, PyObject *object)
{
    return with_range(self, object, hmreg_invalidate);
}

static PyObject *library_suspend(PyObject *self, PyObject *object)
{
    return with_range(self, object, hmreg_suspend);
}

static PyObject *library_resume(PyObject *self, PyObject *object)
{
    return with_range(self, object, resume);
}

static PyObject *library_query(PyObject *self, PyObject *object)
{
    struct hmreg_mem_info out = {.size = sizeof(out)};
    PyObject *result = NULL;
    struct memory memory;
    struct hmreg *lib;
    int rc;

    if (!memory_of(object, false, &memory))
        return NULL;
    lib = handle_of(self);
    if (lib) {
        WITHOUT_GIL(self, rc = hmreg_query(lib, memory.addr, memory.len, &out));
        result = rc ? raise_last(rc) : record_of(RECORD_MEMORY, &out);
    }
    memory_release(&memory);
    return result;
}

/* ---- hibernating ------------------------------------------------------------------------ */

static int thaw(struct hmreg *lib)
{
    return hmreg_thaw(lib, NULL);
}

/* With the GIL: meanwhile no other thread may make a call with the library or its domains, which
 * Python makes wherever it frees an object. */
static PyObject *alone(PyObject *self, int (*call)(struct hmreg *))
{
    struct hmreg *lib = handle_of(self);

    return lib ? none_or_raise(call(lib)) : NULL;
}

static PyObject *library_hibernate(PyObject *self, PyObject *none)
{
    return alone(self, hmreg_hibernate);
}

static PyObject *library_thaw(PyObject *self, PyObject *none)
{
    return alone(self, thaw);
}

/* ---- what the library says -------------------------------------------------------------- */

static PyObject *library_monitor(PyObject *self, PyObject *none)
{
    struct hmreg_monitor_info out = {.size = sizeof(out)};
    struct hmreg *lib = handle_of(self);
    int rc = lib ? hmreg_monitor_query(lib, &out) : 0;

    if (!lib)
        return NULL;
    return rc ? raise_last(rc) : record_of(RECORD_MONITOR, &out);
}

#define CONFIG                                                                                     \
    "\n\nSettings are those of struct hmreg_domain_config: flags, max_regions, max_bytes (0: the " \
    "library's default), policy, rights, cover, cover_max, key_size (bytes), key_first, key_last."

#define KEYWORDS(function) (PyCFunction)(void (*)(void)) function

static PyObject *library_exit(PyObject *self, PyObject *args)
{
    return leave(library_close(self, NULL), args);
}

static PyMethodDef methods[] = {
    {"loopback", KEYWORDS(library_loopback), METH_VARARGS | METH_KEYWORDS,
     "loopback(**settings) -> Domain\n\nOpens a domain that needs no fabric: its peers are "
     "loopback "
     "domains of this process." CONFIG " Also mr_mode, iov_limit and max_len (bytes).\nHmregError: "
     "EINVAL, EBADFLAGS, ENOMEM: as hmreg_domain_open_loopback(3)."},
    {"verbs", KEYWORDS(library_verbs), METH_VARARGS | METH_KEYWORDS,
     "verbs(pd, **settings) -> Domain\n\nOpens a domain on a protection domain: the address of a "
     "struct ibv_pd, pyverbs' PD, or an object with that address as its attribute pd. It "
     "must not be closed before the domain." CONFIG "\nHmregError: as hmreg_domain_open_verbs(3). "
     "ImportError: libhmreg-verbs, or libibverbs, is not installed."},
    {"ofi", KEYWORDS(library_ofi), METH_VARARGS | METH_KEYWORDS,
     "ofi(domain, info, **settings) -> Domain\n\nOpens a domain on libfabric: the addresses of the "
     "struct fid_domain and of the struct fi_info that it was opened with. It must not be closed "
     "before the domain." CONFIG "\nHmregError: as hmreg_domain_open_ofi(3). ImportError: "
     "libhmreg-ofi, or libfabric, is not installed."},
    {"group", KEYWORDS(library_group), METH_VARARGS | METH_KEYWORDS,
     "group(members, flags=0, /, **settings) -> Domain\n\nOpens a group of up to 64 domains, with "
     "which "
     "memory is registered as with one, and which it keeps alive. flags: GROUP_PARTIAL or 0." CONFIG
     "\nHmregError: EINVAL, EBADFLAGS, EOPNOTSUPP, ENOMEM: as "
     "hmreg_group_open(3)."},
    {"query", library_query, METH_O,
     "query(memory) -> MemoryInfo\n\nWhat the memory is. HmregError: EINVAL, ERANGE, EFAULT, "
     "EOPNOTSUPP, EIO, EEXIST: as hmreg_query(3)."},
    {"monitor", library_monitor, METH_NOARGS,
     "monitor() -> MonitorInfo\n\nThe monitor of host memory, and why it is not a better one."},
    {"invalidate", library_invalidate, METH_O,
     "invalidate(memory)\n\nInvalidates every cached region that overlaps the memory, in all "
     "domains. HmregError: EINVAL: the range is empty or wraps."},
    {"suspend", library_suspend, METH_O,
     "suspend(memory)\n\nEnds every registration that touches the memory, which may then be "
     "unmapped, until resume(). End all transfers before.\nHmregError: EBUSY, EOPNOTSUPP, ENOMEM: "
     "as hmreg_suspend(3)."},
    {"resume", library_resume, METH_O,
     "resume(memory)\n\nRegisters the regions of a suspended range anew, by the memory that is "
     "there "
     "now. Their keys and tokens are new. Regions of a caller's dmabuf cannot be resumed.\n"
     "HmregError: ENOENT: no such range is suspended. Others as hmreg_resume(3)."},
    {"hibernate", library_hibernate, METH_NOARGS,
     "hibernate()\n\nEnds every registration of the library and all else that a checkpoint of "
     "the process refuses, until thaw(). End all transfers before, close your fabric's objects "
     "after it. Regions stay, without keys; get() and reg() raise EAGAIN. Other threads of Python "
     "wait meanwhile.\nHmregError: EBUSY, EOPNOTSUPP, ENOMEM, EPERM: as hmreg_hibernate(3)."},
    {"thaw", library_thaw, METH_NOARGS,
     "thaw()\n\nEnds the hibernation, here or in a process restored from the image: each region "
     "is registered anew, with a new generation, new keys and a new token. Before it, for each "
     "domain of libfabric or libibverbs: Domain.renew() or lost(). Other threads of Python wait "
     "meanwhile.\nHmregError: ENOENT: the library does not hibernate. EINVAL: the text names a "
     "domain without a fabric. Any other: of the first region that cannot be registered; the "
     "others are, and thaw() may be called again: as hmreg_thaw(3)."},
    {"close", library_close, METH_NOARGS,
     "close()\n\nCloses the library. Once more: no effect. HmregError: EBUSY: domains are open. "
     "EPERM: a forked child of the process that opened it."},
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", library_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"closed", closed, NULL, "Whether it was closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef open_function = {
    "open", KEYWORDS(library_open), METH_VARARGS | METH_KEYWORDS,
    "open(monitor='default', ifaces=0, fork_max_bytes=0) -> Library\n\nOpens the library. monitor: "
    "'default', 'counter', 'memhooks', 'userfaultfd', 'import' or 'disabled'. ifaces: a bit of "
    "each "
    "runtime to start now, or IFACES_STARTED; 0: each at the first need. fork_max_bytes: bytes of "
    "idle regions that os.fork() may copy; 0: the default.\nHmregError: EINVAL, EOPNOTSUPP, EPERM, "
    "ENOSYS, ENOENT, EACCES and others, as hmreg_open(3). ValueError: no such monitor."};

bool library_add(PyObject *module)
{
    PyObject *open = PyCFunction_NewEx(&open_function, NULL, NULL);
    bool added = open && !PyModule_AddObjectRef(module, "open", open);

    Py_XDECREF(open);
    library_type =
        type_add(module, "hmreg.Library", sizeof(struct object), methods, getters, library_end,
                 "The opened library. It closes itself when nothing refers to it or to "
                 "one of its domains any more.");
    return added && library_type;
}
