/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program that stands before libc: its shmdt() enters the kernel itself, and not in the form that
 * can be hooked. Such a function would be missed in silence.
 */
#include "tests/support/test.h"

#include <errno.h>
#include <hmreg/hmreg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
int shmdt(const void *addr)
{
    int result;

    __asm__ volatile("nop\n\tsyscall" : "=a"(result) : "a"(67), "D"(addr) : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
int shmdt(const void *addr)
{
    register long x8 __asm__("x8") = SYS_shmdt;
    register const void *x0 __asm__("x0") = addr;

    __asm__ volatile("svc #1" : "+r"(x0) : "r"(x8) : "memory");
    return (int)(intptr_t)x0;
}
#endif

static void open__a_function_that_cannot_be_hooked__opnotsupp_and_which(void **state)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct hmreg *lib = NULL;

    assert_fails(hmreg_open(&config, &lib), -EOPNOTSUPP, "memhooks");
    assert_null(lib);
#if defined(__x86_64__) || defined(__aarch64__)
    assert_non_null(strstr(hmreg_last_error()->text, "shmdt()"));
    assert_non_null(strstr(hmreg_last_error()->text, "userfaultfd"));
#endif
    config.monitor = HMREG_MONITOR_DEFAULT;
    setenv("FI_MR_CACHE_MONITOR", "memhooks", 1);
    assert_fails(hmreg_open(&config, &lib), -EOPNOTSUPP, "memhooks");
    unsetenv("FI_MR_CACHE_MONITOR");
    assert_ok(hmreg_open(&config, &lib)); /* nobody who does not ask for them is kept out */
    assert_ok(hmreg_close(lib));
}

TEST_MAIN(TEST(open__a_function_that_cannot_be_hooked__opnotsupp_and_which))
