/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A NIC that is gone: the program's event says so, no get finds anything on its domain, and what is
 * still held ends when its work requests are flushed. Another domain takes over.
 */
#include "parts.h"

#include <hmreg/loopback.h>
#include <hmreg/lost.h>
#include <sched.h>
#include <stdio.h>

static char buffer[4096];

static int get(struct hmreg_domain *domain, struct hmreg_mr **mr)
{
    return hmreg_mr_get(domain, buffer, sizeof(buffer), HMREG_SEND, mr);
}

/* Over libibverbs: at IBV_EVENT_DEVICE_FATAL. */
static int nic_is_gone(struct hmreg_domain *domain)
{
    struct hmreg_mr *again = NULL;
    int rc = hmreg_domain_lost(domain, "IBV_EVENT_DEVICE_FATAL");

    return rc ? rc : expect(get(domain, &again) == -ENODEV);
}

/* The domain's own thread deregisters what has ended, and the device may not answer. */
static int close_lost(struct hmreg_domain *domain)
{
    int rc;

    while ((rc = hmreg_domain_close(domain)) == -EBUSY)
        sched_yield(); /* a program does something else meanwhile */
    return rc;
}

int lost(struct hmreg *lib)
{
    struct hmreg_domain *domain = NULL, *next = NULL;
    struct hmreg_mr *held = NULL, *mr = NULL;
    int rc = hmreg_domain_open_loopback(lib, NULL, NULL, &domain), closed;

    rc = rc ? rc : get(domain, &held);
    rc = rc ? rc : nic_is_gone(domain);
    rc = rc ? rc : hmreg_domain_open_loopback(lib, NULL, NULL, &next);
    rc = rc ? rc : get(next, &mr);
    hmreg_mr_put(held); /* its work requests are flushed */
    hmreg_mr_put(mr);
    hmreg_domain_close(next);
    closed = close_lost(domain);
    rc = rc ? rc : closed;
    if (!rc)
        printf("lost: no get on a NIC that is gone, and another takes over\n");
    return rc;
}
