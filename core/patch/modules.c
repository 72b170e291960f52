/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See modules.h. The linker publishes its lists for debuggers; since glibc 2.35 the lists of
 * all namespaces. dl_iterate_phdr(3) holds the lock of the lists while it calls us, and no other
 * lock of the linker: so no thread that is inside dlopen(3) in a constructor is waited for.
 */
#include "core/patch/modules.h"

#include "core/patch/code.h"
#include "core/base/linker_list.h"
#include "core/base/maps.h"

#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#pragma weak _DYNAMIC /* this library's own; a statically linked program has none */

/* ---- symbols ---------------------------------------------------------------------------- */

/* The linker has added the load address to these pointers, where the section is writable. */
static const void *section(const struct link_map *map, ElfW(Sxword) tag)
{
    for (const ElfW(Dyn) *entry = map->l_ld; entry && entry->d_tag; entry++)
        if (entry->d_tag == tag)
            return (const void *)(entry->d_un.d_ptr < map->l_addr ? map->l_addr + entry->d_un.d_ptr
                                                                  : entry->d_un.d_ptr);
    return NULL;
}

struct symbols {
    const ElfW(Sym) * table;
    const char *names;
};

/* Assembly may omit the type. */
static bool may_be_function(const ElfW(Sym) * symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);

    return type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
}

/* The definition after *nth others, which it counts down. */
static const ElfW(Sym) *
    defined(const struct symbols *symbols, uint32_t index, const char *name, unsigned *nth)
{
    const ElfW(Sym) *symbol = &symbols->table[index];

    if (!symbol->st_shndx || !may_be_function(symbol) ||
        strcmp(symbols->names + symbol->st_name, name) != 0)
        return NULL;
    return (*nth)-- ? NULL : symbol;
}

/* DT_GNU_HASH: the numbers of buckets, of the first symbol, of words of the filter, a shift; the
 * filter; the buckets; for each symbol its hash, of which the last bit ends a chain. */
static const ElfW(Sym) * find_by_gnu_hash(const uint32_t *hash, const struct symbols *symbols,
                                          const char *name, unsigned nth)
{
    const size_t bits = 8 * sizeof(ElfW(Addr));
    const ElfW(Addr) *filter = (const void *)(hash + 4);
    const uint32_t *buckets = (const void *)(filter + hash[2]), *chains = buckets + hash[0];
    uint32_t value = 5381, index;
    ElfW(Addr) word;

    for (const char *at = name; *at; at++)
        value = value * 33 + (uint8_t)*at;
    word = filter[value / bits % hash[2]];
    if (!(word >> value % bits & word >> (value >> hash[3]) % bits & 1))
        return NULL;
    index = hash[0] ? buckets[value % hash[0]] : 0;
    for (; index >= hash[1] && index; index++) {
        const ElfW(Sym) *found = NULL;

        if ((chains[index - hash[1]] | 1) == (value | 1))
            found = defined(symbols, index, name, &nth);
        if (found || chains[index - hash[1]] & 1)
            return found;
    }
    return NULL;
}

/* DT_HASH: the numbers of buckets and of symbols. */
static const ElfW(Sym) *
    find_in_all(const uint32_t *hash, const struct symbols *symbols, const char *name, unsigned nth)
{
    const ElfW(Sym) *found = NULL;

    for (uint32_t index = 0; index < hash[1] && !found; index++)
        found = defined(symbols, index, name, &nth);
    return found;
}

const ElfW(Sym) * module_function(const struct module *module, const char *name, unsigned nth)
{
    struct symbols symbols = {section(module->map, DT_SYMTAB), section(module->map, DT_STRTAB)};
    const uint32_t *gnu = section(module->map, DT_GNU_HASH);
    const uint32_t *hash = section(module->map, DT_HASH);

    if (!symbols.table || !symbols.names)
        return NULL;
    return gnu    ? find_by_gnu_hash(gnu, &symbols, name, nth)
           : hash ? find_in_all(hash, &symbols, name, nth)
                  : NULL;
}

bool module_stays(const struct module *module)
{
    if (!module->file[0])
        return true;
    for (const ElfW(Dyn) *entry = module->map->l_ld; entry && entry->d_tag; entry++)
        if (entry->d_tag == DT_FLAGS_1)
            return entry->d_un.d_val & DF_1_NODELETE;
    return false;
}

/* ---- code ------------------------------------------------------------------------------- */

struct text_search {
    uint64_t address;
    struct module_text *found;
};

static bool is_code(const ElfW(Phdr) * segment)
{
    return segment->p_type == PT_LOAD && segment->p_flags & PF_X;
}

static struct module_text text_of(const struct dl_phdr_info *file, const ElfW(Phdr) * segment)
{
    uint64_t start = file->dlpi_addr + segment->p_vaddr;

    return (struct module_text){file->dlpi_name ? file->dlpi_name : "", start,
                                start + segment->p_memsz};
}

