/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Jobs: a region that is registered by the steps of core/mr/region.h, its parts ("pieces") taken by
 * several threads, or by those that wait for it. Each worker takes the lowest piece that no other
 * has taken, so that a range that cannot be registered fails early. The last worker to leave
 * publishes the region or undoes it.
 *
 * A job's lock guards its fields up to the line that says so. No fabric, vendor or callback is
 * called under it.
 *
 * At exit(3) workers take no more pieces (core/base/exiting.h).
 */
#include <hmreg/job.h>

#include "core/base/error.h"
#include "core/base/exiting.h"
#include "core/base/failure.h"
#include "core/base/high_fd.h"
#include "core/base/now.h"
#include "core/base/thread.h"
#include "core/base/uncancelled.h"
#include "core/base/validate.h"
#include "core/explicit/explicit.h"
#include "core/explicit/origin.h"
#include "core/group/group.h"
#include "core/mr/explain.h"
#include "core/mr/region.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MOST_CHOSEN 8
#define NEVER_NS    INT64_MAX

enum job_state { JOB_RUNNING, JOB_DONE, JOB_FAILED, JOB_CANCELED };

struct hmreg_job {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* any field below */
    enum job_state state;
    uint64_t total, done; /* bytes of the range, and of these registered */
    unsigned pieces, workers;
    size_t next;      /* the lowest piece that no worker has taken */
    size_t made;      /* pieces */
    unsigned working; /* threads in work() */
    bool waited;      /* a thread in hmreg_job_wait() registers */
    bool canceled, failed;
    size_t failed_piece; /* the lowest piece that failed; its fields: */
    struct hmreg_error failure;
    struct hmreg_explanation reasons; /* size 0: none */
    bool reporting;                   /* `reporter` is in the progress callback */
    pthread_t reporter;
    uint64_t reported;   /* bytes */
    bool ending;         /* a thread publishes or undoes the region */
    struct hmreg_mr *mr; /* NULL: undone, or taken */
    /* Constant once the job has started, or its threads' and the fabric's: */
    struct hmreg_domain *domain;
    struct hmreg_job_config config;
    struct origin *origin;         /* a copy of the caller's request */
    struct hmreg_mr_dmabuf dmabuf; /* the caller's; fd: a duplicate; -1: none */
    struct resolved found;         /* the memory of the whole range */
    struct layout layout;
    struct filling filling;
    bool begins_alone; /* piece 0 before the others */
    bool waiters_work; /* threads in hmreg_job_wait() register */
    pthread_t thread[HMREG_JOB_WORKERS_MAX];
};

/* ---- pieces ----------------------------------------------------------------------------- */

/* May no further piece be taken? */
static bool is_over(const struct hmreg_job *job)
{
    return job->failed || job->canceled || job->next == job->pieces;
}

/* Keeps the thread's last error. reasons: why every path refused, if a thread of the job's own
 * fails. */
static void keep_failure(struct hmreg_job *job, size_t piece, bool is_thread)
{
    if (job->failed && piece > job->failed_piece)
        return;
    job->failed = true;
    job->failed_piece = piece;
    hmreg_error_save(&job->failure);
    job->reasons.size = sizeof(job->reasons);
    if (!is_thread || hmreg_mr_explain(NULL, &job->reasons))
        job->reasons.size = 0;
}

/* Calls the progress callback until it has seen all progress; another thread may do so already.
 * A calling thread's last error is guarded around all its work on the job. */
static void report(struct hmreg_job *job)
{
    if (!job->config.progress || job->reporting)
        return;
    job->reporting = true;
    job->reporter = pthread_self();
    while (job->reported < job->done) {
        uint64_t done = job->reported = job->done;

        pthread_mutex_unlock(&job->lock);
        job->config.progress(job, done, job->total, job->config.progress_context);
        pthread_mutex_lock(&job->lock);
    }
    job->reporting = false;
}

/* Takes a piece. False: none is left. */
static bool take(struct hmreg_job *job, size_t *piece)
{
    while (job->begins_alone && job->next == 1 && !job->made && !is_over(job))
        pthread_cond_wait(&job->changed, &job->lock);
    if (is_over(job))
        return false;
    *piece = job->next++;
    return true;
}

