/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Gets while the dynamic linker loads and unloads files, of which some change mappings past libc.
 * The linker is stopped at each of its system calls (linker_stops.h), and another thread makes a
 * get there: at each stop of a load, or, in a child for each, at one stop only.
 *
 * The test's fabric numbers registrations. Before a page changes, `floor` of the page takes the
 * last number: whatever the page's get returns later has a greater one.
 *
 * unit_memhooks_linker_audited runs this program below an LD_AUDIT library.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"
#include "tests/support/linker_stops.h"
#include "tests/support/loads.h"
#include "tests/support/queries.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGES  2048
#define REASON "the dynamic linker is loading or unloading files right now"

/* In a child that may be stopped at any place an assertion cannot jump out. */
#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            give_up(__LINE__, #condition);                                                         \
    } while (0)

/* ---- one process ------------------------------------------------------------------------ */

enum deed { HIT, MISS, FIRST, CLOSE };
static const char *const deed_names[] = {"hit", "miss", "first get", "close"};

enum after { STAYS, GIVES_WAY, EITHER }; /* memhooks, after the load and a get */

struct load {
    const char *name;
    void (*prepare)(void); /* NULL: nothing */
    void (*load)(void);
    enum after after;
    bool calls;        /* the library's code gets memory; and, GIVES_WAY or EITHER, changes it */
    bool maps_nothing; /* no code is mapped: gets stay cached */
};

static struct {
    const struct load *load;
    enum deed deed;
    struct linker_stops *stops;
    char *memory; /* PAGES */
    atomic_uint used;
    atomic_uint floors[PAGES];
    uint64_t loads_seen;  /* by the last look */
    pthread_mutex_t life; /* held while the library is closed and opened, or the linker's calls of a
                             file's code get memory */
    atomic_uint told;     /* lines of the log that name the linker */
    void *file;           /* loaded by the load, or by its preparation */
    const struct loads *loads;
} run = {.life = PTHREAD_MUTEX_INITIALIZER};

static const char *load_name(void)
{
    return run.load ? run.load->name : "";
}

static void give_up(int line, const char *condition)
{
    fprintf(stderr, "%s, %s, at stop %ld (only %ld): line %d: %s: %s\n", load_name(),
            deed_names[run.deed], run.stops ? run.stops->count : 0, run.stops ? run.stops->only : 0,
            line, condition, hmreg_last_error()->text);
    _exit(1);
}

static void on_log(enum hmreg_log_level level, const char *text, void *unused)
{
    if (strstr(text, "the dynamic linker is"))
        atomic_fetch_add(&run.told, 1);
}

/* glibc starts no thread while another thread loads a file. So another library has the process's
 * reaper started before, and keeps it. */
static struct fixture keeper;

static void start_reaper(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};

    must(hmreg_open(&config, &keeper.lib) == 0);
    keeper.domain = counter_open(keeper.lib, NULL);
    fixture_key_in(&keeper, run.memory, 1);
}

static void open_library(void)
{
    struct hmreg_config config = {.size = sizeof(config), .log = on_log};

    must(hmreg_open(&config, &fixture.lib) == 0);
    fixture.domain = counter_open_more(fixture.lib, NULL);
    must(fixture.domain);
}

static void close_library(void)
{
    must(hmreg_domain_close(fixture.domain) == 0);
    must(hmreg_close(fixture.lib) == 0);
}

static enum hmreg_monitor active(void)
{
    return test_monitor_info(fixture.lib).active;
}

/* Are hooks, or no monitor yet, what the library has? */
static bool has_hooks(void)
{
    return active() == HMREG_MONITOR_MEMHOOKS || active() == HMREG_MONITOR_DEFAULT;
}

static void check_uncached(const struct hmreg_mr *mr)
{
    must(!test_info_of(mr).cached);
    if (!run.load || !run.load->calls) { /* else a get of the loading thread may end the reason */
        must(strstr(test_why_of(mr).uncached_why, REASON) &&
             strstr(test_monitor_info(fixture.lib).why, REASON));
    }
    if (run.stops)
        atomic_fetch_add(&run.stops->uncached, 1);
}

