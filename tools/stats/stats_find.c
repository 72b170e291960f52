/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Finds the processes that use hmreg. A library's stats page is a memfd with a fixed name among its
 * process's descriptors. A descriptor or process may disappear at any moment; it is then skipped.
 *
 * A reading has a budget for all processes, and one for each process. So the reading ends whatever
 * hostile processes show, and its document counts the processes that were not read wholly.
 */
#include "tools/stats/stats.h"

#include "tools/document.h"
#include "tools/stats/stats_view.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL /* Linux 6.3 */
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define LINK "/memfd:" STATS_PAGE_NAME " (deleted)"

struct budget {
    unsigned descriptors; /* looked at */
    unsigned files;       /* descriptors with the name of a page */
    unsigned caches;      /* described */
};

static const struct budget for_all = {STATS_ALL_DESCRIPTORS, STATS_ALL_FILES, STATS_ALL_CACHES};
static const struct budget for_one = {STATS_ONE_DESCRIPTORS, STATS_ONE_FILES, STATS_ONE_CACHES};

/* One look at the processes. */
struct reading {
    struct budget left;
    time_t until;
    bool spent; /* its budget is spent */
    uint64_t left_out;
    struct statx memory; /* device of the kernel's file system for memory files */
    bool has_memory;
};

static time_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

/* ---- JSON of a cache, a domain, a library ------------------------------------------------ */

static void set_number(json_t *object, const char *key, uint64_t number)
{
    doc_set(object, key, doc_made(json_integer((json_int_t)(number & INT64_MAX))));
}

static void set_evictions(json_t *cache, const uint64_t *counts)
{
    static const struct {
        const char *key;
        enum stats_count count;
    } causes[] = {{"limit", STATS_EVICTED_LIMIT},
                  {"memory", STATS_EVICTED_MEMORY},
                  {"room", STATS_EVICTED_ROOM},
                  {"keys", STATS_EVICTED_KEYS}};
    json_t *by_cause = doc_object();
    uint64_t sum = 0;

    for (size_t i = 0; i < COUNT(causes); i++) {
        set_number(by_cause, causes[i].key, counts[causes[i].count]);
        sum += counts[causes[i].count];
    }
    set_number(cache, "evictions", sum);
    doc_set(cache, "evictions_by_cause", by_cause);
    set_number(cache, "gave_explicit", counts[STATS_GAVE_EXPLICIT]);
    set_number(cache, "gave_others", counts[STATS_GAVE_OTHERS]);
}

static void set_uncached(json_t *cache, const uint64_t *counts)
{
    json_t *by_cause = doc_object();
    uint64_t full = counts[STATS_UNCACHED_FULL], unwatched = counts[STATS_UNCACHED_UNWATCHED];
    uint64_t all = counts[STATS_UNCACHED];

    set_number(by_cause, "full", full);
    set_number(by_cause, "unwatched", unwatched);
    set_number(by_cause, "other", all > full + unwatched ? all - full - unwatched : 0);
    doc_set(cache, "uncached_by_cause", by_cause);
}

static void set_times(json_t *cache, const struct view_cache *view)
{
    json_t *registrations = doc_object(), *times = doc_array();
    uint64_t timed = 0;

    for (unsigned i = 0; i < HMREG_STATS_TIMES; i++) {
        if (!view->times[i])
            continue;
        doc_add(times, doc_pack("{s:I, s:I}", "from_ns", (json_int_t)(i ? UINT64_C(1) << i : 0),
                                "count", (json_int_t)(view->times[i] & INT64_MAX)));
        timed += view->times[i];
    }
    set_number(registrations, "timed", timed);
    set_number(registrations, "ns", view->counts[STATS_REG_NS]);
    set_number(registrations, "longest_ns", view->counts[STATS_REG_LONGEST_NS]);
    doc_set(registrations, "times", times);
    doc_set(cache, "registrations", registrations);
}