static int look_for_text(struct dl_phdr_info *file, size_t size, void *arg)
{
    struct text_search *search = arg;

    for (int i = 0; i < file->dlpi_phnum; i++) {
        struct module_text text = text_of(file, &file->dlpi_phdr[i]);

        if (!is_code(&file->dlpi_phdr[i]) || search->address - text.start >= text.end - text.start)
            continue;
        *search->found = text;
        return 1;
    }
    return 0;
}

bool module_text(uint64_t address, struct module_text *out)
{
    struct text_search search = {address, out};

    return linker_list_read(look_for_text, &search) == 1;
}

static int look_for_linker(struct dl_phdr_info *file, size_t size, void *arg)
{
    struct text_search *search = arg;

    if (file->dlpi_addr != search->address)
        return 0;
    for (int i = 0; i < file->dlpi_phnum; i++)
        if (is_code(&file->dlpi_phdr[i]))
            *search->found = text_of(file, &file->dlpi_phdr[i]);
    return 1;
}

struct name_search {
    uint64_t address;
    char name[PATH_MAX];
};

static int copy_name(struct dl_phdr_info *file, size_t size, void *arg)
{
    struct name_search *search = arg;
    struct module_text text;

    if (!look_for_text(file, size, &(struct text_search){search->address, &text}))
        return 0;
    snprintf(search->name, sizeof(search->name), "%s", text.file);
    return 1;
}

/* Its name is copied, as the file may be unloaded. The linker's lists are not locked while it is
 * opened: dlopen(3) takes a lock that comes before theirs. */
