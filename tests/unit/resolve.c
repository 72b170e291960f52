/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * When runtimes are started, by which calls, how often, and in which processes. What they say of
 * memory is hmreg_query.c's. */
#include "tests/support/test.h"
#include "tests/support/vendors.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/wait.h>

static char memory[65536];

/* hmreg_open() starts those that are named. */
static const struct hmreg_config all_named = {
    .size = sizeof(all_named),
    .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_CUDA) | HMREG_IFACE_BIT(HMREG_IFACE_ROCR) |
              HMREG_IFACE_BIT(HMREG_IFACE_ZE),
};

static struct hmreg *open_lib(void)
{
    struct hmreg *lib = NULL;

    vendors_reset();
    assert_ok(hmreg_open(NULL, &lib));
    return lib;
}

static int query(struct hmreg *lib, void *addr, size_t len, struct hmreg_mem_info *info)
{
    memset(info, 'u', sizeof(*info));
    info->size = sizeof(*info);
    return hmreg_query(lib, addr, len, info);
}

/* ---- available runtimes ----------------------------------------------------------------- */

TEST(open__vendor_that_fails__why_is_its_sentence)
{
    struct hmreg_runtime_info info = {.size = sizeof(info)};
    struct hmreg_device_info device = {.size = sizeof(device)};
    struct hmreg *lib;

    vendors_reset();
    vendors[HMREG_IFACE_ZE].open_code = -ELIBBAD;
    assert_ok(hmreg_open(NULL, &lib));
    assert_ok(hmreg_runtime_query(lib, HMREG_IFACE_ZE, &info));
    assert_int_equal(info.present, 0);
    assert_int_equal(info.devices, 0);
    assert_string_equal(info.why, "open of ze failed");
    assert_fails(hmreg_device_query(lib, HMREG_IFACE_ZE, 0, &device), -ENODEV, "0 devices");
    assert_ok(hmreg_runtime_query(lib, HMREG_IFACE_CUDA, &info));
    assert_int_equal(info.present, 1);
    assert_int_equal(info.devices, 2);
    assert_string_equal(info.version, "1.2");
    assert_string_equal(info.library, "the test");
    assert_string_equal(info.why, "nothing");
    assert_ok(hmreg_close(lib));
}

TEST(open__ifaces_named__no_other_is_opened)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_ROCR)};
    struct hmreg_runtime_info info = {.size = sizeof(info)};
    struct hmreg *lib;

    vendors_reset();
    assert_ok(hmreg_open(&config, &lib));
    assert_int_equal(vendors[HMREG_IFACE_CUDA].opens, 0);
    assert_int_equal(vendors[HMREG_IFACE_ROCR].opens, 1);
    assert_int_equal(vendors[HMREG_IFACE_ZE].opens, 0);
    assert_ok(hmreg_runtime_query(lib, HMREG_IFACE_CUDA, &info));
    assert_int_equal(info.present, 0);
    assert_string_equal(info.why, "cuda was not requested");
    assert_ok(hmreg_runtime_query(lib, HMREG_IFACE_SYSTEM, &info));
    assert_int_equal(info.present, 1);
    assert_ok(hmreg_close(lib));
}

TEST(open__failing_vendors__last_error_stays)
{
    struct hmreg_error before;
    struct hmreg *lib;

    vendors_reset();
    for (int i = HMREG_IFACE_CUDA; i < HMREG_IFACE_COUNT; i++)
        vendors[i].open_code = -ENOENT;
    assert_fails(hmreg_open(NULL, NULL), -EINVAL, "out");
    before = *hmreg_last_error();
    assert_ok(hmreg_open(&all_named, &lib));
    assert_memory_equal(hmreg_last_error(), &before, sizeof(before));
    assert_ok(hmreg_close(lib));
}