/* Registers a piece, on all members. The text of a failure begins with the piece. */
static int fill_piece(struct hmreg_job *job, size_t piece)
{
    const struct iovec *iov = &job->layout.ranges.iov[piece];
    struct hmreg_error_guard guard;
    int rc;

    hmreg_error_guard(&guard);
    rc = filling_part(&job->filling, piece);
    hmreg_error_unguard(&guard, !rc);
    if (!rc || job->pieces == 1)
        return rc;
    return hmreg_fail_at(rc, "piece %zu of %u, %zu bytes at %p", piece, job->pieces, iov->iov_len,
                         iov->iov_base);
}

static void make_piece(struct hmreg_job *job, size_t piece, bool is_thread)
{
    bool may = !is_thread || exiting_enter();
    int rc = 0;

    pthread_mutex_unlock(&job->lock);
    if (may) {
        rc = fill_piece(job, piece);
        if (is_thread)
            exiting_leave();
        region_settle_lost(job->domain);
    }
    pthread_mutex_lock(&job->lock);
    if (rc) {
        keep_failure(job, piece, is_thread);
    } else if (!may) {
        job->canceled = true;
    } else {
        job->made++;
        job->done += job->layout.ranges.iov[piece].iov_len;
    }
    pthread_cond_broadcast(&job->changed);
    report(job);
}

/* ---- ends ------------------------------------------------------------------------------- */

/* Imports and mappings have references of their own. */
static void close_descriptors(struct hmreg_job *job)
{
    layout_close(&job->layout);
    if (job->dmabuf.fd >= 0)
        close(job->dmabuf.fd);
    job->dmabuf.fd = -1;
}

/* Also for a job that could not start. */
static void undo(struct hmreg_job *job)
{
    filling_undo(&job->filling);
    origin_end(job->domain, job->origin);
    if (job->mr)
        region_free(job->mr);
    job->origin = NULL;
    job->mr = NULL;
    close_descriptors(job);
}

/* A replaced member may have to be completed first; if that fails, the region is undone. */
static int publish(struct hmreg_job *job)
{
    struct hmreg_error_guard guard;
    int rc;

    hmreg_error_guard(&guard);
    rc = filling_end(&job->filling);
    hmreg_error_unguard(&guard, !rc);
    if (rc) {
        undo(job);
        return rc;
    }
    close_descriptors(job);
    mr_publish(job->mr);
    origin_open(job->mr);
    return 0;
}

/* With all pieces made or none under way. */
static void end(struct hmreg_job *job, bool is_thread)
{
    enum job_state state = job->failed                ? JOB_FAILED
                           : job->made == job->pieces ? JOB_DONE
                                                      : JOB_CANCELED;
    int rc = 0;

    job->ending = true;
    pthread_mutex_unlock(&job->lock);
    if (state == JOB_DONE)
        rc = publish(job);
    else
        undo(job);
    pthread_mutex_lock(&job->lock);
    if (rc) {
        keep_failure(job, 0, is_thread);
        state = JOB_FAILED;
    }
    job->state = state;
}

/* Registers pieces until none is left, or until the deadline. With the lock held, and the thread
 * counted in `working`. At exit one of the job's threads leaves the end to a caller. */
static void work(struct hmreg_job *job, bool is_thread, int64_t deadline)
{
    size_t piece;

    while (take(job, &piece)) {
        make_piece(job, piece, is_thread);
        if (now_ns() >= deadline)
            break;
    }
    if (!--job->working && is_over(job) && !job->ending && (!is_thread || exiting_enter())) {
        end(job, is_thread);
        if (is_thread)
            exiting_leave();
    }
    pthread_cond_broadcast(&job->changed);
}

static void *run(void *arg)
{
    struct hmreg_job *job = arg;

    thread_name("hmreg-job");
    pthread_mutex_lock(&job->lock);
    work(job, true, NEVER_NS);
    pthread_mutex_unlock(&job->lock);
    return NULL;
}

/* ---- start ------------------------------------------------------------------------------ */

static int check_config(const struct hmreg_domain *domain, const struct hmreg_job_config *callers,
                        struct hmreg_job_config *config)
{
    int rc = 0;

