/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See room_text.h.
 */
#include "core/cache/room_text.h"

#include "core/base/error.h"
#include "core/cache/locked.h"
#include "core/mr/explain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

struct text {
    char words[sizeof(((struct hmreg_explanation *)0)->room_why)];
    size_t length;
};

static __attribute__((format(printf, 2, 3))) void add(struct text *text, const char *format, ...)
{
    size_t left = sizeof(text->words) - text->length;
    va_list args;
    int added;

    va_start(args, format);
    added = vsnprintf(text->words + text->length, left, format, args);
    va_end(args);
    if (added > 0)
        text->length += (size_t)added < left ? (size_t)added : left - 1;
}

static void add_short(struct text *text, const struct room *room)
{
    static const char *const names[ROOM_KINDS] = {
        [ROOM_LOCKED] = "locked memory",
        [ROOM_FILES] = "a descriptor or mapping of the process",
        [ROOM_NIC] = "the NIC's space for regions",
        [ROOM_DEVICE] = "the device's window for other devices (BAR1)",
        [ROOM_DOMAIN] = "a key of the domain",
    };
    const char *before = "";

    add(text, "the registration is short of ");
    for (unsigned kind = 0; kind < ROOM_KINDS; kind++) {
        if (!(room->kinds >> kind & 1))
            continue;
        add(text, "%s%s", before, names[kind]);
        if (kind == ROOM_LOCKED)
            add(text, " (it locks %" PRIu64 " bytes; RLIMIT_MEMLOCK is %" PRIu64 ")", room->locks,
                locked_limit());
        before = " or ";
    }
}

static void add_holder(struct text *text, const struct room_holder *holder)
{
    add(text, "%.64s%s%.63s", holder->fabric, *holder->nic ? " " : "", holder->nic);
    if (holder->regions)
        add(text, ": %" PRIu64 " cached of %" PRIu64 " bytes", holder->regions, holder->bytes);
    if (holder->explicit)
        add(text, "%s %u explicit", holder->regions ? "," : ":", holder->explicit);
}

static void add_holders(struct text *text, const struct room_holders *holders)
{
    unsigned named = holders->count < ROOM_HOLDERS ? holders->count : ROOM_HOLDERS;

    if (!named) {
        add(text, "; no region of this process holds any of it");
        return;
    }
    add(text, "; in use by regions of ");
    for (unsigned i = 0; i < named; i++) {
        add(text, "%s", i ? "; of " : "");
        add_holder(text, &holders->list[i]);
    }
    if (holders->count > named)
        add(text, "; of %u more domains", holders->count - named);
}

static void add_late(struct text *text, const struct room *room)
{
    if (room->stuck)
        add(text, "; idle regions end late, because the fabric has not returned to hmreg's "
                  "deregistering thread: try again later");
    else if (room->promised)
        add(text, "; a domain that only its own threads may call ends idle regions at its next "
                  "call, such as hmreg_domain_progress(): try again after it");
}

void room_tell(const struct room *room, int rc, const struct room_holders *holders)
{
    struct text text = {.length = 0};
    struct hmreg_error before;

    hmreg_error_save(&before);
    add_short(&text, room);
    add_late(&text, room); /* before what long names may cut */
    add_holders(&text, holders);
    if (rc != -EOPNOTSUPP) /* else the reasons of this failure are kept already */
        explain_keep(room->found->iface, room->found->range.device, NULL, 0);
    explain_keep_room(text.words);
    hmreg_fail_vendor(rc, before.source, before.vendor_code, before.vendor_text, "%s; %s",
                      before.text, text.words);
}
