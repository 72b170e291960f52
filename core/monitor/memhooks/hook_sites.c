/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See hook_sites.h. hook_sites_find() searches each function of the wanted names in every loaded
 * file: libc's own, an interposer's (a preloaded allocator's) or another libc's, whether or
 * not this library is linked to them; and the dynamic linker, which has a munmap of its own. libc's
 * function must have a site. An interposer need not, if it does not enter the kernel itself: then
 * it calls libc. The same holds for a library that has put a jump over the beginning of libc's
 * function; the whole file that the jump leads to is searched.
 *
 * A libc that dlmopen(3) loaded is not hooked, since it may be unloaded at any time.
 *
 * In a statically linked program the resolved functions are the program's copy of libc, and the
 * only ones.
 *
 * A second system call in one of libc's functions, in another form, is not hooked: glibc 2.41's
 * mmap(2) on x86-64 has one, for executable memory at an address that the kernel chooses
 * (prefer_map_32bit_exec), which replaces no mapping. unit_memhooks_sites checks that each entry in
 * this machine's libc is hooked, or lists the reason why not.
 */
#include "core/monitor/memhooks/hook_sites.h"

#include "core/base/error.h"
#include "core/monitor/memhooks/hook_arch.h"
#include "core/monitor/memhooks/modules.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define UNKNOWN_SIZE 128 /* bytes that are searched if a function's size is unknown */

#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

/* A statically linked program has it only if it calls it. */
#pragma weak posix_madvise

/* Not every libc has it. */
extern ssize_t process_madvise(int, const struct iovec *, size_t, int, unsigned)
    __attribute__((weak));

struct wanted {
    const char *name;
    uintptr_t resolved;
    long number;
    bool is_searched; /* the resolved function */
};

/* ---- loaded files ----------------------------------------------------------------------- */

/* The executable segment of a loaded file. */
struct text {
    const char *file; /* "": the program */
    uintptr_t start, end;
    int protection;   /* PROT_* */
    bool is_function; /* struct hook_code */
};

struct text_search {
    uintptr_t address;
    struct text *found;
};

static int protection_of(const ElfW(Phdr) * segment)
{
    return (segment->p_flags & PF_R ? PROT_READ : 0) | (segment->p_flags & PF_W ? PROT_WRITE : 0) |
           (segment->p_flags & PF_X ? PROT_EXEC : 0);
}

static int look_for_text(struct dl_phdr_info *file, size_t size, void *arg)
{
    struct text_search *search = arg;

    for (int i = 0; i < file->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &file->dlpi_phdr[i];
        uintptr_t start = file->dlpi_addr + segment->p_vaddr;

        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
            continue;
        if (search->address < start || search->address - start >= segment->p_memsz)
            continue;
        *search->found = (struct text){file->dlpi_name ? file->dlpi_name : "", start,
                                       start + segment->p_memsz, protection_of(segment), false};
        return 1;
    }
    return 0;
}

static bool text_of(uintptr_t address, struct text *out)
{
    struct text_search search = {address, out};

    return dl_iterate_phdr(look_for_text, &search) == 1;
}

static int look_for_linker(struct dl_phdr_info *file, size_t size, void *arg)
{
    struct text_search *search = arg;

    if (file->dlpi_addr != search->address)
        return 0;
    for (int i = 0; i < file->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &file->dlpi_phdr[i];

        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X)
            *search->found = (struct text){file->dlpi_name, file->dlpi_addr + segment->p_vaddr,
                                           file->dlpi_addr + segment->p_vaddr + segment->p_memsz,
                                           protection_of(segment), false};
    }
    return 1;
}

/* Finds the dynamic linker's text. False: this program has no dynamic linker. */
static bool linkers_text(struct text *out)
{
    struct text_search search = {modules_linker(), out};

    return search.address && dl_iterate_phdr(look_for_linker, &search) == 1;
}

/* ---- entries of the kernel -------------------------------------------------------------- */

bool hook_is_stub(const uint8_t *at, long number)
{
    const uint8_t *stub = hook_arch_target(at);
    long found;

    return stub && hook_stub_number(stub, &found) && found == number;
}

