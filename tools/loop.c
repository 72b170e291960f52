/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See loop.h. Also the loop of the loopback domain, which needs no connection.
 */
#include "tools/loop.h"

#include <errno.h>
#include <hmreg/loopback.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

_Static_assert(sizeof(((struct loop_why *)0)->text) > sizeof(((struct hmreg_error *)0)->text),
               "an error's text is passed on whole");

int loop_fail(struct loop_why *why, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    why->fault = LOOP_OTHER;
    return -1;
}

int loop_fail_as(struct loop_why *why, enum loop_fault fault, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why->text, sizeof(why->text), format, args);
    va_end(args);
    why->fault = fault;
    return -1;
}

enum loop_fault loop_fault_of(int error)
{
    switch (error) {
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EHOSTDOWN:
        return LOOP_NO_ROUTE;
    case ENETDOWN:
        return LOOP_PORT_DOWN;
    case ECONNREFUSED:
        return LOOP_REFUSED;
    case ETIMEDOUT:
        return LOOP_TIMED_OUT;
    default:
        return LOOP_OTHER;
    }
}

static const char *const fault_names[] = {"other", "port-down", "no-route", "refused", "timeout"};

const char *loop_fault_name(enum loop_fault fault)
{
    return fault_names[fault];
}

enum loop_fault loop_fault_named(const char *name)
{
    int fault = LOOP_TIMED_OUT;

    while (fault > LOOP_OTHER && strcmp(name, fault_names[fault]) != 0)
        fault--;
    return (enum loop_fault)fault;
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

int loop_open_self(const struct loop_ops *ops, const struct fabric *fabric,
                   struct hmreg_domain *domain, struct loop **out, struct loop_why *why)
{
    struct loop_address address;
    struct loop *loop;
    int rc = ops->open(fabric, domain, &loop, why);

    if (rc)
        return rc;
    rc = ops->address ? ops->address(loop, &address, why) : 0;
    rc = rc || !ops->connect ? rc : ops->connect(loop, &address, why);
    if (rc)
        ops->close(loop);
    else
        *out = loop;
    return rc;
}

/* ---- memory ----------------------------------------------------------------------------- */

static char byte_at(size_t place, unsigned seed)
{
    return (char)(place * 31 + place / 251 + seed);
}

void loop_fill(char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = byte_at(i, seed);
}

int loop_compare(const char *found, size_t len, unsigned seed, const char *what,
                 struct loop_why *why)
{
    for (size_t i = 0; i < len; i++)
        if (found[i] != byte_at(i, seed))
            return loop_fail(why, "%s: byte %zu of %zu is %#x, not %#x", what, i, len,
                             (unsigned char)found[i], (unsigned char)byte_at(i, seed));
    return 0;
}

/* Random, from the lower half of 32 bits: the library takes keys from the upper half. */
int loop_choose_key(struct hmreg_domain *domain, uint64_t *key, struct loop_why *why)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};
    uint32_t random;

    *key = 0;
    hmreg_domain_query(domain, &info);
    if (info.mr_mode & HMREG_MR_PROV_KEY)
        return 0;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return loop_fail(why, "the system returned no random bytes for a key");
    *key = random & INT32_MAX;
    return 0;
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
