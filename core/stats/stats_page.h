/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The stats page: a memory file (memfd) in which a library shows its counters to other processes.
 * stats_layout.h has its layout. Seals fix its size and keep other processes from writing to it.
 * The command `hmreg stats` finds it among the descriptors of the process, so no thread, socket or
 * file name is needed. hmreg_close() or the end of the process removes it. If the file cannot be
 * created, the library works without it and shows nothing.
 *
 * A forked child inherits the file, but not the mapping, so it cannot write to its parent's page.
 * It calls nothing here, just as it does not use its parent's objects.
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
    dev_t device; /* with inode identifies fd's file, since the application may close fd */
    ino_t inode;
    pthread_mutex_t lock; /* guards the assignment of domains, blocks and rows; innermost */
    uint32_t domains;     /* domains opened so far */
};

/* Opens the page; without wanted, or on failure, nothing is shown. Does not change the thread's
 * last error. */
void stats_page_open(struct stats_page *stats_page, bool wanted, enum hmreg_monitor monitor);
/* Shows the monitor that was chosen as the default, or has taken over. */
void stats_page_show_monitor(struct stats_page *stats_page, const struct hmreg_monitor_info *info);
void stats_page_close(struct stats_page *stats_page);

/* Closes the file, and keeps the counters where they are, in memory of this process alone; wake
 * shows them in a new file. False: no memory, and nothing has changed. Counts of other threads
 * during the call may be lost. */
bool stats_page_sleep(struct stats_page *stats_page);
void stats_page_wake(struct stats_page *stats_page);

/* Assign a free domain, block or row of the page. NULL: there is no page, or none is free, which
 * the page's header counts. */
struct stats_domain *stats_page_domain(struct stats_page *stats_page, const char *provider,
                                       const char *fabric, uint32_t flags);
struct stats_block *stats_page_block(struct stats_page *stats_page,
                                     const struct stats_domain *domain, enum hmreg_iface iface,
                                     int device);
struct stats_row *stats_page_row(struct stats_page *stats_page, const struct stats_block *block);

/* Free a domain, block or row; NULL: one that was not assigned. */
void stats_page_end_domain(struct stats_page *stats_page, struct stats_domain *domain);
void stats_page_end_block(struct stats_page *stats_page, struct stats_block *block);
void stats_page_end_row(struct stats_page *stats_page, struct stats_row *row);

/* Enclose a change that a reader must see as a whole (a seqlock's write side); one thread at a
 * time. */
void stats_page_begin_change(_Atomic uint32_t *sequence);
void stats_page_end_change(_Atomic uint32_t *sequence);

#endif
