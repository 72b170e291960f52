/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See trace_view.h. The file is read, not mapped: a mapping of a file that is truncated meanwhile
 * would raise SIGBUS here. Rows with equal keys, which threads may have made, become one.
 */
#include "tools/run/trace_view.h"

#include "tools/foreign.h"

#include <hmreg/hmreg.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IFACE_UNKNOWN 255

__attribute__((format(printf, 2, 3))) static bool refuse(char why[256], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, 256, format, args);
    va_end(args);
    return false;
}

/* ---- the file ---------------------------------------------------------------------------- */

static bool read_all(int fd, void *to, size_t size, char why[256])
{
    char *at = to;

    for (size_t done = 0; done < size;) {
        ssize_t got = pread(fd, at + done, size - done, (off_t)done);

        if (got < 0 && errno != EINTR)
            return refuse(why, "it cannot be read: %s", strerror(errno));
        if (got == 0)
            return refuse(why, "it has %zu bytes, fewer than its format requires (%zu)", done,
                          size);
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

static bool check_file(int fd, char why[256])
{
    struct stat status;

    if (fstat(fd, &status))
        return refuse(why, "%s", strerror(errno));
    return S_ISREG(status.st_mode) || refuse(why, "it is not a regular file");
}

static bool check_header(int fd, char why[256])
{
    struct record_header header;
    char version[17];

    if (!check_file(fd, why) || !read_all(fd, &header, sizeof(header), why))
        return false;
    if (header.magic != RECORD_MAGIC)
        return refuse(why, "it does not begin like a trace file");
    foreign_copy(version, header.hmreg, sizeof(header.hmreg));
    if (header.version == RECORD_VERSION && header.size == sizeof(struct record_layout))
        return true;
    return refuse(why,
                  "its format is %u with %u bytes, but this command reads format %d with %zu: use "
                  "the command of the process's own hmreg, %s",
                  header.version, header.size, RECORD_VERSION, sizeof(struct record_layout),
                  version);
}

/* ---- what is in it ----------------------------------------------------------------------- */

static void view_header(const struct record_header *from, struct trace_view *to)
{
    to->pid = from->pid;
    to->parent = from->parent;
    to->mode = from->mode;
    to->by = from->by;
    to->ended = from->ended == 1;
    to->began = from->began;
    to->dropped_rows = from->dropped_rows;
    to->dropped_live = from->dropped_live;
    to->dropped_ranges = from->dropped_ranges;
    to->dropped_names = from->dropped_names;
    to->dropped_reasons = from->dropped_reasons;
    to->unknown_ends = from->unknown_ends;
    foreign_copy(to->rank, from->rank, sizeof(from->rank));
    foreign_copy(to->hmreg, from->hmreg, sizeof(from->hmreg));
    foreign_copy(to->program, from->program, sizeof(from->program));
}

static void view_names(const struct record_layout *from, struct trace_view *to)
{
    for (unsigned i = 1; i < RECORD_NAMES; i++)
        if (from->names[i].state == RECORD_READY)
            foreign_copy(to->names[i], from->names[i].text, sizeof(from->names[i].text));
}

/* The first of equal names. Threads may have added a name twice. */
static uint16_t first_name(const struct trace_view *to, uint16_t index)
{
    for (uint16_t i = 1; i < index; i++)
        if (to->names[i][0] && !strcmp(to->names[i], to->names[index]))
            return i;
    return index;
}

/* The element of the reason's slug, or the next one. */
static struct view_reason *reason_of(struct trace_view *to, const char slug[33])
{
    struct view_reason *reason = to->reasons;

    while (reason < to->reasons + to->reason_count && strcmp(reason->slug, slug))
        reason++;
    return reason;
}

static void view_reasons(const struct record_layout *from, struct trace_view *to)
{
    for (unsigned i = 0; i < RECORD_REASONS; i++) {
        const struct record_reason *reason = &from->reasons[i];
        struct view_reason *view;
        char slug[33];

        if (reason->state != RECORD_READY || !reason->count)
            continue;
        foreign_copy(slug, reason->slug, sizeof(reason->slug));
        view = reason_of(to, slug);
        to->reason_count += view == to->reasons + to->reason_count;
        view->count += reason->count;
        memcpy(view->slug, slug, sizeof(slug));
        foreign_copy(view->text, reason->text, sizeof(reason->text));
    }
}

static bool is_valid(const struct record_key *key)
{
    return key->call && key->call < RECORD_CALL_COUNT && key->how && key->how < RECORD_HOW_COUNT &&
           (key->iface < HMREG_IFACE_COUNT || key->iface == IFACE_UNKNOWN) &&
           key->path < HMREG_PATH_COUNT && key->size <= 64 && key->rights < RECORD_RIGHTS_COUNT &&
           key->module < RECORD_NAMES && key->nic < RECORD_NAMES && key->device >= -1 &&
           key->error >= 0;
}

static struct view_row *row_of_key(struct trace_view *to, const struct record_key *recorded)
{
    struct record_key named = *recorded, *key = &named;

    named.module = first_name(to, recorded->module);
    named.nic = first_name(to, recorded->nic);
    for (unsigned i = 0; i < to->row_count; i++)
        if (!memcmp(&to->rows[i].key, key, sizeof(*key)))
            return &to->rows[i];
    to->rows[to->row_count].key = *key;
    return &to->rows[to->row_count++];
}

static void add_row(struct view_row *to, const struct record_row *from)
{
    uint64_t longest = from->longest_ns;

    to->count += from->count;
    to->bytes += from->bytes;
    to->ns += from->ns;
    to->longest_ns = longest > to->longest_ns ? longest : to->longest_ns;
    to->ends += from->ends;
    to->end_ns += from->end_ns;
    to->end_failures += from->end_failures;
    to->freed += from->freed;
    to->looked += from->looked;
}

/* places: of each row of the file, its index in the view; RECORD_ROWS: it has none. */
static void view_rows(const struct record_layout *from, struct trace_view *to,
                      unsigned places[RECORD_ROWS])
{
    for (unsigned i = 0; i < RECORD_ROWS; i++) {
        const struct record_row *row = &from->rows[i];

        places[i] = RECORD_ROWS;
        if (row->state != RECORD_READY || !is_valid(&row->key))
            continue;
        struct view_row *view = row_of_key(to, &row->key);

        add_row(view, row);
        places[i] = (unsigned)(view - to->rows);
    }
}

static void view_live(const struct record_layout *from, struct trace_view *to,
                      const unsigned places[RECORD_ROWS])
{
    for (unsigned i = 0; i < RECORD_LIVE; i++) {
        const struct record_live *live = &from->live[i];
        uint32_t row = live->row;

        if (live->handle <= 1)
            continue;
        to->live++;
        to->live_bytes += live->len;
        if (row >= RECORD_ROWS || places[row] == RECORD_ROWS)
            continue;
        to->rows[places[row]].live++;
        to->rows[places[row]].live_bytes += live->len;
        to->rows[places[row]].live_freed += live->freed == 1;
    }
}

static void view_ranges(const struct record_layout *from, struct trace_view *to,
                        const unsigned places[RECORD_ROWS])
{
    for (unsigned i = 0; i < RECORD_RANGES; i++) {
        const struct record_range *range = &from->ranges[i];
        uint64_t row = range->row;

        if (range->tag <= 1 || range->count <= 1)
            continue;
        to->again += range->count - 1;
        to->again_ns += range->again_ns;
        to->ranges[to->range_count++] = (struct view_range){
            range->addr, range->len, range->count, range->again_ns,
            row < RECORD_ROWS && places[row] < RECORD_ROWS ? places[row] : to->row_count};
    }
}

struct trace_view *trace_view_read(int fd, char why[256])
{
    struct record_layout *copy = NULL;
    struct trace_view *view = NULL;
    unsigned places[RECORD_ROWS];

    if (!check_header(fd, why))
        return NULL;
    copy = malloc(sizeof(*copy));
    view = calloc(1, sizeof(*view));
    if (!copy || !view) {
        refuse(why, "no memory");
    } else if (read_all(fd, copy, sizeof(*copy), why)) {
        view_header(&copy->header, view);
        view_names(copy, view);
        view_reasons(copy, view);
        view_rows(copy, view, places);
        view_live(copy, view, places);
        view_ranges(copy, view, places);
        free(copy);
        return view;
    }
    free(copy);
    free(view);
    return NULL;
}
