/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What a library shows: the file and its seals, places that run out and are given back, children
 * of fork(), applications that close descriptors they do not know.
 */
#include "tests/support/cache_bed.h"
#include "tests/support/vendors.h"

#include "core/domain.h"
#include "core/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN 4096

static char memory[8][LEN];

static void open_bed(struct bed *bed)
{
    vendors_reset();
    bed_open(bed, HMREG_MONITOR_IMPORT, NULL);
}

static struct stats_page *page_of(const struct bed *bed)
{
    assert_non_null(bed->lib->board.page);
    return bed->lib->board.page;
}

/* The book of a cache of the first domain; NULL: none. */
static struct stats_book *book_of(const struct bed *bed, enum hmreg_iface iface, int device)
{
    struct stats_page *page = page_of(bed);

    for (unsigned i = 0; i < STATS_BOOKS; i++) {
        struct stats_book *book = &page->books[i];

        if (book->domain == 1 && book->iface == (int)iface && book->device == device)
            return book;
    }
    return NULL;
}

/* ---- the file --------------------------------------------------------------------------- */

static void page__of_a_library__says_whose_it_is(void **state)
{
    const struct stats_header *header;
    struct bed bed;

    open_bed(&bed);
    header = &page_of(&bed)->header;
    assert_true(header->magic == STATS_PAGE_MAGIC);
    assert_memory_equal(&header->magic, "hmgstats", 8);
    assert_int_equal(header->version, STATS_PAGE_VERSION);
    assert_int_equal(header->size, sizeof(struct stats_page));
    assert_int_equal(header->pid, getpid());
    assert_int_equal(header->monitor, HMREG_MONITOR_IMPORT);
    assert_string_equal(header->hmreg, hmreg_version());
    bed_close(&bed);
}

static void file__size_and_bytes__nobody_elses_to_change(void **state)
{
    struct stat status;
    char path[64];
    struct bed bed;
    int fd;

    open_bed(&bed);
    fd = bed.lib->board.fd;
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_size, sizeof(struct stats_page));
    assert_true(status.st_blocks * 512 >= status.st_size); /* no page is still to be had */
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
    bed_close(&bed);
}

static void switched_off__no_descriptor_and_all_is_counted(void **state)
{
    struct bed bed;
    int shown;

    open_bed(&bed);
    shown = test_count_fds();
    bed_close(&bed);
    setenv("HMREG_STATS", "off", 1);
    open_bed(&bed);
    unsetenv("HMREG_STATS");
    assert_int_equal(test_count_fds(), shown - 1);
    bed_key(&bed, memory[0], LEN);
    assert_int_equal(bed_stats(&bed).misses, 1);
    assert_int_equal(bed_stats(&bed).shown, 0);
    assert_int_equal(bed_stats(&bed).caches, 10); /* of host memory, and two devices each */
    bed_close(&bed);
}

/* ---- places ----------------------------------------------------------------------------- */

static void domain__of_a_library__shown_while_it_is_open(void **state)
{
    struct hmreg_domain *other;
    struct stats_page *page;
    struct bed bed;

    open_bed(&bed);
    page = page_of(&bed);
    assert_int_equal(page->domains[0].number, 1);
    assert_string_equal(page->domains[0].provider, bed.domain->ops.name);
    assert_string_equal(page->domains[0].fabric, bed.domain->caps.fabric);
    other = counter_open_more(bed.lib, NULL);
    assert_int_equal(page->domains[1].number, 2);
    assert_ok(hmreg_domain_close(other));
    assert_int_equal(page->domains[1].number, 0);
    other = counter_open_more(bed.lib, NULL);
    assert_int_equal(page->domains[1].number, 3);
    assert_int_equal(page->domains[1].sequence % 2, 0);
    assert_ok(hmreg_domain_close(other));
    bed_close(&bed);
}

static void books__one_a_cache__count_there(void **state)
{
    struct stats_book *host, *device;
    struct bed bed;

    open_bed(&bed);
    vendor_claim(HMREG_IFACE_CUDA, memory[1], LEN, HMREG_MEM_DEVICE, 1);
    host = book_of(&bed, HMREG_IFACE_SYSTEM, -1);
    device = book_of(&bed, HMREG_IFACE_CUDA, 1);
    assert_non_null(book_of(&bed, HMREG_IFACE_ZE, -1));
    bed_key(&bed, memory[0], LEN);
    bed_key(&bed, memory[0], LEN);
    bed_key(&bed, memory[1], LEN);
    assert_int_equal(host->counts[STATS_MISSES], 1);
    assert_int_equal(host->counts[STATS_REGIONS], 1);
    assert_int_equal(host->counts[STATS_LIMIT_REGIONS], bed.domain->max_regions);
    assert_int_equal(device->counts[STATS_MISSES], 1);
    assert_int_equal(bed_stats(&bed).shown, bed_stats(&bed).caches);
    bed_close(&bed);
}

