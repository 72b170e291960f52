/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Effects of watching on the program: none, or as few as possible. Whole mappings are watched, so
 * that the program's own calls on them succeed, its huge pages stay, and the number of mappings
 * does not grow; a mapping without a region is unwatched. For userfaultfd only.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)
#define HUGE      ((size_t)2 << 20)

/* The reaper tidies after this idle time. */
static void open_fixture_idle(int64_t idle_ns)
{
    inside_set_idle(idle_ns);
    fixture_open(HMREG_MONITOR_USERFAULTFD, NULL);
}

static void open_fixture(void)
{
    open_fixture_idle(INT64_MAX);
}

static void get_and_put(char *memory, size_t len)
{
    fixture_key(memory, len);
}

/* Large mappings stay watched, unlike after hmreg_domain_flush(). */
static void forget(void)
{
    assert_int_equal(inside_flush(fixture.domain), 0);
}

/* Is the page watched? The check discards its content. */
static bool is_watched(char *page)
{
    uint64_t before = fixture_events();

    assert_int_equal(madvise(page, fixture_page(), MADV_DONTNEED), 0);
    return fixture_events() > before;
}

static void tidy(void)
{
    while (inside_tidy(fixture.lib))
        ;
}

/* A value of smaps for the mapping that begins there, in KiB; 0: no mapping begins there. */
static unsigned long smaps_value(const char *addr, const char *name)
{
    char begins[32], line[512];
    unsigned long value = 0;
    bool found = false;
    FILE *smaps = fopen("/proc/self/smaps", "re");

    assert_non_null(smaps);
    snprintf(begins, sizeof(begins), "%lx-", (unsigned long)(uintptr_t)addr);
    while (fgets(line, sizeof(line), smaps)) {
        found |= !strncmp(line, begins, strlen(begins));
        if (found && !strncmp(line, name, strlen(name))) {
            value = strtoul(line + strlen(name), NULL, 10);
            break;
        }
    }
    fclose(smaps);
    return value;
}

/* The same for the mapping that contains the page, which is not touched. */
static bool is_shown_as_watched(const char *page)
{
    uint64_t addr = (uint64_t)(uintptr_t)page, start, end;
    FILE *smaps = fopen("/proc/self/smaps", "re");
    bool found = false, watched = false;
    char line[512];

    assert_non_null(smaps);
    while (fgets(line, sizeof(line), smaps)) {
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2)
            found = start <= addr && addr < end;
        watched |= found && !strncmp(line, "VmFlags:", 8) && strstr(line, " uw");
    }
    fclose(smaps);
    return watched;
}

static unsigned mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned lines = 0;
    int c;

    assert_non_null(maps);
    while ((c = getc(maps)) != EOF)
        lines += c == '\n';
    fclose(maps);
    return lines;
}

/* ---- huge pages ------------------------------------------------------------------------- */

static char *map_huge(size_t len)
{
    char *base = mmap(NULL, len + HUGE, PROT_READ | PROT_WRITE, ANONYMOUS, -1, 0);
    char *memory = (char *)(((uintptr_t)base + HUGE - 1) & ~(HUGE - 1));

    assert_true(base != MAP_FAILED);
    munmap(base, (size_t)(memory - base));
    munmap(memory + len, HUGE - (size_t)(memory - base));
    madvise(memory, len, MADV_HUGEPAGE);
    memset(memory, 1, len);
    return memory;
}

TEST(huge_pages__a_small_region_in_each__stay)
{
    size_t len = 8 * HUGE;
    unsigned long before, with, after;
    char *memory;

    open_fixture();
    memory = map_huge(len);
    before = smaps_value(memory, "AnonHugePages:");
    for (size_t at = 0; at < len; at += HUGE)
        get_and_put(memory + at + 5 * fixture_page(), fixture_page());
    with = smaps_value(memory, "AnonHugePages:");
    forget();
    tidy();
    after = smaps_value(memory, "AnonHugePages:");
    munmap(memory, len);
    fixture_close();
    if (!before)
        test_skip("this kernel gives no huge pages");
    assert_int_equal(with, before);
    assert_int_equal(after, before);
}

