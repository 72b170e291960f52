/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A libcuda.so.1 without a GPU: start, errors, devices, contexts. As strict as the driver: nothing
 * works before cuInit or in a forked child, each thread has its own stack of contexts, destroying a
 * context frees its memory.
 */
#include "simulated/cuda/cuda_fake.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_DEVICES 8
#define STACK_DEPTH 16

static _Atomic pid_t started; /* the process that called cuInit, 0: none yet */
static struct cuda_context *contexts;
static struct {
    struct cuda_context *context;
    unsigned retains;
} primary[MAX_DEVICES];

static _Thread_local bool in_host_function; /* CUDA permits no call there */
static _Thread_local struct cuda_context *stack[STACK_DEPTH];
static _Thread_local unsigned depth;

/* ---- entering --------------------------------------------------------------------------- */

static void (*around)(const char *call, bool ended);
static _Thread_local const char *call_name;
static _Thread_local bool has_ended; /* memory */

void hmreg_fake_cuda_around(void (*hook)(const char *call, bool ended))
{
    around = hook;
}

void fake_cuda_ended(void)
{
    has_ended = true;
}

long fake_cuda_enter(const char *name)
{
    long code;

    if (around)
        around(name, false);
    call_name = name;
    has_ended = false;
    if (fake_fails(name, &code))
        return code;
    if (in_host_function)
        return CUDA_NOT_PERMITTED;
    return started == getpid() ? fake_cuda_prohibits(name) : CUDA_NOT_INITIALIZED;
}

/* Another thread's memory may have the addresses before the call returns. */
void fake_cuda_leave(int *locked)
{
    fake_unlock();
    if (has_ended && around)
        around(call_name, true);
    has_ended = false;
}

unsigned cuInit(unsigned flags)
{
    long code;

    if (fake_fails(__func__, &code))
        return (unsigned)code;
    if (flags)
        return CUDA_INVALID_VALUE;
    if (started && started != getpid())
        return CUDA_NOT_INITIALIZED;
    started = getpid();
    return CUDA_OK;
}

unsigned cuDriverGetVersion(int *version)
{
    long code;

    if (fake_fails(__func__, &code))
        return (unsigned)code;
    if (!version)
        return CUDA_INVALID_VALUE;
    *version = FAKE_CUDA_VERSION;
    return CUDA_OK;
}

/* ---- errors ----------------------------------------------------------------------------- */

