/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: variables of modules, and memory of graphics that is mapped for CUDA. A
 * module is PTX text without code; its variables, arrays of bytes, lie in one allocation, which
 * ends with the module. They are all managed if one is. Graphics memory is at another address at
 * each mapping; no graphics API is here, so tests make it by hmreg_fake_cuda_graphics().
 */
#include "simulated/cuda/cuda_fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- modules ---------------------------------------------------------------------------- */

#define MODULE_BYTES ((size_t)2 << 20) /* allocations of variables are a multiple of this long */
#define FIRST        512               /* the offset of the first variable */

struct cuda_module {
    struct cuda_module *next;
    struct cuda_context *context;
    char *image;
    uint64_t addr, id; /* of the allocation */
};

static struct cuda_module *modules;

static bool is_module(const struct cuda_module *module)
{
    const struct cuda_module *known = modules;

    while (known && known != module)
        known = known->next;
    return known;
}

/* Finds a variable, as in ".global .align 16 .b8 name[100];". Without one of this name it returns
 * where the last one ends; 0: it does not understand the text. */
size_t fake_cuda_variable(const char *image, const char *name, size_t *len)
{
    size_t end = FIRST;

    while ((image = strstr(image, ".global"))) {
        const char *bytes = strstr(image, ".b8");
        char found[64];

        if (!bytes || sscanf(bytes, ".b8 %63[A-Za-z0-9_$][%zu]", found, len) != 2 || !*len)
            return 0;
        if (name && strcmp(found, name) == 0)
            return end;
        end += (*len + FIRST - 1) / FIRST * FIRST;
        image = bytes;
    }
    *len = 0;
    return end;
}

unsigned fake_cuda_check_image(const char *image)
{
    size_t len;

    return strstr(image, ".version") && fake_cuda_variable(image, NULL, &len) ? CUDA_OK
                                                                              : CUDA_INVALID_IMAGE;
}

unsigned fake_cuda_load(const char *image, struct memory **out)
{
    bool managed = strstr(image, ".attribute(.managed)");
    size_t len, end = fake_cuda_variable(image, NULL, &len);

    return fake_cuda_allocate(MEMORY_MODULE, managed ? FAKE_MANAGED : FAKE_DEVICE,
                              (end + MODULE_BYTES - 1) / MODULE_BYTES * MODULE_BYTES, out);
}

unsigned cuModuleLoadData(struct cuda_module **module, const void *image)
{
    struct cuda_context *context = NULL;
    struct cuda_module *made;
    struct memory *m = NULL;
    unsigned result;

    ENTER();
    result = fake_cuda_context(&context);
    if (!result)
        result = module && image ? fake_cuda_check_image(image) : CUDA_INVALID_VALUE;
    if (!result)
        result = fake_cuda_load(image, &m);
    if (result)
        return result;
    made = malloc(sizeof(*made));
    if (!made)
        abort();
    *made = (struct cuda_module){modules, context, strdup(image), m->addr, m->id};
    modules = made;
    *module = made;
    return CUDA_OK;
}

unsigned cuModuleGetGlobal_v2(unsigned long long *addr, size_t *bytes, struct cuda_module *module,
                              const char *name)
{
    size_t at, len = 0;

    ENTER();
    if (!is_module(module) || !name)
        return CUDA_INVALID_VALUE;
    at = fake_cuda_variable(module->image, name, &len);
    if (!len)
        return CUDA_NOT_FOUND;
    if (addr)
        *addr = module->addr + at;
    if (bytes)
        *bytes = len;
    return CUDA_OK;
}

unsigned cuModuleUnload(struct cuda_module *module)
{
    struct cuda_module **link = &modules;
    struct cuda_context *context = NULL;
    struct memory *m;
    unsigned result;

    ENTER();
    result = fake_cuda_context(&context);
    if (!result && !is_module(module))
        result = CUDA_INVALID_VALUE;
    if (result || module->context != context)
        return result ? result : CUDA_INVALID_CONTEXT;
    m = fake_cuda_memory(module->addr);
    if (m && m->id == module->id) /* else its context was reset */
        fake_cuda_leave_memory(m);
    while (*link != module)
        link = &(*link)->next;
    *link = module->next;
    free(module->image);
    free(module);
    return CUDA_OK;
}

/* ---- graphics --------------------------------------------------------------------------- */

struct cuda_graphics {
    struct fake_block *block;
    size_t len;
    uint64_t addr, id; /* as mapped; 0: it is not */
};

/* It is in a context of device 0. */
struct cuda_graphics *hmreg_fake_cuda_graphics(size_t len)
{
    struct cuda_graphics *made = calloc(1, sizeof(*made));

    fake_lock();
    if (made) {
        made->len = len;
        made->block = fake_block_new(0, len);
    }
    fake_unlock();
    return made;
}

static struct memory *mapped(const struct cuda_graphics *graphics)
{
    struct memory *m = fake_cuda_memory(graphics->addr);

    return m && m->id == graphics->id ? m : NULL;
}

static unsigned map(struct cuda_graphics *graphics)
{
    struct cuda_context *context = NULL;
    unsigned result = fake_cuda_context(&context);
    uint64_t at;

    if (result || mapped(graphics))
        return result ? result : CUDA_ALREADY_MAPPED;
    at = fake_reserve(context->device, graphics->len, 0);
    if (!at || !fake_map(at, graphics->len, graphics->block, 0))
        return CUDA_OUT_OF_MEMORY;
    graphics->addr = at;
    graphics->id = fake_cuda_enter_memory(MEMORY_GRAPHICS, at, 0, graphics->len, context)->id;
    return CUDA_OK;
}

unsigned cuGraphicsMapResources(unsigned count, struct cuda_graphics **graphics,
                                struct cuda_stream *stream)
{
    unsigned result = CUDA_OK;

    ENTER();
    if (!count || !graphics || !fake_cuda_is_stream(stream))
        return graphics && count ? CUDA_INVALID_HANDLE : CUDA_INVALID_VALUE;
    for (unsigned i = 0; !result && i < count; i++)
        result = map(graphics[i]);
    return result;
}

unsigned cuGraphicsResourceGetMappedPointer_v2(unsigned long long *addr, size_t *size,
                                               struct cuda_graphics *graphics)
{
    ENTER();
    if (!addr || !size || !graphics)
        return CUDA_INVALID_VALUE;
    if (!mapped(graphics))
        return CUDA_NOT_MAPPED;
    *addr = graphics->addr;
    *size = graphics->len;
    return CUDA_OK;
}

unsigned cuGraphicsUnmapResources(unsigned count, struct cuda_graphics **graphics,
                                  struct cuda_stream *stream)
{
    ENTER();
    if (!count || !graphics || !fake_cuda_is_stream(stream))
        return graphics && count ? CUDA_INVALID_HANDLE : CUDA_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        struct memory *m = mapped(graphics[i]);

        if (!m)
            return CUDA_NOT_MAPPED;
        fake_cuda_leave_memory(m);
    }
    return CUDA_OK;
}

/* Unmaps it too. */
unsigned cuGraphicsUnregisterResource(struct cuda_graphics *graphics)
{
    struct memory *m;

    ENTER();
    if (!graphics)
        return CUDA_INVALID_VALUE;
    m = mapped(graphics);
    if (m)
        fake_cuda_leave_memory(m);
    fake_block_put(graphics->block);
    free(graphics);
    return CUDA_OK;
}
