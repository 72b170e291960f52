/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Several places in code that are changed by one call: in each order of pages and mappings, where
 * others have changed a place, and where the kernel refuses one of them.
 */

/* How several places are changed at once is what this is about: the library changes libc's. */
#include "core/patch/patch.h"
#include "tests/support/made.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define FILLER 0x90

/* Pages of code, in one anonymous mapping. */
static uint8_t *map_code(size_t pages)
{
    size_t size = pages * (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (code_refusal() || !code_start())
        test_skip("code cannot be changed here");
    assert_ptr_not_equal(at, MAP_FAILED);
    memset(at, FILLER, size);
    assert_int_equal(mprotect(at, size, PROT_READ | PROT_EXEC), 0);
    return at;
}

/* A page of a file that may not be written: no mapping of it can be made writable. */
static uint8_t *map_unwritable(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    int made = memfd_create("code", MFD_CLOEXEC), file;
    uint8_t *at;
    char path[64];

    assert_int_equal(ftruncate(made, (off_t)size), 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", made);
    file = open(path, O_RDONLY | O_CLOEXEC);
    at = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    if (file < 0 || at == MAP_FAILED)
        test_skip("no mapping of a file that cannot be written");
    close(file);
    close(made);
    return at;
}

static struct patch make_patch(uint8_t *at, uint8_t *via)
{
    struct patch patch = {.at = at, .via = via};

    assert_true(patch_make(&patch, at + 64));
    return patch;
}

static void place_all(struct patch *patches, size_t count)
{
    struct patch *all[64];
    struct code_text text = {0};

    for (size_t i = 0; i < count; i++)
        all[i] = &patches[i];
    patch_place(all, count, &text);
}

/* Returns how many are restored. */
static size_t restore_some(struct patch *patches, size_t count)
{
    struct patch *all[64];
    struct code_text text = {0};
    size_t done = 0;

    for (size_t i = 0; i < count; i++)
        all[i] = &patches[i];
    patch_restore(all, count, &text);
    for (size_t i = 0; i < count; i++)
        done += !patches[i].error;
    return done;
}

static void restore_all(struct patch *patches, size_t count)
{
    assert_int_equal(restore_some(patches, count), count);
    for (size_t i = 0; i < count; i++) {
        assert_false(patch_is_placed(&patches[i]));
        assert_true(patch_is_as_before(&patches[i]));
    }
}

TEST(place__many__each_and_nothing_beside)
{
    uint8_t *code = map_code(3), expected[3 * 4096];
    struct patch patches[40];

    memset(expected, FILLER, sizeof(expected));
    for (size_t i = 0; i < 40; i++) {
        patches[i] = make_patch(code + 8 + i * 256, NULL);
        memcpy(expected + 8 + i * 256, patches[i].after, CODE_BRANCH);
    }
    place_all(patches, 40);
    for (size_t i = 0; i < 40; i++) {
        assert_int_equal(patches[i].error, 0);
        assert_true(patch_is_placed(&patches[i]));
    }
    assert_memory_equal(code, expected, sizeof(expected));
    restore_all(patches, 40);
    memset(expected, FILLER, sizeof(expected));
    assert_memory_equal(code, expected, sizeof(expected));
}

TEST(place__one_of_several_cannot_be_written__the_others_are_placed)
{
    uint8_t *code = map_code(1);
    struct patch patches[3] = {make_patch(code + 8, NULL), make_patch(map_unwritable(), NULL),
                               make_patch(code + 256, NULL)};

    place_all(patches, 3);
    assert_int_equal(patches[0].error, 0);
    assert_true(patch_is_placed(&patches[0]));
    assert_int_equal(patches[1].error, -EACCES);
    assert_true(patch_is_as_before(&patches[1]));
    assert_int_equal(patches[2].error, 0);
    assert_true(patch_is_placed(&patches[2]));
}

TEST(place__changed_by_others_since__these_are_refused)
{
    uint8_t *code = map_code(1);
    struct patch patches[3] = {make_patch(code + 8, NULL), make_patch(code + 64, NULL),
                               make_patch(code + 256, NULL)};
    struct code_text text = {0};
    static const uint8_t other[CODE_BRANCH] = {1, 2, 3, 4};

    assert_int_equal(code_write(&text, &(struct code_change){code + 64, other, CODE_BRANCH}, 1), 0);
    place_all(patches, 3);
    assert_int_equal(patches[1].error, -EBUSY);
    assert_memory_equal(code + 64, other, CODE_BRANCH);
    assert_true(patch_is_placed(&patches[0]) && patch_is_placed(&patches[2]));
    assert_false(restore_some(&patches[1], 1));
    assert_memory_equal(code + 64, other, CODE_BRANCH);
}

/* ---- other copies of the library -------------------------------------------------------- */

static struct patch waiting;
static atomic_int waits_as, is_done;

static void *change_it(void *arg)
{
    void (*change)(struct patch *) = *(void (**)(struct patch *))arg;

    atomic_store(&waits_as, (int)syscall(SYS_gettid));
    change(&waiting);
    atomic_store(&is_done, 1);
    return NULL;
}

/* Is the thread in fcntl(2)? */
static bool is_waiting(void)
{
    char path[64], line[64] = "";
    int id = atomic_load(&waits_as);
    FILE *file;

    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", id);
    file = id ? fopen(path, "re") : NULL;
    if (!file)
        return false;
    if (!fgets(line, sizeof(line), file))
        line[0] = '\0';
    fclose(file);
    return atoi(line) == SYS_fcntl;
}

static bool can_tell(void)
{
    FILE *file = fopen("/proc/self/syscall", "re");
    char line[64] = "";
    bool can = file && fgets(line, sizeof(line), file) && *line && atoi(line) == SYS_read;

    if (file)
        fclose(file);
    return can;
}

static void place_it(struct patch *patch)
{
    place_all(patch, 1);
}

static void restore_it(struct patch *patch)
{
    restore_all(patch, 1);
}

/* Changes the patch in a thread, while a lock is held and then not. */
static void change_when_unlocked(void (*change)(struct patch *))
{
    uint8_t before[CODE_BRANCH];
    int lock = code_lock();
    pthread_t thread;

    assert_true(lock >= 0);
    memcpy(before, waiting.at, CODE_BRANCH);
    atomic_store(&waits_as, 0);
    atomic_store(&is_done, 0);
    assert_int_equal(pthread_create(&thread, NULL, change_it, &change), 0);
    test_wait_until(is_waiting() || atomic_load(&is_done));
    assert_int_equal(atomic_load(&is_done), 0);
    assert_memory_equal(waiting.at, before, CODE_BRANCH);
    code_unlock(lock);
    pthread_join(thread, NULL);
    assert_memory_not_equal(waiting.at, before, CODE_BRANCH);
}

TEST(change__while_another_copy_does_so__waits_for_it)
{
    if (!can_tell())
        test_skip("the kernel does not say what a thread waits for");
    waiting = make_patch(map_code(1) + 8, NULL);
    change_when_unlocked(place_it);
    change_when_unlocked(restore_it);
}

#if defined(__x86_64__)
static void mend_it(struct patch *patch)
{
    struct code_text text = {0};

    patch_mend(patch, &text);
}

TEST(mend__while_another_copy_changes_code__waits_for_it)
{
    static const uint8_t trap = 0xcc;
    struct code_text text = {0};

    if (!can_tell())
        test_skip("the kernel does not say what a thread waits for");
    waiting = make_patch(map_code(1) + 8, NULL);
    place_all(&waiting, 1);
    code_write(&text, &(struct code_change){waiting.at, &trap, 1}, 1);
    change_when_unlocked(mend_it);
    assert_memory_equal(waiting.at + 1, waiting.before + 1, CODE_BRANCH - 1);
}
#endif

/* A child that has the descriptor, too, does not keep the lock. */
TEST(unlock__a_child_was_forked__others_go_on)
{
    int lock = code_lock(), ends[2];
    pid_t child;
    char byte;

    assert_int_equal(pipe(ends), 0);
    child = test_fork();
    if (child == 0) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) != 0);
    }
    code_unlock(lock);
    waiting = make_patch(map_code(1) + 8, NULL);
    place_all(&waiting, 1);
    assert_true(patch_is_placed(&waiting));
    close(ends[0]);
    close(ends[1]);
    test_await_or_skip(child, "no child");
}

