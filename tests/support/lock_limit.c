/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See lock_limit.h.
 */
#include "tests/support/lock_limit.h"

#include "tests/support/test.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static struct rlimit before;

/* This thread's effective capability, of those that it is permitted. */
static bool set_right(bool on)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
    struct __user_cap_data_struct *word = &data[CAP_TO_INDEX(CAP_IPC_LOCK)];

    if (syscall(SYS_capget, &header, data))
        return false;
    word->effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
    if (on)
        word->effective |= word->permitted & CAP_TO_MASK(CAP_IPC_LOCK);
    return !syscall(SYS_capset, &header, data);
}

void lock_limit_begin(uint64_t bytes)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    limit = (struct rlimit){bytes, bytes > before.rlim_max ? bytes : before.rlim_max};
    if (!set_right(false))
        test_skip("this process keeps the right to lock memory");
    if (setrlimit(RLIMIT_MEMLOCK, &limit))
        test_skip("RLIMIT_MEMLOCK cannot be %ju bytes here", (uintmax_t)bytes);
    test_after(lock_limit_end);
}

void lock_limit_end(void)
{
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
    assert_true(set_right(true));
}
