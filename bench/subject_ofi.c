/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The peer libfabric: its public fi_mr_regattr() and fi_close(), on fabrics that need no hardware.
 * None of them has a registration cache (libfabric's is internal to hardware providers), so this is
 * the cost per message of a program that caches nothing. Only its own contestants load it, as with
 * UCX.
 */
#include "bench/actor.h"
#include "bench/bench.h"
#include "bench/subject.h"
#include "bench/subject_ofi.h"

enum variant { TCP, BASIC, SHM }; /* BASIC: tcp, regions by the old rules */

#ifdef BENCH_OFI
#include <dlfcn.h>
#include <hmreg/hmreg.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <string.h>

static struct {
    __typeof__(fi_getinfo) *getinfo;
    __typeof__(fi_dupinfo) *dupinfo;
    __typeof__(fi_fabric) *fabric;
    __typeof__(fi_strerror) *strerror;
} fi;

static void load(void)
{
    void *library = dlopen("libfabric.so.1", RTLD_NOW);

    if (!library)
        leave("%s", dlerror());
    fi.getinfo = (__typeof__(fi.getinfo))dlsym(library, "fi_getinfo");
    fi.dupinfo = (__typeof__(fi.dupinfo))dlsym(library, "fi_dupinfo");
    fi.fabric = (__typeof__(fi.fabric))dlsym(library, "fi_fabric");
    fi.strerror = (__typeof__(fi.strerror))dlsym(library, "fi_strerror");
    if (!fi.getinfo || !fi.dupinfo || !fi.fabric || !fi.strerror)
        leave("this libfabric.so.1 lacks a call");
}

static void must(int rc, const char *what)
{
    if (rc)
        leave("%s: %s", what, fi.strerror(-rc));
}

static void *open_state(const struct subject *self, size_t regions)
{
    struct fi_info *hints, *info = NULL;
    static struct ofi_peer peer; /* of this process */
    struct fid_fabric *fabric;

    load();
    hints = fi.dupinfo(NULL); /* fi_allocinfo() is this call */
    if (!hints)
        leave("no memory");
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode =
        self->variant == BASIC ? HMREG_MR_BASIC /* libfabric 2 warns of its own name */
                               : FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(self->variant == SHM ? "shm" : "tcp");
    must(fi.getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), "fi_getinfo");
    must(fi.fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    must(fi_domain(fabric, info, &peer.domain, NULL), "fi_domain");
    peer.info = info;
    return &peer;
}

static void hits(void *state, char *base, const uint32_t *order, size_t count)
{
    struct fid_domain *domain = ((struct ofi_peer *)state)->domain;

    for (size_t i = 0; i < count; i++) {
        struct iovec iov = {base + (size_t)order[i] * REGION_BYTES, REGION_BYTES};
        struct fi_mr_attr attr = {.mr_iov = &iov, .iov_count = 1, .access = FI_SEND};
        struct fid_mr *mr;

        must(fi_mr_regattr(domain, &attr, 0, &mr), "fi_mr_regattr");
        must(fi_close(&mr->fid), "fi_close");
    }
}

#define SUBJECT(name, kind)                                                                        \
    {                                                                                              \
        .who = name, .variant = kind, .open = open_state, .hits = hits                             \
    }
#else
#define SUBJECT(name, kind)                                                                        \
    {                                                                                              \
        .who = name, .variant = kind, .absent = "built without libfabric-dev"                      \
    }
#endif

const struct subject subject_ofi_tcp = SUBJECT("libfabric tcp, no cache", TCP);
const struct subject subject_ofi_basic = SUBJECT("libfabric tcp, FI_MR_BASIC", BASIC);
const struct subject subject_ofi_shm = SUBJECT("libfabric shm, no cache", SHM);
