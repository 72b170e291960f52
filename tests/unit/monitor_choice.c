/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The default monitor, which is chosen when host memory is first to be cached, and not before. This
 * program's libc can be hooked; memhooks_refused.c has one that cannot.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/code_filters.h"
#include "tests/support/inside.h"
#include "tests/support/queries.h"
#include "tests/support/vendors.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { CODE = 32 };

static struct {
    int count;
    char text[512];
} logged;

static void take(enum hmreg_log_level level, const char *text, void *context)
{
    if (level > HMREG_LOG_INFO)
        return;
    logged.count++;
    snprintf(logged.text, sizeof(logged.text), "%s", text);
}

static void open_default(void)
{
    struct hmreg_config config = {.size = sizeof(config), .log = take};

    vendors_reset();
    logged.count = 0;
    fixture_close_after();
    assert_ok(hmreg_open(&config, &fixture.lib));
    fixture.domain = counter_open(fixture.lib, NULL);
}

/* Is nothing said but that the kernel module is not loaded? */
static bool is_best(const struct hmreg_monitor_info *info)
{
    return !info->why[0] || (info->active == HMREG_MONITOR_MEMHOOKS &&
                             strncmp(info->why, "counter: there is no ", 21) == 0);
}

static enum hmreg_monitor active(void)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};

    assert_ok(hmreg_monitor_query(fixture.lib, &info));
    assert_int_equal(info.asked, HMREG_MONITOR_DEFAULT);
    assert_true(is_best(&info));
    assert_int_equal(inside_shown_monitor(fixture.lib), info.active);
    return info.active;
}

static void need_memhooks(void)
{
    if (FIXTURE_SANITIZED)
        test_skip("beside a sanitizer the default is another monitor");
}

TEST(open__counter_without_its_module__noent)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_COUNTER};
    struct hmreg *lib = NULL;

    if (access("/dev/hmreg", F_OK) == 0)
        test_skip("the kernel module hmreg_counter is loaded here");
    assert_int_equal(hmreg_open(&config, &lib), -ENOENT);
    assert_non_null(strstr(hmreg_last_error()->text, "hmreg_counter is not loaded"));
    assert_null(lib);
}

/* The environment names a monitor that cannot serve. */
static void open_without_monitor(const char *name, const char *warning)
{
    test_setenv("FI_MR_CACHE_MONITOR", name);
    open_default();
    assert_int_equal(logged.count, 1);
    assert_non_null(strstr(logged.text, warning));
    assert_int_equal(active(), HMREG_MONITOR_DEFAULT);
}

TEST(open__kdreg2_in_the_environment__one_warning_and_the_default)
{
    open_without_monitor(
        "kdreg2", "FI_MR_CACHE_MONITOR=kdreg2: hmreg has no such monitor; hmreg uses its default");
}

TEST(open__counter_in_the_environment__one_warning_and_the_default)
{
    if (access("/dev/hmreg", F_OK) == 0)
        test_skip("the kernel module hmreg_counter is loaded here");
    open_without_monitor("counter", "FI_MR_CACHE_MONITOR=counter: there is no /dev/hmreg");
}

TEST(open__default__nothing_is_hooked_before_a_get)
{
    uint8_t before[CODE], after[CODE];
    char *memory = fixture_map(1);

    need_memhooks();
    memcpy(before, (const void *)(uintptr_t)munmap, CODE);
    open_default();
    memcpy(after, (const void *)(uintptr_t)munmap, CODE);
    assert_memory_equal(before, after, CODE);
    assert_int_equal(active(), HMREG_MONITOR_DEFAULT);
    assert_int_equal(fixture_threads_named("hmreg-monitor", NULL, 0), 0);
    assert_int_equal(logged.count, 0);
    assert_int_equal(fixture_key(memory, 10), 1);
    if (active() != HMREG_MONITOR_MEMHOOKS) {
        fixture_close();
        test_skip("this program's libc cannot be hooked");
    }
    assert_int_equal(logged.count, 1);
    assert_non_null(strstr(logged.text, "memhooks"));
    assert_int_equal(fixture_key(memory, 10), 1);
    assert_int_equal(logged.count, 1);
    munmap(memory, fixture_page());
    fixture_close();
    memcpy(after, (const void *)(uintptr_t)munmap, CODE);
    assert_memory_equal(before, after, CODE);
}

/* Domains opened before the choice notice changes like those opened after it. */
TEST(get__first_of_host_memory__every_domain_is_notified_from_then_on)
{
    struct fixture fixtures[3];
    char *memory = fixture_map(1);

    open_default();
    fixtures[0] = fixture;
    fixtures[1] = (struct fixture){fixture.lib, counter_open_more(fixture.lib, NULL)};
    for (int i = 0; i < 2; i++)
        assert_int_equal(fixture_key_in(&fixtures[i], memory, 10), i + 1);
    fixtures[2] = (struct fixture){fixture.lib, counter_open_more(fixture.lib, NULL)};
    assert_int_equal(fixture_key_in(&fixtures[2], memory, 10), 3);
    munmap(memory, fixture_page());
    assert_non_null(fixture_map_at(memory, 1));
    for (int i = 0; i < 3; i++)
        assert_int_equal(fixture_key_in(&fixtures[i], memory, 10), i + 4);
    munmap(memory, fixture_page());
    assert_ok(hmreg_domain_close(fixtures[1].domain));
    assert_ok(hmreg_domain_close(fixtures[2].domain));
}