/* With MAP_HUGETLB: the kernel reports a change as of any other memory. */
TEST(huge_pages__reserved_ones__cached_and_watched)
{
    size_t len = 2 * HUGE;
    char *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE,
                        -1, 0); /* none is touched */
    struct hmreg_mr *mr;

    if (memory == MAP_FAILED)
        test_skip("no huge pages of 2 MiB: %s", strerror(errno));
    open_fixture();
    mr = fixture_get(memory + 100, HUGE);
    assert_true(fixture_is_cached(mr));
    hmreg_mr_put(mr);
    assert_int_equal(fixture_key(memory + 100, HUGE), 1);
    /* At once: AddressSanitizer maps memory when the monitor's thread first runs code, which the
     * first event makes it do. */
    assert_ptr_equal(mmap(memory, len, PROT_READ | PROT_WRITE,
                          ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE | MAP_FIXED, -1, 0),
                     memory);
    assert_int_equal(fixture_key(memory + 100, HUGE), 2);
    munmap(memory, len);
}

/* ---- mappings --------------------------------------------------------------------------- */

TEST(mappings__many_regions_apart__hardly_one_more)
{
    size_t page = fixture_page(), pages = 4000;
    char *memory = fixture_map(pages);
    unsigned before;

    open_fixture();
    get_and_put(memory, page); /* makes the library allocate what it needs */
    forget();
    before = mappings();
    for (size_t i = 0; i < pages; i += 2)
        get_and_put(memory + i * page, page);
    assert_in_range(mappings(), 0,
                    before + (FIXTURE_SANITIZED ? 100 : 16)); /* a sanitizer's own, too */
    assert_int_equal(fixture_stats().regions, pages / 2);
    munmap(memory, pages * page);
}

/* malloc moves a block with its own mapping by mremap(2); if that fails, it copies. */
TEST(realloc__of_a_block_with_a_region__not_copied)
{
    size_t len = 64u << 20;
    char *block, *grown;

    if (FIXTURE_SANITIZED)
        test_skip("a sanitizer's malloc moves nothing");
    open_fixture();
    block = malloc(len);
    assert_non_null(block);
    block[len / 2] = 'x';
    get_and_put(block + len / 4, fixture_page());
    grown = realloc(block, 2 * len);
    assert_non_null(grown);
    assert_int_equal(grown[len / 2], 'x');
    /* A copy would have touched each page. */
    assert_in_range(smaps_value((char *)((uintptr_t)grown & ~(fixture_page() - 1)), "Rss:"), 1,
                    (len >> 10) / 2);
    free(grown);
}

/* ---- mappings without a region ---------------------------------------------------------- */

/* Of two neighbours, a part of one joins the other: none can be unwatched while there is a region.
 */
TEST(split__a_part_joins_a_neighbour__left_whole)
{
    size_t page = fixture_page();
    char *memory = fixture_map(16), *other = fixture_map(1);

    open_fixture();
    assert_int_equal(mprotect(memory + 8 * page, 8 * page, PROT_READ), 0);
    get_and_put(memory, page);
    get_and_put(memory + 15 * page, page);
    assert_int_equal(mprotect(memory + 8 * page, 4 * page, PROT_READ | PROT_WRITE), 0);
    assert_ok(hmreg_invalidate(fixture.lib, memory + 15 * page, page));
    get_and_put(other, page); /* deregisters the ended ones */
    forget();
    assert_false(is_watched(memory));
    assert_false(is_watched(memory + 15 * page));
    munmap(memory, 16 * page);
    munmap(other, page);
}

/* A get over a hole is not cached, but needs the rest of the mapping until the hole is found. On
 * another domain, which does not deregister this one's ended regions. */
TEST(unmapped__a_get_over_a_hole_meanwhile__rest_left)
{
    size_t page = fixture_page();
    char *memory = fixture_map(12), *other = fixture_map(1);
    struct hmreg_domain *second;
    struct hmreg_mr *mr;

    open_fixture();
    second = counter_open(fixture.lib, NULL);
    get_and_put(memory, page);
    assert_int_equal(munmap(memory, 4 * page), 0);
    assert_int_equal(munmap(memory + 11 * page, page), 0);
    assert_ok(hmreg_mr_get(second, memory + 10 * page, 2 * page, HMREG_READ, &mr));
    assert_false(fixture_is_cached(mr));
    hmreg_mr_put(mr);
    get_and_put(other, page);
    forget();
    assert_false(is_watched(memory + 6 * page));
    munmap(memory, 12 * page);
    munmap(other, page);
    assert_ok(hmreg_domain_close(second));
}

/* The memory of a region that has not ended is replaced by memory that the program watches by a
 * userfaultfd of its own. Kernels before 6.16 let any userfaultfd undo that. */
