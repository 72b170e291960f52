/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The tables of a loaded object, as the dynamic linker reads them. The object stays loaded during a
 * call.
 */
#ifndef HMREG_PRELOAD_VERBS_ELF_SYMBOLS_H
#define HMREG_PRELOAD_VERBS_ELF_SYMBOLS_H

#include <link.h>
#include <stdint.h>

/* The table with this tag (DT_SYMTAB or another with an address as value); NULL: none. */
const void *elf_section(const struct link_map *map, ElfW(Sxword) tag);

/* The name of the version of the symbol with this index; NULL: it has none. */
const char *elf_version_of(const struct link_map *map, uint32_t index);

/* The address of the object's definition of the name, with this version unless it is NULL. 0:
 * none. */
uintptr_t elf_find(const struct link_map *map, const char *name, const char *version);

#endif
