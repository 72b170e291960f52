/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See hook_sites.h. hook_sites_find() searches each function as the dynamic linker resolves it for
 * this library, which may be an interposer's (a preloaded allocator's, a sanitizer's); libc's own
 * function, which libc itself and the interposer call; and the dynamic linker, which has a munmap
 * of its own. libc's function must have a site. An interposer need not, if it does not enter the
 * kernel itself: then it calls libc. The same holds for a library that has put a jump over the
 * beginning of libc's function; the whole file that the jump leads to is searched.
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

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
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

/* Not every libc has it. */
extern ssize_t process_madvise(int, const struct iovec *, size_t, int, unsigned)
    __attribute__((weak));

struct wanted {
    const char *name;
    uintptr_t resolved;
    long number;
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
    struct text_search search = {getauxval(AT_BASE), out};

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

/* Adds the text's sites of this system call and, if `any`, those whose number is known only when
 * they are reached: their stubs check it. *found and *others are incremented: for each such site,
 * and for each other entry to the kernel. */
static int add_sites(struct hook_sites *sites, const struct wanted *wanted, const struct text *text,
                     bool any, unsigned *found, unsigned *others)
{
    struct hook_code code = code_of(text);
    struct hook_entry entry;
    int rc = 0;

    for (size_t at = 0; !rc && at < code.size; at += HOOK_CODE_STEP) {
        if (!hook_arch_enters(&code, at, &entry))
            continue;
        if (entry.site &&
            (entry.number == wanted->number || (any && entry.number == HOOK_ANY_CALL))) {
            rc = add_site(sites, wanted, text, &entry);
            ++*found;
        } else {
            ++*others;
        }
    }
    return rc;
}

/* ---- functions -------------------------------------------------------------------------- */

/* Narrows a text to the function. */
static void narrow(struct text *text, uintptr_t function)
{
    const ElfW(Sym) *symbol = NULL;
    uintptr_t end = function + UNKNOWN_SIZE;
    Dl_info info;

    if (dladdr1((void *)function, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol &&
        (uintptr_t)info.dli_saddr == function && symbol->st_size) {
        end = function + symbol->st_size;
        text->is_function = end <= text->end;
    }
    text->start = function;
    text->end = end < text->end ? end : text->end;
}

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

    for (size_t at = 0; !rc && at < code.size; at += HOOK_CODE_STEP) {
        if (!hook_arch_enters(&code, at, &entry))
            continue;
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

/* Another library's file, to which a jump leads, must not be unloaded. */
static void keep_loaded(const struct text *other)
{
    void *file = dlopen(other->file, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);

    if (file)
        dlclose(file);
}

/* Handles a jump that another library has put over the beginning of libc's function. *found:
 * incremented if the code it leads to is hooked. */
static int find_behind_jump(struct hook_sites *sites, const struct wanted *wanted,
                            uintptr_t function, const struct text *own, unsigned *found)
{
    struct text other = {.file = ""};
    uintptr_t target;
    int rc;

    if (!hook_arch_begins_with_jump((const uint8_t *)function, &target) ||
        hook_is_stub((const uint8_t *)function, wanted->number))
        return 0;
    if (!text_of(target, &other))
        return refuse(wanted, own, "begins with a jump to code that is in no file");
    if (strcmp(other.file, own->file) == 0)
        return 0;
    rc = find_in_file(sites, wanted, &other);
    if (!rc) {
        keep_loaded(&other);
        ++*found;
    }
    return rc;
}

static int find_in_function(struct hook_sites *sites, const struct wanted *wanted,
                            uintptr_t function, bool must)
{
    struct text text = {.file = ""};
    unsigned found = 0, others = 0;
    int rc;

    if (!text_of(function, &text))
        return refuse(wanted, &text, "is not in any loaded file");
    narrow(&text, function);
    rc = add_sites(sites, wanted, &text, true, &found, &others);
    if (!rc && must)
        rc = find_behind_jump(sites, wanted, function, &text, &found);
    if (rc)
        return rc;
    if (must && !found)
        return refuse(wanted, &text,
                      "does not enter the kernel in a form that can be hooked "
                      "(something else may have hooked it)");
    if (!must && others)
        return refuse(wanted, &text,
                      "stands before libc's and enters the kernel in a form "
                      "that cannot be hooked");
    if (found)
        rely_on(sites, (const uint8_t *)function);
    return 0;
}

static int find_wanted(struct hook_sites *sites, const struct wanted *wanted, void *libc)
{
    uintptr_t own = libc ? (uintptr_t)dlsym(libc, wanted->name) : 0;
    int rc = 0;

    if (!own)
        return wanted->resolved ? find_in_function(sites, wanted, wanted->resolved, true) : 0;
    if (wanted->resolved && wanted->resolved != own)
        rc = find_in_function(sites, wanted, wanted->resolved, false);
    return rc ? rc : find_in_function(sites, wanted, own, true);
}

/* dlclose(3) unmaps by the dynamic linker's own munmap, which has no symbol. */
static int find_linkers(struct hook_sites *sites)
{
    static const struct wanted munmaps = {"munmap", 0, SYS_munmap};
    unsigned found = 0, others = 0;
    struct text text;
    int rc;

    if (!linkers_text(&text))
        return 0;
    rc = add_sites(sites, &munmaps, &text, false, &found, &others);
    return rc || found ? rc : refuse(&munmaps, &text, "is in no form that can be hooked");
}

int hook_sites_find(struct hook_sites *out)
{
    const struct wanted wanted[] = {
        {"munmap", (uintptr_t)munmap, SYS_munmap},
        {"mmap", (uintptr_t)mmap, SYS_mmap},
        {"mmap64", (uintptr_t)mmap64, SYS_mmap},
        {"mremap", (uintptr_t)mremap, SYS_mremap},
        {"madvise", (uintptr_t)madvise, SYS_madvise},
        {"brk", (uintptr_t)brk, SYS_brk},
        {"shmat", (uintptr_t)shmat, SYS_shmat},
        {"process_madvise", (uintptr_t)process_madvise, SYS_process_madvise},
        {"syscall", (uintptr_t)syscall, HOOK_ANY_CALL},
    };
    struct hook_sites sites = {.count = 0};
    void *libc;
    int rc = 0;

    if (code_refusal())
        return hmreg_fail(-EOPNOTSUPP, "memhooks: %s; use userfaultfd or import", code_refusal());
    libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    for (size_t i = 0; !rc && i < sizeof(wanted) / sizeof(wanted[0]); i++)
        rc = find_wanted(&sites, &wanted[i], libc);
    rc = rc ? rc : find_linkers(&sites);
    if (libc)
        dlclose(libc);
    if (!rc)
        *out = sites;
    return rc;
}
