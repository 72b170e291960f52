/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Changes that only hooks in libc's code report, because the kernel's events do not, or not on
 * every kernel. memhooks.c tests what hooks preserve.
 */
#include "tests/support/cache_fixture.h"
#include "tests/support/code_filters.h"

#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* rest: bytes behind the page where the segment begins. */
static void check_shmat(size_t rest, int flags)
{
    size_t page = fixture_page();
    char *memory = fixture_map(2);
    int id = shmget(IPC_PRIVATE, 2 * page, 0600);

    if (id < 0)
        test_skip("no shared memory segments: %s", strerror(errno));
    fixture_open_hooked();
    assert_int_equal(fixture_key(memory, page), 1);
    assert_int_equal(fixture_key(memory + page, page), 2);
    assert_ptr_equal(shmat(id, memory + rest, SHM_REMAP | flags), memory);
    shmctl(id, IPC_RMID, NULL);
    assert_int_equal(fixture_stats().invalidations, 2);
    assert_int_equal(fixture_key(memory, page), 3);
    assert_int_equal(fixture_key(memory + page, page), 4);
    assert_int_equal(syscall(SYS_shmdt, memory), 0);
    fixture_close();
}

TEST(shmat__over_it__registered_anew)
{
    check_shmat(0, 0);
    check_shmat(0, SHM_RND);
    check_shmat(fixture_page() - 1, SHM_RND);
}

TEST(process_madvise__of_itself__registered_anew)
{
    size_t page = fixture_page();
    char *memory = fixture_map(3);
    struct iovec ranges[2] = {{memory, page}, {memory + 2 * page, page}};
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);

    fixture_open_hooked();
    for (int i = 0; i < 3; i++)
        assert_int_equal(fixture_key(memory + i * (int)page, page), i + 1);
    if (syscall(440, self, ranges, 2, MADV_DONTNEED, 0) < 0) {
        close(self);
        fixture_close();
        test_skip("this kernel throws no pages away so: %s", strerror(errno));
    }
    close(self);
    assert_int_equal(fixture_key(memory + page, page), 2);
    assert_int_equal(fixture_key(memory, page), 4);
    assert_int_equal(fixture_key(memory + 2 * page, page), 5);
    munmap(memory, 3 * page);
}

/* In a process of its own, where a policy forbids process_vm_readv(2). */
static int where_ranges_may_not_be_read(void)
{
    size_t page = fixture_page();
    char *memory = fixture_map(2);
    struct iovec range = {memory, page};
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);

    if (!code_filter_refuse(SYS_process_vm_readv, EPERM))
        return 77;
    fixture_open_hooked();
    for (uint64_t i = 0; i < 2; i++)
        if (fixture_key(memory + i * page, page) != i + 1)
            return 1;
    if (syscall(440, self, &range, 1, MADV_DONTNEED, 0) < 0)
        return 77;
    return fixture_key(memory, page) == 3 && fixture_key(memory + page, page) == 4 ? 0 : 2;
}

TEST(process_madvise__of_ranges_that_may_not_be_read__all_registered_anew)
{
    fixture_open_hooked(); /* or skips */
    fixture_close();
    test_in_child_or_skip(where_ranges_may_not_be_read(),
                          "this kernel has no filters, or throws no pages away so");
}

TEST(mremap__dontunmap__registered_anew)
{
    size_t len = 2 * fixture_page();
    char *memory = fixture_map(2), *moved;

    fixture_open_hooked();
    assert_int_equal(fixture_key(memory, len), 1);
    moved = mremap(memory, len, len, MREMAP_MAYMOVE | 4, NULL);
    if (moved == MAP_FAILED) {
        fixture_close();
        test_skip("no MREMAP_DONTUNMAP: %s", strerror(errno));
    }
    assert_int_equal(fixture_key(memory, len), 2);
    assert_int_equal(fixture_key(moved, len), 3);
    munmap(memory, len);
    munmap(moved, len);
}

/* The second page is in the way. */
TEST(mremap__grows_elsewhere__registered_anew)
{
    size_t page = fixture_page();
    char *memory = fixture_map(2), *moved;

    fixture_open_hooked();
    assert_int_equal(fixture_key(memory, page), 1);
    moved = mremap(memory, page, 2 * page, MREMAP_MAYMOVE);
    assert_true(moved != MAP_FAILED && moved != memory);
    assert_int_equal(fixture_stats().invalidations, 1);
    munmap(memory + page, page);
    munmap(moved, 2 * page);
}

TEST(mremap__over_it__registered_anew)
{
    size_t page = fixture_page();
    char *memory = fixture_map(2), *other = fixture_map(2);

    fixture_open_hooked();
    assert_int_equal(fixture_key(memory + page, page), 1);
    assert_ptr_equal(mremap(other, 2 * page, 2 * page, MREMAP_MAYMOVE | MREMAP_FIXED, memory),
                     memory);
    assert_int_equal(fixture_key(memory + page, page), 2);
    munmap(memory, 2 * page);
}

TEST_MAIN()
