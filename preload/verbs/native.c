/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See native.h. The program's call goes to libibverbs first. So with --gpu nothing changes, and no
 * runtime is asked, where libibverbs registers the memory itself: the host's, and a device's by
 * peer memory.
 */
#include "preload/verbs/native.h"

#include "preload/engine.h"
#include "preload/mode.h"
#include "preload/verbs/below.h"
#include "preload/verbs/gpu.h"
#include "preload/verbs/known.h"

#include <errno.h>

struct asked native_asked(const struct verbs_request *request)
{
    return (struct asked){.pd = request->pd,
                          .addr = request->addr,
                          .length = request->length,
                          .iova = request->iova,
                          .access = request->access};
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
    struct hmreg_mr *region = gpu_reg(asked, &native, made);

    if (!region || add_region(native, region, asked))
        return native;
    hmreg_mr_close(region);
    return NULL;
}

static struct ibv_mr *pass_on(const struct verbs_request *request)
{
    struct ibv_mr *mr;

    errno = 0;
    mr = verbs_pass_on(request);
    if (mr || errno != ENOMEM || !engine_relieve())
        return mr;
    errno = ENOMEM;
    return verbs_pass_on(request);
}

/* An errno of libibverbs' failure outlives what hmreg does after it. */
struct ibv_mr *native_reg(const struct verbs_request *request, struct made *made)
{
    struct asked asked = native_asked(request);
    bool by_address = request->fd < 0 && !request->more;
    int before = errno, error;
    struct ibv_mr *mr = pass_on(request);

    error = mr ? before : errno;
    if (mr && preload_mode()->gpu && by_address)
        add_region(mr, NULL, &asked);
    else if (!mr && preload_mode()->gpu && by_address)
        mr = reg_device(&asked, made);
    errno = mr ? before : error;
    return mr;
}

static int close_region(const struct known *known)
{
    int rc = hmreg_mr_close(known->region);

    return rc < 0 ? -rc : rc;
}

/* What is known of a region is taken before its end, since another thread may get its address; and
 * is put back if it stays (EBUSY: a memory window). */
int native_dereg(struct ibv_mr *mr)
{
    struct known known;
    bool found = known_take(mr, &known);
    int result = found && known.region ? close_region(&known) : verbs_below()->dereg_mr(mr, NULL);

    if (found && (known.region ? result == EBUSY : result != 0))
        known_add(&known);
    return result;
}
