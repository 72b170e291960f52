/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The budget of `hmreg stats`: whatever the processes show, a reading ends, and says that it has
 * not everything. */
#include "core/stats/stats_layout.h"
#include "tests/tools/tool.h"
#include "tools/document.h"
#include "tools/stats/stats.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

/* ---- folders without an end, in this process --------------------------------------------- */

static unsigned long entries;
static unsigned hurry; /* seconds that pass at each look at the clock; others do not pass */

static bool endless;

struct dirent *__real_readdir(DIR *folder);
int __real_clock_gettime(clockid_t clock, struct timespec *out);
#pragma GCC visibility push(default) /* gcc's runtimes of sanitizers refer to both */
struct dirent *__wrap_readdir(DIR *folder);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
#pragma GCC visibility pop

struct dirent *__wrap_readdir(DIR *folder)
{
    static struct dirent always = {.d_name = "0"};

    if (!endless)
        return __real_readdir(folder);
    entries++;
    return &always;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    static unsigned passed;

    if (!endless)
        return __real_clock_gettime(clock, out);
    passed += hurry;
    *out = (struct timespec){.tv_sec = 1000 + passed};
    return 0;
}

static uint64_t left_out_of_this(void)
{
    json_t *document = tool_keep(doc_object());
    uint64_t left_out;
    char why[512];

    entries = 0;
    endless = true;
    assert_false(stats_find_one(document, getpid(), why));
    endless = false;
    left_out = doc_number(document, "left_out");
    return left_out;
}

TEST(descriptors__without_end__so_many_are_looked_at)
{
    assert_int_equal(left_out_of_this(), 1);
    assert_int_equal(entries, STATS_ONE_DESCRIPTORS + 1);
}

TEST(time__is_up__ends)
{
    hurry = 1;
    assert_int_equal(left_out_of_this(), 1);
    assert_in_range(entries, 1, STATS_ALL_SECONDS);
    hurry = 0;
}

/* ---- hostile processes ------------------------------------------------------------------ */

static void require(int rc)
{
    if (rc)
        _exit(1);
}

/* A process that shows what show() makes, until end(). */
static pid_t start(void (*show)(void))
{
    int ends[2];
    pid_t child;
    char byte;

    assert_int_equal(pipe(ends), 0);
    child = test_fork();
    if (child == 0) {
        show();
        require(write(ends[1], "r", 1) != 1);
        for (;;)
            pause();
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return child;
}

static void end(pid_t child)
{
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static const char *pid_text(pid_t pid)
{
    static char number[16];

    snprintf(number, sizeof(number), "%d", (int)pid);
    return number;
}

static int last_page = -1; /* the last one's descriptor */

/* A full page. changing: it is always about to change. */
static void make_page(bool changing)
{
    int fd = memfd_create(STATS_PAGE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct stats_layout *page;

    require(fd < 0 || ftruncate(fd, sizeof(*page)));
    page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    require(page == MAP_FAILED || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
    page->header.version = STATS_PAGE_VERSION;
    page->header.size = sizeof(*page);
    page->header.pid = getpid();
    page->header.magic = STATS_PAGE_MAGIC;
    for (unsigned i = 0; i < STATS_DOMAINS; i++) {
        page->domains[i].number = i + 1;
        page->domains[i].sequence = changing;
    }
    for (unsigned i = 0; i < STATS_BLOCKS; i++) {
        page->blocks[i].domain = 1 + i % STATS_DOMAINS;
        page->blocks[i].sequence = changing;
        for (unsigned j = 0; j < HMREG_STATS_TIMES; j++)
            page->blocks[i].times[j] = UINT64_MAX;
    }
    munmap(page, sizeof(*page));
    last_page = fd;
}

static void show_changing_pages(void)
{
    for (int i = 0; i < 64; i++)
        make_page(true);
}

static void show_many_pages(void)
{
    for (int i = 0; i < 64; i++)
        make_page(false);
}

/* How many caches the document shows of all processes. */
static unsigned caches_in(const json_t *document)
{
    const json_t *process, *library, *domain;
    unsigned count = 0;

    doc_each(process, list_at(document, "processes"))
        doc_each(library, json_object_get(process, "libraries"))
            doc_each(domain, json_object_get(library, "domains"))
                count += (unsigned)json_array_size(json_object_get(domain, "caches"));
    return count;
}

static void assert_memory_below(long kib)
{
    struct rusage usage;

    getrusage(RUSAGE_CHILDREN, &usage);
    if (!(TEST_ASAN || TEST_TSAN) && usage.ru_maxrss > kib)
        fail_msg("the command took %ld KiB", usage.ru_maxrss);
}

TEST(process_with_pages_that_change__limited_number_and_memory)
{
    pid_t target;
    struct tool tool;
    json_t *document;

    target = start(show_changing_pages);
    tool = tool_run("stats", pid_text(target));
    assert_memory_below(60 << 10);
    document = tool_document(0, "stats", pid_text(target), "--json");
    end(target);
    assert_in_range(caches_in(document), 0, STATS_ONE_CACHES);
    assert_int_equal(number_at(document, "left_out"), 1);
    assert_int_equal(tool.status, 0);
    assert_says(tool.out, "1 processes were not read, or only partly");
}

TEST(many_processes_with_full_pages__limited_memory_and_output)
{
    enum { MANY = 2 + STATS_ALL_CACHES / STATS_ONE_CACHES };
    pid_t targets[MANY];
    struct tool tool;
    json_t *document;

    for (int i = 0; i < MANY; i++)
        targets[i] = start(show_many_pages);
    tool = tool_run("stats", "--json");
    assert_memory_below(160 << 10);
    for (int i = 0; i < MANY; i++)
        end(targets[i]);
    document = tool_keep(json_loads(tool.out, 0, NULL));
    assert_non_null(document);
    assert_says(tool.out, "more caches than one reading");
    assert_in_range(caches_in(document), 1, STATS_ALL_CACHES);
    assert_true(number_at(document, "left_out") >= MANY);
}

static void show_one_page_often(void)
{
    make_page(false);
    for (int i = 0; i < 64; i++)
        require(dup(last_page) < 0);
}

TEST(page_with_many_descriptors__read_once_and_few_looked_at)
{
    pid_t target;
    json_t *document;

    target = start(show_one_page_often);
    document = tool_document(0, "stats", pid_text(target), "--json");
    end(target);
    assert_int_equal(caches_in(document), STATS_BLOCKS);
    assert_int_equal(number_at(document, "left_out"), 1);
}

TEST_MAIN()