TEST(leave__another_userfaultfd_has_it_by_then__not_undone)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register range = {.mode = UFFDIO_REGISTER_MODE_MISSING};
    size_t page = fixture_page();
    char *memory = fixture_map(8);
    struct uffd_msg fault;
    int fd;

    open_fixture();
    fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    assert_true(fd >= 0);
    assert_int_equal(ioctl(fd, UFFDIO_API, &api), 0);
    get_and_put(memory + 2 * page, page);
    assert_ok(hmreg_invalidate(fixture.lib, memory, 8 * page));
    munmap(memory + 2 * page, page);
    assert_non_null(fixture_map_at(memory + 2 * page, 1));
    range.range = (struct uffdio_range){(uintptr_t)memory + 2 * page, page};
    assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &range), 0);
    forget();
    /* The kernel itself faults there, and finds the program's watch, which makes that an error. */
    assert_int_equal(syscall(SYS_getrandom, memory + 2 * page, 1, 0), -1);
    assert_int_equal(errno, EFAULT);
    assert_int_equal(read(fd, &fault, sizeof(fault)), -1); /* it reports user-mode faults only */
    close(fd);
    munmap(memory, 8 * page);
}

static bool large_is_watched(char *memory)
{
    return is_watched(memory + INSIDE_WATCHED_LARGE);
}

/* Large mappings stay watched, but only a few, and not after a request to unwatch them. */
TEST(large__without_a_region__a_few_stay_watched)
{
    size_t pages = 2 * INSIDE_WATCHED_LARGE / fixture_page();
    char *memory[INSIDE_WATCHED_KEPT + 1];

    open_fixture();
    for (unsigned i = 0; i <= INSIDE_WATCHED_KEPT; i++) {
        memory[i] = fixture_reserve(pages);
        assert_non_null(fixture_map_at(memory[i], pages));
        get_and_put(memory[i], fixture_page());
        forget();
    }
    assert_false(large_is_watched(memory[0]));
    for (unsigned i = 1; i <= INSIDE_WATCHED_KEPT; i++)
        assert_true(large_is_watched(memory[i]));
    get_and_put(memory[1], fixture_page());
    tidy();
    assert_true(large_is_watched(memory[1]));
    for (unsigned i = 2; i <= INSIDE_WATCHED_KEPT; i++)
        assert_false(large_is_watched(memory[i]));
    for (unsigned i = 0; i <= INSIDE_WATCHED_KEPT; i++)
        munmap(memory[i], pages * fixture_page());
}

TEST(large__without_a_region_and_nothing_ends__not_watched)
{
    size_t pages = 2 * INSIDE_WATCHED_LARGE / fixture_page();
    char *memory = fixture_map_at(fixture_reserve(pages), pages);

    open_fixture_idle(1000000);
    for (int round = 0; round < 3; round++) {
        get_and_put(memory, fixture_page());
        forget();
        test_wait_until(!is_shown_as_watched(memory + INSIDE_WATCHED_LARGE));
    }
    munmap(memory, pages * fixture_page());
}

TEST(moved__without_a_region_and_nothing_ends__not_watched)
{
    char *memory = fixture_map(1), *place = fixture_reserve(1);

    open_fixture_idle(1000000);
    get_and_put(memory, fixture_page());
    assert_ptr_equal(
        mremap(memory, fixture_page(), fixture_page(), MREMAP_MAYMOVE | MREMAP_FIXED, place),
        place);
    test_wait_until(!is_shown_as_watched(place));
    munmap(place, fixture_page());
}

TEST(large__domain_is_closed__not_watched)
{
    size_t pages = 2 * INSIDE_WATCHED_LARGE / fixture_page();
    char *memory = fixture_map_at(fixture_reserve(pages), pages);

    open_fixture();
    get_and_put(memory, fixture_page());
    assert_true(is_shown_as_watched(memory + INSIDE_WATCHED_LARGE));
    assert_ok(hmreg_domain_close(fixture.domain));
    fixture.domain = NULL;
    assert_false(is_shown_as_watched(memory + INSIDE_WATCHED_LARGE));
    munmap(memory, pages * fixture_page());
}

/* ---- the stack -------------------------------------------------------------------------- */

static size_t stack_size(void)
{
    pthread_attr_t attr;
    size_t size = 0;
    void *base;

    assert_int_equal(pthread_getattr_np(pthread_self(), &attr), 0);
    assert_int_equal(pthread_attr_getstack(&attr, &base, &size), 0);
    pthread_attr_destroy(&attr);
    return size;
}

/* glibc computes the first thread's stack size from the gap below its mapping. */
TEST(stack__of_the_first_thread_with_a_region__as_large_as_before)
{
    size_t before = stack_size(), with;
    char buffer[256];

    open_fixture();
    get_and_put(buffer, sizeof(buffer));
    with = stack_size();
    fixture_close();
    assert_int_equal(with, before);
}

