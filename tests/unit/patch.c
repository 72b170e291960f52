/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Several places in code that are changed by one call: in each order of pages and mappings, where
 * others have changed a place, and where the kernel refuses one of them.
 */
#include "core/patch/patch.h"
#include "tests/support/made.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

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

static void restore_all(struct patch *patches, size_t count)
{
    struct code_text text = {0};

    for (size_t i = 0; i < count; i++) {
        assert_true(patch_restore(&patches[i], &text));
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
    assert_false(patch_restore(&patches[1], &text));
    assert_memory_equal(code + 64, other, CODE_BRANCH);
}

#if defined(__x86_64__)

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
