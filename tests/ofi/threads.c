/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registrations on several threads of a real fabric while another thread posts and reads the
 * completion queue, in each threading model. With FI_THREAD_DOMAIN the application's part is a
 * lock: threads that call hmreg share it, the one that posts has it alone.
 */
#include "tests/support/fabric.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define REGISTRARS 3
#define BYTES      20000 /* beyond what tcp and shm copy at once */

static struct fabric fabric;
static bool serial; /* one call at a time: FI_THREAD_DOMAIN and what counts as it */
static pthread_rwlock_t application;

/* ---- the fabric's calls, seen ------------------------------------------------------------ */

static const struct fi_ops_mr *real_mr;
static struct fi_ops *real_ops; /* of a region */
static struct fi_ops_mr our_mr;
static struct fi_ops our_ops;

static atomic_uint inside, overlaps, live, closed_elsewhere;
static unsigned long uses; /* of a serial domain: not atomic, for ThreadSanitizer to see */
static _Thread_local bool calls_hmreg;

static void enter(void)
{
    if (!serial)
        return;
    if (atomic_fetch_add(&inside, 1))
        atomic_fetch_add(&overlaps, 1);
    uses++;
}

static void leave(void)
{
    if (serial)
        atomic_fetch_sub(&inside, 1);
}

static int see_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags,
                       struct fid_mr **mr)
{
    int rc;

    enter();
    rc = real_mr->regattr(fid, attr, flags, mr);
    leave();
    if (rc == 0) {
        (*mr)->fid.ops = &our_ops;
        atomic_fetch_add(&live, 1);
    }
    return rc;
}

static int see_close(struct fid *mr)
{
    int rc;

    enter();
    rc = real_ops->close(mr);
    leave();
    if (rc == 0 && !calls_hmreg)
        atomic_fetch_add(&closed_elsewhere, 1);
    if (rc == 0)
        atomic_fetch_sub(&live, 1);
    return rc;
}

static void see_calls(struct fid_domain *domain)
{
    static char byte;
    struct fid_mr *mr;

    assert_int_equal(fi_mr_reg(domain, &byte, 1, FI_REMOTE_READ, 0, 0, 0, &mr, NULL), 0);
    real_ops = mr->fid.ops;
    our_ops = *real_ops;
    our_ops.close = see_close;
    assert_int_equal(fi_close(&mr->fid), 0);
    real_mr = domain->mr;
    our_mr = *real_mr;
    our_mr.regattr = see_regattr;
    domain->mr = &our_mr;
}

/* ---- the application -------------------------------------------------------------------- */

/* docs/threading.md: this one's registrations race all the same. */
static bool is_tcp_of_libfabric_2(const struct fi_info *info)
{
    return !strcmp(info->fabric_attr->prov_name, "tcp") &&
           FI_VERSION_GE(fi_version(), FI_VERSION(2, 0));
}

static void begin(enum fi_threading threading)
{
    struct endpoint_hints hints = {.threading = threading};
    pthread_rwlockattr_t attr;

    fabric_open(&fabric, &hints);
    assert_int_equal(fabric.endpoint.info->domain_attr->threading, threading);
    assert_int_equal(endpoint_connect_self(&fabric.endpoint), 0);
    pthread_rwlockattr_init(&attr);
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&application, &attr);
    serial = threading == FI_THREAD_DOMAIN ||
             (threading == FI_THREAD_COMPLETION && is_tcp_of_libfabric_2(fabric.endpoint.info));
    atomic_store(&overlaps, 0);
    atomic_store(&closed_elsewhere, 0);
    see_calls(fabric.endpoint.domain);
    calls_hmreg = true;
}

static void end(void)
{
    assert_int_equal(atomic_load(&overlaps), 0);
    fabric_close(&fabric);
    assert_int_equal(atomic_load(&live), 0);
    pthread_rwlock_destroy(&application);
}

static void get_and_put(char *memory, size_t len)
{
    struct hmreg_mr *mr;

    if (serial)
        pthread_rwlock_rdlock(&application);
    assert_ok(hmreg_mr_get(fabric.domain, memory, len, HMREG_ACCESS_ALL, &mr));
    hmreg_mr_put(mr);
    if (serial)
        pthread_rwlock_unlock(&application);
}