/* ---- a miss where the list of mappings is read as text ------------------------------------ */

static _Thread_local unsigned walks;   /* of the process's mappings, by this thread */
static _Thread_local void *replaced;   /* a page that becomes a file's after its next walk */
static struct hmreg_domain *allocated; /* of a fabric with HMREG_MR_ALLOCATED */

struct maps;

void __real_maps_end(struct maps *maps);
void __wrap_maps_end(struct maps *maps);

static void map_file(void *page)
{
    int fd = memfd_create("whole", MFD_CLOEXEC);

    assert_int_equal(ftruncate(fd, (off_t)fixture_page()), 0);
    assert_ptr_equal(
        mmap(page, fixture_page(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), page);
    close(fd);
}

void __wrap_maps_end(struct maps *maps)
{
    void *page = replaced;

    walks++;
    __real_maps_end(maps);
    replaced = NULL;
    if (page)
        map_file(page);
}

static char *open_read_as_text(size_t pages)
{
    inside_read_list_as_text();
    open_fixture();
    allocated = counter_open_allocated(fixture.lib);
    return fixture_map(pages);
}

static void close_read_as_text(char *memory, size_t pages)
{
    assert_ok(hmreg_domain_close(allocated));
    munmap(memory, pages * fixture_page());
}

static int walks_of(char *memory, uint64_t access)
{
    struct hmreg_mr *mr;

    walks = 0;
    assert_ok(hmreg_mr_get(allocated, memory, 10, access, &mr));
    assert_true(fixture_is_cached(mr));
    hmreg_mr_put(mr);
    return (int)walks;
}

/* The first miss in a mapping has to know its borders before it is watched. */
TEST(miss__mappings_read_as_text__read_once_where_it_is_watched)
{
    char *memory = open_read_as_text(8);
    size_t page = fixture_page();

    assert_int_equal(walks_of(memory, HMREG_RECV), 2);
    for (size_t i = 1; i < 4; i++)
        assert_int_equal(walks_of(memory + i * page, i % 2 ? HMREG_RECV : HMREG_SEND), 1);
    assert_int_equal(mprotect(memory + 6 * page, 2 * page, PROT_READ), 0);
    assert_int_equal(walks_of(memory + 6 * page, HMREG_SEND), 1);
    inside_set_pinning(allocated, true);
    assert_int_equal(walks_of(memory + 4 * page, HMREG_RECV), 1);
    walks = 0;
    assert_ok(hmreg_domain_flush(allocated));
    assert_true(walks > 0);
    assert_int_equal(walks_of(memory, HMREG_RECV), 2);
    close_read_as_text(memory, 8);
}

static void assert_refused(char *memory, uint64_t access, const char *words)
{
    struct hmreg_mr *mr;

    assert_fails(hmreg_mr_get(allocated, memory, fixture_page(), access, &mr), -EFAULT, words);
}

TEST(miss__mappings_read_as_text__what_cannot_be_accessed_is_refused)
{
    char *memory = open_read_as_text(8);
    size_t page = fixture_page();

    for (int again = 0; again < 2; again++) {
        assert_int_equal(mprotect(memory + page, page, PROT_READ), 0);
        assert_int_equal(mprotect(memory + 2 * page, page, PROT_NONE), 0);
        assert_refused(memory + page, HMREG_RECV, "mapped read-only");
        assert_refused(memory + 2 * page, HMREG_SEND, "not mapped for reading");
        assert_refused(memory + 2 * page + 1, HMREG_SEND, "not mapped for reading");
        assert_int_equal(mprotect(memory, 3 * page, PROT_READ | PROT_WRITE), 0);
        walks_of(memory, HMREG_RECV); /* the mapping is watched */
    }
    assert_int_equal(munmap(memory + 4 * page, page), 0);
    assert_refused(memory + 4 * page, HMREG_SEND, "nothing is mapped at");
    assert_refused(memory + 3 * page + 1, HMREG_SEND, "nothing is mapped at");
    close_read_as_text(memory, 8);
}

/* Nothing reports what happens before a range is watched. */
TEST(miss__page_becomes_a_files_before_it_is_watched__not_cached)
{
    char *memory = open_read_as_text(8);
    struct hmreg_mr *mr;

    replaced = memory + fixture_page();
    assert_ok(hmreg_mr_get(allocated, memory, 2 * fixture_page(), HMREG_RECV, &mr));
    assert_null(replaced);
    assert_false(fixture_is_cached(mr));
    hmreg_mr_put(mr);
    close_read_as_text(memory, 8);
}

TEST_MAIN()