static json_t *describe_cache(const struct view_cache *view)
{
    static const struct {
        const char *key;
        enum stats_count count;
    } plain[] = {{"hits", STATS_HITS},
                 {"misses", STATS_MISSES},
                 {"uncached", STATS_UNCACHED},
                 {"failures", STATS_FAILURES},
                 {"invalidations", STATS_INVALIDATIONS},
                 {"waits", STATS_WAITS},
                 {"waiting", STATS_WAITING},
                 {"wrong_puts", STATS_WRONG_PUTS},
                 {"regions", STATS_REGIONS},
                 {"bytes", STATS_BYTES},
                 {"retired", STATS_RETIRED},
                 {"regions_max", STATS_REGIONS_MAX},
                 {"bytes_max", STATS_BYTES_MAX}};
    json_t *cache = doc_object();

    doc_set(cache, "iface", doc_text(hmreg_iface_name(view->iface)));
    doc_set(cache, "device", doc_device(view->device));
    for (size_t i = 0; i < COUNT(plain); i++)
        set_number(cache, plain[i].key, view->counts[plain[i].count]);
    set_uncached(cache, view->counts);
    set_evictions(cache, view->counts);
    doc_set(cache, "limit_regions", doc_count(view->counts[STATS_LIMIT_REGIONS], HMREG_LIMIT_NONE));
    doc_set(cache, "limit_bytes", doc_count(view->counts[STATS_LIMIT_BYTES], HMREG_LIMIT_NONE));
    set_times(cache, view);
    doc_set(cache, "steady", doc_made(json_boolean(view->steady)));
    return cache;
}

static json_t *describe_domain(const struct view *view, unsigned index)
{
    const struct view_domain *domain = &view->domains[index];
    json_t *described = doc_object(), *caches = doc_array();

    set_number(described, "number", domain->number);
    doc_set(described, "provider", doc_text(domain->provider));
    doc_set(described, "fabric", doc_text(domain->fabric));
    doc_set(described, "caching", doc_made(json_boolean(!(domain->flags & HMREG_DOMAIN_NO_CACHE))));
    doc_set(described, "lost", doc_made(json_boolean(domain->lost)));
    for (unsigned i = 0; i < view->count; i++)
        if (view->caches[i].domain == index)
            doc_add(caches, describe_cache(&view->caches[i]));
    doc_set(described, "caches", caches);
    return described;
}

static json_t *describe_library(const struct view *view)
{
    json_t *domains = doc_array();

    assert(view);
    for (unsigned i = 0; i < STATS_DOMAINS; i++)
        if (view->domains[i].number)
            doc_add(domains, describe_domain(view, i));
    return doc_pack("{s:s, s:s, s:s, s:o, s:{s:I, s:I, s:I}, s:n}", "hmreg", view->hmreg, "monitor",
                    hmreg_monitor_name((enum hmreg_monitor)view->monitor), "monitor_why",
                    view->monitor_why, "domains", domains, "not_shown", "domains",
                    (json_int_t)view->lost_domains, "caches", (json_int_t)view->lost_caches,
                    "threads", (json_int_t)view->lost_threads, "error");
}

static json_t *describe_bad(const char *why)
{
    return doc_pack("{s:n, s:n, s:n, s:[], s:n, s:o}", "hmreg", "monitor", "monitor_why", "domains",
                    "not_shown", "error", doc_text(why));
}

/* ---- one process ------------------------------------------------------------------------- */

/* Reads a file of /proc/PID into text; "" if it is gone. */
static void read_text(pid_t pid, const char *name, char *text, size_t room)
{
    char path[64];
    ssize_t got = -1;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        got = read(fd, text, room - 1);
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
}

/* The process's pid in its own pid namespace, which may differ from the one here. */
static int own_pid(pid_t pid)
{
    char text[4096], *line, *last;

    read_text(pid, "status", text, sizeof(text));
    line = strstr(text, "\nNSpid:");
    if (!line)
        return (int)pid;
    line += strlen("\nNSpid:");
    line[strcspn(line, "\n")] = '\0';
    last = strrchr(line, '\t');
    return last ? atoi(last + 1) : (int)pid;
}

