/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See code.h. For processors without an implementation: code_refusal() says so, and the other
 * functions are never called.
 */
#include "core/base/code.h"

#if !(defined(__x86_64__) && defined(__LP64__)) && !(defined(__aarch64__) && defined(__LP64__))

bool code_is_translated(void)
{
    return false;
}

const char *code_refusal(void)
{
    return "there are none for this processor";
}

bool code_branch(uint8_t to[CODE_BRANCH], const uint8_t *at, const uint8_t *target)
{
    return false;
}

bool code_can_replace(const uint8_t *at, size_t count)
{
    return false;
}

void code_replace(uint8_t *at, const uint8_t *bytes, size_t count)
{
}

#endif
