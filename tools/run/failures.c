/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See failures.h. The first entry that fits counts. errno values of drivers vary, so each sentence
 * says what the value usually means.
 */
#include "tools/run/failures.h"

#include "tools/doctor/findings.h"

#include <hmreg/hmreg.h>

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#define KERNEL_ENOTSUPP 524 /* kernel-internal, leaks to user space */

enum of { ANY, HOST, DEVICE, DMABUF, REREG };

static const struct entry {
    int error;
    enum of of;
    const char *finding; /* its remedy serves if `remedy` is NULL */
    const char *text, *remedy;
} entries[] = {
    {EFAULT, DEVICE, "no-peer-memory",
     "The address is a device's, but no peer memory client accepted it, so the kernel cannot pin "
     "it.",
     NULL},
    {EFAULT, HOST, NULL, "Part of the range is not mapped, or cannot be pinned.",
     "Register memory that exists and may be written. A mapping of a device's memory (of a GPU's "
     "BAR, of /dev) cannot be pinned."},
    {EFAULT, ANY, NULL, "An address of the range cannot be pinned.",
     "Register host memory that is mapped; device memory needs a dmabuf or peer memory."},
    {ENOMEM, DMABUF, "bar-small", "There was no space to map the dmabuf for the NIC.", NULL},
    {ENOMEM, DEVICE, "bar-small",
     "There was no space to map the device's memory for the NIC, or the NIC had no free region.",
     NULL},
    {ENOMEM, ANY, "memlock-low", "The limit of locked memory, or of the NIC's regions, is reached.",
     NULL},
    {EINVAL, DMABUF, "page-offset-differs",
     "The dmabuf is shorter than the range, its iova and its offset differ within the page, or an "
     "access right is unknown.",
     NULL},
    {EINVAL, ANY, NULL, "An argument is not accepted.",
     "Remote write and atomic rights need IBV_ACCESS_LOCAL_WRITE; the length must not be 0; some "
     "rights depend on the device."},
    {EOPNOTSUPP, REREG, NULL, "This driver does not support re-registration (rereg).",
     "Deregister the region, and register the memory anew."},
    {EOPNOTSUPP, DMABUF, "nic-imports-no-dmabuf", "The NIC's driver imports no dmabufs.", NULL},
    {EPROTONOSUPPORT, DMABUF, "nic-imports-no-dmabuf", "The NIC's driver imports no dmabufs.",
     NULL},
    {KERNEL_ENOTSUPP, ANY, "iommu-translates",
     "The dmabuf's exporter refused this NIC: it found no PCI path between the two.", NULL},
    {EBADF, ANY, NULL, "The descriptor is not a dmabuf's.", "Pass an open dmabuf descriptor."},
    {EPERM, ANY, NULL, "The process may not do this.",
     "Give the process the capability or the limit that it needs (CAP_IPC_LOCK, memlock)."},
    {EACCES, ANY, NULL, "The memory does not permit the rights that were asked for.",
     "Do not request rights to write into read-only mappings."},
    {ENOSYS, DEVICE, "no-fi-hmem", "The domain does not register device memory.", NULL},
    {EBUSY, ANY, NULL, "The region, or the device, is in use.",
     "Unbind memory windows, and wait until operations on the region have ended."},
};

static bool is_device(const struct record_key *key)
{
    return key->iface != HMREG_IFACE_SYSTEM && key->iface < HMREG_IFACE_COUNT;
}

static bool fits(const struct entry *entry, const struct record_key *key)
{
    if (entry->error != key->error)
        return false;
    switch (entry->of) {
    case HOST:
        return key->iface == HMREG_IFACE_SYSTEM;
    case DEVICE:
        return is_device(key);
    case DMABUF:
        return key->call == RECORD_REG_DMABUF_MR;
    case REREG:
        return key->call == RECORD_REREG_MR;
    default:
        return true;
    }
}

bool failure_wants_gpu(const struct record_key *key)
{
    return is_device(key) && key->how == RECORD_PASSED && key->call != RECORD_REG_DMABUF_MR &&
           key->call != RECORD_REREG_MR;
}

struct failure failure_of(const struct record_key *key)
{
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        const struct entry *entry = &entries[i];
        const struct finding *finding;

        if (!fits(entry, key))
            continue;
        finding = entry->finding ? finding_find(entry->finding) : NULL;
        return (struct failure){entry->text,
                                entry->remedy ? entry->remedy
                                : finding     ? finding->remedy
                                              : "",
                                finding ? entry->finding : NULL};
    }
    return (struct failure){"The fabric refused it.",
                            "hmreg doctor examines this machine; dmesg may say more.", NULL};
}
