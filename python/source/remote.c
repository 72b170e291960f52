/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg.Remote: a peer's region, opened from its token.
 */
#include "binding.h"

#include <errno.h>
#include <hmreg/loopback.h>

PyTypeObject *remote_type;

PyObject *remote_new(struct hmreg_remote *handle, PyObject *domain)
{
    PyObject *self = object_new(remote_type, handle, domain, NULL);

    if (!self)
        hmreg_remote_close(handle);
    return self;
}

static void end(struct hmreg_remote *remote)
{
    UNLOCKED(hmreg_remote_close(remote));
}

static PyObject *remote_close(PyObject *self, PyObject *args)
{
    struct hmreg_remote *remote = handle_take(self);

    if (remote)
        end(remote);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static void remote_end(PyObject *self)
{
    struct object *object = (struct object *)self;
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    if (object->handle)
        end(object->handle);
    Py_XDECREF(object->parent);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *remote_info(PyObject *self, PyObject *none)
{
    struct hmreg_remote_info out = {.size = sizeof(out)};
    struct hmreg_remote *remote = handle_of(self);
    int rc = remote ? hmreg_remote_query(remote, &out) : 0;

    if (!remote)
        return NULL;
    return rc ? raise_last(rc) : record_of(RECORD_REMOTE, &out);
}

static PyObject *remote_addr(PyObject *self, PyObject *args)
{
    uint64_t offset, len, addr, key;
    struct hmreg_remote *remote;
    int rc;

    if (!PyArg_ParseTuple(args, "O&O&:addr", to_u64, &offset, to_u64, &len))
        return NULL;
    remote = handle_of(self);
    if (!remote)
        return NULL;
    rc = hmreg_remote_addr(remote, offset, len, &addr, &key);
    return rc ? raise_last(rc)
              : Py_BuildValue("KK", (unsigned long long)addr, (unsigned long long)key);
}

static PyObject *remote_check(PyObject *self, PyObject *args)
{
    static const char *const names[] = {[HMREG_REMOTE_CURRENT] = "current",
                                        [HMREG_REMOTE_RENEWED] = "renewed",
                                        [HMREG_REMOTE_DEAD] = "dead",
                                        [HMREG_REMOTE_OTHER_LIFE] = "other life"};
    enum hmreg_remote_state state = HMREG_REMOTE_CURRENT;
    struct hmreg_remote *remote;
    PyObject *result = NULL;
    Py_buffer token;
    int rc;

    if (!PyArg_ParseTuple(args, "y*:check", &token))
        return NULL;
    remote = handle_of(self);
    if (remote) {
        rc = hmreg_remote_check(remote, token.buf, (size_t)token.len, &state);
        result = rc ? raise_last(rc) : PyUnicode_FromString(names[state]);
    }
    PyBuffer_Release(&token);
    return result;
}

/* No other thread may be in a call with the remote: taken, it is closed to them. */
static PyObject *remote_renew(PyObject *self, PyObject *args)
{
    struct hmreg_remote *remote;
    PyObject *result = NULL;
    Py_buffer token;
    int rc;

    if (!PyArg_ParseTuple(args, "y*:renew", &token))
        return NULL;
    remote = handle_of(self) ? handle_take(self) : NULL;
    if (remote) {
        UNLOCKED(rc = hmreg_remote_renew(remote, token.buf, (size_t)token.len));
        ((struct object *)self)->handle = remote;
        result = none_or_raise(rc);
    }
    PyBuffer_Release(&token);
    return result;
}

/* ---- loopback's transfers --------------------------------------------------------------- */

struct transfer {
    struct memory memory;
    uint64_t offset;
    PyObject *region; /* NULL: none */
    bool reads;
};

static bool transfer_of(PyObject *args, struct transfer *out)
{
    PyObject *memory, *region = Py_None;

    out->offset = 0;
    if (!PyArg_ParseTuple(args, "O|O&O", &memory, to_u64, &out->offset, &region))
        return false;
    if (region != Py_None && !PyObject_TypeCheck(region, region_type)) {
        PyErr_SetString(PyExc_TypeError, "region is a Region, or None");
        return false;
    }
    out->region = region == Py_None ? NULL : region;
    return memory_of(memory, out->reads, &out->memory);
}

static int move(struct hmreg_remote *remote, const struct transfer *to, void *desc)
{
    const void *addr = to->memory.addr;
    size_t len = to->memory.len;
    uint64_t at, key;
    int rc = hmreg_remote_addr(remote, to->offset, len, &at, &key);

    if (rc)
        return rc;
    return to->reads ? hmreg_loopback_read(remote, (void *)addr, len, desc, at, key)
                     : hmreg_loopback_write(remote, addr, len, desc, at, key);
}

/* The region counts as used: without the GIL, another thread must not put it. */
static PyObject *moved(PyObject *self, const struct transfer *to)
{
    struct object *region = (struct object *)to->region;
    struct hmreg_mr *mr = region ? handle_of(to->region) : NULL;
    struct hmreg_remote *remote = !region || mr ? handle_of(self) : NULL;
    void *desc = mr ? hmreg_mr_desc(mr) : NULL;
    int rc;

    if (!remote)
        return NULL;
    if (region)
        region->users++;
    WITHOUT_GIL(self, rc = move(remote, to, desc));
    if (region)
        region->users--;
    return none_or_raise(rc);
}

static PyObject *transfer(PyObject *self, PyObject *args, bool reads)
{
    struct transfer to = {.reads = reads};
    PyObject *result;

    if (!transfer_of(args, &to))
        return NULL;
    result = moved(self, &to); /* before code that freeing the buffer runs */
    memory_release(&to.memory);
    return result;
}

static PyObject *remote_write(PyObject *self, PyObject *args)
{
    return transfer(self, args, false);
}

static PyObject *remote_read(PyObject *self, PyObject *args)
{
    return transfer(self, args, true);
}

static PyObject *remote_domain(PyObject *self, void *none)
{
    return Py_NewRef(((struct object *)self)->parent);
}

static PyObject *remote_exit(PyObject *self, PyObject *args)
{
    return leave(remote_close(self, NULL), args);
}

static PyMethodDef methods[] = {
    {"info", remote_info, METH_NOARGS,
     "info() -> RemoteInfo\n\nThe region's length in bytes, access, segments and iface."},
    {"addr", remote_addr, METH_VARARGS,
     "addr(offset, len) -> (address, key)\n\nWhat an RMA operation on len bytes at offset takes. "
     "HmregError: ERANGE: not all in the region. EXDEV: they cross the border of two segments."},
    {"check", remote_check, METH_VARARGS,
     "check(token) -> str\n\nWhat a later token of the same buffer says of this remote: 'current', "
     "'renewed', 'dead' (the owner's process has ended) or 'other life' (it was saved and restored "
     "since). HmregError: ESTALE, EOPNOTSUPP, EBADMSG: as hmreg_remote_check(3)."},
    {"renew", remote_renew, METH_VARARGS,
     "renew(token)\n\nMakes the remote what the newer token says. HmregError: EOWNERDEAD, EMSGSIZE "
     "and those of check(); EBUSY: another thread is in a call with it."},
    {"write", remote_write, METH_VARARGS,
     "write(memory, offset=0, region=None)\n\nOn loopback: writes the memory at offset (bytes) of "
     "the "
     "peer's region. region: one that covers the memory with WRITE, where the domain demands it.\n"
     "HmregError: EINVAL (another fabric, too), EKEYREJECTED, EACCES, ERANGE, EHOSTUNREACH."},
    {"read", remote_read, METH_VARARGS,
     "read(memory, offset=0, region=None)\n\nOn loopback: reads from offset (bytes) of the peer's "
     "region into the memory. As write()."},
    {"close", remote_close, METH_NOARGS,
     "close()\n\nCloses the remote. Once more: no effect. HmregError: EBUSY: another thread is in "
     "a "
     "call with it."},
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", remote_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"closed", closed, NULL, "Whether it was closed.", NULL},
    {"domain", remote_domain, NULL, "The Domain it was opened on.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

bool remote_add(PyObject *module)
{
    remote_type =
        type_add(module, "hmreg.Remote", sizeof(struct object), methods, getters, remote_end,
                 "A peer's region, of Domain.open_remote() or open_rails(). It closes itself "
                 "when nothing refers to it any more.");
    return remote_type;
}
