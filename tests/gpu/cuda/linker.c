/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A get in a constructor or an IFUNC's resolver, whose thread has the dynamic linker's lock, beside
 * another thread's first get of the same device memory, which starts the runtime and hooks its
 * functions. That thread has stopped before a call of the linker, in each place of its get, and
 * goes on to wait for the lock.
 */
#include "tests/gpu/cuda/driver.h"
#include "tests/support/loads.h"
#include "tests/support/queries.h"

#include <dlfcn.h>
#include <hmreg/loopback.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <time.h>

#define LEN 100000

/* ---- the stop ---------------------------------------------------------------------------- */

enum linker_call { DLOPEN = 1, DLSYM, DLADDR, DLADDR1 };

static struct {
    enum loads_from from;
    unsigned at; /* the thread stops at this place */
    sem_t stopped, goes_on;
} run;
/* Of the other thread: the places of its get so far. Calls of one function in a row are one. */
static _Thread_local struct {
    bool gets, stopped;
    unsigned places;
    enum linker_call last;
} other;
static _Thread_local bool in_load;

static void stop(void)
{
    other.stopped = true;
    sem_post(&run.stopped);
    sem_wait(&run.goes_on);
}

static void pass(enum linker_call call)
{
    if (!other.gets || call == other.last)
        return;
    other.last = call;
    if (other.places++ == run.at)
        stop();
}

void *__real_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags);
void *__wrap_dlopen(const char *name, int flags)
{
    pass(DLOPEN);
    return __real_dlopen(name, flags);
}

void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name)
{
    pass(DLSYM);
    return __real_dlsym(library, name);
}

int __real_dladdr(const void *at, Dl_info *out);
int __wrap_dladdr(const void *at, Dl_info *out);
int __wrap_dladdr(const void *at, Dl_info *out)
{
    pass(DLADDR);
    return __real_dladdr(at, out);
}

int __real_dladdr1(const void *at, Dl_info *out, void **more, int flags);
int __wrap_dladdr1(const void *at, Dl_info *out, void **more, int flags);
int __wrap_dladdr1(const void *at, Dl_info *out, void **more, int flags)
{
    pass(DLADDR1);
    return __real_dladdr1(at, out, more, flags);
}

/* What waits for a moment in the load takes less of one. */
int __real_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    return in_load ? 0 : __real_nanosleep(time, left);
}

/* ---- the gets ---------------------------------------------------------------------------- */

static struct hmreg_domain *domain;
static void *memory;

static void get(void)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(domain, memory, LEN, HMREG_ACCESS_REMOTE, &mr));
    assert_int_equal(test_info_of(mr).iface, HMREG_IFACE_CUDA);
    hmreg_mr_put(mr);
}

/* *arg: did it stop? */
static void *get_and_stop(void *arg)
{
    other.gets = true;
    get();
    other.gets = false;
    if (!other.stopped)
        sem_post(&run.stopped);
    *(bool *)arg = other.stopped;
    return NULL;
}

void loads_call(const struct loads *loads, enum loads_from from)
{
    if (from != run.from)
        return;
    in_load = true;
    sem_post(&run.goes_on);
    get(); /* would hang */
    in_load = false;
}

static void open_domain(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};
    struct hmreg_loopback_config loopback = {.size = sizeof(loopback)};
    struct hmreg *lib = NULL;

    assert_ok(hmreg_open(&config, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, &loopback, NULL, &domain));
}

/* 0: the other thread stopped there; 2: there are not so many places. */
static int get_at(unsigned at)
{
    struct cuda_context *context = NULL;
    bool stopped = false;
    pthread_t thread;

    driver_load();
    CU(cu.init(0));
    CU(cu.primary_retain(&context, 0));
    CU(cu.context_push(context));
    memory = as_pointer(cu_alloc(LEN));
    open_domain();
    run.at = at;
    sem_init(&run.stopped, 0, 0);
    sem_init(&run.goes_on, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, get_and_stop, &stopped), 0);
    sem_wait(&run.stopped);
    assert_non_null(dlopen(TEST_LOADS_HARMLESS, RTLD_NOW));
    pthread_join(thread, NULL);
    get();
    return stopped ? 0 : 2;
}

static void get_at_each_place(enum loads_from from)
{
    int status = 0;
    unsigned at;

    driver_need_fake();
    run.from = from;
    for (at = 0; status == 0; at++) {
        pid_t child = test_fork();

        if (child == 0)
            _exit(get_at(at));
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
    assert_true(at > 3); /* to load, to find functions, to hook them */
}

TEST(get__in_a_constructor_beside_a_first_get__returns)
{
    get_at_each_place(LOADS_CONSTRUCTOR);
}

TEST(get__in_a_resolver_beside_a_first_get__returns)
{
    get_at_each_place(LOADS_RESOLVER);
}

TEST_MAIN()
