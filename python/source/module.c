/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The extension module hmreg._hmreg, and what its types have in common: how an object is made, used
 * by a call, closed, seen by the garbage collector and freed.
 */
#include "binding.h"

#include <errno.h>

/* ---- what all objects do ---------------------------------------------------------------- */

PyObject *object_new(PyTypeObject *type, void *handle, PyObject *parent, PyObject *keep)
{
    struct object *self = (struct object *)PyType_GenericAlloc(type, 0);

    if (!self)
        return NULL;
    self->handle = handle;
    self->parent = Py_XNewRef(parent);
    self->keep = Py_XNewRef(keep);
    return (PyObject *)self;
}

void *handle_of(PyObject *self)
{
    void *handle = ((struct object *)self)->handle;

    if (!handle)
        raise_own(-EINVAL, "the object was closed");
    return handle;
}

void *handle_take(PyObject *self)
{
    struct object *object = (struct object *)self;
    void *handle = object->handle;

    if (handle && object->users) {
        raise_own(-EBUSY, "another thread is in a call with the object: close it after that");
        return NULL;
    }
    object->handle = NULL;
    return handle;
}

PyObject *none_or_raise(int code)
{
    return code ? raise_last(code) : Py_NewRef(Py_None);
}

PyObject *enter(PyObject *self, PyObject *none)
{
    return Py_NewRef(self);
}

PyObject *leave(PyObject *result, PyObject *args)
{
    if (result || PyTuple_Size(args) < 1 || PyTuple_GetItem(args, 0) == Py_None)
        return result;
    PyErr_Clear();
    return Py_NewRef(Py_None);
}

PyObject *closed(PyObject *self, void *none)
{
    return PyBool_FromLong(!((struct object *)self)->handle);
}

static int object_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct object *object = (struct object *)self;

    Py_VISIT(Py_TYPE(self));
    Py_VISIT(object->parent);
    Py_VISIT(object->keep);
    if (Py_TYPE(self) == region_type) {
        Py_VISIT(((struct region *)self)->memory.view.obj);
        Py_VISIT(((struct region *)self)->memory.owner);
    }
    return 0;
}

/* ---- types ------------------------------------------------------------------------------ */

PyTypeObject *type_add(PyObject *module, const char *name, size_t size, PyMethodDef *methods,
                       PyGetSetDef *getters, void (*end)(PyObject *), const char *doc)
{
    PyType_Slot slots[] = {
        {Py_tp_doc, (void *)doc},     {Py_tp_methods, methods},
        {Py_tp_getset, getters},      {Py_tp_traverse, (void *)object_traverse},
        {Py_tp_dealloc, (void *)end}, {0, NULL},
    };
    PyType_Spec spec = {name, (int)size, 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        slots};
    PyTypeObject *type = (PyTypeObject *)PyType_FromSpec(&spec);

    if (type && PyModule_AddType(module, type))
        Py_CLEAR(type);
    return type;
}

/* ---- the module ------------------------------------------------------------------------- */

static PyObject *explain(PyObject *module, PyObject *none)
{
    struct hmreg_explanation out = {.size = sizeof(out)};
    int rc = hmreg_mr_explain(NULL, &out);

    return rc ? raise_last(rc) : record_of(RECORD_EXPLANATION, &out);
}

static PyMethodDef functions[] = {
    {"explain", explain, METH_NOARGS,
     "explain() -> Explanation\n\nWhy every path was refused, or what room was short, in this "
     "thread's last registration that failed so.\nHmregError: ENOENT: none did."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "hmreg._hmreg", .m_doc = "The C part of the package hmreg.",
    .m_size = -1,          .m_methods = functions,
};

PyMODINIT_FUNC PyInit__hmreg(void);

PyMODINIT_FUNC PyInit__hmreg(void)
{
    PyObject *module = PyModule_Create(&definition);

    if (module && errors_add(module) && records_add(module) && constants_add(module) &&
        library_add(module) && domain_add(module) && region_add(module) && remote_add(module) &&
        torch_add(module))
        return module;
    Py_XDECREF(module);
    return NULL;
}
