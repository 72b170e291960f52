/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One thread per process ("hmreg-reaper") deregisters invalidated and evicted regions of the
 * domains' caches, so that unmapped memory is deregistered even if the application makes no further
 * call. The thread sleeps while nothing is due. When nothing has been due for some seconds, it
 * wakes once and releases resources that the clients kept for their next regions. Recurring work is
 * done at this interval, whatever else is due meanwhile.
 *
 * Before fork(2) it also has the clients give back what the kernel would copy for the child, since
 * the forking thread may hold locks that this takes, such as its allocator's. The fork waits while
 * the thread makes progress. A thread that needs room which a client can free waits likewise.
 *
 * The thread exists only while a client needs it: reaper_join() starts it, and it ends when no
 * client has needed it for that time, or at once by reaper_rest(). A process with a second thread
 * cannot make a user namespace (unshare(2)). A forked child has no thread until it starts one.
 */
#ifndef HMREG_CORE_BASE_REAPER_H
#define HMREG_CORE_BASE_REAPER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A client: the caches of a domain. The reaper's thread calls these functions without the reaper's
 * lock. Exceptions, called under that lock: is_due(), recurs(), needs() and sheds(). Any thread in
 * a call of the reaper calls is_due() and needs(), any thread that forks sheds(). */
struct reaper_client {
    /* Is there work? Only reads. */
    bool (*is_due)(struct reaper_client *client);
    /* Finds the entries to deregister. False: there is nothing for reap(). */
    bool (*examine)(struct reaper_client *client);
    /* Deregisters some of them and returns soon. False: there was nothing. */
    bool (*reap)(struct reaper_client *client);
    /* Called when nothing was due for REAPER_IDLE_NS: releases some kept resources. False: none are
     * kept. */
    bool (*tidy)(struct reaper_client *client);
    /* Is there work that recurs every REAPER_IDLE_NS? Only reads, as is_due(). NULL: no. */
    bool (*recurs)(struct reaper_client *client);
    /* Does some of it, and returns soon. False: it is done for this time. */
    bool (*recur)(struct reaper_client *client);
    /* May work become due, or need tidying, without a reaper_join() before it? Only reads, and
     * waits for no thread. A client that does not need the thread stays so until a call of
     * reaper_join() has begun. NULL: yes. */
    bool (*needs)(struct reaper_client *client);
    /* Called before a fork: does the client hold anything that it can give back? Only reads. NULL:
     * no. */
    bool (*sheds)(struct reaper_client *client);
    /* Prepares it for reap(). False: there was nothing. */
    bool (*shed)(struct reaper_client *client);
    /* Private to the reaper. */
    struct reaper_client *next;
    atomic_uint paused;
    atomic_bool hurried;
    bool joined, visited, untidy;
};

/* Unwatching a large mapping costs the program up to 20 us per MiB. The delay avoids doing so
 * repeatedly for a mapping that is registered every few seconds. */
#define REAPER_IDLE_NS 10000000000

/* Sets the delay, for tests; to be called before the first client joins. */
void reaper_set_idle(int64_t ns);

/* Adds a client, unless it has joined, and starts the thread if it does not run. Call it each time
 * that needs() has become true: then the thread does not end before it is false again. False: the
 * thread cannot be started; the failure is recorded, and a client that had not joined was not
 * added. */
bool reaper_join(struct reaper_client *client);
/* Does the thread run? Takes no lock. If not, a client whose needs() has become true must call
 * reaper_join(). */
bool reaper_runs(void);
/* Removes a client; waits for a call of it to return. Stops the thread if no other client needs it.
 * Not to be called on the reaper's thread. */
void reaper_leave(struct reaper_client *client);
/* Stops the thread if no client needs it, and returns when it has ended. It waits for a client's
 * short call, but not for a deregistration: such a client needs the thread. On the reaper's thread
 * it does nothing. */
void reaper_rest(void);
/* If a client has ceased to need the thread without a call of reaper_wake(), the thread ends some
 * time later. To be called when needs() can see that. Takes no lock and preserves errno. */
void reaper_may_rest(void);

/* Between both calls the reaper does not call the client, and counts it as one that needs the
 * thread. They nest; the client may join and leave in between. reaper_pause() waits for a call of
 * the client to return, except on the reaper's thread, inside such a call. */
void reaper_pause(struct reaper_client *client);
void reaper_resume(struct reaper_client *client);

/* Lets the thread do the client's due work without resting first, and waits for it. False: the
 * thread made no progress for a second, does not run, or is the calling thread. The caller must
 * hold no lock that a client's calls wait for. */
bool reaper_hurry(struct reaper_client *client);

/* Wakes the thread, because work is due or will need tidying. To be called after is_due() can see
 * the work. Takes no lock and preserves errno. The first call of a burst makes a system call, later
 * ones cost an atomic exchange. */
void reaper_wake(void);

#endif
