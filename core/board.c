/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See board.h. A place is taken and given back under the board's lock. Readers know no lock: what a
 * place stands for is changed while its sequence is odd, or, of a row, while the row is free.
 */
#include "core/board.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 0x0008U
#endif
#ifndef F_SEAL_FUTURE_WRITE /* Linux 5.1 */
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* ---- the file --------------------------------------------------------------------------- */

/* Some systems insist on memory files that cannot be executed, others do not know them. */
static int make_file(void)
{
    int fd = memfd_create(STATS_PAGE_NAME, MFD_CLOEXEC | MFD_NOEXEC_SEAL);

    return fd < 0 && errno == EINVAL
               ? memfd_create(STATS_PAGE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING)
               : fd;
}

/* A reader maps the file only if it cannot shrink under it. The seal against writing leaves the
 * mapping that is there, ours, as it is; older kernels are without. */
static int seal(int fd)
{
    int seals = F_SEAL_SHRINK | F_SEAL_GROW;

    (void)fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
    return fcntl(fd, F_ADD_SEALS, seals | F_SEAL_SEAL);
}

/* To go beyond the limit of files' sizes is answered with a signal. */
static bool may_be_so_long(void)
{
    struct rlimit limit;

    return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur >= sizeof(struct stats_page);
}

/* All of its memory is had now: where the system is short of it later, a counter that has no page
 * would end the process (SIGBUS). */
static int allocate(int fd)
{
    int rc;

    do {
        rc = fallocate(fd, 0, 0, sizeof(struct stats_page));
    } while (rc && errno == EINTR);
    return rc;
}

static struct stats_page *map_file(int fd)
{
    struct stats_page *page;

    if (!may_be_so_long() || allocate(fd))
        return NULL;
    page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return NULL;
    if (!seal(fd))
        return page;
    munmap(page, sizeof(*page));
    return NULL;
}

static void write_header(struct stats_header *header, enum hmreg_monitor monitor)
{
    header->version = STATS_PAGE_VERSION;
    header->size = sizeof(struct stats_page);
    header->pid = getpid();
    header->monitor = monitor;
    snprintf(header->hmreg, sizeof(header->hmreg), "%s", hmreg_version());
    /* Last: a reader that sees it sees the rest. */
    atomic_thread_fence(memory_order_release);
    header->magic = STATS_PAGE_MAGIC;
}

void board_open(struct board *board, bool wanted, enum hmreg_monitor monitor)
{
    struct stat status;
    int fd;

    *board = (struct board){.fd = -1};
    pthread_mutex_init(&board->lock, NULL);
    fd = wanted ? make_file() : -1;
    if (fd < 0)
        return;
    board->page = fstat(fd, &status) ? NULL : map_file(fd);
    if (!board->page) {
        close(fd);
        return;
    }
    board->fd = fd;
    board->device = status.st_dev;
    board->inode = status.st_ino;
    write_header(&board->page->header, monitor);
}

void board_show_monitor(struct board *board, enum hmreg_monitor monitor)
{
    if (board->page)
        __atomic_store_n(&board->page->header.monitor, (uint32_t)monitor, __ATOMIC_RELAXED);
}

/* Programs that become daemons close descriptors they do not know, and then the number is another
 * file's. */
static bool is_ours(const struct board *board)
{
    struct stat status;

    return !fstat(board->fd, &status) && status.st_dev == board->device &&
           status.st_ino == board->inode;
}

void board_close(struct board *board)
{
    if (board->page) {
        munmap(board->page, sizeof(*board->page));
        if (is_ours(board))
            close(board->fd);
    }
    pthread_mutex_destroy(&board->lock);
}

/* ---- changes ---------------------------------------------------------------------------- */