TEST(device_query__each_device)
{
    struct hmreg_device_info info = {.size = sizeof(info)};
    struct hmreg *lib = open_lib();

    assert_ok(hmreg_device_query(lib, HMREG_IFACE_CUDA, 1, &info));
    assert_string_equal(info.name, "simulated cuda 1");
    assert_int_equal(info.flags, HMREG_DEVICE_SIMULATED | HMREG_DEVICE_DMABUF);
    assert_int_equal(info.pci.bus, 2);
    assert_int_equal(info.memory, 1u << 30);
    vendors[HMREG_IFACE_CUDA].real = true;
    assert_ok(hmreg_device_query(lib, HMREG_IFACE_CUDA, 1, &info));
    assert_int_equal(info.flags, HMREG_DEVICE_DMABUF);
    vendors[HMREG_IFACE_CUDA].dmabuf = false;
    assert_ok(hmreg_device_query(lib, HMREG_IFACE_CUDA, 1, &info));
    assert_int_equal(info.flags, 0);
    assert_fails(hmreg_device_query(lib, HMREG_IFACE_CUDA, 2, &info), -ENODEV, "no device 2");
    assert_fails(hmreg_device_query(lib, HMREG_IFACE_CUDA, -1, &info), -ENODEV, "no device -1");
    assert_fails(hmreg_device_query(lib, HMREG_IFACE_SYSTEM, 0, &info), -ENODEV, "system");
    assert_string_equal(info.name, "simulated cuda 1");
    assert_ok(hmreg_close(lib));
}

/* ---- forked children -------------------------------------------------------------------- */

/* The result of a runtime in a child that opens its own library. */
static void child_sees_of(enum hmreg_iface iface, const char *why)
{
    struct hmreg_runtime_info info = {.size = sizeof(info)}, host = info;
    struct hmreg *lib;

    if (hmreg_open(NULL, &lib) || hmreg_runtime_query(lib, iface, &info) ||
        hmreg_runtime_query(lib, HMREG_IFACE_SYSTEM, &host))
        _exit(1);
    if (info.present != !why || (why && !strstr(info.why, why)))
        _exit(2);
    if (!host.present)
        _exit(4);
    _exit(hmreg_close(lib) ? 3 : 0);
}

static void child_sees(const char *why)
{
    child_sees_of(HMREG_IFACE_CUDA, why);
}

/* In a process without an open runtime before: opens, forks, and queries. */
static int family(int parents_code, int childs_code, const char *why)
{
    struct hmreg *lib;
    int status = -1;
    pid_t child = fork();

    if (child == 0) {
        vendors_reset();
        vendors[HMREG_IFACE_CUDA].open_code = parents_code;
        if (hmreg_open(&all_named, &lib) || hmreg_close(lib))
            _exit(10);
        child = fork();
        vendors[HMREG_IFACE_CUDA].open_code = childs_code;
        if (child == 0)
            child_sees(why);
        _exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 11);
    }
    waitpid(child, &status, 0);
    return status;
}

TEST_FIRST(fork__runtime_the_parent_used__is_refused)
{
    assert_int_equal(family(0, 0, "a parent of this process used cuda before fork()"), 0);
}

/* It was loaded and initialized as far as possible. */
TEST_FIRST(fork__runtime_that_found_no_device__is_refused)
{
    assert_int_equal(family(-ENODEV, 0, "a parent of this process used cuda before fork()"), 0);
}

TEST_FIRST(fork__runtime_that_is_not_installed__says_so_in_the_child)
{
    assert_int_equal(family(-ENOENT, -ENOENT, "open of cuda failed"), 0);
    assert_int_equal(family(-ENOENT, 0, NULL), 0);
}

/* ---- threads inside a runtime's start ----------------------------------------------------- */

static sem_t inside, go_on;

static void stay_inside(void)
{
    sem_post(&inside);
    sem_wait(&go_on);
}

static void *open_and_close(void *unused)
{
    struct hmreg *lib;

    return hmreg_open(&all_named, &lib) || hmreg_close(lib) ? "failed" : NULL;
}

/* In a process of its own, which forks while a thread is inside a step of cuda's start. Returns the
 * child's result for a runtime. */
