/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The page in which processes without a trace file count themselves, as another process may have
 * left it: what the library in a program adds to it stays in it, and `hmreg run --report` writes a
 * document that is JSON.
 */
#include "preload/untraced.c"

#include "tests/fuzz/targets/read_back.h"
#include "tests/fuzz/targets/target.h"
#include "tools/run/run.h"

static struct {
    char before[64];
    struct record_untraced_file lost;
    char after[64];
} memory;

static const struct record_untraced_file good = {
    .magic = RECORD_UNTRACED_MAGIC,
    .version = RECORD_VERSION,
    .size = sizeof(good),
    .causes = {{.state = RECORD_READY,
                .step = RECORD_UNTRACED_ROOM,
                .error = 28,
                .count = 2,
                .program = "a"},
               {.state = RECORD_BUSY, .step = RECORD_UNTRACED_MAP}},
};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    page = &memory.lost;
    in_memory = true;
    return !freopen("/dev/null", "w", stdout);
}

/* Each counts once, unless the page is another's or is full. */
static void count_some(struct input *input)
{
    unsigned times = input_byte(input) % 80;

    for (unsigned i = 0; i < times; i++)
        hmreg_preload_untraced((enum record_untraced_step)(i % RECORD_UNTRACED_STEP_COUNT),
                               (int)i - 5);
}

static int make_file(size_t size)
{
    int fd = memfd_create("lost", MFD_CLOEXEC);

    PROMISED(fd >= 0 && write(fd, &memory.lost, size) == (ssize_t)size);
    return fd;
}

static void check_memory(void)
{
    for (size_t i = 0; i < sizeof(memory.before); i++)
        PROMISED(!memory.before[i] && !memory.after[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    bool cut = input_byte(&input) & 1;
    json_t *document;
    int fd;

    memory.lost = good;
    count_some(&input);
    input_patch(&input, (uint8_t *)&memory.lost, sizeof(memory.lost));
    input = (struct input){data, size};
    count_some(&input);
    check_memory();
    fd = make_file(cut ? size % sizeof(memory.lost) : sizeof(memory.lost));
    document = report_of_descriptor(fd, "lost");
    PROMISED(json_array_size(json_object_get(document, "lost")) <= RECORD_UNTRACED_MAX);
    must_read_back(document);
    report_print(document);
    json_decref(document);
    close(fd);
    return 0;
}
