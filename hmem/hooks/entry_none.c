/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See entry_hook.h. For processors, and builds, without an implementation: entry_arch_refusal()
 * says so, and the other functions are never called.
 */
#include "hmem/hooks/entry_hook.h"

#if !(defined(__x86_64__) && defined(__LP64__) && defined(HMREG_HAVE_ZYDIS)) &&                    \
    !(defined(__aarch64__) && defined(__LP64__))

const char *entry_arch_refusal(void)
{
#if defined(__x86_64__) && defined(__LP64__)
    return "hmreg was built without Zydis, which decodes instructions";
#else
    return "there are no hooks for this processor";
#endif
}

const uint8_t *entry_arch_leads_to(const struct entry_code *code, size_t *size)
{
    return NULL;
}

const char *entry_arch_choose(struct entry_hook *hook, const struct entry_code *code)
{
    return entry_arch_refusal();
}

const char *entry_arch_build(struct entry_hook *hook, const struct entry_code *code, uint8_t *room)
{
    return entry_arch_refusal();
}

#endif