static void set_name(json_t *process, pid_t pid)
{
    char name[32];

    read_text(pid, "comm", name, sizeof(name));
    name[strcspn(name, "\n")] = '\0';
    doc_set(process, "name", doc_text(name));
}

struct search {
    struct reading *reading;
    pid_t pid;
    int own; /* pid in its own pid namespace */
    json_t *libraries;
    struct budget left;
    bool ended; /* its budget or the reading's is spent */
    unsigned pages;
    uint64_t inodes[STATS_ONE_FILES]; /* inodes of pages already read; duplicates of a descriptor
                                       * share one */
};

/* Takes `count` from the budgets of the reading and of the process. False: less is left. */
static bool take(struct search *search, unsigned *all, unsigned *own, unsigned count)
{
    struct reading *reading = search->reading;

    reading->spent = reading->spent || count > *all || now() >= reading->until;
    search->ended = search->ended || reading->spent || count > *own;
    if (search->ended)
        return false;
    *all -= count;
    *own -= count;
    return true;
}

#define TAKE(search, what, count)                                                                  \
    take(search, &(search)->reading->left.what, &(search)->left.what, count)

static bool is_new(struct search *search, uint64_t inode)
{
    for (unsigned i = 0; i < search->pages; i++)
        if (search->inodes[i] == inode)
            return false;
    search->inodes[search->pages++] = inode;
    return true;
}

static void read_page(struct search *search, int fd)
{
    struct view *view = calloc(1, sizeof(*view));
    char why[256];

    if (!view)
        doc_no_memory();
    switch (view_read(fd, search->own, search->reading->until, view, why)) {
    case VIEW_GOOD:
        doc_add(search->libraries,
                TAKE(search, caches, view->count)
                    ? describe_library(view)
                    : describe_bad("its process has more caches than one reading shows"));
        break;
    case VIEW_BAD:
        doc_add(search->libraries, describe_bad(why));
        break;
    case VIEW_NONE:
        break;
    }
    free(view);
}

static bool is_named_right(int folder, const char *name)
{
    char target[sizeof(LINK) + 1];
    ssize_t length = readlinkat(folder, name, target, sizeof(target));

    return length == (ssize_t)sizeof(LINK) - 1 && !memcmp(target, LINK, sizeof(LINK) - 1);
}

/* Looks up the device of the kernel's file system for memory files. */
static void find_memory(struct reading *reading)
{
    int fd = memfd_create("hmreg-stats-reader", MFD_CLOEXEC | MFD_NOEXEC_SEAL);

    if (fd < 0) /* before Linux 6.3 */
        fd = memfd_create("hmreg-stats-reader", MFD_CLOEXEC);
    reading->has_memory = fd >= 0 && !statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &reading->memory);
    if (fd >= 0)
        close(fd);
}

/* Is it a memory file that was not read yet? Its name proves nothing: in its mount namespace a
 * process can give any file the name of a page. Opening a device has effects, and opening a file of
 * the process's own file system (FUSE) may never return. So this asks nothing of the file's file
 * system. */
static bool is_new_memory_file(struct search *search, int path_only)
{
    const struct statx *memory = &search->reading->memory;
    struct statx file;

    return search->reading->has_memory &&
           !statx(path_only, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO,
                  &file) &&
           S_ISREG(file.stx_mode) && file.stx_dev_major == memory->stx_dev_major &&
           file.stx_dev_minor == memory->stx_dev_minor && is_new(search, file.stx_ino);
}

/* Opens a descriptor of the process for reading; -1: it is no memory file, was read already, or is
 * gone. The O_PATH descriptor opens nothing, and fixes the file that the second open gets. */
static int open_memory_file(struct search *search, int folder, const char *name)
{
    int path_only = openat(folder, name, O_PATH | O_CLOEXEC), fd = -1;
    char path[64];

    if (path_only < 0)
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", path_only);
    if (is_new_memory_file(search, path_only))
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    close(path_only);
    return fd;
}

