/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: variables of libraries. A library belongs to no context. It is loaded into
 * one at the first question for its variables there (lazy loading), as a module is; managed
 * variables are the same in all. Unloading it ends them in each.
 */
#include "simulated/cuda/cuda_fake.h"

#include <stdlib.h>
#include <string.h>

#if FAKE_CUDA_VERSION >= 12000

struct loaded {
    struct loaded *next;
    struct cuda_context *context;
    uint64_t addr, id; /* of the allocation */
};

struct cuda_library {
    struct cuda_library *next;
    char *image;
    struct loaded *loaded;
};

static struct cuda_library *libraries;

static bool is_library(const struct cuda_library *library)
{
    const struct cuda_library *known = libraries;

    while (known && known != library)
        known = known->next;
    return known;
}

static bool is_managed(const struct cuda_library *library)
{
    return strstr(library->image, ".attribute(.managed)");
}

unsigned cuLibraryLoadData(struct cuda_library **library, const void *image, unsigned *jit_options,
                           void **jit_values, unsigned jit_count, unsigned *options, void **values,
                           unsigned count)
{
    struct cuda_library *made;
    unsigned result;

    ENTER();
    result = library && image ? fake_cuda_check_image(image) : CUDA_INVALID_VALUE;
    if (result || jit_count || count)
        return result ? result : CUDA_NOT_SUPPORTED;
    made = malloc(sizeof(*made));
    if (!made)
        abort();
    *made = (struct cuda_library){libraries, strdup(image), NULL};
    libraries = made;
    *library = made;
    return CUDA_OK;
}

/* The memory of the variables; NULL: its context has ended. */
static struct memory *memory_of(const struct loaded *loaded)
{
    struct memory *m = fake_cuda_memory(loaded->addr);

    return m && m->id == loaded->id ? m : NULL;
}

static struct memory *loaded_in(const struct cuda_library *library,
                                const struct cuda_context *context)
{
    struct memory *m = NULL;

    for (const struct loaded *loaded = library->loaded; loaded && !m; loaded = loaded->next)
        if (loaded->context == context || is_managed(library))
            m = memory_of(loaded);
    return m;
}

static unsigned load(struct cuda_library *library, struct cuda_context *context,
                     struct memory **out)
{
    unsigned result = fake_cuda_load(library->image, out);
    struct loaded *made;

    if (result)
        return result;
    made = malloc(sizeof(*made));
    if (!made)
        abort();
    *made = (struct loaded){library->loaded, context, (*out)->addr, (*out)->id};
    library->loaded = made;
    return CUDA_OK;
}

static unsigned get(unsigned long long *addr, size_t *bytes, struct cuda_library *library,
                    const char *name, bool managed)
{
    struct cuda_context *context = NULL;
    struct memory *m;
    unsigned result;
    size_t at, len = 0;

    if (!is_library(library) || !name || (!addr && !bytes))
        return is_library(library) ? CUDA_INVALID_VALUE : CUDA_INVALID_HANDLE;
    at = fake_cuda_variable(library->image, name, &len);
    if (!len || is_managed(library) != managed)
        return CUDA_NOT_FOUND;
    result = fake_cuda_context(&context);
    m = result ? NULL : loaded_in(library, context);
    if (!result && !m)
        result = load(library, context, &m);
    if (result)
        return result;
    if (addr)
        *addr = m->addr + at;
    if (bytes)
        *bytes = len;
    return CUDA_OK;
}

unsigned cuLibraryGetGlobal(unsigned long long *addr, size_t *bytes, struct cuda_library *library,
                            const char *name)
{
    ENTER();
    return get(addr, bytes, library, name, false);
}

unsigned cuLibraryGetManaged(unsigned long long *addr, size_t *bytes, struct cuda_library *library,
                             const char *name)
{
    ENTER();
    return get(addr, bytes, library, name, true);
}

unsigned cuLibraryUnload(struct cuda_library *library)
{
    struct cuda_library **link = &libraries;

    ENTER();
    if (!is_library(library))
        return CUDA_INVALID_VALUE;
    while (*link != library)
        link = &(*link)->next;
    *link = library->next;
    while (library->loaded) {
        struct loaded *gone = library->loaded;
        struct memory *m = memory_of(gone);

        if (m)
            fake_cuda_leave_memory(m);
        library->loaded = gone->next;
        free(gone);
    }
    free(library->image);
    free(library);
    return CUDA_OK;
}

#endif
