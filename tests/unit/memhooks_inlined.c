/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Files that change mappings by system calls of their own, which the search of loaded code finds or
 * leaves: loaded before the first get or later. What is loaded stays, so each case has a process of
 * its own.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/inside.h"
#include "tests/support/queries.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

/* ---- the search, watched ----------------------------------------------------------------- */

static size_t searched;    /* bytes */
static unsigned adjoining; /* ranges that begin where the one before ends, or in its last bytes */
static const uint8_t *last_end;
static void (*on_search)(void);

struct inlined_call;
struct module_text;

bool __real_inlined_next(const uint8_t *start, const uint8_t *end, struct inlined_call *out);
bool __wrap_inlined_next(const uint8_t *start, const uint8_t *end, struct inlined_call *out);
int __real_own_calls_check(size_t most);
int __wrap_own_calls_check(size_t most);
bool __real_modules_linker(struct module_text *out);
bool __wrap_modules_linker(struct module_text *out);

bool __wrap_inlined_next(const uint8_t *start, const uint8_t *end, struct inlined_call *out)
{
    searched += (size_t)(end - start);
    adjoining += start <= last_end && last_end - start < 8;
    last_end = end;
    return __real_inlined_next(start, end, out);
}

/* With less code to be searched at once, the test's file can be smaller. */
enum { EACH = 4 << 20 };

static bool checking;
static unsigned searches;

int __wrap_own_calls_check(size_t most)
{
    int rc;

    checking = true;
    rc = __real_own_calls_check(EACH);
    checking = false;
    return rc;
}

/* The search asks for it first. */
bool __wrap_modules_linker(struct module_text *out)
{
    void (*now)(void) = on_search;

    on_search = NULL;
    searches += checking;
    if (now)
        now();
    return __real_modules_linker(out);
}

/* ---- each in a process of its own ------------------------------------------------------- */

static void in_a_process(void (*part)(void))
{
    test_in_child_or_skip((part(), 0), "libc cannot be hooked here");
}

static enum hmreg_monitor active(void)
{
    return test_monitor_info(fixture.lib).active;
}

static bool gives_reason(const char *why)
{
    struct hmreg_monitor_info info = test_monitor_info(fixture.lib);

    return strstr(info.why, "memhooks: ") == info.why && strstr(info.why, why);
}

/* Opens with the default monitor, which is memhooks; *key: of memory that stays cached. */
static char *open_default(uint64_t *key)
{
    char *memory = fixture_map(1);

    setenv("HMREG_LOG", "off", 1);
    fixture_open(HMREG_MONITOR_DEFAULT, NULL);
    *key = fixture_key(memory, 10);
    assert_true(!gives_reason("past libc")); /* nothing that every program has counts as such */
    if (active() != HMREG_MONITOR_MEMHOOKS)
        _exit(77);
    assert_true(fixture_key(memory, 10) == *key);
    return memory;
}

static int (*unmap_of(void *file))(void *, size_t)
{
    int (*function)(void *, size_t) =
        (int (*)(void *, size_t))(uintptr_t)dlsym(file, "unmap_inlined");

    assert_true(function);
    return function;
}

static void *load(const char *name)
{
    void *file = dlopen(name, RTLD_NOW | RTLD_LOCAL);

    assert_true(file);
    return file;
}

/* Unmaps and maps past libc's functions, as far as the hooks hear. */
static void change_by(void *file, char *memory)
{
    assert_true(unmap_of(file)(memory, fixture_page()) == 0);
    assert_true(fixture_map_at(memory, 1) == memory);
}

static void check_gave_way(const char *why)
{
    enum hmreg_monitor now = active();

    assert_true(now == HMREG_MONITOR_USERFAULTFD || now == HMREG_MONITOR_DISABLED);
    assert_true(gives_reason(why));
}

/* ---- files that give memhooks up ---------------------------------------------------------- */

/* The reason has the call's address in the file, which disassemblers show. */
static void loaded_later(const char *name, const char *call)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct hmreg *lib;
    uint64_t key;
    char *memory = open_default(&key);
    void *file;

    assert_true(hmreg_open(&config, &lib) == 0);
    file = load(name);
    change_by(file, memory);
    assert_true(fixture_key(memory, 10) != key);
    check_gave_way(call);
    check_gave_way(name);
    fixture_close();
    fixture_open(HMREG_MONITOR_DEFAULT, NULL);
    fixture_key(memory, 10);
    check_gave_way(call);
    fixture_close();
    assert_true(hmreg_close(lib) == 0);
    fixture_open(HMREG_MONITOR_MEMHOOKS, NULL); /* works where it is asked for */
    key = fixture_key(memory, 10);
    assert_true(fixture_key(memory, 10) == key);
    fixture_close();
}

static void found_later(void)
{
    loaded_later(TEST_INLINED_PLAIN, "munmap at 0x");
}

