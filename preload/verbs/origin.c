/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See origin.h. The addresses of both libraries are cached: as dependencies of this one they stay
 * loaded.
 */
#include "preload/verbs/origin.h"

#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct library {
    const char *name; /* begin of the file's name */
    _Atomic uintptr_t first, last;
};
static struct library libibverbs = {.name = "libibverbs.so"};
static struct library libhmreg_verbs = {.name = "libhmreg-verbs.so"};

/* The dynamic linker's callback. */
static int find_library(struct dl_phdr_info *info, size_t size, void *out)
{
    const char *slash = strrchr(info->dlpi_name, '/');
    struct library *library = out;
    uintptr_t last = 1;

    if (strncmp(slash ? slash + 1 : info->dlpi_name, library->name, strlen(library->name)))
        return 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;

        last = segment->p_type == PT_LOAD && end > last ? end : last;
    }
    atomic_store_explicit(&library->first, info->dlpi_addr, memory_order_relaxed);
    atomic_store_explicit(&library->last, last, memory_order_release);
    return 1;
}

static bool contains(struct library *library, const void *caller)
{
    uintptr_t last = atomic_load_explicit(&library->last, memory_order_acquire);

    if (!last) {
        dl_iterate_phdr(find_library, library);
        last = atomic_load(&library->last);
    }
    return (uintptr_t)caller >= atomic_load_explicit(&library->first, memory_order_relaxed) &&
           (uintptr_t)caller < last;
}

enum origin origin_of(const void *caller)
{
    if (!caller || contains(&libibverbs, caller))
        return ORIGIN_LIBIBVERBS;
    return contains(&libhmreg_verbs, caller) ? ORIGIN_HMREG : ORIGIN_PROGRAM;
}
