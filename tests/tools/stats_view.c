/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg stats reads invalid stats pages: of other formats, truncated, forged, with random bytes;
 * through view_read(), and, to check the text, through the command, with this process as the owner.
 */
#include "tests/tools/tool.h"

#include "core/stats/cache_stats.h"
#include "tools/stats/stats_view.h"

#include <fcntl.h>
#include <hmreg/loopback.h>
#include <hmreg/lost.h>
#include <pthread.h>
#include <sys/mman.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static struct view view;
static char why[256];

/* A page as the library makes it: one domain, one cache. */
static void fill(struct stats_layout *page)
{
    memset(page, 0, sizeof(*page));
    page->header = (struct stats_header){.magic = STATS_PAGE_MAGIC,
                                         .version = STATS_PAGE_VERSION,
                                         .size = sizeof(*page),
                                         .pid = getpid(),
                                         .monitor = HMREG_MONITOR_IMPORT,
                                         .hmreg = "7.8.9"};
    page->domains[2].number = 5;
    strcpy(page->domains[2].provider, "ofi");
    strcpy(page->domains[2].fabric, "tcp");
    page->blocks[3].domain = 3;
    page->blocks[3].iface = HMREG_IFACE_CUDA;
    page->blocks[3].device = 1;
    page->blocks[3].counts[STATS_HITS] = 1000;
    page->blocks[3].counts[STATS_MISSES] = 10;
    page->rows[0].block = page->rows[9].block = 4;
    page->rows[0].hits = page->rows[9].hits = 7;
    page->rows[1].block = 5;
    page->rows[1].hits = 100000;
}

static int file_of(const void *bytes, size_t size, int seals)
{
    int fd = memfd_create(STATS_PAGE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, size, 0), size);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static enum view_result read_page(const void *bytes, size_t size, int seals)
{
    int fd = file_of(bytes, size, seals);
    enum view_result result;

    strcpy(why, "");
    result = view_read(fd, getpid(), INT64_MAX, &view, why);
    close(fd);
    return result;
}

static struct stats_layout page;

#define assert_bad(words)                                                                          \
    do {                                                                                           \
        assert_int_equal(read_page(&page, sizeof(page), SEALS), VIEW_BAD);                         \
        assert_says(why, words);                                                                   \
    } while (0)

/* ---- valid pages ------------------------------------------------------------------------ */

TEST(page__as_the_library_makes_it__is_seen)
{
    fill(&page);
    assert_int_equal(read_page(&page, sizeof(page), SEALS), VIEW_GOOD);
    assert_string_equal(view.hmreg, "7.8.9");
    assert_int_equal(view.count, 1);
    assert_int_equal(view.caches[0].domain, 2);
    assert_int_equal(view.domains[2].number, 5);
    assert_string_equal(view.domains[2].provider, "ofi");
    assert_int_equal(view.caches[0].iface, HMREG_IFACE_CUDA);
    assert_int_equal(view.caches[0].device, 1);
    assert_int_equal(view.caches[0].counts[STATS_HITS], 1014);
    assert_int_equal(view.caches[0].counts[STATS_MISSES], 10);
    assert_true(view.caches[0].steady);
}

TEST(page__of_another_process__is_not_ours)
{
    fill(&page);
    page.header.pid = getppid();
    assert_int_equal(read_page(&page, sizeof(page), SEALS), VIEW_NONE);
    assert_says(why, "it is process ");
}

/* A process that is killed during a change leaves an odd sequence number. */
TEST(page__left_in_a_change__seen_and_marked)
{
    fill(&page);
    page.blocks[3].sequence = 7;
    assert_int_equal(read_page(&page, sizeof(page), SEALS), VIEW_GOOD);
    assert_int_equal(view.count, 1);
    assert_false(view.caches[0].steady);
    assert_int_equal(view.caches[0].counts[STATS_HITS], 1014);
}

TEST(page__cache_whose_domain_has_ended__left_out)
{
    fill(&page);
    page.domains[2].number = 0;
    assert_int_equal(read_page(&page, sizeof(page), SEALS), VIEW_GOOD);
    assert_int_equal(view.count, 0);
}

/* ---- invalid pages ---------------------------------------------------------------------- */

TEST(page__of_another_format__names_both)
{
    fill(&page);
    page.header.version = STATS_PAGE_VERSION + 1;
    assert_bad("use the command of the process's hmreg, 7.8.9");
    fill(&page);
    page.header.size += 128;
    assert_bad("its format is 3 with ");
}

