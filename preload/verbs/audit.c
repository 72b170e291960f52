/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * libhmreg-audit.so, for LD_AUDIT beside libhmreg-preload.so in LD_PRELOAD: a program that looks
 * libibverbs' functions up on a handle (dlsym(3), dlvsym(3)), or binds to them past LD_PRELOAD
 * (RTLD_DEEPBIND), gets libhmreg-preload.so's functions too, of the same version.
 *
 * The dynamic linker loads this library into a namespace with a libc of its own, and calls it only
 * where an object binds to libibverbs. Objects that define the function themselves, such as another
 * library in LD_PRELOAD, and hmreg's own libraries bind to libibverbs.
 */
#include "preload/verbs/reloc_caller.h"
#include "preload/verbs/elf_symbols.h"

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

/* Marks libhmreg-preload.so: programs will look its functions up (reloc_caller.h). */
static void tell(void)
{
    uintptr_t flag = elf_find(preload, RELOC_LOOKED_UP, NULL);

    if (flag)
        *(volatile char *)flag = 1;
}

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
    const char *version = begins(name, "ibv_") ? elf_version_of(of, index) : NULL;
    uintptr_t ours = preload && version ? elf_find(preload, name, version) : 0;

    if (!ours || elf_find((const struct link_map *)*from, name, NULL))
        return symbol->st_value;
    tell();
    return ours;
}

#pragma GCC visibility pop
