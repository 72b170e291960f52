/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Jobs: a region (job_region.h) registered by several threads, or by those that wait for it. Each
 * worker takes the lowest piece that no other has taken, so that a range that cannot be registered
 * fails early. The last worker to leave publishes the region or undoes it.
 *
 * A job's lock guards its fields up to the line that says so. It is held while nothing outward is
 * called: no fabric, no vendor, no callback.
 *
 * At exit(3) workers take no more pieces, and the exit waits for those under way, since a fabric
 * that has shut down must not be called.
 */
#include <hmreg/job.h>

#include "core/base/error.h"
#include "core/base/process.h"
#include "core/base/thread.h"
#include "core/base/uncancelled.h"
#include "core/base/validate.h"
#include "core/mr/explain.h"
#include "core/job/job_region.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MOST_CHOSEN      8
#define EXIT_PATIENCE_NS 500000000

struct hmreg_job {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* any field below */
    size_t next;            /* the lowest piece that no worker has taken */
    size_t made;            /* pieces */
    uint64_t done;          /* bytes */
    unsigned working;       /* threads in work() */
    bool waited;            /* a thread in hmreg_job_wait() registers */
    bool canceled, failed;
    size_t failed_piece; /* the lowest that failed, of which are: */
    struct hmreg_error failure;
    struct hmreg_explanation *reasons; /* NULL: none */
    bool reporting;                    /* `reporter` is in the progress callback */
    pthread_t reporter;
    uint64_t reported; /* bytes */
    bool ending;       /* a thread publishes or undoes the region */
    enum hmreg_job_state state;
    struct hmreg_mr *mr; /* NULL: not published yet, or taken */
    /* Constant once the job has started: */
    struct hmreg_domain *domain;
    struct job_region *region;
    struct hmreg_job_config config;
    bool begins_alone; /* piece 0 before the others */
    bool waiters_work; /* threads in hmreg_job_wait() register */
    size_t count;      /* pieces */
    uint64_t total;    /* bytes */
    unsigned threads;
    pthread_t thread[HMREG_JOB_WORKERS_MAX];
};

/* ---- exit ------------------------------------------------------------------------------- */

/* On a page that is wiped in a forked child, which has no such threads. */
struct exiting {
    atomic_uint inside; /* the jobs' threads that are in a piece */
    atomic_uint now;
};

static _Atomic(struct exiting *) exiting_page;

static void at_exit(void)
{
    static const struct timespec pause = {.tv_nsec = 1000000};
    struct exiting *exiting = atomic_load(&exiting_page);

    atomic_store(&exiting->now, 1);
    for (long waited = 0; atomic_load(&exiting->inside) && waited < EXIT_PATIENCE_NS;
         waited += pause.tv_nsec)
        nanosleep(&pause, NULL);
}

static bool heed_exit(void)
{
    struct exiting *page = process_page();

    if (!page)
        return false;
    atomic_store(&exiting_page, page);
    if (!atexit(at_exit))
        return true;
    atomic_store(&exiting_page, NULL);
    process_page_free(page);
    return false;
}

/* False: the process exits. */
static bool enter_piece(bool is_thread)
{
    struct exiting *exiting = atomic_load(&exiting_page);

    if (!is_thread)
        return true;
    atomic_fetch_add(&exiting->inside, 1);
    if (!atomic_load(&exiting->now))
        return true;
    atomic_fetch_sub(&exiting->inside, 1);
    return false;
}

static void leave_piece(bool is_thread)
{
    if (is_thread)
        atomic_fetch_sub(&atomic_load(&exiting_page)->inside, 1);
}

/* ---- pieces ----------------------------------------------------------------------------- */

/* No further piece is to be taken. */
static bool is_over(const struct hmreg_job *job)
{
    return job->failed || job->canceled || job->next == job->count;
}

/* Keeps the thread's last error. reasons: why every path refused, if one of the job's threads
 * fails, which has no other. */