TEST(page__of_something_else__refused)
{
    fill(&page);
    page.header.magic++;
    assert_int_equal(read_page(&page, sizeof(page), SEALS), VIEW_NONE);
    assert_says(why, "does not begin as hmreg's");
    memset(&page, 0, sizeof(page));
    assert_int_equal(read_page(&page, sizeof(page), SEALS), VIEW_NONE);
}

TEST(file__cut_short__refused_and_not_mapped)
{
    static const size_t sizes[] = {
        0, 1, sizeof(struct stats_header) - 1, sizeof(struct stats_header), 4096, sizeof(page) - 1};

    fill(&page);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_int_equal(read_page(&page, sizes[i], SEALS), VIEW_NONE);
        assert_says(why, "fewer than");
    }
}

TEST(file__that_may_shrink__refused)
{
    fill(&page);
    assert_int_equal(read_page(&page, sizeof(page), F_SEAL_GROW), VIEW_NONE);
    assert_says(why, "not sealed");
    assert_int_equal(read_page(&page, sizeof(page), F_SEAL_WRITE | F_SEAL_SEAL), VIEW_NONE);
}

TEST(file__that_is_no_memory_file__refused)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    assert_int_equal(view_read(fd, getpid(), INT64_MAX, &view, why), VIEW_NONE);
    assert_says(why, "no memory file");
    close(fd);
}

TEST(page__of_impossible_caches__refused)
{
    fill(&page);
    page.blocks[3].iface = HMREG_IFACE_COUNT;
    assert_bad("its cache 3 is of iface 4");
    fill(&page);
    page.blocks[3].iface = -1;
    assert_bad("iface -1");
    fill(&page);
    page.blocks[3].device = -2;
    assert_bad("device -2");
    fill(&page);
    page.blocks[STATS_BLOCKS - 1].domain = STATS_DOMAINS + 1;
    assert_bad("domain 33");
    fill(&page);
    page.blocks[0].domain = UINT32_MAX;
    assert_bad("domain 4294967295");
}

TEST(page__words_without_end_or_with_escapes__printable)
{
    fill(&page);
    memset(page.domains[2].provider, 'x', sizeof(page.domains[2].provider));
    memset(page.domains[2].fabric, 0x1b, sizeof(page.domains[2].fabric));
    memset(page.header.hmreg, 0xff, sizeof(page.header.hmreg));
    assert_int_equal(read_page(&page, sizeof(page), SEALS), VIEW_GOOD);
    assert_int_equal(strlen(view.domains[2].provider), 32);
    assert_int_equal(strspn(view.domains[2].fabric, "?"), 64);
    assert_string_equal(view.hmreg, "????????????????");
}

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

/* The valid header makes view_read() go on to the random part. */
TEST(page__of_random_bytes__seen_or_refused)
{
    uint64_t seed = 20261120;
    unsigned good = 0;

    for (int round = 0; round < 100; round++) {
        fill(&page);
        for (int i = 0; i < 1 << round % 12; i++) {
            size_t at =
                sizeof(page.header) + next_random(&seed) % (sizeof(page) - sizeof(page.header));

            ((unsigned char *)&page)[at] = (unsigned char)next_random(&seed);
        }
        if (read_page(&page, sizeof(page), SEALS) != VIEW_GOOD)
            continue;
        good++;
        assert_true(view.count <= STATS_BLOCKS);
        for (unsigned i = 0; i < view.count; i++)
            assert_true(view.caches[i].domain < STATS_DOMAINS &&
                        (unsigned)view.caches[i].iface < HMREG_IFACE_COUNT);
    }
    assert_in_range(good, 1, 99);
}

/* ---- concurrent writes ------------------------------------------------------------------ */

static struct stats_page live_page;
static struct cache_stats stats;
static atomic_bool stop;

/* Threads start, hit and end; each moves its hits from its row to the block. */
static void *start_and_end(void *arg)
{
    while (!atomic_load(&stop)) {
        struct cache_stats_row *row = cache_stats_join(&stats);

        for (int i = 0; row && i < 3; i++)
            cache_stats_hit(row->shown);
        cache_stats_leave(&stats, row);
    }
    return NULL;
}

