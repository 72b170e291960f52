/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See own_calls.h. The results of searches lie on pages that the kernel wipes in a forked child.
 * The child searches anew: a thread of the parent may have been searching.
 */
#include "core/monitor/memhooks/own_calls.h"

#include "core/base/error.h"
#include "core/base/kernel_call.h"
#include "core/base/linker_list.h"
#include "core/monitor/memhooks/hook_sites.h"
#include "core/monitor/memhooks/hook_state.h"
#include "core/patch/inlined.h"
#include "core/patch/modules.h"

#include <errno.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SEGMENTS_MOST 4094                /* struct known fills whole pages */
#define PIECE         ((uint64_t)1 << 20) /* bytes of code for one mincore(2) */
#define PAGE_LEAST    4096

/* An executable segment. */
struct segment {
    uint64_t key;  /* see key_of() */
    uint64_t done; /* bytes searched */
};

struct known {
    _Atomic uint64_t loads; /* the process's count of loads when all was searched last; 0: never */
    atomic_bool busy;       /* a thread is searching */
    unsigned count;
    struct segment segment[SEGMENTS_MOST];
};

struct search {
    struct known *known;
    const struct hook_sites *hooked; /* NULL: not asked yet */
    const struct dl_phdr_info *file;
    struct module_text linker;
    uint64_t page;
    uint64_t left; /* bytes that may still be read with the lock of the linker's lists held */
    uint64_t loads;
    unsigned segments;
    unsigned next; /* index in known->segment of the next segment, if the files are loaded in the
                    * same order */
    bool unfinished;
    struct inlined_call call; /* at NULL: no call was found */
    uint64_t offset;          /* the call's address in its file */
    char name[256];           /* name of its file; "": the program */
};

/* ---- files that change only what they have mapped themselves ------------------------------- */

/* Files whose own calls change only memory that no application registers (docs/raw-calls.md). */
static const char *const names_of_such[] = {
    /* rings, rings of buffers' descriptors; programs that contain liburing */
    "liburing", "ceph-osd", "ceph-bluestore-tool", "ceph-objectstore-tool",
    /* rings, devices' registers */
    "libblkio",
    /* brk, where the jump that UCX writes over libc's leads: hooked */
    "libucm",
    /* shadow memory and tables of runtimes without a malloc of their own */
    "libubsan", "libclang_rt.ubsan_standalone", "libclang_rt.dyndd", "libclang_rt.nsan",
    /* the crash reporters' pages */
    "libxul", "crashhelper", "chromium", "chrome"};

static bool begins_with(const char *name, const char *beginning)
{
    size_t length = strlen(beginning);

    return strncmp(name, beginning, length) == 0 && (!name[length] || strchr(".-_", name[length]));
}

static bool changes_only_own(const struct search *search)
{
    const char *path = search->file->dlpi_name;
    char program[4096] = "";
    const char *name;

    if (!path || !path[0]) {
        ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);

        program[length > 0 ? length : 0] = '\0';
        path = program;
    }
    name = strrchr(path, '/');
    name = name ? name + 1 : path;
    for (size_t i = 0; i < sizeof(names_of_such) / sizeof(names_of_such[0]); i++)
        if (begins_with(name, names_of_such[i]))
            return true;
    return false;
}

/* ---- calls ------------------------------------------------------------------------------- */

static bool is_hooked(const struct hook_sites *hooked, const uint8_t *at)
{
    for (size_t i = 0; i < hooked->count; i++) {
        const struct syscall_site *site = &hooked->site[i].is;

        /* The branch replaces the instruction itself, or the one before. */
        if (site->via == at || (uintptr_t)at - (uintptr_t)site->at <= 7)
            return true;
    }
    return false;
}

enum verdict { SEARCH_ON, SKIP_FILE, STOP };

static enum verdict judge(struct search *search, const struct inlined_call *call)
{
    if (changes_only_own(search))
        return SKIP_FILE;
    if (search->hooked && is_hooked(search->hooked, call->at))
        return SEARCH_ON;
    search->call = *call;
    search->offset = (uintptr_t)call->at - search->file->dlpi_addr;
    snprintf(search->name, sizeof(search->name), "%s",
             search->file->dlpi_name ? search->file->dlpi_name : "");
    return STOP;
}

static enum verdict search_run(struct search *search, uint64_t start, uint64_t end)
{
    const uint8_t *first = (const uint8_t *)(uintptr_t)start;
    const uint8_t *last = (const uint8_t *)(uintptr_t)end;
    enum verdict verdict = SEARCH_ON;
    struct inlined_call call;
    bool found = inlined_next(first, last, &call);

