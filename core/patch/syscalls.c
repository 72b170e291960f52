/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See syscalls.h.
 */
#include "core/patch/syscalls.h"

bool syscall_next(const struct syscall_code *code, size_t *at, struct syscall_site *out)
{
    for (*at = syscall_candidate(code, *at); *at < code->size;
         *at = syscall_candidate(code, *at + SYSCALL_STEP))
        if (syscall_is_at(code, *at, out))
            return true;
    return false;
}
