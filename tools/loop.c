/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See loop.h. Also the loop of the loopback domain, which needs no connection.
 */
#include "tools/loop.h"

#include <hmreg/loopback.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

_Static_assert(sizeof(((struct loop_why *)0)->text) > sizeof(((struct hmreg_error *)0)->text),
               "an error's text is passed on whole");

int loop_fail(struct loop_why *why, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    return -1;
}

static int64_t seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

int64_t loop_deadline(void)
{
    return seconds() + LOOP_TIMEOUT;
}

bool loop_is_over(int64_t deadline)
{
    return seconds() > deadline;
}

/* ---- loopback --------------------------------------------------------------------------- */

static int open_loopback(const struct fabric *fabric, struct hmreg_domain *domain,
                         struct loop **out, struct loop_why *why)
{
    *out = NULL;
    return 0;
}

static int move_loopback(struct loop *loop, const struct loop_move *move, struct loop_why *why)
{
    int rc = move->write ? hmreg_loopback_write(move->remote, move->local, move->len, NULL,
                                                move->addr, move->key)
                         : hmreg_loopback_read(move->remote, move->local, move->len, NULL,
                                               move->addr, move->key);

    return rc ? loop_fail(why, "%s", hmreg_last_error()->text) : 0;
}

static void close_loopback(struct loop *loop)
{
}

const struct loop_ops loop_loopback_ops = {
    .open = open_loopback,
    .move = move_loopback,
    .close = close_loopback,
};
