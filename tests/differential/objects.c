/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The program's objects besides its areas: SysV segments, a memfd, a userfaultfd, the heap's end,
 * blocks of malloc, mappings that the kernel places. Their contents are compared, their addresses
 * are not.
 */
#include "tests/differential/acts.h"

#include "tests/differential/beside.h"
#include "tests/differential/space.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HEAP_BLOCKS     16
#define BLOCKS          8
#define BRK_PAGES       64
#define HEAP_PAD        ((size_t)8 << 20)
#define REMAP_DONTUNMAP 4

/* ---- SysV segments and a file ----------------------------------------------------------- */

/* A segment ends with its last attachment. */
static void attach(const struct step *step, struct outcome *out)
{
    static const int flags[] = {SHM_REMAP, SHM_REMAP, SHM_REMAP | SHM_RDONLY, 0};
    int flag = flags[step->r % 4], skew = step->r >> 4 & 7 ? 0 : (int)space.page - 8;
    size_t pages = step->pages < 4 ? step->pages : 4;
    int segment = shmget(IPC_PRIVATE, pages * space.page, IPC_CREAT | 0600);
    char *at;

    if (segment < 0) {
        note(out, -1);
        return;
    }
    at = shmat(segment, space_start(step) + skew, flag | (step->r >> 7 & 1 ? SHM_RND : 0));
    note(out, at == (char *)-1 ? -1 : 0);
    if (at != (char *)-1) {
        out->value = space_offset(at);
        space_make_one(step->area, step->page, (unsigned)pages);
    }
    shmctl(segment, IPC_RMID, NULL);
}

void act_shm(const struct step *step, struct outcome *out)
{
    if (step->form % 2)
        attach(step, out);
    else
        note(out, shmdt(space_start(step)));
}

void act_file(const struct step *step, struct outcome *out)
{
    off_t at = (off_t)(step->r % SPACE_FILE * space.page), len = (off_t)space_len(step);

    switch (step->form % 5) {
    case 0:
        note(out, ftruncate(space.file, at));
        break;
    case 1:
        note(out, ftruncate(space.file, (off_t)(SPACE_FILE * space.page)));
        break;
    case 2:
        note(out, fallocate(space.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, len));
        break;
    case 3:
        note(out, pwrite(space.file, &step->r, sizeof(step->r), at));
        break;
    default:
        note(out, syscall(SYS_remap_file_pages, space_start(step), space_len(step), 0,
                          step->r % SPACE_FILE, 0));
    }
}

/* ---- a userfaultfd ---------------------------------------------------------------------- */

static void watch_own(const struct step *step, struct outcome *out)
{
    static const uint64_t modes[] = {UFFDIO_REGISTER_MODE_MISSING, UFFDIO_REGISTER_MODE_WP,
                                     UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP, 0x80};
    struct uffdio_register range = {.range = {(uintptr_t)space_start(step), space_len(step)},
                                    .mode = modes[step->r % 4]};

    note(out, ioctl(space.own, UFFDIO_REGISTER, &range));
    out->value = out->rc ? 0 : range.ioctls;
    if (!out->rc)
        beside_use(space_start(step),
                   space_len(step)); /* the kernel permits one userfaultfd per page */
}

static void copy_own(const struct step *step, struct outcome *out)
{
    static char source[64 << 10] __attribute__((aligned(64 << 10)));
    struct uffdio_copy copy = {.dst = (uintptr_t)space_start(step), .src = (uintptr_t)source};

    copy.len = space.page * (1 + step->r % 4);
    if (copy.len > sizeof(source))
        copy.len = sizeof(source);
    copy.mode = step->r >> 8 & 1 ? UFFDIO_COPY_MODE_WP : 0;
    memset(source, (int)step->r, sizeof(source));
    note(out, ioctl(space.own, UFFDIO_COPY, &copy));
    out->value = (uint64_t)copy.copy;
}

void act_own(const struct step *step, struct outcome *out)
{
    struct uffdio_range range = {(uintptr_t)space_start(step), space_len(step)};
    struct uffdio_zeropage zero = {.range = range};
    struct uffdio_writeprotect protect = {.range = range, .mode = step->r & 1};

    switch (step->form % 8) {
    case 0:
        note(out, ioctl(space.own, UFFDIO_UNREGISTER, &range));
        break;
    case 1:
        note(out, ioctl(space.own, UFFDIO_ZEROPAGE, &zero));
        out->value = (uint64_t)zero.zeropage;
        break;
    case 2:
    case 3:
        note(out, ioctl(space.own, UFFDIO_WRITEPROTECT, &protect));
        break;
    case 4:
    case 5:
        copy_own(step, out);
        break;
    default:
        watch_own(step, out);
    }
}

/* ---- the heap's end --------------------------------------------------------------------- */

static struct {
    char *base;
    size_t pages;
} end;

/* Room in malloc's free lists, so that malloc does not move the heap's end. */
static void open_brk(void)
{
    void *made[64], *before = sbrk(0);
    size_t count = 0;

    mallopt(M_TOP_PAD, (int)HEAP_PAD);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    while (count < 64 && sbrk(0) == before)
        made[count++] = malloc(100 << 10);
    while (count)
        free(made[--count]);
    end.base = sbrk(0);
    end.pages = 0;
}

static void move_end(const struct step *step, size_t pages, struct outcome *out)
{
    char *to = end.base + pages * space.page;
    long rc;

    if (step->r & 1)
        rc = sbrk((intptr_t)(pages - end.pages) * (intptr_t)space.page) == (void *)-1 ? -1 : 0;
    else
        rc = (char *)syscall(SYS_brk, to) == to ? 0 : -1;
    note(out, rc);
    out->value = (uint64_t)((char *)syscall(SYS_brk, 0) - end.base);
    end.pages = pages;
}

