/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the program can observe of itself: its number of mappings, the kernel's data about those of
 * its areas, its signals and limits. Mappings that only a monitor's watch separates are counted,
 * but are one in the layout; the layout shows which memory a userfaultfd watches when nothing is
 * cached.
 */
#include "tests/differential/acts.h"

#include "tests/differential/beside.h"
#include "tests/differential/space.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#define TRIES        (TEST_PATIENCE_SECONDS * 100) /* times 10 ms */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

char *observe_detail;

static char text[4 << 20];

static size_t read_all(const char *file)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t got = 1;

    while (fd >= 0 && got > 0 && len < sizeof(text) - 1) {
        got = read(fd, text + len, sizeof(text) - 1 - len);
        len += got > 0 ? (size_t)got : 0;
    }
    if (fd < 0 || got < 0)
        abort();
    close(fd);
    text[len] = '\0';
    return len;
}

/* ---- the layout ------------------------------------------------------------------------- */

struct part {
    uint64_t start, end;
    uint64_t offset; /* of a file, less the address; 0 */
    char rights[8];
    char flags[128];
    uint64_t rss, huge; /* KiB; "Locked" depends on other processes that share pages */
};

struct layout {
    bool everywhere; /* also outside the areas; then parts are only counted */
    bool watches;    /* shows userfaultfds */
    size_t used;     /* of observe_detail */
    struct part last;
    struct outcome *out;
    bool watched; /* by a userfaultfd that is not the program's */
};

static unsigned area_of(const struct part *part)
{
    return (unsigned)(space_offset((void *)(uintptr_t)part->start) / SPACE_SPACING);
}

/* Adds to the outcome's digest, and to the text that explains it. */
static void end_part(struct layout *layout)
{
    struct part *part = &layout->last;
    size_t room = sizeof(((struct trace *)0)->detail) - layout->used;
    int len;

    if (!part->end)
        return;
    if (layout->everywhere) {
        layout->out->value++;
        *part = (struct part){0};
        return;
    }
    len = snprintf(
        observe_detail + layout->used, room,
        "  %#" PRIx64 "-%#" PRIx64 " %s+%" PRIx64 "%s: %" PRIu64 " KiB, huge %" PRIu64 "\n",
        space_offset((void *)(uintptr_t)part->start), space_offset((void *)(uintptr_t)part->end),
        part->rights, part->offset, part->flags, part->rss, part->huge);
    if (len < 0 || (size_t)len >= room)
        abort();
    for (int i = 0; i < len; i++)
        layout->out->value = space_mix(layout->out->value, (uint8_t)observe_detail[layout->used++]);
    layout->out->more += part->huge;
    layout->watched |= strstr(part->flags, " uw") && area_of(part) != AREA_OWN;
    *part = (struct part){0};
}

/* Merges neighbours with the same properties. */
static void add_part(struct layout *layout, const struct part *part)
{
    struct part *last = &layout->last;

    if (last->end != part->start || last->offset != part->offset ||
        strcmp(last->rights, part->rights) != 0 || strcmp(last->flags, part->flags) != 0) {
        end_part(layout);
        *last = *part;
        return;
    }
    last->end = part->end;
    last->rss += part->rss;
    last->huge += part->huge;
}

/* Flags of two letters: um, uw, ui are of userfaultfds; sd, ac, gu are kernel accounting of a
 * mapping as a whole, which depends on its history. Large mappings may stay watched, as
 * docs/userfaultfd.md says. */
static void add_flags(const struct layout *layout, struct part *part, const char *line)
{
    static const char *const hidden[] = {"um", "uw", "ui", "sd", "ac", "gu"};
    bool watches = layout->watches && area_of(part) != AREA_HUGE;
    size_t len = 0;

    for (const char *at = line; at[0] == ' ' && at[1] > ' ' && at[2] > ' '; at += 3) {
        bool hide = false;

        for (size_t i = watches ? 3 : 0; i < COUNT(hidden); i++)
            hide |= strncmp(at + 1, hidden[i], 2) == 0;
        if (hide || len + 4 > sizeof(part->flags))
            continue;
        memcpy(part->flags + len, at, 3);
        len += 3;
    }
    part->flags[len] = '\0';
}

static bool begins(const char *line, const char *name, const char **rest)
{
    size_t len = strlen(name);

    *rest = line + len;
    return strncmp(line, name, len) == 0;
}

static void add_field(const struct layout *layout, struct part *part, const char *line)
{
    const char *rest;

    if (begins(line, "Rss:", &rest))
        part->rss = strtoull(rest, NULL, 10);
    else if (begins(line, "AnonHugePages:", &rest))
        part->huge = strtoull(rest, NULL, 10);
    else if (begins(line, "VmFlags:", &rest))
        add_flags(layout, part, rest);
}

