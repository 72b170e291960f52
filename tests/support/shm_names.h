/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * libfabric's shm names an endpoint's file by the process id. A process that a signal ends leaves
 * the file, and a later process of the same id gets EBUSY from fi_enable(), since libfabric takes
 * it for the owner, which lives.
 */
#ifndef TESTS_SHM_NAMES_H
#define TESTS_SHM_NAMES_H

#include <glob.h>
#include <stdio.h>
#include <unistd.h>

/* Removes what another process of this id has left. To be called before the first endpoint. */
static inline void shm_names_forget(void)
{
    char pattern[64];
    glob_t found;

    snprintf(pattern, sizeof(pattern), "/dev/shm/%d:*", (int)getpid());
    if (glob(pattern, 0, NULL, &found))
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        unlink(found.gl_pathv[i]);
    globfree(&found);
}

#endif
