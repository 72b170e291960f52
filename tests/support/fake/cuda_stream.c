/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: streams. A stream is a handle: of all streams together one copy is pending
 * at most, which the next call that copies, waits or queries finishes.
 */
#include "tests/support/fake/cuda_fake.h"

#include <stdlib.h>

struct cuda_stream {
    struct cuda_stream *next;
    bool blocking; /* the legacy stream waits for it */
};

static struct cuda_stream *streams;

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
    return stream->blocking;
}

unsigned cuStreamCreate(struct cuda_stream **stream, unsigned flags)
{
    struct cuda_context *context = NULL;
    struct cuda_stream *made;
    unsigned result;

    ENTER();
    result = fake_cuda_context(&context);
    if (result)
        return result;
    if (!stream || flags > 1) /* 1: non-blocking */
        return CUDA_INVALID_VALUE;
    made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_OUT_OF_MEMORY;
    made->blocking = flags != CUDA_STREAM_NON_BLOCKING;
    made->next = streams;
    streams = made;
    *stream = made;
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
