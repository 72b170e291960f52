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
 * (prefer_map_32bit_exec). It replaces no mapping. unit_memhooks_sites checks that each entry in
 * this machine's libc is hooked, or lists the reason why not.
 */
#include "core/monitor/memhooks/hook_sites.h"

#include "core/base/error.h"
#include "core/patch/modules.h"
#include "core/patch/stub.h"

#include <errno.h>
#include <link.h>
#include <string.h>
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

/* The text of a file, or one function of it. */
struct text {
    struct module_text in;
    bool is_function; /* struct syscall_code */
};

/* ---- system calls -------------------------------------------------------------------- */

static bool is_stub_jump(const uint8_t *at, long number)
{
    const uint8_t *stub = code_target(at);
    long found;

    return stub && stub_number(stub, &found) && found == number;
}

static struct syscall_code code_of(const struct text *text)
{
    return (struct syscall_code){(uint8_t *)(uintptr_t)text->in.start,
                                 text->in.end - text->in.start, text->is_function};
}

static int add_site(struct hook_sites *sites, const struct wanted *wanted,
                    const struct syscall_site *site)
{
    for (size_t i = 0; i < sites->count; i++)
        if (sites->site[i].is.at == site->at)
            return 0;
    if (sites->count == HOOK_SITES_MAX)
        return hmreg_fail(-EOPNOTSUPP, "memhooks: more than %d places to hook", HOOK_SITES_MAX);
    sites->site[sites->count++] = (struct hook_site){wanted->name, *site};
    return 0;
}

/* Adds the function's sites of this system call, and those whose number is known only when they are
 * reached: their stubs check it. *found and *others are incremented: for each such site, and for
 * each other entry to the kernel. */
static int add_sites(struct hook_sites *sites, const struct wanted *wanted, const struct text *text,
                     unsigned *found, unsigned *others)
{
    struct syscall_code code = code_of(text);
    struct syscall_site site;
    int rc = 0;

    for (size_t at = 0; !rc && syscall_next(&code, &at, &site); at += SYSCALL_STEP) {
        if (site.at && (site.number == wanted->number || site.number == SYSCALL_ANY)) {
            rc = add_site(sites, wanted, &site);
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
                      wanted->name, text->in.file[0] ? text->in.file : "this program", why);
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
    struct syscall_code code = code_of(text);
    struct syscall_site site;
    int rc = 0;

    for (size_t at = 0; !rc && syscall_next(&code, &at, &site); at += SYSCALL_STEP) {
        if (!site.at || site.number == SYSCALL_ANY)
            return refuse(
                wanted, text,
                "was loaded before libc and enters the kernel in a form that cannot be hooked");
        if (changes_mappings(site.number))
            rc = add_site(sites, wanted, &site);
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
    memcpy(sites->start[sites->starts++].bytes, function, CODE_BRANCH);
}

/* Handles a jump that another library has put over the beginning of libc's function. *found:
 * incremented if the code it leads to is hooked. */
static int find_behind_jump(struct hook_sites *sites, const struct wanted *wanted,
                            const struct text *own, unsigned *found)
{
    const uint8_t *function = (const uint8_t *)(uintptr_t)own->in.start, *to;
    struct text other = {.is_function = false};
    size_t size;
    int rc;

    to = code_leads_to(function, own->in.end - own->in.start, &size);
    if (!to || is_stub_jump(function, wanted->number))
        return 0;
    if (!module_text((uintptr_t)to, &other.in))
        return refuse(wanted, own, "begins with a jump to code that is in no loaded file");
    if (strcmp(other.in.file, own->in.file) == 0)
        return 0;
    rc = find_in_file(sites, wanted, &other);
    if (!rc && sites->others == HOOK_OTHERS_MAX)
        rc = refuse(wanted, own,
                    "begins with a jump to another library, one more than hmreg follows");
    if (!rc) {
        sites->other[sites->others++] = to;
        ++*found;
    }
    return rc;
}

/* must: it is libc's function. stays: its file is never unloaded. */
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
                      "does not enter the kernel in a form that can be hooked (perhaps another "
                      "hook or a probe is there)");
    if (!must && others)
        return refuse(
            wanted, text,
            "precedes libc's function and enters the kernel in a form that cannot be hooked");
    if (found && !stays)
        return refuse(wanted, text, "enters the kernel itself, in a file that may be unloaded");
    if (found)
        rely_on(sites, (const uint8_t *)(uintptr_t)text->in.start);
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
    struct text text = {{.file = module->file}, symbol->st_size};
    struct module_text segment;

    text.in.start = module->map->l_addr + symbol->st_value;
    text.in.end = text.in.start + (symbol->st_size ? symbol->st_size : UNKNOWN_SIZE);
    if (!symbol->st_size && module_text(text.in.start, &segment) && text.in.end > segment.end)
        text.in.end = segment.end;
    wanted->is_searched |= text.in.start == wanted->resolved;
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

/* Searches a function that no file exports: the program's own, or of a statically linked libc.
 * must: as in find_in_function(). */
static int find_resolved(struct hook_sites *sites, const struct wanted *wanted, bool must)
{
    struct text text = {{.file = ""}, false};

    if (!wanted->resolved || wanted->is_searched)
        return 0;
    if (!module_text(wanted->resolved, &text.in))
        return refuse(wanted, &text, "is not in any loaded file");
    text.in.start = wanted->resolved;
    if (text.in.end - text.in.start > UNKNOWN_SIZE)
        text.in.end = text.in.start + UNKNOWN_SIZE;
    return find_in_function(sites, wanted, &text, must, true);
}

/* dlclose(3) unmaps by the dynamic linker's own munmap, which has no symbol; dlopen(3) maps code,
 * which may change mappings, by its mmap. All of the linker's text is searched, once for both. */
static int find_linkers(struct hook_sites *sites)
{
    static const struct wanted calls[] = {{"munmap", 0, SYS_munmap, false},
                                          {"mmap", 0, SYS_mmap, false}};
    const size_t count = sizeof(calls) / sizeof(calls[0]);
    unsigned found[sizeof(calls) / sizeof(calls[0])] = {0};
    struct syscall_code code;
    struct syscall_site site;
    struct text text = {.is_function = false};
    int rc = 0;

    if (!modules_linker(&text.in))
        return 0;
    code = code_of(&text);
    for (size_t at = 0; !rc && syscall_next(&code, &at, &site); at += SYSCALL_STEP)
        for (size_t i = 0; !rc && i < count; i++)
            if (site.at && site.number == calls[i].number) {
                rc = add_site(sites, &calls[i], &site);
                found[i]++;
            }
    for (size_t i = 0; !rc && i < count; i++)
        if (!found[i])
            rc = refuse(&calls[i], &text, "has a form that cannot be hooked");
    return rc;
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
        {"syscall", (uintptr_t)syscall, SYSCALL_ANY, false},
    };
    const size_t count = sizeof(wanted) / sizeof(wanted[0]);
    struct hook_sites sites = {.count = 0};
    struct search search = {&sites, wanted, count, false};
    int rc;

    hmreg_error_prepare();
    rc = modules_each(look_into, &search);
    for (size_t i = 0; !rc && i < count; i++)
        rc = find_resolved(&sites, &wanted[i], !search.has_libc);
    rc = rc ? rc : find_linkers(&sites);
    for (size_t i = 0; !rc && i < sites.others; i++)
        if (!module_keep(sites.other[i]))
            rc = hmreg_fail(-EBUSY, "memhooks: a library that hooks libc's functions is being "
                                    "unloaded");
    if (!rc)
        *out = sites;
    return rc;
}