/* A region of memory that goes: it ends, and is closed by a later call or by the library's thread.
 */
static void *register_and_unmap(void *unused)
{
    (void)unused;
    calls_hmreg = true;
    for (unsigned long i = test_times(1500); i; i--) {
        size_t len = 4096 * (1 + i % 4);
        char *memory = test_map(len);

        get_and_put(memory, len);
        munmap(memory, len);
    }
    return NULL;
}

struct poster {
    struct hmreg_mr *mr;
    unsigned char *from, *to;
    struct hmreg_remote *remote;
    atomic_bool stop;
};

static void post(struct poster *poster, unsigned seed)
{
    uint64_t addr, key;
    void *desc = hmreg_mr_desc(poster->mr);
    int rc;

    for (size_t i = 0; i < BYTES; i++)
        poster->from[i] = fabric_byte(seed, i);
    assert_ok(hmreg_remote_addr(poster->remote, BYTES, BYTES, &addr, &key));
    if (serial)
        pthread_rwlock_wrlock(&application);
    enter();
    rc = endpoint_write(&fabric.endpoint, poster->from, BYTES, desc, addr, key);
    leave();
    if (serial)
        pthread_rwlock_unlock(&application);
    assert_int_equal(rc, 0);
    assert_memory_equal(poster->from, poster->to, BYTES);
}

static void *post_until_stopped(void *arg)
{
    struct poster *poster = arg;

    for (unsigned seed = 0; !atomic_load(&poster->stop); seed++)
        post(poster, seed);
    return NULL;
}

static void open_poster(struct poster *poster)
{
    unsigned char token[512];
    size_t size = sizeof(token);

    poster->from = malloc(2 * BYTES);
    poster->to = poster->from + BYTES;
    assert_ok(hmreg_mr_get(fabric.domain, poster->from, 2 * BYTES, HMREG_ACCESS_ALL, &poster->mr));
    assert_ok(hmreg_mr_pack(poster->mr, token, &size));
    assert_ok(hmreg_remote_open(fabric.domain, token, size, &poster->remote));
}

static void close_poster(struct poster *poster)
{
    hmreg_remote_close(poster->remote);
    hmreg_mr_put(poster->mr);
    assert_ok(hmreg_domain_flush(fabric.domain));
    free(poster->from);
}

/* Is a region left open, without a call that closes it? Where no monitor watches host memory its
 * last put closes it. */
static bool leave_ended(void)
{
    unsigned before;
    char *memory = test_map(4096);

    if (serial)
        pthread_rwlock_wrlock(&application);
    assert_ok(hmreg_domain_flush(fabric.domain));
    if (serial)
        pthread_rwlock_unlock(&application);
    before = atomic_load(&live);
    get_and_put(memory, 4096);
    return munmap(memory, 4096) == 0 && atomic_load(&live) > before;
}

static void run(enum fi_threading threading)
{
    struct poster poster = {.stop = false};
    pthread_t thread;

    begin(threading);
    open_poster(&poster);
    assert_int_equal(pthread_create(&thread, NULL, post_until_stopped, &poster), 0);
    test_on_threads(REGISTRARS, register_and_unmap, NULL, 0);
    /* The library's thread closes it while the other one posts. */
    if (!serial && leave_ended())
        test_wait_until(atomic_load(&closed_elsewhere));
    atomic_store(&poster.stop, true);
    pthread_join(thread, NULL);
    post(&poster, 1);
    close_poster(&poster);
    if (serial)
        assert_int_equal(atomic_load(&closed_elsewhere), 0);
    end();
}

TEST(registrations__thread_safe__beside_posts)
{
    run(FI_THREAD_SAFE);
}

TEST(registrations__thread_completion__beside_posts)
{
    run(FI_THREAD_COMPLETION);
}

TEST(registrations__thread_domain__at_once_and_not_beside_posts)
{
    run(FI_THREAD_DOMAIN);
}

FABRIC_TEST_MAIN()