static char *page_at(unsigned page)
{
    return run.memory + page * fixture_page();
}

/* Must this thread's get now be uncached: nothing is cached while the linker is busy and has mapped
 * code since the library's last look. Before it maps code, hits go on. */
static bool must_be_uncached(void)
{
    if (!run.stops || atomic_load(&run.stops->thread) != gettid() || !linker_is_busy())
        return false;
    return active() == HMREG_MONITOR_DEFAULT ||
           (active() == HMREG_MONITOR_MEMHOOKS && inside_hook_loads() != run.loads_seen);
}

static uint64_t get(unsigned page)
{
    unsigned floor = atomic_load(&run.floors[page]);
    unsigned held = run.stops ? atomic_load(&run.stops->held) : 0;
    uint64_t loads = inside_hook_loads(), key;
    bool uncached = must_be_uncached();
    struct hmreg_mr *mr;

    must(hmreg_mr_get(fixture.domain, page_at(page), 10, HMREG_ACCESS_REMOTE, &mr) == 0);
    key = hmreg_mr_key(mr);
    must(key > floor);
    /* The linker may have gone on, if this or an earlier get of the deed had to wait. */
    if (uncached && held % 2 && atomic_load(&run.stops->held) == held && has_hooks())
        check_uncached(mr);
    if (!uncached && test_info_of(mr).cached)
        run.loads_seen = loads;
    hmreg_mr_put(mr);
    return key;
}

static unsigned new_page(void)
{
    unsigned page = atomic_fetch_add(&run.used, 1);

    must(page < PAGES);
    return page;
}

/* Past libc. */
static void change(const struct loads *loads, unsigned page)
{
    unsigned floor = atomic_load(&counter.regs);

    must(loads->change(page_at(page), fixture_page()));
    atomic_store(&run.floors[page], floor); /* now: until then, gets may be of what was there */
}

static void change_used(const struct loads *loads)
{
    unsigned count = atomic_load(&run.used);

    for (unsigned page = 0; page < count; page++)
        change(loads, page);
}

static void get_used(void)
{
    for (unsigned page = 0; page < atomic_load(&run.used); page++)
        get(page);
}

static void prepare_process(void)
{
    run.memory = test_map(PAGES * fixture_page());
    run.used = 1;
    memset(run.floors, 0, sizeof(run.floors));
    start_reaper();
    open_library();
}

/* Page 0 is cached, and the monitor is memhooks. Exits with 77 where there are none. */
static void get_cached(void)
{
    uint64_t key = get(0);

    if (active() != HMREG_MONITOR_MEMHOOKS)
        _exit(77);
    key = get(0); /* the first one was registered before the library had looked */
    must(get(0) == key);
}

/* ---- loads ------------------------------------------------------------------------------ */

static void load_file(const char *file, int mode)
{
    run.file = dlopen(file, RTLD_NOW | mode);
    must(run.file);
    run.loads = dlsym(run.file, "loads");
    must(run.loads);
}

static void load_into_another(const char *file)
{
    run.file = dlmopen(LM_ID_NEWLM, file, RTLD_NOW);
    must(run.file);
    run.loads = dlsym(run.file, "loads");
    must(run.loads);
}

static void unload(void)
{
    must(dlclose(run.file) == 0);
    run.file = NULL;
    run.loads = NULL;
}

#define LOAD(name, call)                                                                           \
    static void name(void)                                                                         \
    {                                                                                              \
        call;                                                                                      \
    }

LOAD(load_harmless, load_file(TEST_LOADS_HARMLESS, RTLD_LOCAL))
LOAD(load_marked, load_file(TEST_LOADS_MARKED, RTLD_LOCAL))
LOAD(load_joined, load_file(TEST_LOADS_JOINED, RTLD_LOCAL))
LOAD(load_harmless_deep, load_file(TEST_LOADS_HARMLESS, RTLD_LOCAL | RTLD_DEEPBIND))
LOAD(load_marked_deep, load_file(TEST_LOADS_MARKED, RTLD_LOCAL | RTLD_DEEPBIND))
LOAD(load_harmless_into_another, load_into_another(TEST_LOADS_HARMLESS))
LOAD(load_libc_into_another, load_into_another(TEST_LOADS_WITH_LIBC))
LOAD(load_marked_into_another, load_into_another(TEST_LOADS_MARKED))

