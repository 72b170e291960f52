/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What NCCL calls: the tables of versions 8 to 12, and wrappers of the functions of version 12
 * where a version's parameters differ. The context of a communicator is not used.
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

    if (rc && nccl_logger)
        nccl_logger(NCCL_LOG_WARN, NCCL_LOG_NET, __FILE__, __LINE__, "NET/hmreg: %s: %s", what,
                    error->code == rc ? error->text : hmreg_strerror(rc));
    return !rc                                                 ? NCCL_OK
           : rc == -EIO || rc == -ECONNRESET                   ? NCCL_REMOTE_ERROR
           : rc == -EINVAL || rc == -ENODEV || rc == -EMSGSIZE ? NCCL_INVALID_ARGUMENT
                                                               : NCCL_SYSTEM_ERROR;
}

/* ---- wrappers ----------------------------------------------------------------------------- */

#define WRAP(name, parameters, ...)                                                                \
    static int name parameters                                                                     \
    {                                                                                              \
        return __VA_ARGS__;                                                                        \
    }

static int init8(nccl_log *log)
{
    int count;

    nccl_logger = log;
    return net_devices(&count);
}
WRAP(init10, (nccl_log * log, void *profiler), init8(log))
WRAP(init11,
     (void **context, uint64_t id, struct nccl_config *config, nccl_log *log, void *profiler),
     init8(log))
WRAP(finalize, (void *context), NCCL_OK)
WRAP(attributes, (void *context, void *hints), NCCL_OK)

WRAP(properties8, (int i, struct nccl_properties_v8 *out),
     net_properties(i, &out->nic, &out->port, NULL, NULL))
WRAP(properties9, (int i, struct nccl_properties_v9 *out), out->force_flush = 0,
     net_properties(i, &out->nic, &out->port, out->members, &out->longest))
WRAP(properties11, (int i, struct nccl_properties_v11 *out), out->most_in_request = 1,
     properties9(i, &out->v9))
WRAP(properties12, (int i, struct nccl_properties_v12 *out), out->force_flush = 0,
     out->most_in_request = 1, out->rail = out->plane = NCCL_UNDEFINED,
     net_properties(i, &out->nic, &out->port, out->members, &out->longest))

WRAP(listen8, (int i, void *handle, void **listener), net_listen(NULL, i, handle, listener))
WRAP(connect8, (int i, void *handle, void **comm, void **offload),
     net_connect(NULL, i, handle, comm, offload))
WRAP(connect10, (int i, struct nccl_config *config, void *handle, void **comm, void **offload),
     net_connect(NULL, i, handle, comm, offload))

WRAP(send8, (void *comm, void *data, int size, int tag, void *mhandle, void **request),
     net_send(comm, data, (size_t)size, tag, mhandle, NULL, request))
WRAP(send9, (void *comm, void *data, size_t size, int tag, void *mhandle, void **request),
     net_send(comm, data, size, tag, mhandle, NULL, request))
WRAP(recv9,
     (void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles, void **request),
     net_recv(comm, n, data, sizes, tags, mhandles, NULL, request))
static int recv8(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles,
                 void **request)
{
    size_t wide[GROUPED];

    for (int i = 0; i < n && i < GROUPED; i++)
        wide[i] = (size_t)sizes[i];
    return recv9(comm, n, data, wide, tags, mhandles, request);
}

/* ---- the tables --------------------------------------------------------------------------- */

/* In the order of their fields: what is alike in all, and what a version has of its own. */
#define TABLE(version, v_init, v_properties, v_listen, v_connect, v_send, v_recv, ...)             \
    extern const struct nccl_net_v##version ncclNetPlugin_v##version;                              \
    const struct nccl_net_v##version ncclNetPlugin_v##version = {                                  \
        "hmreg",  v_init,    net_devices, v_properties,                                            \
        v_listen, v_connect, net_accept,  {net_reg, net_reg_dmabuf, net_dereg},                    \
        v_send,   v_recv,    __VA_ARGS__}
#define END                                                                                        \
    {                                                                                              \
        net_flush, net_test, net_close, net_close, net_close_listen, NULL, NULL                    \
    }
#define SINCE9  END, net_fuse
#define SINCE11 SINCE9, finalize, attributes

#pragma GCC visibility push(default)
TABLE(8, init8, properties8, listen8, connect8, send8, recv8, END);
TABLE(9, init8, properties9, listen8, connect8, send9, recv9, SINCE9);
TABLE(10, init10, properties9, listen8, connect10, net_send, net_recv, SINCE9);
TABLE(11, init11, properties11, net_listen, net_connect, net_send, net_recv, SINCE11);
TABLE(12, init11, properties12, net_listen, net_connect, net_send, net_recv, SINCE11);
#pragma GCC visibility pop
