/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The native objects of a program's fabric, by their addresses, and the calls of our libraries for
 * fabrics. These are loaded here, at the first such call.
 */
#include "binding.h"

#include <dlfcn.h>

/* pyverbs' class PD, if it is loaded; NULL without an error if not. */
static PyObject *pyverbs_class(void)
{
    PyObject *name = PyUnicode_FromString("pyverbs.pd"), *class = NULL;
    PyObject *module = name ? PyImport_GetModule(name) : NULL;

    if (module)
        class = PyObject_GetAttrString(module, "PD");
    Py_XDECREF(module);
    Py_XDECREF(name);
    PyErr_Clear();
    return class;
}

/* A number that is an attribute. */
static size_t number_at(PyObject *object, const char *name)
{
    PyObject *number = object ? PyObject_GetAttrString(object, name) : NULL;
    size_t value = number ? PyLong_AsSize_t(number) : 0;

    Py_XDECREF(number);
    return value;
}

/* The pointer in pyverbs' PD, the first field behind its base's: in versions up to 44, at least,
 * its attribute pd is the pointer itself in the place of an object, whose use crashes. That it is
 * one says its second field, which pyverbs has too. */
static bool pyverbs_address(PyObject *object, PyObject *class, void **out)
{
    struct {
        void *context;
        uint32_t handle;
    } const *pd;
    PyObject *base = PyObject_GetAttrString(class, "__base__");
    size_t offset = number_at(base, "__basicsize__");

    Py_XDECREF(base);
    if (PyErr_Occurred())
        return false;
    pd = *(void *const *)((const char *)object + offset);
    if (pd && pd->handle != number_at(object, "handle") && !PyErr_Occurred())
        PyErr_SetString(PyExc_TypeError, "this pyverbs is unknown: pass the address of its ibv_pd");
    *out = (void *)pd;
    return !PyErr_Occurred();
}

bool address_of(PyObject *object, const char *name, void **out)
{
    PyObject *number =
        PyLong_Check(object) ? Py_NewRef(object) : PyObject_GetAttrString(object, name);

    *out = number ? PyLong_AsVoidPtr(number) : NULL;
    Py_XDECREF(number);
    return !PyErr_Occurred();
}

bool pd_of(PyObject *object, void **out)
{
    PyObject *class = pyverbs_class();
    int is_pyverbs = class ? PyObject_IsInstance(object, class) : 0;
    bool found = is_pyverbs > 0 ? pyverbs_address(object, class, out)
                                : !is_pyverbs && address_of(object, "pd", out);

    Py_XDECREF(class);
    return found;
}

void *function_of(const char *file, const char *name)
{
    void *library, *function = NULL;

    UNLOCKED(library = dlopen(file, RTLD_NOW | RTLD_LOCAL));
    if (library)
        function = dlsym(library, name);
    if (!function)
        PyErr_Format(PyExc_ImportError, "%s: %s", file, dlerror());
    return function;
}
