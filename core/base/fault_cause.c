/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See fault_cause.h. The kernel pins pages in the order of their addresses, and faults missing ones
 * in. So the first mapping with a cause stopped it, and the first page that is not present is the
 * one that it could not get.
 *
 * This runs in a program that may have much memory and many mappings. smaps counts the pages of
 * each mapping that it prints, with the lock held that mmap(2) needs: 12 ms for a GiB of small
 * pages. So smaps is read only up to RESIDENT_MOST and MAPPINGS_MOST; beyond, the list without
 * flags is read, which shows most causes. pagemap costs 20 us for 512 pages, and LOOKS_MOST bounds
 * that.
 */
#include "core/base/fault_cause.h"

#include "core/base/error.h"
#include "core/base/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define RESIDENT_MOST    ((uint64_t)4 << 30) /* bytes */
#define MAPPINGS_MOST    4096                /* 5 us each */
#define FILES_MOST       8                   /* in the ranges */
#define DESCRIPTORS_MOST 4096
#define LOOKS_MOST       32768 /* one: 0.6 us */
#define PAGES_AT_ONCE    128   /* on the stack of a thread of the program */
#define LOOKS_AT_ONCE    8

#define PAGEMAP_PRESENT ((uint64_t)1 << 63)
#define PAGEMAP_SWAPPED ((uint64_t)1 << 62) /* or poisoned */

struct mapping {
    uint64_t start, end, offset, inode;
    unsigned major, minor;
    bool readable, writable, shared;
    /* From smaps alone: */
    uint64_t page_kib; /* 0: not known */
    char flags[160];   /* words of two letters; "": not known */
    char name[512];
};

struct look {
    bool written;
    bool detailed;  /* list is smaps */
    bool corrupted; /* the machine has poisoned pages */
    unsigned kernel;
    struct maps list;
    unsigned count, files, looks; /* mappings, files and pages examined */
    struct mapping mapping;
    uint64_t from, to; /* the part of a range that is judged; whole pages */
    char *text;
};

/* ---- texts of the kernel ---------------------------------------------------------------- */

