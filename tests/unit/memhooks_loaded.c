/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hooks and libraries that are loaded and unloaded: a second copy of hmreg in the process, a copy
 * that is unloaded while other threads are in the hooked code, a library's own memory that
 * dlclose(3) unmaps past libc, and the end of the program with everything open.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

static void *load(const struct plugin **out)
{
    void *handle = dlopen(TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        fail_msg("%s", dlerror());
    *out = dlsym(handle, "plugin");
    assert_non_null(*out);
    return handle;
}

static void unload(void *handle)
{
    assert_int_equal(dlclose(handle), 0);
    assert_null(dlopen(TEST_PLUGIN, RTLD_NOW | RTLD_NOLOAD));
}

static void open_plugin(const struct plugin *plugin)
{
    int rc = plugin->open(HMREG_MONITOR_MEMHOOKS);

    if (rc == -EOPNOTSUPP)
        test_skip("libc cannot be hooked here");
    assert_int_equal(rc, 0);
}

enum { CODE = 32 }; /* less than the function has */

static void copy_code(uint8_t out[CODE])
{
    memcpy(out, (const void *)(uintptr_t)munmap, CODE);
}

static void map_again(char *memory)
{
    assert_ptr_equal(fixture_map_at(memory, 1), memory);
}

/* ---- two copies of hmreg ---------------------------------------------------------------- */

static void two_copies(bool first_closes_first)
{
    char *ours = fixture_map(1), *theirs = fixture_map(1);
    uint8_t before[CODE], after[CODE];
    const struct plugin *plugin;
    bool cached = false;
    void *handle;

    copy_code(before);
    fixture_open_hooked();
    handle = load(&plugin);
    open_plugin(plugin);
    assert_int_equal(fixture_key(ours, 10), 1);
    assert_true(plugin->get(theirs, 10, &cached));
    assert_true(cached);
    munmap(ours, fixture_page());
    munmap(theirs, fixture_page());
    assert_int_equal(fixture_stats().invalidations, 1);
    assert_int_equal(plugin->invalidations(), 1);
    if (first_closes_first) {
        fixture_close();
        theirs = fixture_map(1);
        assert_true(plugin->get(theirs, 10, &cached));
        munmap(theirs, fixture_page());
        assert_int_equal(plugin->invalidations(), 2);
        assert_int_equal(plugin->close(), 0);
    } else {
        assert_int_equal(plugin->close(), 0);
        ours = fixture_map(1);
        fixture_key(ours, 10);
        munmap(ours, fixture_page());
        assert_int_equal(fixture_stats().invalidations, 2);
        fixture_close();
    }
    unload(handle);
    ours = fixture_map(1);
    assert_int_equal(munmap(ours, fixture_page()), 0);
    copy_code(after);
    if (!first_closes_first)
        assert_memory_equal(before, after, sizeof(before));
}

TEST(two_copies__second_closes_first__each_is_notified_of_all)
{
    two_copies(false);
}

TEST(two_copies__first_closes_first__each_is_notified_of_all)
{
    two_copies(true);
}

/* The kernel lets only one userfaultfd watch a page. */
TEST(two_copies__same_memory__one_caches_it_and_both_are_right)
{
    char *memory = fixture_map(1);
    const struct plugin *plugin;
    bool cached = false;
    void *handle;

    fixture_open_hooked();
    handle = load(&plugin);
    open_plugin(plugin);
    assert_int_equal(fixture_key(memory, 10), 1);
    assert_true(plugin->get(memory, 10, &cached));
    assert_int_equal(cached, !fixture_has_kernel_events());
    munmap(memory, fixture_page());
    map_again(memory);
    assert_int_equal(fixture_key(memory, 10), 2);
    assert_int_equal(plugin->invalidations(), cached ? 1 : 0);
    munmap(memory, fixture_page());
    assert_int_equal(plugin->close(), 0);
    fixture_close();
    unload(handle);
}

static void check_ours(char *memory)
{
    uint64_t key = fixture_key(memory, 10);

    assert_int_equal(fixture_key(memory, 10), key);
    munmap(memory, fixture_page());
    map_again(memory);
    assert_int_not_equal(fixture_key(memory, 10), key);
}

static void check_theirs(const struct plugin *plugin, char *memory)
{
    uint64_t before = plugin->invalidations();
    bool cached = false;

    assert_true(plugin->get(memory, 10, &cached));
    assert_true(cached);
    munmap(memory, fixture_page());
    map_again(memory);
    assert_int_equal(plugin->invalidations(), before + 1);
}

/* Not by the fixture, which would skip the case. */
static void open_ours_again(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};

    assert_ok(hmreg_open(&config, &fixture.lib));
    fixture.domain = counter_open(fixture.lib, NULL);
}

static void turn_ours(bool *open)
{
    if (*open)
        fixture_close();
    else
        open_ours_again();
    *open = !*open;
}

static void turn_theirs(const struct plugin *plugin, bool *open)
{
    assert_int_equal(*open ? plugin->close() : plugin->open(HMREG_MONITOR_MEMHOOKS), 0);
    *open = !*open;
}

