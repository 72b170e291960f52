/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A trace file, or the file of processes without one, that is what the bytes make of a good one:
 * `hmreg run --report` reads it and writes a document that is JSON, whatever the file says.
 */
#include "preload/record_layout.h"
#include "tests/fuzz/targets/target.h"
#include "tools/document.h"
#include "tools/run/run.h"
#include "tools/run/trace_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct record_layout good;
static struct record_untraced_file good_lost;

static void make_good(void)
{
    good.header = (struct record_header){
        .magic = RECORD_MAGIC,
        .version = RECORD_VERSION,
        .size = sizeof(struct record_layout),
        .pid = 1,
        .mode = RECORD_MODE_GPU,
        .began = INT64_C(1763884800000000000),
        .rank = "3",
        .hmreg = "0.1.0",
        .program = "/usr/bin/program",
    };
    good.names[1] = (struct record_name){RECORD_READY, "/usr/bin/program"};
    good.names[2] = (struct record_name){RECORD_READY, "rxe0"};
    good.reasons[0] =
        (struct record_reason){.state = RECORD_READY, .count = 2, .slug = "a", .text = "A."};
    good.rows[0] = (struct record_row){
        .state = RECORD_READY,
        .key = {RECORD_REG_MR, RECORD_PASSED, 0, 1, 13, 1, 1, 2, -1, 0},
        .count = 10,
        .bytes = 40960,
        .ns = 1000,
        .ends = 5,
    };
    good.rows[1] = good.rows[0];
    good.rows[2] = (struct record_row){
        .state = RECORD_READY,
        .key = {RECORD_REG_DMABUF_MR, RECORD_MADE, 1, 0, 20, 0, 1, 2, 0, 14},
        .count = 1,
    };
    good.live[0] = (struct record_live){.handle = 4096, .addr = 4096, .len = 4096};
    good_lost = (struct record_untraced_file){
        .magic = RECORD_UNTRACED_MAGIC, .version = RECORD_VERSION, .size = sizeof(good_lost)};
    good_lost.causes[0] = (struct record_untraced){.state = RECORD_READY,
                                                   .step = RECORD_UNTRACED_ROOM,
                                                   .error = 28,
                                                   .count = 2,
                                                   .program = "a"};
    good.ranges[0] = (struct record_range){.tag = 9, .addr = 4096, .len = 4096, .count = 4};
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    make_good();
    return !freopen("/dev/null", "w", stdout);
}

/* Most of the file is empty: pieces are put into its beginning, or into one table's. */
static int make_file(struct input *input, char path[64])
{
    static const size_t places[] = {0,
                                    offsetof(struct record_layout, names),
                                    offsetof(struct record_layout, reasons),
                                    offsetof(struct record_layout, rows),
                                    offsetof(struct record_layout, live),
                                    offsetof(struct record_layout, ranges)};
    uint8_t how = input_byte(input);
    size_t place = places[how % COUNT(places)], room = sizeof(good) - place;
    int fd = memfd_create("trace", MFD_CLOEXEC);
    uint8_t *bytes;

    PROMISED(fd >= 0 && !ftruncate(fd, sizeof(good)));
    bytes = mmap(NULL, sizeof(good), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    PROMISED(bytes != MAP_FAILED);
    memcpy(bytes, &good, sizeof(good));
    if (how & 0x40) {
        memcpy(bytes, &good_lost, sizeof(good_lost));
        place = 0;
        room = sizeof(good_lost);
    }
    input_patch(input, bytes + place, room < 65536 ? room : 65536);
    munmap(bytes, sizeof(good));
    if (how & 0x80)
        PROMISED(!ftruncate(fd, (off_t)(input_number(input, 3) % sizeof(good))));
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

/* What is written must read back. */
static void check_document(const json_t *document)
{
    char *text = json_dumps(document, 0);
    json_t *again = text ? json_loads(text, 0, NULL) : NULL;

    PROMISED(again && json_equal(document, again));
    json_decref(again);
    free(text);
    report_print(document);
}

static void check_view(const struct trace_view *view)
{
    PROMISED(view->row_count <= RECORD_ROWS && view->range_count <= RECORD_RANGES &&
             view->reason_count <= RECORD_REASONS && view->live <= RECORD_LIVE);
    for (unsigned i = 0; i < view->row_count; i++) {
        const struct record_key *key = &view->rows[i].key;

        PROMISED(key->call < RECORD_CALL_COUNT && key->path < HMREG_PATH_COUNT &&
                 key->module < RECORD_NAMES && key->nic < RECORD_NAMES && key->size <= 64);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    char path[64], why[256] = "";
    int fd = make_file(&input, path);
    struct trace_view *view = trace_view_read(fd, why);
    json_t *document;

    if (view)
        check_view(view);
    else
        PROMISED(why[0] && strlen(why) < sizeof(why));
    free(view);
    document = report_of_descriptor(fd, path);
    check_document(document);
    json_decref(document);
    close(fd);
    return 0;
}