    config->size = sizeof(*config);
    if (callers)
        rc = validate_copy_in(config, sizeof(*config), callers, sizeof(*config),
                              "struct hmreg_job_config");
    if (!rc && config->workers > HMREG_JOB_WORKERS_MAX)
        rc = hmreg_fail(-EINVAL, "config->workers is %u; accepted are 0 to %d", config->workers,
                        HMREG_JOB_WORKERS_MAX);
    if (!rc && config->piece_len > domain->caps.max_len)
        rc = hmreg_fail(-EINVAL,
                        "config->piece_len is %" PRIu64
                        "; a region of this domain has at most %" PRIu64 " bytes",
                        config->piece_len, domain->caps.max_len);
    return rc;
}

static int check_attributes(const struct hmreg_domain *domain, struct attributes *attributes)
{
    if (domain->caps.async)
        return hmreg_fail(
            -EOPNOTSUPP,
            "registrations of this domain complete in an event queue that the application reads, "
            "so they already proceed in the background: register each piece by itself");
    if (attributes->request.flags & HMREG_REG_SINGLE)
        return hmreg_fail(-HMREG_EBADFLAGS, "flags has HMREG_REG_SINGLE, but a job registers the "
                                            "range in pieces: use hmreg_mr_regattr()");
    if (attributes_of_segments(attributes))
        return hmreg_fail(-EINVAL, "attr->segments is set; a job registers one range");
    if (attributes->request.count != 1)
        return hmreg_fail(-EINVAL, "attr->iov_count is %zu; a job registers one range",
                          attributes->request.count);
    return attributes_not_of_get(attributes);
}

/* Must piece 0 be registered before the others? It must, if it has the caller's key: the library
 * must not choose that key for another piece. */
static bool begins_alone(struct hmreg_domain *domain, const struct request *request)
{
    bool all_choose = true; /* the members choose their keys themselves */

    for (size_t i = 0; i < group_rails(domain); i++)
        if (group_registers_on(request->rails, i))
            all_choose &= (group_rail(domain, i)->caps.mr_mode & HMREG_MR_PROV_KEY) != 0;
    return !all_choose && !request->any_key && (request->access & HMREG_ACCESS_REMOTE);
}

/* Copies the data behind the attributes' pointers. */
static int keep_request(struct hmreg_job *job, struct request *request)
{
    int fd = request->dmabuf ? request->dmabuf->fd : -1;

    job->origin = origin_new(request, NULL, 0);
    if (!job->origin)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a job");
    job->origin->callers = job->config.piece_len;
    job->origin->piece_len = job->config.piece_len
                                 ? job->config.piece_len
                                 : layout_chosen(request->iov->iov_len, job->domain->caps.max_len);
    *request = job->origin->request;
    if (!request->dmabuf)
        return 0;
    job->dmabuf = *request->dmabuf;
    job->dmabuf.fd = high_fd_duplicate(fd);
    request->dmabuf = &job->dmabuf;
    return job->dmabuf.fd < 0 ? hmreg_fail_os(errno, "dmabuf: fd cannot be duplicated") : 0;
}

/* Divides the range into pieces and allocates the region; registers nothing. */
static int prepare(struct hmreg_job *job, struct request *request)
{
    struct suspended *suspended = &job->domain->lib->suspended;
    uint64_t since = suspended_since(suspended);
    const struct ranges *pieces = &job->layout.ranges;
    int rc = keep_request(job, request);

    rc = rc ? rc : suspended_check(suspended, request->iov, 1, since);
    rc = rc ? rc : request_resolve(job->domain, request, &job->found);
    if (rc)
        return rc;
    layout_init(&job->layout, request, &job->found);
    rc = layout_cut(job->domain, &job->layout, job->origin->piece_len, job->origin->callers);
    rc = rc ? rc : region_new(job->domain, &job->layout, &job->mr);
    rc = rc ? rc : filling_begin(&job->filling, &job->layout, job->mr);
    rc = rc ? rc : origin_begin(job->mr, job->origin, ORIGIN_JOB, since);
    if (rc)
        return rc;
    job->begins_alone = begins_alone(job->domain, &job->layout.request);
    job->pieces = (unsigned)pieces->count;
    for (size_t i = 0; i < pieces->count; i++)
        job->total += pieces->iov[i].iov_len;
    return 0;
}