static void search_folder(struct search *search, DIR *folder)
{
    struct dirent *entry;
    int fd;

    while (!search->ended && (entry = readdir(folder))) {
        if (!TAKE(search, descriptors, 1) || !is_named_right(dirfd(folder), entry->d_name) ||
            !TAKE(search, files, 1))
            continue;
        fd = open_memory_file(search, dirfd(folder), entry->d_name);
        if (fd < 0)
            continue;
        read_page(search, fd);
        close(fd);
    }
    search->reading->left_out += search->ended;
}

/* The process's libraries, an array; NULL and errno: it cannot be inspected. */
static json_t *libraries_of(struct reading *reading, pid_t pid)
{
    struct search search = {.reading = reading, .pid = pid, .left = for_one};
    char path[64];
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    folder = opendir(path);
    if (!folder)
        return NULL;
    search.own = own_pid(pid);
    search.libraries = doc_array();
    search_folder(&search, folder);
    closedir(folder);
    return search.libraries;
}

static void add_process(json_t *processes, pid_t pid, json_t *libraries)
{
    json_t *process = doc_object();

    set_number(process, "pid", (uint64_t)pid);
    set_name(process, pid);
    doc_set(process, "libraries", libraries);
    doc_add(processes, process);
}

/* ---- all of them ------------------------------------------------------------------------- */

static pid_t pid_named(const char *name)
{
    char *end;
    long pid = strtol(name, &end, 10);

    return *end || pid < 1 || pid > INT_MAX ? 0 : (pid_t)pid;
}

/* Returns the number of processes that may not be inspected: 0 or 1. */
static unsigned try_process(struct reading *reading, json_t *processes, pid_t pid)
{
    json_t *libraries;

    if (reading->spent) {
        reading->left_out++;
        return 0;
    }
    libraries = libraries_of(reading, pid);

    if (!libraries)
        return errno == EACCES || errno == EPERM;
    if (json_array_size(libraries))
        add_process(processes, pid, libraries);
    else
        json_decref(libraries);
    return 0;
}

static void begin(struct reading *reading)
{
    *reading = (struct reading){.left = for_all, .until = now() + STATS_ALL_SECONDS};
    find_memory(reading);
}

void stats_find_all(json_t *document)
{
    struct reading reading;
    json_t *processes = doc_array();
    DIR *folder = opendir("/proc");
    unsigned unreadable = 0;
    struct dirent *entry;

    begin(&reading);
    while (folder && (entry = readdir(folder)))
        if (pid_named(entry->d_name))
            unreadable += try_process(&reading, processes, pid_named(entry->d_name));
    if (folder)
        closedir(folder);
    doc_set(document, "processes", processes);
    set_number(document, "unreadable", unreadable);
    set_number(document, "left_out", reading.left_out);
}

static bool refuse(char why[512], pid_t pid, int errnum)
{
    if (errnum == EACCES || errnum == EPERM)
        snprintf(why, 512,
                 "process %d may not be inspected: it belongs to another user, or is protected; "
                 "try as root",
                 (int)pid);
    else
        snprintf(why, 512, "there is no process %d", (int)pid);
    return false;
}

bool stats_find_one(json_t *document, pid_t pid, char why[512])
{
    struct reading reading;
    json_t *processes = doc_array(), *libraries;
    int errnum;

    begin(&reading);
    libraries = libraries_of(&reading, pid);
    errnum = errno;
    doc_set(document, "processes", processes);
    set_number(document, "unreadable", 0);
    set_number(document, "left_out", reading.left_out);
    if (!libraries)
        return refuse(why, pid, errnum);
    if (json_array_size(libraries)) {
        add_process(processes, pid, libraries);
        return true;
    }
    json_decref(libraries);
    snprintf(why, 512,
             "process %d publishes no counters: it has not opened libhmreg, has HMREG_STATS=off, "
             "or could not make the memory file",
             (int)pid);
    return false;
}
