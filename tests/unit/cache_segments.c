/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Cached gets of several segments or ranges: which list has which region, and what ends it.
 */
#include "tests/unit/cache_segments.h"

#include <hmreg/loopback.h>

/* ---- which list ------------------------------------------------------------------------- */

TEST(segments__other_list__other_region)
{
    struct list list;

    open_fixture();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(key_of(pair(&list, memory[5], memory[2])), 1);
        assert_int_equal(key_of(pair(&list, memory[2], memory[5])), 3);
        assert_int_equal(key_of(pair(&list, memory[2], memory[6])), 5);
        pair(&list, memory[5], memory[2])->segments[1].u.memory.iov_len--;
        assert_int_equal(key_of(&list), 7);
        add(pair(&list, memory[5], memory[2]), memory[3], 1);
        assert_int_equal(key_of(&list), 9);
        pair(&list, memory[5], memory[2])->attr.segment_count = 1;
        assert_int_equal(key_of(&list), 12);
        pair(&list, memory[5], memory[2])->attr.page_size = 4096;
        assert_int_equal(key_of(&list), 13);
    }
    assert_int_equal(registrations(), 14);
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_int_equal(inside_variants(fixture.domain), 0);
}

TEST(segments__many__cached)
{
    struct list list;

    open_fixture();
    clear(&list);
    for (int i = 0; i < MOST; i++)
        add(&list, memory[i % 16] + i, 64);
    for (int i = 0; i < 3; i++)
        assert_int_equal(key_of(&list), 1);
    list.segments[MOST - 1].u.memory.iov_len++;
    assert_int_equal(key_of(&list), MOST + 1);
    assert_int_equal(registrations(), 2 * MOST);
}

TEST(segments__held_at_close__first_address_and_length_of_all)
{
    struct hmreg_mr *mr = NULL;
    struct list list;
    char held[80];

    open_fixture();
    pair(&list, memory[5], memory[2]);
    assert_ok(hmreg_mr_get_attr(fixture.domain, &list.attr, 0, &mr));
    snprintf(held, sizeof(held), "%d bytes at %p (1 gets without a put)", 2 * LEN, memory[5]);
    assert_fails(hmreg_domain_close(fixture.domain), -EBUSY, held);
    hmreg_mr_put(mr);
}

/* ---- limits ----------------------------------------------------------------------------- */

/* ---- what ends it ----------------------------------------------------------------------- */

/* Does a userfaultfd watch the mapping that begins there? */
static bool is_watched(const char *addr)
{
    char line[512], begin[32];
    bool inside = false, found = false;
    FILE *smaps = fopen("/proc/self/smaps", "re");

    assert_non_null(smaps);
    snprintf(begin, sizeof(begin), "%lx-", (unsigned long)(uintptr_t)addr);
    while (fgets(line, sizeof(line), smaps)) {
        if (strncmp(line, "VmFlags:", 8) != 0)
            inside |= strncmp(line, begin, strlen(begin)) == 0;
        else if (inside)
            break;
    }
    found = inside && (strstr(line, " uw") || strstr(line, " um"));
    fclose(smaps);
    return found;
}

static void tidy(void)
{
    assert_ok(hmreg_domain_flush(fixture.domain));
    while (inside_tidy(fixture.lib))
        ;
}

/* In mappings of their own, so that to watch one is not to watch the other. */
TEST(watched__segments_far_apart__each_watched_and_none_after)
{
    size_t page = fixture_page(), apart = (size_t)1 << 18;
    struct list list;
    char *pages[2];

    open_watched();
    pages[0] = fixture_reserve(apart + 1);
    pages[1] = pages[0] + apart * page;
    for (int i = 0; i < 2; i++)
        assert_non_null(fixture_map_at(pages[i], 1));
    for (int i = 0; i < 2; i++) {
        pair(&list, pages[1], pages[0]);
        for (int j = 0; j < 2; j++)
            assert_int_equal(key_of(&list), 1 + 2 * i);
        for (int j = 0; j < 2; j++)
            assert_int_equal(is_watched(pages[j]), fixture_monitor() == HMREG_MONITOR_USERFAULTFD);
        assert_int_equal(munmap(pages[i], page), 0);
        assert_int_equal(fixture_stats().invalidations, i + 1);
        assert_int_equal(fixture_stats().regions, 0);
        assert_non_null(fixture_map_at(pages[i], 1));
    }
    key_of(&list);
    tidy();
    for (int i = 0; i < 2; i++) {
        assert_false(is_watched(pages[i]));
        munmap(pages[i], page);
    }
}

/* A file may change without an event, but not without a count. */
TEST(watched__a_segment_is_of_a_file__cached_if_each_change_is_noticed)
{
    bool noticed = fixture_monitor() == HMREG_MONITOR_COUNTER;
    int fd = memfd_create("hmreg-test", MFD_CLOEXEC);
    size_t page = fixture_page();
    struct hmreg_mr *mr;
    struct list list;
    char *pages, *file;

    open_watched();
    pages = fixture_map(7);
    assert_int_equal(ftruncate(fd, (off_t)page), 0);
    file = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(file, MAP_FAILED);
    for (int i = 0; i < 2; i++) {
        mr = get(i ? pair(&list, file, pages) : pair(&list, pages, file));
        assert_int_equal(fixture_is_cached(mr), noticed);
        hmreg_mr_put(mr);
    }
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(fixture_stats().invalidations, noticed ? 2 : 0);
    key_of(pair(&list, pages, pages + page)); /* is still watched as a region needs it */
    assert_int_equal(munmap(pages, page), 0);
    assert_int_equal(fixture_stats().invalidations, noticed ? 3 : 1);
    assert_int_equal(fixture_stats().regions, 0);
    munmap(file, page);
    munmap(pages, 7 * page);
    close(fd);
}

TEST(segments__part_is_not_mapped__as_regsgl)
{
    size_t page = fixture_page();
    struct hmreg_mr *mr;
    struct list list;
    char *pages;

    open_watched();
    pages = fixture_map(3);
    munmap(pages + page, page);
    mr = get(pair(&list, pages, pages + page)); /* the counting fabric pins nothing */
    assert_false(fixture_is_cached(mr));
    hmreg_mr_put(mr);
    assert_int_equal(atomic_load(&counter.regions), 0);
    munmap(pages, 3 * page);
}

TEST_MAIN()
