/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One thread per process ("hmreg-reaper") deregisters invalidated and evicted regions of the
 * domains' caches, so that unmapped memory is deregistered even if the application makes no further
 * call. The thread sleeps while nothing is due. When nothing has been due for some seconds, it
 * wakes once and releases resources that the clients kept for their next regions; and again after
 * each such time, as long as a client wants it (recurs()). The first client to join starts the
 * thread, and the last to leave stops it; a forked child has no thread until it starts one.
 */
#ifndef HMREG_CORE_BASE_REAPER_H
#define HMREG_CORE_BASE_REAPER_H

#include <stdbool.h>
#include <stdint.h>

/* A client: the caches of a domain. The reaper's thread calls these functions without the reaper's
 * lock, except is_due() and recurs(), which are called under that lock, is_due() by any thread in
 * a call of the reaper. */
struct reaper_client {
    /* Is there work? Only reads. */
    bool (*is_due)(struct reaper_client *client);
    /* Finds the entries to deregister. False: there is nothing for reap(). */
    bool (*examine)(struct reaper_client *client);
    /* Deregisters some of them and returns soon. False: there was nothing. */
    bool (*reap)(struct reaper_client *client);
    /* Nothing was due for REAPER_IDLE_NS: releases some of what is kept. False: nothing is kept. */
    bool (*tidy)(struct reaper_client *client);
    /* Is tidy() to be called again and again, every REAPER_IDLE_NS in which nothing is due? Only
     * reads, as is_due(). NULL: no. */
    bool (*recurs)(struct reaper_client *client);
    /* Private to the reaper. */
    struct reaper_client *next;
    unsigned paused;
    bool visited, untidy;
};

/* Unwatching a large mapping costs the program up to 20 us per MiB. The delay avoids doing so
 * repeatedly for a mapping that is registered every few seconds. */
#define REAPER_IDLE_NS 10000000000

/* Sets the delay, for tests; to be called before the first client joins. */
void reaper_set_idle(int64_t ns);

/* Adds a client, and starts the thread if it does not run. False: the thread cannot be started; the
 * failure is recorded and the client was not added. */
bool reaper_join(struct reaper_client *client);
/* Removes a client; waits for a call of it to return. Not to be called on the reaper's thread. */
void reaper_leave(struct reaper_client *client);

/* Between the two the reaper does not call the client. They nest, and do nothing for a client that
 * has not joined. reaper_pause() waits for a call of the client to return, except on the reaper's
 * thread, inside such a call. */
void reaper_pause(struct reaper_client *client);
void reaper_resume(struct reaper_client *client);

/* Wakes the thread, since work is due or will have to be tidied. To be called after is_due() can
 * see the work. Takes no lock and preserves errno. The first call of a burst makes a system call,
 * later ones cost an atomic exchange. */
void reaper_wake(void);

#endif