TEST(change__no_descriptor_left__made)
{
    struct rlimit before, none = {0};

    waiting = make_patch(map_code(1) + 8, NULL);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none.rlim_max = before.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    place_all(&waiting, 1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(waiting.error, 0);
    assert_true(patch_is_placed(&waiting));
}

#if defined(__x86_64__)

/* Another copy's jump leads to the pad, and goes. */
TEST(place__the_way_to_it_has_gone__refused)
{
    uint8_t *code = map_code(1);
    struct patch first = make_patch(code + 64, code + 32), second;

    place_all(&first, 1);
    second = (struct patch){.at = code + 64, .way = code + 32};
    assert_true(patch_make(&second, code + 512));
    assert_true(patch_is_reached(&second));
    assert_true(restore_some(&first, 1));
    assert_false(patch_is_reached(&second));
    place_all(&second, 1);
    assert_int_equal(second.error, -EBUSY);
    assert_memory_equal(second.at, first.after, CODE_BRANCH);
    place_all(&first, 1);
    place_all(&second, 1);
    assert_int_equal(second.error, 0);
    assert_true(patch_is_placed(&second));
    assert_false(restore_some(&first, 1)); /* not while the other one is over it */
    assert_true(patch_is_placed(&second));
    assert_true(restore_some(&second, 1));
    assert_true(restore_some(&first, 1));
    assert_int_equal(code[32], FILLER);
}

/* It has taken the pad and written the same jump since the place was found: its branch stays. */
TEST(place__another_leads_to_the_pad_since__refused)
{
    uint8_t *code = map_code(1);
    struct patch ours[2], first = make_patch(code + 64, code + 32);

    ours[0] = (struct patch){.at = code + 64, .via = code + 32};
    assert_true(patch_make(&ours[0], code + 512));
    place_all(&first, 1);
    ours[1] = (struct patch){.at = code + 64, .via = code + 32};
    assert_true(patch_make(&ours[1], code + 512));
    for (int i = 0; i < 2; i++) {
        place_all(&ours[i], 1);
        assert_int_equal(ours[i].error, -EBUSY);
        assert_true(patch_is_placed(&first));
    }
}

/* ---- pads ------------------------------------------------------------------------------- */

/* Of one word, of two, of two pages; the branch before the jump, and behind it. */
TEST(place__pad_at_each_distance__branch_and_jump)
{
    uint8_t *code = map_code(2), *end = code + 4096;

    for (int away = -128; away <= 127; away++) {
        struct patch patch = make_patch(end + away, end - 2);

        if (away > -7 && away < 0) /* they would overlap */
            continue;
        assert_false(patch_is_placed(&patch));
        place_all(&patch, 1);
        assert_int_equal(patch.error, 0);
        assert_true(patch_is_placed(&patch) && patch_is_reached(&patch));
        restore_all(&patch, 1);
        place_all(&patch, 1); /* the branch is there still */
        assert_true(patch_is_placed(&patch));
        restore_all(&patch, 1);
        assert_int_equal(end[-2], FILLER);
        assert_int_equal(end[-1], FILLER);
    }
}

TEST(make__pad_out_of_reach__false)
{
    uint8_t *code = map_code(1);
    struct patch patch = {.at = code + 1024, .via = code + 1024 - 2 - 128};

    assert_false(patch_make(&patch, code));
    patch.via = code + 1024 - 2 - 127;
    assert_true(patch_make(&patch, code));
    patch.via = code + 1024 - 2 + 129;
    assert_false(patch_make(&patch, code));
    patch.via = code + 1024 - 2 + 128;
    assert_true(patch_make(&patch, code));
    assert_false(patch_make(&patch, code + (UINT64_C(1) << 32)));
}

TEST(place__pads_overlap__the_first_has_its_own)
{
    for (int more = -CODE_BRANCH; more <= CODE_BRANCH; more++) {
        uint8_t *code = map_code(1);
        struct patch patches[2] = {make_patch(code + 64, code + 32),
                                   make_patch(code + 64 + more, code + 96)};
        bool overlap = more > -CODE_BRANCH && more < CODE_BRANCH;

        place_all(patches, 2);
        assert_int_equal(patches[0].error, 0);
        assert_true(patch_is_placed(&patches[0]));
        assert_int_equal(patches[1].error, overlap ? -EEXIST : 0);
        assert_int_equal(patch_is_placed(&patches[1]), !overlap);
        assert_int_equal(patch_is_as_before(&patches[1]), overlap);
        munmap(code, 4096);
    }
}

/* The jump is not written where its branch cannot be: threads would be led to what is there. */
TEST(place__pad_cannot_be_written__no_jump_to_it)
{
    size_t page = 4096;
    uint8_t *code = map_code(2), *pad = map_unwritable();
    struct patch patch;

    assert_ptr_equal(mremap(pad, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, code + page),
                     code + page);
    patch = make_patch(code + page, code + page - 32);
    place_all(&patch, 1);
    assert_int_equal(patch.error, -EACCES);
    assert_true(patch_is_as_before(&patch));
    assert_false(patch_is_placed(&patch));
}

/* A tracer's probe is on the short jump, or was. */
TEST(mend__probe_on_the_jump__whole_without_it)
{
    static const uint8_t first[] = {0xcc, FILLER};

    for (size_t i = 0; i < sizeof(first); i++) {
        uint8_t *code = map_code(1);
        struct patch patch = make_patch(code + 64, code + 32);
        struct code_text text = {0};

        place_all(&patch, 1);
        code_write(&text, &(struct code_change){code + 32, &first[i], 1}, 1);
        assert_int_not_equal(code[33], FILLER);
        patch_mend(&patch, &text);
        assert_int_equal(code[32], first[i]);
        assert_int_equal(code[33], FILLER);
        munmap(code, 4096);
    }
}

/* Other code has written something else. */
TEST(mend__no_probe__as_it_is)
{
    static const uint8_t other[2] = {0xcc, 7}, one = 0x31;
    uint8_t *code = map_code(1);
    struct patch patch = make_patch(code + 64, code + 32);
    struct code_text text = {0};
    uint8_t jump;

    place_all(&patch, 1);
    jump = code[33];
    patch_mend(&patch, &text);
    assert_true(patch_is_placed(&patch));
    code_write(&text, &(struct code_change){code + 32, &one, 1}, 1);
    patch_mend(&patch, &text);
    assert_int_equal(code[33], jump);
    code_write(&text, &(struct code_change){code + 32, other, 2}, 1);
    patch_mend(&patch, &text);
    assert_memory_equal(code + 32, other, 2);
}

#endif

TEST_MAIN()