void board_begin_change(_Atomic uint32_t *sequence)
{
    atomic_store_explicit(sequence, atomic_load_explicit(sequence, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    /* Pairs with the reader's acquire fence: whoever sees the change sees an odd sequence. */
    atomic_thread_fence(memory_order_release);
}

void board_end_change(_Atomic uint32_t *sequence)
{
    atomic_store_explicit(sequence, atomic_load_explicit(sequence, memory_order_relaxed) + 1,
                          memory_order_release);
}

/* ---- places ----------------------------------------------------------------------------- */

/* The first of count places of so many bytes, each with its owner (0: free) at an offset. NULL:
 * none is free, and one more is lost. */
static void *free_place(void *places, size_t size, size_t owner, unsigned count,
                        _Atomic uint32_t *lost)
{
    for (unsigned i = 0; i < count; i++) {
        char *place = (char *)places + i * size;

        if (!atomic_load_explicit((_Atomic uint32_t *)(place + owner), memory_order_relaxed))
            return place;
    }
    atomic_fetch_add(lost, 1);
    return NULL;
}

static struct stats_domain *free_domain(struct stats_page *page)
{
    return free_place(page->domains, sizeof(page->domains[0]),
                      offsetof(struct stats_domain, number), STATS_DOMAINS,
                      &page->header.lost_domains);
}

/* The caches of a domain that is not shown are not shown either. */
static struct stats_book *free_book(struct stats_page *page, const struct stats_domain *domain)
{
    return free_place(page->books, sizeof(page->books[0]), offsetof(struct stats_book, domain),
                      domain ? STATS_BOOKS : 0, &page->header.lost_books);
}

/* Nor hits of a cache that is not. */
static struct stats_row *free_row(struct stats_page *page, const struct stats_book *book)
{
    return free_place(page->rows, sizeof(page->rows[0]), offsetof(struct stats_row, book),
                      book ? STATS_ROWS : 0, &page->header.lost_rows);
}

struct stats_domain *board_domain(struct board *board, const char *provider, const char *fabric,
                                  uint32_t flags)
{
    struct stats_domain *domain;

    if (!board->page)
        return NULL;
    pthread_mutex_lock(&board->lock);
    board->domains++;
    domain = free_domain(board->page);
    if (domain) {
        board_begin_change(&domain->sequence);
        snprintf(domain->provider, sizeof(domain->provider), "%s", provider);
        snprintf(domain->fabric, sizeof(domain->fabric), "%s", fabric);
        atomic_store_explicit(&domain->flags, flags, memory_order_relaxed);
        atomic_store_explicit(&domain->number, board->domains, memory_order_relaxed);
        board_end_change(&domain->sequence);
    }
    pthread_mutex_unlock(&board->lock);
    return domain;
}

static void clear_book(struct stats_book *book)
{
    for (unsigned i = 0; i < STATS_COUNTS_ROOM; i++)
        atomic_store_explicit(&book->counts[i], 0, memory_order_relaxed);
    for (unsigned i = 0; i < HMREG_STATS_TIMES; i++)
        atomic_store_explicit(&book->times[i], 0, memory_order_relaxed);
}

struct stats_book *board_book(struct board *board, const struct stats_domain *domain,
                              enum hmreg_iface iface, int device)
{
    struct stats_book *book;

    if (!board->page)
        return NULL;
    pthread_mutex_lock(&board->lock);
    book = free_book(board->page, domain);
    if (book) {
        board_begin_change(&book->sequence);
        clear_book(book);
        atomic_store_explicit(&book->iface, (int32_t)iface, memory_order_relaxed);
        atomic_store_explicit(&book->device, device, memory_order_relaxed);
        atomic_store_explicit(&book->domain, 1 + (uint32_t)(domain - board->page->domains),
                              memory_order_relaxed);
        board_end_change(&book->sequence);
    }
    pthread_mutex_unlock(&board->lock);
    return book;
}

struct stats_row *board_row(struct board *board, const struct stats_book *book)
{
    struct stats_row *row;

    if (!board->page)
        return NULL;
    pthread_mutex_lock(&board->lock);
    row = free_row(board->page, book);
    if (row) {
        atomic_store_explicit(&row->hits, 0, memory_order_relaxed);
        /* Release: a reader that finds the row its book's finds no hits of another. */
        atomic_store_explicit(&row->book, 1 + (uint32_t)(book - board->page->books),
                              memory_order_release);
    }
    pthread_mutex_unlock(&board->lock);
    return row;
}

/* ---- given back ------------------------------------------------------------------------- */

static void end_place(struct board *board, _Atomic uint32_t *sequence, _Atomic uint32_t *owner)
{
    pthread_mutex_lock(&board->lock);
    board_begin_change(sequence);
    atomic_store_explicit(owner, 0, memory_order_relaxed);
    board_end_change(sequence);
    pthread_mutex_unlock(&board->lock);
}

void board_end_domain(struct board *board, struct stats_domain *domain)
{
    if (domain)
        end_place(board, &domain->sequence, &domain->number);
    else if (board->page)
        atomic_fetch_sub(&board->page->header.lost_domains, 1);
}

void board_end_book(struct board *board, struct stats_book *book)
{
    if (book)
        end_place(board, &book->sequence, &book->domain);
    else if (board->page)
        atomic_fetch_sub(&board->page->header.lost_books, 1);
}

void board_end_row(struct board *board, struct stats_row *row)
{
    if (row)
        atomic_store_explicit(&row->book, 0, memory_order_release);
    else if (board->page)
        atomic_fetch_sub(&board->page->header.lost_rows, 1);
}