/* In each order: one copy opens or closes at a time, the same ones in each run. */
TEST(two_copies__open_and_close_in_turn__each_is_notified_1000_times)
{
    bool ours = false, theirs = false;
    const struct plugin *plugin;
    unsigned random = 1;
    char *memory;
    void *handle;

    fixture_open_hooked();
    fixture_close();
    handle = load(&plugin);
    memory = fixture_map(1);
    for (int i = 0; i < 4000 || ours || theirs; i++) {
        random = random * 1103515245 + 12345;
        if (random >> 16 & 1)
            turn_ours(&ours);
        else
            turn_theirs(plugin, &theirs);
        if (ours)
            check_ours(memory);
        if (theirs)
            check_theirs(plugin, memory);
    }
    munmap(memory, fixture_page());
    unload(handle);
}

/* ---- unloading -------------------------------------------------------------------------- */

static atomic_bool enough;
static atomic_uint rounds; /* of the threads */

static void *map_and_unmap(void *arg)
{
    size_t len = fixture_page();

    while (!atomic_load(&enough)) {
        char *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (memory == MAP_FAILED || memory[0] || madvise(memory, len, MADV_DONTNEED) ||
            munmap(memory, len))
            return NULL;
        atomic_fetch_add(&rounds, 1);
    }
    return arg;
}

TEST(dlclose__while_threads_are_in_the_code__all_continue)
{
    const struct plugin *plugin;
    pthread_t threads[2];
    void *handle, *result;
    bool cached;

    fixture_monitor();
    atomic_store(&enough, false);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, map_and_unmap, &enough), 0);
    for (int i = 0; i < 20; i++) {
        char *memory = fixture_map(1);
        unsigned before = atomic_load(&rounds);

        test_wait_until(atomic_load(&rounds) != before);
        handle = load(&plugin);
        open_plugin(plugin);
        assert_true(plugin->get(memory, 10, &cached));
        munmap(memory, fixture_page());
        assert_int_equal(plugin->invalidations(), 1);
        assert_int_equal(plugin->close(), 0);
        unload(handle);
    }
    atomic_store(&enough, true);
    for (size_t i = 0; i < 2; i++) {
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, &enough);
    }
}

/* The dynamic linker unmaps with a system call of its own. */
TEST(dlclose__of_a_library_whose_memory_is_cached__registered_anew)
{
    const struct plugin *plugin;
    void *handle;
    char *first;

    fixture_open_hooked();
    handle = load(&plugin);
    first = plugin->zeros;
    memset(first, 1, plugin->zeros_len);
    assert_int_equal(fixture_key(first, plugin->zeros_len), 1);
    assert_int_equal(fixture_stats().uncached, 0);
    unload(handle);
    assert_int_equal(fixture_stats().invalidations, 1);
    handle = load(&plugin);
    assert_int_equal(fixture_key(plugin->zeros, plugin->zeros_len), 2);
    unload(handle);
}

/* ---- another copy that opens or closes at the same moment --------------------------------- */

static void (*once_found)(void); /* what happens once, when the sites have been found */
static const struct plugin *other;

struct hook_sites;

int __real_hook_sites_find(struct hook_sites *out);
int __wrap_hook_sites_find(struct hook_sites *out);

int __wrap_hook_sites_find(struct hook_sites *out)
{
    int rc = __real_hook_sites_find(out);
    void (*then)(void) = once_found;

    once_found = NULL;
    if (then && !rc)
        then();
    return rc;
}

static void open_other(void)
{
    open_plugin(other);
}

static void close_other(void)
{
    assert_int_equal(other->close(), 0);
}

static void open_while(void (*then)(void))
{
    once_found = then;
    fixture_open_hooked();
    assert_null(once_found);
    fixture_close_after();
    check_ours(fixture_map(1));
}

TEST(open__while_another_copy_opens__each_is_notified)
{
    void *handle = load(&other);

    open_while(open_other);
    check_theirs(other, fixture_map(1));
    close_other();
    check_ours(fixture_map(1));
    unload(handle);
}

/* Our stub, over the branch of the other copy, would not be reached any more. */
TEST(open__while_another_copy_closes__is_notified)
{
    void *handle = load(&other);

    open_other();
    open_while(close_other);
    unload(handle);
}

/* ---- program exit ----------------------------------------------------------------------- */

static char *at_the_end;

static void unmap_at_exit(void)
{
    munmap(at_the_end, fixture_page());
    free(malloc(64 << 20));
}

static void *wait_for_ever(void *arg)
{
    map_and_unmap(NULL);
    return NULL;
}

TEST(exit__with_domains_open_and_threads_running__ends)
{
    pid_t child;

    if (FIXTURE_SANITIZED)
        test_skip("what is left open is a leak to a sanitizer");
    fixture_monitor();
    fflush(NULL);
    child = test_fork();
    if (child == 0) {
        struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
        pthread_t thread;

        atomic_store(&enough, false);
        if (hmreg_open(&config, &fixture.lib))
            _exit(77);
        fixture.domain = counter_open(fixture.lib, NULL);
        at_the_end = fixture_map(1);
        fixture_key(at_the_end, 10);
        pthread_create(&thread, NULL, wait_for_ever, NULL);
        atexit(unmap_at_exit);
        exit(0);
    }
    test_await_or_skip(child, "libc cannot be hooked here");
}

TEST_MAIN()
