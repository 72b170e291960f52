/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Opens and closes the objects that loopback's regions and domains can be bound to: endpoints and
 * counters, which have no other function, and event queues.
 */
#include "providers/loopback/loopback.h"

#include "core/base/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- opening and closing ---------------------------------------------------------------- */

/* out: a pointer to a pointer to the object's type. */
static int object_new(struct hmreg_domain *domain, size_t size, uint32_t kind, void *out)
{
    struct loopback *loopback = hmreg_domain_priv(domain, "loopback");
    struct object *object;
    int rc;

    if (!loopback)
        return hmreg_fail(-EINVAL, "domain is NULL or not a loopback domain");
    rc = hmreg_lib_check(loopback->lib);
    if (rc)
        return rc;
    if (!out)
        return hmreg_fail(-EINVAL, "out is NULL");
    if (atomic_load(&loopback->lost))
        return hmreg_fail(-ENODEV, "the domain is lost: %s", atomic_load(&loopback->lost));
    object = calloc(1, size);
    if (!object)
        return hmreg_fail(-ENOMEM, "hmreg has no memory for a loopback object");
    object->kind = kind;
    object->loopback = loopback;
    atomic_fetch_add(&loopback->objects, 1);
    memcpy(out, &object, sizeof(object));
    return 0;
}

static void object_free(struct object *object)
{
    atomic_fetch_sub(&object->loopback->objects, 1);
    free(object);
}

/* Closes an endpoint or a counter. */
static int object_close(struct object *object)
{
    int rc = object ? hmreg_lib_check(object->loopback->lib) : 0;

    if (rc || !object)
        return rc;
    regions_untie(object->loopback, object);
    object_free(object);
    return 0;
}

void objects_lost(void *self, const char *why)
{
    struct loopback *loopback = self;

    atomic_store(&loopback->lost, why);
}

unsigned objects_count(void *self)
{
    struct loopback *loopback = self;

    return atomic_load(&loopback->objects);
}

int hmreg_loopback_ep_open(struct hmreg_domain *domain, struct hmreg_loopback_ep **out)
{
    return object_new(domain, sizeof(**out), OBJECT_EP, out);
}

int hmreg_loopback_ep_close(struct hmreg_loopback_ep *ep)
{
    return object_close((struct object *)ep);
}

int hmreg_loopback_counter_open(struct hmreg_domain *domain, struct hmreg_loopback_counter **out)
{
    return object_new(domain, sizeof(**out), OBJECT_COUNTER, out);
}

int hmreg_loopback_counter_close(struct hmreg_loopback_counter *counter)
{
    return object_close((struct object *)counter);
}

uint64_t hmreg_loopback_counter_read(const struct hmreg_loopback_counter *counter)
{
    return counter ? atomic_load(&counter->count) : 0;
}

int hmreg_loopback_eq_open(struct hmreg_domain *domain, struct hmreg_loopback_eq **out)
{
    struct hmreg_loopback_eq *eq;
    pthread_condattr_t attr;
    int rc = object_new(domain, sizeof(*eq), OBJECT_EQ, out);

    if (rc)
        return rc;
    eq = *out;
    eq->end = &eq->first;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&eq->arrived, &attr);
    pthread_condattr_destroy(&attr);
    return 0;
}

int hmreg_loopback_eq_close(struct hmreg_loopback_eq *eq)
{
    struct loopback *loopback;
    int rc = eq ? hmreg_lib_check(eq->object.loopback->lib) : 0;

    if (rc || !eq)
        return rc;
    loopback = eq->object.loopback;
    if (loopback->eq == eq && regions_any(loopback))
        return hmreg_fail(-EBUSY, "eq: its domain has open regions; close them first");
    pthread_mutex_lock(&loopback->lock);
    if (loopback->eq == eq)
        loopback->eq = NULL;
    pthread_mutex_unlock(&loopback->lock);
    pthread_cond_destroy(&eq->arrived);
    object_free(&eq->object);
    return 0;
}

int objects_bind_domain(void *self, void *object, uint64_t flags)
{
    struct loopback *loopback = self;
    struct hmreg_loopback_eq *eq = object;
    int rc = 0;

    if (eq->object.kind != OBJECT_EQ || eq->object.loopback != loopback)
        return hmreg_fail(-EINVAL, "object is no event queue of this domain");
    pthread_mutex_lock(&loopback->lock);
    if (loopback->eq)
        rc = hmreg_fail(-EBUSY, "an event queue is bound to the domain already");
    else
        loopback->eq = eq;
    pthread_mutex_unlock(&loopback->lock);
    return rc;
}
