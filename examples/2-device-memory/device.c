/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 2: device memory. For each GPU of this machine, of any vendor: allocates memory, queries
 * a pointer into it, registers it, prints the path of the registration and why no better one was
 * possible, writes into it over the fabric, and checks the bytes. The calls are those for host
 * memory.
 *
 *     2-device-memory [PROVIDER]          PROVIDER of libfabric: tcp (the default), shm, ...
 */
#include "../common/endpoint.h"

#include <errno.h>
#include <hmreg/ofi.h>
#include <stdio.h>
#include <string.h>

#define BYTES 65536
#define PLACE 4099 /* any offset: no alignment is needed */

struct here {
    struct endpoint endpoint;
    struct hmreg *lib;
    struct hmreg_domain *domain;
};

/* Prints what this pointer is. */
static int describe(struct hmreg *lib, const char *pointer)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    int rc = hmreg_query(lib, pointer, 1, &info);

    if (rc)
        return rc;
    printf("%s device %d%s, PCI %04x:%02x:%02x.%x: %s memory, byte %zu of an allocation of %zu\n",
           hmreg_iface_name(info.iface), info.device,
           info.flags & HMREG_MEM_INFO_SIMULATED ? " (simulated)" : "", info.pci.domain,
           info.pci.bus, info.pci.device, info.pci.function, hmreg_mem_kind_name(info.kind),
           (size_t)((uintptr_t)pointer - info.alloc_base), (size_t)info.alloc_len);
    return 0;
}

/* Prints the path of the registration, and why each better one was refused. mr NULL: all were. */
static void explain(const struct hmreg_mr *mr)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    if (hmreg_mr_explain(mr, &why))
        return;
    printf("  path %s\n", hmreg_path_name(why.path));
    for (uint32_t i = 0; i < why.refused; i++)
        printf("    not %s: %s\n", hmreg_path_name(why.reasons[i].path), why.reasons[i].text);
}

/* Writes text into the region at an offset, through the fabric. The token is used as in example 1.
 */
static int write_into(struct here *here, struct hmreg_mr *mr, size_t offset, const char *text)
{
    size_t len = strlen(text) + 1, size = 1024;
    struct hmreg_remote *remote = NULL;
    struct hmreg_mr *source = NULL;
    char token[1024];
    uint64_t addr, key;
    int rc = hmreg_mr_pack(mr, token, &size);

    rc = rc ? rc : hmreg_remote_open(here->domain, token, size, &remote);
    rc = rc ? rc : hmreg_remote_addr(remote, offset, len, &addr, &key);
    rc = rc ? rc : hmreg_mr_get(here->domain, text, len, HMREG_WRITE, &source);
    rc = rc ? rc : endpoint_write(&here->endpoint, text, len, hmreg_mr_desc(source), addr, key);
    hmreg_mr_put(source);
    hmreg_remote_close(remote);
    return rc;
}

/* The CPU may be unable to read device memory: hmreg_copy() uses the vendor's runtime. */
static int use(struct here *here, char *memory)
{
    static const char text[] = "written into device memory";
    char arrived[sizeof(text)] = "";
    struct hmreg_mr *mr = NULL;
    int rc = describe(here->lib, memory + PLACE);

    rc = rc ? rc : hmreg_mr_get(here->domain, memory, BYTES, HMREG_REMOTE_WRITE, &mr);
    explain(mr);
    rc = rc ? rc : write_into(here, mr, PLACE, text);
    rc = rc ? rc : hmreg_copy(here->lib, arrived, memory + PLACE, sizeof(arrived));
    hmreg_mr_put(mr);
    if (!rc)
        printf("  %s\n", arrived);
    return rc ? rc : strcmp(arrived, text) ? -EBADMSG : 0;
}

static int use_each_device(struct here *here)
{
    int failed = 0, found = 0;

    for (int n = HMREG_IFACE_CUDA; n < HMREG_IFACE_COUNT; n++) {
        enum hmreg_iface iface = (enum hmreg_iface)n;
        struct hmreg_runtime_info runtime = {.size = sizeof(runtime)};

        hmreg_runtime_query(here->lib, iface, &runtime);
        if (!runtime.present)
            printf("%s: %s\n", hmreg_iface_name(iface), runtime.why);
        for (int i = 0; i < runtime.devices; i++, found++) {
            void *memory = NULL;
            int rc = hmreg_mem_alloc(here->lib, iface, i, HMREG_MEM_DEVICE, BYTES, &memory);

            rc = rc ? rc : use(here, (char *)memory);
            if (rc)
                printf("  %s\n", failure_text(rc));
            failed += rc != 0;
            hmreg_mem_free(here->lib, memory);
        }
    }
    if (!found)
        puts("no device here");
    return failed;
}

int main(int argc, char **argv)
{
    struct endpoint_hints hints = {.provider = argc > 1 ? argv[1] : "tcp", .wishes = FI_HMEM};
    struct hmreg_domain_config exact = {.size = sizeof(exact), .flags = HMREG_DOMAIN_EXACT};
    struct here here = {.lib = NULL};
    int failed = 0;
    int rc = endpoint_open(&hints, &here.endpoint);

    rc = rc ? rc : endpoint_connect_self(&here.endpoint);
    rc = rc ? rc : hmreg_open(NULL, &here.lib);
    rc = rc ? rc
            : hmreg_domain_open_ofi(here.lib, here.endpoint.domain, here.endpoint.info, &exact,
                                    &here.domain);
    if (rc)
        fprintf(stderr, "%s: %s\n", hints.provider, failure_text(rc));
    else
        failed = use_each_device(&here);
    hmreg_domain_close(here.domain);
    hmreg_close(here.lib);
    endpoint_close(&here.endpoint);
    return rc || failed;
}
