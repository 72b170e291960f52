/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg.Region: a memory region, and the hold on its memory until it is put.
 */
#include "binding.h"

#include <errno.h>
#include <hmreg/group.h>
#include <stdlib.h>

PyTypeObject *region_type;

/* ---- putting ---------------------------------------------------------------------------- */

/* Ends the region `mr`. -EBUSY: it stays. Only a put that may deregister it gives up the GIL. */
static int end(const struct region *self, struct hmreg_mr *mr)
{
    int rc = 0;

    if (self->explicit)
        UNLOCKED(rc = hmreg_mr_close(mr));
    else if (hmreg_mr_try_put(mr))
        UNLOCKED(hmreg_mr_put(mr));
    return rc;
}

static PyObject *region_put(PyObject *self, PyObject *args)
{
    struct region *region = (struct region *)self;
    struct hmreg_mr *mr = handle_take(self);
    PyObject *result;
    int rc;

    if (!mr)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    rc = end(region, mr);
    result = none_or_raise(rc); /* before code that freeing the buffer runs */
    if (rc == -EBUSY)
        region->object.handle = mr;
    else
        memory_release(&region->memory);
    return result;
}

/* A region that something is bound to stays registered: then its memory and domain stay too. */
static void region_end(PyObject *self)
{
    struct region *region = (struct region *)self;
    PyTypeObject *type = Py_TYPE(self);
    int rc = 0;

    PyObject_GC_UnTrack(self);
    if (region->object.handle)
        rc = end(region, region->object.handle);
    if (rc != -EBUSY) {
        memory_release(&region->memory);
        Py_XDECREF(region->object.parent);
    }
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* ---- keys ------------------------------------------------------------------------------- */

static PyObject *keys_of(const struct hmreg_mr_head *head)
{
    PyObject *tuple = PyTuple_New(head->count);

    for (uint32_t i = 0; tuple && i < head->count; i++) {
        PyObject *keys = record_of(RECORD_KEYS, &head->keys[i]);

        if (!keys || PyTuple_SetItem(tuple, i, keys))
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* In a forked child the keys are its parent's: an error. While they are read the region is in use:
 * garbage collection must not put it. */
static PyObject *region_keys(PyObject *self, PyObject *none)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct object *object = (struct object *)self;
    struct hmreg_mr *mr = handle_of(self);
    PyObject *tuple;
    int rc;

    if (!mr)
        return NULL;
    rc = hmreg_mr_query(mr, &info);
    if (rc)
        return raise_last(rc);
    object->users++;
    tuple = keys_of(hmreg_mr_head_of(mr));
    object->users--;
    return tuple;
}

static PyObject *region_key(PyObject *self, void *none)
{
    struct hmreg_mr *mr = handle_of(self);
    uint64_t key = mr ? hmreg_mr_key(mr) : 0;

    if (!mr)
        return NULL;
    return key == HMREG_KEY_NOTAVAIL ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(key);
}

static PyObject *region_desc(PyObject *self, void *none)
{
    struct hmreg_mr *mr = handle_of(self);

    return mr ? PyLong_FromVoidPtr(hmreg_mr_desc(mr)) : NULL;
}

static PyObject *region_generation(PyObject *self, void *none)
{
    struct hmreg_mr *mr = handle_of(self);

    return mr ? PyLong_FromUnsignedLong(hmreg_mr_head_of(mr)->generation) : NULL;
}

/* ---- tokens ----------------------------------------------------------------------------- */

static int pack(const struct region *region, void *bytes, size_t *size)
{
    return hmreg_mr_pack_range(region->object.handle, region->memory.addr, region->memory.len,
                               bytes, size);
}

static PyObject *region_pack(PyObject *self, PyObject *none)
{
    struct region *region = (struct region *)self;
    char few[512], *bytes = few;
    size_t size = sizeof(few);
    PyObject *token = NULL;
    int rc;

    if (!handle_of(self))
        return NULL;
    rc = pack(region, few, &size);
    if (rc == -HMREG_ETOOSMALL) {
        bytes = malloc(size);
        rc = bytes ? pack(region, bytes, &size) : -ENOMEM;
    }
    token = rc ? raise_last(rc) : PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size);
    if (bytes != few)
        free(bytes);
    return token;
}

/* ---- what the region says --------------------------------------------------------------- */

/* The region, or its rail by the optional argument. */
static const struct hmreg_mr *rail_of(PyObject *self, PyObject *args)
{
    const struct hmreg_mr *mr, *rail;
    Py_ssize_t index = -1;

    if (!PyArg_ParseTuple(args, "|n", &index))
        return NULL;
    mr = handle_of(self);
    if (!mr || index == -1)
        return mr;
    rail = hmreg_mr_rail(mr, (size_t)index);
    if (!rail)
        raise_last(hmreg_last_error()->code);
    return rail;
}

static PyObject *region_info(PyObject *self, PyObject *args)
{
    struct hmreg_mr_info out = {.size = sizeof(out)};
    const struct hmreg_mr *mr = rail_of(self, args);
    int rc = mr ? hmreg_mr_query(mr, &out) : 0;

    if (!mr)
        return NULL;
    return rc ? raise_last(rc) : record_of(RECORD_REGION, &out);
}

static PyObject *region_explain(PyObject *self, PyObject *args)
{
    struct hmreg_explanation out = {.size = sizeof(out)};
    const struct hmreg_mr *mr = rail_of(self, args);
    int rc = mr ? hmreg_mr_explain(mr, &out) : 0;

    if (!mr)
        return NULL;
    return rc ? raise_last(rc) : record_of(RECORD_EXPLANATION, &out);
}

static PyObject *region_addr(PyObject *self, void *none)
{
    return PyLong_FromVoidPtr((void *)((struct region *)self)->memory.addr);
}

/* The first registration's; asks first, as keys(). */
static PyObject *region_local_addr(PyObject *self, void *none)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr = handle_of(self);
    int rc;

    if (!mr)
        return NULL;
    rc = hmreg_mr_query(mr, &info);
    return rc ? raise_last(rc)
              : PyLong_FromUnsignedLongLong(
                    hmreg_mr_local_addr(mr, 0, (void *)((struct region *)self)->memory.addr));
}