static struct hook_code code_of(const struct text *text)
{
    return (struct hook_code){(uint8_t *)text->start, text->end - text->start, text->is_function};
}

/* Finds the first entry at *at or behind it, and sets *at to its place. False: there is none. */
static bool next_entry(const struct hook_code *code, size_t *at, struct hook_entry *out)
{
    for (*at = hook_arch_next(code, *at); *at < code->size;
         *at = hook_arch_next(code, *at + HOOK_CODE_STEP))
        if (hook_arch_enters(code, *at, out))
            return true;
    return false;
}

static int add_site(struct hook_sites *sites, const struct wanted *wanted, const struct text *text,
                    const struct hook_entry *entry)
{
    for (size_t i = 0; i < sites->count; i++)
        if (sites->site[i].at == entry->site)
            return 0;
    if (sites->count == HOOK_SITES_MAX)
        return hmreg_fail(-EOPNOTSUPP, "memhooks: more than %d places to hook", HOOK_SITES_MAX);
    sites->site[sites->count++] = (struct hook_site){wanted->name, entry->site, entry->enter,
                                                     entry->number, text->protection};
    return 0;
}

/* Adds the function's sites of this system call, and those whose number is known only when they are
 * reached: their stubs check it. *found and *others are incremented: for each such site, and for
 * each other entry to the kernel. */
static int add_sites(struct hook_sites *sites, const struct wanted *wanted, const struct text *text,
                     unsigned *found, unsigned *others)
{
    struct hook_code code = code_of(text);
    struct hook_entry entry;
    int rc = 0;

    for (size_t at = 0; !rc && next_entry(&code, &at, &entry); at += HOOK_CODE_STEP) {
        if (entry.site && (entry.number == wanted->number || entry.number == HOOK_ANY_CALL)) {
            rc = add_site(sites, wanted, text, &entry);
            ++*found;
        } else {
            ++*others;
        }
    }
    return rc;
}

/* ---- functions -------------------------------------------------------------------------- */

static int refuse(const struct wanted *wanted, const struct text *text, const char *why)
{
    return hmreg_fail(-EOPNOTSUPP, "memhooks: %s() of %s %s; use userfaultfd or import",
                      wanted->name, text->file[0] ? text->file : "this program", why);
}

/* Is this one of the hooked system calls? */
static bool changes_mappings(long number)
{
    static const long numbers[] = {SYS_munmap, SYS_mmap,  SYS_mremap,         SYS_madvise,
                                   SYS_brk,    SYS_shmat, SYS_process_madvise};

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (numbers[i] == number)
            return true;
    return false;
}

/* Adds all sites of another library's file that change mappings. */
static int find_in_file(struct hook_sites *sites, const struct wanted *wanted,
                        const struct text *text)
{
    struct hook_code code = code_of(text);
    struct hook_entry entry;
    int rc = 0;

    for (size_t at = 0; !rc && next_entry(&code, &at, &entry); at += HOOK_CODE_STEP) {
        if (!entry.site || entry.number == HOOK_ANY_CALL)
            return refuse(wanted, text,
                          "has been put before libc's and enters the kernel in a form that cannot "
                          "be hooked");
        if (changes_mappings(entry.number))
            rc = add_site(sites, wanted, text, &entry);
    }
    return rc;
}

/* Records the beginning of a function whose calls pass through sites as long as it is unchanged. */
static void rely_on(struct hook_sites *sites, const uint8_t *function)
{
    for (size_t i = 0; i < sites->starts; i++)
        if (sites->start[i].at == function)
            return;
    if (sites->starts == HOOK_SITES_MAX)
        return;
    sites->start[sites->starts].at = function;
    memcpy(sites->start[sites->starts++].bytes, function, HOOK_SITE_SIZE);
}

/* Handles a jump that another library has put over the beginning of libc's function. *found:
 * incremented if the code it leads to is hooked. */
