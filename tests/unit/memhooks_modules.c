/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What other files of the process mean for hooks: another libc, runtimes that change mappings past
 * libc, loaded before the first get or later. What is loaded stays, so each case has a process of
 * its own. unit_memhooks_audited runs this program below an LD_AUDIT library, whose libc is hooked.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/plugin.h"
#include "tests/support/queries.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

/* ---- another libc ----------------------------------------------------------------------- */

typedef int (*munmap_function)(void *addr, size_t len);

/* Finds the munmap of another libc in the list of mappings: at the same place in the same file. */
static munmap_function others_munmap(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    uintptr_t own = 0, other = 0, start, offset;
    char line[512];
    Dl_info info;

    assert_int_not_equal(dladdr((void *)(uintptr_t)munmap, &info), 0);
    own = (uintptr_t)info.dli_fbase;
    while (fgets(line, sizeof(line), maps))
        if (sscanf(line, "%lx-%*x %*s %lx", &start, &offset) == 2 && !offset &&
            strstr(line, "/libc.so.6") && start != own)
            other = start;
    fclose(maps);
    return other ? (munmap_function)((uintptr_t)munmap - own + other) : NULL;
}

static void check_lost(munmap_function how)
{
    char *memory = fixture_map(1);
    uint64_t key = fixture_key(memory, 10);

    assert_int_equal(how(memory, fixture_page()), 0);
    assert_non_null(fixture_map_at(memory, 1));
    assert_int_not_equal(fixture_key(memory, 10), key);
    munmap(memory, fixture_page());
}

TEST(audited__changes_by_the_auditors_libc__noticed)
{
    munmap_function other = others_munmap();
    char *memory;
    uint64_t key;

    if (!getenv("LD_AUDIT"))
        test_skip("unit_memhooks_audited runs this case below an auditor");
    assert_non_null(other);
    fixture_open_hooked();
    memory = fixture_map(1);
    key = fixture_key(memory, 10);
    assert_int_equal(fixture_key(memory, 10), key);
    check_lost(other);
    check_lost(munmap);
    assert_int_equal(fixture_key(memory, 10), key);
    munmap(memory, fixture_page());
    fixture_close();
    memory = fixture_map(1);
    assert_int_equal(other(memory, fixture_page()), 0);
}

/* ---- each in a process of its own ------------------------------------------------------- */

static void in_a_process(void (*part)(void))
{
    test_in_child_or_skip((part(), 0), "libc cannot be hooked here");
}

/* Opens with the default monitor, which is memhooks; *key: of memory that stays cached. */
static char *open_default(uint64_t *key)
{
    char *memory = fixture_map(1);

    setenv("HMREG_LOG", "off", 1);
    fixture_open(HMREG_MONITOR_DEFAULT, NULL);
    *key = fixture_key(memory, 10);
    if (test_monitor_info(fixture.lib).active != HMREG_MONITOR_MEMHOOKS)
        _exit(77);
    assert_true(fixture_key(memory, 10) == *key);
    return memory;
}

/* The next get notices it, and says why; nothing is stale. */
static void check_replaced(char *memory, uint64_t key, const char *why)
{
    struct hmreg_monitor_info info;

    assert_true(fixture_key(memory, 10) != key);
    info = test_monitor_info(fixture.lib);
    assert_true(info.active == HMREG_MONITOR_USERFAULTFD || info.active == HMREG_MONITOR_DISABLED);
    assert_true(strstr(info.why, "memhooks: ") == info.why && strstr(info.why, why));
    key = fixture_key(memory, 10);
    assert_true((fixture_key(memory, 10) == key) == (info.active == HMREG_MONITOR_USERFAULTFD));
    munmap(memory, fixture_page());
    assert_true(fixture_map_at(memory, 1) == memory);
    assert_true(fixture_key(memory, 10) != key);
}

static void check_refused(const char *why)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct hmreg *lib;

    assert_true(hmreg_open(&config, &lib) == -EOPNOTSUPP && strstr(hmreg_last_error()->text, why));
}

