/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See reloc_caller.h. Searches a module's relocations once for each return address.
 */
#include "preload/verbs/reloc_caller.h"
#include "preload/verbs/elf_symbols.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#define TYPE_SLOT R_X86_64_JUMP_SLOT
#define TYPE_DATA R_X86_64_GLOB_DAT
#define TYPE_WORD R_X86_64_64
#else
#define TYPE_SLOT R_AARCH64_JUMP_SLOT
#define TYPE_DATA R_AARCH64_GLOB_DAT
#define TYPE_WORD R_AARCH64_ABS64
#endif

static size_t number(const struct link_map *map, ElfW(Sxword) tag)
{
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag; entry++)
        if (entry->d_tag == tag)
            return entry->d_un.d_val;
    return 0;
}

/* Does a relocation for the name, in the table with this tag, hold the address? */
static bool holds(const struct link_map *map, ElfW(Sxword) tag, ElfW(Sxword) size_tag,
                  const char *name, const void *address)
{
    const ElfW(Rela) *relocations = elf_section(map, tag);
    const ElfW(Sym) *symbols = elf_section(map, DT_SYMTAB);
    const char *names = elf_section(map, DT_STRTAB);
    size_t count =
        relocations && symbols && names ? number(map, size_tag) / sizeof(*relocations) : 0;

    for (size_t i = tag == DT_RELA ? number(map, DT_RELACOUNT) : 0; i < count; i++) {
        uint64_t type = ELF64_R_TYPE(relocations[i].r_info);

        if ((type == TYPE_SLOT || type == TYPE_DATA || type == TYPE_WORD) &&
            !strcmp(names + symbols[ELF64_R_SYM(relocations[i].r_info)].st_name, name) &&
            *(void *const *)(map->l_addr + relocations[i].r_offset) == address)
            return true;
    }
    return false;
}

static bool search(const void *caller, const char *name, const void *ours)
{
    struct dl_find_object module;
    const struct link_map *map;

    if (_dl_find_object((void *)caller, &module))
        return false;
    map = module.dlfo_link_map;
    return holds(map, DT_JMPREL, DT_PLTRELSZ, name, ours) ||
           holds(map, DT_RELA, DT_RELASZ, name, ours) || elf_find(map, name, NULL);
}

bool reloc_calls(const void *caller, const char *name, const void *ours)
{
    /* Elements: the address << 16, the bit FOUND, and the answer. After a module was unloaded,
     * another may take its addresses. The answer is wrong then only if the new module calls this
     * function from exactly this address and is bound to another. */
    enum { FOUND = 2 };
    static _Atomic uint64_t answers[64];
    uint64_t address = (uint64_t)(uintptr_t)caller << 16 | FOUND, found;
    _Atomic uint64_t *slot = &answers[(uintptr_t)caller / 4 % 64];

    found = atomic_load_explicit(slot, memory_order_relaxed);
    if ((found & ~(uint64_t)1) == address)
        return found & 1;
    found = address | search(caller, name, ours);
    atomic_store_explicit(slot, found, memory_order_relaxed);
    return found & 1;
}
