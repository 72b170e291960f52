/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program with gaps between its segments, as lld makes them: the dynamic linker knows its code by
 * bytes, not by pages, and memhooks know it all the same.
 */
#include "tests/support/cache_fixture.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>

/* Where the program's code begins. */
static char *code(void)
{
    const ElfW(Phdr) *segment = (const void *)getauxval(AT_PHDR);
    uintptr_t base = 0;

    for (unsigned long i = getauxval(AT_PHNUM); i; i--, segment++) {
        if (segment->p_type == PT_PHDR)
            base = getauxval(AT_PHDR) - segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X))
            return (char *)base + segment->p_vaddr;
    }
    return NULL;
}

TEST(first_get__of_a_program_with_gaps__cached)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};
    char *memory = fixture_map(1);

#if __GLIBC_PREREQ(2, 35)
    struct dl_find_object found;
    char *start = code();

    assert_int_equal(_dl_find_object(start, &found), 0);
    if (_dl_find_object(start - (uintptr_t)start % fixture_page(), &found) == 0)
        test_skip("the linker has left no gap");
#endif
    fixture_open(HMREG_MONITOR_DEFAULT, NULL);
    assert_int_equal(fixture_key(memory, 10), 1);
    assert_int_equal(fixture_key(memory, 10), 1);
    assert_ok(hmreg_monitor_query(fixture.lib, &info));
    assert_int_equal(info.active, HMREG_MONITOR_MEMHOOKS);
    munmap(memory, fixture_page());
}

TEST_MAIN()
