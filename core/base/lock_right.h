/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Is this process exempt from RLIMIT_MEMLOCK? The kernel requires CAP_IPC_LOCK in the initial user
 * namespace. The capability in another one, as root has it in a rootless container, exempts from
 * nothing. The inode of the initial namespace is a constant of the kernel (PROC_USER_INIT_INO).
 *
 * All is inline, for libraries that share no private function.
 */
#ifndef HMREG_CORE_BASE_LOCK_RIGHT_H
#define HMREG_CORE_BASE_LOCK_RIGHT_H

#include <linux/capability.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOCK_RIGHT_NAMESPACE "/proc/self/ns/user"
#define LOCK_RIGHT_FIRST     "user:[4026531837]"

/* target: of the link LOCK_RIGHT_NAMESPACE. If the right cannot be read, the limit counts. */
static inline bool lock_right_is_first(const char *target)
{
    return !strcmp(target, LOCK_RIGHT_FIRST);
}

static inline bool lock_right_exempts(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    char target[64] = "";

    return !syscall(SYS_capget, &header, data) &&
           (data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK)) &&
           readlink(LOCK_RIGHT_NAMESPACE, target, sizeof(target) - 1) > 0 &&
           lock_right_is_first(target);
}

#endif
