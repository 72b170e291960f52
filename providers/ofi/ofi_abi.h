/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Declarations that some libfabric headers from 1.17 to 2.x lack. Names added after 1.17 are
 * declared here if the installed header lacks them; for removed names, and names that a pragma
 * warns about, we always use our own. The header at compile time says nothing about the library
 * loaded at run time: fi_version() and the application's API version decide what we use.
 */
#ifndef HMREG_PROVIDERS_OFI_OFI_ABI_H
#define HMREG_PROVIDERS_OFI_OFI_ABI_H

#include <hmreg/hmreg.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <stddef.h>
#include <stdint.h>

#include "providers/ofi/ofi_deprecated.h"

/* The versions that added FI_MR_DMABUF and three fields of fi_mr_attr, and the version that removed
 * asynchronous registration. */
#define OFI_HMEM_DATA_VERSION FI_VERSION(1, 19)
#define OFI_DMABUF_VERSION    FI_VERSION(1, 20)
#define OFI_PAGE_SIZE_VERSION FI_VERSION(1, 22)
#define OFI_SYNC_VERSION      FI_VERSION(2, 0)
#define OFI_ROCR_VERSION      FI_VERSION(2, 5)  /* device.rocr */
#define OFI_ZE_DRIVER_VERSION FI_VERSION(1, 18) /* device.ze has the driver's number too */

/* FI_MR_XPU_DESC of newer headers. */
#define OFI_MR_XPU_DESC (1u << 12)

/* FI_EFA_MR_RELAXED_ORDERING of fi_efa(7), libfabric 2.7. */
#define OFI_EFA_MR_RELAXED_ORDERING (1ULL << 61)

/* fi_hmem_ze_device() of newer headers: positions in the lists of zeDriverGet and zeDeviceGet. */
static inline int ofi_ze_device(unsigned driver, int device)
{
    return (int)(driver << 16) | device;
}

#ifndef FI_MR_DMABUF
#define FI_MR_DMABUF (1ULL << 40)
struct fi_mr_dmabuf {
    int fd;
    uint64_t offset;
    size_t len;
    void *base_addr; /* the address of the descriptor's first byte */
};
#endif
_Static_assert(FI_MR_DMABUF == HMREG_REG_DMABUF, "one flag");
_Static_assert(sizeof(struct fi_mr_dmabuf) == 32 && offsetof(struct fi_mr_dmabuf, offset) == 8 &&
                   offsetof(struct fi_mr_dmabuf, len) == 16 &&
                   offsetof(struct fi_mr_dmabuf, base_addr) == 24,
               "one layout in every libfabric");

/* fi_mr_attr, padded to the size that libfabric 2 may read; fields unknown here stay zero. */
union ofi_mr_attr {
    struct fi_mr_attr known;
    struct {
        uint64_t of_1_17[10];
        void *hmem_data;
        size_t page_size;
        uint64_t of_2_0[2]; /* base_mr, sub_mr_cnt */
    } later;
};
_Static_assert(sizeof(union ofi_mr_attr) >= 112, "struct fi_mr_attr of libfabric 2");
_Static_assert(offsetof(struct fi_mr_attr, iface) == 64 &&
                   offsetof(struct fi_mr_attr, device) == 72,
               "the last fields of libfabric 1.17");

#ifdef FI_MR_SINGLE_USE /* a libfabric 2 header, which has all fields */
_Static_assert(
    offsetof(struct fi_mr_attr, hmem_data) == offsetof(union ofi_mr_attr, later.hmem_data) &&
        offsetof(struct fi_mr_attr, page_size) == offsetof(union ofi_mr_attr, later.page_size) &&
        offsetof(struct fi_mr_attr, base_mr) == offsetof(union ofi_mr_attr, later.of_2_0) &&
        offsetof(struct fi_mr_attr, dmabuf) == offsetof(struct fi_mr_attr, mr_iov),
    "our layout of what came after 1.17");
#endif

/* Our values equal libfabric's, so rights, modes, flags and errors need no translation. */
#define SAME(ours, theirs) _Static_assert((uint64_t)(ours) == (uint64_t)(theirs), #ours)
SAME(HMREG_READ, FI_READ);
SAME(HMREG_WRITE, FI_WRITE);
SAME(HMREG_RECV, FI_RECV);
SAME(HMREG_SEND, FI_SEND);
SAME(HMREG_REMOTE_READ, FI_REMOTE_READ);
SAME(HMREG_REMOTE_WRITE, FI_REMOTE_WRITE);
SAME(HMREG_MR_LOCAL, FI_MR_LOCAL);
SAME(HMREG_MR_RAW, FI_MR_RAW);
SAME(HMREG_MR_VIRT_ADDR, FI_MR_VIRT_ADDR);
SAME(HMREG_MR_ALLOCATED, FI_MR_ALLOCATED);
SAME(HMREG_MR_PROV_KEY, FI_MR_PROV_KEY);
SAME(HMREG_MR_MMU_NOTIFY, FI_MR_MMU_NOTIFY);
SAME(HMREG_MR_RMA_EVENT, FI_MR_RMA_EVENT);
SAME(HMREG_MR_ENDPOINT, FI_MR_ENDPOINT);
SAME(HMREG_MR_HMEM, FI_MR_HMEM);
SAME(HMREG_IFACE_SYSTEM, FI_HMEM_SYSTEM);
SAME(HMREG_IFACE_CUDA, FI_HMEM_CUDA);
SAME(HMREG_IFACE_ROCR, FI_HMEM_ROCR);
SAME(HMREG_IFACE_ZE, FI_HMEM_ZE);
SAME(HMREG_IFACE_NEURON, FI_HMEM_NEURON);
SAME(HMREG_IFACE_SYNAPSEAI, FI_HMEM_SYNAPSEAI);
SAME(HMREG_HMEM_HOST_ALLOC, FI_HMEM_HOST_ALLOC);
SAME(HMREG_HMEM_DEVICE_ONLY, FI_HMEM_DEVICE_ONLY);
SAME(HMREG_RMA_PMEM, FI_RMA_PMEM);
SAME(HMREG_RMA_EVENT, FI_RMA_EVENT);
SAME(HMREG_ETOOSMALL, FI_ETOOSMALL);
SAME(HMREG_EOPBADSTATE, FI_EOPBADSTATE);
SAME(HMREG_EBADFLAGS, FI_EBADFLAGS);
SAME(HMREG_ENOKEY, FI_ENOKEY);
SAME(HMREG_KEY_NOTAVAIL, FI_KEY_NOTAVAIL);
#undef SAME

#endif
