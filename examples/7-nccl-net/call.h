/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A loaded plugin, called as NCCL calls it, in any of its versions.
 */
#ifndef CALL_H
#define CALL_H

#include "nccl_net.h"

#define OLDEST 10
#define NEWEST 12

struct plugin {
    void *library;
    int version;
    const void *table; /* struct nccl_net_vN */
    const struct nccl_memory *memory;
    const struct nccl_end *end;
    void *context;
    int device, pointers; /* the device to use; NCCL_PTR_* */
    char name[64];        /* of it */
};

extern char plugin_log[256]; /* the last line that a plugin logged */

/* All return a code of NCCL. nics: fuses so many to one device; 1: takes the first. */
int plugin_load(const char *path, int version, int nics, struct plugin *out);
void plugin_unload(struct plugin *plugin);
int plugin_listen(struct plugin *plugin, void *handle, void **listener);
int plugin_connect(struct plugin *plugin, void *handle, void **comm);
int plugin_accept(struct plugin *plugin, void *listener, void **comm);
int plugin_send(struct plugin *plugin, void *comm, void *data, size_t size, int tag, void *mhandle,
                void **request);
int plugin_recv(struct plugin *plugin, void *comm, int n, void **data, size_t *sizes, int *tags,
                void **mhandles, void **request);

#endif
