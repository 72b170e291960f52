/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What NCCL calls: the tables of versions 10 to 12, and wrappers of the functions of version 12
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

static int init10(nccl_log *log, void *profiler)
{
    int count;

    nccl_logger = log;
    return net_devices(&count);
}
WRAP(init11,
     (void **context, uint64_t id, struct nccl_config *config, nccl_log *log, void *profiler),
     init10(log, profiler))
WRAP(finalize, (void *context), NCCL_OK)
WRAP(attributes, (void *context, void *hints), NCCL_OK)

WRAP(properties10, (int i, struct nccl_properties_v10 *out), out->force_flush = 0,
     net_properties(i, &out->nic, &out->port, out->members, &out->longest))
WRAP(properties11, (int i, struct nccl_properties_v11 *out), out->most_in_request = 1,
     properties10(i, &out->v10))
WRAP(properties12, (int i, struct nccl_properties_v12 *out), out->force_flush = 0,
     out->most_in_request = 1, out->rail = out->plane = NCCL_UNDEFINED,
     net_properties(i, &out->nic, &out->port, out->members, &out->longest))

WRAP(listen10, (int i, void *handle, void **listener), net_listen(NULL, i, handle, listener))
WRAP(connect10, (int i, struct nccl_config *config, void *handle, void **comm, void **offload),
     net_connect(NULL, i, handle, comm, offload))

/* ---- the tables --------------------------------------------------------------------------- */

/* In the order of their fields: what is alike in all, and what a version has of its own. */
#define TABLE(version, v_init, v_properties, v_listen, v_connect, ...)                             \
    extern const struct nccl_net_v##version ncclNetPlugin_v##version;                              \
    const struct nccl_net_v##version ncclNetPlugin_v##version = {                                  \
        "hmreg",  v_init,    net_devices, v_properties,                                            \
        v_listen, v_connect, net_accept,  {net_reg, net_reg_dmabuf, net_dereg},                    \
        net_send, net_recv,  __VA_ARGS__}
#define END {net_flush, net_test, net_close, net_close, net_close_listen, NULL, NULL}, net_fuse

#pragma GCC visibility push(default)
TABLE(10, init10, properties10, listen10, connect10, END);
TABLE(11, init11, properties11, net_listen, net_connect, END, finalize, attributes);
TABLE(12, init11, properties12, net_listen, net_connect, END, finalize, attributes);
#pragma GCC visibility pop
