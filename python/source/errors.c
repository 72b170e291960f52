/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The exception: the library's last error of the thread, copied into a Python object.
 */
#include "binding.h"

#include <string.h>

PyObject *hmreg_error_class;

static const char doc[] =
    "A call of the library failed. An OSError: errno and strerror as there.\n\n"
    "code         the negative number that C's call returned, such as -errno.EINVAL\n"
    "source       what failed: 'hmreg', 'cuda', 'rocr', 'ze', 'ofi', 'verbs' or 'os'\n"
    "vendor_code  the source's own code; 0: it has none\n"
    "vendor_text  the source's own text for it; '': it has none\n"
    "text         a sentence that names the argument or, at its end, the remedy\n"
    "remedy       the last part of text, behind its last colon or semicolon; text if it has none";

bool errors_add(PyObject *module)
{
    hmreg_error_class = PyErr_NewExceptionWithDoc("hmreg.HmregError", doc, PyExc_OSError, NULL);
    return hmreg_error_class && !PyModule_AddObjectRef(module, "HmregError", hmreg_error_class);
}

static const char *remedy_of(const char *text)
{
    const char *remedy = text;

    for (const char *at = text; *at; at++)
        if ((*at == ':' || *at == ';') && at[1] == ' ' && at[2])
            remedy = at + 2;
    return remedy;
}

/* Takes the value over. */
static bool set(PyObject *error, const char *name, PyObject *value)
{
    bool done = value && !PyObject_SetAttrString(error, name, value);

    Py_XDECREF(value);
    return done;
}

static PyObject *text_of(const char *bytes)
{
    return PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)strlen(bytes), "replace");
}

static PyObject *raise_error(int code, const char *source, int64_t vendor_code,
                             const char *vendor_text, const char *text)
{
    PyObject *error = PyObject_CallFunction(hmreg_error_class, "iN", -code, text_of(text));

    if (error && set(error, "code", PyLong_FromLong(code)) &&
        set(error, "source", text_of(source)) &&
        set(error, "vendor_code", PyLong_FromLongLong(vendor_code)) &&
        set(error, "vendor_text", text_of(vendor_text)) && set(error, "text", text_of(text)) &&
        set(error, "remedy", text_of(remedy_of(text))))
        PyErr_SetObject(hmreg_error_class, error);
    Py_XDECREF(error);
    return NULL;
}

PyObject *raise_last(int code)
{
    const struct hmreg_error last = *hmreg_last_error(); /* garbage collection may call hmreg */

    if (last.code != code)
        return raise_own(code, hmreg_strerror(code));
    return raise_error(code, last.source, last.vendor_code, last.vendor_text, last.text);
}

PyObject *raise_own(int code, const char *text)
{
    return raise_error(code, "hmreg", 0, "", text);
}