    while (found && (verdict = judge(search, &call)) == SEARCH_ON)
        found = inlined_after(&call, first, last, &call);
    return verdict;
}

/* ---- what may be read --------------------------------------------------------------------- */

/* May the process read the address? The program may have made code execute-only. With an invalid
 * action the kernel still reads the set, and fails with EFAULT if it cannot. */
static bool is_readable(uint64_t at)
{
    return kernel_call(SYS_rt_sigprocmask, -1, (long)(at & ~UINT64_C(7)), 0, 8, 0, 0) != -EFAULT;
}

/* Sets a byte for each page; false: a part is not mapped. If the kernel refuses to answer, all
 * pages count as resident. */
static bool ask_residency(uint64_t start, uint64_t end, unsigned char *resident, size_t pages)
{
    long rc = kernel_call(SYS_mincore, (long)start, (long)(end - start), (long)resident, 0, 0, 0);

    if (rc && rc != -ENOMEM)
        memset(resident, 1, pages);
    return rc != -ENOMEM;
}

/* Also searches the page before: its last bytes may begin a call. */
static enum verdict search_piece(struct search *search, uint64_t text, uint64_t start, uint64_t end)
{
    unsigned char resident[PIECE / PAGE_LEAST + 2];
    uint64_t page = search->page;
    uint64_t from = (start > text ? start - 1 : start) & ~(page - 1);
    size_t pages = (end - from + page - 1) / page, run;
    enum verdict verdict = SEARCH_ON;

    if (!ask_residency(from, end, resident, pages))
        return SEARCH_ON;
    for (size_t i = 0; i < pages && verdict == SEARCH_ON; i += run) {
        uint64_t first = from + i * page, last;

        for (run = 1; i + run < pages && (resident[i] & 1) == (resident[i + run] & 1);)
            run++;
        last = first + run * page;
        first = first > text ? first : text;
        if (resident[i] & 1 && is_readable(first))
            verdict = search_run(search, first, last < end ? last : end);
    }
    return verdict;
}

/* ---- segments ----------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Adds the build ID of a segment of notes. False: it has none. */
static bool mix_build_id(uint64_t *hash, const char *notes, size_t size)
{
    for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
        const ElfW(Nhdr) *note = (const void *)(notes + at);
        size_t name = at + sizeof(*note), id = name + ((note->n_namesz + 3) & ~3u);

        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && id + note->n_descsz <= size &&
            memcmp(notes + name, "GNU", 4) == 0) {
            *hash = mix(*hash, notes + id, note->n_descsz);
            return true;
        }
        at = id + ((note->n_descsz + 3) & ~3u);
    }
    return false;
}

/* Identifies the segment's bytes: by the build ID; without one, by the place in memory while no
 * file is unloaded. */
static uint64_t key_of(const struct dl_phdr_info *file, const ElfW(Phdr) * segment)
{
    uint64_t key = mix(UINT64_C(0xcbf29ce484222325), &segment->p_vaddr, sizeof(segment->p_vaddr));
    bool has_id = false;

    key = mix(key, &segment->p_memsz, sizeof(segment->p_memsz));
    for (int i = 0; i < file->dlpi_phnum && !has_id; i++) {
        const ElfW(Phdr) *notes = &file->dlpi_phdr[i];

        if (notes->p_type == PT_NOTE)
            has_id = mix_build_id(&key, (const char *)(file->dlpi_addr + notes->p_vaddr),
                                  notes->p_memsz);
    }
    if (!has_id) {
        key = mix(key, &file->dlpi_addr, sizeof(file->dlpi_addr));
        key = mix(key, &file->dlpi_subs, sizeof(file->dlpi_subs));
    }
    return key;
}

static struct segment *find_known(struct search *search, uint64_t key)
{
    struct known *known = search->known;

    for (unsigned i = 0; i < known->count; i++) {
        unsigned at = (search->next + i) % known->count;

        if (known->segment[at].key == key) {
            search->next = at + 1;
            return &known->segment[at];
        }
    }
    if (known->count == SEGMENTS_MOST)
        known->count = 0; /* most of them are unloaded */
    known->segment[known->count] = (struct segment){key, 0};
    return &known->segment[known->count++];
}

static bool is_libcs(const struct search *search, uint64_t start)
{
    const char *path = search->file->dlpi_name, *name = path ? strrchr(path, '/') : NULL;

    return start == search->linker.start || (name && strcmp(name, "/libc.so.6") == 0);
}

