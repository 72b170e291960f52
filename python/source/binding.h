/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The Python package hmreg: what its sources share. A Python object owns one object of the C
 * library and refers to the Python objects that must outlive it: a region to its domain and its
 * buffer, a domain to its library. So whatever order Python frees them in, C's order is kept.
 *
 * The GIL guards every field below. A call that may block gives it up, counted in `users`, and
 * closing an object that another thread is in a call with is refused. Whatever may run Python code,
 * which may close any object, comes before handle_of(): parsing arguments, taking a buffer,
 * allocating what the garbage collector sees. Only functions that are also in Python 3.11's limited
 * API are called.
 */
#ifndef PYTHON_BINDING_H
#define PYTHON_BINDING_H

#define Py_LIMITED_API 0x030b0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <hmreg/hmreg.h>
#include <stdbool.h>

/* ---- errors ----------------------------------------------------------------------------- */

extern PyObject *hmreg_error_class; /* hmreg.HmregError */

bool errors_add(PyObject *module);
/* Raises HmregError for a call of the library that returned `code` on this thread. Returns NULL. */
PyObject *raise_last(int code);
/* The same for a failure that this package finds itself. */
PyObject *raise_own(int code, const char *text);

/* ---- memory that a program passes ------------------------------------------------------- */

/* A range, and what keeps its memory: a view of the buffer protocol, or an object. */
struct memory {
    Py_buffer view;  /* of the buffer protocol if view.obj */
    PyObject *owner; /* NULL: none */
    const void *addr;
    size_t len;
};

/* Of a buffer, an object with __cuda_array_interface__ or __dlpack__(), or (address, length).
 * written: the memory must be writable. */
bool memory_of(PyObject *object, bool written, struct memory *out);
void memory_release(struct memory *memory);

/* ---- structs of the library as named tuples --------------------------------------------- */

enum record_kind {
    RECORD_STATS,
    RECORD_DOMAIN,
    RECORD_MEMORY,
    RECORD_REGION,
    RECORD_REMOTE,
    RECORD_MONITOR,
    RECORD_REASON,
    RECORD_EXPLANATION,
    RECORD_LIMIT,
    RECORD_PLAN,
    RECORD_KEYS,
    RECORD_MEMBER,
    RECORD_KINDS,
};

/* struct hmreg_group_member with the Domain, which is borrowed. */
struct member {
    int state;
    PyObject *domain;
    uint64_t regions, done, failed;
    const char *why;
};

bool records_add(PyObject *module);
PyObject *record_of(enum record_kind kind, const void *from);

/* ---- numbers and names ------------------------------------------------------------------ */

bool constants_add(PyObject *module);
/* For O& of PyArg_ParseTuple(), which has no format that refuses numbers that are too large or
 * negative: an int of C's type. */
int to_u64(PyObject *object, void *out);
int to_u32(PyObject *object, void *out);
bool iface_of(const char *name, enum hmreg_iface *out);
bool monitor_of(const char *name, enum hmreg_monitor *out);
/* Sets a configuration's fields, of the domain and of loopback, by keyword arguments. */
struct hmreg_loopback_config;
bool config_of(PyObject *keywords, struct hmreg_domain_config *config,
               struct hmreg_loopback_config *loopback);

/* ---- what fabrics have ------------------------------------------------------------------ */

/* The address of a native object: a number, or an object's attribute. */
bool address_of(PyObject *object, const char *name, void **out);
/* That of a protection domain, which may be pyverbs'. */
bool pd_of(PyObject *object, void **out);
/* A function of one of our libraries for a fabric; NULL with an error if it cannot be loaded. */
void *function_of(const char *file, const char *name);

/* ---- objects ---------------------------------------------------------------------------- */

/* What all four begin with. */
struct object {
    PyObject_HEAD void *handle; /* struct hmreg * and so on; NULL: closed */
    PyObject *parent;           /* the library of a domain, the domain of a region or remote */
    PyObject *keep;             /* a domain's: the owner of what it was opened on; a group's: a list
                                   of its members, and those that ever were or may become one */
    int users;                  /* calls with the handle that are under way without the GIL */
    int members;                /* a group's; 0: no group */
};

struct region {
    struct object object;
    struct memory memory;
    bool explicit; /* of reg(), not of get() */
};

extern PyTypeObject *library_type, *domain_type, *region_type, *remote_type;

bool library_add(PyObject *module);
bool domain_add(PyObject *module);
bool region_add(PyObject *module);
bool remote_add(PyObject *module);
bool torch_add(PyObject *module);

/* A new type from its slots, to which those that all have are added, in the module. */
PyTypeObject *type_add(PyObject *module, const char *name, size_t size, PyMethodDef *methods,
                       PyGetSetDef *getters, void (*end)(PyObject *), const char *doc);
/* A new object, which takes the handle over and refers to parent and keep (which may be NULL). */
PyObject *object_new(PyTypeObject *type, void *handle, PyObject *parent, PyObject *keep);
/* The handle; NULL with an error set if the object was closed. */
void *handle_of(PyObject *self);
/* Takes the handle for closing; NULL with an error set if another thread is in a call with it, and
 * without one if the object is closed. */
void *handle_take(PyObject *self);
PyObject *none_or_raise(int code);
PyObject *enter(PyObject *self, PyObject *none);
/* The end of a with statement, whose object was closed with this result. If the statement raised,
 * that is what its caller learns: what it raised may hold what keeps the object open. */
PyObject *leave(PyObject *result, PyObject *args);
PyObject *closed(PyObject *self, void *none);

PyObject *domain_new(void *handle, PyObject *library, PyObject *keep);
PyObject *remote_new(struct hmreg_remote *handle, PyObject *domain);

/* Runs a statement without the GIL. */
#define UNLOCKED(statement)                                                                        \
    do {                                                                                           \
        PyThreadState *saved_ = PyEval_SaveThread();                                               \
        statement;                                                                                 \
        PyEval_RestoreThread(saved_);                                                              \
    } while (0)

/* The same, counted as a use of the object. */
#define WITHOUT_GIL(self, statement)                                                               \
    do {                                                                                           \
        ((struct object *)(self))->users++;                                                        \
        UNLOCKED(statement);                                                                       \
        ((struct object *)(self))->users--;                                                        \
    } while (0)

#endif
