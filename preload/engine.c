/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See engine.h. The kernel wipes struct engine at a fork, its lock too, so a child finds an
 * unopened library and a free lock. Look-ups take no lock: a slot is filled before its object is
 * stored, and its object is cleared before the slot is reused.
 */
#include "preload/engine.h"

#include "preload/record.h"
#include "preload/fork_wiped.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#define SLOTS 256 /* domains at a time; calls on more are passed on */

struct slot {
    _Atomic(const void *) object; /* NULL: free */
    const void *parent;
    struct hmreg_domain *domain; /* NULL: it cannot be opened */
    bool busy;                   /* engine_flush() could not close it */
};

/* All zero, as in a forked child: the library was not opened yet. */
struct engine {
    pthread_mutex_t lock; /* held to open, and to change slots */
    _Atomic int opened;   /* 1: lib is valid; -1: it cannot be opened */
    struct hmreg *lib;
    _Atomic unsigned used; /* slots that were ever in use */
    struct slot slots[SLOTS];
};

static struct fork_wiped memory = {.size = sizeof(struct engine)};

/* ---- the process ------------------------------------------------------------------------- */

static struct engine *engine(void)
{
    return fork_wiped_get(&memory);
}

/* As engine(); NULL: this process has opened nothing. */
static struct engine *engine_if_used(void)
{
    return fork_wiped_peek(&memory);
}

/* ---- reasons ----------------------------------------------------------------------------- */

_Static_assert(sizeof(((struct record_reason *)0)->text) >= sizeof(((struct hmreg_error *)0)->text),
               "an error's text is recorded whole");

void engine_refused(int rc, const char *otherwise)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    if (rc != -EOPNOTSUPP || hmreg_mr_explain(NULL, &why) || !why.refused) {
        record_passed_on(otherwise, hmreg_last_error()->text);
        return;
    }
    for (uint32_t i = 0; i < why.refused; i++)
        record_passed_on(why.reasons[i].slug, why.reasons[i].text);
}

/* ---- the library ------------------------------------------------------------------------- */

static void open_library(struct engine *self)
{
    /* Nothing is cached, so no memory is watched, and libc stays unhooked. */
    const struct hmreg_config config = {
        .size = sizeof(config), .ifaces = HMREG_IFACES_STARTED, .monitor = HMREG_MONITOR_DISABLED};
    int rc = hmreg_open(&config, &self->lib);

    if (rc)
        engine_refused(rc, "hmreg-not-opened");
    atomic_store_explicit(&self->opened, rc ? -1 : 1, memory_order_release);
}

struct hmreg *engine_library(void)
{
    struct engine *self = engine();
    int opened;

    if (!self)
        return NULL;
    /* Acquire: pairs with open_library(). */
    opened = atomic_load_explicit(&self->opened, memory_order_acquire);
    if (!opened) {
        pthread_mutex_lock(&self->lock);
        if (!atomic_load(&self->opened))
            open_library(self);
        pthread_mutex_unlock(&self->lock);
        opened = atomic_load(&self->opened);
    }
    return opened > 0 ? self->lib : NULL;
}

/* ---- domains ----------------------------------------------------------------------------- */

/* NULL: none. */
static struct slot *find_slot(struct engine *self, const void *object)
{
    unsigned used = atomic_load_explicit(&self->used, memory_order_acquire);

    /* Acquire: pairs with fill_slot(). */
    for (unsigned i = 0; i < used; i++)
        if (atomic_load_explicit(&self->slots[i].object, memory_order_acquire) == object)
            return &self->slots[i];
    return NULL;
}

/* Caller holds the lock. NULL: all slots are in use. */
static struct slot *fill_slot(struct engine *self, const void *object, const void *parent,
                              struct hmreg_domain *domain, bool busy)
{
    unsigned used = atomic_load(&self->used), at = 0;

    while (at < used && atomic_load(&self->slots[at].object))
        at++;
    if (at == SLOTS)
        return NULL;
    self->slots[at].parent = parent;
    self->slots[at].domain = domain;
    self->slots[at].busy = busy;
    atomic_store_explicit(&self->slots[at].object, object, memory_order_release);
    if (at == used)
        atomic_store_explicit(&self->used, used + 1, memory_order_release);
    return &self->slots[at];
}