static bool say(const struct look *look, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool say(const struct look *look, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    text_write_args(look->text, FAULT_CAUSE_BYTES, format, args);
    va_end(args);
    return true;
}

/* The number after these words, at the beginning of a line. 0: there is none. */
static uint64_t read_number(const char *path, const char *words)
{
    struct maps text;
    uint64_t number = 0;
    char line[128];

    maps_begin(&text, NULL);
    if (maps_open(&text, path))
        return 0;
    while (maps_read_line(&text, line, sizeof(line)) > 0)
        if (!strncmp(line, words, strlen(words))) {
            number = strtoull(line + strlen(words), NULL, 10);
            break;
        }
    maps_end(&text);
    return number;
}

/* The second number of statm. */
static uint64_t resident_bytes(void)
{
    struct maps text;
    uint64_t pages = UINT64_MAX;
    char line[128];

    maps_begin(&text, NULL);
    if (maps_open(&text, "/proc/thread-self/statm"))
        return UINT64_MAX;
    if (maps_read_line(&text, line, sizeof(line)) > 0)
        sscanf(line, "%*u %" SCNu64, &pages);
    maps_end(&text);
    return pages == UINT64_MAX ? pages : pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

#define KERNEL(major, minor) ((major)*1000u + (minor))

/* This kernel's version; 0: unknown. */
static unsigned kernel_version(void)
{
    unsigned major = 0, minor = 0;
    struct maps text;
    char line[128];

    maps_begin(&text, NULL);
    if (maps_open(&text, "/proc/sys/kernel/osrelease"))
        return 0;
    if (maps_read_line(&text, line, sizeof(line)) > 0)
        sscanf(line, "%u.%u", &major, &minor);
    maps_end(&text);
    return KERNEL(major, minor);
}

/* The type of the file system with that device, from mountinfo: "36 35 98:0 / /mnt rw - ext4 ...".
 * "": it is not mounted here; memfds never are. */
static void find_type(const struct mapping *mapping, char type[32])
{
    struct maps text;
    char line[1024];

    *type = '\0';
    maps_begin(&text, NULL);
    if (maps_open(&text, "/proc/thread-self/mountinfo"))
        return;
    while (!*type && maps_read_line(&text, line, sizeof(line)) > 0) {
        const char *at = strstr(line, " - ");
        unsigned major, minor;

        if (at && sscanf(line, "%*u %*u %u:%u", &major, &minor) == 2 && major == mapping->major &&
            minor == mapping->minor)
            sscanf(at + 3, "%31s", type);
    }
    maps_end(&text);
}

/* ---- the file --------------------------------------------------------------------------- */

static bool is_one_of(const char *type, const char *const types[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strncmp(type, types[i], strlen(types[i])))
            return true;
    return false;
}

/* A server may never answer. */
static bool is_remote(const char *type)
{
    static const char *const remote[] = {"nfs", "cifs", "smb3", "ceph",
                                         "9p",  "afs",  "fuse", "lustre"};

    return is_one_of(type, remote, sizeof(remote) / sizeof(remote[0]));
}

/* Are the file system's pages memory that is never written back? */
static bool is_in_memory(const char *type)
{
    static const char *const memory[] = {"tmpfs", "ramfs", "hugetlbfs", "devtmpfs"};

    return is_one_of(type, memory, sizeof(memory) / sizeof(memory[0]));
}

static bool ask(int folder, const char *path, int flags, struct stat *out)
{
    return !fstatat(folder, path, out, flags | AT_NO_AUTOMOUNT) && S_ISREG(out->st_mode);
}

/* Finds the mapping's file by its name, which the program may have removed, else by a descriptor of
 * this process. By name the device is not compared: overlayfs and btrfs report to stat(2) another
 * device than the list has. */
static bool find_file(const struct mapping *mapping, struct stat *out)
{
    char type[32];

    find_type(mapping, type);
    if (is_remote(type))
        return false;
    if (ask(AT_FDCWD, mapping->name, 0, out) && out->st_ino == mapping->inode)
        return true;
    for (int fd = 0; fd < DESCRIPTORS_MOST; fd++)
        if (ask(fd, "", AT_EMPTY_PATH, out) && out->st_ino == mapping->inode &&
            out->st_dev == makedev(mapping->major, mapping->minor))
            return true;
    return false;
}

/* ---- one mapping ------------------------------------------------------------------------ */

static bool has_flag(const struct mapping *mapping, const char *flag)
{
    return strstr(mapping->flags, flag);
}

static bool begins(const char *name, const char *with)
{
    return !strncmp(name, with, strlen(with));
}

/* Memory whose pages the kernel never pins. */
static bool has_no_pages(const struct look *look)
{
    const struct mapping *mapping = &look->mapping;

    if (begins(mapping->name, "anon_inode:[perf_event]"))
        return say(look,
                   "%#" PRIx64 " is in a ring of perf_event_open(2): the kernel does not pin it; "
                   "copy it to other memory",
                   look->from);
    if (begins(mapping->name, "/secretmem"))
        return say(look,
                   "%#" PRIx64 " is secret memory (memfd_secret): the kernel pins it for no "
                   "device; use other memory",
                   look->from);
    if (has_flag(mapping, "io") || has_flag(mapping, "pf"))
        return say(look,
                   "%#" PRIx64 " is a device's memory (a PCI BAR, VM_PFNMAP) and has no pages to "
                   "pin: register a dmabuf of it, if its driver exports one",
                   look->from);
    return false;
}

static bool lacks_right(const struct look *look)
{
    const struct mapping *mapping = &look->mapping;

    if (!mapping->readable && !mapping->writable)
        return say(look, "%#" PRIx64 " is mapped without rights (PROT_NONE)", look->from);
    if (look->written && !mapping->writable)
        return say(look, "%#" PRIx64 " is mapped read-only, but the access includes writing",
                   look->from);
    if (!look->written && mapping->shared && !mapping->writable && look->kernel &&
        look->kernel < KERNEL(6, 2))
        return say(look,
                   "%#" PRIx64 " is mapped shared and read-only, and before Linux 6.2 the kernel "
                   "pins for writing: map it writable, or private",
                   look->from);
    return false;
}

/* Since Linux 6.5 the kernel does not pin pages for long and for writing if a file system writes
 * them back. */
static bool is_written_back(const struct look *look)
{
    const struct mapping *mapping = &look->mapping;
    char type[32];

    if (!look->written || !mapping->shared || !mapping->inode || look->kernel < KERNEL(6, 5))
        return false;
    find_type(mapping, type);
    if (!*type || is_in_memory(type))
        return false;
    return say(look,
               "%#" PRIx64 " is in a shared mapping of a file on %s; since Linux 6.5 the kernel "
               "pins such pages for reading only: use tmpfs, or private memory",
               look->from, type);
}

/* *end: the address in the mapping where the file ends, in whole pages. False: unknown. */
static bool end_of_file(struct look *look, struct stat *file, uint64_t *end)
{
    const struct mapping *mapping = &look->mapping;
    uint64_t page = mapping->page_kib ? mapping->page_kib << 10 : (uint64_t)sysconf(_SC_PAGESIZE);

    if (!mapping->inode || ++look->files > FILES_MOST || !find_file(mapping, file))
        return false;
    *end = (file->st_size + page - 1) & ~(page - 1);
    *end = mapping->start + (*end > mapping->offset ? *end - mapping->offset : 0);
    return true;
}

/* ---- pages ------------------------------------------------------------------------------ */

/* The first page that is not present, and its entry. */
static bool find_absent(struct look *look, uint64_t *at, uint64_t *entry)
{
    uint64_t small = (uint64_t)sysconf(_SC_PAGESIZE), entries[PAGES_AT_ONCE];
    uint64_t page = has_flag(&look->mapping, "ht") ? look->mapping.page_kib << 10 : small;
    uint64_t most = page > small ? 1 : PAGES_AT_ONCE;
    unsigned cost = page > small ? 1 : LOOKS_AT_ONCE;
    struct maps file;
    bool found = false;

    maps_begin(&file, NULL);
    if (maps_open(&file, "/proc/thread-self/pagemap"))
        return false;
    for (*at = look->from & ~(page - 1); *at < look->to && !found && look->looks < LOOKS_MOST;
         look->looks += cost) {
        uint64_t count = (look->to - *at + page - 1) / page, i;

        count = count < most ? count : most;
        if (lseek(file.fd, (off_t)(*at / small * sizeof(entries[0])), SEEK_SET) < 0 ||
            read(file.fd, entries, count * sizeof(entries[0])) !=
                (ssize_t)(count * sizeof(entries[0])))
            break;
        for (i = 0; i < count && entries[i] & PAGEMAP_PRESENT; i++)
            *at += page;
        found = i < count;
        *entry = found ? entries[i] : 0;
    }
    maps_end(&file);
    *at = *at > look->from ? *at : look->from; /* the range may begin within a huge page */
    return found;
}

/* pagemap does not show that a huge page is poisoned, but then the page table has an entry. */
static bool has_entry(uint64_t at)
{
    unsigned char there = 0;

    return !mincore((void *)(uintptr_t)at, 1, &there) && there & 1;
}

static bool no_huge_page(const struct look *look, uint64_t at)
{
    uint64_t size = look->mapping.page_kib, free, reserved;
    char path[96];

    snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%" PRIu64 "kB/free_hugepages",
             size);
    free = read_number(path, "");
    snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%" PRIu64 "kB/resv_hugepages",
             size);
    reserved = read_number(path, "");
    if (free > reserved)
        return say(look,
                   "no huge page of %" PRIu64 " KiB for %#" PRIx64 ", though %" PRIu64
                   " are free: look at its cgroup's limit, its mount's size and the NUMA policy",
                   size, at, free - reserved);
    return say(look,
               "no huge page of %" PRIu64 " KiB is left for %#" PRIx64
               ": raise nr_hugepages, and map without MAP_NORESERVE",
               size, at);
}

