/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg.Domain: a fabric's domain, or a group of them, on which memory is registered.
 */
#include "binding.h"

#include <errno.h>
#include <hmreg/group.h>
#include <hmreg/lost.h>
#include <hmreg/plan.h>
#include <stdlib.h>

PyTypeObject *domain_type;

PyObject *domain_new(void *handle, PyObject *library, PyObject *keep)
{
    return object_new(domain_type, handle, library, keep);
}

static PyObject *domain_close(PyObject *self, PyObject *args)
{
    struct hmreg_domain *domain = handle_take(self);
    int rc = 0;

    if (!domain)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    UNLOCKED(rc = hmreg_domain_close(domain));
    if (rc)
        ((struct object *)self)->handle = domain;
    else
        Py_CLEAR(((struct object *)self)->keep);
    return none_or_raise(rc);
}

/* No region or remote is open any more. A fabric that is still busy with a cached region keeps the
 * domain, and so its library, and what the domain was opened on: they are never freed. */
static void domain_end(PyObject *self)
{
    struct object *object = (struct object *)self;
    PyTypeObject *type = Py_TYPE(self);
    int rc;

    PyObject_GC_UnTrack(self);
    UNLOCKED(rc = hmreg_domain_close(object->handle));
    if (rc != -EBUSY) {
        Py_XDECREF(object->keep);
        Py_XDECREF(object->parent);
    }
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* ---- regions ---------------------------------------------------------------------------- */

/* Access with which the fabric writes the memory. */
#define WRITTEN (HMREG_READ | HMREG_RECV | HMREG_REMOTE_WRITE)

/* A region, not registered yet, that has its memory: it is all there before the fabric is called.
 * NULL with an error also if the domain is closed. */
static struct region *region_prepare(PyObject *self, PyObject *memory, uint64_t access,
                                     struct hmreg_domain **domain)
{
    struct region *region = (struct region *)PyType_GenericAlloc(region_type, 0);

    *domain =
        region && memory_of(memory, access & WRITTEN, &region->memory) ? handle_of(self) : NULL;
    if (!*domain) {
        Py_XDECREF((PyObject *)region);
        return NULL;
    }
    region->object.parent = Py_NewRef(self);
    return region;
}

static PyObject *finish(struct region *region, int rc, struct hmreg_mr *mr)
{
    if (rc) {
        raise_last(rc); /* before code that freeing the buffer runs */
        Py_DECREF(region);
        return NULL;
    }
    region->object.handle = mr;
    return (PyObject *)region;
}

/* Parses by hand, and gives up the GIL only where the get may wait: a hit of the cache costs less
 * than either. */
static PyObject *domain_get(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct hmreg_domain *domain;
    struct hmreg_mr *mr = NULL;
    struct region *region;
    uint64_t access;
    int rc;

    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "get() takes memory and access");
        return NULL;
    }
    if (!to_u64(args[1], &access))
        return NULL;
    region = region_prepare(self, args[0], access, &domain);
    if (!region)
        return NULL;
    rc = hmreg_mr_try_get(domain, region->memory.addr, region->memory.len, access, &mr);
    if (rc)
        WITHOUT_GIL(
            self, rc = hmreg_mr_get(domain, region->memory.addr, region->memory.len, access, &mr));
    return finish(region, rc, mr);
}

static PyObject *domain_reg(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"memory", "access", "requested_key", "flags", NULL};
    uint64_t access, key = HMREG_KEY_ANY, flags = 0;
    struct hmreg_domain *domain;
    struct hmreg_mr *mr = NULL;
    struct region *region;
    PyObject *memory;
    int rc;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO&|O&O&:reg", names, &memory, to_u64,
                                     &access, to_u64, &key, to_u64, &flags))
        return NULL;
    region = region_prepare(self, memory, access, &domain);
    if (!region)
        return NULL;
    region->explicit = true;
    WITHOUT_GIL(self, rc = hmreg_mr_reg(domain, region->memory.addr, region->memory.len, access, 0,
                                        key, flags, &mr, NULL));
    return finish(region, rc, mr);
}

/* ---- peers' regions --------------------------------------------------------------------- */