static const struct {
    unsigned code;
    const char *name, *text;
} errors[] = {
    {CUDA_OK, "CUDA_SUCCESS", "no error"},
    {CUDA_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "not initialized"},
    {CUDA_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "shutting down"},
    {CUDA_STUB_LIBRARY, "CUDA_ERROR_STUB_LIBRARY", "stub library"},
    {CUDA_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "device unavailable"},
    {CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no device"},
    {CUDA_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device"},
    {CUDA_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid context"},
    {CUDA_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "invalid image"},
    {CUDA_ALREADY_MAPPED, "CUDA_ERROR_ALREADY_MAPPED", "mapped already"},
    {CUDA_NOT_MAPPED, "CUDA_ERROR_NOT_MAPPED", "not mapped"},
    {CUDA_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid handle"},
    {CUDA_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "not found"},
    {CUDA_NOT_READY, "CUDA_ERROR_NOT_READY", "not ready"},
    {CUDA_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "illegal address"},
    {CUDA_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context destroyed"},
    {CUDA_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "registered already"},
    {CUDA_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "not registered"},
    {CUDA_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "not permitted"},
    {CUDA_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "not supported"},
    {CUDA_SYSTEM_NOT_READY, "CUDA_ERROR_SYSTEM_NOT_READY", "system not ready"},
    {CUDA_SYSTEM_DRIVER_MISMATCH, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "driver mismatch"},
    {CUDA_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "illegal state"},
    {CUDA_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not during a capture"},
    {CUDA_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "capture invalidated"},
    {CUDA_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "depends on a capture"},
    {CUDA_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "another's capture"},
    {CUDA_INVALID_RESOURCE_TYPE, "CUDA_ERROR_INVALID_RESOURCE_TYPE", "invalid resource type"},
    {CUDA_UNKNOWN_ERROR, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static unsigned describe(unsigned error, const char **out, bool name)
{
    if (!out)
        return CUDA_INVALID_VALUE;
    *out = NULL;
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].code == error)
            *out = name ? errors[i].name : errors[i].text;
    return *out ? CUDA_OK : CUDA_INVALID_VALUE;
}

unsigned cuGetErrorName(unsigned error, const char **name)
{
    long code;

    return fake_fails(__func__, &code) ? (unsigned)code : describe(error, name, true);
}

unsigned cuGetErrorString(unsigned error, const char **text)
{
    long code;

    return fake_fails(__func__, &code) ? (unsigned)code : describe(error, text, false);
}

/* ---- devices ---------------------------------------------------------------------------- */

static int device_count(void)
{
    return fake_devices("HMREG_FAKE_CUDA_DEVICES", MAX_DEVICES);
}

bool fake_cuda_exports(int device)
{
    long without =
        fake_env("HMREG_FAKE_CUDA_NO_DMABUF", 0) | fake_env("HMREG_FAKE_CUDA_INTEGRATED", 0);

    return !(without >> device & 1);
}

bool fake_cuda_device(int device)
{
    return device >= 0 && device < device_count();
}

unsigned cuDeviceGetCount(int *count)
{
    ENTER();
    if (!count)
        return CUDA_INVALID_VALUE;
    *count = device_count();
    return CUDA_OK;
}

unsigned cuDeviceGet(int *device, int ordinal)
{
    ENTER();
    if (!device)
        return CUDA_INVALID_VALUE;
    if (!fake_cuda_device(ordinal))
        return CUDA_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_OK;
}

unsigned cuDeviceGetName(char *name, int size, int device)
{
    ENTER();
    if (!name || size < 1)
        return CUDA_INVALID_VALUE;
    if (!fake_cuda_device(device))
        return CUDA_INVALID_DEVICE;
    snprintf(name, (size_t)size, "simulated CUDA device %d", device);
    return CUDA_OK;
}

/* PCI addresses 0000:41:00.0, 0001:81:01.0, ...: all three parts differ. */
static int attribute_of(unsigned attribute, int device)
{
    bool integrated = fake_env("HMREG_FAKE_CUDA_INTEGRATED", 0) >> device & 1;

    switch (attribute) {
    case CUDA_DEV_INTEGRATED:
        return integrated;
    case CUDA_DEV_PCI_BUS:
        return 0x41 + 0x40 * (device % 3);
    case CUDA_DEV_PCI_DEVICE:
    case CUDA_DEV_PCI_DOMAIN:
        return device;
    case CUDA_DEV_GPUDIRECT_VIRTUAL:
    case CUDA_DEV_GPUDIRECT:
        return !integrated;
    case CUDA_DEV_HOST_PAGE_TABLES:
        return fake_env("HMREG_FAKE_CUDA_COHERENT", 0) >> device & 1;
    case CUDA_DEV_DMABUF:
        return FAKE_CUDA_VERSION >= 11070 ? fake_cuda_exports(device) : -1;
    case CUDA_DEV_HOST_ALLOC_DMABUF:
        return FAKE_CUDA_VERSION >= 13000 ? 0 : -1;
    }
    return -1;
}

unsigned cuDeviceGetAttribute(int *value, unsigned attribute, int device)
{
    int found;

    ENTER();
    if (!value)
        return CUDA_INVALID_VALUE;
    if (!fake_cuda_device(device))
        return CUDA_INVALID_DEVICE;
    found = attribute_of(attribute, device);
    if (found < 0)
        return CUDA_INVALID_VALUE;
    *value = found;
    return CUDA_OK;
}

unsigned cuDeviceGetPCIBusId(char *id, int size, int device)
{
    ENTER();
    if (!id || size < 13)
        return CUDA_INVALID_VALUE;
    if (!fake_cuda_device(device))
        return CUDA_INVALID_DEVICE;
    snprintf(id, (size_t)size, "%04X:%02X:%02X.0", attribute_of(CUDA_DEV_PCI_DOMAIN, device),
             attribute_of(CUDA_DEV_PCI_BUS, device), attribute_of(CUDA_DEV_PCI_DEVICE, device));
    return CUDA_OK;
}

/* Takes each form of the documentation: domain:bus:device.function, or less in front. */
unsigned cuDeviceGetByPCIBusId(int *device, const char *id)
{
    unsigned domain = 0, bus, slot, function = 0;

    ENTER();
    if (!device || !id)
        return CUDA_INVALID_VALUE;
    if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
        domain = function = 0;
        if (sscanf(id, "%x:%x.%x", &bus, &slot, &function) < 2)
            return CUDA_INVALID_VALUE;
    }
    for (int i = 0; i < device_count(); i++) {
        if ((int)domain == attribute_of(CUDA_DEV_PCI_DOMAIN, i) && !function &&
            (int)bus == attribute_of(CUDA_DEV_PCI_BUS, i) &&
            (int)slot == attribute_of(CUDA_DEV_PCI_DEVICE, i)) {
            *device = i;
            return CUDA_OK;
        }
    }
    return CUDA_INVALID_DEVICE;
}

unsigned cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    ENTER();
    if (!bytes)
        return CUDA_INVALID_VALUE;
    if (!fake_cuda_device(device))
        return CUDA_INVALID_DEVICE;
    *bytes = fake_device_memory();
    return CUDA_OK;
}

/* ---- contexts --------------------------------------------------------------------------- */

unsigned fake_cuda_context(struct cuda_context **out)
{
    if (!depth || !stack[depth - 1])
        return CUDA_INVALID_CONTEXT;
    if (!stack[depth - 1]->alive)
        return CUDA_CONTEXT_IS_DESTROYED;
    *out = stack[depth - 1];
    return CUDA_OK;
}

unsigned fake_cuda_context_of(int device)
{
    static const unsigned codes[] = {CUDA_INVALID_CONTEXT, CUDA_NOT_FOUND, CUDA_INVALID_VALUE};
    static unsigned turn;
    struct cuda_context *context = NULL;
    unsigned result = fake_cuda_context(&context);

    if (result == CUDA_CONTEXT_IS_DESTROYED)
        return result;
    if (!result && (device < 0 || context->device == device))
        return CUDA_OK;
    return codes[turn++ % 3];
}

static struct cuda_context *context_new(int device)
{
    struct cuda_context *made = calloc(1, sizeof(*made));

    if (fake_env("HMREG_FAKE_CUDA_FORBID", 0) >> device & 1) {
        fprintf(stderr, "simulated CUDA: a context is made on device %d, where none should be\n",
                device);
        abort();
    }

    if (!made)
        abort();
    *made = (struct cuda_context){.next = contexts, .device = device, .alive = true};
    contexts = made;
    return made;
}

static void context_end(struct cuda_context *context)
{
    context->alive = false;
    fake_cuda_lose(context);
    fake_cuda_trim();
}

static bool is_context(const struct cuda_context *context)
{
    for (struct cuda_context *known = contexts; known; known = known->next)
        if (known == context)
            return known->alive;
    return false;
}

static unsigned push(struct cuda_context *context)
{
    if (depth == STACK_DEPTH) {
        fprintf(stderr, "simulated CUDA: more than %d contexts pushed\n", STACK_DEPTH);
        abort();
    }
    stack[depth++] = context;
    return CUDA_OK;
}

unsigned cuCtxCreate_v2(struct cuda_context **context, unsigned flags, int device)
{
    ENTER();
    if (!context)
        return CUDA_INVALID_VALUE;
    if (!fake_cuda_device(device))
        return CUDA_INVALID_DEVICE;
    *context = context_new(device);
    return push(*context);
}

unsigned cuCtxDestroy_v2(struct cuda_context *context)
{
    ENTER();
    if (!is_context(context))
        return CUDA_INVALID_CONTEXT;
    for (size_t i = 0; i < MAX_DEVICES; i++)
        if (primary[i].context == context)
            return CUDA_INVALID_CONTEXT;
    if (depth && stack[depth - 1] == context)
        depth--;
    context_end(context);
    return CUDA_OK;
}

unsigned cuCtxPushCurrent_v2(struct cuda_context *context)
{
    ENTER();
    return is_context(context) ? push(context) : CUDA_INVALID_CONTEXT;
}

unsigned cuCtxPopCurrent_v2(struct cuda_context **context)
{
    ENTER();
    if (!depth)
        return CUDA_INVALID_CONTEXT;
    depth--;
    if (context)
        *context = stack[depth];
    return CUDA_OK;
}

unsigned cuCtxSetCurrent(struct cuda_context *context)
{
    ENTER();
    if (context && !is_context(context))
        return CUDA_INVALID_CONTEXT;
    if (depth)
        depth--;
    return context ? push(context) : CUDA_OK;
}

unsigned cuCtxGetCurrent(struct cuda_context **context)
{
    ENTER();
    if (!context)
        return CUDA_INVALID_VALUE;
    *context = depth ? stack[depth - 1] : NULL;
    return CUDA_OK;
}

unsigned cuCtxGetDevice(int *device)
{
    struct cuda_context *current = NULL;
    unsigned result;

    ENTER();
    result = fake_cuda_context(&current);
    if (!result && !device)
        return CUDA_INVALID_VALUE;
    if (!result)
        *device = current->device;
    return result;
}

unsigned cuCtxGetFlags(unsigned *flags)
{
    struct cuda_context *current = NULL;
    unsigned result;

    ENTER();
    result = fake_cuda_context(&current);
    if (!result && !flags)
        return CUDA_INVALID_VALUE;
    if (!result)
        *flags = current->flags;
    return result;
}

#if FAKE_CUDA_VERSION >= 12010
/* Replaces them all. */
unsigned cuCtxSetFlags(unsigned flags)
{
    struct cuda_context *current = NULL;
    unsigned result;

    ENTER();
    result = fake_cuda_context(&current);
    if (!result && flags & ~0xffu)
        return CUDA_INVALID_VALUE;
    if (!result)
        current->flags = flags;
    return result;
}
#endif

unsigned cuCtxSynchronize(void)
{
    struct cuda_context *current = NULL;

    ENTER();
    fake_cuda_arrive();
    fake_cuda_trim();
    return fake_cuda_context(&current);
}

unsigned cuStreamSynchronize(struct cuda_stream *stream)
{
    struct cuda_context *current = NULL;
    unsigned result;

    ENTER();
    if (!fake_cuda_is_stream(stream))
        return CUDA_INVALID_HANDLE;
    result = fake_cuda_use(stream, NULL);
    if (result)
        return result;
    fake_cuda_arrive();
    fake_cuda_trim();
    return fake_cuda_context(&current);
}

unsigned cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    ENTER();
    if (!flags || !active)
        return CUDA_INVALID_VALUE;
    if (!fake_cuda_device(device))
        return CUDA_INVALID_DEVICE;
    *flags = 0;
    *active = primary[device].retains > 0;
    return CUDA_OK;
}

struct cuda_context *fake_cuda_primary(int device)
{
    return primary[device].context;
}

struct cuda_context *fake_cuda_primary_retain(int device)
{
    if (!primary[device].retains++)
        primary[device].context = context_new(device);
    return primary[device].context;
}

unsigned fake_cuda_primary_release(int device)
{
    if (!primary[device].retains)
        return CUDA_INVALID_CONTEXT;
    if (!--primary[device].retains) {
        context_end(primary[device].context);
        primary[device].context = NULL;
    }
    return CUDA_OK;
}

unsigned cuDevicePrimaryCtxRetain(struct cuda_context **context, int device)
{
    ENTER();
    if (!context)
        return CUDA_INVALID_VALUE;
    if (!fake_cuda_device(device))
        return CUDA_INVALID_DEVICE;
    *context = fake_cuda_primary_retain(device);
    return CUDA_OK;
}

unsigned cuDevicePrimaryCtxRelease_v2(int device)
{
    ENTER();
    if (!fake_cuda_device(device))
        return CUDA_INVALID_DEVICE;
    return fake_cuda_primary_release(device);
}

/* The context stays valid for its holders; its memory is freed. */
unsigned cuDevicePrimaryCtxReset_v2(int device)
{
    ENTER();
    if (!fake_cuda_device(device))
        return CUDA_INVALID_DEVICE;
    if (primary[device].context)
        fake_cuda_lose(primary[device].context);
    return CUDA_OK;
}

struct host_function {
    void (*function)(void *);
    void *arg;
};

static void *run_host_function(void *arg)
{
    const struct host_function *run = arg;

    in_host_function = true;
    run->function(run->arg);
    return NULL;
}

/* Calls it on a thread of the driver, and waits: the real driver may be later. */
unsigned cuLaunchHostFunc(struct cuda_stream *stream, void (*function)(void *), void *arg)
{
    struct host_function run = {function, arg};
    struct cuda_context *current = NULL;
    long code = fake_cuda_enter(__func__);
    unsigned result = code ? (unsigned)code : fake_cuda_context(&current);
    pthread_t thread;

    if (result || !function)
        return result ? result : CUDA_INVALID_VALUE;
    if (pthread_create(&thread, NULL, run_host_function, &run))
        abort();
    pthread_join(thread, NULL);
    return CUDA_OK;
}

unsigned long hmreg_fake_cuda_contexts(void)
{
    unsigned long alive = 0;

    fake_lock();
    for (struct cuda_context *context = contexts; context; context = context->next)
        alive += context->alive;
    fake_unlock();
    return alive;
}
