/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See elf_symbols.h. Needs libc only.
 */
#include "preload/verbs/elf_symbols.h"

#include <string.h>

/* Where the section is writable the dynamic linker has already added the load address. */
const void *elf_section(const struct link_map *map, ElfW(Sxword) tag)
{
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag; entry++)
        if (entry->d_tag == tag)
            return (const void *)(entry->d_un.d_ptr < map->l_addr ? map->l_addr + entry->d_un.d_ptr
                                                                  : entry->d_un.d_ptr);
    return NULL;
}

/* The number of symbols, from a DT_GNU_HASH table: header, filter, buckets, chains. An odd number
 * ends a chain. */
static uint32_t count_of_gnu(const uint32_t *hash)
{
    const uint32_t *buckets = hash + 4 + hash[2] * (sizeof(size_t) / sizeof(*hash));
    const uint32_t *chains = buckets + hash[0];
    uint32_t last = 0;

    for (uint32_t i = 0; i < hash[0]; i++)
        last = buckets[i] > last ? buckets[i] : last;
    if (last < hash[1])
        return 0;
    while (!(chains[last - hash[1]] & 1))
        last++;
    return last + 1;
}

static uint32_t symbol_count(const struct link_map *map)
{
    const uint32_t *gnu = elf_section(map, DT_GNU_HASH), *old = elf_section(map, DT_HASH);

    return gnu ? count_of_gnu(gnu) : old ? old[1] : 0;
}

const char *elf_version_of(const struct link_map *map, uint32_t index)
{
    const ElfW(Half) *versions = elf_section(map, DT_VERSYM);
    const char *entry = elf_section(map, DT_VERDEF), *names = elf_section(map, DT_STRTAB);

    while (versions && entry && names) {
        const ElfW(Verdef) *def = (const void *)entry;
        const ElfW(Verdaux) *aux = (const void *)(entry + def->vd_aux);

        if (def->vd_ndx == (versions[index] & 0x7fff))
            return names + aux->vda_name;
        if (!def->vd_next)
            break;
        entry += def->vd_next;
    }
    return NULL;
}

uintptr_t elf_find(const struct link_map *map, const char *name, const char *version)
{
    const ElfW(Sym) *symbols = elf_section(map, DT_SYMTAB);
    const char *names = elf_section(map, DT_STRTAB);
    uint32_t count = symbols && names ? symbol_count(map) : 0;

    for (uint32_t i = 1; i < count; i++) {
        const char *has;

        if (!symbols[i].st_shndx || strcmp(names + symbols[i].st_name, name))
            continue;
        has = version ? elf_version_of(map, i) : NULL;
        if (!version || (has && !strcmp(has, version)))
            return map->l_addr + symbols[i].st_value;
    }
    return 0;
}
