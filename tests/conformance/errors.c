/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Errors that need a failure below the library: runtimes that disagree or fail, a /proc that cannot
 * be read, allocations that fail one after the other. Each is tried with every call that documents
 * it. */
#include "tests/conformance/fixture.h"
#include "tests/support/vendors.h"

#include <fcntl.h>
#include <hmreg/loopback.h>
#include <pthread.h>
#include <sys/select.h>
#include <sys/syscall.h>

/* ---- libc calls that fail --------------------------------------------------------------- */

static int allocations_left = -1; /* until one fails; -1: none fails */
static int proc_errno;            /* of opening files of /proc; 0: success */

static int userfaultfd_errno, thread_errno; /* 0: success */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);

static bool fails_now(void)
{
    return allocations_left >= 0 && allocations_left-- == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails_now() ? NULL : __real_realloc(old, size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_now() ? NULL : __real_calloc(count, size);
}

int __wrap_open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list args;

    va_start(args, flags);
    if (flags & O_CREAT)
        mode = va_arg(args, mode_t);
    va_end(args);
    errno = 0;
    if (!strncmp(path, "/proc/", 6))
        errno = proc_errno;
    else if (!strcmp(path, "/dev/userfaultfd") && userfaultfd_errno)
        errno = ENOENT;
    return errno ? -1 : __real_open(path, flags, mode);
}

long __wrap_syscall(long number, ...)
{
    long given[3]; /* the library passes at most three */
    va_list args;

    va_start(args, number);
    for (int i = 0; i < 3; i++)
        given[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_userfaultfd && userfaultfd_errno) {
        errno = userfaultfd_errno;
        return -1;
    }
    return __real_syscall(number, given[0], given[1], given[2]);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg)
{
    return thread_errno ? thread_errno : __real_pthread_create(thread, attr, run, arg);
}

/* ---- calls that resolve memory ---------------------------------------------------------- */

static struct fixture fixture;
static struct hmreg_remote *peer; /* to a region of plain memory */
static struct hmreg_mr *target;
static char plain[4096];

static void end(void)
{
    hmreg_remote_close(peer);
    assert_ok(hmreg_mr_close(target));
    assert_ok(hmreg_domain_close(fixture.domain));
    assert_ok(hmreg_close(fixture.lib));
}

static void begin(void)
{
    struct hmreg_loopback_config config = {.size = sizeof(config), .mr_mode = HMREG_MR_ALLOCATED};

    vendors_reset();
    assert_ok(hmreg_open(NULL, &fixture.lib));
    assert_ok(hmreg_domain_open_loopback(fixture.lib, &config, NULL, &fixture.domain));
    assert_ok(hmreg_mr_reg(fixture.domain, plain, sizeof(plain), HMREG_ACCESS_ALL, 0, 1, 0, &target,
                           NULL));
    peer = fixture_peer(&fixture, target);
    test_after(end);
}

static int ask_query(void *addr, size_t len)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};

    return hmreg_query(fixture.lib, addr, len, &info);
}

static int ask_export(void *addr, size_t len)
{
    struct hmreg_dmabuf dmabuf;

    return hmreg_export_dmabuf(fixture.lib, addr, len, 0, &dmabuf);
}

static int ask_copy(void *addr, size_t len)
{
    return hmreg_copy(fixture.lib, plain, addr, len);
}

static struct hmreg_mr *made;

static int ask_reg(void *addr, size_t len)
{
    return hmreg_mr_reg(fixture.domain, addr, len, HMREG_SEND, 0, 0, 0, &made, NULL);
}

static int ask_regv(void *addr, size_t len)
{
    struct iovec iov = {addr, len};

    return hmreg_mr_regv(fixture.domain, &iov, 1, HMREG_SEND, 0, 0, 0, &made, NULL);
}

static int ask_regattr(void *addr, size_t len)
{
    struct iovec iov = {addr, len};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .iov = &iov, .iov_count = 1, .access = HMREG_SEND};

    return hmreg_mr_regattr(fixture.domain, &attr, 0, &made);
}

