/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A library's stats page: the file and its seals, slots that run out and are freed, children of
 * fork(), applications that close descriptors they do not know. And the counters that it shows: how
 * those of threads add up, and where durations are counted.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/vendors.h"

/* The page as its readers see it; and more threads than it has rows for. */
#include "core/context/domain.h"
#include "core/stats/cache_stats.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#define LEN 4096

static char memory[8][LEN];

static void open_fixture(void)
{
    vendors_reset();
    setenv("HMREG_IFACES", "cuda,rocr,ze",
           1); /* so that each device has its cache from the start */
    fixture_open(HMREG_MONITOR_IMPORT, NULL);
    unsetenv("HMREG_IFACES");
}

static struct stats_layout *page_of(void)
{
    assert_non_null(fixture.lib->stats_page.page);
    return fixture.lib->stats_page.page;
}

/* The stats block of a cache of the first domain; NULL: none. */
static struct stats_block *book_of(enum hmreg_iface iface, int device)
{
    struct stats_layout *page = page_of();

    for (unsigned i = 0; i < STATS_BLOCKS; i++) {
        struct stats_block *block = &page->blocks[i];

        if (block->domain == 1 && block->iface == (int)iface && block->device == device)
            return block;
    }
    return NULL;
}

/* ---- the file --------------------------------------------------------------------------- */

TEST(page__of_a_library__says_whose_it_is)
{
    const struct stats_header *header;

    open_fixture();
    header = &page_of()->header;
    assert_true(header->magic == STATS_PAGE_MAGIC);
    assert_memory_equal(&header->magic, "hmgstats", 8);
    assert_int_equal(header->version, STATS_PAGE_VERSION);
    assert_int_equal(header->size, sizeof(struct stats_layout));
    assert_int_equal(header->pid, getpid());
    assert_int_equal(header->monitor, HMREG_MONITOR_IMPORT);
    assert_string_equal(header->hmreg, hmreg_version());
}

TEST(file__size_and_bytes__only_the_owner_changes_them)
{
    struct stat status;
    char path[64];
    int fd;

    open_fixture();
    fd = fixture.lib->stats_page.fd;
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_size, sizeof(struct stats_layout));
    assert_true(status.st_blocks * 512 >= status.st_size); /* all pages are allocated */
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(fcntl(fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
                     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(errno, EPERM);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0) { /* kernels without a seal for future writers let the owner write */
        assert_int_equal(ftruncate(fd, 1 << 20), -1);
        close(fd);
    }
}

#ifndef F_SEAL_FUTURE_WRITE /* Linux 5.1 */
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

static bool kernel_seals_against_later_writers(void)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool seals = !fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);

    close(fd);
    return seals;
}

/* Tries all that it inherits. 0: nothing could be written. */
static int write_to_page(struct stats_layout *page, int fd)
{
    void *again = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int none[2];

    if (again != MAP_FAILED)
        return 3;
    if (pwrite(fd, "x", 1, 0) >= 0)
        return 1;
    /* The kernel reads our memory for the pipe: EFAULT, where a load would end the process. */
    return pipe(none) || write(none[1], page, 1) >= 0 || errno != EFAULT ? 2 : 0;
}

TEST(file__in_a_forked_child__not_writable)
{
    if (!kernel_seals_against_later_writers())
        test_skip("this kernel seals no memory file against later writers");
    open_fixture();
    test_in_child(write_to_page(fixture.lib->stats_page.page, fixture.lib->stats_page.fd));
    assert_true(page_of()->header.magic == STATS_PAGE_MAGIC);
}

TEST(switched_off__no_descriptor_and_all_is_counted)
{
    int shown;

    open_fixture();
    shown = test_count_fds();
    fixture_close();
    setenv("HMREG_STATS", "off", 1);
    open_fixture();
    unsetenv("HMREG_STATS");
    assert_int_equal(test_count_fds(), shown - 1);
    fixture_key(memory[0], LEN);
    assert_int_equal(fixture_stats().misses, 1);
    assert_int_equal(fixture_stats().shown, 0);
    assert_int_equal(fixture_stats().caches,
                     10); /* one of host memory, and two devices of each vendor */
}

/* ---- changes ---------------------------------------------------------------------------- */

TEST(change__begun_and_ended__odd_between_and_another_after)
{
    _Atomic uint32_t sequence = UINT32_MAX - 1;

    stats_page_begin_change(&sequence);
    assert_int_equal(sequence, UINT32_MAX);
    stats_page_end_change(&sequence);
    assert_int_equal(sequence, 0);
}

/* ---- slots ------------------------------------------------------------------------------ */