static void load_lacking(void)
{
    must(!dlopen(TEST_LOADS_LACKING, RTLD_NOW));
}

/* The linker maps it before it finds that it is no library. */
static void load_program(void)
{
    must(!dlopen("/bin/true", RTLD_NOW));
}

static void load_lacking_into_another(void)
{
    must(!dlmopen(LM_ID_NEWLM, TEST_LOADS_LACKING, RTLD_NOW));
}

static void load_and_unload_harmless(void)
{
    load_harmless();
    unload();
}

static void load_change_unload(void)
{
    load_marked();
    change_used(run.loads);
    unload();
}

static void load_change_unload_another(void)
{
    load_libc_into_another();
    change_used(run.loads);
    unload();
}

enum { MARKED = 1, WITH_LIBC = 7, GETS = 15 };

static const struct load every_load[] = {
    {"dlopen", NULL, load_harmless, STAYS, false, false},
    [MARKED] = {"dlopen, marked", NULL, load_marked, GIVES_WAY, false, false},
    {"dlopen, marked, code in the first mapping", NULL, load_joined, GIVES_WAY, false, false},
    {"RTLD_DEEPBIND", NULL, load_harmless_deep, STAYS, false, false},
    {"RTLD_DEEPBIND, marked", NULL, load_marked_deep, GIVES_WAY, false, false},
    {"dlmopen, without a libc", NULL, load_harmless_into_another, STAYS, false, false},
    {"dlmopen, marked, without a libc", NULL, load_marked_into_another, GIVES_WAY, false, false},
    [WITH_LIBC] = {"dlmopen, with a libc", NULL, load_libc_into_another, GIVES_WAY, false, false},
    {"dlopen that fails", NULL, load_lacking, STAYS, false, false},
    {"dlopen of a program", NULL, load_program, STAYS, false, false},
    {"dlmopen that fails", NULL, load_lacking_into_another, STAYS, false, false},
    {"dlclose", load_harmless, unload, STAYS, false, true},
    {"dlclose of a namespace", load_harmless_into_another, unload, STAYS, false, true},
    {"dlopen, change, dlclose", NULL, load_change_unload, EITHER, false, false},
    {"dlmopen, change, dlclose", NULL, load_change_unload_another, EITHER, false, false},
    [GETS] = {"dlopen and dlclose that get", NULL, load_and_unload_harmless, STAYS, true, false},
    {"dlopen that changes and gets", NULL, load_marked, GIVES_WAY, true, false},
    {"dlopen and dlclose that change and get", NULL, load_change_unload, EITHER, true, false},
};

/* Runs in the library's resolver, constructor and destructor. The other thread's get, if one is
 * under way, may be of the page that would change: that would be the program's mistake. */
void loads_call(const struct loads *loads, enum loads_from from)
{
    if (!run.load || !run.load->calls || !atomic_load(&run.stops->loading))
        return;
    if (run.load->after != STAYS &&
        atomic_load(&run.stops->ended) == atomic_load(&run.stops->asked))
        change(loads, 0);
    /* userfaultfd's thread is started with a lock held; glibc starts none while it relocates. */
    if (run.load->after != STAYS && from == LOADS_RESOLVER)
        return;
    if (pthread_mutex_trylock(&run.life)) /* the other thread closes the library */
        return;
    get(0);
    pthread_mutex_unlock(&run.life);
}

/* ---- one load --------------------------------------------------------------------------- */

static void open_by_name(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct hmreg *lib;
    bool hooks = has_hooks();
    int rc = hmreg_open(&config, &lib);

    must(rc == 0 || (rc == -EOPNOTSUPP && run.load->after != STAYS) ||
         (rc == -EOPNOTSUPP && !hooks));
    if (!rc)
        must(hmreg_close(lib) == 0);
}