/* Neither call concerns host memory. */
TEST(get__of_device_memory_or_without_a_cache__chooses_nothing)
{
    struct hmreg_domain_config none = {.size = sizeof(none), .flags = HMREG_DOMAIN_NO_CACHE};
    char *memory = fixture_map(1), *device = fixture_map(1);
    struct fixture uncached;

    open_default();
    vendor_claim(HMREG_IFACE_CUDA, device, fixture_page(), HMREG_MEM_DEVICE, 0);
    uncached = (struct fixture){fixture.lib, counter_open_more(fixture.lib, &none)};
    fixture_key(device, 10);
    fixture_key(device, 10);
    fixture_key_in(&uncached, memory, 10);
    assert_int_equal(active(), HMREG_MONITOR_DEFAULT);
    munmap(device, fixture_page());
    munmap(memory, fixture_page());
    assert_ok(hmreg_domain_close(uncached.domain));
}

/* ---- several libraries ------------------------------------------------------------------ */

enum { THREADS = 4 };

struct getter {
    pthread_t thread;
    struct fixture fixture;
    char *memory;
    uint64_t keys[2];
};

static pthread_barrier_t line;

static void *get_and_renew(void *arg)
{
    struct getter *getter = arg;

    pthread_barrier_wait(&line);
    getter->keys[0] = fixture_key_in(&getter->fixture, getter->memory, 10);
    munmap(getter->memory, fixture_page());
    if (!fixture_map_at(getter->memory, 1))
        abort();
    getter->keys[1] = fixture_key_in(&getter->fixture, getter->memory, 10);
    return NULL;
}

TEST(get__first_on_several_threads_at_once__one_chooses_for_all)
{
    struct getter getters[THREADS];

    pthread_barrier_init(&line, NULL, THREADS);
    for (int round = 0; round < 30; round++) {
        open_default();
        for (int i = 0; i < THREADS; i++)
            getters[i] = (struct getter){.fixture = fixture, .memory = fixture_map(1)};
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&getters[i].thread, NULL, get_and_renew, &getters[i]),
                             0);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(getters[i].thread, NULL);
            assert_int_not_equal(getters[i].keys[0], getters[i].keys[1]);
            munmap(getters[i].memory, fixture_page());
        }
        assert_int_equal(logged.count, 1);
        fixture_close();
    }
    pthread_barrier_destroy(&line);
}

/* ---- sandboxes -------------------------------------------------------------------------- */

/* A profile that kills a process that calls userfaultfd. */
static int where_the_call_kills(char *memory)
{
    if (!code_filter_userfaultfd(SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_PROCESS))
        return 77;
    open_default();
    if (fixture_key(memory, 10) != 1 || fixture_key(memory, 10) != 1)
        return 1;
    if (active() != HMREG_MONITOR_MEMHOOKS)
        return 2;
    fixture_close();
    return 0;
}

TEST(get__filter_kills_on_userfaultfd__survives_and_is_cached)
{
    char *memory = fixture_map(1);

    need_memhooks();
    test_in_child_or_skip(where_the_call_kills(memory), "this system has no seccomp filters");
    munmap(memory, fixture_page());
}

/* ---- where the kernel cannot be asked what memory is ------------------------------------- */

static int without_proc(char *memory)
{
    char place[] = "/tmp/hmreg-empty-XXXXXX";
    struct hmreg_monitor_info info;

    if (!mkdtemp(place) || chdir(place) || rmdir(place) || chroot("."))
        return 77;
    open_default();
    if (fixture_key(memory, 10) != 1 || fixture_key(memory, 10) != 2)
        return 2;
    info = test_monitor_info(fixture.lib);
    if (info.active != HMREG_MONITOR_DISABLED || !strstr(info.why, "list of mappings"))
        return 3;
    if (!strstr(logged.text, "none is cached: memhooks: ") || logged.count != 2)
        return 4;
    fixture_close();
    return 0;
}

static int without_descriptors(char *memory)
{
    struct rlimit before, few = {0};
    struct hmreg_monitor_info info;

    getrlimit(RLIMIT_NOFILE, &before);
    few.rlim_cur = 3;
    few.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_NOFILE, &few);
    open_default();
    if (fixture_key(memory, 10) != 1 || fixture_key(memory, 10) != 2)
        return 2;
    info = test_monitor_info(fixture.lib);
    if (!strstr(info.why, "list of mappings") || !strstr(logged.text, "for now: "))
        return 3;
    logged.count = 0;
    setrlimit(RLIMIT_NOFILE, &before);
    if (fixture_key(memory, 10) != 3 || fixture_key(memory, 10) != 3)
        return 4;
    info = test_monitor_info(fixture.lib);
    if (info.active != HMREG_MONITOR_MEMHOOKS || !is_best(&info) || logged.count)
        return 5;
    fixture_close();
    return 0;
}

static void run_alone(int (*part)(char *memory))
{
    char *memory = fixture_map(1);

    test_in_child_or_skip(part(memory), "this process may not do so");
    munmap(memory, fixture_page());
}

TEST(get__without_proc__none_is_cached_and_told)
{
    need_memhooks();
    run_alone(without_proc);
}

TEST(get__without_descriptors__none_is_cached_and_told_until_there_are)
{
    need_memhooks();
    run_alone(without_descriptors);
}

TEST(shortage__the_kernel_answers_again__over)
{
    char *memory = fixture_map(1);

    open_default();
    fixture_key(memory, 10);
    assert_false(inside_is_short(fixture.lib));
    inside_answered(fixture.lib, -ENOMEM);
    assert_true(inside_is_short(fixture.lib));
    inside_answered(fixture.lib, 0);
    assert_false(inside_is_short(fixture.lib));
    munmap(memory, fixture_page());
}

TEST_MAIN()
