/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * For processors, and builds, without an implementation: code_refusal() or entry_arch_refusal()
 * refuses, and the other functions are never called.
 */
#include "core/patch/entry_hook.h"
#include "core/patch/syscalls.h"

#if !(defined(__x86_64__) && defined(__LP64__)) && !(defined(__aarch64__) && defined(__LP64__))

bool code_is_translated(void)
{
    return false;
}

const char *code_refusal(void)
{
    return "hmreg has no hooks for this processor";
}

bool code_branch(uint8_t to[CODE_BRANCH], const uint8_t *at, const uint8_t *target)
{
    return false;
}

bool code_short_branch(uint8_t to[CODE_SHORT], const uint8_t *at, const uint8_t *target)
{
    return false;
}

const uint8_t *code_target(const uint8_t *at)
{
    return NULL;
}

const uint8_t *code_leads_to(const uint8_t *function, size_t readable, size_t *size)
{
    return NULL;
}

bool code_can_replace(const uint8_t *at, size_t count)
{
    return false;
}

void code_replace(uint8_t *at, const uint8_t *bytes, size_t count)
{
}

bool syscall_is_at(const struct syscall_code *code, size_t at, struct syscall_site *out)
{
    return false;
}

size_t syscall_candidate(const struct syscall_code *code, size_t at)
{
    return code->size;
}

#endif

#if !(defined(__x86_64__) && defined(__LP64__) && defined(HMREG_HAVE_ZYDIS)) &&                    \
    !(defined(__aarch64__) && defined(__LP64__))

const char *entry_arch_refusal(void)
{
#if defined(__x86_64__) && defined(__LP64__)
    return "this hmreg was built without Zydis, the library that decodes instructions";
#else
    return "hmreg has no hooks for this processor";
#endif
}

const char *entry_arch_choose(struct entry_hook *hook, const struct entry_code *code)
{
    return entry_arch_refusal();
}

const char *entry_arch_build(const struct entry_hook *hook, const struct entry_code *code,
                             uint8_t *room, uint8_t **original)
{
    return entry_arch_refusal();
}

#endif