static void do_deed(void)
{
    if (run.deed == CLOSE && !pthread_mutex_trylock(&run.life)) {
        close_library();
        open_library();
        pthread_mutex_unlock(&run.life);
    }
    if (run.deed == HIT || run.deed == CLOSE)
        get(0);
    if (run.deed != HIT)
        get(new_page());
    if (run.deed == FIRST)
        get(0);
    if (run.deed == HIT || run.deed == MISS)
        open_by_name();
}

/* The last library may have been opened by the other thread: its first get is to be, too. */
static void get_twice(void)
{
    uint64_t key;

    get_used();
    key = get(0);
    if (run.load->after == STAYS)
        must(active() == HMREG_MONITOR_MEMHOOKS && get(0) == key);
    if (run.load->after == GIVES_WAY)
        must(!has_hooks());
}

/* What munmap(2) changes is noticed still. */
static void check_libcs(void)
{
    atomic_store(&run.floors[0], atomic_load(&counter.regs));
    must(munmap(page_at(0), fixture_page()) == 0);
    must(fixture_map_at(page_at(0), 1));
    get(0);
}

static int in_child(struct linker_stops *stops)
{
    run.stops = stops;
    prepare_process();
    linker_stops_start_thread(stops, do_deed);
    if (run.load->prepare)
        run.load->prepare();
    if (run.deed != FIRST) {
        get_cached();
        linker_stops_do(stops, get_cached);
    }
    if (!linker_stops_begin(stops))
        return 77;
    run.load->load();
    linker_stops_end(stops);
    must(!linker_is_busy());
    if (run.loads && run.load->after == GIVES_WAY)
        change_used(run.loads);
    linker_stops_do(stops, get_twice);
    get_twice();
    check_libcs();
    must(!run.told);
    if (run.file)
        unload();
    linker_stops_do(stops, get_twice);
    close_library();
    return 0;
}

/* Each stop of the load has a deed; then, in children of their own, every `step`-th. */
static void run_load(const struct load *load, enum deed deed, unsigned step)
{
    struct linker_stops *stops = linker_stops_new();
    long count;
    int rc;

    run.load = load;
    run.deed = deed;
    stops->only = -1;
    rc = linker_stops_run(stops, in_child);
    count = stops->count;
    if (!rc)
        assert_true(count && (stops->uncached || load->maps_nothing));
    for (long at = 0; !rc && at < count; at += step) {
        stops->only = at;
        rc = linker_stops_run(stops, in_child);
    }
    linker_stops_free(stops);
    run.load = NULL;
    run.stops = NULL;
    if (rc == 77)
        test_skip("libc cannot be hooked, or children cannot be traced here");
    if (rc)
        fail_msg("%s, %s: exit status %d", load->name, deed_names[deed], rc);
}

static int can_hook(void)
{
    prepare_process();
    get_cached();
    return 0;
}

/* In the first tier most loads are done at some of their stops. */
static void run_loads(enum deed deed)
{
    test_in_child_or_skip(can_hook(), "libc cannot be hooked here");
    for (size_t i = 0; i < sizeof(every_load) / sizeof(every_load[0]); i++)
        run_load(&every_load[i], deed,
                 i == MARKED || (i == GETS && deed == FIRST) || getenv("HMREG_TEST_LONG") ? 1 : 37);
}

TEST(load__another_thread_hits__nothing_stale)
{
    run_loads(HIT);
}

TEST(load__another_thread_misses__nothing_stale)
{
    run_loads(MISS);
}

TEST(load__another_thread_makes_the_first_get__nothing_stale)
{
    run_loads(FIRST);
}

TEST(load__another_thread_closes_and_opens__nothing_stale)
{
    run_loads(CLOSE);
}

/* ---- forks ------------------------------------------------------------------------------ */

static atomic_uint forked_busy;

/* In the child no thread goes on loading: the linker's lists stay as they are, and so does the
 * reason. The library may know of a mapping that is just being made. */
static int get_in_fork(void)
{
    bool busy = linker_is_busy();
    struct hmreg_mr *mr;

    open_library();
    for (int i = 0; i < 3; i++) {
        must(hmreg_mr_get(fixture.domain, page_at(0), 10, HMREG_ACCESS_REMOTE, &mr) == 0);
        if (i && (busy || !test_info_of(mr).cached))
            check_uncached(mr);
        hmreg_mr_put(mr);
    }
    close_library();
    return 0;
}

