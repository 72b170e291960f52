/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Ends contexts of ours that have no memory, so that the hook of zeContextDestroy can tell them
 * from the application's.
 */
#include "hmem/ze/ze.h"

static _Thread_local struct {
    bool destroys;
    void *by;
} ours __attribute__((tls_model("initial-exec")));

void *ze_destroy_context(struct ze_hmem *self, ze_context_handle_t context)
{
    ours.destroys = true;
    ours.by = NULL;
    self->api.context_destroy(context);
    ours.destroys = false;
    return ours.by;
}

bool ze_destroys_ours(void *by)
{
    if (ours.destroys)
        ours.by = by;
    return ours.destroys;
}
