/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 14: a process that lets go of its NIC, so that it can be saved to an image, and goes on
 * over the NIC that a message names: where it was saved, and wherever it is restored.
 *
 *     14-hibernate NIC FOLDER
 *
 * FOLDER is of its messages. At "sleep" it hibernates, and answers "asleep"; "wake" has the
 * name of the NIC to go on with; "report" is what it found at the end.
 */
#include "../common/virtual.h"
#include "load.h"
#include "mail.h"

#include <errno.h>
#include <hmreg/hibernate.h>
#include <hmreg/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DEVICE_BYTES ((size_t)2 << 20) /* a whole granule */

enum { REGISTERED, CACHED, DEVICE }; /* the regions */

struct owner {
    const char *folder;
    struct nic nic;
    struct link link;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    char *memory[REGIONS];
    struct hmreg_mr *mr[REGIONS];
    char *bytes; /* host memory for the device's */
};

/* ---- memory ----------------------------------------------------------------------------- */

static int map_host(char **at)
{
    void *memory = mmap(*at, BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE | (*at ? MAP_FIXED : 0), -1, 0);

    if (memory == MAP_FAILED)
        return -errno;
    *at = (char *)memory;
    return 0;
}

static int map_memory(struct owner *owner)
{
    uint64_t device = 0;
    int rc = map_host(&owner->memory[REGISTERED]);

    rc = rc ? rc : map_host(&owner->memory[CACHED]);
    rc = rc ? rc : map_host(&owner->bytes);
    rc = rc ? rc : virtual_reserve(DEVICE_BYTES, &device);
    owner->memory[DEVICE] = (char *)(uintptr_t)device;
    return rc ? rc : virtual_map(device, DEVICE_BYTES);
}

/* An image has no memory of the device. What cuda-checkpoint does for a whole process, this does
 * for one range: its bytes go to host memory, and come back to the same address. */
static int save_device(struct owner *owner)
{
    int rc = hmreg_copy(owner->lib, owner->bytes, owner->memory[DEVICE], BYTES);

    return rc ? rc : virtual_unmap((uintptr_t)owner->memory[DEVICE], DEVICE_BYTES);
}

static int restore_device(struct owner *owner)
{
    int rc = virtual_map((uintptr_t)owner->memory[DEVICE], DEVICE_BYTES);

    return rc ? rc : hmreg_copy(owner->lib, owner->memory[DEVICE], owner->bytes, BYTES);
}

static int register_memory(struct owner *owner)
{
    struct hmreg_mr **mr = owner->mr;
    int rc = hmreg_mr_reg(owner->domain, owner->memory[REGISTERED], BYTES, HMREG_REMOTE_WRITE, 0,
                          HMREG_KEY_ANY, 0, &mr[REGISTERED], NULL);

    rc = rc ? rc
            : hmreg_mr_get(owner->domain, owner->memory[CACHED], BYTES, HMREG_REMOTE_WRITE,
                           &mr[CACHED]);
    return rc ? rc
              : hmreg_mr_reg(owner->domain, owner->memory[DEVICE], BYTES, HMREG_REMOTE_WRITE, 0,
                             HMREG_KEY_ANY, 0, &mr[DEVICE], NULL);
}

/* ---- the writer ------------------------------------------------------------------------- */

static int pack(const struct owner *owner, struct letter *letter)
{
    int rc = 0;

    for (int i = 0; i < REGIONS && !rc; i++) {
        size_t size = sizeof(letter->token[i]);

        rc = hmreg_mr_pack_range(owner->mr[i], owner->memory[i], BYTES, letter->token[i], &size);
        letter->size[i] = (uint32_t)size;
    }
    return rc;
}

/* Lets the writer write. names: of the letter, of its answer, and of the sign that it may. */
static int meet_writer(struct owner *owner, const char *const names[3])
{
    struct letter letter = {.size = {0}};
    struct queue_card card;
    int rc = link_open(&owner->link, &owner->nic, &letter.card);

    rc = rc ? rc : pack(owner, &letter);
    rc = rc ? rc : mail_post(owner->folder, names[0], &letter, sizeof(letter));
    rc = rc ? rc : mail_await(owner->folder, names[1], &card, sizeof(card));
    if (rc != (int)sizeof(card))
        return rc < 0 ? rc : -EBADMSG;
    rc = link_connect(&owner->link, &card);
    return rc ? rc : mail_post(owner->folder, names[2], "", 0);
}

/* ---- sleep and wake --------------------------------------------------------------------- */

/* After it nothing of the NIC is left in this process, and nothing of the device but addresses. */
static int fall_asleep(struct owner *owner)
{
    int rc;

    link_close(&owner->link); /* the writer's writes end here */
    rc = hmreg_hibernate(owner->lib);
    if (rc)
        return rc;
    nic_close(&owner->nic);
    rc = save_device(owner);
    return rc ? rc : mail_post(owner->folder, "asleep", "", 0);
}

static int wake_up(struct owner *owner)
{
    char nic[64] = "";
    int rc = mail_await(owner->folder, "wake", nic, sizeof(nic) - 1);

    rc = rc < 0 ? rc : restore_device(owner);
    rc = rc ? rc : nic_open(&owner->nic, nic);
    rc = rc ? rc : hmreg_domain_renew_verbs(owner->domain, owner->nic.pd);
    return rc ? rc : hmreg_thaw(owner->lib, NULL);
}

