/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See gpu.h. The program's call goes to libibverbs first. So nothing changes, and no runtime is
 * asked, where libibverbs registers the memory itself: the host's, and a device's by peer memory.
 */
#include "preload/verbs/gpu.h"

#include "preload/engine.h"
#include "preload/memory.h"
#include "preload/record.h"
#include "preload/verbs/asked.h"
#include "preload/verbs/known.h"

#include <errno.h>

bool gpu_is_device(const void *addr, size_t length)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    uint8_t iface = HMREG_IFACE_SYSTEM;
    struct hmreg *lib;
    int16_t device;

    /* Opens no library in a program without a runtime. */
    if (!memory_find((uint64_t)(uintptr_t)addr, length, 0, &iface, &device) ||
        iface == HMREG_IFACE_SYSTEM)
        return false;
    lib = engine_library();
    return lib && !hmreg_query(lib, addr, length, &info) && info.kind == HMREG_MEM_DEVICE;
}

/* ---- registrations ----------------------------------------------------------------------- */

/* Of device memory. *native: its ibv_mr. NULL: the reason is recorded. */
static struct hmreg_mr *reg_by_hmreg(const struct asked *asked, struct ibv_mr **native,
                                     struct made *made)
{
    struct hmreg_domain *domain;
    struct hmreg_mr_attr attr;
    struct hmreg_mr *region;
    struct iovec iov;
    const struct passed_on *why = asked_translate(asked, &iov, &attr);
    int rc;

    if (why) {
        record_passed_on(why->slug, why->text);
        return NULL;
    }
    domain = pd_domain(asked->pd);
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

/* Keeps what a reregistration or the deregistration needs. False: no memory. */
static bool add_region(struct ibv_mr *mr, struct hmreg_mr *region, const struct asked *asked)
{
    const struct known known = {
        .mr = mr, .region = region, .device = region != NULL, .asked = *asked};

    return known_add(&known);
}

static struct ibv_mr *reg_device(const struct asked *asked, struct made *made)
{
    struct ibv_mr *native = NULL;
    struct hmreg_mr *region;

    if (!asked->length || !asked->addr || !gpu_is_device(asked->addr, asked->length))
        return NULL;
    region = reg_by_hmreg(asked, &native, made);
    if (!region)
        return NULL;
    /* Of a dmabuf, libibverbs has put the offset where the program expects its address; the
     * provider does not read it again. */
    native->addr = asked->addr;
    native->length = asked->length;
    if (add_region(native, region, asked))
        return native;
    hmreg_mr_close(region);
    return NULL;
}

/* An errno of libibverbs' failure outlives what hmreg does after it. */
struct ibv_mr *gpu_reg(const struct verbs_request *request, struct made *made)
{
    const struct asked asked = {.pd = request->pd,
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
        add_region(mr, NULL, &asked);
    else if (!mr && by_address)
        mr = reg_device(&asked, made);
    errno = mr ? before : error;
    return mr;
}

/* ---- their end --------------------------------------------------------------------------- */

static int close_region(const struct known *known)
{
    int rc = hmreg_mr_close(known->region);

    return rc < 0 ? -rc : rc;
}

/* What is known of a region is taken before its end, since another thread may get its address; and
 * is put back if it stays (EBUSY: a memory window). */
int gpu_dereg(struct ibv_mr *mr)
{
    struct known known;
    bool found = known_take(mr, &known);
    int result = found && known.region ? close_region(&known) : verbs_below()->dereg_mr(mr, NULL);

    if (found && (known.region ? result == EBUSY : result != 0))
        known_add(&known);
    return result;
}
