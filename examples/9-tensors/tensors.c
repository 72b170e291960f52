/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 9: a model's weights. An inference engine places 1,265 tensors in 60 allocations of
 * device memory and registers each tensor, to send it. Where a miss may cover its allocation, 60
 * registrations serve all.
 *
 *     9-tensors [PROVIDER]                PROVIDER of libfabric: tcp (the default), shm, ...
 */
#include "../common/endpoint.h"

#include <errno.h>
#include <hmreg/ofi.h>
#include <stdio.h>
#include <time.h>

#define TENSORS     1265
#define ALLOCATIONS 60
#define BYTES       65536 /* of a tensor */

struct weights {
    struct hmreg *lib;
    enum hmreg_iface iface;
    void *allocation[ALLOCATIONS];
};

/* On the first device of any vendor. */
static int allocate(struct weights *weights)
{
    int rc = -ENODEV;

    for (int n = HMREG_IFACE_CUDA; n < HMREG_IFACE_COUNT && rc; n++) {
        struct hmreg_runtime_info runtime = {.size = sizeof(runtime)};

        hmreg_runtime_query(weights->lib, (enum hmreg_iface)n, &runtime);
        if (runtime.devices > 0)
            rc = 0, weights->iface = (enum hmreg_iface)n;
    }
    for (int i = 0; i < ALLOCATIONS && !rc; i++)
        rc = hmreg_mem_alloc(weights->lib, weights->iface, 0, HMREG_MEM_DEVICE,
                             (TENSORS / ALLOCATIONS + 1) * (size_t)BYTES, &weights->allocation[i]);
    return rc;
}

static int get_tensors(const struct weights *weights, struct hmreg_domain *domain)
{
    int rc = 0;

    for (int i = 0; i < TENSORS && !rc; i++) {
        char *tensor = (char *)weights->allocation[i % ALLOCATIONS] + i / ALLOCATIONS * BYTES;
        struct hmreg_mr *mr = NULL;

        rc = hmreg_mr_get(domain, tensor, BYTES, HMREG_SEND, &mr);
        /* ... send it, with hmreg_mr_desc() ... */
        hmreg_mr_put(mr);
    }
    return rc;
}

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int send_weights(const struct weights *weights, struct endpoint *endpoint,
                        enum hmreg_cover cover)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .cover = cover};
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct hmreg_domain *domain = NULL;
    double start = now_ms();
    int rc =
        hmreg_domain_open_ofi(weights->lib, endpoint->domain, endpoint->info, &config, &domain);

    rc = rc ? rc : get_tensors(weights, domain);
    rc = rc ? rc : hmreg_domain_stats(domain, &stats);
    if (!rc)
        printf("%s: %d tensors in %d allocations of %s memory, %d registrations, %.1f ms\n",
               cover == HMREG_COVER_ALLOCATION ? "covering" : "exactly", TENSORS, ALLOCATIONS,
               hmreg_iface_name(weights->iface), (int)stats.misses, now_ms() - start);
    hmreg_domain_close(domain);
    return rc;
}

int main(int argc, char **argv)
{
    struct endpoint_hints hints = {.provider = argc > 1 ? argv[1] : "tcp", .wishes = FI_HMEM};
    struct weights weights = {.lib = NULL};
    struct endpoint endpoint = {.fabric = NULL};
    int rc = endpoint_open(&hints, &endpoint);

    rc = rc ? rc : hmreg_open(NULL, &weights.lib);
    rc = rc ? rc : allocate(&weights);
    rc = rc ? rc : send_weights(&weights, &endpoint, HMREG_COVER_EXACT);
    rc = rc ? rc : send_weights(&weights, &endpoint, HMREG_COVER_ALLOCATION);
    if (rc == -ENODEV)
        fprintf(stderr, "no device here\n");
    else if (rc)
        fprintf(stderr, "%s: %s\n", hints.provider, failure_text(rc));
    for (int i = 0; i < ALLOCATIONS; i++)
        if (weights.allocation[i])
            hmreg_mem_free(weights.lib, weights.allocation[i]);
    hmreg_close(weights.lib);
    endpoint_close(&endpoint);
    return rc != 0;
}