/* A page that the kernel could not provide. */
static bool is_absent(struct look *look)
{
    bool huge = has_flag(&look->mapping, "ht") && look->mapping.page_kib;
    bool served = has_flag(&look->mapping, "um") || has_flag(&look->mapping, "ui");
    uint64_t at, entry;

    if (huge && look->corrupted && maps_is_read_only())
        return false; /* mincore(2) decides between two causes */
    if ((!huge && !served && !look->corrupted) || !find_absent(look, &at, &entry))
        return false;
    if (look->corrupted && (huge ? has_entry(at) : (entry & PAGEMAP_SWAPPED) != 0))
        return say(look,
                   "the page at %#" PRIx64 " is poisoned after a memory error of the machine: map "
                   "another page there; dmesg says more",
                   at);
    if (entry & PAGEMAP_SWAPPED)
        return false;
    if (served)
        return say(look,
                   "the page at %#" PRIx64 " is missing, and its userfaultfd does not answer the "
                   "kernel (UFFD_USER_MODE_ONLY, _SIGBUS): touch it first",
                   at);
    return huge && no_huge_page(look, at);
}

/* ---- the list --------------------------------------------------------------------------- */

static bool judge(struct look *look)
{
    uint64_t end = 0, to = look->to;
    struct stat file = {0};
    bool is_short;

    if (has_no_pages(look) || lacks_right(look) || is_written_back(look))
        return true;
    is_short = end_of_file(look, &file, &end) && end < to;
    if (is_short)
        look->to = end;
    if (is_absent(look))
        return true;
    return is_short && say(look,
                           "%#" PRIx64 " is beyond the end of the mapped file, which has %" PRIu64
                           " bytes: extend it (ftruncate), or register less",
                           end > look->from ? end : look->from, (uint64_t)file.st_size);
}

/* Copies as much as fits. */
static void copy(char *to, size_t size, const char *from)
{
    size_t len = strnlen(from, size - 1);

    memcpy(to, from, len);
    to[len] = '\0';
}