static void loaded_before(const char *name, const char *call)
{
    void *file = load(name);
    char *memory = fixture_map(1);
    uint64_t key;

    setenv("HMREG_LOG", "off", 1);
    fixture_open(HMREG_MONITOR_DEFAULT, NULL);
    key = fixture_key(memory, 10);
    check_gave_way(call);
    change_by(file, memory);
    assert_true(fixture_key(memory, 10) != key);
    assert_true(dlclose(file) == 0);
    fixture_close();
    open_default(&key); /* nothing bypasses them any more */
    fixture_close();
}

static void found_before(void)
{
    loaded_before(TEST_INLINED_PLAIN, "munmap at 0x");
}

TEST(load__a_file_that_unmaps_by_itself__memhooks_only_by_name)
{
    in_a_process(found_later);
    in_a_process(found_before);
}

#if defined(__x86_64__)
static void short_later(void)
{
    loaded_later(TEST_INLINED_SHORT, "munmap at 0x");
}

static void short_before(void)
{
    loaded_before(TEST_INLINED_SHORT, "munmap at 0x");
}

TEST(load__a_file_whose_calls_push_their_number__memhooks_only_by_name)
{
    in_a_process(short_later);
    in_a_process(short_before);
}

static void pascal_later(void)
{
    loaded_later(TEST_INLINED_PASCAL, "any system call at 0x");
}

static void pascal_before(void)
{
    loaded_before(TEST_INLINED_PASCAL, "any system call at 0x");
}

TEST(load__a_file_with_free_pascals_calls__memhooks_only_by_name)
{
    in_a_process(pascal_later);
    in_a_process(pascal_before);
}
#endif

/* ---- files that do not --------------------------------------------------------------------- */

static void own_only(void)
{
    uint64_t key;
    char *memory = open_default(&key);

    load(TEST_INLINED_OWN_ONLY);
    assert_true(fixture_key(memory, 10) == key);
    assert_true(active() == HMREG_MONITOR_MEMHOOKS);
    fixture_close();
}

TEST(load__a_file_that_unmaps_only_its_own__hits_go_on)
{
    in_a_process(own_only);
}

static void unreadable(void)
{
    uint64_t key;
    char *memory = open_default(&key);
    uintptr_t code = (uintptr_t)unmap_of(load(TEST_INLINED_PLAIN));

    assert_true(mprotect((void *)(code & ~(fixture_page() - 1)), fixture_page(), PROT_NONE) == 0);
    assert_true(fixture_key(memory, 10) == key);
    assert_true(active() == HMREG_MONITOR_MEMHOOKS);
    fixture_close();
}

TEST(load__a_file_whose_code_is_made_unreadable__not_read)
{
    in_a_process(unreadable);
}

/* ---- a file whose pages are not resident ---------------------------------------------------- */

static bool is_resident(uintptr_t at)
{
    unsigned char resident = 1;

    assert_true(mincore((void *)(at & ~(fixture_page() - 1)), 1, &resident) == 0);
    return resident & 1;
}

static void drop_pages(const char *name)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static void not_resident(void)
{
    uint64_t key;
    char *memory = open_default(&key);
    uintptr_t code;

    code = (uintptr_t)unmap_of(load(TEST_INLINED_FAR));
    drop_pages(TEST_INLINED_FAR); /* all that no process has touched */
    if (is_resident(code))
        _exit(77);
    for (int i = 0; i < 2; i++) /* more code than one get searches */
        fixture_key(memory, 10);
    assert_true(!is_resident(code));
    key = fixture_key(memory, 10);
    assert_true(fixture_key(memory, 10) == key);
    assert_true(active() == HMREG_MONITOR_MEMHOOKS);
    fixture_close();
}

TEST(load__code_that_is_not_resident__not_read_in)
{
    test_in_child_or_skip((not_resident(), 0), "this file system keeps a file's pages");
}

/* ---- more code than one get searches --------------------------------------------------------- */

/* Its pages may have been evicted since the file was made. */
static void *load_far(void)
{
    void *file = load(TEST_INLINED_FAR);
    uintptr_t end = (uintptr_t)unmap_of(file);

    for (uintptr_t at = end - TEST_INLINED_FAR_BYTES; at < end; at += fixture_page())
        (void)*(const volatile char *)at;
    return file;
}

static void check_searching(const char *memory)
{
    struct hmreg_mr *mr = fixture_get(memory, 10);

    assert_true(!fixture_is_cached(mr));
    assert_true(strstr(test_why_of(mr).uncached_why, "still searching loaded code"));
    hmreg_mr_put(mr);
    assert_true(gives_reason("still searching loaded code"));
}

