/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The callbacks of a domain's configuration: made and ended.
 */
#ifndef HMREG_CORE_CACHE_CALLBACKS_H
#define HMREG_CORE_CACHE_CALLBACKS_H

#include "core/mr/mr.h"

/* Call the domain's callback, with no lock held: made once the region is registered and not
 * published yet, ended before each try to deregister it. A region's ended is called once for its
 * made. The thread's last error stays as it is. */
void callbacks_made(struct hmreg_mr *mr);
void callbacks_ended(struct hmreg_mr *mr);

#endif
