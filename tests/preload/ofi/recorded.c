/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See recorded.h.
 */
#include "tests/preload/ofi/recorded.h"

#include "preload/record.h"

#include <hmreg/hmreg.h>
#include <string.h>

struct counts recorded(const struct counts *before)
{
    const struct record_layout *file = record_file();
    struct counts counts = {.unknown = file->header.unknown_ends};

    for (unsigned i = 0; i < RECORD_ROWS; i++) {
        const struct record_row *row = &file->rows[i];

        if (row->state != RECORD_READY)
            continue;
        *(row->key.how == RECORD_PASSED ? &counts.passed : &counts.made) += row->count;
        if (row->key.how == RECORD_PASSED && row->key.path == HMREG_PATH_PEERMEM)
            counts.peermem += row->count;
        counts.ends += row->ends;
        counts.failures += row->end_failures;
    }
    for (unsigned i = 0; i < RECORD_RANGES; i++)
        counts.again += file->ranges[i].count > 1 ? file->ranges[i].count - 1 : 0;
    for (size_t i = 0; before && i < sizeof(counts) / sizeof(uint64_t); i++)
        ((uint64_t *)&counts)[i] -= ((const uint64_t *)before)[i];
    return counts;
}

uint64_t of_nic(const char *name)
{
    const struct record_layout *file = record_file();
    uint64_t count = 0;

    for (unsigned i = 0; i < RECORD_ROWS; i++)
        if (file->rows[i].state == RECORD_READY &&
            !strcmp(file->names[file->rows[i].key.nic].text, name))
            count += file->rows[i].count;
    return count;
}

uint64_t reason(const char *slug)
{
    const struct record_layout *file = record_file();

    for (unsigned i = 0; i < RECORD_REASONS; i++)
        if (file->reasons[i].state == RECORD_READY && !strcmp(file->reasons[i].slug, slug))
            return file->reasons[i].count;
    return 0;
}