static PyObject *open_remote(PyObject *self, const void *token, size_t size)
{
    struct hmreg_domain *domain = handle_of(self);
    struct hmreg_remote *remote = NULL;
    int rc;

    if (!domain)
        return NULL;
    WITHOUT_GIL(self, rc = hmreg_remote_open(domain, token, size, &remote));
    return rc ? raise_last(rc) : remote_new(remote, self);
}

static PyObject *domain_open_remote(PyObject *self, PyObject *args)
{
    PyObject *rail = Py_None, *result = NULL;
    Py_buffer token;
    const void *part;
    uint64_t number;
    size_t size;
    int rc;

    if (!PyArg_ParseTuple(args, "y*|O:open_remote", &token, &rail))
        return NULL;
    if (rail == Py_None) {
        result = open_remote(self, token.buf, (size_t)token.len);
    } else if (to_u64(rail, &number)) {
        rc = hmreg_token_rail(token.buf, (size_t)token.len, number, &part, &size);
        result = rc ? raise_last(rc) : open_remote(self, part, size);
    }
    PyBuffer_Release(&token);
    return result;
}

/* A list with a Remote or None for each rail; takes the remotes over. */
static PyObject *rails_of(PyObject *self, struct hmreg_remote **remotes, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);

    for (size_t i = 0; i < count; i++) {
        PyObject *rail = NULL;

        if (!list)
            hmreg_remote_close(remotes[i]);
        else
            rail = remotes[i] ? remote_new(remotes[i], self) : Py_NewRef(Py_None);
        if (list && (!rail || PyList_SetItem(list, (Py_ssize_t)i, rail)))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *domain_open_rails(PyObject *self, PyObject *args)
{
    struct hmreg_remote *remotes[HMREG_GROUP_MAX] = {NULL};
    struct hmreg_domain *domain;
    PyObject *result = NULL;
    Py_buffer token;
    int rc;

    if (!PyArg_ParseTuple(args, "y*:open_rails", &token))
        return NULL;
    domain = handle_of(self);
    if (domain) {
        int members = ((struct object *)self)->members;
        size_t count = members ? (size_t)members : 1;

        WITHOUT_GIL(self, rc = hmreg_remote_open_rails(domain, token.buf, (size_t)token.len,
                                                       remotes, count));
        result = rc ? raise_last(rc) : rails_of(self, remotes, count);
    }
    PyBuffer_Release(&token);
    return result;
}

/* ---- NICs that go, and others in their place -------------------------------------------- */

static PyObject *domain_lost(PyObject *self, PyObject *args)
{
    struct hmreg_domain *domain;
    const char *why = NULL;
    int rc;

    if (!PyArg_ParseTuple(args, "|s:lost", &why))
        return NULL;
    domain = handle_of(self);
    if (!domain)
        return NULL;
    WITHOUT_GIL(self, rc = hmreg_domain_lost(domain, why));
    return none_or_raise(rc);
}

/* The calls of libhmreg-verbs, if there is no info, and libhmreg-ofi. */
struct renewal {
    void *function, *native, *info;
    bool has_info;
};

static bool renewal_of(PyObject *native, PyObject *info, struct renewal *out)
{
    out->info = NULL;
    out->has_info = info != Py_None;
    if (!out->has_info) {
        out->function = function_of(HMREG_PYTHON_VERBS, "hmreg_domain_renew_verbs");
        return out->function && pd_of(native, &out->native);
    }
    out->function = function_of(HMREG_PYTHON_OFI, "hmreg_domain_renew_ofi");
    return out->function && address_of(native, "domain", &out->native) &&
           address_of(info, "info", &out->info);
}

/* With the GIL, and while no thread is in a call with the domain: none may use it, nor its regions,
 * which Python puts wherever it frees them. */
static bool renew(PyObject *self, const struct renewal *renewal)
{
    int (*verbs)(struct hmreg_domain *, void *);
    int (*ofi)(struct hmreg_domain *, void *, const void *);
    struct hmreg_domain *domain = handle_of(self) ? handle_take(self) : NULL;
    int rc;

    if (!domain)
        return false;
    *(void **)&verbs = *(void **)&ofi = renewal->function;
    rc = renewal->has_info ? ofi(domain, renewal->native, renewal->info)
                           : verbs(domain, renewal->native);
    ((struct object *)self)->handle = domain;
    if (rc)
        raise_last(rc);
    return !rc;
}

static PyObject *domain_renew(PyObject *self, PyObject *args)
{
    PyObject *native, *info = Py_None, *before;
    struct renewal renewal;

    if (!PyArg_ParseTuple(args, "O|O:renew", &native, &info) ||
        !renewal_of(native, info, &renewal) || !renew(self, &renewal))
        return NULL;
    before = ((struct object *)self)->keep;
    ((struct object *)self)->keep = Py_NewRef(native);
    Py_XDECREF(before);
    return Py_NewRef(Py_None);
}

/* ---- the members of a group ------------------------------------------------------------- */

static PyObject *domain_withdraw(PyObject *self, PyObject *args)
{
    struct hmreg_domain *group;
    uint64_t member;
    const char *why;
    int rc;

    if (!PyArg_ParseTuple(args, "O&s:withdraw", to_u64, &member, &why))
        return NULL;
    group = handle_of(self);
    if (!group)
        return NULL;
    WITHOUT_GIL(self, rc = hmreg_group_withdraw(group, member, why));
    return none_or_raise(rc);
}

static bool replace(PyObject *self, uint64_t member, PyObject *with)
{
    struct hmreg_domain *group = handle_of(self), *domain = group ? handle_of(with) : NULL;
    int rc;

    if (!domain)
        return false;
    ((struct object *)with)->users++;
    WITHOUT_GIL(self, rc = hmreg_group_replace(group, member, domain));
    ((struct object *)with)->users--;
    if (rc)
        raise_last(rc);
    return !rc;
}

/* Takes the last of it out of the list, in the middle of an error. */
static void forget(PyObject *list, PyObject *object)
{
    Py_ssize_t i = PyList_Size(list) - 1;
    PyObject *type, *error, *trace;

    while (i > 0 && PyList_GetItem(list, i) != object)
        i--;
    PyErr_Fetch(&type, &error, &trace);
    PySequence_DelItem(list, i);
    PyErr_Restore(type, error, trace);
}

/* The group keeps both from then on: the old one may have registrations of its regions. */
static PyObject *domain_replace(PyObject *self, PyObject *args)
{
    PyObject *with, *kept = ((struct object *)self)->members ? ((struct object *)self)->keep : NULL;
    uint64_t member;

    if (!PyArg_ParseTuple(args, "O&O!:replace", to_u64, &member, domain_type, &with) ||
        (kept && PyList_Append(kept, with)))
        return NULL;
    if (replace(self, member, with))
        return Py_NewRef(Py_None);
    if (kept)
        forget(kept, with);
    return NULL;
}

/* Borrowed, the group's Domain with the handle; None if a thread tries to close it just now. */
static PyObject *kept_of(PyObject *self, const struct hmreg_domain *domain)
{
    PyObject *kept = ((struct object *)self)->keep;

    for (Py_ssize_t i = 0; i < PyList_Size(kept); i++) {
        PyObject *each = PyList_GetItem(kept, i);

        if (((struct object *)each)->handle == domain)
            return each;
    }
    return Py_None;
}

static PyObject *domain_member(PyObject *self, PyObject *args)
{
    struct hmreg_group_member info = {.size = sizeof(info)};
    struct hmreg_domain *group;
    struct member out;
    uint64_t member;
    int rc;

    if (!PyArg_ParseTuple(args, "O&:member", to_u64, &member))
        return NULL;
    group = handle_of(self);
    if (!group)
        return NULL;
    rc = hmreg_group_query(group, member, &info);
    if (rc)
        return raise_last(rc);
    out = (struct member){
        info.state, kept_of(self, info.domain), info.regions, info.done, info.failed, info.why};
    return record_of(RECORD_MEMBER, &out);
}

/* ---- what the domain says --------------------------------------------------------------- */

static PyObject *domain_info(PyObject *self, PyObject *none)
{
    struct hmreg_domain_info out = {.size = sizeof(out)};
    struct hmreg_domain *domain = handle_of(self);
    int rc = domain ? hmreg_domain_query(domain, &out) : 0;

    if (!domain)
        return NULL;
    return rc ? raise_last(rc) : record_of(RECORD_DOMAIN, &out);
}

static PyObject *domain_stats(PyObject *self, PyObject *none)
{
    struct hmreg_stats out = {.size = sizeof(out)};
    struct hmreg_domain *domain = handle_of(self);
    int rc = 0;

    if (!domain)
        return NULL;
    WITHOUT_GIL(self, rc = hmreg_domain_stats(domain, &out));
    return rc ? raise_last(rc) : record_of(RECORD_STATS, &out);
}

static PyObject *domain_explain(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"iface", "device", NULL};
    struct hmreg_explanation out = {.size = sizeof(out)};
    struct hmreg_domain *domain;
    const char *name = "system";
    enum hmreg_iface iface;
    int device = HMREG_DEVICE_ANY, rc;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "|si:explain", names, &name, &device) ||
        !iface_of(name, &iface))
        return NULL;
    domain = handle_of(self);
    if (!domain)
        return NULL;
    WITHOUT_GIL(self, rc = hmreg_domain_explain(domain, iface, device, &out));
    return rc ? raise_last(rc) : record_of(RECORD_EXPLANATION, &out);
}

