/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The mappings that the library adds to a program, which the kernel limits (vm.max_map_count):
 * hooks split none of libc's, pages that are wiped at fork share one, and a domain has few.
 * differential_memory checks the sum, under every monitor; here are its parts. And which of the
 * program's own mappings the library keeps in mind: watched ones without a region, and the
 * linker's.
 */

/* Whose mappings these are, when hooks are first placed, and what is watched, no call shows. */
#include "core/base/maps.h"
#include "core/base/process.h"
#include "core/monitor/memhooks/hook_call.h"
#include "core/monitor/memhooks/hook_state.h"
#include "core/monitor/memhooks/memhooks.h"
#include "core/monitor/userfaultfd/uffd.h"
#include "core/monitor/userfaultfd/userfault.h"
#include "core/monitor/userfaultfd/watched.h"
#include "tests/support/code_filters.h"
#include "tests/support/test.h"

#include <hmreg/loopback.h>

#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>

static int mappings_named(const char *name)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    int count = 0;

    while (fgets(line, sizeof(line), maps))
        count += strstr(line, name) != NULL;
    fclose(maps);
    return count;
}

/* ---- hooks ------------------------------------------------------------------------------ */

static int mappings_with_sites(void)
{
    return mappings_named("/libc.so") + mappings_named("/ld-linux");
}

static void open_hooks(void)
{
    int rc = memhooks_open(true);

    if (rc == -EOPNOTSUPP)
        test_skip("%s", hmreg_last_error()->text);
    assert_ok(rc);
}

/* Before other hooks of this process: a split mapping stays split. */
TEST(hooks__first__split_no_mapping_of_code)
{
    int before = mappings_with_sites();

    open_hooks();
    before += code_moves() ? 2 : 0; /* their twins (core/patch/code_twin.c) */
    assert_int_equal(mappings_with_sites(), before);
    memhooks_close();
    assert_int_equal(mappings_with_sites(), before);
    open_hooks();
    assert_int_equal(mappings_with_sites(), before);
    memhooks_close();
}

enum { CODE = 64 };

static void copy_code(uint8_t *out)
{
    memcpy(out, (const void *)(uintptr_t)munmap, CODE);
    memcpy(out + CODE, (const void *)(uintptr_t)madvise, CODE);
}

/* Without the list of mappings the hooks cannot find whole ones. */
TEST(hooks__no_descriptor_is_free__code_is_changed_and_restored)
{
    uint8_t before[2 * CODE], during[2 * CODE], after[2 * CODE];
    struct rlimit limit, none;
    int opened;

    open_hooks(); /* possible with descriptors */
    memhooks_close();
    copy_code(before);
    assert_ok(getrlimit(RLIMIT_NOFILE, &limit));
    none = (struct rlimit){0, limit.rlim_max};
    assert_ok(setrlimit(RLIMIT_NOFILE, &none));
    opened = memhooks_open(true);
    copy_code(during);
    if (!opened)
        memhooks_close();
    copy_code(after);
    assert_ok(setrlimit(RLIMIT_NOFILE, &limit));
    assert_ok(opened);
    assert_memory_not_equal(before, during, sizeof(before));
    assert_memory_equal(before, after, sizeof(before));
    assert_int_equal(mappings_named(" rwx"), 0);
}

/* ---- pages that are wiped at fork ------------------------------------------------------- */

TEST(pages__of_a_process__lie_together)
{
    char *first = process_page(), *second = process_page();

    assert_non_null(first);
    assert_ptr_equal(second, first + sysconf(_SC_PAGESIZE));
}

/* The table of the first hooks, which is wiped, is there too. */
TEST_FIRST(hooks__first__table_lies_with_the_pages)
{
    char *page;

    assert_int_not_equal(process_epoch_start(), 0);
    page = process_page();
    assert_non_null(page);
    assert_ptr_equal(hook_state_get(), page + sysconf(_SC_PAGESIZE));
}

/* More than share a mapping: each is still a wiped page. */
TEST(pages__very_many__each_is_wiped)
{
    enum { PAGES = 40 };
    char *pages[PAGES];
    pid_t child;

    test_forks_wipe();
    for (int i = 0; i < PAGES; i++) {
        pages[i] = process_page();
        assert_non_null(pages[i]);
        assert_int_equal(*pages[i], 0);
        *pages[i] = (char)(i + 1);
    }
    for (int i = 0; i < PAGES; i++)
        assert_int_equal(*pages[i], i + 1);
    child = fork();
    if (child == 0) {
        int left = 0;

        for (int i = 0; i < PAGES; i++)
            left += *pages[i] != 0;
        _exit(left);
    }
    test_await(child);
}