static void fork_and_get(void)
{
    int status = 0;
    pid_t child;

    atomic_fetch_add(&forked_busy, linker_is_busy());
    child = test_fork();
    if (child == 0)
        _exit(get_in_fork());
    while (waitpid(child, &status, WNOHANG) == 0) /* asleep, it would seem to wait for the linker */
        sched_yield();
    must(status == 0);
}

static int fork_while_loading(struct linker_stops *stops)
{
    run.stops = stops;
    prepare_process();
    linker_stops_start_thread(stops, fork_and_get);
    get_cached();
    if (!linker_stops_begin(stops))
        return 77;
    run.load->load();
    linker_stops_end(stops);
    must(atomic_load(&forked_busy));
    get(0);
    must(!has_hooks());
    return 0;
}

TEST(fork__while_a_thread_loads__child_gets_uncached_with_the_reason)
{
    struct linker_stops *stops = linker_stops_new();
    int rc;

    test_forks_wipe();
    run.load = &every_load[WITH_LIBC];
    stops->only = -1;
    rc = linker_stops_run(stops, fork_while_loading);
    run.load = NULL;
    linker_stops_free(stops);
    if (rc == 77)
        test_skip("libc cannot be hooked, or children cannot be traced here");
    assert_int_equal(rc, 0);
}

/* ---- one thread, in a process of its own ------------------------------------------------ */

static char *file_page; /* of a file: never cached */

static void prepare_alone(void)
{
    run.stops = NULL;
    run.load = NULL;
    prepare_process();
    file_page =
        mmap(NULL, fixture_page(), PROT_READ | PROT_WRITE, MAP_PRIVATE, fileno(tmpfile()), 0);
    must(file_page != MAP_FAILED);
}

static void get_uncacheable(void)
{
    struct hmreg_mr *mr;

    must(hmreg_mr_get(fixture.domain, file_page, 64, HMREG_ACCESS_REMOTE, &mr) == 0);
    must(!test_info_of(mr).cached);
    hmreg_mr_put(mr);
    if (active() != HMREG_MONITOR_MEMHOOKS)
        _exit(77);
}

/* After a get of page 0. */
static void check_noticed(void)
{
    get(0);
    must(!has_hooks());
    change(run.loads, 0);
    get(0);
}

static int first_get_uncached(void (*load)(void))
{
    prepare_alone();
    get_uncacheable();
    load();
    check_noticed();
    return 0;
}

static int all_unwatched(void (*load)(void))
{
    prepare_alone();
    get_cached();
    must(hmreg_domain_flush(fixture.domain) == 0);
    load();
    check_noticed();
    return 0;
}

static int between_gets(void (*load_and_unload)(void))
{
    prepare_alone();
    get_cached();
    load_and_unload();
    get(0);
    must(active() == HMREG_MONITOR_MEMHOOKS);
    get_cached();
    return 0;
}

static void (*const loads_with_bypass[])(void) = {load_marked, load_joined, load_marked_deep,
                                                  load_marked_into_another, load_libc_into_another};

static void each_in_a_process(int (*part)(void (*load)(void)))
{
    for (size_t i = 0; i < sizeof(loads_with_bypass) / sizeof(loads_with_bypass[0]); i++)
        test_in_child_or_skip(part(loads_with_bypass[i]), "libc cannot be hooked here");
}

TEST(load__after_a_first_get_of_uncacheable_memory__noticed)
{
    each_in_a_process(first_get_uncached);
}

TEST(load__with_nothing_watched__noticed)
{
    each_in_a_process(all_unwatched);
}

TEST(load_change_unload__between_two_gets__not_stale)
{
    test_in_child_or_skip(between_gets(load_change_unload), "libc cannot be hooked here");
    test_in_child_or_skip(between_gets(load_change_unload_another), "libc cannot be hooked here");
}

/* ---- a library that is in no list ------------------------------------------------------- */

enum { SOME = 10, MANY = 5000 };

