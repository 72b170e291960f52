/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See call.h. The tables of versions 11 and 12 are alike.
 */
#include "call.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char plugin_log[256];

/* Prints what is logged where NCCL would; else keeps the last line. */
static void log_line(int level, unsigned long subsystems, const char *file, int line,
                     const char *format, ...)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    va_list arguments;

    (void)level, (void)subsystems, (void)file, (void)line;
    pthread_mutex_lock(&lock);
    va_start(arguments, format);
    vsnprintf(plugin_log, sizeof(plugin_log), format, arguments);
    va_end(arguments);
    if (getenv("NCCL_DEBUG"))
        fprintf(stderr, "%s\n", plugin_log);
    pthread_mutex_unlock(&lock);
}

static const struct nccl_net_v10 *v10(const struct plugin *plugin)
{
    return (const struct nccl_net_v10 *)plugin->table;
}

static const struct nccl_net_v12 *v12(const struct plugin *plugin)
{
    return (const struct nccl_net_v12 *)plugin->table;
}

/* ---- loading ------------------------------------------------------------------------------ */

static int start(struct plugin *plugin)
{
    struct nccl_config config = {NCCL_UNDEFINED};

    if (plugin->version == 10) {
        plugin->memory = &v10(plugin)->memory;
        plugin->end = &v10(plugin)->end;
        return v10(plugin)->init(log_line, NULL);
    }
    plugin->memory = &v12(plugin)->memory;
    plugin->end = &v12(plugin)->end;
    return v12(plugin)->init(&plugin->context, 1, &config, log_line, NULL);
}

static int fuse(struct plugin *plugin, int nics)
{
    int members[] = {nics, 0, 1, 2, 3};

    return plugin->version == 10 ? v10(plugin)->fuse(&plugin->device, members)
                                 : v12(plugin)->fuse(&plugin->device, members);
}

/* What all versions say; a version must not write beyond its own struct. */
static int ask_properties(struct plugin *plugin)
{
    struct {
        struct nccl_properties_v12 v12;
        char beyond[64];
    } all;
    void *out = &all;
    const struct nccl_nic *nic = (const struct nccl_nic *)out;
    size_t sizes[] = {sizeof(struct nccl_properties_v10), sizeof(struct nccl_properties_v11),
                      sizeof(struct nccl_properties_v12)};
    int rc, device = plugin->device;

    memset(&all, 0x5a, sizeof(all));
    if (plugin->version == 10)
        rc = v10(plugin)->properties(device, (struct nccl_properties_v10 *)out);
    else
        rc = v12(plugin)->properties(device, (struct nccl_properties_v12 *)out);
    if (rc)
        return rc;
    plugin->pointers = nic->pointers;
    snprintf(plugin->name, sizeof(plugin->name), "%s", nic->name);
    return ((char *)out)[sizes[plugin->version - OLDEST]] == 0x5a ? NCCL_OK : NCCL_INTERNAL_ERROR;
}

int plugin_load(const char *path, int version, int nics, struct plugin *out)
{
    char symbol[32];
    int count, rc;

    memset(out, 0, sizeof(*out));
    out->version = version;
    snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%d", version);
    out->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    out->table = out->library ? dlsym(out->library, symbol) : NULL;
    if (!out->table) {
        fprintf(stderr, "%s\n", dlerror());
        return NCCL_SYSTEM_ERROR;
    }
    rc = start(out);
    rc = rc ? rc : version == 10 ? v10(out)->devices(&count) : v12(out)->devices(&count);
    if (!rc && nics > 1)
        rc = fuse(out, nics);
    return rc ? rc : ask_properties(out);
}

void plugin_unload(struct plugin *plugin)
{
    if (plugin->table && plugin->version >= 11)
        v12(plugin)->finalize(plugin->context);
    if (plugin->library)
        dlclose(plugin->library);
}

/* ---- calls -------------------------------------------------------------------------------- */

int plugin_listen(struct plugin *plugin, void *handle, void **listener)
{
    return plugin->version == 10
               ? v10(plugin)->listen(plugin->device, handle, listener)
               : v12(plugin)->listen(plugin->context, plugin->device, handle, listener);
}

int plugin_connect(struct plugin *plugin, void *handle, void **comm)
{
    struct nccl_config config = {NCCL_UNDEFINED};

    if (plugin->version == 10)
        return v10(plugin)->connect(plugin->device, &config, handle, comm, NULL);
    return v12(plugin)->connect(plugin->context, plugin->device, handle, comm, NULL);
}

int plugin_accept(struct plugin *plugin, void *listener, void **comm)
{
    return plugin->version == 10 ? v10(plugin)->accept(listener, comm, NULL)
                                 : v12(plugin)->accept(listener, comm, NULL);
}

int plugin_send(struct plugin *plugin, void *comm, void *data, size_t size, int tag, void *mhandle,
                void **request)
{
    if (plugin->version == 10)
        return v10(plugin)->send(comm, data, size, tag, mhandle, NULL, request);
    return v12(plugin)->send(comm, data, size, tag, mhandle, NULL, request);
}

int plugin_recv(struct plugin *plugin, void *comm, int n, void **data, size_t *sizes, int *tags,
                void **mhandles, void **request)
{
    if (plugin->version == 10)
        return v10(plugin)->recv(comm, n, data, sizes, tags, mhandles, NULL, request);
    return v12(plugin)->recv(comm, n, data, sizes, tags, mhandles, NULL, request);
}
