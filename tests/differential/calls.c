/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Memory calls on the program's areas, in all their forms, invalid ones included. What the kernel
 * places elsewhere is checked and unmapped again.
 */
#include "tests/differential/acts.h"

#include "tests/differential/space.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Missing from Debian 12's headers. */
#define ADVICE_DONTNEED_LOCKED 24
#define ADVICE_COLLAPSE        25
#define ADVICE_GUARD_INSTALL   102
#define ADVICE_GUARD_REMOVE    103
#define REMAP_DONTUNMAP        4

#define RW   (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

/* ---- mmap ------------------------------------------------------------------------------- */

enum backing { NOTHING, THE_FILE, NO_FILE };

static const struct map_form {
    int prot, flags;
    enum backing backing;
} map_forms[] = {
    {RW, ANON, NOTHING},
    {RW, ANON, NOTHING},
    {RW, ANON, NOTHING},
    {RW, ANON, NOTHING},
    {RW, ANON, NOTHING},
    {RW, ANON, NOTHING},
    {RW, ANON, NOTHING},
    {RW, ANON, NOTHING},
    {PROT_READ, ANON, NOTHING},
    {PROT_NONE, ANON, NOTHING},
    {RW | PROT_EXEC, ANON, NOTHING},
    {RW, ANON | MAP_NORESERVE, NOTHING},
    {RW, ANON | MAP_POPULATE, NOTHING},
    {RW, ANON | MAP_POPULATE | MAP_NONBLOCK, NOTHING},
    {RW, ANON | MAP_LOCKED, NOTHING},
    {RW, ANON | MAP_STACK, NOTHING},
    {RW, ANON | MAP_GROWSDOWN, NOTHING},
    {RW, ANON | MAP_HUGETLB, NOTHING},
    {RW, MAP_SHARED | MAP_ANONYMOUS, NOTHING},
    {RW, MAP_PRIVATE, THE_FILE},
    {RW, MAP_PRIVATE, THE_FILE},
    {PROT_READ, MAP_PRIVATE, THE_FILE},
    {RW, MAP_SHARED, THE_FILE},
    {RW, MAP_SHARED, THE_FILE},
    {PROT_READ, MAP_SHARED_VALIDATE, THE_FILE},
    {RW, MAP_SHARED_VALIDATE | MAP_SYNC, THE_FILE},
    {RW, MAP_PRIVATE, NO_FILE},
    {RW, 0, NOTHING},
};

/* Mostly over existing mappings; over nothing; or where the kernel chooses. */
static int draw_place(const struct step *step)
{
    switch (step->r >> 8 & 7) {
    case 0:
        return 0;
    case 1:
    case 2:
        return MAP_FIXED_NOREPLACE;
    default:
        return MAP_FIXED;
    }
}

static void *map(const struct step *step, const struct map_form *form)
{
    static const int none = -1;
    int fd = form->backing == THE_FILE ? space.file : none;
    off_t offset = form->backing == THE_FILE ? (off_t)(step->r % SPACE_FILE * space.page) : 0;
    size_t len = step->r >> 12 & 63 ? space_len(step) : 0; /* sometimes EINVAL */
    char *at = space_start(step) + (step->r >> 18 & 63 ? 0 : 8);
    int flags = space.locks ? form->flags : form->flags & ~MAP_LOCKED;

    return mmap(at, len, form->prot, flags | draw_place(step), fd, offset);
}

void act_map(const struct step *step, struct outcome *out)
{
    /* Huge pages are of anonymous memory. */
    unsigned form = step->area == AREA_HUGE && step->form % 8 ? 0 : step->form % COUNT(map_forms);
    char *at = map(step, &map_forms[form]);

    note(out, at == MAP_FAILED ? -1 : 0);
    if (at == MAP_FAILED)
        return;
    out->value = space_offset(at);
    if (out->value == UINT64_MAX)
        munmap(at, space_len(step));
    else
        space_make_one(step->area, step->page, step->pages);
}

void act_unmap(const struct step *step, struct outcome *out)
{
    size_t len = step->form == 0 ? 0 : space_len(step) - (step->form % 4 == 0);
    char *at = space_start(step) + (step->form == 1 ? 8 : 0);

    note(out, step->form % 8 == 7 ? syscall(SYS_munmap, at, len) : munmap(at, len));
    if (!out->rc)
        space_make_one(step->area, step->page, step->pages);
}

/* ---- mremap ----------------------------------------------------------------------------- */

static size_t draw_new_length(const struct step *step, size_t before)
{
    switch (step->r % 8) {
    case 0:
    case 1:
    case 2:
        return before;
    case 3:
        return before / 2 / space.page * space.page; /* may be no pages */
    case 4:
        return before * 2;
    default:
        return before + (step->r >> 8) % 4 * space.page;
    }
}

