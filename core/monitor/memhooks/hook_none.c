/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See hook_arch.h. For processors without an implementation of hooks: code_refusal() says so,
 * and the other functions are never called.
 */
#include "core/monitor/memhooks/hook_arch.h"

#if !(defined(__x86_64__) && defined(__LP64__)) && !(defined(__aarch64__) && defined(__LP64__))

bool hook_arch_enters(const struct hook_code *code, size_t at, struct hook_entry *out)
{
    return false;
}

size_t hook_arch_next(const struct hook_code *code, size_t at)
{
    return code->size;
}

const uint8_t *hook_arch_target(const uint8_t *site)
{
    return NULL;
}

bool hook_arch_begins_with_jump(const uint8_t *function, uintptr_t *target)
{
    return false;
}

size_t hook_arch_stub_size(long number)
{
    return 0;
}

void hook_arch_enter_bytes(const uint8_t *enter, const uint8_t *site, uint8_t jump[HOOK_ENTER_SIZE],
                           uint8_t before[HOOK_ENTER_SIZE])
{
}

const char *hook_arch_make_stub(uint8_t *to, const struct hook_entry *entry,
                                struct hook_state *state)
{
    return code_refusal();
}

#endif