static PyObject *domain_plan(PyObject *self, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"len", "iface", "device", NULL};
    struct hmreg_plan out = {.size = sizeof(out)};
    struct hmreg_domain *domain;
    const char *name = "system";
    uint64_t len;
    enum hmreg_iface iface;
    int device = HMREG_DEVICE_ANY, rc;

    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O&|si:plan", names, to_u64, &len, &name,
                                     &device) ||
        !iface_of(name, &iface))
        return NULL;
    domain = handle_of(self);
    if (!domain)
        return NULL;
    WITHOUT_GIL(self, rc = hmreg_domain_plan(domain, iface, device, len, &out));
    return rc ? raise_last(rc) : record_of(RECORD_PLAN, &out);
}

static PyObject *called(PyObject *self, int (*call)(struct hmreg_domain *))
{
    struct hmreg_domain *domain = handle_of(self);
    int rc = 0;

    if (!domain)
        return NULL;
    WITHOUT_GIL(self, rc = call(domain));
    return none_or_raise(rc);
}

static PyObject *domain_flush(PyObject *self, PyObject *none)
{
    return called(self, hmreg_domain_flush);
}

static PyObject *domain_progress(PyObject *self, PyObject *none)
{
    return called(self, hmreg_domain_progress);
}

static PyObject *domain_library(PyObject *self, void *none)
{
    return Py_NewRef(((struct object *)self)->parent);
}

