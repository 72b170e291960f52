/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See bypass.h.
 */
#include "core/monitor/memhooks/bypass.h"

#include "core/base/linker_list.h"
#include "core/patch/modules.h"

#include <string.h>

struct bypass {
    const char *what, *file;
};

static int look_for_mark(const struct module *module, void *arg)
{
    static const char *const marks[][2] = {
        {"__asan_init", "AddressSanitizer"},
        {"__hwasan_init", "HWAddressSanitizer"},
        {"__tsan_init", "ThreadSanitizer"},
        {"__msan_init", "MemorySanitizer"},
        {"__lsan_init", "LeakSanitizer"},
        {"__memprof_init", "MemProf"},
        /* Exported by every allocator made of the sanitizers' parts: Scudo up to LLVM 14,
         * DataFlowSanitizer. */
        {"__sanitizer_get_current_allocated_bytes", "the sanitizers' allocator"},
        {"_cgo_topofstack", "a Go runtime"}, /* present even if the linker writes no note */
    };
    struct bypass *bypass = arg;

    for (size_t i = 0; module && i < sizeof(marks) / sizeof(marks[0]); i++) {
        if (!module_function(module, marks[i][0], 0))
            continue;
        *bypass = (struct bypass){marks[i][1], module->file};
        return 1;
    }
    return 0;
}

/* Go's linker leaves a note, whose owner is "Go". */
static bool has_gos_note(const char *notes, size_t size)
{
    const ElfW(Nhdr) * note;

    for (size_t at = 0; at + sizeof(*note) <= size;) {
        size_t name = at + sizeof(*note);

        note = (const void *)(notes + at);
        if (note->n_namesz == 4 && name + 4 <= size && memcmp(notes + name, "Go\0", 4) == 0)
            return true;
        at = name + ((note->n_namesz + 3) & ~3u) + ((note->n_descsz + 3) & ~3u);
    }
    return false;
}

static int look_for_go(struct dl_phdr_info *file, size_t size, void *arg)
{
    struct bypass *bypass = arg;

    for (int i = 0; i < file->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &file->dlpi_phdr[i];

        if (segment->p_type != PT_NOTE ||
            !has_gos_note((const char *)(file->dlpi_addr + segment->p_vaddr), segment->p_memsz))
            continue;
        *bypass = (struct bypass){"a Go runtime", file->dlpi_name ? file->dlpi_name : ""};
        return 1;
    }
    return 0;
}

const char *bypass_find(const char **file)
{
    struct bypass bypass = {.what = NULL};

    if (!modules_each(look_for_mark, &bypass))
        (void)linker_list_read(look_for_go, &bypass);
    *file = bypass.file;
    return bypass.what;
}