__attribute__((noinline)) bool module_keep(const void *code)
{
    struct name_search search = {.address = (uintptr_t)code};
    void *file;

    if (linker_list_read(copy_name, &search) != 1)
        return false;
    if (!search.name[0])
        return true;
    file = dlopen(search.name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (file)
        dlclose(file);
    return file;
}

/* ---- namespaces ------------------------------------------------------------------------- */

static bool is_ours(const struct link_map *first)
{
    for (const struct link_map *map = first; map; map = map->l_next)
        if (map->l_ld == _DYNAMIC)
            return true;
    return false;
}

/* Every auditor defines la_version(). */
static bool is_auditors(const struct link_map *first)
{
    for (const struct link_map *map = first; map; map = map->l_next)
        if (module_function(&(struct module){.map = map}, "la_version", 0))
            return true;
    return false;
}

static bool stays(const struct r_debug *list, bool first)
{
    return first || is_ours(list->r_map) || is_auditors(list->r_map);
}

static const struct r_debug *next_list(const struct r_debug *list)
{
#if __GLIBC_PREREQ(2, 35)
    if (list->r_version > 1)
        return (const struct r_debug *)((const struct r_debug_extended *)list)->r_next;
#endif
    return NULL;
}

/* The segments of the program itself. */
struct program {
    const ElfW(Phdr) * segments;
    unsigned long count;
    uint64_t base;
};

/* The base of a program without PT_PHDR, such as a static one, is unknown. Unless it is loaded at
 * its linked address, it counts as a program without segments. */
static struct program own_program(void)
{
    struct program own = {(const void *)getauxval(AT_PHDR), getauxval(AT_PHNUM), 0};
    uint64_t headers = getauxval(AT_PHDR);
    bool known = false;

    for (unsigned long i = 0; own.segments && i < own.count && !known; i++) {
        const ElfW(Phdr) *segment = &own.segments[i];

        if (segment->p_type == PT_PHDR)
            own.base = headers - segment->p_vaddr;
        known = segment->p_type == PT_PHDR ||
                (segment->p_type == PT_LOAD && headers - segment->p_vaddr < segment->p_memsz);
    }
    if (!known)
        own.count = 0;
    return own;
}

/* The linker leaves the address of its first list in the program's dynamic section. Its symbol,
 * _r_debug, may be the program's copy of the first bytes. */
static const struct r_debug *first_list(void)
{
    struct program own = own_program();
    const ElfW(Dyn) *entry = NULL;

    for (unsigned long i = 0; i < own.count; i++)
        if (own.segments[i].p_type == PT_DYNAMIC)
            entry = (const void *)(uintptr_t)(own.base + own.segments[i].p_vaddr);
    while (entry && entry->d_tag && entry->d_tag != DT_DEBUG)
        entry++;
    return entry && entry->d_tag ? (const struct r_debug *)entry->d_un.d_ptr : NULL;
}

/* The linker's base, however it was started: it may be the command itself. */
bool modules_linker(struct module_text *out)
{
    const struct r_debug *list = getauxval(AT_BASE) ? NULL : first_list();
    struct text_search search = {list ? list->r_ldbase : getauxval(AT_BASE), out};

    return search.address && linker_list_read(look_for_linker, &search) == 1;
}

struct visit {
    int (*look)(const struct module *module, void *arg);
    void *arg;
    const struct r_debug *first;
    int result;
};

/* If there are other namespaces, the count of all files exceeds that of one namespace. It serves
 * for nothing else: glibc counts the files of other namespaces several times. */
static int visit_all(struct dl_phdr_info *any, size_t size, void *arg)
{
    unsigned long long loaded = any->dlpi_adds - any->dlpi_subs, seen = 0;
    struct visit *visit = arg;

    for (const struct r_debug *list = visit->first; list; list = next_list(list)) {
        bool all_stay = stays(list, list == visit->first);

        for (const struct link_map *map = list->r_map; map && !visit->result; map = map->l_next) {
            const struct module module = {map->l_name ? map->l_name : "", map, all_stay};

            seen++;
            visit->result = visit->look(&module, visit->arg);
        }
    }
    if (!visit->result && seen < loaded && !next_list(visit->first))
        visit->result = visit->look(NULL, visit->arg);
    return 1; /* called once only */
}

int modules_each(int (*look)(const struct module *module, void *arg), void *arg)
{
    struct visit visit = {look, arg, first_list(), 0};

    if (visit.first)
        (void)linker_list_read(visit_all, &visit);
    return visit.result;
}

struct settling {
    const struct r_debug *first;
    struct modules_count *now;
    bool settled;
};

/* The state is read with the lists locked: the linker enters a file under that lock, and reports
 * the end later. */
static int find_unsettled(struct dl_phdr_info *any, size_t size, void *arg)
{
    struct settling *settling = arg;

    settling->now->added = any->dlpi_adds;
    for (const struct r_debug *list = settling->first; list; list = next_list(list)) {
        if (__atomic_load_n(&list->r_state, __ATOMIC_ACQUIRE) != RT_CONSISTENT)
            settling->settled = false;
        for (const struct link_map *map = list->r_map; map; map = map->l_next)
            settling->now->listed++;
    }
    return 1;
}

bool modules_are_settled(struct modules_count *now)
{
    struct settling settling = {first_list(), now, true};

    *now = (struct modules_count){0};
    if (settling.first && linker_list_read(find_unsettled, &settling) < 0)
        return false;
    return settling.settled;
}

/* ---- files that are in no list yet ------------------------------------------------------ */

#if __GLIBC_PREREQ(2, 35)
#pragma weak _dl_find_object

/* Takes no lock, and finds files of all namespaces. A file stays in a list from before
 * _dl_find_object() finds it until before it is unmapped. */
static bool is_listed(uint64_t address)
{
    struct dl_find_object found;

    return !_dl_find_object || !_dl_find_object((void *)(uintptr_t)address, &found);
}
#else
static bool is_listed(uint64_t address)
{
    return true;
}
#endif

/* _dl_find_object() knows a program that has gaps between its segments by their bytes: a mapping of
 * it begins before, at a page. */
static bool is_of_program(const struct map *map)
{
    struct program own = own_program();
    bool is = false;

    for (unsigned long i = 0; i < own.count && !is; i++) {
        const ElfW(Phdr) *segment = &own.segments[i];
        uint64_t start = own.base + segment->p_vaddr;

        is =
            segment->p_type == PT_LOAD && start < map->end && map->start < start + segment->p_memsz;
    }
    return is;
}

/* The linker may have reserved the range by memory without any right. */
static bool may_be_file(const struct map *map)
{
    return !map->anonymous || !map->readable;
}

bool modules_have(uint64_t address, bool *gone)
{
    struct maps maps;
    struct map map;
    int found;

    *gone = false;
    if (is_listed(address))
        return true;
    maps_begin(&maps, NULL);
    found = maps_next(&maps, address, &map);
    maps_end(&maps);
    *gone = !found || (found == 1 && (map.start > address || !may_be_file(&map)));
    return *gone;
}

/* The memory may be unmapped meanwhile. The linker has read the first page of each file that it
 * maps; to read another could make it, as in a hole of a memfd. */
static bool begins_as_elf(uint64_t start)
{
    unsigned char resident = 1;
    char magic[SELFMAG];

    if (!mincore((void *)(uintptr_t)start, 1, &resident) && !(resident & 1))
        return false;
    return code_read(start, magic, SELFMAG) && memcmp(magic, ELFMAG, SELFMAG) == 0;
}

/* Code is in a file's first mapping or in its second one. Other files whose code is mapped, as some
 * make for code that they have generated, do not begin as those of the linker do. */
bool modules_is_one_unlisted(void)
{
    struct map map, before = {.start = 0};
    bool unlisted = false;
    struct maps maps;

    maps_begin(&maps, NULL);
    for (uint64_t at = 0; !unlisted && maps_next(&maps, at, &map) == 1; at = map.end) {
        bool follows = before.end == map.start && before.end && !before.anonymous;

        if (map.executable && !map.anonymous && !is_listed(map.start) && !is_of_program(&map) &&
            !code_is_twin(map.start))
            unlisted = begins_as_elf(map.start) || (follows && begins_as_elf(before.start));
        before = map;
    }
    maps_end(&maps);
    return unlisted;
}
