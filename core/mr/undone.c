/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See undone.h. One registration after the other is taken from the list, so that the fabric is
 * called without the lock. Only a lost domain's thread takes from its list, or hmreg_domain_close()
 * if there is no such thread. The thread sleeps until a call of the domain wakes it, then tries
 * each registration once: registrations that the fabric is busy with wait for the next call.
 */
#include "core/mr/undone.h"

#include "core/base/error.h"
#include "core/base/exiting.h"
#include "core/base/thread.h"
#include "core/group/group.h"

#include <errno.h>
#include <limits.h>

/* ---- one registration ------------------------------------------------------------------- */

static int deregister(struct hmreg_domain *domain, struct hmreg_mr_keys *made, bool key_taken,
                      uint64_t key)
{
    int rc = domain->ops.dereg(domain->self, made);

    if (rc != -EBUSY && key_taken)
        keys_give(&domain->keys, key);
    return rc;
}

void native_hide(struct hmreg_mr_keys *made)
{
    struct hmreg_mr_keys hidden = MR_NONE;

    hidden.native = made->native;
    hidden.priv = made->priv;
    *made = hidden;
}

/* A registration's ranges. *count: their number. */
static size_t first_mapping(const struct natives *natives, size_t index, size_t *count)
{
    *count = natives->parts > 1 ? 1 : natives->ranges;
    return index / natives->parts * natives->ranges + index % natives->parts;
}

static void unmap(struct natives *natives, size_t index)
{
    size_t count, first = first_mapping(natives, index, &count);

    for (size_t i = 0; natives->mappings && i < count; i++)
        mapping_close(&natives->mappings[first + i]);
}

/* Calls the fabric. -EBUSY: nothing changed. */
static int end_now(struct natives *natives, size_t index, struct hmreg_domain *domain)
{
    struct mr_note *note = &natives->note[index];
    int rc = deregister(domain, &natives->made[index], note->key_taken, note->taken_key);

    if (rc == -EBUSY)
        return rc;
    note->live = false;
    natives->made[index] = MR_NONE;
    unmap(natives, index);
    return rc;
}

int native_end(struct natives *natives, size_t index, struct hmreg_domain *domain)
{
    if (!domain_is_lost(domain))
        return end_now(natives, index, domain);
    undone_keep(natives, index, domain);
    return 0;
}

static int keep_plain(struct hmreg_domain *domain, const struct hmreg_mr_keys *made,
                      const struct iovec *range, bool key_taken, uint64_t key)
{
    struct natives *natives = natives_new(1, 1, range, 1);

    if (!natives)
        return hmreg_fail(-EBUSY,
                          "hmreg has no memory to end a region of a lost domain: try again later");
    *natives->made = *made;
    natives->note->key_taken = key_taken;
    natives->note->taken_key = key;
    undone_keep(natives, 0, domain);
    natives_leave(natives);
    return 0;
}

int native_end_plain(struct hmreg_domain *domain, struct hmreg_mr_keys *made,
                     const struct iovec *range, bool key_taken, uint64_t key)
{
    if (!domain_is_lost(domain))
        return deregister(domain, made, key_taken, key);
    return keep_plain(domain, made, range, key_taken, key);
}

/* ---- the list --------------------------------------------------------------------------- */

static void append(struct undone *undone, struct mr_note *note)
{
    note->next = NULL;
    pthread_mutex_lock(&undone->lock);
    if (undone->first)
        undone->last->next = note;
    else
        undone->first = note;
    undone->last = note;
    pthread_mutex_unlock(&undone->lock);
}

/* Takes one from the list. NULL: it is empty, or other threads are trying them. */
static struct mr_note *take(struct undone *undone)
{
    struct mr_note *note;

    pthread_mutex_lock(&undone->lock);
    note = undone->first;
    if (note)
        undone->first = note->next;
    pthread_mutex_unlock(&undone->lock);
    return note;
}

/* Moves a registration of a group's region to natives of its own, since its member may be replaced.
 * NULL: no memory. */
static struct natives *move_out(struct natives *natives, size_t index)
{
    struct mr_note *note = &natives->note[index];
    size_t count, first = first_mapping(natives, index, &count);
    struct natives *own = natives_new(1, 1, &natives->iov[first], count);

    if (!own)
        return NULL;
    *own->made = natives->made[index];
    own->note->key_taken = note->key_taken;
    own->note->taken_key = note->taken_key;
    for (size_t i = 0; i < count; i++) {
        own->mappings[i] = natives->mappings[first + i];
        natives->mappings[first + i] = (struct mapping){0};
    }
    note->live = false;
    natives->made[index] = MR_NONE;
    return own;
}

static void keep(struct natives *natives, size_t index, struct hmreg_domain *domain)
{
    struct mr_note *note = &natives->note[index];

    note->live = false;
    note->kept = true;
    native_hide(&natives->made[index]);
    atomic_fetch_add(&natives->users, 1);
    atomic_fetch_add(&domain->undone.count, 1);
    append(&domain->undone, note);
}

void undone_keep(struct natives *natives, size_t index, struct hmreg_domain *domain)
{
    struct natives *own = natives->members > 1 ? move_out(natives, index) : NULL;

    if (own)
        keep(own, 0, domain);
    else
        keep(natives, index, domain);
    if (own)
        natives_leave(own);
}