/* The number of threads that the job starts. caller_works: the caller is one more worker. */
static unsigned choose_threads(const struct hmreg_job *job, bool caller_works)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned workers = job->config.workers;

    if (!job->domain->caps.any_thread)
        return 0;
    if (!workers)
        workers = cpus < 1 ? 1 : cpus < MOST_CHOSEN ? (unsigned)cpus : MOST_CHOSEN;
    return (workers < job->pieces ? workers : job->pieces) - caller_works;
}

/* Starts as many threads as possible. */
static int start_threads(struct hmreg_job *job, unsigned threads)
{
    struct hmreg_error_guard guard;
    int rc = 0;

    if (threads && !exiting_heed())
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the jobs' exit handler");
    hmreg_error_guard(&guard);
    pthread_mutex_lock(&job->lock);
    while (job->workers < threads && !rc) {
        rc = thread_start(&job->thread[job->workers], NULL, run, job,
                          "to register pieces of a range");
        if (!rc)
            job->working = ++job->workers; /* they wait for the lock */
    }
    pthread_mutex_unlock(&job->lock);
    hmreg_error_unguard(&guard, !rc || job->workers);
    return job->workers ? 0 : rc;
}

static void free_job(struct hmreg_job *job)
{
    if (job->state != JOB_DONE)
        undo(job);
    layout_free(&job->layout);
    pthread_cond_destroy(&job->changed);
    pthread_mutex_destroy(&job->lock);
    atomic_fetch_sub(&job->domain->jobs, 1);
    free(job);
}

static struct hmreg_job *new_job(struct hmreg_domain *domain)
{
    struct hmreg_job *job = calloc(1, sizeof(*job));
    pthread_condattr_t attr;

    if (!job)
        return NULL;
    pthread_mutex_init(&job->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&job->changed, &attr);
    pthread_condattr_destroy(&attr);
    atomic_fetch_add(&domain->jobs, 1);
    job->domain = domain;
    job->dmabuf.fd = -1;
    return job;
}

/* caller_works: the caller waits, and is one of the workers; the library chooses all keys. */
static int start(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr, uint64_t flags,
                 const struct hmreg_job_config *config, bool caller_works, struct hmreg_job **out)
{
    struct hmreg_job *job = new_job(domain);
    struct attributes attributes;
    int rc;

    if (!job)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a job");
    undone_retry(domain, 1);
    rc = check_config(domain, config, &job->config);
    rc = rc ? rc : request_from_attr(domain, attr, flags, &attributes);
    rc = rc ? rc : check_attributes(domain, &attributes);
    if (!rc) {
        attributes.request.any_key |= caller_works;
        job->waiters_work = caller_works || !domain->caps.any_thread;
        rc = prepare(job, &attributes.request);
    }
    if (!rc) {
        rc = start_threads(job, choose_threads(job, caller_works));
        rc = caller_works ? 0 : rc;
    }
    if (rc) {
        free_job(job);
        return rc;
    }
    *out = job;
    return 0;
}

int hmreg_job_start(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr, uint64_t flags,
                    const struct hmreg_job_config *config, struct hmreg_job **out)
{
    LOGS_FAILURE(domain_log(domain));
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(out, "out");
    return rc ? rc : start(domain, attr, flags, config, false, out);
}

/* ---- waiting, with the lock held -------------------------------------------------------- */

static int check(const struct hmreg_job *job)
{
    int rc = validate_pointer(job, "job");

    return rc ? rc : domain_check(job->domain);
}

static int check_reporter(const struct hmreg_job *job)
{
    if (!job->reporting || !pthread_equal(job->reporter, pthread_self()))
        return 0;
    return hmreg_fail(-EDEADLK, "the job's own progress callback cannot wait for the job");
}

/* Should the waiting thread work? Without threads one waiting thread at a time registers. If no
 * other thread remains to end the job, it does. */
static bool must_work(const struct hmreg_job *job)
{
    bool registers = job->waiters_work && !job->waited && !is_over(job);

    return !job->ending && (registers || !job->working);
}

static void cancel(struct hmreg_job *job)
{
    job->canceled |= job->made < job->pieces;
    pthread_cond_broadcast(&job->changed);
}

