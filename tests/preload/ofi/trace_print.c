/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Prints what trace files say, a line for each fact, with its count at the end, for the scripts of
 * this folder:
 *
 *     trace_print FILE...
 *     registered CALL HOW IFACE PATH read|written|remote ERROR COUNT
 *     ended COUNT / live COUNT / unknown COUNT / again COUNT / reason SLUG COUNT
 */
#include "preload/record_layout.h"

#include <fcntl.h>
#include <hmreg/hmreg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *const hows[RECORD_HOW_COUNT] = {
    [RECORD_PASSED] = "passed", [RECORD_MADE] = "made"};

static const char *name_of(const char *const *names, unsigned count, unsigned at)
{
    return at < count && names[at] ? names[at] : "?";
}

/* iface 255: none knew the memory. */
static const char *iface_of(unsigned iface)
{
    return iface == 255 ? "unknown" : hmreg_iface_name((enum hmreg_iface)iface);
}

static void print_rows(const struct record_layout *file)
{
    static const char *const rights[] = {"read", "written", "remote"};
    unsigned long long ended = 0, live = 0;

    for (unsigned i = 0; i < RECORD_ROWS; i++) {
        const struct record_row *row = &file->rows[i];

        if (row->state != RECORD_READY)
            continue;
        printf("registered %s %s %s %s %s %d %llu\n", record_call_name(row->key.call),
               name_of(hows, RECORD_HOW_COUNT, row->key.how), iface_of(row->key.iface),
               hmreg_path_name((enum hmreg_path)row->key.path),
               rights[row->key.rights % RECORD_RIGHTS_COUNT], (int)row->key.error,
               (unsigned long long)row->count);
        ended += row->ends;
    }
    for (unsigned i = 0; i < RECORD_LIVE; i++)
        live += file->live[i].handle != 0;
    printf("ended %llu\nlive %llu\n", ended, live);
}

static void print(const struct record_layout *file)
{
    unsigned long long again = 0;

    print_rows(file);
    for (unsigned i = 0; i < RECORD_RANGES; i++)
        again += file->ranges[i].count > 1 ? file->ranges[i].count - 1 : 0;
    for (unsigned i = 0; i < RECORD_REASONS; i++)
        if (file->reasons[i].state == RECORD_READY)
            printf("reason %s %llu\n", file->reasons[i].slug,
                   (unsigned long long)file->reasons[i].count);
    printf("unknown %llu\nagain %llu\n", (unsigned long long)file->header.unknown_ends, again);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        int fd = open(argv[i], O_RDONLY | O_CLOEXEC);
        const struct record_layout *file =
            fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*file), PROT_READ, MAP_SHARED, fd, 0);

        if (file == MAP_FAILED || file->header.magic != RECORD_MAGIC) {
            fprintf(stderr, "%s: not a trace file\n", argv[i]);
            return 1;
        }
        print(file);
        close(fd);
    }
    return 0;
}