static int ask_regsgl(void *addr, size_t len)
{
    struct hmreg_segment segment = {.kind = HMREG_SEGMENT_MEMORY, .u.memory = {addr, len}};

    return hmreg_mr_regsgl(fixture.domain, &segment, 1, HMREG_SEND, 0, 0, 0, &made, NULL);
}

static int ask_get(void *addr, size_t len)
{
    return hmreg_mr_get(fixture.domain, addr, len, HMREG_SEND, &made);
}

static int ask_write(void *addr, size_t len)
{
    uint64_t raddr, key;

    assert_ok(hmreg_remote_addr(peer, 0, 1, &raddr, &key));
    return hmreg_loopback_write(peer, addr, len, NULL, raddr, key);
}

static int (*const questions[])(void *addr, size_t len) = {
    ask_query, ask_export, ask_copy, ask_reg, ask_regv, ask_regattr, ask_regsgl, ask_get, ask_write,
};
#define QUESTIONS (sizeof(questions) / sizeof(questions[0]))

/* Each call fails with this code, names `words`, and leaves its output unchanged. */
static void all_answer(void *addr, size_t len, int code, const char *words)
{
    for (size_t i = 0; i < QUESTIONS; i++) {
        made = (struct hmreg_mr *)plain;
        assert_fails(questions[i](addr, len), code, words);
        assert_ptr_equal(made, (struct hmreg_mr *)plain);
    }
}

TEST(memory__runtime_fails__eio)
{
    static char some[64];

    begin();
    vendors[HMREG_IFACE_CUDA].resolve_code = -EIO;
    all_answer(some, 16, -EIO, "cuda");
    vendors[HMREG_IFACE_CUDA].resolve_code = 0;
}

TEST(memory__runtime_reports_no_bounds__opnotsupp)
{
    static char some[64];

    begin();
    vendors[HMREG_IFACE_ZE].resolve_code = -EOPNOTSUPP;
    all_answer(some, 16, -EOPNOTSUPP, "ze");
    vendors[HMREG_IFACE_ZE].resolve_code = 0;
}

TEST(memory__claimed_by_two_devices__eexist)
{
    static char some[4096];

    begin();
    vendor_claim(HMREG_IFACE_CUDA, some, sizeof(some), HMREG_MEM_DEVICE, 0);
    vendor_claim(HMREG_IFACE_ROCR, some, sizeof(some), HMREG_MEM_DEVICE, 1);
    all_answer(some, 16, -EEXIST, "cuda");
}

TEST(memory__leaves_its_allocation__erange)
{
    static char some[8192];

    begin();
    vendor_claim(HMREG_IFACE_CUDA, some, 4096, HMREG_MEM_DEVICE, 0);
    all_answer(some + 4000, 97, -ERANGE, "ends at");
}

TEST(memory__not_mapped__efault)
{
    begin();
    all_answer((void *)8, 1, -EFAULT, "mapped");
}

static fd_set taken;

/* Gives the descriptors on which the library has /proc/self/maps open to another file, as an
 * application does that closes foreign descriptors. */
static void take_maps_away(void)
{
    char path[64], file[64];

    for (int fd = 0; fd < 256; fd++) {
        ssize_t len;
        int null;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        len = readlink(path, file, sizeof(file) - 1);
        if (len < 5 || memcmp(file + len - 5, "/maps", 5) != 0)
            continue;
        null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_int_equal(dup3(null, fd, O_CLOEXEC), fd);
        close(null);
        FD_SET(fd, &taken);
    }
}

/* The library must not have closed them. */
static void close_taken(void)
{
    for (int fd = 0; fd < 256; fd++)
        if (FD_ISSET(fd, &taken))
            assert_int_equal(close(fd), 0);
    FD_ZERO(&taken);
}