/* ---- libraries and domains -------------------------------------------------------------- */

#define A_DOMAIN 2 /* the used entries, and the addresses reserved for more */
/* The stats page, the wiped pages (two mappings where the program has its own between), threads'
 * tables, the reaper's stack and its guard. */
#define A_LIBRARY 6

static char memory[1 << 16];

static struct hmreg_domain *open_domain(struct hmreg *lib)
{
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;

    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    assert_ok(hmreg_mr_get(domain, memory, sizeof(memory), HMREG_REMOTE_READ, &mr));
    hmreg_mr_put(mr);
    return domain;
}

/* more: for the first library of a process, compared with no monitor. */
static void expect_mappings(enum hmreg_monitor monitor, int more)
{
    struct hmreg_config config = {
        .size = sizeof(config), .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM), .monitor = monitor};
    struct hmreg_domain *domains[4];
    struct hmreg *lib;
    char byte;
    int before, rc;

    assert_int_equal(getrandom(&byte, 1, 0), 1); /* loopback's; since glibc 2.41 it maps pages */
    before = mappings_named("");
    rc = hmreg_open(&config, &lib);
    if (rc == -EPERM || rc == -ENOSYS || rc == -EOPNOTSUPP)
        test_skip("%s", hmreg_last_error()->text);
    assert_ok(rc);
    for (int i = 0; i < 4; i++) {
        domains[i] = open_domain(lib);
        assert_in_range(mappings_named(""), 0, before + A_LIBRARY + more + (i + 1) * A_DOMAIN);
    }
    for (int i = 0; i < 4; i++)
        assert_ok(hmreg_domain_close(domains[i]));
    assert_ok(hmreg_close(lib));
}

TEST(import__domains__two_mappings_each)
{
    expect_mappings(HMREG_MONITOR_IMPORT, 0);
}

/* The page that stops the thread and the thread's stack share a mapping. */
TEST(userfaultfd__domains__two_mappings_each_and_one)
{
    expect_mappings(HMREG_MONITOR_USERFAULTFD, 1);
}

/* ---- after userfaultfd ------------------------------------------------------------------- */

static bool need_nothing(struct userfault_client *client, uint64_t start, uint64_t end,
                         struct span *out)
{
    return false;
}

static bool is_strict(void)
{
    struct owned_fd file;
    bool strict;

    if (uffd_open(true, &file))
        test_skip("%s", hmreg_last_error()->text);
    strict = uffd_is_strict(file.fd, true);
    owned_fd_close(&file);
    return strict;
}

/* Where the second of two pages ends, if one mapping has both. */
static bool are_one(const char *pages, size_t page)
{
    struct maps maps;
    struct map map;

    maps_begin(&maps, NULL);
    assert_int_equal(maps_next(&maps, (uintptr_t)pages, &map), 1);
    maps_end(&maps);
    return map.end >= (uintptr_t)pages + 2 * page;
}

