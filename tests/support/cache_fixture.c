/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See cache_fixture.h.
 */
#include "tests/support/cache_fixture.h"

#include "core/context/context.h"

#include <dirent.h>
#include <sys/mman.h>

struct fixture fixture;

enum hmreg_monitor fixture_monitor(void)
{
    const char *wanted = getenv("HMREG_TEST_MONITOR");

    if (!wanted || strcmp(wanted, "userfaultfd") == 0)
        return HMREG_MONITOR_USERFAULTFD;
    return strcmp(wanted, "counter") == 0 ? HMREG_MONITOR_COUNTER : HMREG_MONITOR_MEMHOOKS;
}

void fixture_open_in(struct fixture *in, enum hmreg_monitor monitor,
                     const struct hmreg_domain_config *config)
{
    struct hmreg_config library = {.size = sizeof(library), .monitor = monitor};
    int rc = hmreg_open(&library, &in->lib);

    if ((monitor == HMREG_MONITOR_USERFAULTFD && (rc == -EPERM || rc == -ENOSYS)) ||
        (monitor == HMREG_MONITOR_MEMHOOKS && rc == -EOPNOTSUPP) ||
        (monitor == HMREG_MONITOR_COUNTER && rc == -ENOENT))
        test_skip("%s", hmreg_last_error()->text);
    assert_ok(rc);
    in->domain = counter_open(in->lib, config);
}

void fixture_open_hooked_in(struct fixture *in)
{
    fixture_monitor(); /* may forbid userfaultfd */
    fixture_open_in(in, HMREG_MONITOR_MEMHOOKS, NULL);
}

void fixture_close_in(struct fixture *in)
{
    if (in->domain)
        assert_ok(hmreg_domain_close(in->domain));
    assert_ok(hmreg_close(in->lib));
    assert_int_equal(atomic_load(&counter.regions), 0);
    in->lib = NULL;
}

struct hmreg_mr *fixture_get_in(const struct fixture *in, const void *addr, size_t len)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(in->domain, addr, len, HMREG_ACCESS_REMOTE, &mr));
    return mr;
}

uint64_t fixture_key_in(const struct fixture *in, const void *addr, size_t len)
{
    struct hmreg_mr *mr = fixture_get_in(in, addr, len);
    uint64_t key = hmreg_mr_key(mr);

    hmreg_mr_put(mr);
    return key;
}

struct hmreg_stats fixture_stats_in(const struct fixture *in)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    assert_true(monitor_sync(in->lib->monitor));
    assert_ok(hmreg_domain_stats(in->domain, &stats));
    return stats;
}

uint64_t fixture_events(void)
{
    assert_true(monitor_sync(fixture.lib->monitor));
    return monitor_events(fixture.lib->monitor);
}

static void close_what_is_open(void)
{
    if (fixture.lib)
        fixture_close();
}

void fixture_close_after(void)
{
    test_after(close_what_is_open);
}

void fixture_open(enum hmreg_monitor monitor, const struct hmreg_domain_config *config)
{
    fixture.lib = NULL;
    fixture_close_after();
    fixture_open_in(&fixture, monitor, config);
}

void fixture_open_hooked(void)
{
    fixture_monitor();
    fixture_open(HMREG_MONITOR_MEMHOOKS, NULL);
}

void fixture_close(void)
{
    fixture_close_in(&fixture);
}

struct hmreg_mr *fixture_get(const void *addr, size_t len)
{
    return fixture_get_in(&fixture, addr, len);
}

uint64_t fixture_key(const void *addr, size_t len)
{
    return fixture_key_in(&fixture, addr, len);
}

struct hmreg_stats fixture_stats(void)
{
    return fixture_stats_in(&fixture);
}

bool fixture_has_kernel_events(void)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};

    assert_ok(hmreg_monitor_query(fixture.lib, &info));
    return info.userfaultfd || info.active == HMREG_MONITOR_COUNTER;
}

bool fixture_is_cached(const struct hmreg_mr *mr)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};

    assert_ok(hmreg_mr_query(mr, &info));
    return info.cached;
}

int fixture_in_child(void (*open)(void), char *parents)
{
    char *memory;

    munmap(parents, fixture_page()); /* the child's own copy: does not affect the parent */
    open();
    memory = fixture_map(1);
    if (fixture_key(memory, 10) != 1 || fixture_key(memory, 10) != 1)
        return 2;
    munmap(memory, fixture_page());
    if (fixture_stats().invalidations != 1)
        return 3;
    fixture_close();
    return 0;
}

static bool is_named(const char *thread, const char *name)
{
    char path[64], text[32] = "";
    FILE *comm;

    snprintf(path, sizeof(path), "/proc/self/task/%.20s/comm", thread);
    comm = fopen(path, "re");
    if (!comm)
        return false;
    if (!fgets(text, sizeof(text), comm))
        text[0] = '\0';
    fclose(comm);
    text[strcspn(text, "\n")] = '\0';
    return !strcmp(text, name);
}

int fixture_threads_named(const char *name, pid_t *out, int most)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    int count = 0;

    assert_non_null(tasks);
    while ((task = readdir(tasks))) {
        if (task->d_name[0] == '.' || !is_named(task->d_name, name))
            continue;
        if (count < most)
            out[count] = (pid_t)atoi(task->d_name);
        count++;
    }
    closedir(tasks);
    return count;
}

size_t fixture_page(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

char *fixture_reserve(size_t pages)
{
    static char *next;
    char *reserved;

    if (!next) {
        next = mmap(NULL, fixture_page(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(next != MAP_FAILED);
        munmap(next, fixture_page());
        /* Far below what the kernel hands out from the top, within the address space, and not a
         * multiple of 128 GiB below, where memhooks confuse addresses: the library's own mappings
         * are up there. */
        next -= ((uintptr_t)next >> 40 ? 1ull << 39 : 0) + (1ull << 36);
    }
    reserved = next;
    next += (pages + 1) * fixture_page();
    return reserved;
}

char *fixture_map_at(char *addr, size_t pages)
{
    char *made = mmap(addr, pages * fixture_page(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    return made == addr ? made : NULL;
}

void fixture_map_again(char *addr, size_t len)
{
    assert_ptr_equal(fixture_map_at(addr, len / fixture_page()), addr);
}

char *fixture_map(size_t pages)
{
    char *made = fixture_map_at(fixture_reserve(pages), pages);

    assert_non_null(made);
    memset(made, 'm', pages * fixture_page());
    return made;
}
