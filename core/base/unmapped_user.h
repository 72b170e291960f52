/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Users without a number in this user namespace. The kernel shows each of them as the same number,
 * 65534 unless an operator chose another, which a process may have as its own as well: then equal
 * numbers do not mean the same user.
 *
 * All is inline: libraries that share no private function use it (high_fd.h).
 */
#ifndef HMREG_CORE_BASE_UNMAPPED_USER_H
#define HMREG_CORE_BASE_UNMAPPED_USER_H

#include "core/base/high_fd.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#define UNMAPPED_USER 65534u /* the kernel's default */

/* Reads a short file; "": it cannot be read. */
static inline void unmapped_user_read(const char *path, char *text, size_t room)
{
    int fd = high_fd(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t got = fd < 0 ? -1 : read(fd, text, room - 1);

    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = '\0';
}

/* Is there no such user: has this user namespace a number for every user of the machine? The lines
 * of the map are "first first-outside count". Of a longer map than is read here: no. */
static inline bool unmapped_user_none(void)
{
    unsigned long long sum = 0;
    char text[1024], *at = text;

    unmapped_user_read("/proc/self/uid_map", text, sizeof(text));
    while (*at) {
        char *end = at;

        for (int i = 0; i < 3; i++) {
            unsigned long long number = strtoull(at, &end, 10);

            if (end == at)
                return sum == UINT32_MAX;
            sum += i == 2 ? number : 0;
            at = end;
        }
    }
    return sum == UINT32_MAX;
}

/* Their number. */
static inline uid_t unmapped_user(void)
{
    char text[32];

    unmapped_user_read("/proc/sys/kernel/overflowuid", text, sizeof(text));
    return text[0] ? (uid_t)strtoul(text, NULL, 10) : UNMAPPED_USER;
}

#endif
