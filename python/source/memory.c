/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The range of an object that has memory, and what keeps that memory: the view of the buffer
 * protocol, which forbids its exporter to move or free it; the capsule of DLPack; or a reference to
 * the object with __cuda_array_interface__. An address and a length keep nothing.
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

/* The beginning of DLManagedTensor, as DLPack's specification 0.8 has it. */
struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* in elements; strides NULL: compact */
    uint64_t byte_offset;
};

enum dl_device {
    DL_CPU = 1,
    DL_CUDA = 2,
    DL_CUDA_HOST = 3,
    DL_ROCM = 10,
    DL_ROCM_HOST = 11,
    DL_CUDA_MANAGED = 13,
    DL_ONE_API = 14,
};

void memory_release(struct memory *memory)
{
    PyObject *type, *error, *trace;

    if (memory->view.obj)
        PyBuffer_Release(&memory->view);
    if (!memory->owner)
        return;
    PyErr_Fetch(&type, &error, &trace); /* what ends an export may be Python */
    Py_CLEAR(memory->owner);
    PyErr_Restore(type, error, trace);
}

static bool refuse(const char *text)
{
    PyErr_SetString(PyExc_BufferError, text);
    return false;
}

/* Bytes of a compact array in C's order; false with an error if it is not one. step: the strides'
 * unit in bytes. */
static bool compact_size(const int64_t *shape, const int64_t *strides, int64_t count, size_t item,
                         size_t step, size_t *len)
{
    size_t size = item;

    for (int64_t i = count; i-- > 0;) {
        if (strides && shape[i] > 1 && (size_t)strides[i] * step != size)
            return refuse("the memory is not contiguous in C's order: pass a contiguous copy");
        if (shape[i] < 0 || __builtin_mul_overflow(size, (size_t)shape[i], &size))
            return refuse("the shape is not one of memory");
    }
    *len = size;
    return true;
}

/* ---- the buffer protocol ---------------------------------------------------------------- */

static bool of_buffer(PyObject *object, bool written, struct memory *out)
{
    int flags = PyBUF_ANY_CONTIGUOUS | (written ? PyBUF_WRITABLE : 0);

    if (PyObject_GetBuffer(object, &out->view, flags))
        return false;
    out->addr = out->view.buf;
    out->len = (size_t)out->view.len;
    return true;
}

/* ---- __cuda_array_interface__ ----------------------------------------------------------- */

#define DIMENSIONS_MAX 64