static int fork_inside(void (**step)(void), enum hmreg_iface iface, const char *why)
{
    void *result = NULL;
    pthread_t thread;
    int status = -1;
    pid_t child;

    sem_init(&inside, 0, 0);
    sem_init(&go_on, 0, 0);
    vendors_reset();
    *step = stay_inside;
    if (pthread_create(&thread, NULL, open_and_close, NULL))
        return 10;
    sem_wait(&inside);
    child = fork();
    if (child == 0) {
        *step = NULL;
        child_sees_of(iface, why);
    }
    waitpid(child, &status, 0);
    sem_post(&go_on);
    pthread_join(thread, &result);
    return result ? 11 : WIFEXITED(status) ? WEXITSTATUS(status) : 12;
}

static void assert_refused_inside(void (**step)(void), enum hmreg_iface iface, const char *why)
{
    test_forks_with_threads();
    test_in_child(fork_inside(step, iface, why));
}

static void (**const start_of_cuda)(void) = &vendors[HMREG_IFACE_CUDA].on_open;
static void (**const load_of_cuda)(void) = &vendors[HMREG_IFACE_CUDA].on_load;

/* The child's copy of the runtime will never finish its start. */
TEST_FIRST(fork__while_a_thread_is_in_the_runtimes_start__is_refused)
{
    assert_refused_inside(start_of_cuda, HMREG_IFACE_CUDA,
                          "a parent of this process used cuda before fork()");
}

/* Nor will the dynamic linker, if that thread was in it. */
TEST_FIRST(fork__while_a_thread_is_in_another_runtimes_start__is_refused)
{
    static const char why[] = "was loading a runtime at fork()";

    assert_refused_inside(start_of_cuda, HMREG_IFACE_ZE, why);
    assert_refused_inside(load_of_cuda, HMREG_IFACE_ZE, why);
    assert_refused_inside(load_of_cuda, HMREG_IFACE_CUDA, why);
}

static atomic_int now_inside, most_inside;

static void count_inside(void)
{
    int now = atomic_fetch_add(&now_inside, 1) + 1;

    if (now > atomic_load(&most_inside))
        atomic_store(&most_inside, now);
    test_wait_until_others_sleep();
    atomic_fetch_sub(&now_inside, 1);
}

TEST(open__on_threads_at_once__one_start_after_the_other)
{
    pthread_t threads[8];

    vendors_reset();
    vendors[HMREG_IFACE_ZE].on_open = count_inside;
    vendors[HMREG_IFACE_ZE].open_code = -ENODEV;
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, NULL), 0);
    for (size_t i = 0; i < 8; i++) {
        void *failed;

        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(most_inside, 1);
    assert_int_equal(vendors[HMREG_IFACE_ZE].opens, 8);
}

/* ---- the first need --------------------------------------------------------------------- */

static unsigned opens(void)
{
    return vendors[HMREG_IFACE_CUDA].opens + vendors[HMREG_IFACE_ROCR].opens +
           vendors[HMREG_IFACE_ZE].opens;
}

/* No library of a runtime is in the process. */
static struct hmreg *open_without_libraries(void)
{
    struct hmreg *lib = NULL;

    vendors_reset();
    vendors_unload();
    assert_ok(hmreg_open(NULL, &lib));
    return lib;
}

TEST(open__nothing_named__no_runtime_is_started)
{
    struct hmreg *lib = open_lib();

    assert_int_equal(opens(), 0);
    assert_ok(hmreg_close(lib));
    assert_int_equal(vendors[HMREG_IFACE_CUDA].closes, 0);
}

TEST(open__environment_names_one__started)
{
    struct hmreg *lib;

    vendors_reset();
    vendors[HMREG_IFACE_ROCR].unloaded = true;
    test_setenv("HMREG_IFACES", "rocr");
    assert_ok(hmreg_open(NULL, &lib));
    assert_int_equal(vendors[HMREG_IFACE_ROCR].opens, 1);
    assert_int_equal(opens(), 1);
    assert_ok(hmreg_close(lib));
}