/* The kernel refuses to move several mappings by one call if one of them has a userfaultfd. */
struct step calls_narrow(const struct step *step)
{
    struct step range = *step;

    if (space.watched)
        range.pages = (uint16_t)space_alike(step);
    return range;
}

/* Linux 6.18 then unlocks the whole mapping that a part is moved out of, neighbours merged with it
 * included. */
static bool leaves_mapped(void)
{
    return !space.watched || !space.locks;
}

static void move(const struct step *step, struct outcome *out)
{
    static const int flags[] = {MREMAP_MAYMOVE,
                                MREMAP_MAYMOVE,
                                MREMAP_MAYMOVE | MREMAP_FIXED,
                                MREMAP_MAYMOVE | MREMAP_FIXED,
                                MREMAP_MAYMOVE | MREMAP_FIXED,
                                0,
                                0,
                                MREMAP_MAYMOVE | REMAP_DONTUNMAP,
                                MREMAP_MAYMOVE | MREMAP_FIXED | REMAP_DONTUNMAP,
                                MREMAP_FIXED,
                                8};
    int flag = flags[step->form % COUNT(flags)] & (leaves_mapped() ? -1 : ~REMAP_DONTUNMAP);
    size_t before = step->r >> 16 & 31 ? space_len(step) : 0;
    size_t after = flag & REMAP_DONTUNMAP ? before : draw_new_length(step, before);
    char *at = mremap(space_start(step), before, after, flag, space_at(step->area, step->to));

    note(out, at == MAP_FAILED ? -1 : 0);
    if (at == MAP_FAILED)
        return;
    out->value = space_offset(at);
    out->more = space_digest(at, after / space.page, 1 + after / space.page / 16);
    if (before)
        space_make_one(step->area, step->page, step->pages);
    if (out->value == UINT64_MAX)
        munmap(at, after);
    else
        space_make_one(step->area, (unsigned)(out->value % SPACE_SPACING / space.page),
                       (unsigned)(after / space.page));
}

void act_remap(const struct step *step, struct outcome *out)
{
    struct step range = calls_narrow(step);

    move(&range, out);
    if (out->rc) /* the mappings at the new place may be gone even after a failure */
        space_set_apart(step->area, step->to, 2 * range.pages);
}

/* ---- mprotect, madvise ------------------------------------------------------------------ */

void act_protect(const struct step *step, struct outcome *out)
{
    static const int prots[PLAN_PROTECTS] = {PROT_NONE,
                                             PROT_READ,
                                             PROT_READ,
                                             RW,
                                             RW,
                                             RW,
                                             RW,
                                             RW | PROT_EXEC,
                                             PROT_READ | PROT_EXEC,
                                             PROT_WRITE,
                                             [PLAN_GROWS_DOWN] = RW | PROT_GROWSDOWN,
                                             0x80};
    int prot = prots[step->form % PLAN_PROTECTS];
    long rc;

    if (step->r % 8 == 0)
        rc = syscall(SYS_pkey_mprotect, space_start(step), space_len(step), prot, -1);
    else
        rc = mprotect(space_start(step), space_len(step), prot);
    note(out, rc);
}

static int draw_advice(const struct step *step)
{
    static const int advices[] = {MADV_NORMAL,          MADV_RANDOM,         MADV_SEQUENTIAL,
                                  MADV_WILLNEED,        MADV_DONTNEED,       MADV_DONTNEED,
                                  MADV_DONTNEED,        MADV_FREE,           MADV_FREE,
                                  MADV_REMOVE,          MADV_DONTFORK,       MADV_DOFORK,
                                  MADV_MERGEABLE,       MADV_UNMERGEABLE,    MADV_HUGEPAGE,
                                  MADV_NOHUGEPAGE,      MADV_DONTDUMP,       MADV_DODUMP,
                                  MADV_WIPEONFORK,      MADV_KEEPONFORK,     MADV_COLD,
                                  MADV_POPULATE_READ,   MADV_POPULATE_WRITE, ADVICE_DONTNEED_LOCKED,
                                  ADVICE_GUARD_INSTALL, ADVICE_GUARD_REMOVE, 77};

    if (step->area == AREA_HUGE && step->form % 2)
        return step->form % 8 == 1 ? ADVICE_COLLAPSE : MADV_HUGEPAGE;
    return advices[step->r % COUNT(advices)];
}

bool calls_install_guards(const struct step *step)
{
    return draw_advice(step) == ADVICE_GUARD_INSTALL;
}

