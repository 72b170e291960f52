/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Messages between processes as files of a folder, which need no descriptor that CRIU would have to
 * save. A program of yours has a service for this that it connects with anew when it is restored.
 */
#ifndef EXAMPLES_MAIL_H
#define EXAMPLES_MAIL_H

#include <stddef.h>

/* 0, or a negative error number. */
int mail_post(const char *folder, const char *name, const void *bytes, size_t size);
/* Waits for a message, of at most so many bytes, and leaves it there. Returns its bytes. */
int mail_await(const char *folder, const char *name, void *bytes, size_t most);

#endif