static void searched_by_two_gets(void)
{
    uint64_t key;
    char *memory = open_default(&key);
    void *file = load_far();

    change_by(file, memory);
    check_searching(memory);
    assert_true(active() == HMREG_MONITOR_MEMHOOKS);
    fixture_key(memory, 10);
    check_gave_way("munmap at 0x");
    fixture_close();
}

static void searched_by_the_first_gets(void)
{
    char *memory = fixture_map(1);

    load_far();
    setenv("HMREG_LOG", "off", 1);
    fixture_open(HMREG_MONITOR_DEFAULT, NULL);
    check_searching(memory);
    assert_true(active() == HMREG_MONITOR_DEFAULT);
    for (int i = 0; i < 2; i++)
        fixture_key(memory, 10);
    check_gave_way("munmap at 0x");
    fixture_close();
}

/* It is gone before the search has come to its call. */
static void unloaded_while_searched(void)
{
    uint64_t key;
    char *memory = open_default(&key), *other = fixture_map(1);
    uint64_t others = fixture_key(other, 10);
    void *file = load_far();

    check_searching(memory);
    change_by(file, other);
    assert_true(dlclose(file) == 0);
    assert_true(fixture_key(other, 10) != others);
    assert_true(active() == HMREG_MONITOR_MEMHOOKS);
    fixture_close();
}

/* A call may lie across the end of a part. */
static void searched_in_parts(void)
{
    uint64_t key;
    char *memory = open_default(&key);

    load_far();
    searched = adjoining = 0;
    check_searching(memory);
    assert_true(searched > EACH / 2 && !adjoining);
    fixture_close();
}

TEST(get__while_code_is_searched__parts_overlap)
{
    in_a_process(searched_in_parts);
}

TEST(get__while_code_is_searched__uncached)
{
    in_a_process(searched_by_two_gets);
    in_a_process(searched_by_the_first_gets);
}

TEST(unload__while_code_is_searched__all_changed)
{
    in_a_process(unloaded_while_searched);
}

static struct {
    sem_t begun, ended;
    char *memory;
    bool cached;
} other;

static void await_the_others_get(void)
{
    sem_post(&other.begun);
    sem_wait(&other.ended);
}

static void *get_in_another(void *unused)
{
    struct hmreg_mr *mr;

    sem_wait(&other.begun);
    mr = fixture_get(other.memory, 10);
    other.cached = fixture_is_cached(mr);
    hmreg_mr_put(mr);
    sem_post(&other.ended);
    return NULL;
}

static void two_threads(void)
{
    pthread_t thread;
    uint64_t key;
    char *memory = open_default(&key);

    other.memory = memory;
    sem_init(&other.begun, 0, 0);
    sem_init(&other.ended, 0, 0);
    assert_true(pthread_create(&thread, NULL, get_in_another, NULL) == 0);
    load(TEST_INLINED_NONE);
    on_search = await_the_others_get;
    assert_true(fixture_key(memory, 10) == key);
    assert_true(!on_search && !other.cached);
    assert_true(pthread_join(thread, NULL) == 0);
    fixture_close();
}

TEST(get__while_another_thread_searches__uncached_and_at_once)
{
    in_a_process(two_threads);
}

/* ---- what is known ------------------------------------------------------------------------ */

/* Bytes that are searched for the get after a load of the file, which is unloaded then. */
static size_t searched_for(const char *name, const char *memory)
{
    void *file = load(name);

    searched = 0;
    fixture_key(memory, 10);
    assert_true(dlclose(file) == 0);
    fixture_key(memory, 10);
    return searched;
}

static void searched_once(void)
{
    uint64_t key;
    char *memory = open_default(&key);

    assert_true(searched_for(TEST_INLINED_NONE, memory) > 0);
    assert_true(searched_for(TEST_INLINED_NONE, memory) == 0);
    assert_true(searched_for(TEST_INLINED_NO_ID, memory) > 0);
    assert_true(searched_for(TEST_INLINED_NO_ID, memory) > 0); /* may be another file */
    assert_true(active() == HMREG_MONITOR_MEMHOOKS);
    fixture_close();
}

static void looked_again(void)
{
    struct hmreg_config config = {.size = sizeof(config)};
    struct fixture more;
    uint64_t key;
    char *memory = open_default(&key);

    searches = 0;
    assert_true(hmreg_open(&config, &more.lib) == 0);
    more.domain = counter_open_more(more.lib, NULL);
    fixture_key_in(&more, memory, 10);
    assert_true(searches == 0);
    load(TEST_INLINED_NONE);
    fixture_key(memory, 10);
    assert_true(searches > 0);
    assert_true(hmreg_domain_close(more.domain) == 0 && hmreg_close(more.lib) == 0);
    fixture_close();
}

static void in_a_child(void)
{
    uint64_t key;
    char *memory = open_default(&key);

    searched = 0;
    fixture_key(memory, 10);
    assert_true(searched == 0);
    test_in_child((open_default(&key), searched == 0));
    fixture_close();
}

