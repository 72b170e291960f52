/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See callbacks.h.
 */
#include "core/cache/callbacks.h"

#include "core/base/error.h"

static void call(void (*callback)(const struct hmreg_mr *, const struct hmreg_mr_info *, void *),
                 const struct hmreg_mr *mr)
{
    struct hmreg_mr_info info;
    struct hmreg_error before;

    if (!callback)
        return;
    info = (struct hmreg_mr_info){.size = sizeof(info)};
    hmreg_error_save(&before);
    if (!hmreg_mr_query(mr, &info))
        callback(mr, &info, mr->domain->callback_context);
    hmreg_error_restore(&before);
}

void callbacks_made(struct hmreg_mr *mr)
{
    mr_body(mr)->announced = true;
    call(mr->domain->made, mr);
}

void callbacks_ended(struct hmreg_mr *mr)
{
    if (!mr_body(mr)->announced)
        return;
    mr_body(mr)->announced = false;
    call(mr->domain->ended, mr);
}