TEST(query__library_that_was_loaded_since__its_memory_is_found)
{
    struct hmreg *lib = open_without_libraries();
    struct hmreg_mem_info info;

    assert_ok(query(lib, memory, 16, &info));
    vendor_is_loaded(HMREG_IFACE_ROCR);
    vendor_claim(HMREG_IFACE_ROCR, memory, 4096, HMREG_MEM_DEVICE, 1);
    assert_ok(query(lib, memory, 16, &info));
    assert_int_equal(info.iface, HMREG_IFACE_ROCR);
    assert_int_equal(info.device, 1);
    assert_int_equal(opens(), 1);
    assert_ok(query(lib, memory, 16, &info));
    assert_int_equal(opens(), 1);
    assert_ok(hmreg_close(lib));
}

/* Memory may be its, so none is taken for the system's meanwhile. */
TEST(query__loaded_library_that_cannot_start_now__fails_until_it_can)
{
    static const struct {
        int code, fails;
    } cases[] = {{-ENOMEM, -ENOMEM}, {-ENOENT, -EIO}};

    for (size_t i = 0; i < 2; i++) {
        struct hmreg *lib = open_lib();
        struct hmreg_mem_info info;

        vendors[HMREG_IFACE_CUDA].open_code = cases[i].code;
        for (int times = 0; times < 2; times++)
            assert_fails(query(lib, memory, 16, &info), cases[i].fails,
                         "cuda is in this process and may own the memory, but cannot be queried: "
                         "open of cuda failed");
        vendors[HMREG_IFACE_CUDA].open_code = 0;
        vendor_claim(HMREG_IFACE_CUDA, memory, 4096, HMREG_MEM_DEVICE, 1);
        assert_ok(query(lib, memory, 16, &info));
        assert_int_equal(info.iface, HMREG_IFACE_CUDA);
        assert_ok(hmreg_close(lib));
    }
}

TEST(runtime__named_by_a_call__loaded_and_started)
{
    struct hmreg_runtime_info runtime = {.size = sizeof(runtime)};
    struct hmreg_device_info device = {.size = sizeof(device)};
    struct hmreg *lib = open_without_libraries();
    void *made;

    assert_ok(hmreg_runtime_query(lib, HMREG_IFACE_CUDA, &runtime));
    assert_int_equal(runtime.devices, 2);
    assert_ok(hmreg_device_query(lib, HMREG_IFACE_ROCR, 1, &device));
    assert_ok(hmreg_mem_alloc(lib, HMREG_IFACE_ZE, 0, HMREG_MEM_DEVICE, 4096, &made));
    for (int i = HMREG_IFACE_CUDA; i < HMREG_IFACE_COUNT; i++)
        assert_int_equal(vendors[i].opens, 1);
    assert_ok(hmreg_mem_free(lib, made));
    assert_ok(hmreg_close(lib));
}

static void *query_on_a_thread(void *lib)
{
    struct hmreg_mem_info info;

    return query(lib, memory, 16, &info) || info.iface != HMREG_IFACE_ZE ? "failed" : NULL;
}

TEST(query__on_threads_at_once__one_start)
{
    struct hmreg *lib = open_lib();
    pthread_t threads[8];

    vendors[HMREG_IFACE_ZE].on_open = count_inside;
    vendor_claim(HMREG_IFACE_ZE, memory, 4096, HMREG_MEM_DEVICE, 1);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, query_on_a_thread, lib), 0);
    for (size_t i = 0; i < 8; i++) {
        void *failed;

        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(vendors[HMREG_IFACE_ZE].opens, 1);
    assert_ok(hmreg_close(lib));
}

/* The parent has a library and asks about memory; no runtime is in the process. */
static int fork_before_the_need(void)
{
    struct hmreg *lib = open_without_libraries();
    struct hmreg_mem_info info;

    if (query(lib, memory, 16, &info))
        return 10;
    test_in_child((child_sees_of(HMREG_IFACE_CUDA, NULL), 0));
    vendor_is_loaded(HMREG_IFACE_CUDA);
    if (query(lib, memory, 16, &info))
        return 12;
    test_in_child(
        (child_sees_of(HMREG_IFACE_CUDA, "a parent of this process used cuda before fork()"), 0));
    return 0;
}

TEST_FIRST(fork__before_the_first_need__harmless)
{
    test_in_child(fork_before_the_need());
}

/* These fork before any test here opens a runtime, so they come first. */
TEST_MAIN()