/* Export refuses host memory anyway, and registration does not read the mappings. */
TEST(memory__maps_cannot_be_read__the_systems_error)
{
    static const int errors[] = {EMFILE, ENFILE, EACCES, ENOENT, ENOMEM};
    static char some[64];

    test_after(close_taken);
    begin();
    take_maps_away();
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        proc_errno = errors[i];
        all_answer(some, 16, -errors[i], "maps");
    }
    proc_errno = 0;
}

/* ---- failing allocations ---------------------------------------------------------------- */

/* Whether every allocation of the call itself succeeded, clean-up not counted. */
static bool all_worked;

static void stop_failing(void)
{
    all_worked = allocations_left >= 0;
    allocations_left = -1;
}

/* A domain without earlier regions, for calls that reuse what an earlier call has allocated. */
static struct hmreg_domain *fresh;

static int try_reg(void)
{
    int rc = ask_reg(plain, 16);

    stop_failing();
    return rc ? rc : hmreg_mr_close(made);
}

static int try_regsgl(void)
{
    struct hmreg_segment segments[2] = {{.u.memory = {plain, 8}}, {.u.memory = {plain + 64, 8}}};
    int rc = hmreg_mr_regsgl(fresh, segments, 2, HMREG_ACCESS_REMOTE, 0, 7, 0, &made, NULL);

    stop_failing();
    return rc ? rc : hmreg_mr_close(made);
}

static int try_get(void)
{
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_get(fresh, plain, 16, HMREG_ACCESS_REMOTE, &mr);

    stop_failing();
    hmreg_mr_put(mr);
    return rc;
}

static int try_get_attr(void)
{
    struct iovec iov = {plain, 16};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_REMOTE,
                                 .page_size = 4096,
                                 .context = &iov};
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_get_attr(fresh, &attr, 0, &mr);

    stop_failing();
    hmreg_mr_put(mr);
    return rc;
}

static int try_open(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_DISABLED};
    struct hmreg *lib = NULL;
    int rc = hmreg_open(&config, &lib);

    stop_failing();
    return rc ? rc : hmreg_close(lib);
}

static int try_domain(void)
{
    struct hmreg_domain *domain = NULL;
    int rc = hmreg_domain_open_loopback(fixture.lib, NULL, NULL, &domain);

    stop_failing();
    return rc ? rc : hmreg_domain_close(domain);
}

static int try_ep(void)
{
    struct hmreg_loopback_ep *ep = NULL;
    int rc = hmreg_loopback_ep_open(fixture.domain, &ep);

    stop_failing();
    return rc ? rc : hmreg_loopback_ep_close(ep);
}

static int try_eq(void)
{
    struct hmreg_loopback_eq *eq = NULL;
    int rc = hmreg_loopback_eq_open(fixture.domain, &eq);

    stop_failing();
    return rc ? rc : hmreg_loopback_eq_close(eq);
}

static int try_map(void)
{
    static const uint8_t raw[8] = {1};
    uint64_t key = 0;
    int rc = hmreg_domain_map_raw(fixture.domain, 0, raw, sizeof(raw), &key, 0);

    stop_failing();
    return rc ? rc : hmreg_domain_unmap_raw(fixture.domain, key);
}

static uint8_t targets_token[512];
static size_t targets_token_size;

static int try_remote(void)
{
    struct hmreg_remote *remote = NULL;
    int rc = hmreg_remote_open(fixture.domain, targets_token, targets_token_size, &remote);

    stop_failing();
    hmreg_remote_close(remote);
    return rc;
}

#define PIECES 65                          /* of a region whose token needs memory */
static struct hmreg_mr *unpacked, *pieces; /* of the fresh domain */

static int try_pack(void)
{
    uint8_t some[512 + PIECES * 24];
    size_t size = sizeof(some);
    int rc = hmreg_mr_pack(pieces, some, &size);

    stop_failing();
    return rc;
}

/* More than the first allocation of either call has room for. */
#define MANY 100
static uint8_t many_tokens[MANY * 512];
static size_t many_size;