TEST(books__one_a_cache__count_there)
{
    struct stats_block *host, *device;

    open_fixture();
    vendor_claim(HMREG_IFACE_CUDA, memory[1], LEN, HMREG_MEM_DEVICE, 1);
    host = book_of(HMREG_IFACE_SYSTEM, -1);
    device = book_of(HMREG_IFACE_CUDA, 1);
    assert_non_null(book_of(HMREG_IFACE_ZE, -1));
    fixture_key(memory[0], LEN);
    fixture_key(memory[0], LEN);
    fixture_key(memory[1], LEN);
    assert_int_equal(host->counts[STATS_MISSES], 1);
    assert_int_equal(host->counts[STATS_REGIONS], 1);
    assert_int_equal(host->counts[STATS_LIMIT_REGIONS], fixture.domain->max_regions);
    assert_int_equal(host->counts[STATS_LIMIT_BYTES], fixture.domain->max_bytes);
    assert_int_equal(device->counts[STATS_MISSES], 1);
    assert_int_equal(device->counts[STATS_LIMIT_BYTES], fixture.domain->max_bytes);
    assert_int_equal(fixture_stats().shown, fixture_stats().caches);
}

TEST(rows__none_left__counted_unseen_and_said)
{
    static struct cache_stats_row *rows[STATS_ROWS + 2];
    struct hmreg_stats stats = {0};
    struct cache_stats counters;
    struct stats_page stats_page;

    stats_page_open(&stats_page, true, HMREG_MONITOR_IMPORT);
    cache_stats_open(&counters, &stats_page, stats_page_domain(&stats_page, "test", "test", 0),
                     HMREG_IFACE_ZE, 3);
    for (int i = 0; i < STATS_ROWS + 2; i++) {
        rows[i] = cache_stats_join(&counters);
        cache_stats_hit(rows[i]->shown);
    }
    assert_int_equal(stats_page.page->header.lost_rows, 2);
    cache_stats_sum(&counters, &stats);
    assert_int_equal(stats.hits, STATS_ROWS + 2);
    for (int i = 0; i < STATS_ROWS + 2; i++) {
        assert_true(rows[i]->shown == &rows[i]->own || rows[i]->shown->block == 1);
        cache_stats_leave(&counters, rows[i]);
    }
    assert_int_equal(stats_page.page->header.lost_rows, 0);
    assert_int_equal(stats_page.page->blocks[0].counts[STATS_HITS], STATS_ROWS + 2);
    assert_int_equal(stats_page.page->blocks[0].sequence % 2, 0);
    for (int i = 0; i < STATS_ROWS; i++)
        assert_int_equal(stats_page.page->rows[i].block, 0);
    memset((void *)stats_page.page->blocks[0].times, 5, sizeof(stats_page.page->blocks[0].times));
    cache_stats_close(&counters);
    cache_stats_open(&counters, &stats_page, stats_page_domain(&stats_page, "test", "test", 0),
                     HMREG_IFACE_ZE, 3);
    for (int i = 0; i < HMREG_STATS_TIMES; i++)
        assert_int_equal(stats_page.page->blocks[0].times[i], 0);
    cache_stats_close(&counters);
    stats_page_close(&stats_page);
}

/* ---- counters on no page ------------------------------------------------------------------ */

static void open_counters(struct cache_stats *counters)
{
    static struct stats_page none;

    cache_stats_open(counters, &none, NULL, HMREG_IFACE_SYSTEM, -1);
}

static uint64_t timed(const struct hmreg_stats *stats)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < HMREG_STATS_TIMES; i++)
        sum += stats->reg_times[i];
    return sum;
}

TEST(sum__two_caches__each_counter)
{
    struct hmreg_stats sum = {0};
    struct cache_stats counters;

    open_counters(&counters);
    for (int n = 0; n < STATS_COUNTS; n++)
        cache_stats_set(&counters, n, UINT64_C(1) << n);
    for (unsigned i = 0; i < HMREG_STATS_TIMES; i++)
        counters.block->times[i] = i;
    cache_stats_sum(&counters, &sum);
    cache_stats_set(&counters, STATS_REG_LONGEST_NS, 3);
    cache_stats_sum(&counters, &sum);
    assert_int_equal(sum.caches, 2);
    assert_int_equal(sum.shown, 0);
    assert_int_equal(sum.hits, 2 << STATS_HITS);
    assert_int_equal(sum.misses, 2 << STATS_MISSES);
    assert_int_equal(sum.uncached, 2 << STATS_UNCACHED);
    assert_int_equal(sum.failures, 2 << STATS_FAILURES);
    assert_int_equal(sum.evicted_limit, 2 << STATS_EVICTED_LIMIT);
    assert_int_equal(sum.evicted_memory, 2 << STATS_EVICTED_MEMORY);
    assert_int_equal(sum.evicted_room, 2 << STATS_EVICTED_ROOM);
    assert_int_equal(sum.evicted_keys, 2 << STATS_EVICTED_KEYS);
    assert_int_equal(sum.evictions,
                     sum.evicted_limit + sum.evicted_memory + sum.evicted_room + sum.evicted_keys);
    assert_int_equal(sum.invalidations, 2 << STATS_INVALIDATIONS);
    assert_int_equal(sum.waits, 2 << STATS_WAITS);
    assert_int_equal(sum.waiting, 2 << STATS_WAITING);
    assert_int_equal(sum.reg_ns, 2 << STATS_REG_NS);
    assert_int_equal(sum.reg_longest_ns, 1 << STATS_REG_LONGEST_NS);
    assert_int_equal(sum.regions_max, 2 << STATS_REGIONS_MAX);
    assert_int_equal(sum.bytes_max, 2 << STATS_BYTES_MAX);
    assert_int_equal(sum.regions, 2 << STATS_REGIONS);
    assert_int_equal(sum.bytes, 2 << STATS_BYTES);
    assert_int_equal(sum.retired, 2 << STATS_RETIRED);
    assert_int_equal(sum.wrong_puts, 2 << STATS_WRONG_PUTS);
    for (unsigned i = 0; i < HMREG_STATS_TIMES; i++)
        assert_int_equal(sum.reg_times[i], 2 * i);
    cache_stats_close(&counters);
}

