/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See ofi_serial.h.
 */
#include "providers/ofi/ofi_serial.h"

#include <pthread.h>
#include <stdlib.h>

struct ofi_serial {
    const struct fid_domain *domain;
    unsigned users; /* protected by list_lock, as next */
    struct ofi_serial *next;
    pthread_mutex_t lock;
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ofi_serial *list;

/* A forked child uses no domain of its parent: threads of the parent may hold their locks. */
static void begin_in_child(void)
{
    list_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    list = NULL;
}

/* Failure needs no report: without the handler a child at worst finds its parent's list. */
static __attribute__((constructor)) void handle_forks(void)
{
    (void)pthread_atfork(NULL, NULL, begin_in_child);
}

/* The caller holds list_lock. */
static struct ofi_serial *add(const struct fid_domain *domain)
{
    struct ofi_serial *serial = calloc(1, sizeof(*serial));

    if (!serial)
        return NULL;
    pthread_mutex_init(&serial->lock, NULL);
    serial->domain = domain;
    serial->next = list;
    list = serial;
    return serial;
}

struct ofi_serial *ofi_serial_get(const struct fid_domain *domain)
{
    struct ofi_serial *serial;

    pthread_mutex_lock(&list_lock);
    for (serial = list; serial && serial->domain != domain;)
        serial = serial->next;
    serial = serial ? serial : add(domain);
    if (serial)
        serial->users++;
    pthread_mutex_unlock(&list_lock);
    return serial;
}

void ofi_serial_put(struct ofi_serial *serial)
{
    struct ofi_serial **at = &list;

    if (!serial)
        return;
    pthread_mutex_lock(&list_lock);
    if (!--serial->users) {
        while (*at != serial)
            at = &(*at)->next;
        *at = serial->next;
        pthread_mutex_destroy(&serial->lock);
        free(serial);
    }
    pthread_mutex_unlock(&list_lock);
}

void ofi_serial_enter(struct ofi_serial *serial)
{
    if (serial)
        pthread_mutex_lock(&serial->lock);
}

void ofi_serial_leave(struct ofi_serial *serial)
{
    if (serial)
        pthread_mutex_unlock(&serial->lock);
}