static PyObject *region_len(PyObject *self, void *none)
{
    return PyLong_FromSize_t(((struct region *)self)->memory.len);
}

static PyObject *region_domain(PyObject *self, void *none)
{
    return Py_NewRef(((struct object *)self)->parent);
}

static PyObject *region_exit(PyObject *self, PyObject *args)
{
    return leave(region_put(self, NULL), args);
}

static PyMethodDef methods[] = {
    {"put", region_put, METH_NOARGS,
     "put()\n\nGives the region back, and then the hold on its memory. Once more: no effect. "
     "HmregError, of reg() only: EBUSY: something is bound to the region, which stays as it is."},
    {"close", region_put, METH_NOARGS, "close()\n\nput()."},
    {"pack", region_pack, METH_NOARGS,
     "pack() -> bytes\n\nThe token by which a peer reaches exactly the memory that was passed. "
     "HmregError: EACCES: no remote access. EAGAIN: suspended. Others as hmreg_mr_pack_range(3)."},
    {"keys", region_keys, METH_NOARGS,
     "keys() -> tuple of Keys\n\nWhat transfers need of each registration: one, or as many as a "
     "group has rails. HmregError: EPERM: a forked child."},
    {"info", region_info, METH_VARARGS,
     "info(rail=-1) -> RegionInfo\n\nOf the region, or of a group's rail. HmregError: ENOENT: no "
     "such rail."},
    {"explain", region_explain, METH_VARARGS,
     "explain(rail=-1) -> Explanation\n\nWhy the region, or a group's rail, has its path. "
     "HmregError: ENOENT: no such rail."},
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", region_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"closed", closed, NULL, "Whether it was put.", NULL},
    {"domain", region_domain, NULL, "The Domain it was registered on.", NULL},
    {"addr", region_addr, NULL, "The address of the memory that was passed.", NULL},
    {"local_addr", region_local_addr, NULL, "The address of it that a local operation takes.",
     NULL},
    {"len", region_len, NULL, "Its length in bytes.", NULL},
    {"key", region_key, NULL, "The remote key; None: none, or several (keys()).", NULL},
    {"desc", region_desc, NULL, "The descriptor for local operations; 0: none.", NULL},
    {"generation", region_generation, NULL, "A number that changes when the keys do.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

bool region_add(PyObject *module)
{
    region_type =
        type_add(module, "hmreg.Region", sizeof(struct region), methods, getters, region_end,
                 "A memory region, of Domain.get() or reg(). It keeps its memory alive "
                 "until it is put, by put(), the end of a with statement, or when nothing "
                 "refers to it any more.");
    return region_type;
}