/* In an emulator no mapping may be. */
static bool is_listed_executable(void)
{
    FILE *maps = fopen("/proc/thread-self/maps", "re");
    bool found = false;
    char line[512];

    while (maps && !found && fgets(line, sizeof(line), maps))
        found = strstr(line, " r-xp ") && strstr(line, TEST_LOADS_JOINED);
    if (maps)
        fclose(maps);
    return found;
}

/* As the linker would, the program maps a library with its code. */
static int gets_beside_unlisted(unsigned count)
{
    int file = open(TEST_LOADS_JOINED, O_RDONLY | O_CLOEXEC);
    size_t len = 4 * fixture_page();
    void *mapped;

    prepare_alone();
    mapped = mmap(NULL, len, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    must(mapped != MAP_FAILED);
    if (!is_listed_executable())
        _exit(77);
    for (unsigned i = 0; i < count; i++) {
        struct hmreg_mr *mr;

        must(hmreg_mr_get(fixture.domain, page_at(0), 10, HMREG_ACCESS_REMOTE, &mr) == 0);
        if (i < SOME)
            check_uncached(mr);
        hmreg_mr_put(mr);
    }
    must(munmap(mapped, len) == 0);
    if (count == SOME)
        get_cached();
    else
        get(0);
    must(has_hooks() == (count == SOME));
    return 0;
}

TEST(library_in_no_list__first_gets__uncached_until_it_is_unmapped_or_stays)
{
    test_in_child_or_skip(can_hook(), "libc cannot be hooked here");
    test_in_child_or_skip(gets_beside_unlisted(SOME), "the kernel does not list mappings here");
    test_in_child_or_skip(gets_beside_unlisted(MANY), "the kernel does not list mappings here");
}

/* ---- while a look is under way ---------------------------------------------------------- */

static int act_at; /* after so many readings of the linker's lists; 0: never */
static void (*act)(void);

typedef int reader(struct dl_phdr_info *, size_t, void *);
int __real_dl_iterate_phdr(reader *read, void *arg);
int __wrap_dl_iterate_phdr(reader *read, void *arg);

int __wrap_dl_iterate_phdr(reader *read, void *arg)
{
    int result = __real_dl_iterate_phdr(read, arg);

    if (act_at && --act_at == 0)
        act();
    return result;
}

static void act_after(int readings, void (*what)(void))
{
    act_at = readings;
    act = what;
}

/* 2: the look has read the lists less often. */
static int unloaded_in_look(int at)
{
    prepare_alone();
    get_cached();
    load_marked();
    change(run.loads, 0);
    act_after(at, unload);
    get(0);
    if (act_at)
        return 2;
    get(0);
    return 0;
}

/* The same of the first get, which installs the hooks. */
static int loaded_in_choice(int at)
{
    prepare_alone();
    act_after(at, load_marked);
    get(0);
    if (act_at)
        return active() == HMREG_MONITOR_MEMHOOKS ? 2 : 77;
    check_noticed();
    return 0;
}

/* At each reading, in a process of its own. */
static void at_each_reading(int (*part)(int at))
{
    int status = 0, at;

    for (at = 1; status == 0; at++) {
        pid_t child = test_fork();

        if (child == 0)
            _exit(part(at));
        assert_int_equal(waitpid(child, &status, 0), child);
    }
    if (WEXITSTATUS(status) == 77)
        test_skip("libc cannot be hooked here");
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2 && at > 3);
}

TEST(look__file_unloaded_meanwhile__not_stale)
{
    at_each_reading(unloaded_in_look);
}

TEST(first_get__file_loaded_meanwhile__noticed)
{
    at_each_reading(loaded_in_choice);
}

/* A library with memhooks by name, which keeps them, looks first. */
static int named_looks_first(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct fixture named;

    prepare_alone();
    get_cached();
    must(hmreg_open(&config, &named.lib) == 0);
    named.domain = counter_open_more(named.lib, NULL);
    load_marked();
    fixture_key_in(&named, page_at(1), 10);
    change(run.loads, 0);
    unload();
    get(0);
    return 0;
}

TEST(look__by_a_library_with_memhooks_by_name__others_miss_nothing)
{
    test_in_child_or_skip(named_looks_first(), "libc cannot be hooked here");
}

TEST_MAIN()
