/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The fake libcuda.so.1: events. What an event waits for is the copy that was pending in its stream
 * when it was recorded. Events of captured streams are not simulated.
 */
#include "simulated/cuda/cuda_fake.h"

#include <stdlib.h>
#include <time.h>

struct cuda_event {
    struct cuda_event *next;
    struct cuda_context *context;
    unsigned flags;
    unsigned long waits; /* the number of a copy; 0: of none */
    bool recorded;
    struct timespec at;
};

static struct cuda_event *events;

static bool is_event(const struct cuda_event *event)
{
    const struct cuda_event *known = events;

    while (known && known != event)
        known = known->next;
    return known;
}

static bool is_pending(const struct cuda_event *event)
{
    return event->waits && fake_cuda_is_pending(event->waits);
}

unsigned cuEventCreate(struct cuda_event **event, unsigned flags)
{
    const unsigned known =
        CUDA_EVENT_BLOCKING_SYNC | CUDA_EVENT_DISABLE_TIMING | CUDA_EVENT_INTERPROCESS;
    struct cuda_context *context = NULL;
    struct cuda_event *made;
    unsigned result;

    ENTER();
    result = fake_cuda_context(&context);
    if (result)
        return result;
    if (!event || flags & ~known ||
        (flags & CUDA_EVENT_INTERPROCESS && !(flags & CUDA_EVENT_DISABLE_TIMING)))
        return CUDA_INVALID_VALUE;
    made = malloc(sizeof(*made));
    if (!made)
        return CUDA_OUT_OF_MEMORY;
    *made = (struct cuda_event){.next = events, .context = context, .flags = flags};
    events = made;
    *event = made;
    return CUDA_OK;
}

/* The work that it waits for goes on. */
unsigned cuEventDestroy_v2(struct cuda_event *event)
{
    struct cuda_event **link = &events;

    ENTER();
    while (*link && *link != event)
        link = &(*link)->next;
    if (!*link)
        return CUDA_INVALID_HANDLE;
    *link = event->next;
    free(event);
    return CUDA_OK;
}

/* What both calls that name a stream and an event check. */
static unsigned check(struct cuda_event *event, struct cuda_stream *stream,
                      struct cuda_context **context)
{
    struct cuda_graph *graph = NULL;
    unsigned result = fake_cuda_context(context);

    if (result)
        return result;
    if (!is_event(event) || !fake_cuda_is_stream(stream))
        return CUDA_INVALID_HANDLE;
    result = fake_cuda_use(stream, &graph);
    return result || !graph ? result : CUDA_NOT_SUPPORTED;
}

unsigned cuEventRecord(struct cuda_event *event, struct cuda_stream *stream)
{
    struct cuda_context *context = NULL;
    unsigned result;

    ENTER();
    result = check(event, stream, &context);
    if (result)
        return result;
    if (event->context != fake_cuda_stream_context(stream, context))
        return CUDA_INVALID_HANDLE;
    event->waits = fake_cuda_stream_waits(stream);
    event->recorded = true;
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    return CUDA_OK;
}

/* The event may be of another context, and need not have been recorded. */
unsigned cuStreamWaitEvent(struct cuda_stream *stream, struct cuda_event *event, unsigned flags)
{
    struct cuda_context *context = NULL;
    unsigned result;

    ENTER();
    result = check(event, stream, &context);
    if (result || flags > 1) /* 1: of another graph */
        return result ? result : CUDA_INVALID_VALUE;
    if (is_pending(event))
        fake_cuda_stream_wait(stream, event->waits);
    return CUDA_OK;
}

/* A pending copy is not ready once, and then is. */
unsigned cuEventQuery(struct cuda_event *event)
{
    ENTER();
    if (!is_event(event))
        return CUDA_INVALID_HANDLE;
    return is_pending(event) && fake_cuda_arrive() ? CUDA_NOT_READY : CUDA_OK;
}

unsigned cuEventSynchronize(struct cuda_event *event)
{
    ENTER();
    if (!is_event(event))
        return CUDA_INVALID_HANDLE;
    if (is_pending(event))
        fake_cuda_arrive();
    return CUDA_OK;
}

static bool is_timed(const struct cuda_event *event)
{
    return is_event(event) && event->recorded && !(event->flags & CUDA_EVENT_DISABLE_TIMING);
}

unsigned cuEventElapsedTime(float *ms, struct cuda_event *start, struct cuda_event *end)
{
    ENTER();
    if (!ms)
        return CUDA_INVALID_VALUE;
    if (!is_timed(start) || !is_timed(end) || start->context != end->context)
        return CUDA_INVALID_HANDLE;
    if ((is_pending(start) || is_pending(end)) && fake_cuda_arrive())
        return CUDA_NOT_READY;
    *ms = (float)((double)(end->at.tv_sec - start->at.tv_sec) * 1e3 +
                  (double)(end->at.tv_nsec - start->at.tv_nsec) / 1e6);
    return CUDA_OK;
}
