/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One thread of the process ("hmreg-reaper") that brings to its end what has ended in the domains'
 * caches, so that memory which was unmapped is deregistered though the application calls nothing
 * more. It sleeps while there is nothing to do, but for once: when nothing has ended for some
 * seconds, it gives back what was kept for the next region. The first client starts it, the last
 * one that leaves ends it; a forked child has none until it starts its own.
 */
#ifndef HMREG_CORE_BASE_REAPER_H
#define HMREG_CORE_BASE_REAPER_H

#include <stdbool.h>
#include <stdint.h>

/* A domain's caches. All functions are called on the reaper's thread, with no lock of it held but
 * for is_due(), which only looks. */
struct reaper_client {
    bool (*is_due)(struct reaper_client *client);
    /* Finds out what has ended. False: nothing that reap() could bring to its end. */
    bool (*examine)(struct reaper_client *client);
    /* Brings some of that to its end: it returns soon. False: there was nothing. */
    bool (*reap)(struct reaper_client *client);
    /* Nothing has been due for REAPER_IDLE_NS: gives back some of what is kept. False: nothing is.
     */
    bool (*tidy)(struct reaper_client *client);
    /* The reaper's own. */
    struct reaper_client *next;
    unsigned paused;
    bool visited, untidy;
};

/* To end the watch of a large mapping costs the program as much as 20 us a MiB: so that is not done
 * again and again for one that has a region every other second. */
#define REAPER_IDLE_NS 10000000000

/* For tests, which cannot wait, or must not be disturbed; before the first client joins. */
void reaper_set_idle(int64_t ns);

/* Joins; the thread is started if need be. False: there is no thread to be had, with the failure
 * recorded; the client has not joined. */
bool reaper_join(struct reaper_client *client);
/* After this the client is not called. Not on the reaper's thread. */
void reaper_leave(struct reaper_client *client);

/* Between the two the client is not called; may be nested. Of a client that has not joined they do
 * nothing. On the reaper's thread, inside a call of this client, pausing does not wait. */
void reaper_pause(struct reaper_client *client);
void reaper_resume(struct reaper_client *client);

/* Something is due, or to be tidied later: to be called after it can be seen. Takes no lock and
 * keeps errno; the first call of a burst wakes the thread by a system call, later ones cost an
 * atomic exchange. */
void reaper_wake(void);

#endif