static void keep_failure(struct hmreg_job *job, size_t piece, bool is_thread)
{
    struct hmreg_explanation reasons = {.size = sizeof(reasons)};

    if (job->failed && piece > job->failed_piece)
        return;
    job->failed = true;
    job->failed_piece = piece;
    hmreg_error_save(&job->failure);
    free(job->reasons);
    job->reasons = NULL;
    if (!is_thread || hmreg_mr_explain(NULL, &reasons))
        return;
    job->reasons = malloc(sizeof(reasons));
    if (job->reasons)
        *job->reasons = reasons;
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

/* Takes a piece. False: there is none. */
static bool take(struct hmreg_job *job, size_t *piece)
{
    while (job->begins_alone && job->next == 1 && !job->made && !is_over(job))
        pthread_cond_wait(&job->changed, &job->lock);
    if (is_over(job))
        return false;
    *piece = job->next++;
    return true;
}

static void make_piece(struct hmreg_job *job, size_t piece, bool is_thread)
{
    const struct ranges *pieces = job_region_pieces(job->region);
    bool may = enter_piece(is_thread);
    int rc = 0;

    pthread_mutex_unlock(&job->lock);
    if (may)
        rc = job_region_make(job->region, piece);
    if (may)
        leave_piece(is_thread);
    pthread_mutex_lock(&job->lock);
    if (rc) {
        keep_failure(job, piece, is_thread);
    } else if (!may) {
        job->canceled = true;
    } else {
        job->made++;
        job->done += pieces->iov[piece].iov_len;
    }
    pthread_cond_broadcast(&job->changed);
    report(job);
}

/* ---- ends ------------------------------------------------------------------------------- */

/* With all pieces made or none under way. */
static void end(struct hmreg_job *job, bool is_thread)
{
    enum hmreg_job_state state = job->failed               ? HMREG_JOB_FAILED
                                 : job->made == job->count ? HMREG_JOB_DONE
                                                           : HMREG_JOB_CANCELED;
    struct hmreg_mr *mr = NULL;
    int rc = 0;

    job->ending = true;
    pthread_mutex_unlock(&job->lock);
    if (state == HMREG_JOB_DONE)
        rc = job_region_publish(job->region, &mr);
    else
        job_region_undo(job->region);
    pthread_mutex_lock(&job->lock);
    if (rc)
        keep_failure(job, 0, is_thread);
    job->mr = mr;
    job->state = rc ? HMREG_JOB_FAILED : state;
    pthread_cond_broadcast(&job->changed);
}

/* At exit one of the job's threads leaves the end to a caller. */
static void leave(struct hmreg_job *job, bool is_thread)
{
    bool may;

    if (--job->working || !is_over(job) || job->ending)
        return;
    may = enter_piece(is_thread);
    if (may) {
        end(job, is_thread);
        leave_piece(is_thread);
    }
    pthread_cond_broadcast(&job->changed);
}

static bool is_past(const struct timespec *deadline)
{
    struct timespec now;

    if (!deadline)
        return false;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec != deadline->tv_sec ? now.tv_sec > deadline->tv_sec
                                          : now.tv_nsec >= deadline->tv_nsec;
}

/* Registers pieces until none is left, or, deadline not NULL, until then. With the lock held, and
 * the thread counted in `working`. */
static void work(struct hmreg_job *job, bool is_thread, const struct timespec *deadline)
{
    size_t piece;

    while (take(job, &piece)) {
        make_piece(job, piece, is_thread);
        if (is_past(deadline))
            break;
    }
    leave(job, is_thread);
}

static void *run(void *arg)
{
    struct hmreg_job *job = arg;

    thread_name("hmreg-job");
    pthread_mutex_lock(&job->lock);
    work(job, true, NULL);
    pthread_mutex_unlock(&job->lock);
    return NULL;
}

/* ---- start ------------------------------------------------------------------------------ */

static int check_config(const struct hmreg_job_config *callers, struct hmreg_job_config *config)
{
    int rc = 0;

    *config = (struct hmreg_job_config){.size = sizeof(*config)};
    if (callers)
        rc = validate_copy_in(config, sizeof(*config), callers, sizeof(*config),
                              "struct hmreg_job_config");
    if (!rc && config->workers > HMREG_JOB_WORKERS_MAX)
        rc = hmreg_fail(-EINVAL, "config->workers is %u; accepted are 0 to %d", config->workers,
                        HMREG_JOB_WORKERS_MAX);
    return rc;
}

static unsigned choose_workers(const struct hmreg_job *job)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned workers = job->config.workers;

    if (!workers)
        workers = cpus < 1 ? 1 : cpus < MOST_CHOSEN ? (unsigned)cpus : MOST_CHOSEN;
    return workers < job->count ? workers : (unsigned)job->count;
}

