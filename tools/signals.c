/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See signals.h. What an executable has in .preinit_array is called before the constructors of all
 * libraries.
 */
#include "tools/signals.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

static const int numbers[] = {
    SIGHUP, SIGINT,  SIGQUIT, SIGTERM,                         /* users' */
    SIGILL, SIGTRAP, SIGABRT, SIGBUS,  SIGFPE, SIGSEGV, SIGSYS /* crashes */
};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

/* A sanitizer's handlers are among them. */
static struct sigaction actions[NUMBERS];

static void remember(void)
{
    for (size_t i = 0; i < NUMBERS; i++)
        sigaction(numbers[i], NULL, &actions[i]);
}

__attribute__((section(".preinit_array"), used)) static void (*before_libraries)(void) = remember;

void signals_restore(void)
{
    int error = errno;

    for (size_t i = 0; i < NUMBERS; i++)
        sigaction(numbers[i], &actions[i], NULL);
    errno = error;
}