static int try_pack_many(void)
{
    struct hmreg_mr *mrs[MANY];
    size_t size = sizeof(many_tokens);
    int rc;

    for (int i = 0; i < MANY; i++)
        mrs[i] = unpacked;
    rc = hmreg_mr_pack_many(mrs, MANY, many_tokens, &size);
    stop_failing();
    if (!rc)
        many_size = size;
    return rc;
}

static int try_remote_many(void)
{
    struct hmreg_remote *remotes[MANY] = {NULL};
    size_t count = MANY;
    int rc = hmreg_remote_open_many(fixture.domain, many_tokens, many_size, remotes, &count);

    stop_failing();
    for (int i = 0; i < MANY; i++) {
        if (rc)
            assert_null(remotes[i]);
        hmreg_remote_close(remotes[i]);
    }
    return rc;
}

static int with_one_failing(int n, int (*call)(void))
{
    struct hmreg_loopback_config config = {.size = sizeof(config), .iov_limit = 1};
    struct hmreg_segment segments[PIECES];
    int rc;

    for (int i = 0; i < PIECES; i++)
        segments[i] = (struct hmreg_segment){.u.memory = {plain + 8 * i, 4}};
    assert_ok(hmreg_domain_open_loopback(fixture.lib, &config, NULL, &fresh));
    assert_ok(hmreg_mr_reg(fresh, plain, 8, HMREG_REMOTE_READ, 0, 3, 0, &unpacked, NULL));
    assert_ok(
        hmreg_mr_regsgl(fresh, segments, PIECES, HMREG_REMOTE_READ, 0, 100, 0, &pieces, NULL));
    allocations_left = n;
    rc = call();
    assert_ok(hmreg_mr_close(pieces));
    assert_ok(hmreg_mr_close(unpacked));
    assert_ok(hmreg_domain_close(fresh));
    return rc;
}

static void every_allocation_fails(int (*call)(void))
{
    int failures = 0, rc = -1;

    all_worked = false;
    for (int n = 0; n < 2 * MANY && !all_worked; n++) {
        rc = with_one_failing(n, call);
        if (rc)
            assert_int_equal(rc, -ENOMEM);
        failures += rc != 0;
    }
    assert_int_equal(rc, 0);
    assert_true(failures > 0);
}

TEST(allocation_fails__each_call__enomem_then_works)
{
    static int (*const calls[])(void) = {try_reg,  try_regsgl, try_get, try_get_attr,
                                         try_open, try_domain, try_ep,  try_eq,
                                         try_map,  try_remote, try_pack};

    begin();
    targets_token_size = sizeof(targets_token);
    assert_ok(hmreg_mr_pack(target, targets_token, &targets_token_size));
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        every_allocation_fails(calls[i]);
}

/* What was opened before the one that fails is closed: both domains close. */
TEST(allocation_fails__many_tokens__enomem_and_none_is_open)
{
    begin();
    every_allocation_fails(try_pack_many);
    every_allocation_fails(try_remote_many);
}

/* ---- opening the library ---------------------------------------------------------------- */

TEST(open__userfaultfd_asked_for__the_kernels_error)
{
    static const int errors[] = {EPERM, ENOSYS, ENOMEM, EMFILE, ENFILE};
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_USERFAULTFD};
    struct hmreg *lib = NULL;

    vendors_reset();
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        userfaultfd_errno = errors[i];
        assert_fails(hmreg_open(&config, &lib), -errors[i], "userfaultfd");
        assert_null(lib);
    }
    userfaultfd_errno = EPERM;
    config.monitor = HMREG_MONITOR_DEFAULT;
    assert_ok(hmreg_open(&config, &lib)); /* works without it */
    assert_ok(hmreg_close(lib));
    userfaultfd_errno = 0;
}

static int open_without_thread(enum hmreg_monitor monitor, struct hmreg **lib)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = monitor};
    int rc;

    vendors_reset();
    thread_errno = EAGAIN;
    rc = hmreg_open(&config, lib);
    thread_errno = 0;
    return rc;
}