/* Waits until the job is complete, or until the deadline. Keeps the thread's last error. */
static void wait_until(struct hmreg_job *job, int64_t deadline)
{
    const struct timespec at = {deadline / SECOND_NS, deadline % SECOND_NS};
    struct hmreg_error_guard guard;
    UNCANCELLED;

    hmreg_error_guard(&guard);
    while (job->state == JOB_RUNNING) {
        if (must_work(job)) {
            job->waited = true;
            job->working++;
            work(job, false, deadline);
            job->waited = false;
            pthread_cond_broadcast(&job->changed);
            if (now_ns() >= deadline)
                break;
        } else if (pthread_cond_timedwait(&job->changed, &job->lock, &at)) {
            break;
        }
    }
    hmreg_error_unguard(&guard, true);
}

/* Reports the failure of a piece as if this thread had registered it. */
static int fail_as_piece(const struct hmreg_job *job)
{
    const struct hmreg_explanation *reasons = &job->reasons;

    if (reasons->size)
        explain_keep(reasons->iface, reasons->device, reasons->reasons, reasons->refused);
    hmreg_error_restore(&job->failure);
    return job->failure.code;
}

static int result(struct hmreg_job *job, struct hmreg_mr **mr)
{
    if (job->state == JOB_RUNNING)
        return hmreg_fail(-EINPROGRESS,
                          "the job is not complete: %" PRIu64 " of %" PRIu64
                          " bytes are registered",
                          job->done, job->total);
    if (job->state == JOB_FAILED)
        return fail_as_piece(job);
    if (job->state == JOB_CANCELED)
        return hmreg_fail(-ECANCELED,
                          "the job was cancelled after %" PRIu64 " of %" PRIu64 " bytes", job->done,
                          job->total);
    if (!mr)
        return 0;
    if (!job->mr)
        return hmreg_fail(-EINVAL, "an earlier call returned the job's region; mr must be NULL");
    *mr = job->mr;
    job->mr = NULL;
    return 0;
}

int hmreg_job_wait(struct hmreg_job *job, int timeout_ms, struct hmreg_mr **mr)
{
    LOGS_FAILURE(job ? domain_log(job->domain) : NULL);
    int64_t wait_ns = (int64_t)timeout_ms * 1000000;
    int rc = check(job);

    if (rc)
        return rc;
    pthread_mutex_lock(&job->lock);
    rc = check_reporter(job);
    if (!rc) {
        wait_until(job, timeout_ms < 0 ? NEVER_NS : now_ns() + wait_ns);
        rc = result(job, mr);
    }
    pthread_mutex_unlock(&job->lock);
    return rc;
}

/* ---- the others ------------------------------------------------------------------------- */

int hmreg_job_cancel(struct hmreg_job *job)
{
    LOGS_FAILURE(job ? domain_log(job->domain) : NULL);
    int rc = check(job);

    if (rc)
        return rc;
    pthread_mutex_lock(&job->lock);
    cancel(job);
    pthread_mutex_unlock(&job->lock);
    return 0;
}

/* Cancels, and waits until the threads have ended. -EDEADLK. */
static int stop(struct hmreg_job *job)
{
    int rc;

    pthread_mutex_lock(&job->lock);
    rc = check_reporter(job);
    if (!rc) {
        cancel(job);
        wait_until(job, NEVER_NS);
    }
    pthread_mutex_unlock(&job->lock);
    while (!rc && job->workers)
        pthread_join(job->thread[--job->workers], NULL);
    return rc;
}

int hmreg_job_close(struct hmreg_job *job)
{
    LOGS_FAILURE(job ? domain_log(job->domain) : NULL);
    int rc = job ? check(job) : 0;

    if (!job || rc)
        return rc;
    rc = stop(job);
    if (rc)
        return rc;
    rc = hmreg_mr_close(job->mr);
    if (rc != -EBUSY)
        free_job(job);
    return rc;
}

int hmreg_mr_reg_large(struct hmreg_domain *domain, const void *addr, size_t len, uint64_t access,
                       const struct hmreg_job_config *config, struct hmreg_mr **mr)
{
    LOGS_FAILURE(domain_log(domain));
    struct iovec range = {(void *)(uintptr_t)addr, len};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .iov = &range, .iov_count = 1, .access = access};
    struct hmreg_job *job = NULL;
    struct hmreg_error why;
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(mr, "mr");
    rc = rc ? rc : start(domain, &attr, 0, config, true, &job);
    if (rc)
        return rc;
    rc = hmreg_job_wait(job, -1, mr);
    hmreg_error_save(&why);
    hmreg_job_close(job);
    hmreg_error_restore(&why);
    return rc;
}
