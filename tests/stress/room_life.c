/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Threads that make room of everything scarce while domains are opened, flushed and closed, limits
 * change, memory is suspended and resumed, and the process forks. Nothing that is held ends, no
 * domain's fabric is called on a thread that it does not permit, and all of it ends. argv[2]: the
 * seed; argv[3]: a multiple of the usual length.
 */
#include "core/mr/mr.h"
#include "tests/support/sanitizer.h"
#include "tests/support/random.h"
#include "tests/support/scarce.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"

#include <hmreg/group.h>
#include <hmreg/hmreg.h>
#include <hmreg/suspend.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE    ((size_t)4096)
#define PAGES   256
#define SHARED  3 /* domains that all threads call; the last one is a group of the others */
#define WORKERS 5
#define ROUNDS  2000

static char memory[PAGES][PAGE] __attribute__((aligned(65536)));
static unsigned seed = 1, length = 1;

static struct hmreg *lib;
static struct hmreg_domain *shared[SHARED];
static atomic_uint done, failed;
static bool with_suspend;

struct worker {
    pthread_t thread;
    struct random random;
    struct hmreg_domain *own; /* NULL: none */
    struct hmreg *own_lib;    /* NULL: its own domain is of the shared one */
    bool any_thread;
    struct hmreg_mr *held;
};

/* In the library that all share, or in one of its own. */
static void open_own(struct worker *worker, unsigned nic)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};

    if (draw(&worker->random, 2))
        assert_ok(hmreg_open(&config, &worker->own_lib));
    worker->own =
        scarce_open(worker->own_lib ? worker->own_lib : lib, nic, worker->any_thread, NULL);
}

static void close_own(struct worker *worker)
{
    assert_ok(hmreg_domain_close(worker->own));
    assert_ok(hmreg_close(worker->own_lib));
    worker->own = NULL;
    worker->own_lib = NULL;
}

static struct hmreg_domain *choose(struct worker *worker)
{
    unsigned which = draw(&worker->random, SHARED + 2);

    return worker->own && which >= SHARED ? worker->own : shared[which % SHARED];
}

static void count(int rc)
{
    atomic_fetch_add(rc ? &failed : &done, 1);
}

static void get_some(struct worker *worker)
{
    struct hmreg_domain *domain = choose(worker);
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_get(domain, memory[draw(&worker->random, PAGES - 8)],
                          (1 + draw(&worker->random, 4)) * PAGE, HMREG_SEND, &mr);

    count(rc);
    if (rc)
        return;
    sched_yield();
    /* Another thread may have suspended it. */
    assert_true(with_suspend || domain->group || mr_body(mr)->made.native);
    hmreg_mr_put(mr);
}

static void reg_some(struct worker *worker)
{
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_reg(choose(worker), memory[draw(&worker->random, PAGES - 8)],
                          (1 + draw(&worker->random, 4)) * PAGE, HMREG_SEND, 0, 0, 0, &mr, NULL);

    count(rc);
    if (!rc)
        assert_ok(hmreg_mr_close(mr));
}

static void fork_once(void)
{
#if !TEST_TSAN && !TEST_ASAN
    int status;
    pid_t child = fork();

    if (!child)
        _exit(0);
    assert_int_equal(waitpid(child, &status, 0), child);
#endif
}

static void change_life(struct worker *worker)
{
    if (worker->own)
        close_own(worker);
    else
        open_own(worker, draw(&worker->random, 2));
}

static void change_other(struct worker *worker)
{
    char *range = memory[draw(&worker->random, PAGES - 8)];

    switch (draw(&worker->random, 12)) {
    case 0:
        assert_ok(hmreg_domain_flush(choose(worker)));
        break;
    case 1:
        assert_ok(hmreg_invalidate(lib, range, 2 * PAGE));
        break;
    case 2:
    case 3:
        assert_ok(hmreg_domain_progress(choose(worker)));
        break;
    case 4: /* on this thread, of all domains */
        if (with_suspend && !hmreg_suspend(lib, range, 2 * PAGE))
            (void)hmreg_resume(lib, range, 2 * PAGE, NULL);
        break;
    case 5:
        fork_once();
        break;
    default:
        change_life(worker);
        break;
    }
}

static void *work(void *arg)
{
    struct worker *worker = arg;

    for (unsigned i = 0; i < ROUNDS * length / (TEST_TSAN ? 4 : 1); i++) {
        switch (draw(&worker->random, 20)) {
        case 0:
            change_other(worker);
            break;
        case 1:
        case 2:
        case 3:
        case 4:
            reg_some(worker);
            break;
        default:
            get_some(worker);
            break;
        }
    }
    close_own(worker);
    return NULL;
}

static void close_all(void)
{
    for (size_t i = SHARED; i > 0; i--)
        assert_ok(hmreg_domain_close(shared[i - 1]));
    assert_ok(hmreg_close(lib));
    assert_int_equal(atomic_load(&scarce.strayed), 0);
    assert_int_equal(atomic_load(&scarce.locked), 0);
}

static void run_all(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};
    struct worker workers[WORKERS];

    vendors_reset();
    scarce_reset();
    scarce_limit_locked(16 * PAGE);
    scarce.most_regions = 10;
    scarce.several = true;
    assert_ok(hmreg_open(&config, &lib));
    shared[0] = scarce_open(lib, 0, true, NULL);
    shared[1] = scarce_open(lib, 1, true, NULL);
    assert_ok(hmreg_group_open(lib, shared, 2, NULL, &shared[2]));
    test_after(close_all);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] =
            (struct worker){.random = random_of(seed, i + 1), .any_thread = with_suspend || i % 2};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    print_message("%u succeeded, %u failed, %u regions ended\n", atomic_load(&done),
                  atomic_load(&failed), atomic_load(&scarce.deregs));
}

TEST(room__domains_start_and_end__all_ends)
{
    run_all();
}

TEST(room__memory_is_suspended_meanwhile__all_ends)
{
    with_suspend = true;
    run_all();
}

int main(int argc, char **argv)
{
    seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    length = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
    return test_main(argc, argv);
}
