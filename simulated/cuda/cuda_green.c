/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: green contexts. One retains its device's primary context as long as it
 * lives, and is converted to that. So what was allocated in it is the primary context's, and ends
 * with the green context only if that retained it last.
 */
#include "simulated/cuda/cuda_fake.h"

#include <stdlib.h>

#if FAKE_CUDA_VERSION >= 12040

#define DEVICES         8
#define MULTIPROCESSORS 132

struct cuda_resources {
    int device;
};

struct cuda_green {
    struct cuda_green *next;
    int device;
};

static struct cuda_resources descriptors[DEVICES]; /* no call frees one */
static struct cuda_green *greens;

static bool is_green(const struct cuda_green *green)
{
    const struct cuda_green *known = greens;

    while (known && known != green)
        known = known->next;
    return known;
}

/* The simulation splits none: what there is belongs to a device, which the padding keeps. */
unsigned cuDeviceGetDevResource(int device, struct cuda_resource *resource, unsigned type)
{
    ENTER();
    if (!resource)
        return CUDA_INVALID_VALUE;
    if (!fake_cuda_device(device))
        return CUDA_INVALID_DEVICE;
    if (type != CUDA_RESOURCE_SM)
        return CUDA_INVALID_RESOURCE_TYPE;
    *resource = (struct cuda_resource){
        .type = type, .padding = {(unsigned char)device}, .of = {.sm_count = MULTIPROCESSORS}};
    return CUDA_OK;
}

unsigned cuDevResourceGenerateDesc(struct cuda_resources **desc, struct cuda_resource *resources,
                                   unsigned count)
{
    ENTER();
    if (!desc || !resources || count != 1 || resources->type != CUDA_RESOURCE_SM)
        return CUDA_INVALID_VALUE;
    *desc = &descriptors[resources->padding[0] % DEVICES];
    (*desc)->device = resources->padding[0];
    return CUDA_OK;
}

unsigned cuGreenCtxCreate(struct cuda_green **green, struct cuda_resources *desc, int device,
                          unsigned flags)
{
    struct cuda_green *made;

    ENTER();
    if (!green || !desc || flags != CUDA_GREEN_DEFAULT_STREAM || desc->device != device)
        return CUDA_INVALID_VALUE;
    made = malloc(sizeof(*made));
    if (!made)
        abort();
    *made = (struct cuda_green){greens, device};
    greens = made;
    fake_cuda_primary_retain(device);
    *green = made;
    return CUDA_OK;
}

unsigned cuCtxFromGreenCtx(struct cuda_context **context, struct cuda_green *green)
{
    ENTER();
    if (!context || !is_green(green))
        return context ? CUDA_INVALID_CONTEXT : CUDA_INVALID_VALUE;
    *context = fake_cuda_primary(green->device);
    return CUDA_OK;
}

unsigned cuGreenCtxDestroy(struct cuda_green *green)
{
    struct cuda_green **link = &greens;
    unsigned result;

    ENTER();
    if (!is_green(green))
        return CUDA_INVALID_CONTEXT;
    while (*link != green)
        link = &(*link)->next;
    *link = green->next;
    result = fake_cuda_primary_release(green->device);
    free(green);
    return result;
}

#endif