void act_brk(const struct step *step, struct outcome *out)
{
    size_t at = end.pages ? step->r % end.pages : 0;
    uint64_t value = 0;

    if (step->form % 4 < 2) {
        move_end(step, step->r >> 4 & 1 ? step->r % BRK_PAGES : end.pages / 2, out);
    } else if (end.pages) {
        out->rc = space_load(end.base + at * space.page, &value);
        out->value = value;
        space_store(end.base + at * space.page, step->r);
    }
}

/* ---- malloc ----------------------------------------------------------------------------- */

struct block {
    char *start;
    size_t len;
};

static struct block heap[HEAP_BLOCKS];

/* The two largest exceed the pad: they get mappings of their own. */
static size_t draw_size(uint32_t r)
{
    static const size_t sizes[] = {24, 200, 1000, 2000, 5000, 20000, 9 << 20, 18 << 20};
    size_t size = sizes[r % 8];

    return size + (r >> 3) % size;
}

/* Digests a word at the beginning, and at each power of two. */
static uint64_t digest(const struct block *block, size_t len)
{
    uint64_t hash = 1, word;

    for (size_t at = 0; at + 8 <= len; at = at ? 2 * at : 16) {
        memcpy(&word, block->start + at, 8);
        hash = space_mix(hash, word);
    }
    return hash;
}

static void fill(const struct block *block, uint64_t word)
{
    for (size_t at = 0; at + 8 <= block->len; at = at ? 2 * at : 16, word++)
        memcpy(block->start + at, &word, 8);
}

static void change_size(struct block *block, const struct step *step, struct outcome *out)
{
    size_t len = draw_size(step->r), both = len < block->len ? len : block->len;
    char *start = realloc(block->start, len);

    if (!start)
        abort();
    *block = (struct block){start, len};
    out->value = digest(block, both);
    fill(block, step->r);
}

static void make(struct block *block, const struct step *step, struct outcome *out)
{
    size_t len = draw_size(step->r), align = (size_t)16 << step->form % 10;

    *block = (struct block){.len = len};
    if (step->form & 16)
        block->start = calloc(1, len);
    else if (posix_memalign((void **)&block->start, align, len))
        block->start = NULL;
    if (!block->start)
        abort();
    if (step->form & 16)
        out->value = digest(block, len);
    fill(block, step->r);
}

void act_heap(const struct step *step, struct outcome *out)
{
    struct block *block = &heap[step->page % HEAP_BLOCKS];

    if (block->start)
        out->more = digest(block, block->len);
    if (step->form % 64 == 63) {
        malloc_trim(SIZE_MAX / 2); /* inside the heap: its end belongs to the program */
    } else if (!block->start) {
        make(block, step, out);
    } else if (step->form % 2) {
        change_size(block, step, out);
    } else {
        free(block->start);
        block->start = NULL;
    }
}

/* ---- where the kernel chooses ----------------------------------------------------------- */

static struct block blocks[BLOCKS];

static void map_block(struct block *block, const struct step *step, struct outcome *out)
{
    int flags = step->r % 4 ? MAP_PRIVATE : MAP_SHARED, fd = step->r >> 2 & 7 ? -1 : space.file;

    block->len = space_len(step) * (step->r >> 5 & 7 ? 1 : 16);
    if (fd < 0)
        flags |= MAP_ANONYMOUS;
    if (step->r >> 8 & 1)
        flags |= MAP_POPULATE;
    block->start = mmap(NULL, block->len, PROT_READ | PROT_WRITE, flags, fd, 0);
    note(out, block->start == MAP_FAILED ? -1 : 0);
    if (out->rc)
        block->start = NULL;
}

static void move_block(struct block *block, const struct step *step, struct outcome *out)
{
    size_t len = block->len / 2 + step->r % 8 * space.page + space.page;
    char *at;

    len = len / space.page * space.page;
    at = mremap(block->start, block->len, len, MREMAP_MAYMOVE);
    note(out, at == MAP_FAILED ? -1 : 0);
    if (!out->rc)
        *block = (struct block){at, len};
}

static void advise_block(struct block *block, const struct step *step, struct outcome *out)
{
    static const int advices[] = {MADV_DONTNEED, MADV_REMOVE, MADV_WILLNEED, MADV_POPULATE_WRITE};

    note(out, madvise(block->start, block->len, advices[step->r % 4]));
}

static void use_block(struct block *block, const struct step *step, struct outcome *out)
{
    size_t pages = block->len / space.page;

    out->value = space_digest(block->start, pages, 1 + pages / 16);
    for (size_t i = 0; i < pages; i += 1 + pages / 8)
        out->more =
            space_mix(out->more, (uint64_t)space_store(block->start + i * space.page, step->r + i));
}

void act_block(const struct step *step, struct outcome *out)
{
    struct block *block = &blocks[step->page % BLOCKS];

    if (!block->start) {
        map_block(block, step, out);
        return;
    }
    switch (step->form % 6) {
    case 0:
        note(out, munmap(block->start, block->len));
        block->start = NULL;
        break;
    case 1:
        move_block(block, step, out);
        break;
    case 2:
        advise_block(block, step, out);
        break;
    default:
        use_block(block, step, out);
    }
}

/* ---- all -------------------------------------------------------------------------------- */

void objects_open(void)
{
    open_brk();
}

void *objects_memory(const struct step *step, size_t *len)
{
    struct block *block =
        step->r & 512 ? &heap[step->page % HEAP_BLOCKS] : &blocks[step->page % BLOCKS];

    if ((step->r >> 10 & 7) == 0) {
        *len = end.pages * space.page;
        return end.pages ? end.base : NULL;
    }
    *len = block->len;
    return block->start;
}
