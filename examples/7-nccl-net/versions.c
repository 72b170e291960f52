/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What NCCL calls: the tables of versions 8 to 12, and the functions in them where versions differ
 * in a parameter's type.
 */
#include "plugin.h"

#include <errno.h>
#include <hmreg/hmreg.h>
#include <string.h>

nccl_log *nccl_logger;

/* NCCL's code of an error number, which is logged with hmreg's sentence, if it is hmreg's. */
int nccl_result(int rc, const char *what)
{
    const struct hmreg_error *error = hmreg_last_error();

    if (!rc)
        return NCCL_OK;
    if (nccl_logger)
        nccl_logger(NCCL_LOG_WARN, NCCL_LOG_NET, __FILE__, __LINE__, "NET/hmreg: %s: %s", what,
                    error->code == rc ? error->text : hmreg_strerror(rc));
    switch (rc) {
    case -EINVAL:
    case -ENODEV:
        return NCCL_INVALID_ARGUMENT;
    case -EMSGSIZE:
        return NCCL_INVALID_USAGE;
    case -EIO:
    case -ECONNRESET:
        return NCCL_REMOTE_ERROR;
    default:
        return NCCL_SYSTEM_ERROR;
    }
}

/* ---- what differs ------------------------------------------------------------------------- */

static int init8(nccl_log *log)
{
    int count;

    nccl_logger = log;
    return net_devices(&count);
}

static int init10(nccl_log *log, void *profiler)
{
    (void)profiler;
    return init8(log);
}

/* The context is the traffic class of a communicator's connections, which needs no memory. */
static void *context_of(const struct nccl_config *config)
{
    return (void *)(intptr_t)(config ? config->traffic_class : NCCL_UNDEFINED);
}

static int init11(void **context, uint64_t id, struct nccl_config *config, nccl_log *log,
                  void *profiler)
{
    (void)id;
    *context = context_of(config);
    return init10(log, profiler);
}

static int finalize(void *context)
{
    (void)context;
    return NCCL_OK;
}

static int attributes(void *context, void *hints)
{
    (void)context, (void)hints;
    return NCCL_OK;
}

/* In the types of a version: what all have, and more. */
#define PROPERTIES(version, more)                                                                  \
    static int properties##version(int index, struct nccl_properties_v##version *out)              \
    {                                                                                              \
        struct nccl_properties_v12 all;                                                            \
        int rc = net_properties(index, &all);                                                      \
                                                                                                   \
        if (rc)                                                                                    \
            return rc;                                                                             \
        out->nic = all.nic;                                                                        \
        out->port = all.port;                                                                      \
        more;                                                                                      \
        return NCCL_OK;                                                                            \
    }
PROPERTIES(8, )
PROPERTIES(9, out->force_flush = all.force_flush; out->fused = all.fused;
           memcpy(out->member, all.member, sizeof(out->member)); out->longest = all.longest;
           out->longest_collective = all.longest_collective)

static int properties11(int index, void *out)
{
    struct nccl_properties_v11 *v11 = (struct nccl_properties_v11 *)out;

    v11->most_in_request = 1;
    return properties9(index, &v11->v9);
}

static int listen8(int device, void *handle, void **listener)
{
    return net_listen(context_of(NULL), device, handle, listener);
}

static int connect8(int device, void *handle, void **comm, void **offload)
{
    return net_connect(context_of(NULL), device, handle, comm, offload);
}

static int connect10(int device, struct nccl_config *config, void *handle, void **comm,
                     void **offload)
{
    return net_connect(context_of(config), device, handle, comm, offload);
}

#define TRANSFERS(version, size_type)                                                              \
    static int send##version(void *comm, void *data, size_type size, int tag, void *mhandle,       \
                             void **request)                                                       \
    {                                                                                              \
        return net_send(comm, data, (size_t)size, tag, mhandle, NULL, request);                    \
    }                                                                                              \
    static int recv##version(void *comm, int n, void **data, size_type *sizes, int *tags,          \
                             void **mhandles, void **request)                                      \
    {                                                                                              \
        size_t wide[GROUPED];                                                                      \
                                                                                                   \
        for (int i = 0; i < n && i < GROUPED; i++)                                                 \
            wide[i] = (size_t)sizes[i];                                                            \
        return net_recv(comm, n, data, wide, tags, mhandles, NULL, request);                       \
    }
TRANSFERS(8, int)
TRANSFERS(9, size_t)

/* ---- the tables --------------------------------------------------------------------------- */

#define MEMORY                                                                                     \
    {                                                                                              \
        net_reg, net_reg_dmabuf, net_dereg                                                         \
    }
#define END                                                                                        \
    {                                                                                              \
        net_flush, net_test, net_close, net_close, net_close_listen, NULL, NULL                    \
    }

#pragma GCC visibility push(default)
extern const struct nccl_net_v8 ncclNetPlugin_v8;
extern const struct nccl_net_v9 ncclNetPlugin_v9;
extern const struct nccl_net_v10 ncclNetPlugin_v10;
extern const struct nccl_net_v12 ncclNetPlugin_v11, ncclNetPlugin_v12;

const struct nccl_net_v8 ncclNetPlugin_v8 = {"hmreg", init8,    net_devices, properties8,
                                             listen8, connect8, net_accept,  MEMORY,
                                             send8,   recv8,    END};
const struct nccl_net_v9 ncclNetPlugin_v9 = {"hmreg", init8,    net_devices, properties9,
                                             listen8, connect8, net_accept,  MEMORY,
                                             send9,   recv9,    END,         net_fuse};
const struct nccl_net_v10 ncclNetPlugin_v10 = {"hmreg",  init10,    net_devices, properties9,
                                               listen8,  connect10, net_accept,  MEMORY,
                                               net_send, net_recv,  END,         net_fuse};
const struct nccl_net_v12 ncclNetPlugin_v11 = {
    "hmreg", init11,   net_devices, properties11, net_listen, net_connect, net_accept,
    MEMORY,  net_send, net_recv,    END,          net_fuse,   finalize,    attributes};
const struct nccl_net_v12 ncclNetPlugin_v12 = {
    "hmreg",  init11,   net_devices, net_properties, net_listen, net_connect, net_accept, MEMORY,
    net_send, net_recv, END,         net_fuse,       finalize,   attributes};
#pragma GCC visibility pop