static bool parse(const char *line, struct mapping *out)
{
    char rights[5] = "";
    int name = (int)strlen(line);

    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &out->start,
               &out->end, rights, &out->offset, &out->major, &out->minor, &out->inode, &name) != 7)
        return false;
    out->readable = rights[0] == 'r';
    out->writable = rights[1] == 'w';
    out->shared = rights[3] == 's';
    copy(out->name, sizeof(out->name), line + name);
    return true;
}

/* Reads the lines of smaps below a mapping's own. The last has the flags. */
static void read_details(struct look *look, char *line, unsigned size)
{
    static const char page[] = "KernelPageSize:", flags[] = "VmFlags:";
    struct mapping *mapping = &look->mapping;

    while (maps_read_line(&look->list, line, size) > 0) {
        if (begins(line, page))
            mapping->page_kib = strtoull(line + sizeof(page) - 1, NULL, 10);
        if (begins(line, flags)) {
            copy(mapping->flags, sizeof(mapping->flags), line + sizeof(flags) - 1);
            return;
        }
    }
}

/* 1: read; 0: end of the list; or a negative error number. */
static int next(struct look *look)
{
    char line[768];
    int rc = maps_read_line(&look->list, line, sizeof(line));

    if (rc <= 0)
        return rc;
    look->mapping.page_kib = 0;
    look->mapping.flags[0] = '\0';
    if (!parse(line, &look->mapping))
        return -EPROTO;
    if (look->detailed)
        read_details(look, line, sizeof(line));
    return ++look->count > MAPPINGS_MOST && look->detailed ? -E2BIG : 1;
}

static uint64_t whole_pages(uint64_t at)
{
    return at & ~((uint64_t)sysconf(_SC_PAGESIZE) - 1);
}

static uint64_t end_of(const struct iovec *iov)
{
    uint64_t end = (uint64_t)(uintptr_t)iov->iov_base + iov->iov_len;

    return whole_pages(end + (uint64_t)sysconf(_SC_PAGESIZE) - 1);
}

/* The part of a range that is in [start, end). */
static bool cut(struct look *look, const struct iovec *iov, uint64_t start, uint64_t end)
{
    look->from = whole_pages((uint64_t)(uintptr_t)iov->iov_base);
    look->from = look->from > start ? look->from : start;
    look->to = end_of(iov);
    look->to = look->to < end ? look->to : end;
    return look->from < look->to;
}

/* Is a part of a range between two mappings? */
static bool is_hole(struct look *look, const struct iovec *iov, size_t count, uint64_t start,
                    uint64_t end)
{
    for (size_t i = 0; i < count; i++)
        if (cut(look, &iov[i], start, end))
            return say(look, "nothing is mapped at %#" PRIx64, look->from);
    return false;
}

/* 1: the first mapping with a cause was found; 0: none has a cause; or a negative error number: the
 * list could not be read. */
static int find_cause(struct look *look, const struct iovec *iov, size_t count)
{
    uint64_t above = 0, last = 0; /* ends of the last mapping, and of all ranges */
    int rc = 0;

    for (size_t i = 0; i < count; i++)
        last = end_of(&iov[i]) > last ? end_of(&iov[i]) : last;
    while (above < last && (rc = next(look)) > 0) {
        if (is_hole(look, iov, count, above, look->mapping.start))
            return 1;
        above = look->mapping.end;
        for (size_t i = 0; i < count; i++)
            if (cut(look, &iov[i], look->mapping.start, above) && judge(look))
                return 1;
    }
    return rc < 0 ? rc : is_hole(look, iov, count, above, UINT64_MAX);
}

static int read_list(struct look *look, const char *path, const struct iovec *iov, size_t count)
{
    int rc;

    look->count = look->files = look->looks = 0;
    maps_begin(&look->list, NULL);
    rc = maps_open(&look->list, path);
    rc = rc ? rc : find_cause(look, iov, count);
    maps_end(&look->list);
    return rc;
}

bool hmreg_fault_cause(const struct iovec *iov, size_t count, bool written,
                       char text[FAULT_CAUSE_BYTES])
{
    struct look look = {.written = written, .text = text};
    int rc = -E2BIG;

    *text = '\0';
    look.corrupted = read_number("/proc/meminfo", "HardwareCorrupted:") > 0;
    look.kernel = kernel_version();
    look.detailed = resident_bytes() <= RESIDENT_MOST;
    if (look.detailed)
        rc = read_list(&look, "/proc/thread-self/smaps", iov, count);
    look.detailed = false;
    if (rc < 0)
        rc = read_list(&look, "/proc/thread-self/maps", iov, count);
    return rc > 0;
}
