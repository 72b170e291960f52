/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registration of large ranges in pieces, by several threads in the background, with progress and
 * cancellation (libhmreg).
 *
 * A job registers one range as one region. It divides the range into pieces of one length, and its
 * threads register them in the order of addresses: each takes the lowest piece that is left. The
 * region is a composite, as from hmreg_mr_regsgl(). Piece i covers the bytes from i * piece_len on;
 * hmreg_mr_piece() returns its desc and key. One token names all pieces, and hmreg_remote_addr()
 * finds the piece of an offset. A job registers all of the range or nothing.
 */
#ifndef HMREG_JOB_H
#define HMREG_JOB_H

#include <hmreg/hmreg.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct hmreg_job; /* the registration of one range */

#define HMREG_JOB_WORKERS_MAX 64

struct hmreg_job_config {
    size_t size; /* sizeof(struct hmreg_job_config) */
    /* How many threads register at once, up to HMREG_JOB_WORKERS_MAX; never more than pieces. 0:
     * one for each CPU that is online, up to 8. */
    unsigned workers;
    /* Bytes of each piece except the last, at most the domain's max_len. 0: the shortest length
     * that needs at most 64 pieces, but at least 64 MiB, a multiple of 2 MiB, and at most
     * hmreg_domain_plan()'s. */
    uint64_t piece_len;
    /* Called after pieces have been registered. done: the registered bytes; total: the bytes of the
     * whole range. done grows with each call; at the last call of a job that succeeds it is total.
     * One call at a time, on any thread that registers, with no lock held; other threads register
     * meanwhile. It may call hmreg_job_cancel() with its own job, and every function with other
     * objects. hmreg_job_wait() and hmreg_job_close() of its own job return -EDEADLK. NULL: none.
     */
    void (*progress)(struct hmreg_job *job, uint64_t done, uint64_t total, void *progress_context);
    void *progress_context;
};

/*
 * Starts to register a range in pieces, and returns. The memory is checked and queried before this
 * returns; later failures are the job's. End the job with hmreg_job_close().
 *
 * attr, flags: as for hmreg_mr_regattr(), with one range: an iov of one element or a dmabuf, whose
 * descriptor may be closed after the call. The memory at attr->hmem_data must stay until the job is
 * complete; all other memory of attr may go. requested_key is the key of the first piece, which is
 * registered before the others begin; the library chooses the other keys.
 *
 * Device memory is exported once for all pieces, if one dmabuf can contain it; else once for each
 * physical segment.
 *
 * config: NULL for the defaults; read during the call only. The job's threads have a stack of 512
 * KiB and block all signals.
 *
 * If the fabric allows one thread at a time (libfabric's FI_THREAD_DOMAIN and the like), a job has
 * no threads: hmreg_job_wait() registers.
 *
 * Until the job is closed, hmreg_domain_close() returns -EBUSY. The memory must stay until the job
 * is complete, and then outlive its region.
 *
 * Errors of hmreg_mr_regattr() that it finds before it calls the fabric, except that the range may
 * be longer than max_len.
 * -EINVAL also: attr has segments, or an iov of several ranges; config's workers or piece_len is
 *   out of range; piece_len would make more than HMREG_SEGMENTS_MAX pieces.
 * -EMSGSIZE: HMREG_SEGMENTS_MAX pieces of the domain's max_len are shorter than the range.
 * -EOPNOTSUPP: registrations on this domain complete in the caller's event queue (they need no
 *   job); or the range has more than HMREG_SEGMENTS_MAX physical segments.
 * -ENOMEM, -EAGAIN: from the system; no thread could be started.
 * -EMFILE: no descriptor is left.
 */
int hmreg_job_start(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr, uint64_t flags,
                    const struct hmreg_job_config *config, struct hmreg_job **out);

/*
 * Waits until the job is complete, and returns its region. timeout_ms: how long to wait; 0: not at
 * all; negative: without limit. A job without threads registers during this call, at least one
 * piece in each call. *mr: close it with hmreg_mr_close(). If mr is NULL, the region stays the
 * job's. Returns 0 if the range is registered. -EINPROGRESS: the job is not complete yet.
 * -ECANCELED: it was cancelled. -EINVAL: job is NULL; or mr is not NULL, and an earlier call
 * returned the region. -EDEADLK: the job's own progress callback made the call. Any other error is
 * hmreg_mr_regattr()'s, for the failed piece with the lowest address; the text begins with the
 * piece. Nothing is registered then.
 */
int hmreg_job_wait(struct hmreg_job *job, int timeout_ms, struct hmreg_mr **mr);

/*
 * Cancels a job and returns at once. Pieces that a thread is registering are finished, no other
 * begins, and all are deregistered by the job's threads. If the job has none, the next
 * hmreg_job_wait() or hmreg_job_close() deregisters them. If all pieces are registered, the job
 * stays complete. -EINVAL: job is NULL.
 */
int hmreg_job_cancel(struct hmreg_job *job);

/*
 * Ends a job and frees it. NULL is accepted. It cancels a job that is not complete, and waits for
 * it. It closes a region that hmreg_job_wait() has not returned. -EDEADLK: the job's own progress
 * callback called. -EBUSY: as hmreg_mr_close(); close the job again later. Any other error is the
 * fabric's, from closing the region; the job is freed even so.
 */
int hmreg_job_close(struct hmreg_job *job);

/*
 * Registers a range in pieces and returns when it is registered: starts a job, waits and closes it.
 * The calling thread is one of the workers, so the job always has one. The library chooses all
 * keys. Errors of hmreg_job_start() except -EAGAIN, and of hmreg_job_wait(); -ECANCELED: the
 * progress callback cancelled the job.
 */
int hmreg_mr_reg_large(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                       const struct hmreg_job_config *config, struct hmreg_mr **mr);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