static void books__of_a_cache_that_ended__the_next_begins_at_zero(void **state)
{
    struct hmreg_domain *other;
    struct stats_book *book;
    struct hmreg_mr *mr;
    struct bed bed;

    open_bed(&bed);
    other = counter_open_more(bed.lib, NULL);
    for (book = page_of(&bed)->books; book->domain != 2 || book->iface || book->device >= 0;)
        book++;
    assert_ok(hmreg_mr_get(other, memory[0], LEN, HMREG_SEND, &mr));
    hmreg_mr_put(mr);
    assert_int_equal(book->counts[STATS_MISSES], 1);
    assert_ok(hmreg_domain_close(other));
    assert_int_equal(book->domain, 0);
    other = counter_open_more(bed.lib, NULL);
    assert_int_equal(book->domain, 2);
    assert_int_equal(book->counts[STATS_MISSES], 0);
    assert_int_equal(book->counts[STATS_REGIONS_MAX], 0);
    assert_ok(hmreg_domain_close(other));
    bed_close(&bed);
}

static void places__none_left__counted_unseen_and_said(void **state)
{
    struct hmreg_domain *others[STATS_DOMAINS];
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct stats_header *header;
    struct hmreg_mr *mr;
    struct bed bed;

    open_bed(&bed);
    header = &page_of(&bed)->header;
    for (int i = 0; i < STATS_DOMAINS; i++)
        others[i] = counter_open_more(bed.lib, NULL);
    assert_int_equal(header->lost_domains, 1);
    assert_int_equal(header->lost_books, 10 * (STATS_DOMAINS + 1) - STATS_BOOKS);
    assert_ok(hmreg_mr_get(others[STATS_DOMAINS - 1], memory[0], LEN, HMREG_SEND, &mr));
    hmreg_mr_put(mr);
    assert_ok(hmreg_domain_stats(others[STATS_DOMAINS - 1], &stats));
    assert_int_equal(stats.misses, 1);
    assert_int_equal(stats.shown, 0);
    for (int i = 0; i < STATS_DOMAINS; i++)
        assert_ok(hmreg_domain_close(others[i]));
    assert_int_equal(header->lost_domains, 0);
    assert_int_equal(header->lost_books, 0);
    bed_close(&bed);
}

static void rows__none_left__counted_unseen_and_said(void **state)
{
    static struct ledger_row *rows[STATS_ROWS + 2];
    struct hmreg_stats stats = {0};
    struct ledger ledger;
    struct board board;

    board_open(&board, true, HMREG_MONITOR_IMPORT);
    ledger_open(&ledger, &board, board_domain(&board, "test", "test", 0), HMREG_IFACE_ZE, 3);
    for (int i = 0; i < STATS_ROWS + 2; i++) {
        rows[i] = ledger_join(&ledger);
        ledger_hit(rows[i]->shown);
    }
    assert_int_equal(board.page->header.lost_rows, 2);
    ledger_sum(&ledger, &stats);
    assert_int_equal(stats.hits, STATS_ROWS + 2);
    for (int i = 0; i < STATS_ROWS + 2; i++) {
        assert_true(rows[i]->shown == &rows[i]->own || rows[i]->shown->book == 1);
        ledger_leave(&ledger, rows[i]);
    }
    assert_int_equal(board.page->header.lost_rows, 0);
    assert_int_equal(board.page->books[0].counts[STATS_HITS], STATS_ROWS + 2);
    assert_int_equal(board.page->books[0].sequence % 2, 0);
    for (int i = 0; i < STATS_ROWS; i++)
        assert_int_equal(board.page->rows[i].book, 0);
    ledger_close(&ledger);
    board_close(&board);
}

/* ---- other processes, other owners ------------------------------------------------------ */

static int child(const struct bed *parents)
{
    struct stats_page *page = parents->lib->board.page;
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};
    struct hmreg *lib;

    if (hmreg_open(&config, &lib))
        return 1;
    if (!lib->board.page || lib->board.page == page || lib->board.fd == parents->lib->board.fd)
        return 2;
    if (lib->board.page->header.pid != getpid() || page->header.pid == getpid())
        return 3;
    return hmreg_close(lib) ? 4 : 0;
}

static void fork__child_shows_its_own(void **state)
{
    struct bed bed;
    int status;
    pid_t pid;

    open_bed(&bed);
    pid = fork();
    if (pid == 0)
        _exit(child(&bed));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    bed_key(&bed, memory[0], LEN);
    assert_int_equal(book_of(&bed, HMREG_IFACE_SYSTEM, -1)->counts[STATS_MISSES], 1);
    bed_close(&bed);
}

static void close__application_closed_the_descriptor__its_next_file_stays_open(void **state)
{
    struct bed bed;
    int number;

    open_bed(&bed);
    number = bed.lib->board.fd;
    close(number);
    assert_int_equal(dup3(STDERR_FILENO, number, O_CLOEXEC), number);
    bed_key(&bed, memory[0], LEN);
    bed_close(&bed);
    assert_true(fcntl(number, F_GETFD) >= 0);
    close(number);
}

TEST_MAIN(TEST(page__of_a_library__says_whose_it_is),
          TEST(file__size_and_bytes__nobody_elses_to_change),
          TEST(switched_off__no_descriptor_and_all_is_counted),
          TEST(domain__of_a_library__shown_while_it_is_open), TEST(books__one_a_cache__count_there),
          TEST(books__of_a_cache_that_ended__the_next_begins_at_zero),
          TEST(places__none_left__counted_unseen_and_said),
          TEST(rows__none_left__counted_unseen_and_said), TEST(fork__child_shows_its_own),
          TEST(close__application_closed_the_descriptor__its_next_file_stays_open))