/* The numbers of a tuple. */
static bool numbers_of(PyObject *tuple, int64_t *out, Py_ssize_t *count)
{
    *count = PyTuple_Check(tuple) ? PyTuple_Size(tuple) : DIMENSIONS_MAX + 1;
    if (*count > DIMENSIONS_MAX)
        return refuse("__cuda_array_interface__ has a shape or strides that are no tuple");
    for (Py_ssize_t i = 0; i < *count; i++) {
        out[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
        if (out[i] == -1 && PyErr_Occurred())
            return false;
    }
    return true;
}

/* Borrowed; NULL without an error if there is none. */
static PyObject *item_of(PyObject *interface, const char *name)
{
    PyObject *item = PyDict_Check(interface) ? PyDict_GetItemString(interface, name) : NULL;

    return item == Py_None ? NULL : item;
}

static bool cuda_size(PyObject *interface, size_t *len)
{
    PyObject *shape = item_of(interface, "shape"), *strides = item_of(interface, "strides");
    PyObject *type = item_of(interface, "typestr");
    const char *name = type ? PyUnicode_AsUTF8AndSize(type, NULL) : NULL;
    int64_t sizes[DIMENSIONS_MAX], steps[DIMENSIONS_MAX];
    Py_ssize_t count, step_count;

    if (!name || !shape || strlen(name) < 3)
        return PyErr_Occurred() ? false
                                : refuse("__cuda_array_interface__ lacks its shape or typestr");
    if (!numbers_of(shape, sizes, &count) || (strides && !numbers_of(strides, steps, &step_count)))
        return false;
    if (strides && step_count != count)
        return refuse("__cuda_array_interface__ has other strides than dimensions");
    return compact_size(sizes, strides ? steps : NULL, count, strtoul(name + 2, NULL, 10), 1, len);
}

static bool of_cuda(PyObject *object, PyObject *interface, bool written, struct memory *out)
{
    PyObject *data = item_of(interface, "data");
    int read_only;
    uint64_t addr;

    if (!data || !PyTuple_Check(data) ||
        !PyArg_ParseTuple(data, "O&p;data of __cuda_array_interface__ is (address, read-only)",
                          to_u64, &addr, &read_only))
        return PyErr_Occurred() ? false : refuse("__cuda_array_interface__ lacks its data");
    if (written && read_only)
        return refuse("the memory is read-only, and access lets the fabric write it");
    if (!cuda_size(interface, &out->len))
        return false;
    out->addr = (const void *)(uintptr_t)addr;
    out->owner = Py_NewRef(object);
    return true;
}

/* ---- DLPack ----------------------------------------------------------------------------- */

/* The type of the device. Of others than these, DLPack's data is not an address (OpenCL, Vulkan,
 * Metal), or nothing says that it is. */
static bool device_of(PyObject *object, int *type)
{
    PyObject *device = PyObject_CallMethod(object, "__dlpack_device__", NULL);
    bool known = device && (PyTuple_Check(device) || refuse("__dlpack_device__() is no tuple"));
    int id;

    known = known && PyArg_ParseTuple(device, "ii;__dlpack_device__() is (type, id)", type, &id);
    Py_XDECREF(device);
    if (!known)
        return false;
    switch (*type) {
    case DL_CPU:
    case DL_CUDA:
    case DL_CUDA_HOST:
    case DL_ROCM:
    case DL_ROCM_HOST:
    case DL_CUDA_MANAGED:
    case DL_ONE_API:
        return true;
    default:
        return refuse("memory of this type of DLPack's has no address: pass (address, length)");
    }
}

/* A device's memory is taken as it is now, without waiting for a stream: hmreg moves no bytes. */
static PyObject *capsule_of(PyObject *object)
{
    int type;
    PyObject *export =
        device_of(object, &type) ? PyObject_GetAttrString(object, "__dlpack__") : NULL;
    PyObject *none = export ? PyTuple_New(0) : NULL;
    PyObject *keywords =
        none ? Py_BuildValue(type == DL_CUDA || type == DL_ROCM ? "{s:i}" : "{}", "stream", -1)
             : NULL;
    PyObject *capsule = keywords ? PyObject_Call(export, none, keywords) : NULL;

    Py_XDECREF(keywords);
    Py_XDECREF(none);
    Py_XDECREF(export);
    return capsule;
}

static bool tensor_size(const struct dl_tensor *tensor, size_t *len)
{
    size_t bits = (size_t)tensor->bits * tensor->lanes;

    if (bits % 8)
        return refuse("elements of less than a byte: pass (address, length)");
    return compact_size(tensor->shape, tensor->strides, tensor->ndim, bits / 8, bits / 8, len);
}

/* No consumer has taken the capsule: it ends the export when it is freed. */
static bool of_dlpack(PyObject *object, struct memory *out)
{
    PyObject *capsule = capsule_of(object);
    const struct dl_tensor *tensor = capsule ? PyCapsule_GetPointer(capsule, "dltensor") : NULL;

    out->owner = capsule;
    if (!tensor || !tensor_size(tensor, &out->len)) {
        memory_release(out);
        return false;
    }
    out->addr = (const char *)tensor->data + tensor->byte_offset;
    return true;
}

/* ---- any of them ------------------------------------------------------------------------ */

static bool of_address(PyObject *tuple, struct memory *out)
{
    uint64_t addr, len;

    if (!PyArg_ParseTuple(tuple, "O&O&;memory is (address, length)", to_u64, &addr, to_u64, &len))
        return false;
    out->addr = (const void *)(uintptr_t)addr;
    out->len = len;
    return true;
}

static bool of_interface(PyObject *object, bool written, struct memory *out)
{
    PyObject *interface = PyObject_GetAttrString(object, "__cuda_array_interface__");
    bool done;

    if (interface) {
        done = of_cuda(object, interface, written, out);
        Py_DECREF(interface);
        return done;
    }
    if (!PyErr_ExceptionMatches(PyExc_AttributeError))
        return false;
    PyErr_Clear();
    if (PyObject_HasAttrString(object, "__dlpack__"))
        return of_dlpack(object, out);
    PyErr_SetString(PyExc_TypeError,
                    "memory is an object with the buffer protocol, "
                    "__cuda_array_interface__ or __dlpack__(), or (address, length)");
    return false;
}

bool memory_of(PyObject *object, bool written, struct memory *out)
{
    out->view.obj = NULL;
    out->owner = NULL;
    if (PyObject_CheckBuffer(object))
        return of_buffer(object, written, out);
    if (PyTuple_Check(object))
        return of_address(object, out);
    return of_interface(object, written, out);
}