/* To ask about them, as before Linux 6.17, would give each an anon_vma. */
TEST(userfaultfd__rests__neighbours_without_a_page_become_one_when_alike)
{
    struct userfault_client client = {.needs = need_nothing};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *three = mmap(NULL, 3 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *two = three + page;
    struct userfault *userfault;

    if (!is_strict())
        test_skip("the kernel lets a userfaultfd unregister what is another's");
    assert_ok(userfault_open(&client, true, &userfault));
    assert_ok(userfault_have_thread(userfault));
    assert_int_equal(userfault_watch(userfault, (uintptr_t)three, (uintptr_t)two), 0);
    assert_int_equal(mprotect(two, page, PROT_READ | PROT_WRITE), 0);
    assert_false(are_one(two, page));
    assert_true(userfault_rest(userfault));
    assert_int_equal(mprotect(two, page, PROT_READ), 0);
    assert_true(are_one(two, page));
    userfault_close(userfault, &client);
    munmap(three, 3 * page);
}

/* ---- what stays watched without a region --------------------------------------------------- */

/* Pages between two that cannot be accessed, so that no mapping becomes one with theirs. */
static char *map(size_t pages)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *made = mmap(NULL, (pages + 2) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(made != MAP_FAILED);
    assert_int_equal(mprotect(made + page, pages * page, PROT_READ | PROT_WRITE), 0);
    memset(made + page, 'm', pages * page);
    return made + page;
}

static bool pending; /* a get of everything, which needs its range until it is refused */

static bool needed_if_pending(void *arg, uint64_t start, uint64_t end)
{
    return pending;
}

/* A watched page, next to a get over a hole that was refused while it was pending: its range is
 * unwatched later, by any unwatch, here of `other`. */
struct refusal {
    struct watching watching;
    struct owned_fd file;
    char *memory, *other;
    uint64_t page, at;
};

static void refuse(struct refusal *refusal)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    int rc = uffd_open(true, &refusal->file);

    if (rc == -EPERM || rc == -ENOSYS)
        test_skip("%s", hmreg_last_error()->text);
    assert_ok(rc);
    refusal->page = page;
    refusal->memory = map(8);
    refusal->other = map(1);
    refusal->at = (uintptr_t)refusal->memory;
    assert_int_equal(munmap(refusal->memory + 4 * page, page), 0);
    watching_open(&refusal->watching, refusal->file.fd, needed_if_pending, NULL);
    assert_true(watching_add(&refusal->watching, refusal->at, refusal->at + page));
    pending = true;
    assert_false(watching_add(&refusal->watching, refusal->at, refusal->at + 8 * page));
    watching_leave(&refusal->watching, refusal->at, refusal->at + page, false);
}

static void leave_other(struct refusal *refusal)
{
    uint64_t at = (uintptr_t)refusal->other;

    watching_leave(&refusal->watching, at, at + refusal->page, true);
}

static void end_refusal(struct refusal *refusal)
{
    watching_close(&refusal->watching);
    owned_fd_close(&refusal->file);
    munmap(refusal->memory, 8 * refusal->page);
    munmap(refusal->other, refusal->page);
}

/* The first unwatch after a refusal may happen while the refused get is still pending. */
TEST(refused__and_pending_while_another_is_left__left_by_the_next)
{
    struct refusal refusal;

    refuse(&refusal);
    leave_other(&refusal);
    assert_int_equal(uffd_ask_watched(refusal.file.fd, refusal.at, refusal.page), 0);
    pending = false;
    leave_other(&refusal);
    assert_int_equal(uffd_ask_watched(refusal.file.fd, refusal.at, refusal.page), -ENOENT);
    end_refusal(&refusal);
}

/* Many refusals, and no region ends, which would check their memory. */
TEST(refused__more_than_are_remembered__left_by_the_next)
{
    struct refusal refusal;
    uint64_t hole;

    refuse(&refusal);
    assert_int_equal(uffd_ask_watched(refusal.file.fd, refusal.at, refusal.page), 0);
    pending = false;
    hole = refusal.at + 4 * refusal.page;
    for (int i = 0; i <= WATCHING_REFUSED; i++)
        assert_false(watching_add(&refusal.watching, hole, hole + refusal.page));
    leave_other(&refusal);
    assert_int_equal(uffd_ask_watched(refusal.file.fd, refusal.at, refusal.page), -ENOENT);
    end_refusal(&refusal);
}

/* ---- what the linker maps ------------------------------------------------------------------ */

/* The linker maps a file, fails, and maps another one at the same address while a look forgets the
 * first. */
TEST(linker_maps__where_it_did_before__another_note)
{
    struct hook_call call = {.number = SYS_mmap};
    uint64_t first, second;

    open_hooks();
    call.args[0] = (uintptr_t)map(1);
    call.args[1] = (uint64_t)sysconf(_SC_PAGESIZE);
    call.args[2] = PROT_READ | PROT_EXEC;
    call.args[3] = MAP_PRIVATE | MAP_FIXED | MAP_DENYWRITE;
    hook_call(&call);
    first = hook_call_linker_mapped();
    hook_call(&call);
    second = hook_call_linker_mapped();
    hook_call_forget_mapped(first);
    assert_int_equal(hook_call_linker_mapped(), second);
    assert_int_equal(HOOK_CALL_ADDRESS(second), call.args[0]);
    hook_call_forget_mapped(second);
    assert_int_equal(hook_call_linker_mapped(), 0);
    memhooks_close();
}

/* Cases that need to be the first in the process come first. */
TEST_MAIN()