/* Starts as many threads as can be. With the lock held. */
static int start_threads(struct hmreg_job *job, unsigned threads)
{
    static atomic_int heeded;
    struct hmreg_error_guard guard;
    int rc = 0;

    if (threads && !process_once(&heeded, heed_exit))
        return hmreg_fail(-ENOMEM, "hmreg has no memory for the jobs' exit handler");
    hmreg_error_guard(&guard);
    while (job->threads < threads && !rc) {
        job->working++;
        rc = thread_start(&job->thread[job->threads], NULL, run, job,
                          "to register pieces of a range");
        if (rc)
            job->working--;
        else
            job->threads++;
    }
    hmreg_error_unguard(&guard, !rc || job->threads);
    return job->threads ? 0 : rc;
}

static void free_job(struct hmreg_job *job)
{
    job_region_free(job->region);
    pthread_cond_destroy(&job->changed);
    pthread_mutex_destroy(&job->lock);
    atomic_fetch_sub(&job->domain->jobs, 1);
    free(job->reasons);
    free(job);
}

static struct hmreg_job *new_job(struct hmreg_domain *domain, struct job_region *region,
                                 const struct hmreg_job_config *config)
{
    struct hmreg_job *job = calloc(1, sizeof(*job));
    const struct ranges *pieces = job_region_pieces(region);
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
    job->region = region;
    job->config = *config;
    job->begins_alone = job_region_begins_alone(region);
    job->count = pieces->count;
    for (size_t i = 0; i < pieces->count; i++)
        job->total += pieces->iov[i].iov_len;
    return job;
}

/* caller_works: the caller waits, and is one of the workers. */
static int start(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr, uint64_t flags,
                 const struct hmreg_job_config *callers, bool caller_works, struct hmreg_job **out)
{
    struct hmreg_job_config config;
    struct job_region *region = NULL;
    struct hmreg_job *job;
    unsigned workers;
    int rc = check_config(callers, &config);

    rc = rc ? rc : job_region_new(domain, attr, flags, caller_works, config.piece_len, &region);
    if (rc)
        return rc;
    job = new_job(domain, region, &config);
    if (!job) {
        job_region_free(region);
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a job");
    }
    workers = choose_workers(job);
    job->waiters_work = caller_works || !domain->caps.any_thread;
    if (!domain->caps.any_thread)
        workers = 0;
    else if (caller_works)
        workers--;
    pthread_mutex_lock(&job->lock);
    rc = start_threads(job, workers);
    pthread_mutex_unlock(&job->lock);
    if (rc && !caller_works) {
        free_job(job);
        return rc;
    }
    *out = job;
    return 0;
}

int hmreg_job_start(struct hmreg_domain *domain, const struct hmreg_mr_attr *attr, uint64_t flags,
                    const struct hmreg_job_config *config, struct hmreg_job **out)
{
    int rc = domain_check(domain);

    rc = rc ? rc : validate_pointer(out, "out");
    return rc ? rc : start(domain, attr, flags, config, false, out);
}

/* ---- waiting ---------------------------------------------------------------------------- */

static int check(const struct hmreg_job *job)
{
    int rc = validate_pointer(job, "job");

    return rc ? rc : domain_check(job->domain);
}

/* With the lock held. */
static int check_reporter(const struct hmreg_job *job)
{
    if (!job->reporting || !pthread_equal(job->reporter, pthread_self()))
        return 0;
    return hmreg_fail(-EDEADLK, "the job's own progress callback cannot wait for the job");
}

static struct timespec deadline_after(int timeout_ms)
{
    struct timespec deadline;

    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += timeout_ms / 1000;
    deadline.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (deadline.tv_nsec >= 1000000000) {
        deadline.tv_sec++;
        deadline.tv_nsec -= 1000000000;
    }
    return deadline;
}

/* Should the waiting thread work? Without threads one waiting thread at a time registers. Another
 * one ends what no thread is left to end. */
static bool must_work(const struct hmreg_job *job)
{
    bool registers = job->waiters_work && !job->waited && !is_over(job);

    return !job->ending && (registers || !job->working);
}

/* Waits until the job is complete, or until the deadline if it is not NULL. With the lock held. */
static void wait_until(struct hmreg_job *job, const struct timespec *deadline)
{
    UNCANCELLED;

    while (job->state == HMREG_JOB_RUNNING) {
        if (must_work(job)) {
            job->waited = true;
            job->working++;
            work(job, false, deadline);
            job->waited = false;
            pthread_cond_broadcast(&job->changed);
            if (is_past(deadline))
                return;
        } else if (!deadline) {
            pthread_cond_wait(&job->changed, &job->lock);
        } else if (pthread_cond_timedwait(&job->changed, &job->lock, deadline)) {
            return;
        }
    }
}