static int find_behind_jump(struct hook_sites *sites, const struct wanted *wanted,
                            const struct text *own, unsigned *found)
{
    const uint8_t *function = (const uint8_t *)own->start;
    struct text other = {.file = ""};
    uintptr_t target;
    int rc;

    if (!hook_arch_begins_with_jump(function, &target) || hook_is_stub(function, wanted->number))
        return 0;
    if (!text_of(target, &other))
        return refuse(wanted, own, "begins with a jump to code that is in no file");
    if (strcmp(other.file, own->file) == 0)
        return 0;
    rc = find_in_file(sites, wanted, &other);
    if (!rc && sites->others == HOOK_OTHERS_MAX)
        rc = refuse(wanted, own, "begins with one more jump to another library");
    if (!rc) {
        sites->other[sites->others++] = (const uint8_t *)target;
        ++*found;
    }
    return rc;
}

/* must: it is libc's. stays: it is never unloaded. */
static int find_in_function(struct hook_sites *sites, const struct wanted *wanted,
                            const struct text *text, bool must, bool stays)
{
    unsigned found = 0, others = 0;
    int rc = add_sites(sites, wanted, text, &found, &others);

    if (!rc && must)
        rc = find_behind_jump(sites, wanted, text, &found);
    if (rc)
        return rc;
    if (must && !found)
        return refuse(wanted, text,
                      "does not enter the kernel in a form that can be hooked "
                      "(something else may have hooked or probed it)");
    if (!must && others)
        return refuse(wanted, text,
                      "stands before libc's and enters the kernel in a form "
                      "that cannot be hooked");
    if (found && !stays)
        return refuse(wanted, text, "enters the kernel itself, in a file that may be unloaded");
    if (found)
        rely_on(sites, (const uint8_t *)text->start);
    return 0;
}

/* ---- files ------------------------------------------------------------------------------ */

struct search {
    struct hook_sites *sites;
    struct wanted *wanted;
    size_t count;
    bool has_libc;
};

static bool is_libc(const struct module *module)
{
    const char *name = strrchr(module->file, '/');

    return strcmp(name ? name + 1 : module->file, "libc.so.6") == 0;
}

static int find_by_symbol(struct search *search, struct wanted *wanted, const struct module *module,
                          const ElfW(Sym) * symbol)
{
    struct text text = {module->file, .protection = PROT_READ | PROT_EXEC}, segment;

    text.start = module->map->l_addr + symbol->st_value;
    text.end = text.start + (symbol->st_size ? symbol->st_size : UNKNOWN_SIZE);
    text.is_function = symbol->st_size;
    if (!symbol->st_size && text_of(text.start, &segment) && text.end > segment.end)
        text.end = segment.end;
    wanted->is_searched |= text.start == wanted->resolved;
    if (!module->all_stay)
        return refuse(wanted, &text, "was loaded by dlmopen(3) and cannot be hooked");
    if (ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC)
        return refuse(wanted, &text, "is chosen by a resolver (IFUNC)");
    search->has_libc |= is_libc(module);
    return find_in_function(search->sites, wanted, &text, is_libc(module),
                            is_libc(module) || module_stays(module));
}

static int find_in_module(struct search *search, struct wanted *wanted, const struct module *module)
{
    const ElfW(Sym) * symbol;
    int rc = 0;

    for (unsigned nth = 0; !rc && (symbol = module_function(module, wanted->name, nth)); nth++)
        rc = find_by_symbol(search, wanted, module, symbol);
    return rc;
}

static int look_into(const struct module *module, void *arg)
{
    struct search *search = arg;
    int rc = 0;

    if (!module)
        return hmreg_fail(-EOPNOTSUPP, "memhooks: this dynamic linker does not show what it loaded "
                                       "into another namespace; use userfaultfd or import");
    for (size_t i = 0; !rc && i < search->count; i++)
        rc = find_in_module(search, &search->wanted[i], module);
    return rc;
}

/* A function that no file exports: the program's own, or one of a statically linked libc. must: as
 * in find_in_function(). */