/* False: the search is at an end. */
static bool search_segment(struct search *search, const ElfW(Phdr) * segment)
{
    uint64_t start = search->file->dlpi_addr + segment->p_vaddr, size = segment->p_filesz;
    struct segment *known = find_known(search, key_of(search->file, segment));

    if (!known->done && is_libcs(search, start))
        known->done = size;
    while (known->done < size && search->left) {
        uint64_t rest = size - known->done, some = rest < search->left ? rest : search->left;
        enum verdict verdict =
            search_piece(search, start, start + known->done, start + known->done + some);

        if (verdict == STOP)
            return false;
        known->done = verdict == SKIP_FILE ? size : known->done + some;
        search->left -= some;
    }
    search->unfinished = known->done < size;
    return !search->unfinished;
}

static int look_into(struct dl_phdr_info *file, size_t size, void *arg)
{
    struct search *search = arg;

    search->file = file;
    search->loads = file->dlpi_adds;
    for (int i = 0; i < file->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &file->dlpi_phdr[i];

        if (segment->p_type != PT_LOAD || (segment->p_flags & (PF_R | PF_X)) != (PF_R | PF_X))
            continue;
        if (++search->segments > SEGMENTS_MOST || !search_segment(search, segment))
            return 1;
    }
    return 0;
}

/* ---- the search --------------------------------------------------------------------------- */

static struct known *known_files(void)
{
    static _Atomic(struct known *) at;
    struct known *made = atomic_load(&at), *other = NULL;

    if (made)
        return made;
    made = hook_state_wiped(sizeof(*made));
    if (made && !atomic_compare_exchange_strong(&at, &other, made))
        made = other; /* the mapping stays unused */
    return made;
}

static int describe(const struct search *search)
{
    if (search->call.at)
        return hmreg_fail(-EOPNOTSUPP,
                          "memhooks: %s at 0x%llx of %s changes mappings without libc; use "
                          "userfaultfd or import, or choose memhooks by name",
                          search->call.name, (unsigned long long)search->offset,
                          search->name[0] ? search->name : "this program");
    if (search->segments > SEGMENTS_MOST)
        return hmreg_fail(-EOPNOTSUPP, "memhooks: more than %d files are loaded", SEGMENTS_MOST);
    return search->unfinished
               ? hmreg_fail(
                     -EBUSY,
                     "memhooks: hmreg is still searching loaded code for system calls of its own")
               : 0;
}

static int search_some(struct known *known, const struct hook_sites *hooked, bool *found)
{
    struct search search = {
        .known = known, .hooked = hooked, .page = (uint64_t)sysconf(_SC_PAGESIZE), .left = PIECE};
    int rc;

    *found = false;
    if (!modules_linker(&search.linker))
        return 0;
    if (linker_list_read(look_into, &search) < 0)
        return hmreg_fail(
            -EOPNOTSUPP,
            "memhooks: the dynamic linker is locked by a thread that the fork did not copy");
    *found = search.call.at;
    rc = describe(&search);
    if (!rc)
        atomic_store(&known->loads, search.loads);
    return rc;
}

/* Holds the lock of the linker's lists for a short time only. */
static int search_files(struct known *known, const struct hook_sites *hooked, size_t most,
                        bool *found)
{
    int rc = -EBUSY;

    for (size_t done = 0; rc == -EBUSY && done < most; done += PIECE)
        rc = search_some(known, hooked, found);
    return rc;
}

static int count_loads(struct dl_phdr_info *any, size_t size, void *loads)
{
    *(uint64_t *)loads = any->dlpi_adds;
    return 1;
}

/* Has no file been loaded since all were searched? Then no thread needs to search, and gets stay
 * cached while another thread searches. */
static bool is_all_searched(struct known *known)
{
    uint64_t loads = 0;

    (void)linker_list_read(count_loads, &loads);
    return loads && atomic_load(&known->loads) == loads;
}

/* Finds the hooked calls only once a call was found: that takes the linker's locks. */
int own_calls_check(size_t most)
{
    struct known *known = known_files();
    struct hook_sites hooked;
    bool found = false;
    int rc;

    if (!known)
        return hmreg_last_error()->code;
    if (is_all_searched(known))
        return 0;
    if (atomic_exchange(&known->busy, true))
        return hmreg_fail(-EBUSY, "memhooks: another thread is searching loaded code");
    rc = search_files(known, NULL, most, &found);
    if (found) {
        rc = hook_sites_find(&hooked);
        rc = rc ? rc : search_files(known, &hooked, most, &found);
    }
    atomic_store(&known->busy, false);
    return rc;
}