/* Opens without the lock, since this calls the fabric. When two threads open a domain for one
 * object, the second closes its own. */
static struct hmreg_domain *add_domain(struct engine *self, void *object, const void *parent,
                                       engine_open_call *open, const void *context)
{
    const struct hmreg_domain_config config = {.size = sizeof(config),
                                               .flags = HMREG_DOMAIN_NO_CACHE,
                                               .order = {HMREG_PATH_DMABUF, HMREG_PATH_PEERMEM}};
    struct hmreg_domain *domain = NULL, *unused = NULL;
    int rc = open(self->lib, object, &config, context, &domain);
    struct slot *slot;

    if (rc)
        engine_refused(rc, "domain-not-opened");
    pthread_mutex_lock(&self->lock);
    slot = find_slot(self, object);
    if (slot)
        unused = domain;
    else
        slot = fill_slot(self, object, parent, domain, false);
    if (!slot)
        unused = domain;
    domain = slot ? slot->domain : NULL;
    pthread_mutex_unlock(&self->lock);
    hmreg_domain_close(unused);
    return domain;
}

struct hmreg_domain *engine_domain(void *object, const void *parent, engine_open_call *open,
                                   const void *context)
{
    struct hmreg *lib = engine_library();
    struct engine *self = lib ? engine() : NULL;
    struct slot *slot = self ? find_slot(self, object) : NULL;

    if (slot)
        return slot->domain;
    return self ? add_domain(self, object, parent, open, context) : NULL;
}

/* ---- ends -------------------------------------------------------------------------------- */

static bool is_of(const struct slot *slot, const void *object, const void *parent)
{
    const void *of = atomic_load(&slot->object);

    return of && (parent ? slot->parent == parent : of == object);
}

/* Clears the slot if it belongs to this object or parent; *taken: its content before. */
static bool take_slot(struct engine *self, unsigned at, const void *object, const void *parent,
                      struct slot *taken)
{
    struct slot *slot = &self->slots[at];
    bool found;

    pthread_mutex_lock(&self->lock);
    found = is_of(slot, object, parent);
    if (found) {
        *taken = (struct slot){atomic_load(&slot->object), slot->parent, slot->domain, slot->busy};
        atomic_store(&slot->object, NULL);
    }
    pthread_mutex_unlock(&self->lock);
    return found;
}

/* Puts the slot of a domain back that could not be closed. */
static void put_slot(struct engine *self, const struct slot *taken)
{
    pthread_mutex_lock(&self->lock);
    fill_slot(self, atomic_load(&taken->object), taken->parent, taken->domain, true);
    pthread_mutex_unlock(&self->lock);
}

static void flush(const void *object, const void *parent)
{
    struct engine *self = engine_if_used();
    unsigned used = self ? atomic_load(&self->used) : 0;
    struct slot taken;

    for (unsigned i = 0; i < used; i++)
        if (take_slot(self, i, object, parent, &taken) && hmreg_domain_close(taken.domain))
            put_slot(self, &taken);
}

void engine_flush(const void *object)
{
    flush(object, NULL);
}

void engine_flush_children(const void *parent)
{
    flush(NULL, parent);
}

void engine_detach(const void *object)
{
    struct engine *self = engine_if_used();
    struct slot *slot;

    if (!self)
        return;
    pthread_mutex_lock(&self->lock);
    slot = find_slot(self, object);
    if (slot)
        atomic_store(&slot->object, slot);
    pthread_mutex_unlock(&self->lock);
}

/* Clears busy slots only: the program may have a new object at this address, with a new slot. */
static void forget(const void *object, const void *parent)
{
    struct engine *self = engine_if_used();

    if (!self || !atomic_load(&self->used))
        return;
    pthread_mutex_lock(&self->lock);
    for (unsigned i = 0; i < atomic_load(&self->used); i++)
        if (self->slots[i].busy && is_of(&self->slots[i], object, parent))
            atomic_store(&self->slots[i].object, NULL);
    pthread_mutex_unlock(&self->lock);
}

void engine_forget(const void *object)
{
    forget(object, NULL);
}

void engine_forget_children(const void *parent)
{
    forget(NULL, parent);
}
