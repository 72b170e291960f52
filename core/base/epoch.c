/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See epoch.h.
 */
#include "core/base/epoch.h"

_Atomic uint64_t process_no_epoch;
_Atomic(_Atomic uint64_t *) process_epoch_page = &process_no_epoch;

bool process_is_bare(void)
{
    _Atomic uint64_t *page = atomic_load(&process_epoch_page);

    return page != &process_no_epoch && !atomic_load(&page[EPOCH_OWN]) &&
           !atomic_load(&page[EPOCH_IS_NOT_BARE]);
}
