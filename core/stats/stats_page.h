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
#ifndef HMREG_CORE_STATS_STATS_PAGE_H
#define HMREG_CORE_STATS_STATS_PAGE_H

#include "core/stats/stats_layout.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

struct stats_page {
    struct stats_layout *page; /* NULL: nothing is shown */
    int fd;
    dev_t device; /* what fd was, should the application have closed it */
    ino_t inode;
    pthread_mutex_t lock; /* who has which place; innermost */
    uint32_t domains;     /* opened so far */
};

/* Not wanted: an empty stats page. The thread's last error stays as it was. */
void stats_page_open(struct stats_page *stats_page, bool wanted, enum hmreg_monitor monitor);
/* A default has become this one. */
void stats_page_show_monitor(struct stats_page *stats_page, enum hmreg_monitor monitor);
void stats_page_close(struct stats_page *stats_page);

/* Places on it. Each gives NULL where there is none, which the page says. */
struct stats_domain *stats_page_domain(struct stats_page *stats_page, const char *provider,
                                       const char *fabric, uint32_t flags);
struct stats_block *stats_page_block(struct stats_page *stats_page,
                                     const struct stats_domain *domain, enum hmreg_iface iface,
                                     int device);
struct stats_row *stats_page_row(struct stats_page *stats_page, const struct stats_block *block);

/* Gives one back; NULL: one that there was none for. */
void stats_page_end_domain(struct stats_page *stats_page, struct stats_domain *domain);
void stats_page_end_block(struct stats_page *stats_page, struct stats_block *block);
void stats_page_end_row(struct stats_page *stats_page, struct stats_row *row);

/* Around a change that a reader must see whole, of one thread at a time. */
void stats_page_begin_change(_Atomic uint32_t *sequence);
void stats_page_end_change(_Atomic uint32_t *sequence);

#endif
