/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See verbs_mode.h.
 */
#include "preload/verbs/verbs_mode.h"

#include "preload/mode.h"

const struct verbs_mode *verbs_mode(void)
{
    const struct preload_mode *mode = preload_mode();

    if (mode->gpu || mode->cache)
        record_passed_on("no-verbs-modes",
                         "this hmreg only traces libibverbs: --gpu and --cache change nothing");
    return NULL;
}
