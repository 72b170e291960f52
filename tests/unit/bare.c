/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A child that was made without fork's handlers (_Fork(3), clone(2)): the calls with an object of
 * the parent are refused and allocate nothing, since malloc(3)'s locks may be held for ever there.
 */
#include "tests/support/cache_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

static bool must_not_allocate;

#define ALLOCATES(type, name, parameters, ...)                                                     \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        if (must_not_allocate)                                                                     \
            _exit(99);                                                                             \
        return __real_##name(__VA_ARGS__);                                                         \
    }
ALLOCATES(void *, malloc, (size_t size), size)
ALLOCATES(void *, calloc, (size_t count, size_t size), count, size)
ALLOCATES(void *, realloc, (void *old, size_t size), old, size)
ALLOCATES(void *, aligned_alloc, (size_t alignment, size_t size), alignment, size)
ALLOCATES(void, free, (void *old), old)

static struct hmreg_mr *held, *explicit_one;
static char *memory;

/* 0, or the number of the first call that is not refused. */
static int call_all(void)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct iovec iov = {memory, 10};
    struct hmreg_mr_attr attr = {.size = sizeof(attr), .iov = &iov, .iov_count = 1};
    struct hmreg_mr *mr = NULL;
    const int refused[] = {
        hmreg_mr_get(fixture.domain, memory, 10, HMREG_ACCESS_REMOTE, &mr),
        hmreg_mr_get_attr(fixture.domain, &attr, 0, &mr),
        hmreg_mr_reg(fixture.domain, memory, 10, HMREG_ACCESS_REMOTE, 0, 0, 0, &mr, NULL),
        hmreg_mr_close(explicit_one),
        hmreg_query(fixture.lib, memory, 10, &info),
        hmreg_domain_stats(fixture.domain, &stats),
        hmreg_domain_flush(fixture.domain),
        hmreg_domain_close(fixture.domain),
        hmreg_close(fixture.lib),
    };

    hmreg_mr_put(held);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (refused[i] != -EPERM)
            return (int)i + 1;
    return mr ? 98 : 0;
}

/* Then it opens its own, and errors are kept. */
static int in_bare_child(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_DISABLED};
    struct hmreg *lib = NULL;
    int rc;

    must_not_allocate = true;
    rc = call_all();
    must_not_allocate = false;
    if (rc)
        return rc;
    if (hmreg_last_error()->code != -EPERM || !strstr(hmreg_last_error()->text, "_Fork"))
        return 97;
    if (hmreg_open(&config, NULL) != -EINVAL || hmreg_last_error()->code != -EINVAL)
        return 96;
    return hmreg_open(&config, &lib) || hmreg_close(lib) ? 95 : 0;
}

/* The child's exit status. */
static int fork_bare(void)
{
    pid_t parent = getpid(), child = _Fork();
    int status = -1;

    if (child == 0) {
        test_end_with(parent);
        _exit(in_bare_child());
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 94;
}

static int get_and_fork_bare(void)
{
    fixture_key(memory, 10);
    return fork_bare();
}

static int fork_with_handlers(int (*run)(void))
{
    pid_t child = test_fork();
    int status = -1;

    if (child == 0)
        _exit(run());
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 93;
}

static int fork_bare_from_fork(void)
{
    return fork_with_handlers(fork_bare);
}

/* malloc(3) works there, so the text is kept. */
static int in_child(void)
{
    bool is_refused = hmreg_domain_flush(fixture.domain) == -EPERM;

    return is_refused && strstr(hmreg_last_error()->text, "opened by process") ? 0 : 92;
}

static int fork_once(void)
{
    return fork_with_handlers(in_child);
}

struct part {
    int (*run)(void);
    int result;
};

static void *run_part(void *arg)
{
    struct part *part = arg;

    part->result = part->run();
    return NULL;
}

/* On a thread that has no error yet. */
static void on_a_thread(int (*run)(void))
{
    struct part part = {run, -1};

    memory = fixture_map(1);
    fixture_open(HMREG_MONITOR_IMPORT, NULL);
    held = fixture_get(memory, 10);
    assert_ok(hmreg_mr_reg(fixture.domain, memory, 10, HMREG_ACCESS_REMOTE, 0, 0, 0, &explicit_one,
                           NULL));
    test_on_a_thread(run_part, &part);
    assert_int_equal(part.result, 0);
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(explicit_one));
    munmap(memory, fixture_page());
}

TEST(child__without_fork_handlers__refused_calls_allocate_nothing)
{
    on_a_thread(fork_bare);
}

TEST(child__of_a_thread_that_has_got__refused_calls_allocate_nothing)
{
    on_a_thread(get_and_fork_bare);
}

TEST(child__of_a_forked_child__refused_calls_allocate_nothing)
{
    on_a_thread(fork_bare_from_fork);
}

TEST(child__of_fork__the_error_is_kept)
{
    on_a_thread(fork_once);
}

TEST_MAIN()