/* Counter starts its thread at once, userfaultfd with the first range that is watched. */
TEST(open__no_thread_for_the_monitor__eagain_of_counter)
{
    struct hmreg *lib = NULL;
    int rc = open_without_thread(HMREG_MONITOR_COUNTER, &lib);

    assert_null(lib);
    if (rc != -ENOENT) /* the kernel module is loaded */
        assert_int_equal(rc, -EAGAIN);
    rc = open_without_thread(HMREG_MONITOR_USERFAULTFD, &lib);
    if (rc == -EPERM || rc == -ENOSYS)
        test_skip("userfaultfd is not available here: %s", hmreg_last_error()->text);
    assert_ok(rc);
    assert_ok(hmreg_close(lib));
}

/* ---- the rest --------------------------------------------------------------------------- */

TEST(bind__more_counters_than_a_region_has__enomem)
{
    struct hmreg_loopback_counter *counters[9];

    begin();
    for (int i = 0; i < 9; i++)
        assert_ok(hmreg_loopback_counter_open(fixture.domain, &counters[i]));
    for (int i = 0; i < 8; i++)
        assert_ok(hmreg_mr_bind(target, counters[i], HMREG_REMOTE_WRITE));
    assert_fails(hmreg_mr_bind(target, counters[8], HMREG_REMOTE_WRITE), -ENOMEM, "8 counters");
    for (int i = 0; i < 9; i++)
        assert_ok(hmreg_loopback_counter_close(counters[i]));
}

TEST(loopback_objects__wrong_arguments__inval)
{
    struct hmreg_loopback_event event = {.size = 0};
    struct hmreg_loopback_counter *counter = NULL;
    struct hmreg_loopback_ep *ep = NULL;
    struct hmreg_loopback_eq *eq = NULL;

    begin();
    assert_fails(hmreg_loopback_ep_open(NULL, &ep), -EINVAL, "domain is NULL");
    assert_fails(hmreg_loopback_ep_open(fixture.domain, NULL), -EINVAL, "out is NULL");
    assert_fails(hmreg_loopback_counter_open(fixture.domain, NULL), -EINVAL, "out is NULL");
    assert_fails(hmreg_loopback_counter_open(NULL, &counter), -EINVAL, "domain is NULL");
    assert_fails(hmreg_loopback_eq_open(fixture.domain, NULL), -EINVAL, "out is NULL");
    assert_ok(hmreg_loopback_eq_open(fixture.domain, &eq));
    assert_fails(hmreg_loopback_eq_read(NULL, &event, 0), -EINVAL, "eq is NULL");
    assert_fails(hmreg_loopback_eq_read(eq, NULL, 0), -EINVAL, "out is NULL");
    assert_fails(hmreg_loopback_eq_read(eq, &event, 0), -EINVAL, "size of");
    event.size = sizeof(event);
    assert_fails(hmreg_loopback_eq_read(eq, &event, -2), -EINVAL, "timeout_ms is -2");
    assert_fails(hmreg_domain_close(fixture.domain), -EBUSY, "open");
    assert_ok(hmreg_loopback_eq_close(eq));
}

TEST(write__domain_of_the_peer_is_closed__ehostunreach)
{
    struct hmreg_domain *domain;
    struct hmreg_remote *remote;
    struct hmreg_mr *mr = NULL;

    begin();
    assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, NULL, &domain));
    assert_ok(hmreg_mr_reg(domain, plain, 8, HMREG_REMOTE_READ, 0, 7, 0, &mr, NULL));
    remote = fixture_peer(&fixture, mr);
    assert_fails(peer_put(remote, 0, 'x'), -EACCES, "does not grant remote write");
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(domain));
    assert_fails(peer_put(remote, 0, 'x'), -EHOSTUNREACH, "closed");
    hmreg_remote_close(remote);
}

TEST_MAIN()