static struct part begin_part(const char *line)
{
    struct part part = {0};
    char *rest;
    uint64_t offset, inode;

    part.start = strtoull(line, &rest, 16);
    part.end = strtoull(rest + 1, &rest, 16);
    memcpy(part.rights, rest + 1, 4);
    offset = strtoull(rest + 6, &rest, 16);
    strtoull(rest + 7, &rest, 10); /* after the device number */
    inode = strtoull(rest, NULL, 10);
    part.offset = inode ? offset - part.start : 0;
    return part;
}

static bool is_in_area(const struct part *part)
{
    return space_offset((void *)(uintptr_t)part->start) != UINT64_MAX;
}

static void read_layout(struct layout *layout)
{
    struct part part = {0};

    read_all("/proc/self/smaps");
    for (char *line = text, *next; *line; line = next) {
        next = strchr(line, '\n') + 1;
        if (*line >= 'A' && *line <= 'Z') {
            if (part.end)
                add_field(layout, &part, line);
            continue;
        }
        if (part.end)
            add_part(layout, &part);
        part = begin_part(line);
        if (!layout->everywhere && !is_in_area(&part))
            part.end = 0;
    }
    if (part.end)
        add_part(layout, &part);
    end_part(layout);
}

/* Returns whether an area other than the program's own is watched. */
static bool note_layout(bool watches, struct outcome *out)
{
    struct layout layout = {.watches = watches, .out = out};

    observe_detail[0] = '\0';
    read_layout(&layout);
    return layout.watched;
}

/* The kernel keeps new mappings next to watched memory separate: such neighbours count as one. The
 * second word is the kernel's count. */
void act_mappings(const struct step *step, struct outcome *out)
{
    struct layout layout = {.everywhere = true, .out = out};
    size_t len = read_all("/proc/self/maps");

    for (const char *at = text; (at = memchr(at, '\n', len - (size_t)(at - text))); at++)
        out->more++;
    if (space.watched)
        read_layout(&layout);
    else
        out->value = out->more;
}

/* The library may take a moment to unwatch what it no longer needs. */
static void note_watches(struct outcome *out)
{
    static const struct timespec moment = {.tv_nsec = 10000000};

    for (int times = 0; times < TRIES; times++) {
        *out = (struct outcome){0};
        if (!note_layout(true, out))
            break;
        nanosleep(&moment, NULL);
    }
}

void act_layout(const struct step *step, struct outcome *out)
{
    note_layout(false, out);
}

void act_unused(const struct step *step, struct outcome *out)
{
    beside_without(step, note_watches, out);
}

/* ---- the process ------------------------------------------------------------------------ */

static void mix_bytes(struct outcome *out, const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        out->value = space_mix(out->value, ((const uint8_t *)bytes)[i]);
}

static void note_signals(struct outcome *out)
{
    sigset_t mask;

    sigemptyset(&mask);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number < 65; number++) {
        struct sigaction action;

        out->value = space_mix(out->value, (uint64_t)sigismember(&mask, number));
        if (sigaction(number, NULL, &action))
            continue;
        out->value = space_mix(out->value, (uint64_t)(uintptr_t)action.sa_sigaction);
        out->value = space_mix(out->value, (uint64_t)action.sa_flags);
    }
}

static void note_limits(struct outcome *out)
{
    for (int i = 0; i < RLIMIT_NLIMITS; i++) {
        struct rlimit limit = {0};

        getrlimit((__rlimit_resource_t)i, &limit);
        mix_bytes(out, &limit, sizeof(limit));
    }
}

/* Of the main thread; and checks that there is no child that the program did not fork. */
void act_process(const struct step *step, struct outcome *out)
{
    static const int questions[] = {PR_GET_DUMPABLE, PR_GET_TIMERSLACK, PR_GET_NO_NEW_PRIVS,
                                    PR_GET_THP_DISABLE, PR_GET_SECCOMP};
    cpu_set_t cpus;
    char name[16] = "";
    int status;

    CPU_ZERO(&cpus);
    sched_getaffinity(0, sizeof(cpus), &cpus);
    mix_bytes(out, &cpus, sizeof(cpus));
    prctl(PR_GET_NAME, name);
    mix_bytes(out, name, strlen(name));
    for (size_t i = 0; i < COUNT(questions); i++)
        out->value = space_mix(out->value, (uint64_t)prctl(questions[i], 0, 0, 0, 0));
    out->value = space_mix(out->value, (uint64_t)sched_getscheduler(0));
    note_signals(out);
    note_limits(out);
    note(out, waitpid(-1, &status, WNOHANG));
}
