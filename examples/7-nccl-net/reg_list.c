/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What reg.c replaces, to compare both: registration by libibverbs alone, behind a list of pages
 * that is searched from its start under a lock, with all rights, and without a region's end when
 * its memory ends. Device memory needs the caller's dmabuf. Of a build of its own:
 * libnccl-net-list.so.
 */
#include "plugin.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct entry {
    const struct device *device;
    uintptr_t first, pages;
    int users;
    struct ibv_mr *mr[RAILS];
};

struct handle { /* NCCL's mhandle; begins as a region, for reg_keys() */
    struct hmreg_mr_head head;
    struct hmreg_mr_keys keys[RAILS];
    struct entry *entry;
};

const struct hmreg_domain_config reg_policy = {.size = sizeof(reg_policy)};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static struct entry **entries;
static size_t count, room;

static void deregister(struct entry *entry)
{
    for (int i = 0; i < RAILS; i++)
        if (entry->mr[i])
            ibv_dereg_mr(entry->mr[i]);
    free(entry);
}

static struct entry *find(const struct device *device, uintptr_t first, uintptr_t pages)
{
    for (size_t i = 0; i < count; i++)
        if (entries[i]->device == device && entries[i]->first == first &&
            entries[i]->pages == pages)
            return entries[i];
    return NULL;
}

static int add(const struct device *device, uintptr_t first, uintptr_t pages, int fd,
               uint64_t offset, struct entry **out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct entry *entry = (struct entry *)calloc(1, sizeof(*entry));
    struct entry **more = entries;

    if (count == room)
        more = (struct entry **)realloc(entries, (2 * room + 16) * sizeof(*entries));
    if (!more || !entry) {
        entries = more ? more : entries;
        free(entry);
        return -ENOMEM;
    }
    room = count == room ? 2 * room + 16 : room;
    entries = more;
    entry->device = device;
    entry->first = first;
    entry->pages = pages;
    for (int i = 0; i < device->rails; i++) {
        struct ibv_pd *pd = (struct ibv_pd *)device->native[i];

        entry->mr[i] = fd < 0 ? ibv_reg_mr(pd, (void *)first, pages * page, ALL)
                              : ibv_reg_dmabuf_mr(pd, offset, pages * page, first, fd, ALL);
        if (!entry->mr[i]) {
            int rc = -errno;

            deregister(entry);
            return rc;
        }
    }
    entries[count++] = entry;
    *out = entry;
    return 0;
}

int reg_get(const struct device *device, void *data, size_t size, uint64_t access, int fd,
            uint64_t offset, struct hmreg_mr **out)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)data & -page;
    uintptr_t pages = ((uintptr_t)data + size - first + page - 1) / page;
    struct handle *handle = (struct handle *)calloc(1, sizeof(*handle));
    int rc;

    (void)access;
    if (!handle)
        return -ENOMEM;
    pthread_mutex_lock(&lock);
    handle->entry = find(device, first, pages);
    rc = handle->entry ? 0 : add(device, first, pages, fd, offset, &handle->entry);
    for (int i = 0; i < device->rails && !rc; i++) {
        handle->keys[i].lkey = handle->entry->mr[i]->lkey;
        handle->keys[i].rkey = handle->entry->mr[i]->rkey;
    }
    if (!rc)
        handle->entry->users++;
    pthread_mutex_unlock(&lock);
    handle->head.keys = handle->keys;
    if (rc)
        free(handle);
    else
        *out = (struct hmreg_mr *)(void *)handle;
    return rc;
}

void reg_put(struct hmreg_mr *mr)
{
    struct handle *handle = (struct handle *)(void *)mr;
    struct entry *entry = handle ? handle->entry : NULL;

    pthread_mutex_lock(&lock);
    if (entry && !--entry->users) {
        for (size_t i = 0; i < count; i++)
            if (entries[i] == entry)
                entries[i--] = entries[--count];
        deregister(entry);
    }
    pthread_mutex_unlock(&lock);
    free(handle);
}
