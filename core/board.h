/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Where a library shows its counters: a memory file of its own with the layout of stats_page.h,
 * sealed in its size and against writing by others. The command `hmreg stats` finds it among the
 * descriptors of the process; no thread, no socket and no name in a file system is needed, and the
 * file goes with hmreg_close() or with the process. Where it cannot be had, everything works and
 * nothing is shown.
 *
 * A forked child inherits the file and has no part in it: it calls nothing here, as it does nothing
 * with its parent's objects.
 */
#ifndef HMREG_CORE_BOARD_H
#define HMREG_CORE_BOARD_H

#include "core/stats_page.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

struct board {
    struct stats_page *page; /* NULL: nothing is shown */
    int fd;
    dev_t device; /* what fd was, should the application have closed it */
    ino_t inode;
    pthread_mutex_t lock; /* who has which place; innermost */
    uint32_t domains;     /* opened so far */
};

/* Not wanted: an empty board. The thread's last error stays as it was. */
void board_open(struct board *board, bool wanted, enum hmreg_monitor monitor);
/* A default has become this one. */
void board_show_monitor(struct board *board, enum hmreg_monitor monitor);
void board_close(struct board *board);

/* Places on it. Each gives NULL where there is none, which the page says. */
struct stats_domain *board_domain(struct board *board, const char *provider, const char *fabric,
                                  uint32_t flags);
struct stats_book *board_book(struct board *board, const struct stats_domain *domain,
                              enum hmreg_iface iface, int device);
struct stats_row *board_row(struct board *board, const struct stats_book *book);

/* Gives one back; NULL: one that there was none for. */
void board_end_domain(struct board *board, struct stats_domain *domain);
void board_end_book(struct board *board, struct stats_book *book);
void board_end_row(struct board *board, struct stats_row *row);

/* Around a change that a reader must see whole, of one thread at a time. */
void board_begin_change(_Atomic uint32_t *sequence);
void board_end_change(_Atomic uint32_t *sequence);

#endif
