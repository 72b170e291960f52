/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The function that another library's hook leads to, as UCX's: it makes the call by a copy of the
 * instructions that its jump has covered, which continues behind the jump.
 */
#include "tests/support/redirect.h"

#define PUBLIC __attribute__((visibility("default")))

PUBLIC unsigned long (*redirect_original)(unsigned long a, unsigned long b);

PUBLIC unsigned long redirect_target(unsigned long a, unsigned long b);

PUBLIC unsigned long redirect_target(unsigned long a, unsigned long b)
{
    return redirect_original(a, b) + BY_REDIRECT;
}