/* False: there is none. */
static bool try_one(struct hmreg_domain *domain)
{
    struct undone *undone = &domain->undone;
    struct mr_note *note = take(undone);
    struct natives *natives;

    if (!note)
        return false;
    natives = note->owner;
    if (end_now(natives, (size_t)(note - natives->note), domain) == -EBUSY) {
        append(undone, note);
        return true;
    }
    note->kept = false;
    natives_leave(natives);
    atomic_fetch_sub(&undone->count, 1);
    return true;
}

static void retry(struct hmreg_domain *domain, unsigned most)
{
    unsigned tries = atomic_load(&domain->undone.count);
    struct hmreg_error before;

    hmreg_error_save(&before);
    for (tries = tries < most ? tries : most; tries && try_one(domain); tries--)
        ;
    hmreg_error_restore(&before);
}

/* ---- a lost domain's thread ------------------------------------------------------------- */

static void retry_on_thread(struct hmreg_domain *domain)
{
    struct undone *undone = &domain->undone;
    bool left = true;

    for (unsigned tries = atomic_load(&undone->count); tries && left && exiting_enter(); tries--) {
        atomic_store(&undone->inside, 1);
        left = try_one(domain);
        atomic_store(&undone->inside, 0);
        exiting_leave();
    }
}

static void *run(void *arg)
{
    struct hmreg_domain *domain = arg;
    struct undone *undone = &domain->undone;

    thread_name("hmreg-lost");
    pthread_mutex_lock(&undone->lock);
    undone->task = thread_task();
    while (!undone->ends) {
        if (!undone->wanted) {
            pthread_cond_wait(&undone->changed, &undone->lock);
            continue;
        }
        undone->wanted = false;
        pthread_mutex_unlock(&undone->lock);
        retry_on_thread(domain);
        pthread_mutex_lock(&undone->lock);
    }
    pthread_mutex_unlock(&undone->lock);
    return NULL;
}

/* The lock is held while a thread starts. */
static void call_thread(struct hmreg_domain *domain, bool may_start)
{
    struct undone *undone = &domain->undone;
    struct hmreg_error before;

    if (!domain->caps.any_thread)
        return;
    hmreg_error_save(&before);
    if (!thread_lock_to_start(&undone->lock)) {
        undone->wanted = true;
        if (may_start && !undone->started && exiting_heed())
            undone->started = !thread_start(&undone->thread, NULL, run, domain,
                                            "to deregister a lost domain's regions");
        pthread_cond_signal(&undone->changed);
        pthread_mutex_unlock(&undone->lock);
    }
    hmreg_error_restore(&before);
}

void undone_init(struct undone *undone)
{
    pthread_mutex_init(&undone->lock, NULL);
    pthread_cond_init(&undone->changed, NULL);
}

void undone_close(struct hmreg_domain *domain)
{
    struct undone *undone = &domain->undone;

    if (undone->started) {
        pthread_mutex_lock(&undone->lock);
        undone->ends = true;
        pthread_cond_signal(&undone->changed);
        pthread_mutex_unlock(&undone->lock);
        thread_join(undone->thread, &undone->task);
    }
    pthread_cond_destroy(&undone->changed);
    pthread_mutex_destroy(&undone->lock);
}

/* ---- calls ------------------------------------------------------------------------------ */

void undone_retry(struct hmreg_domain *domain, unsigned most)
{
    for (size_t i = 0; i < group_rails(domain); i++) {
        struct hmreg_domain *rail = group_rail(domain, i);

        if (!undone_left(rail))
            continue;
        if (domain_is_lost(rail))
            call_thread(rail, true);
        else
            retry(rail, most);
    }
}

void undone_wake(struct hmreg_domain *domain)
{
    for (size_t i = 0; i < group_rails(domain); i++)
        if (undone_left(group_rail(domain, i)) && domain_is_lost(group_rail(domain, i)))
            call_thread(group_rail(domain, i), false);
}

void undone_end_here(struct hmreg_domain *domain)
{
    if (domain_is_lost(domain) && !domain->caps.any_thread)
        retry(domain, UINT_MAX);
}

/* Is memory of the registration in this range? */
static bool is_of(const struct mr_note *note, uint64_t start, uint64_t end)
{
    const struct natives *natives = note->owner;
    size_t part = (size_t)(note - natives->note) % natives->parts;
    bool found = false;

    for (size_t i = 0; i < natives->ranges; i++) {
        uint64_t first = (uint64_t)(uintptr_t)natives->asked[i].iov_base;

        if (natives->parts == 1 || i == part)
            found |= first < end && start < first + natives->asked[i].iov_len;
    }
    return found;
}

bool undone_touch(struct hmreg_domain *domain, uint64_t start, uint64_t end)
{
    struct undone *undone = &domain->undone;
    bool touch = false;

    if (!undone_left(domain))
        return false;
    pthread_mutex_lock(&undone->lock);
    for (struct mr_note *note = undone->first; note && !touch; note = note->next)
        touch = is_of(note, start, end);
    pthread_mutex_unlock(&undone->lock);
    return touch;
}

unsigned undone_left(const struct hmreg_domain *domain)
{
    return atomic_load(&domain->undone.count);
}
