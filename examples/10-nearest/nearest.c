/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 10: the NICs near a GPU. A buffer on each GPU is registered on the four NICs that are
 * nearest to it, of all that the host has; the first one's rails are printed with the reasons.
 *
 *     10-nearest [ROOT]          ROOT: a folder with another host's sys, instead of /sys
 */
#include <errno.h>
#include <hmreg/affinity.h>
#include <hmreg/group.h>
#include <hmreg/verbs.h>
#include <stdio.h>

#define NEAREST 4
#define BYTES   65536

struct host {
    struct hmreg *lib;
    struct ibv_context *context[HMREG_GROUP_MAX];
    struct ibv_pd *pd[HMREG_GROUP_MAX];
    struct hmreg_domain *nic[HMREG_GROUP_MAX], *group;
    struct hmreg_topology *topology;
    int nics, registrations;
};

/* ---- opening and closing ---------------------------------------------------------------- */

static int open_nic(struct host *host, struct ibv_device *device)
{
    int i = host->nics++;

    host->context[i] = ibv_open_device(device);
    host->pd[i] = host->context[i] ? ibv_alloc_pd(host->context[i]) : NULL;
    return host->pd[i] ? hmreg_domain_open_verbs(host->lib, host->pd[i], NULL, &host->nic[i])
                       : -errno;
}

static int open_nics(struct host *host)
{
    int found = 0, rc = 0;
    struct ibv_device **list = ibv_get_device_list(&found);

    for (int i = 0; i < found && i < HMREG_GROUP_MAX && !rc; i++)
        rc = open_nic(host, list[i]);
    if (list)
        ibv_free_device_list(list);
    return found || rc ? rc : -ENODEV;
}

static int open_host(struct host *host, const char *root)
{
    struct hmreg_topology_config config = {.size = sizeof(config), .xml = NULL, .root = root};
    int rc = hmreg_open(NULL, &host->lib);

    rc = rc ? rc : open_nics(host);
    rc = rc ? rc : hmreg_group_open(host->lib, host->nic, (size_t)host->nics, NULL, &host->group);
    rc = rc ? rc : hmreg_topology_open(host->lib, &config, &host->topology);
    return rc ? rc : hmreg_group_nearest(host->group, host->topology, NEAREST);
}

static void close_host(struct host *host)
{
    hmreg_domain_close(host->group);
    for (int i = 0; i < host->nics; i++) {
        hmreg_domain_close(host->nic[i]);
        if (host->pd[i])
            ibv_dealloc_pd(host->pd[i]);
        if (host->context[i])
            ibv_close_device(host->context[i]);
    }
    hmreg_topology_close(host->topology);
    hmreg_close(host->lib);
}

/* ---- a buffer of each device ------------------------------------------------------------ */

static void print_rails(struct host *host, const struct hmreg_mr *mr)
{
    for (int i = 0; i < host->nics; i++)
        if (hmreg_mr_rail(mr, (size_t)i)) {
            printf(" %s", ibv_get_device_name(host->context[i]->device));
            host->registrations++;
        }
    printf("\n");
}

/* Why each rail was taken; of the others, which ones failed. */
static void print_reasons(const struct host *host, const struct hmreg_mr *mr)
{
    for (int i = 0; i < host->nics; i++) {
        struct hmreg_explanation why = {.size = sizeof(why)};
        struct hmreg_mr *rail = hmreg_mr_rail(mr, (size_t)i);

        if (rail && !hmreg_mr_explain(rail, &why))
            printf("  %s\n", why.rail_why);
        else if (!rail && hmreg_last_error()->code != -ENOENT)
            printf("  %s\n", hmreg_last_error()->text);
    }
}

static int register_on(struct host *host, enum hmreg_iface iface, int device)
{
    struct hmreg_mr *mr = NULL;
    void *memory = NULL;
    int rc = hmreg_mem_alloc(host->lib, iface, device, HMREG_MEM_DEVICE, BYTES, &memory);

    if (rc)
        return rc;
    rc = hmreg_mr_get(host->group, memory, BYTES, HMREG_SEND, &mr);
    if (!rc) {
        printf("%s %d:", hmreg_iface_name(iface), device);
        print_rails(host, mr);
        if (device == 0)
            print_reasons(host, mr);
    }
    hmreg_mr_put(mr);
    hmreg_mem_free(host->lib, memory);
    return rc;
}

static int register_all(struct host *host)
{
    int buffers = 0, rc = 0;

    for (int n = HMREG_IFACE_CUDA; n < HMREG_IFACE_COUNT; n++) {
        struct hmreg_runtime_info runtime = {.size = sizeof(runtime)};

        hmreg_runtime_query(host->lib, (enum hmreg_iface)n, &runtime);
        for (int device = 0; device < runtime.devices && !rc; device++, buffers++)
            rc = register_on(host, (enum hmreg_iface)n, device);
    }
    if (!rc)
        printf("%d buffers, %d NICs: %d registrations instead of %d\n", buffers, host->nics,
               host->registrations, buffers * host->nics);
    return rc;
}

int main(int argc, char **argv)
{
    struct host host = {.lib = NULL};
    int rc = open_host(&host, argc > 1 ? argv[1] : NULL);

    rc = rc ? rc : register_all(&host);
    if (rc == -ENODEV)
        fprintf(stderr, "no NIC here\n");
    else if (rc)
        fprintf(stderr, "%s\n", hmreg_last_error()->text);
    close_host(&host);
    return rc != 0;
}