#define FUNCTION(function) (PyCFunction)(void (*)(void)) function

static PyObject *domain_exit(PyObject *self, PyObject *args)
{
    return leave(domain_close(self, NULL), args);
}

static PyMethodDef methods[] = {
    {"get", FUNCTION(domain_get), METH_FASTCALL,
     "get(memory, access) -> Region\n\nThe cached region that covers the memory, or a new one; "
     "put() "
     "gives it back. memory: an object with the buffer protocol, __cuda_array_interface__ or "
     "__dlpack__(), or (address, length in bytes). access: READ, WRITE, RECV, SEND, REMOTE_READ, "
     "REMOTE_WRITE, together by |; and GET_HOST. Until put() the memory is kept alive, but that of "
     "an address.\nHmregError: as hmreg_mr_get(3). BufferError: the memory is read-only though "
     "access lets the fabric write it, or not contiguous."},
    {"reg", FUNCTION(domain_reg), METH_VARARGS | METH_KEYWORDS,
     "reg(memory, access, requested_key=KEY_ANY, flags=0) -> Region\n\nRegisters memory, which is "
     "not cached; put() deregisters it. Arguments as for get(); flags: REG_SINGLE or REG_PARTS.\n"
     "HmregError: as hmreg_mr_reg(3). BufferError: as get()."},
    {"open_remote", domain_open_remote, METH_VARARGS,
     "open_remote(token, rail=None) -> Remote\n\nOpens a peer's region by the bytes of its token; "
     "rail: by "
     "this rail, from 0, of a group's token. HmregError: EINVAL, EBADMSG, EPROTONOSUPPORT, EXDEV, "
     "EHOSTUNREACH, ENOENT: as hmreg_remote_open(3)."},
    {"open_rails", domain_open_rails, METH_VARARGS,
     "open_rails(token) -> list\n\nOpens a peer's region on each member of a group: a Remote, or "
     "None, for each. HmregError: as hmreg_remote_open_rails(3)."},
    {"info", domain_info, METH_NOARGS, "info() -> DomainInfo\n\nWhat the domain is and requires."},
    {"stats", domain_stats, METH_NOARGS,
     "stats() -> Stats\n\nHits, misses, regions, bytes and times (ns) of its caches."},
    {"explain", FUNCTION(domain_explain), METH_VARARGS | METH_KEYWORDS,
     "explain(iface='system', device=-1) -> Explanation\n\nThe path that a registration of that "
     "device's memory would take, and why not a better one. HmregError: ENODEV, EINVAL. "
     "ValueError: "
     "no such iface."},
    {"plan", FUNCTION(domain_plan), METH_VARARGS | METH_KEYWORDS,
     "plan(len, iface='system', device=-1) -> Plan\n\nHow len bytes would be registered, and which "
     "limits they meet. HmregError: EINVAL, ENODEV. ValueError: no such iface."},
    {"flush", domain_flush, METH_NOARGS,
     "flush()\n\nDeregisters every cached region that is not in use."},
    {"progress", domain_progress, METH_NOARGS,
     "progress()\n\nDeregisters what has ended, on this thread: for fabrics that only the "
     "application's threads may call."},
    {"lost", domain_lost, METH_VARARGS,
     "lost(why='')\n\nSays that the domain's NIC is gone: get() and reg() raise ENODEV, a region "
     "ends with its put(), and groups go on without the member. HmregError: EINVAL: it is a group. "
     "EPERM: a forked child."},
    {"renew", domain_renew, METH_VARARGS,
     "renew(pd)\nrenew(domain, info)\n\nWhile the library hibernates: what the domain stands on "
     "after thaw(), given as to Library.verbs() or ofi(). Other threads of Python wait "
     "meanwhile.\nHmregError: EINVAL: of another provider, or it permits less. EBUSY: the library "
     "does not hibernate, or another thread is in a call with the domain. ENODEV: it is lost. "
     "Others as hmreg_domain_renew_verbs(3)."},
    {"withdraw", domain_withdraw, METH_VARARGS,
     "withdraw(member, why)\n\nTakes a group's member, by its number from 0, out of the group: "
     "its keys are None in every region, and nothing is registered on it. HmregError: EINVAL: no "
     "group, or no such member. ENOMEM: call again."},
    {"replace", domain_replace, METH_VARARGS,
     "replace(member, domain)\n\nPuts a domain in the place of a withdrawn member, on which a "
     "thread then registers what the group's regions lack (member()). HmregError: EINVAL, EBUSY, "
     "EOPNOTSUPP: as hmreg_group_withdraw(3)."},
    {"member", domain_member, METH_VARARGS,
     "member(member) -> Member\n\nThe state of a group's member, by its number from 0. "
     "HmregError: EINVAL: no group, or no such member."},
    {"close", domain_close, METH_NOARGS,
     "close()\n\nCloses the domain and deregisters its cached regions. Once more: no effect. "
     "HmregError: EBUSY: regions or remotes are open, a group has it, or another thread is in a "
     "call "
     "with it. EPERM: a forked child."},
    {"__enter__", enter, METH_NOARGS, NULL},
    {"__exit__", domain_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"closed", closed, NULL, "Whether it was closed.", NULL},
    {"library", domain_library, NULL, "The Library that opened it.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

bool domain_add(PyObject *module)
{
    domain_type =
        type_add(module, "hmreg.Domain", sizeof(struct object), methods, getters, domain_end,
                 "A domain or a group of them, of Library.loopback(), verbs(), ofi() or "
                 "group(). It closes itself when nothing refers to it, nor to one of its "
                 "regions or remotes, any more.");
    return domain_type;
}
