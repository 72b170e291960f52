/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See gpu.h. The region is a registration of libibverbs' own, so that all calls take it. Of a
 * dmabuf, libibverbs puts the offset into the ibv_mr where the program expects its address; the
 * provider does not read it again.
 */
#include "preload/verbs/gpu.h"

#include "preload/engine.h"
#include "preload/memory.h"
#include "preload/record.h"

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

static struct hmreg_mr *reg(const struct hmreg_mr_attr *attr, struct hmreg_domain *domain,
                            struct ibv_mr **native, struct made *made)
{
    struct hmreg_mr *region = NULL;
    int rc = hmreg_mr_regattr(domain, attr, HMREG_REG_SINGLE, &region);

    if (rc) {
        pd_refused(rc);
        return NULL;
    }
    *native = pd_native(region, made);
    return region;
}

struct hmreg_mr *gpu_reg(const struct asked *asked, struct ibv_mr **native, struct made *made)
{
    struct hmreg_domain *domain;
    struct hmreg_mr_attr attr;
    struct hmreg_mr *region;
    struct iovec iov;
    const struct passed_on *why = asked_translate(asked, &iov, &attr);

    if (!asked->length || !asked->addr || !gpu_is_device(asked->addr, asked->length))
        return NULL;
    if (why) {
        record_passed_on(why->slug, why->text);
        return NULL;
    }
    domain = pd_domain(asked->pd);
    region = domain ? reg(&attr, domain, native, made) : NULL;
    if (!region)
        return NULL;
    (*native)->addr = asked->addr;
    (*native)->length = asked->length;
    return region;
}
