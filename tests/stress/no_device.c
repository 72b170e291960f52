/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A machine with every vendor's loader and no device, like most laptops and CI machines: the real
 * Level Zero loader without a driver, AMD's real runtime without /dev/kfd, and a libcuda.so.1 (the
 * fake) that finds no device. hmreg opens and closes there repeatedly, on many threads and in
 * children; it reports why no runtime is present, and leaks nothing.
 */
#include "tests/support/test.h"

#include <dlfcn.h>
#include <hmreg/hmreg.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>

#define TIMES   100
#define THREADS 8
#define ROUNDS  8

static const struct {
    enum hmreg_iface iface;
    const char *library;
    const char *why; /* part of the reason, if the library is installed */
} runtimes[] = {
    {HMREG_IFACE_CUDA, "libcuda.so.1", "CUDA_ERROR_NO_DEVICE"},
    {HMREG_IFACE_ROCR, "libhsa-runtime64.so.1", "there is no /dev/kfd"},
    {HMREG_IFACE_ZE, "libze_loader.so.1", "finds no driver with a GPU"},
};
#define RUNTIMES (sizeof(runtimes) / sizeof(runtimes[0]))

/* Skips if there is a device, or a driver that may find one. */
static void need_no_device(void)
{
    void *driver = dlopen("libze_intel_gpu.so.1", RTLD_LAZY);

    if (driver)
        dlclose(driver);
    if (driver || !access("/dev/kfd", F_OK))
        test_skip("this machine has /dev/kfd or libze_intel_gpu.so.1");
}

/* The runtime is absent, for the expected reason or the other permitted one. */
static bool is_absent(struct hmreg *lib, size_t which, const char *other)
{
    struct hmreg_runtime_info info = {.size = sizeof(info)};

    if (hmreg_runtime_query(lib, runtimes[which].iface, &info) || info.present || info.devices)
        return false;
    if (strstr(info.why, runtimes[which].why) || (other && strstr(info.why, other)))
        return true;
    fprintf(stderr, "%s: \"%s\", without \"%s\"\n", runtimes[which].library, info.why,
            runtimes[which].why);
    return false;
}

/* Opens, queries every runtime and memory of the process, and closes. */
static bool open_and_close(const char *other)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    struct hmreg *lib;
    char byte = 0;
    bool well;

    if (hmreg_open(NULL, &lib)) {
        fprintf(stderr, "%s\n", hmreg_last_error()->text);
        return false;
    }
    well = !hmreg_query(lib, &byte, 1, &info) && info.iface == HMREG_IFACE_SYSTEM;
    for (size_t i = 0; i < RUNTIMES; i++)
        well = is_absent(lib, i, other) && well;
    return !hmreg_close(lib) && well;
}

static void *open_often(void *unused)
{
    for (int i = 0; i < TIMES; i++)
        if (!open_and_close(NULL))
            return "failed";
    return NULL;
}

static bool on_threads(void (*meanwhile)(bool *well))
{
    pthread_t threads[THREADS];
    bool well = true;

    for (int i = 0; i < THREADS; i++)
        well = !pthread_create(&threads[i], NULL, open_often, NULL) && well;
    if (meanwhile)
        meanwhile(&well);
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;

        well = !pthread_join(threads[i], &failed) && !failed && well;
    }
    return well;
}

/* Forks children while threads may be in any runtime's start. */
static void fork_often(bool *well)
{
    for (int i = 0; i < TIMES / 4; i++) {
        pid_t child = fork();

        if (child == 0)
            _exit(open_and_close(" parent") ? 0 : 1);
        *well = test_ended_well(child) && *well;
    }
}

/* In a child, before which nothing was started. */
TEST(fork__while_threads_start_every_runtime__children_live)
{
    pid_t child;

    test_forks_while_threads_allocate();
    need_no_device();
    for (int i = 0; i < ROUNDS; i++) {
        child = fork();
        if (child == 0)
            _exit(on_threads(fork_often) ? 0 : 1);
        assert_true(test_ended_well(child));
    }
}

TEST(open__a_hundred_times_in_a_child__says_why)
{
    pid_t child;

    need_no_device();
    child = fork();
    if (child == 0)
        _exit(open_often(NULL) ? 1 : 0);
    assert_true(test_ended_well(child));
}

/* Once the runtimes are loaded and malloc's caches are full, an open leaks no memory, vendors'
 * included: a chunk of malloc has 32 bytes at least. The harness counts descriptors. */
TEST(open__a_hundred_times__nothing_is_left)
{
    size_t before, after;

    need_no_device();
    assert_null(open_often(NULL));
    before = mallinfo2().uordblks;
    assert_null(open_often(NULL));
    after = mallinfo2().uordblks;
    if (after > before + 16 * TIMES)
        fail_msg("%zu bytes more after %d times", after - before, TIMES);
}

TEST(open__on_many_threads__says_why_each_time)
{
    need_no_device();
    assert_true(on_threads(NULL));
}

/* The first two fork before anything is started here. */
TEST_MAIN()