TEST(load__a_file_that_is_known__not_searched_again)
{
    in_a_process(searched_once);
}

/* Else one of two threads that look would be uncached. */
TEST(look__nothing_is_loaded_since__no_search)
{
    in_a_process(looked_again);
}

TEST(fork__after_a_search__the_child_searches)
{
    in_a_process(in_a_child);
}

/* ---- forms ------------------------------------------------------------------------------- */

enum { ROOM = 600 }; /* several blocks */

static const char *found_in(const uint8_t *code, size_t size, size_t *at)
{
    return inside_inlined(code, size, at);
}

/* The name of the call that is found where `form` lies anywhere in other code, the same at each
 * place; NULL: none. */
static const char *found_for(const uint8_t *form, size_t size, size_t entry, size_t step)
{
    const char *name = NULL;

    for (size_t at = 0; at + size <= ROOM; at += step) {
        uint8_t code[ROOM] __attribute__((aligned(8)));
        const char *here;
        size_t found = 0;

        memset(code, 0x90, sizeof(code));
        memcpy(code + at, form, size);
        here = found_in(code, sizeof(code), &found);
        if (at && here != name)
            fail_msg("at %zu: %s", at, here ? here : "none");
        name = here;
        assert_true(!here || found == at + entry);
        assert_true(found_in(code, at + entry, &found) == NULL); /* the instruction is behind */
        assert_true(found_in(code + at + step, sizeof(code) - at - step, &found) == NULL);
    }
    return name;
}

#if defined(__x86_64__)
#define FORM(name, ...)                                                                            \
    do {                                                                                           \
        static const uint8_t form[] = {__VA_ARGS__, 0x0f, 0x05};                                   \
        const char *found = found_for(form, sizeof(form), sizeof(form) - 2, 1);                    \
        const char *wanted = name;                                                                 \
        if (!wanted != !found || (wanted && strcmp(wanted, found) != 0))                           \
            fail_msg("%s: %s", #__VA_ARGS__, found ? found : "none");                              \
    } while (0)

TEST(search__each_form__found_at_each_place)
{
    FORM("mmap", 0xb8, 9, 0, 0, 0);
    FORM("munmap", 0xb8, 11, 0, 0, 0);
    FORM("brk", 0xb8, 12, 0, 0, 0);
    FORM("mremap", 0xb8, 25, 0, 0, 0);
    FORM("madvise", 0xb8, 28, 0, 0, 0);
    FORM("shmat", 0xb8, 30, 0, 0, 0);
    FORM("shmdt", 0xb8, 67, 0, 0, 0);
    FORM("remap_file_pages", 0xb8, 216, 0, 0, 0);
    FORM("process_madvise", 0xb8, 0xb8, 1, 0, 0);
    FORM("munmap", 0xb8, 11, 0, 0, 0, 0x90);
    FORM("munmap", 0xb8, 11, 0, 0, 0, 0x31, 0xff);
    FORM("munmap", 0xc7, 0xc0, 11, 0, 0, 0);
    FORM("any system call", 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7);
}

TEST(search__other_calls__not_found)
{
    FORM(NULL, 0xb8, 10, 0, 0, 0);
    FORM(NULL, 0xb8, 11, 0, 0, 1);
    FORM(NULL, 0xb9, 11, 0, 0, 0);
    FORM(NULL, 0xb8, 11, 0, 0, 0, 0x90, 0x90, 0x90);
    FORM(NULL, 0x48, 0x89, 0xf8, 0x48, 0x89, 0xf8);
}
#elif defined(__aarch64__)
static const char *found_for_words(uint32_t first, uint32_t second)
{
    const uint32_t form[] = {first, second};

    return found_for((const uint8_t *)form, sizeof(form), 4, 4);
}

static uint32_t mov_x8(uint32_t number, bool wide)
{
    return (wide ? 0xd2800008u : 0x52800008u) | number << 5;
}

TEST(search__each_form__found_at_each_place)
{
    static const struct {
        uint32_t number;
        const char *name;
    } calls[] = {{222, "mmap"},   {215, "munmap"},           {214, "brk"},
                 {216, "mremap"}, {233, "madvise"},          {196, "shmat"},
                 {197, "shmdt"},  {234, "remap_file_pages"}, {440, "process_madvise"}};

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        for (int wide = 0; wide < 2; wide++)
            assert_string_equal(found_for_words(mov_x8(calls[i].number, wide), 0xd4000001u),
                                calls[i].name);
}

TEST(search__other_calls__not_found)
{
    assert_null(found_for_words(mov_x8(226, false), 0xd4000001u));
    assert_null(found_for_words(mov_x8(215, false), 0xd4000021u));
    assert_null(found_for_words(0xd2800009u | 215 << 5, 0xd4000001u));
}
#endif

TEST_MAIN()
