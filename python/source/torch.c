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
    struct hmreg_mr *mr;
};

/* One in a process, as torch has one allocator. */
static struct {
    pthread_mutex_t lock; /* of blocks and count */
    void *blocks;         /* tsearch(3)'s tree */
    uint64_t count, failures;
    PyObject *object; /* the Domain, guarded by the GIL; counted as in use */
    struct hmreg *lib;
    struct hmreg_domain *domain;
    uint64_t access;
    allocate_function allocate;
    free_function free;
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

/* A block in the tree; false if there is no memory for it. */
static bool keep(struct block *block)
{
    bool kept;

    pthread_mutex_lock(&hook.lock);
    kept = tsearch(block, &hook.blocks, by_address);
    hook.count += kept;
    pthread_mutex_unlock(&hook.lock);
    return kept;
}

static struct block *take(void *memory)
{
    struct block key = {.memory = memory}, **found, *block = NULL;

    pthread_mutex_lock(&hook.lock);
    found = tfind(&key, &hook.blocks, by_address);
    if (found) {
        block = *found;
        tdelete(&key, &hook.blocks, by_address);
        hook.count--;
    }
    pthread_mutex_unlock(&hook.lock);
    return block;
}

/* Memory that cannot be registered is torch's all the same. */
void *hmreg_torch_alloc(ssize_t size, int device, void *stream)
{
    void *memory = hook.allocate ? hook.allocate(size, device, stream) : NULL;
    struct block *block = memory && size > 0 ? malloc(sizeof(*block)) : NULL;

    if (!block)
        return memory;
    block->memory = memory;
    if (!hmreg_mr_get(hook.domain, memory, (size_t)size, hook.access, &block->mr)) {
        if (keep(block))
            return memory;
        hmreg_mr_put(block->mr);
    }
    __atomic_add_fetch(&hook.failures, 1, __ATOMIC_RELAXED);
    free(block);
    return memory;
}

void hmreg_torch_free(void *memory, ssize_t size, int device, void *stream)
{
    struct block *block = take(memory);

    if (block) {
        hmreg_invalidate(hook.lib, memory, (size_t)size);
        hmreg_mr_put(block->mr);
        free(block);
    }
    if (hook.free)
        hook.free(memory, size, device, stream);
}

/* ---- for Python ------------------------------------------------------------------------- */

static PyObject *end(void)
{
    uint64_t count;

    pthread_mutex_lock(&hook.lock);
    count = hook.count;
    pthread_mutex_unlock(&hook.lock);
    if (count)
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
    unsigned long long access, allocate, give_back;
    PyObject *domain;

    if (PyTuple_Size(args) == 0)
        return end();
    if (!PyArg_ParseTuple(args, "O!KKK:torch_hook", domain_type, &domain, &access, &allocate,
                          &give_back) ||
        !handle_of(domain))
        return NULL;
    if (hook.object)
        return raise_own(-EBUSY, "the hook has a domain: end it by torch_hook()");
    hook.domain = handle_of(domain);
    hook.lib = handle_of(((struct object *)domain)->parent);
    hook.access = access;
    hook.allocate = (allocate_function)(uintptr_t)allocate;
    hook.free = (free_function)(uintptr_t)give_back;
    hook.object = Py_NewRef(domain);
    ((struct object *)domain)->users++;
    return arguments();
}

static PyObject *torch_stats(PyObject *module, PyObject *none)
{
    uint64_t count, failures = __atomic_load_n(&hook.failures, __ATOMIC_RELAXED);

    pthread_mutex_lock(&hook.lock);
    count = hook.count;
    pthread_mutex_unlock(&hook.lock);
    return Py_BuildValue("KK", (unsigned long long)count, (unsigned long long)failures);
}

static PyMethodDef functions[] = {
    {"torch_hook", torch_hook, METH_VARARGS,
     "torch_hook(domain, access, alloc, free) -> (file, alloc's name, free's name)\n\nThe "
     "arguments "
     "of torch.cuda.memory.CUDAPluggableAllocator for an allocator that registers each block once "
     "and "
     "ends it when torch frees it. alloc, free: addresses of functions with the signatures that "
     "torch "
     "demands, which have the memory. Never run on torch itself.\ntorch_hook(): ends it.\n"
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