/* By name, after the file is gone. */
static void check_refused_not(void)
{
    fixture_open(HMREG_MONITOR_MEMHOOKS, NULL);
    fixture_close();
}

static void another_libc(void)
{
    munmap_function other;
    uint64_t key;
    char *memory = open_default(&key);

    assert_true(dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW));
    other = others_munmap();
    assert_true(other && other(memory, fixture_page()) == 0);
    assert_true(fixture_map_at(memory, 1) == memory);
    check_replaced(memory, key, "dlmopen");
    fixture_close();
    check_refused("dlmopen");
}

static void a_bypass(const char *file, const char *why)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct hmreg *lib;
    uint64_t key;
    char *memory = open_default(&key);

    assert_true(hmreg_open(&config, &lib) == 0);
    assert_true(dlopen(file, RTLD_NOW | RTLD_LOCAL));
    check_replaced(memory, key, why);
    fixture_close();
    fixture_open(HMREG_MONITOR_DEFAULT, NULL);
    key = fixture_key(memory, 10);
    assert_true(test_monitor_info(fixture.lib).active != HMREG_MONITOR_MEMHOOKS);
    fixture_close();
    assert_true(hmreg_close(lib) == 0);
    fixture_open(HMREG_MONITOR_MEMHOOKS, NULL); /* works where it is asked for */
    key = fixture_key(memory, 10);
    assert_true(fixture_key(memory, 10) == key);
    assert_true(munmap(memory, fixture_page()) == 0);
    assert_true(fixture_stats().invalidations == 1);
    fixture_close();
}

static void a_sanitizer(void)
{
    a_bypass(TEST_SANITIZER, "ThreadSanitizer");
}

static void scudo(void)
{
    a_bypass(TEST_SCUDO, "allocator");
}

static void go(void)
{
    a_bypass(TEST_GO, "Go");
}

static void go_without_a_note(void)
{
    a_bypass(TEST_CGO, "Go");
}

/* ---- a file that enters the kernel itself ------------------------------------------------ */

static munmap_function munmap_of(void *file)
{
    munmap_function function = (munmap_function)(uintptr_t)dlsym(file, "munmap");

    assert_true(function);
    return function;
}

static void own_calls_of(const char *name, const char *why)
{
    uint64_t key;
    char *memory = open_default(&key), *others = fixture_map(1);
    void *file = dlopen(name, RTLD_NOW | RTLD_LOCAL);

    assert_true(file);
    assert_true(munmap_of(file)(memory, fixture_page()) == 0);
    assert_true(fixture_map_at(memory, 1) == memory);
    check_replaced(memory, key, why);
    assert_true(dlclose(file) == 0);
    assert_true(!dlopen(name, RTLD_NOW | RTLD_NOLOAD));
    fixture_key(others, 10);
    fixture_close();
}

static void own_calls_after_hits(void)
{
    own_calls_of(TEST_OWN_CALLS, "may be unloaded");
}

static void own_calls_without_a_type(void)
{
    own_calls_of(TEST_OWN_CALLS_NOTYPE, "may be unloaded");
}

static void own_calls_by_a_resolver(void)
{
    own_calls_of(TEST_OWN_CALLS_IFUNC, "IFUNC");
}

static void own_calls_before(void)
{
    void *file = dlopen(TEST_OWN_CALLS, RTLD_NOW | RTLD_LOCAL);
    char *memory = fixture_map(1), *others = fixture_map(1);
    uint64_t key;

    assert_true(file);
    setenv("HMREG_LOG", "off", 1);
    fixture_open(HMREG_MONITOR_DEFAULT, NULL);
    key = fixture_key(memory, 10);
    assert_true(test_monitor_info(fixture.lib).active != HMREG_MONITOR_MEMHOOKS);
    assert_true(munmap_of(file)(memory, fixture_page()) == 0);
    assert_true(fixture_map_at(memory, 1) == memory);
    assert_true(fixture_key(memory, 10) != key);
    assert_true(dlclose(file) == 0);
    fixture_key(others, 10);
    fixture_close();
    check_refused_not();
}

