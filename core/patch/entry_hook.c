/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See entry_hook.h. Stubs and originals lie in islands (core/patch/code.h), sealed before the first
 * branch leads there.
 */
#include "core/patch/entry_hook.h"

#include "core/patch/modules.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct code_islands islands;

/* ---- reading functions ------------------------------------------------------------------ */

/* The function's size as its library's symbol table says; 0: unknown. */
static size_t size_of(const uint8_t *function)
{
    const ElfW(Sym) *symbol = NULL;
    Dl_info info;

    if (!dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) ||
        info.dli_saddr != (void *)function || !symbol)
        return 0;
    return symbol->st_size;
}

/* If the kernel's list of mappings cannot be read, assumes the function's page. */
static void read_code(uint8_t *function, struct code_text *text, struct entry_code *out)
{
    uintptr_t at = (uintptr_t)function, page = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct code_text known = {at & ~(page - 1), (at & ~(page - 1)) + page, 0, false};

    if (code_find(text, function))
        known = *text;
    *out = (struct entry_code){
        .function = function,
        .readable = known.end - at,
        .size = size_of(function),
        .before = function - (at - known.start),
    };
    if (out->size > out->readable)
        out->size = out->readable;
}

/* ---- jumps to other libraries ------------------------------------------------------------- */

static bool is_in_another_library(const uint8_t *code, const uint8_t *function)
{
    Dl_info its, ours;

    return dladdr(code, &its) && (!dladdr(function, &ours) || its.dli_fbase != ours.dli_fbase);
}

/* Follows jumps from the function to the one that will have the hook. */
static const char *follow(struct entry_hook *hook, struct code_text *text, struct entry_code *code)
{
    const uint8_t *to;
    size_t size;

    hook->way_count = 0;
    while ((to = code_leads_to(code->function, code->readable, &size)) &&
           is_in_another_library(to, code->function)) {
        if (!entry_add_way(hook, code->function, size))
            return "its beginning has too many other hooks";
        read_code((uint8_t *)(uintptr_t)to, text, code);
    }
    return NULL;
}

/* Does the function's beginning still lead to the one with the site? */
static bool jumps_are_intact(const struct entry_hook *hook)
{
    for (unsigned i = 0; i < hook->way_count; i++)
        if (memcmp(hook->ways[i].at, hook->ways[i].bytes, hook->ways[i].size) != 0)
            return false;
    return true;
}

const char *entry_hooks_refusal(void)
{
    return code_refusal() ? code_refusal() : entry_arch_refusal();
}

static void refuse(struct entry_hook *hook, const char *why)
{
    snprintf(hook->why, sizeof(hook->why), "%s", why);
}

static const char *choose(struct entry_hook *hook, struct code_text *text, struct entry_code *code)
{
    const char *why = hook->function ? entry_hooks_refusal() : "it is not found";

    if (why)
        return why;
    read_code(hook->function, text, code);
    why = follow(hook, text, code);
    return why ? why : entry_arch_choose(hook, code);
}

void entry_hook_try(struct entry_hook *hook, struct code_text *text)
{
    struct entry_code code;
    const char *why = choose(hook, text, &code);

    refuse(hook, why ? why : "");
}

/* ---- installing ------------------------------------------------------------------------- */

static const char *build(struct entry_hook *hook, struct code_text *text)
{
    uint8_t *room, *original = NULL;
    struct entry_code code;
    const char *why;

    if (atomic_load(&hook->original)) /* the earlier stub and original are still valid */
        return jumps_are_intact(hook) && patch_is_as_before(&hook->patch)
                   ? NULL
                   : "other code has changed it since it was hooked";
    why = choose(hook, text, &code);
    if (why)
        return why;
    if (is_in_another_library(patch_site(&hook->patch), hook->function) &&
        !module_keep(patch_site(&hook->patch)))
        return "its beginning jumps to a library that may be unloaded";
    room = code_take_room(&islands, hook->patch.at, ENTRY_ROOM);
    why = room ? entry_arch_build(hook, &code, room, &original) : "no addresses are free near it";
    if (!why && !patch_make(&hook->patch, room))
        why = "no addresses are free near it";
    if (!why)
        atomic_store(&hook->original, original);
    return why;
}

static const char pad_is_taken[] = "another hook uses the space before it";

/* -EEXIST: neighbours may choose one pad before either has its branch there. */
static const char *why_not(int error)
{
    switch (error) {
    case 0:
        return "";
    case -EEXIST:
        return pad_is_taken;
    case -EBUSY:
        return "other code changes it at the same time";
    default:
        return "its code cannot be made writable";
    }
}

#define SOME 32

/* Places as many hooks as possible. Returns their number. */
static size_t place(struct entry_hook *hooks, size_t count, struct code_text *text)
{
    struct patch *patches[SOME];
    size_t some = 0, done = 0;

    for (size_t i = 0; i < count; i++)
        if (!hooks[i].why[0])
            patches[some++] = &hooks[i].patch;
    patch_place(patches, some, text);
    for (size_t i = 0; i < count; i++) {
        if (hooks[i].why[0])
            continue;
        refuse(&hooks[i], why_not(hooks[i].patch.error));
        done += !hooks[i].why[0];
    }
    return done;
}

static size_t install(struct entry_hook *hooks, size_t count, struct code_text *text)
{
    const char *sealed = NULL;
    size_t done = 0;

    if (!entry_hooks_refusal() && !code_start())
        sealed = "membarrier(2) cannot synchronize code: an old kernel, or a system call filter";
    for (size_t i = 0; i < count; i++) {
        const char *why = sealed ? sealed : build(&hooks[i], text);

        refuse(&hooks[i], why ? why : "");
    }
    if (!sealed && !entry_hooks_refusal() && code_seal(&islands))
        sealed = "mprotect(2) does not make hmreg's memory executable";
    for (size_t i = 0; i < count; i++)
        if (sealed && !hooks[i].why[0])
            refuse(&hooks[i], sealed);
    for (size_t at = 0; at < count; at += SOME)
        done += place(hooks + at, count - at < SOME ? count - at : SOME, text);
    return done;
}

size_t entry_hooks_install(struct entry_hook *hooks, size_t count)
{
    struct code_text text = {0};
    size_t done = install(hooks, count, &text);

    for (size_t i = 0; i < count; i++)
        if (!strcmp(hooks[i].why, pad_is_taken)) {
            atomic_store(&hooks[i].original, NULL); /* the hook was never placed, so the stub was
                                                     * never called */
            done += install(&hooks[i], 1, &text);
        }
    return done;
}

bool entry_hook_is_whole(const struct entry_hook *hook)
{
    return !hook->why[0] && jumps_are_intact(hook) && patch_is_placed(&hook->patch);
}

void entry_hook_mend(struct entry_hook *hook)
{
    struct code_text text = {0};

    if (!hook->why[0])
        patch_mend(&hook->patch, &text);
}

bool entry_hook_remove(struct entry_hook *hook)
{
    struct patch *patch = &hook->patch;
    struct code_text text = {0};

    entry_hook_mend(hook);
    if (!entry_hook_is_whole(hook))
        return false;
    patch_restore(&patch, 1, &text);
    if (patch->error)
        return false;
    refuse(hook, "its hook was removed");
    return true;
}