/* The failure of a piece, as if this thread had registered it. */
static int fail_as_piece(const struct hmreg_job *job)
{
    const struct hmreg_explanation *reasons = job->reasons;

    if (reasons)
        explain_keep(reasons->iface, reasons->device, reasons->reasons, reasons->refused);
    hmreg_error_restore(&job->failure);
    return job->failure.code;
}

/* With the lock held. */
static int result(struct hmreg_job *job, struct hmreg_mr **mr)
{
    if (job->state == HMREG_JOB_RUNNING)
        return hmreg_fail(-EINPROGRESS,
                          "the job is not complete: %" PRIu64 " of %" PRIu64
                          " bytes are registered",
                          job->done, job->total);
    if (job->state == HMREG_JOB_FAILED)
        return fail_as_piece(job);
    if (job->state == HMREG_JOB_CANCELED)
        return hmreg_fail(-ECANCELED,
                          "the job was cancelled after %" PRIu64 " of %" PRIu64 " bytes", job->done,
                          job->total);
    if (!mr)
        return 0;
    if (!job->mr)
        return hmreg_fail(-EINVAL, "the job's region was taken before; mr must be NULL");
    *mr = job->mr;
    job->mr = NULL;
    return 0;
}

static int wait_for(struct hmreg_job *job, int timeout_ms, struct hmreg_mr **mr)
{
    struct timespec deadline = deadline_after(timeout_ms < 0 ? 0 : timeout_ms);
    struct hmreg_error_guard guard;
    int rc;

    pthread_mutex_lock(&job->lock);
    rc = check_reporter(job);
    if (!rc) {
        hmreg_error_guard(&guard);
        wait_until(job, timeout_ms < 0 ? NULL : &deadline);
        hmreg_error_unguard(&guard, true);
        rc = result(job, mr);
    }
    pthread_mutex_unlock(&job->lock);
    return rc;
}

int hmreg_job_wait(struct hmreg_job *job, int timeout_ms, struct hmreg_mr **mr)
{
    int rc = check(job);

    return rc ? rc : wait_for(job, timeout_ms, mr);
}

/* ---- the others ------------------------------------------------------------------------- */

int hmreg_job_cancel(struct hmreg_job *job)
{
    int rc = check(job);

    if (rc)
        return rc;
    pthread_mutex_lock(&job->lock);
    if (job->made < job->count)
        job->canceled = true;
    pthread_cond_broadcast(&job->changed);
    pthread_mutex_unlock(&job->lock);
    return 0;
}

int hmreg_job_query(struct hmreg_job *job, struct hmreg_job_info *out)
{
    struct hmreg_job_info info = {0};
    int rc = check(job);

    rc = rc ? rc : validate_out(out, sizeof(info), "struct hmreg_job_info");
    if (rc)
        return rc;
    pthread_mutex_lock(&job->lock);
    info.state = job->state;
    info.code = job->state == HMREG_JOB_FAILED ? job->failure.code : 0;
    info.total = job->total;
    info.done = job->done;
    info.pieces = (unsigned)job->count;
    info.workers = job->threads;
    for (size_t i = 0; i < job->count; i++)
        if (job_region_pieces(job->region)->iov[i].iov_len > info.piece_len)
            info.piece_len = job_region_pieces(job->region)->iov[i].iov_len;
    pthread_mutex_unlock(&job->lock);
    validate_copy_out(out, &info, sizeof(info));
    return 0;
}

/* Cancels, and waits until the threads have ended. -EDEADLK. */
static int stop(struct hmreg_job *job)
{
    struct hmreg_error_guard guard;
    int rc;

    pthread_mutex_lock(&job->lock);
    rc = check_reporter(job);
    if (!rc) {
        job->canceled |= job->made < job->count;
        pthread_cond_broadcast(&job->changed);
        hmreg_error_guard(&guard);
        wait_until(job, NULL);
        hmreg_error_unguard(&guard, true);
    }
    pthread_mutex_unlock(&job->lock);
    while (!rc && job->threads)
        pthread_join(job->thread[--job->threads], NULL);
    return rc;
}

int hmreg_job_close(struct hmreg_job *job)
{
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
    rc = wait_for(job, -1, mr);
    hmreg_error_save(&why);
    hmreg_job_close(job);
    hmreg_error_restore(&why);
    return rc;
}
