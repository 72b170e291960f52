/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A hook for torch's pluggable allocator (torch.cuda.memory.CUDAPluggableAllocator): two functions
 * of its signatures, which allocate and free by two others. Each block of memory that torch's
 * caching allocator takes is registered once and held, so that a get of any tensor in it is a hit,
 * and ends when torch gives the block back. torch calls them on any thread, with or without the
 * GIL; they are C alone.
 */
#include "binding.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <sys/types.h>

typedef void *(*allocate_function)(ssize_t size, int device, void *stream);
typedef void (*free_function)(void *memory, ssize_t size, int device, void *stream);

/* A node of the tree, by its address. */
struct block {
    void *memory;
    size_t len;
    struct hmreg_mr *mr;
};

struct functions {
    allocate_function allocate; /* NULL: there never was a hook */
    free_function free;
};

/* What registers blocks. */
struct target {
    struct hmreg *lib;
    struct hmreg_domain *domain; /* NULL: no hook */
    uint64_t access;
};

/* One in a process, as torch has one allocator, which outlives the hook. */
static struct {
    pthread_mutex_t lock; /* of all but object */
    void *blocks;         /* tsearch(3)'s tree */
    uint64_t count;       /* of blocks, those that are being registered or ended included: the
                             target stays as it is */
    uint64_t failures;
    struct target target;
    struct functions functions;
    PyObject *object; /* the Domain, guarded by the GIL; counted as in use */
} hook = {.lock = PTHREAD_MUTEX_INITIALIZER};

#pragma GCC visibility push(default)
void *hmreg_torch_alloc(ssize_t size, int device, void *stream);
void hmreg_torch_free(void *memory, ssize_t size, int device, void *stream);
#pragma GCC visibility pop

static int by_address(const void *one, const void *other)
{
    const char *a = ((const struct block *)one)->memory, *b = ((const struct block *)other)->memory;

    return (a > b) - (a < b);
}

static struct functions functions_now(void)
{
    struct functions now;

    pthread_mutex_lock(&hook.lock);
    now = hook.functions;
    pthread_mutex_unlock(&hook.lock);
    return now;
}

/* The target for one more block, until uncount(). */
static struct target count(void)
{
    struct target now;

    pthread_mutex_lock(&hook.lock);
    now = hook.target;
    hook.count += now.domain != NULL;
    pthread_mutex_unlock(&hook.lock);
    return now;
}

static void uncount(bool failed)
{
    pthread_mutex_lock(&hook.lock);
    hook.count--;
    hook.failures += failed;
    pthread_mutex_unlock(&hook.lock);
}

/* A block in the tree. False: there is no memory for it, or torch has one at this address that it
 * has freed by other means. */
static bool keep(struct block *block)
{
    struct block **kept;
    bool is_new;

    pthread_mutex_lock(&hook.lock);
    kept = tsearch(block, &hook.blocks, by_address);
    is_new = kept && *kept == block;
    pthread_mutex_unlock(&hook.lock);
    return is_new;
}

/* NULL: no such block. *lib: it was registered with. */
static struct block *take(void *memory, struct hmreg **lib)
{
    struct block key = {.memory = memory}, **found, *block = NULL;

    pthread_mutex_lock(&hook.lock);
    *lib = hook.target.lib;
    found = tfind(&key, &hook.blocks, by_address);
    if (found) {
        block = *found;
        tdelete(&key, &hook.blocks, by_address);
    }
    pthread_mutex_unlock(&hook.lock);
    return block;
}

static bool add(const struct target *target, void *memory, size_t len)
{
    struct block *block = malloc(sizeof(*block));

    if (!block)
        return false;
    *block = (struct block){.memory = memory, .len = len};
    if (!hmreg_mr_get(target->domain, memory, len, target->access, &block->mr)) {
        if (keep(block))
            return true;
        hmreg_mr_put(block->mr);
    }
    free(block);
    return false;
}