/* It is linked with -z nodelete. */
static void own_calls_that_stay(void)
{
    uint64_t key;
    char *memory = open_default(&key);
    void *file = dlopen(TEST_OWN_CALLS_KEPT, RTLD_NOW | RTLD_LOCAL);

    assert_true(file);
    key = fixture_key(memory, 10); /* all counts as changed where something is hooked anew */
    assert_true(fixture_key(memory, 10) == key);
    assert_true(munmap_of(file)(memory, fixture_page()) == 0);
    assert_true(fixture_map_at(memory, 1) == memory);
    assert_true(fixture_key(memory, 10) != key);
    assert_true(test_monitor_info(fixture.lib).active == HMREG_MONITOR_MEMHOOKS);
    assert_true(dlclose(file) == 0);
    munmap(memory, fixture_page());
    memory = fixture_map(1);
    fixture_key(memory, 10);
    fixture_close();
}

TEST(load__a_file_with_own_calls_that_may_be_unloaded__another_monitor_or_none)
{
    in_a_process(own_calls_after_hits);
    in_a_process(own_calls_without_a_type);
    in_a_process(own_calls_by_a_resolver);
    in_a_process(own_calls_before);
}

TEST(load__a_file_with_own_calls_that_stays__hooked)
{
    in_a_process(own_calls_that_stay);
}

static void any_other(void)
{
    uint64_t key;
    char *memory = open_default(&key);
    void *file = dlopen(TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);

    assert_true(file);
    assert_true(fixture_key(memory, 10) == key);
    dlclose(file);
    assert_true(fixture_key(memory, 10) == key);
    assert_true(test_monitor_info(fixture.lib).active == HMREG_MONITOR_MEMHOOKS);
    fixture_close();
}

/* hmreg itself, with a libc of its own: it hooks the program's, too. */
static void hmreg_in_a_namespace(void)
{
    char *memory = fixture_map(1), *others = fixture_map(1);
    void *file = dlmopen(LM_ID_NEWLM, TEST_PLUGIN, RTLD_NOW);
    const struct plugin *plugin = file ? dlsym(file, "plugin") : NULL;
    munmap_function other = others_munmap();
    bool cached = false;

    assert_true(plugin && other);
    assert_true(plugin->open(HMREG_MONITOR_MEMHOOKS) == 0);
    assert_true(plugin->get(memory, 10, &cached) && cached);
    assert_true(plugin->get(others, 10, &cached) && cached);
    assert_true(munmap(memory, fixture_page()) == 0);
    assert_true(plugin->invalidations() == 1);
    assert_true(other(others, fixture_page()) == 0);
    assert_true(plugin->invalidations() == 2);
    assert_true(plugin->close() == 0);
    assert_true(munmap(fixture_map(1), fixture_page()) == 0);
}

TEST(open__in_a_namespace_of_its_own__changes_by_both_libcs_noticed)
{
    fixture_open_hooked(); /* skips where libc cannot be hooked */
    fixture_close();
    in_a_process(hmreg_in_a_namespace);
}

TEST(load__another_libc__another_monitor_or_none)
{
    if (FIXTURE_SANITIZED)
        test_skip("sanitizers do not support dlmopen");
    in_a_process(another_libc);
}

TEST(load__a_sanitizer__memhooks_only_by_name)
{
    in_a_process(a_sanitizer);
}

TEST(load__an_allocator_of_the_sanitizers__memhooks_only_by_name)
{
    in_a_process(scudo);
}

TEST(load__a_go_runtime__memhooks_only_by_name)
{
    in_a_process(go);
    in_a_process(go_without_a_note);
}

TEST(load__any_other_library__hits_go_on)
{
    in_a_process(any_other);
}

TEST_MAIN()
