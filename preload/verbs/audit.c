/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * libhmreg-audit.so, for LD_AUDIT beside libhmreg-preload.so in LD_PRELOAD: a program that looks
 * libibverbs' functions up on a handle (dlsym(3), dlvsym(3)), or binds to them past LD_PRELOAD
 * (RTLD_DEEPBIND), gets those of libhmreg-preload.so too, of the same version.
 *
 * The dynamic linker loads this library with a libc of its own, apart from the program's, and asks
 * it only where an object binds to libibverbs. Objects that define the function themselves, such as
 * another library in LD_PRELOAD, and hmreg's own libraries bind to libibverbs.
 */
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static const struct link_map *preload; /* libhmreg-preload.so */

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static const char *base_name(const struct link_map *map)
{
    const char *slash = strrchr(map->l_name, '/');

    return slash ? slash + 1 : map->l_name;
}

/* ---- symbol tables ----------------------------------------------------------------------- */

/* The dynamic linker has added the load address to these pointers, where the section is writable.
 */
static const void *section(const struct link_map *map, ElfW(Sxword) tag)
{
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag; entry++)
        if (entry->d_tag == tag)
            return (const void *)(entry->d_un.d_ptr < map->l_addr ? map->l_addr + entry->d_un.d_ptr
                                                                  : entry->d_un.d_ptr);
    return NULL;
}

/* One more than the last symbol in a table of the kind DT_GNU_HASH: header, filter, buckets,
 * chains, of which each ends with an odd number. */
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
    const uint32_t *gnu = section(map, DT_GNU_HASH), *old = section(map, DT_HASH);

    return gnu ? count_of_gnu(gnu) : old ? old[1] : 0;
}

/* The name of the version of the symbol with this index; NULL: it has none. */
static const char *version_of(const struct link_map *map, uint32_t index)
{
    const ElfW(Half) *versions = section(map, DT_VERSYM);
    const char *entry = section(map, DT_VERDEF), *names = section(map, DT_STRTAB);

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

/* The address of a function that the object defines; of this version unless that is NULL. 0: none.
 */
static uintptr_t find(const struct link_map *map, const char *name, const char *version)
{
    const ElfW(Sym) *symbols = section(map, DT_SYMTAB);
    const char *names = section(map, DT_STRTAB);
    uint32_t count = symbols && names ? symbol_count(map) : 0;

    for (uint32_t i = 1; i < count; i++) {
        const char *has;

        if (!symbols[i].st_shndx || strcmp(names + symbols[i].st_name, name))
            continue;
        has = version ? version_of(map, i) : NULL;
        if (!version || (has && !strcmp(has, version)))
            return map->l_addr + symbols[i].st_value;
    }
    return 0;
}

/* ---- what the dynamic linker calls ------------------------------------------------------- */

#pragma GCC visibility push(default)

unsigned la_version(unsigned version);
unsigned la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie);
uintptr_t la_symbind64(ElfW(Sym) * symbol, unsigned index, uintptr_t *from, uintptr_t *to,
                       unsigned *flags, const char *name);

unsigned la_version(unsigned version)
{
    return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned la_objopen(struct link_map *map, Lmid_t lmid, uintptr_t *cookie)
{
    const char *name = base_name(map);

    *cookie = (uintptr_t)map;
    if (lmid != LM_ID_BASE)
        return 0;
    if (!strcmp(name, "libhmreg-preload.so"))
        preload = map;
    if (begins(name, "libhmreg"))
        return 0;
    return begins(name, "libibverbs.so") ? LA_FLG_BINDTO : LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(ElfW(Sym) * symbol, unsigned index, uintptr_t *from, uintptr_t *to,
                       unsigned *flags, const char *name)
{
    const struct link_map *of = (const struct link_map *)*to;
    const char *version = begins(name, "ibv_") ? version_of(of, index) : NULL;
    uintptr_t ours = preload && version ? find(preload, name, version) : 0;

    if (!ours || find((const struct link_map *)*from, name, NULL))
        return symbol->st_value;
    return ours;
}

#pragma GCC visibility pop
