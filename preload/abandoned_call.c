/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See record_was_abandoned(). A stack grows downward: a function whose frame is not below that of a
 * call proves that the call has ended, if both are on one stack. So both must lie on the thread's
 * initial stack, not on an alternate signal stack or a coroutine's: one mapping must contain the
 * frame and the end of the initial stack (anchor()). Without that proof the call counts as running:
 * the thread's calls are passed on and not recorded.
 *
 * A signal handler may run this: system calls only.
 */
#include "core/base/high_fd.h"
#include "preload/record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <unistd.h>

/* ---- the list of mappings ---------------------------------------------------------------- */

struct list {
    int fd;
    size_t used, read;
    char bytes[512];
};

/* The next byte; -1: the end. */
static int next_byte(struct list *list)
{
    if (list->used == list->read) {
        ssize_t got = read(list->fd, list->bytes, sizeof(list->bytes));

        list->used = 0;
        list->read = got > 0 ? (size_t)got : 0;
        if (!list->read)
            return -1;
    }
    return (unsigned char)list->bytes[list->used++];
}

/* Reads a hexadecimal number and the byte behind it. */
static uintptr_t next_number(struct list *list)
{
    uintptr_t number = 0;
    int byte;

    for (;;) {
        byte = next_byte(list);
        if (byte >= '0' && byte <= '9')
            number = number << 4 | (uintptr_t)(byte - '0');
        else if (byte >= 'a' && byte <= 'f')
            number = number << 4 | (uintptr_t)(byte - 'a' + 10);
        else
            return number;
    }
}

/* Does one mapping contain both? */
static bool is_one_mapping(uintptr_t low, uintptr_t high)
{
    struct list list = {.fd = high_fd(open("/proc/self/maps", O_RDONLY | O_CLOEXEC))};
    uintptr_t start = 0, end = 0;
    int byte = list.fd < 0 ? -1 : 0;

    while (byte >= 0 && end <= low) {
        start = next_number(&list);
        end = next_number(&list);
        do
            byte = next_byte(&list);
        while (byte >= 0 && byte != '\n');
    }
    if (list.fd >= 0)
        close(list.fd);
    return start <= low && high < end;
}

/* ---- the thread's stack ------------------------------------------------------------------- */

/* An address above all frames of the thread's initial stack. The main thread's holds the kernel's
 * AT_RANDOM bytes there; the stacks of other threads end with their thread-local data. */
static uintptr_t anchor(void)
{
    return gettid() == getpid() ? (uintptr_t)getauxval(AT_RANDOM) : (uintptr_t)&record_guard;
}

static bool is_on_alternate_stack(void)
{
    stack_t stack;

    return sigaltstack(NULL, &stack) || stack.ss_flags & SS_ONSTACK;
}

/* The abandoned call had disabled cancellation; it is still disabled here. */
bool record_was_abandoned(uintptr_t frame)
{
    int error = errno, disabled;
    bool abandoned = record_guard.frame <= frame && frame < anchor() && !is_on_alternate_stack() &&
                     is_one_mapping(record_guard.frame, anchor());

    if (abandoned) {
        record_guard.frame = 0;
        pthread_setcancelstate(record_guard.cancellation, &disabled);
    }
    errno = error;
    return abandoned;
}
