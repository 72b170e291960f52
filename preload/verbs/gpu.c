/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See gpu.h. The program's call goes to libibverbs first. If libibverbs registers the memory (the
 * host's, or a device's by peer memory), nothing changes and no runtime is asked.
 */
#include "preload/verbs/gpu.h"

#include "preload/engine.h"
#include "preload/memory.h"
#include "preload/record.h"
#include "preload/verbs/request.h"
#include "preload/verbs/native_table.h"

#include <errno.h>

bool gpu_is_device(const void *addr, size_t length)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    uint8_t iface = HMREG_IFACE_SYSTEM;
    struct hmreg *lib;
    int16_t device;

    /* memory_find() first: it opens no library in a program without a runtime. */
    if (!memory_find((uint64_t)(uintptr_t)addr, length, 0, &iface, &device) ||
        iface == HMREG_IFACE_SYSTEM)
        return false;
    lib = engine_library();
    return lib && !hmreg_query(lib, addr, length, &info) && info.kind == HMREG_MEM_DEVICE;
}

/* ---- registrations ----------------------------------------------------------------------- */

/* Registers device memory. *native: its ibv_mr. NULL: it failed; the reason is recorded. */
static struct hmreg_mr *reg_by_hmreg(const struct addr_request *wanted, struct ibv_mr **native,
                                     struct made *made)
{
    struct hmreg_domain *domain;
    struct hmreg_mr_attr attr;
    struct hmreg_mr *region;
    struct iovec iov;
    const struct passed_on *why = request_translate(wanted, &iov, &attr);
    int rc;

    if (why) {
        record_passed_on(why->slug, why->text);
        return NULL;
    }
    domain = pd_domain(wanted->pd);
    if (!domain)
        return NULL;
    rc = hmreg_mr_regattr(domain, &attr, HMREG_REG_SINGLE, &region);
    if (rc) {
        pd_refused(rc);
        return NULL;
    }
    *native = pd_native(region, made);
    return region;
}

/* Adds the entry that a reregistration or the deregistration needs. False: no memory. */
static bool add_region(struct ibv_mr *mr, struct hmreg_mr *region,
                       const struct addr_request *wanted)
{
    const struct native_entry entry = {
        .mr = mr, .region = region, .device = region != NULL, .wanted = *wanted};

    return native_table_add(&entry);
}

static struct ibv_mr *reg_device(const struct addr_request *wanted, struct made *made)
{
    struct ibv_mr *native = NULL;
    struct hmreg_mr *region;

    if (!wanted->length || !wanted->addr || !gpu_is_device(wanted->addr, wanted->length))
        return NULL;
    region = reg_by_hmreg(wanted, &native, made);
    if (!region)
        return NULL;
    /* For a dmabuf libibverbs has stored the offset in addr, where the program expects its address.
     * The provider does not read addr again. */
    native->addr = wanted->addr;
    native->length = wanted->length;
    if (add_region(native, region, wanted))
        return native;
    hmreg_mr_close(region);
    return NULL;
}

/* If all fails, errno is libibverbs', not hmreg's. */
struct ibv_mr *gpu_reg(const struct verbs_request *request, struct made *made)
{
    const struct addr_request wanted = {.pd = request->pd,
                                        .addr = request->addr,
                                        .length = request->length,
                                        .iova = request->iova,
                                        .access = request->access};
    bool by_address = request->fd < 0 && !request->more;
    int before = errno, error;
    struct ibv_mr *mr;

    errno = 0;
    mr = verbs_pass_on(request);
    error = errno;
    if (mr && by_address)
        add_region(mr, NULL, &wanted);
    else if (!mr && by_address)
        mr = reg_device(&wanted, made);
    errno = mr ? before : error;
    return mr;
}

/* ---- their end --------------------------------------------------------------------------- */

static int close_region(const struct native_entry *entry)
{
    int rc = hmreg_mr_close(entry->region);

    return rc < 0 ? -rc : rc;
}

/* The entry is taken before the deregistration, after which another thread's region may get the
 * address. It is put back if the region stays (EBUSY: a memory window). */
int gpu_dereg(struct ibv_mr *mr)
{
    struct native_entry entry;
    bool found = native_table_take(mr, &entry);
    int result = found && entry.region ? close_region(&entry) : verbs_target()->dereg_mr(mr, NULL);

    if (found && (entry.region ? result == EBUSY : result != 0))
        native_table_add(&entry);
    return result;
}