/* ---- time ------------------------------------------------------------------------------- */

static void sleep_two_ms(const struct provider_request *request)
{
    const struct timespec moment = {.tv_nsec = 2000000};

    nanosleep(&moment, NULL);
}

TEST(times__slow_registrations__each_is_timed)
{
    struct hmreg_stats stats;

    open_fixture();
    counter.reg_hook = sleep_two_ms;
    for (int i = 0; i < 10; i++)
        fixture_key(memory[i % 5], LEN);
    stats = fixture_stats();
    assert_int_equal(timed(&stats), 5);
    for (unsigned i = 0; i < 20; i++) /* 2^20 ns are less than 2 ms */
        assert_int_equal(stats.reg_times[i], 0);
    assert_true(stats.reg_ns >= 5 * 2000000);
    assert_in_range(stats.reg_longest_ns, 2000000, stats.reg_ns);
}

TEST(times__powers_of_two__in_their_buckets)
{
    struct hmreg_stats stats = {0};
    struct cache_stats counters;

    open_counters(&counters);
    cache_stats_took(&counters, 0);
    cache_stats_took(&counters, 1);
    cache_stats_took(&counters, 4095);
    cache_stats_took(&counters, 4096);
    cache_stats_took(&counters, 8191);
    cache_stats_took(&counters, UINT64_C(1) << 60);
    cache_stats_sum(&counters, &stats);
    assert_int_equal(stats.reg_times[0], 2);
    assert_int_equal(stats.reg_times[11], 1);
    assert_int_equal(stats.reg_times[12], 2);
    assert_int_equal(stats.reg_times[HMREG_STATS_TIMES - 1], 1);
    assert_int_equal(timed(&stats), 6);
    assert_true(stats.reg_longest_ns == UINT64_C(1) << 60);
    assert_true(stats.reg_ns == 1 + 4095 + 4096 + 8191 + (UINT64_C(1) << 60));
    cache_stats_close(&counters);
}

/* ---- rows ------------------------------------------------------------------------------- */

static uint64_t hits_of(struct cache_stats *counters)
{
    struct hmreg_stats stats = {0};

    cache_stats_sum(counters, &stats);
    return stats.hits;
}

TEST(rows__hits_of_threads__summed_and_kept_when_they_leave)
{
    struct cache_stats_row *rows[3];
    struct cache_stats counters;

    open_counters(&counters);
    for (int i = 0; i < 3; i++) {
        rows[i] = cache_stats_join(&counters);
        assert_non_null(rows[i]);
        for (int n = 0; n <= i; n++)
            cache_stats_hit(rows[i]->shown);
    }
    cache_stats_add(&counters, STATS_HITS, 100);
    assert_int_equal(hits_of(&counters), 106);
    cache_stats_leave(&counters, rows[1]); /* the one in the middle, the last, the first */
    cache_stats_hit(rows[2]->shown);
    assert_int_equal(hits_of(&counters), 107);
    cache_stats_leave(&counters, rows[0]);
    cache_stats_leave(&counters, rows[2]);
    cache_stats_leave(&counters, NULL);
    assert_int_equal(hits_of(&counters), 107);
    cache_stats_close(&counters);
}

/* ---- other processes, other owners ------------------------------------------------------ */

static int child(const struct fixture *parents)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};
    struct hmreg *lib;

    if (hmreg_open(&config, &lib))
        return 1;
    if (!lib->stats_page.page || lib->stats_page.fd == parents->lib->stats_page.fd)
        return 2;
    if (lib->stats_page.page->header.pid != getpid())
        return 3;
    return hmreg_close(lib) ? 4 : 0;
}

TEST(fork__child_shows_its_own)
{
    open_fixture();
    test_in_child(child(&fixture));
    fixture_key(memory[0], LEN);
    assert_int_equal(book_of(HMREG_IFACE_SYSTEM, -1)->counts[STATS_MISSES], 1);
}

TEST_MAIN()
