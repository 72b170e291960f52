/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Reports processes that registered but could make no trace file, with their number and the reason.
 * They count themselves in a file (preload/untraced.h), which is checked like a trace file.
 */
#include "core/base/own_path.h"
#include "preload/record_layout.h"
#include "tools/document.h"
#include "tools/foreign.h"
#include "tools/run/run.h"

#include <string.h>
#include <unistd.h>

static const struct {
    const char *slug, *text, *remedy;
} steps[RECORD_UNTRACED_STEP_COUNT] = {
    [RECORD_UNTRACED_LIBRARY] =
        {"no-library", "hmreg's libraries could not be loaded",
         "Install them under the same path in the root folder that the process changes to, and "
         "leave 2 MiB for them in its memory limit."},
    [RECORD_UNTRACED_LIMIT] = {"file-limit", "no file of 0.9 MiB may be written (RLIMIT_FSIZE)",
                               "Raise the limit: ulimit -f."},
    [RECORD_UNTRACED_CREATE] =
        {"no-file", "no trace file could be created",
         "Use --dir to name a folder to which the process can still write after it has changed its "
         "root folder or its user: its own folder, or root's with the sticky bit, such as /tmp."},
    [RECORD_UNTRACED_ROOM] =
        {"no-room", "there was no room for a trace file",
         "Each process needs 0.9 MiB: use --dir to name a folder with more room."},
    [RECORD_UNTRACED_MAP] = {"no-mapping", "the trace file could not be mapped",
                             "Raise the limit of its memory: ulimit -v."},
};

void untraced_make(int folder)
{
    const struct record_untraced_file empty = {
        .magic = RECORD_UNTRACED_MAGIC, .version = RECORD_VERSION, .size = sizeof(empty)};
    int fd = own_file_create(folder, RECORD_UNTRACED_FILE);

    if (fd < 0)
        return;
    if (write(fd, &empty, sizeof(empty)) != sizeof(empty))
        unlinkat(folder, RECORD_UNTRACED_FILE, 0);
    close(fd);
}

static json_t *program_of(const struct record_untraced *loss)
{
    char words[sizeof(loss->program) + 1];

    foreign_copy(words, loss->program, sizeof(loss->program));
    return doc_text(words);
}

static json_t *describe(const struct record_untraced *loss)
{
    const char *name = loss->error > 0 ? strerrorname_np(loss->error) : NULL;
    json_t *made = doc_object();

    doc_set(made, "count", doc_made(json_integer(loss->count)));
    doc_set(made, "slug", doc_text(steps[loss->step].slug));
    doc_set(made, "code", doc_made(json_integer(name ? -loss->error : 0)));
    doc_set(made, "name", name ? doc_text(name) : json_null());
    doc_set(made, "text",
            doc_format("%s%s%s", steps[loss->step].text, name ? ": " : "",
                       name ? strerror(loss->error) : ""));
    doc_set(made, "remedy", doc_text(steps[loss->step].remedy));
    doc_set(made, "pid", doc_made(json_integer(loss->pid)));
    doc_set(made, "program", program_of(loss));
    return made;
}

bool untraced_read(int fd, json_t *lost)
{
    struct record_untraced_file file;

    if (pread(fd, &file, sizeof(file), 0) != sizeof(file) || file.magic != RECORD_UNTRACED_MAGIC ||
        file.version != RECORD_VERSION || file.size != sizeof(file))
        return false;
    for (unsigned i = 0; i < RECORD_UNTRACED_MAX; i++) {
        const struct record_untraced *loss = &file.causes[i];

        if (loss->state == RECORD_READY && loss->step > 0 &&
            loss->step < RECORD_UNTRACED_STEP_COUNT && loss->count)
            doc_add(lost, describe(loss));
    }
    return true;
}