/* Memory that cannot be registered is torch's all the same. */
void *hmreg_torch_alloc(ssize_t size, int device, void *stream)
{
    allocate_function allocate = functions_now().allocate;
    void *memory = allocate ? allocate(size, device, stream) : NULL;
    struct target target;

    if (!memory || size <= 0)
        return memory;
    target = count();
    if (target.domain && !add(&target, memory, (size_t)size))
        uncount(true);
    return memory;
}

void hmreg_torch_free(void *memory, ssize_t size, int device, void *stream)
{
    free_function give_back = functions_now().free;
    struct hmreg *lib;
    struct block *block = take(memory, &lib);

    if (block) {
        hmreg_invalidate(lib, memory, block->len);
        hmreg_mr_put(block->mr);
        free(block);
        uncount(false);
    }
    if (give_back)
        give_back(memory, size, device, stream);
}

/* ---- for Python ------------------------------------------------------------------------- */

static PyObject *end(void)
{
    uint64_t blocks;

    pthread_mutex_lock(&hook.lock);
    blocks = hook.count;
    if (!blocks)
        hook.target.domain = NULL;
    pthread_mutex_unlock(&hook.lock);
    if (blocks)
        return raise_own(-EBUSY, "torch has blocks of the hook: free them first");
    if (hook.object)
        ((struct object *)hook.object)->users--;
    Py_CLEAR(hook.object);
    return Py_NewRef(Py_None);
}

/* What CUDAPluggableAllocator takes: this file, which is loaded, and two names in it. */
static PyObject *arguments(void)
{
    Dl_info info;

    if (!dladdr((const void *)&hook, &info))
        return raise_own(-ENOENT, "the file of hmreg's extension has no name");
    return Py_BuildValue("sss", info.dli_fname, "hmreg_torch_alloc", "hmreg_torch_free");
}

static PyObject *torch_hook(PyObject *module, PyObject *args)
{
    uint64_t access, allocate, give_back;
    struct target target;
    PyObject *domain;

    if (PyTuple_Size(args) == 0)
        return end();
    if (!PyArg_ParseTuple(args, "O!O&O&O&:torch_hook", domain_type, &domain, to_u64, &access,
                          to_u64, &allocate, to_u64, &give_back))
        return NULL;
    if (hook.object)
        return raise_own(-EBUSY, "the hook has a domain: end it by torch_hook()");
    target.access = access;
    target.domain = handle_of(domain);
    target.lib = target.domain ? handle_of(((struct object *)domain)->parent) : NULL;
    if (!target.lib)
        return NULL;
    pthread_mutex_lock(&hook.lock);
    hook.target = target;
    hook.functions = (struct functions){(allocate_function)(uintptr_t)allocate,
                                        (free_function)(uintptr_t)give_back};
    pthread_mutex_unlock(&hook.lock);
    hook.object = Py_NewRef(domain);
    ((struct object *)domain)->users++;
    return arguments();
}

static PyObject *torch_stats(PyObject *module, PyObject *none)
{
    uint64_t blocks, failures;

    pthread_mutex_lock(&hook.lock);
    blocks = hook.count;
    failures = hook.failures;
    pthread_mutex_unlock(&hook.lock);
    return Py_BuildValue("KK", (unsigned long long)blocks, (unsigned long long)failures);
}

static PyMethodDef functions[] = {
    {"torch_hook", torch_hook, METH_VARARGS,
     "torch_hook(domain, access, alloc, free) -> (file, alloc's name, free's name)\n\nThe "
     "arguments "
     "of torch.cuda.memory.CUDAPluggableAllocator for an allocator that registers each block once "
     "and "
     "ends it when torch frees it. alloc, free: addresses of functions with the signatures that "
     "torch "
     "demands, which have the memory. Never run on torch with CUDA.\ntorch_hook(): ends it.\n"
     "HmregError: EBUSY: it has a domain already, or torch has blocks of it."},
    {"torch_stats", torch_stats, METH_NOARGS,
     "torch_stats() -> (blocks, failures)\n\nThe hook's blocks that are registered now, and how "
     "many "
     "could not be registered so far."},
    {NULL, NULL, 0, NULL},
};

bool torch_add(PyObject *module)
{
    return !PyModule_AddFunctions(module, functions);
}