static int find_resolved(struct hook_sites *sites, const struct wanted *wanted, bool must)
{
    struct text text = {.file = ""};

    if (!wanted->resolved || wanted->is_searched)
        return 0;
    if (!text_of(wanted->resolved, &text))
        return refuse(wanted, &text, "is not in any loaded file");
    text.start = wanted->resolved;
    if (text.end - text.start > UNKNOWN_SIZE)
        text.end = text.start + UNKNOWN_SIZE;
    return find_in_function(sites, wanted, &text, must, true);
}

/* dlclose(3) unmaps by the dynamic linker's own munmap, which has no symbol; dlopen(3) maps code,
 * which may change mappings, by its mmap. All of its text is searched, once for both. */
static int find_linkers(struct hook_sites *sites)
{
    static const struct wanted calls[] = {{"munmap", 0, SYS_munmap, false},
                                          {"mmap", 0, SYS_mmap, false}};
    const size_t count = sizeof(calls) / sizeof(calls[0]);
    unsigned found[sizeof(calls) / sizeof(calls[0])] = {0};
    struct hook_code code;
    struct hook_entry entry;
    struct text text;
    int rc = 0;

    if (!linkers_text(&text))
        return 0;
    code = code_of(&text);
    for (size_t at = 0; !rc && next_entry(&code, &at, &entry); at += HOOK_CODE_STEP)
        for (size_t i = 0; !rc && i < count; i++)
            if (entry.site && entry.number == calls[i].number) {
                rc = add_site(sites, &calls[i], &text, &entry);
                found[i]++;
            }
    for (size_t i = 0; !rc && i < count; i++)
        if (!found[i])
            rc = refuse(&calls[i], &text, "is in no form that can be hooked");
    return rc;
}

struct name_search {
    uintptr_t address;
    char name[PATH_MAX];
};

static int copy_name(struct dl_phdr_info *file, size_t size, void *arg)
{
    struct name_search *search = arg;
    struct text text;
    struct text_search of = {search->address, &text};

    if (!look_for_text(file, size, &of))
        return 0;
    snprintf(search->name, sizeof(search->name), "%s", text.file);
    return 1;
}

/* Another library's file, to which a jump leads, must not be unloaded. The linker's lists are not
 * locked here: dlopen(3) takes a lock that comes before theirs. */
static __attribute__((noinline)) int keep_loaded(const uint8_t *code)
{
    struct name_search search = {.address = (uintptr_t)code};
    void *file = NULL;

    if (dl_iterate_phdr(copy_name, &search) == 1 && search.name[0])
        file = dlopen(search.name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
    if (file)
        dlclose(file);
    return file || !search.name[0]
               ? 0
               : hmreg_fail(-EBUSY, "memhooks: %s is being unloaded", search.name);
}

int hook_sites_find(struct hook_sites *out)
{
    struct wanted wanted[] = {
        {"munmap", (uintptr_t)munmap, SYS_munmap, false},
        {"mmap", (uintptr_t)mmap, SYS_mmap, false},
        {"mmap64", (uintptr_t)mmap64, SYS_mmap, false},
        {"mremap", (uintptr_t)mremap, SYS_mremap, false},
        {"madvise", (uintptr_t)madvise, SYS_madvise, false},
        {"posix_madvise", (uintptr_t)posix_madvise, SYS_madvise, false},
        {"brk", (uintptr_t)brk, SYS_brk, false},
        {"shmat", (uintptr_t)shmat, SYS_shmat, false},
        {"process_madvise", (uintptr_t)process_madvise, SYS_process_madvise, false},
        {"syscall", (uintptr_t)syscall, HOOK_ANY_CALL, false},
    };
    const size_t count = sizeof(wanted) / sizeof(wanted[0]);
    struct hook_sites sites = {.count = 0};
    struct search search = {&sites, wanted, count, false};
    int rc;

    rc = modules_each(look_into, &search);
    for (size_t i = 0; !rc && i < count; i++)
        rc = find_resolved(&sites, &wanted[i], !search.has_libc);
    rc = rc ? rc : find_linkers(&sites);
    for (size_t i = 0; !rc && i < sites.others; i++)
        rc = keep_loaded(sites.other[i]);
    if (!rc)
        *out = sites;
    return rc;
}
