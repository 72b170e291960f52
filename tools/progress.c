/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See progress.h.
 */
#include "tools/progress.h"

#include "tools/foreign.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define ERASE "\r\033[K"

static bool shown;

bool progress_terminal(int fd)
{
    const char *term = secure_getenv("TERM");

    return isatty(fd) && term && strcmp(term, "dumb") != 0;
}

/* The columns that a line may have, the last one left free; 0: no terminal. */
static size_t columns(void)
{
    struct winsize size = {.ws_col = 0};

    if (!progress_terminal(STDERR_FILENO))
        return 0;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || size.ws_col < 2 ? 79 : size.ws_col - 1u;
}

void progress_show(const char *format, ...)
{
    char line[256];
    size_t width = columns();
    va_list args;

    if (!width)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (width < strlen(line))
        line[width] = '\0';
    foreign_text(line); /* also where a character was cut */
    fputs(ERASE, stderr);
    fputs(line, stderr);
    fflush(stderr);
    shown = true;
}

void progress_end(void)
{
    if (shown)
        fputs(ERASE, stderr);
    shown = false;
}
