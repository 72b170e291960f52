/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: streams. A stream is a handle: of all streams together one copy is pending
 * at most, which the next call that copies, waits or queries finishes.
 */
#include "simulated/cuda/cuda_fake.h"

#include <stdlib.h>

struct cuda_stream {
    struct cuda_stream *next;
    struct cuda_context *context;
    bool blocking; /* the legacy stream waits for it */
    int priority;
    unsigned long waits; /* the number of a copy in another stream, 0: for none */
};

enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 }; /* the H200's */

static struct cuda_stream *streams;
static unsigned long default_waits; /* of the streams without a handle */

/* NULL is the default stream; 1 and 2 are the legacy and the per-thread one. */
bool fake_cuda_is_stream(const struct cuda_stream *stream)
{
    const struct cuda_stream *known = streams;

    if ((uintptr_t)stream <= 2)
        return true;
    while (known && known != stream)
        known = known->next;
    return known;
}

bool fake_cuda_is_blocking(const struct cuda_stream *stream)
{
    return (uintptr_t)stream <= 2 || stream->blocking;
}

struct cuda_context *fake_cuda_stream_context(const struct cuda_stream *stream,
                                              struct cuda_context *current)
{
    return (uintptr_t)stream <= 2 ? current : stream->context;
}

static unsigned long *waits_of(struct cuda_stream *stream)
{
    return (uintptr_t)stream <= 2 ? &default_waits : &stream->waits;
}

void fake_cuda_stream_wait(struct cuda_stream *stream, unsigned long copy)
{
    *waits_of(stream) = copy;
}

unsigned long fake_cuda_stream_waits(struct cuda_stream *stream)
{
    unsigned long waits = *waits_of(stream);

    return waits && fake_cuda_is_pending(waits) ? waits : fake_cuda_pending(stream);
}

static unsigned create(struct cuda_stream **stream, unsigned flags, int priority)
{
    struct cuda_context *context = NULL;
    struct cuda_stream *made;
    unsigned result;

    result = fake_cuda_context(&context);
    if (result)
        return result;
    if (!stream || flags > 1) /* 1: non-blocking */
        return CUDA_INVALID_VALUE;
    made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_OUT_OF_MEMORY;
    made->context = context;
    made->blocking = flags != CUDA_STREAM_NON_BLOCKING;
    made->priority = priority > LEAST_PRIORITY      ? LEAST_PRIORITY
                     : priority < GREATEST_PRIORITY ? GREATEST_PRIORITY
                                                    : priority;
    made->next = streams;
    streams = made;
    *stream = made;
    return CUDA_OK;
}

unsigned cuStreamCreate(struct cuda_stream **stream, unsigned flags)
{
    ENTER();
    return create(stream, flags, LEAST_PRIORITY);
}

/* A priority beyond the range is the nearest within. */
unsigned cuStreamCreateWithPriority(struct cuda_stream **stream, unsigned flags, int priority)
{
    ENTER();
    return create(stream, flags, priority);
}

unsigned cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    struct cuda_context *context = NULL;
    unsigned result;

    ENTER();
    result = fake_cuda_context(&context);
    if (result)
        return result;
    if (least)
        *least = LEAST_PRIORITY;
    if (greatest)
        *greatest = GREATEST_PRIORITY;
    return CUDA_OK;
}

unsigned cuStreamGetPriority(struct cuda_stream *stream, int *priority)
{
    ENTER();
    if (!priority || !fake_cuda_is_stream(stream))
        return priority ? CUDA_INVALID_HANDLE : CUDA_INVALID_VALUE;
    *priority = (uintptr_t)stream <= 2 ? LEAST_PRIORITY : stream->priority;
    return CUDA_OK;
}

unsigned cuStreamGetFlags(struct cuda_stream *stream, unsigned *flags)
{
    ENTER();
    if (!flags || !fake_cuda_is_stream(stream))
        return flags ? CUDA_INVALID_HANDLE : CUDA_INVALID_VALUE;
    *flags = fake_cuda_is_blocking(stream) ? 0 : CUDA_STREAM_NON_BLOCKING;
    return CUDA_OK;
}

unsigned cuStreamDestroy_v2(struct cuda_stream *stream)
{
    struct cuda_stream **link = &streams;

    ENTER();
    while (*link && *link != stream)
        link = &(*link)->next;
    if (!stream || !*link)
        return CUDA_INVALID_HANDLE;
    *link = stream->next;
    free(stream);
    return CUDA_OK;
}

/* A pending copy is not ready once, and then is. */
unsigned cuStreamQuery(struct cuda_stream *stream)
{
    struct cuda_context *context = NULL;
    unsigned result;

    ENTER();
    result = fake_cuda_context(&context);
    if (result)
        return result;
    if (!fake_cuda_is_stream(stream))
        return CUDA_INVALID_HANDLE;
    result = fake_cuda_use(stream, NULL);
    if (result)
        return result;
    return fake_cuda_arrive() ? CUDA_NOT_READY : CUDA_OK;
}