TEST(hits__of_threads_that_start_and_end__none_twice_and_none_lost)
{
    pthread_t threads[2];
    uint64_t before = 0;

    stats_page_open(&live_page, true, HMREG_MONITOR_IMPORT);
    cache_stats_open(&stats, &live_page, stats_page_domain(&live_page, "test", "test", 0),
                     HMREG_IFACE_ZE, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, start_and_end, NULL), 0);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(view_read(live_page.fd, getpid(), INT64_MAX, &view, why), VIEW_GOOD);
        assert_int_equal(view.count, 1);
        if (!view.caches[0].steady)
            continue;
        assert_true(view.caches[0].counts[STATS_HITS] >= before);
        before = view.caches[0].counts[STATS_HITS];
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(view_read(live_page.fd, getpid(), INT64_MAX, &view, why), VIEW_GOOD);
    assert_int_equal(view.caches[0].counts[STATS_HITS] % 3, 0);
    cache_stats_close(&stats);
    stats_page_close(&live_page);
}

/* ---- by the command --------------------------------------------------------------------- */

static struct tool command_on(const void *bytes, size_t size, int seals)
{
    int fd = file_of(bytes, size, seals);
    struct tool tool;
    char number[16];

    snprintf(number, sizeof(number), "%d", (int)getpid());
    tool = tool_run("stats", number);
    close(fd);
    return tool;
}

TEST(command__wrong_format__says_what_to_use)
{
    struct tool tool;

    fill(&page);
    page.header.version = 77;
    tool = command_on(&page, sizeof(page), SEALS);
    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "cannot be read: its format is 77");
    assert_string_equal(tool.err, "");
}

TEST(command__file_of_the_name_that_is_no_librarys__is_not_shown)
{
    struct tool tool;

    fill(&page);
    tool = command_on(&page, sizeof(page), F_SEAL_GROW);
    assert_int_equal(tool.status, 1);
    assert_says(tool.out, "shows no counters");
}

TEST(command__page_that_is_full__says_what_is_missing)
{
    struct tool tool;

    fill(&page);
    page.header.lost_rows = 12;
    tool = command_on(&page, sizeof(page), SEALS);
    assert_says(tool.out, "the hits of 12 threads");
    assert_says(tool.out, "cuda 1");
    assert_says(tool.out, "1014");
}

TEST(command__lost_domain__is_named)
{
    struct tool tool;

    fill(&page);
    tool = command_on(&page, sizeof(page), SEALS);
    assert_null(strstr(tool.out, "lost"));
    page.domains[2].lost = 1;
    tool = command_on(&page, sizeof(page), SEALS);
    assert_says(tool.out, "domain 5: ofi, tcp; it is lost");
}

/* The domain's NIC is gone, and the process goes on. */
TEST(command__domain_that_is_lost__in_text_json_and_metrics)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_DISABLED};
    struct hmreg *lib = NULL;
    struct hmreg_domain *domain = NULL;
    char pid[16], line[200];

    assert_int_equal(hmreg_open(&config, &lib), 0);
    assert_int_equal(hmreg_domain_open_loopback(lib, NULL, NULL, &domain), 0);
    assert_int_equal(hmreg_domain_lost(domain, "a test"), 0);
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    assert_says(tool_run("stats", pid).out, "domain 1: loopback, loopback; it is lost");
    assert_true(json_is_true(
        at(tool_document(0, "stats", pid, "--json"), "processes/0/libraries/0/domains/0/lost")));
    snprintf(line, sizeof(line),
             "hmreg_domain_lost domain=1 fabric=loopback library=0 pid=%s process=tool_stats_view "
             "provider=loopback = 1\n",
             pid);
    assert_says(tool_metrics("stats", pid), line);
    assert_int_equal(hmreg_domain_close(domain), 0);
    assert_int_equal(hmreg_close(lib), 0);
}

TEST(command__huge_numbers__are_printed)
{
    struct tool tool;

    fill(&page);
    for (unsigned i = 0; i < STATS_COUNTS; i++)
        page.blocks[3].counts[i] = UINT64_MAX;
    for (unsigned i = 0; i < HMREG_STATS_TIMES; i++)
        page.blocks[3].times[i] = UINT64_MAX;
    tool = command_on(&page, sizeof(page), SEALS);
    assert_int_equal(tool.status, 0);
    assert_string_equal(tool.err, "");
}

TEST(command__two_copies_of_a_descriptor__one_library)
{
    json_t *document, *process;
    char number[16];
    int fd, copy;

    fill(&page);
    fd = file_of(&page, sizeof(page), SEALS);
    copy = dup(fd);
    snprintf(number, sizeof(number), "%d", (int)getpid());
    document = tool_document(0, "stats", "--json", number);
    process = json_array_get(list_at(document, "processes"), 0);
    assert_int_equal(json_array_size(list_at(process, "libraries")), 1);
    close(copy);
    close(fd);
}

TEST_MAIN()