/* Where the kernel has memory that process_vm_readv(2) cannot read, the range may lie there. */
static struct iovec *place_of_range(const struct step *step)
{
    static struct iovec usual, *secret;
    static bool tried;
    int fd;

    if (!tried && (fd = (int)syscall(447 /* memfd_secret */, 0)) >= 0) {
        if (!ftruncate(fd, (off_t)space.page))
            secret = mmap(NULL, space.page, RW, MAP_SHARED, fd, 0);
        close(fd);
    }
    tried = true;
    return secret && secret != MAP_FAILED && step->r & 64 ? secret : &usual;
}

static long process_madvise_self(const struct step *step, int advice)
{
    struct iovec *range = place_of_range(step);
    int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    int error;
    long rc;

    *range = (struct iovec){space_start(step), space_len(step)};
    rc = syscall(SYS_process_madvise, fd, range, 1, advice, 0);
    error = errno;

    close(fd);
    errno = error;
    return rc;
}

/* The kernel chooses whether pages keep their bytes after MADV_FREE, until they are written, so
 * they are written at once. MADV_PAGEOUT and MAP_DROPPABLE, which behave so too, are left out.
 * False: a page cannot be written. */
static bool write_all(const struct step *step)
{
    bool written = true;

    for (unsigned i = 0; i < step->pages; i++) {
        char *page = space_start(step) + i * space.page;

        if (space_store(page, step->r + i)) {
            madvise(page, space.page, MADV_DONTNEED);
            written = false;
        }
    }
    return written;
}

void act_advise(const struct step *step, struct outcome *out)
{
    int advice = draw_advice(step);
    char *at = space_start(step);
    size_t len = space_len(step);

    /* Linux 6.18 never returns from this if a userfaultfd has protected pages. */
    if (advice == ADVICE_GUARD_INSTALL && step->area == AREA_OWN)
        advice = ADVICE_GUARD_REMOVE;
    /* The kernel does not fill in missing pages of memory with a userfaultfd. */
    if (advice == ADVICE_COLLAPSE && space.watched && !write_all(step))
        advice = MADV_HUGEPAGE;
    if (step->form % 16 == 4)
        note(out, process_madvise_self(step, advice));
    else if (step->form % 16 == 5) /* the kernel looks at the lower halves */
        note(out, syscall(step->r & 64 ? SYS_madvise | 1L << 40 : SYS_madvise, at, len,
                          advice | 1L << 40));
    else
        note(out, madvise(at, len, advice));
    out->busy = advice == ADVICE_COLLAPSE && (out->error == EAGAIN || out->error == EBUSY);
    if (advice == MADV_FREE)
        write_all(step);
    out->more = (uint64_t)advice;
}

/* ---- the rest --------------------------------------------------------------------------- */

static char *draw_word(const struct step *step, unsigned i)
{
    size_t word = step->form % 2 ? step->r % 500 : 0;

    return space_start(step) + i * step->pages / 4 * space.page + word * 8;
}

void act_write(const struct step *step, struct outcome *out)
{
    for (unsigned i = 0; i < 4; i++)
        out->value = space_mix(
            out->value, (uint64_t)space_store(draw_word(step, i), (uint64_t)step->r << 8 | i));
}

void act_read(const struct step *step, struct outcome *out)
{
    for (unsigned i = 0; i < 4; i++) {
        uint64_t value = 0;

        out->value = space_mix(out->value, (uint64_t)space_load(draw_word(step, i), &value));
        out->value = space_mix(out->value, value);
    }
}

void act_resident(const struct step *step, struct outcome *out)
{
    unsigned char resident[2 * 512] = {0};
    size_t pages = step->pages < sizeof(resident) ? step->pages : sizeof(resident);

    note(out, mincore(space_start(step), pages * space.page, resident));
    for (size_t i = 0; i < pages && !space.swaps && !out->rc; i++)
        out->value = space_mix(out->value, resident[i] & 1);
}

void act_lock(const struct step *step, struct outcome *out)
{
    char *at = space_start(step);
    size_t len = space_len(step);

    switch (space.locks ? step->form % 4 : 2) {
    case 0:
        note(out, mlock(at, len));
        break;
    case 1:
        note(out, mlock2(at, len, MLOCK_ONFAULT));
        break;
    default:
        note(out, munlock(at, len));
    }
}

void act_sync(const struct step *step, struct outcome *out)
{
    static const int flags[] = {MS_SYNC, MS_ASYNC, MS_SYNC | MS_INVALIDATE, MS_SYNC | MS_ASYNC};

    note(out, msync(space_start(step), space_len(step), flags[step->form % 4]));
}