/* ---- the bytes -------------------------------------------------------------------------- */

/* Each slice has the bytes of the last round that wrote it: of this life, or of the one before. */
static unsigned long count_wrong(const struct load *load, uint32_t region, const char *bytes)
{
    unsigned long wrong = 0;

    for (uint32_t slice = 0; slice < SLICES; slice++) {
        uint32_t round = load->last - (load->last - slice) % SLICES;
        uint32_t life = round < load->first ? 0 : load->life;

        for (size_t i = 0; i < SLICE; i++)
            wrong += (unsigned char)bytes[slice * SLICE + i] != load_byte(life, round, region, i);
    }
    return wrong;
}

static int compare(struct owner *owner, unsigned long wrong[REGIONS])
{
    struct load load;
    int rc = mail_await(owner->folder, "load", &load, sizeof(load));

    if (rc != (int)sizeof(load))
        return rc < 0 ? rc : -EBADMSG;
    rc = hmreg_copy(owner->lib, owner->bytes, owner->memory[DEVICE], BYTES);
    wrong[REGISTERED] = count_wrong(&load, REGISTERED, owner->memory[REGISTERED]);
    wrong[CACHED] = count_wrong(&load, CACHED, owner->memory[CACHED]);
    wrong[DEVICE] = count_wrong(&load, DEVICE, owner->bytes);
    return rc;
}

/* How many of these gets register: the first of this life, the next, and one of other memory that
 * was mapped at the same address. */
static int count_misses(struct owner *owner, uint64_t misses[3])
{
    struct hmreg_stats stats = {.size = sizeof(stats)};
    int rc = hmreg_domain_stats(owner->domain, &stats);

    for (int i = 0; i < 3 && !rc; i++) {
        struct hmreg_mr *mr = NULL;
        uint64_t before = stats.misses;

        rc = i == 2 ? map_host(&owner->memory[CACHED]) : 0;
        rc =
            rc ? rc
               : hmreg_mr_get(owner->domain, owner->memory[CACHED], BYTES, HMREG_REMOTE_WRITE, &mr);
        hmreg_mr_put(mr);
        rc = rc ? rc : hmreg_domain_stats(owner->domain, &stats);
        misses[i] = stats.misses - before;
    }
    return rc;
}

/* ---- the program ------------------------------------------------------------------------ */

static int live(struct owner *owner, const char *nic)
{
    static const char *const before[] = {"letter 1", "card 1", "ready 1"};
    char word;
    int rc = nic_open(&owner->nic, nic);

    rc = rc ? rc : hmreg_open(NULL, &owner->lib);
    rc = rc ? rc : hmreg_domain_open_verbs(owner->lib, owner->nic.pd, NULL, &owner->domain);
    rc = rc ? rc : map_memory(owner);
    rc = rc ? rc : register_memory(owner);
    rc = rc ? rc : meet_writer(owner, before);
    if (rc || (rc = mail_await(owner->folder, "sleep", &word, 1)) < 0)
        return rc;
    return fall_asleep(owner);
}

static int live_on(struct owner *owner, char *text, size_t size)
{
    static const char *const after[] = {"letter 2", "card 2", "ready 2"};
    struct hmreg_monitor_info monitor = {.size = sizeof(monitor)};
    unsigned long wrong[REGIONS] = {0};
    uint64_t misses[3] = {0};
    int rc = wake_up(owner);

    rc = rc ? rc : meet_writer(owner, after);
    rc = rc ? rc : compare(owner, wrong);
    rc = rc ? rc : count_misses(owner, misses);
    rc = rc ? rc : hmreg_monitor_query(owner->lib, &monitor);
    (void)snprintf(text, size,
                   "wrong bytes of %zu: registered %lu, cached %lu, device %lu; gets registered "
                   "%d, %d, %d; monitor %s\n",
                   BYTES, wrong[REGISTERED], wrong[CACHED], wrong[DEVICE], (int)misses[0],
                   (int)misses[1], (int)misses[2], hmreg_monitor_name(monitor.active));
    return rc;
}

static int close_all(struct owner *owner)
{
    int rc = 0;

    link_close(&owner->link);
    hmreg_mr_put(owner->mr[CACHED]);
    owner->mr[CACHED] = NULL;
    for (int i = 0; i < REGIONS; i++)
        rc = rc ? rc : hmreg_mr_close(owner->mr[i]);
    rc = rc ? rc : hmreg_domain_close(owner->domain);
    rc = rc ? rc : hmreg_close(owner->lib);
    nic_close(&owner->nic);
    return rc;
}

int main(int argc, char **argv)
{
    static struct owner owner;
    char text[800] = "";
    int rc;

    if (argc != 3) {
        fprintf(stderr, "usage: 14-hibernate NIC FOLDER\n");
        return 2;
    }
    owner.folder = argv[2];
    rc = live(&owner, argv[1]);
    rc = rc ? rc : live_on(&owner, text, sizeof(text));
    if (rc)
        (void)snprintf(text, sizeof(text), "%s\n",
                       hmreg_last_error()->code == rc ? hmreg_last_error()->text
                                                      : hmreg_strerror(rc));
    mail_post(owner.folder, "report", text, strlen(text));
    return close_all(&owner) || rc;
}
