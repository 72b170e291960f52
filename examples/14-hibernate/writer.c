/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 14, the peer that stays: it writes to the memory of a process until that is gone, and
 * then to the memory of each life that comes from it.
 *
 *     14-hibernate-writer NIC FOLDER LIFE...
 *
 * FOLDER: of the process's messages; LIFE: the folders of the lives that come from it.
 */
#include "load.h"
#include "mail.h"

#include <errno.h>
#include <hmreg/verbs.h>
#include <stdio.h>
#include <string.h>

#define LIVES  3
#define ROUNDS 9 /* for each life, less than SLICES: the other slices stay as they were saved */

struct life {
    const char *folder;
    uint32_t number;
    struct link link;
    struct hmreg_remote *remote[REGIONS];
};

struct writer {
    struct nic nic;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    char slice[SLICE];
    struct hmreg_mr *mr; /* of slice */
    struct life before, life[LIVES];
    int lives;
};

static int say(int rc, const char *what)
{
    const struct hmreg_error *error = hmreg_last_error();

    fprintf(stderr, "14-hibernate-writer: %s: %s\n", what,
            error->code == rc ? error->text : hmreg_strerror(rc));
    return rc;
}

/* ---- a life ----------------------------------------------------------------------------- */

static int connect_life(struct writer *writer, struct life *life, const char *names[3],
                        struct letter *letter)
{
    struct queue_card card;
    char ready;
    int rc = mail_await(life->folder, names[0], letter, sizeof(*letter));

    if (rc != (int)sizeof(*letter))
        return rc < 0 ? rc : -EBADMSG;
    rc = link_open(&life->link, &writer->nic, &card);
    rc = rc ? rc : link_connect(&life->link, &letter->card);
    rc = rc ? rc : mail_post(life->folder, names[1], &card, sizeof(card));
    return rc || (rc = mail_await(life->folder, names[2], &ready, 1)) < 0 ? rc : 0;
}

static int open_remotes(struct writer *writer, struct life *life, const struct letter *letter)
{
    int rc = 0;

    for (int i = 0; i < REGIONS && !rc; i++)
        rc = hmreg_remote_open(writer->domain, letter->token[i], letter->size[i], &life->remote[i]);
    return rc;
}

static void leave(struct life *life)
{
    for (int i = 0; i < REGIONS; i++) {
        hmreg_remote_close(life->remote[i]);
        life->remote[i] = NULL;
    }
    link_close(&life->link);
}

/* One slice of each region. */
static int write_round(struct writer *writer, struct life *life, uint32_t round)
{
    int rc = 0;

    for (uint32_t k = 0; k < REGIONS && !rc; k++) {
        uint64_t addr, key;

        for (size_t i = 0; i < SLICE; i++)
            writer->slice[i] = (char)load_byte(life->number, round, k, i);
        rc = hmreg_remote_addr(life->remote[k], (uint64_t)(round % SLICES) * SLICE, SLICE, &addr,
                               &key);
        rc = rc ? rc
                : link_write(&life->link, writer->slice, SLICE,
                             hmreg_mr_head_of(writer->mr)->keys->lkey, addr, (uint32_t)key);
    }
    return rc;
}

/* ---- before ----------------------------------------------------------------------------- */

/* Writes until the process has taken its queue pair away; *round: the one that failed. */
static int write_until_gone(struct writer *writer, uint32_t *round)
{
    static const char *names[3] = {"letter 1", "card 1", "ready 1"};
    struct life *life = &writer->before;
    struct letter letter;
    int rc = connect_life(writer, life, names, &letter);

    rc = rc ? rc : open_remotes(writer, life, &letter);
    for (*round = 1; !rc; ++*round) {
        rc = write_round(writer, life, *round);
        if (!rc && *round == 2 * SLICES) /* each slice has been written: now it may hibernate */
            rc = mail_post(life->folder, "loaded", "", 0);
    }
    --*round;
    return rc == -EIO && *round > 2 * SLICES ? 0 : say(rc, "the first life");
}

/* ---- after ------------------------------------------------------------------------------ */

static const char *state_name(enum hmreg_remote_state state)
{
    return state == HMREG_REMOTE_RENEWED      ? "renewed"
           : state == HMREG_REMOTE_OTHER_LIFE ? "of another life"
           : state == HMREG_REMOTE_DEAD       ? "of another process"
                                              : "current";
}

/* What the remotes of before are, by the new tokens. */
static int check_remotes(struct writer *writer, const struct life *life,
                         const struct letter *letter)
{
    enum hmreg_remote_state state[REGIONS];
    int rc = 0;

    for (int i = 0; i < REGIONS && !rc; i++)
        rc = hmreg_remote_check(writer->before.remote[i], letter->token[i], letter->size[i],
                                &state[i]);
    if (!rc)
        printf("life %u: its tokens are %s, %s, %s\n", life->number, state_name(state[0]),
               state_name(state[1]), state_name(state[2]));
    return rc;
}

static int meet(struct writer *writer, struct life *life)
{
    static const char *names[3] = {"letter 2", "card 2", "ready 2"};
    struct letter letter;
    int rc = connect_life(writer, life, names, &letter);

    rc = rc ? rc : check_remotes(writer, life, &letter);
    return rc ? rc : open_remotes(writer, life, &letter);
}

/* By turns, as they would come from many threads. */
static int write_to_all(struct writer *writer, uint32_t first)
{
    int rc = 0;

    for (uint32_t round = first; round < first + ROUNDS && !rc; round++)
        for (int i = 0; i < writer->lives && !rc; i++)
            rc = write_round(writer, &writer->life[i], round);
    for (int i = 0; i < writer->lives && !rc; i++) {
        struct load load = {writer->life[i].number, first, first + ROUNDS - 1};

        rc = mail_post(writer->life[i].folder, "load", &load, sizeof(load));
    }
    return rc;
}

/* ---- the program ------------------------------------------------------------------------ */

static int open_writer(struct writer *writer, const char *nic)
{
    int rc = nic_open(&writer->nic, nic);

    rc = rc ? rc : hmreg_open(NULL, &writer->lib);
    rc = rc ? rc : hmreg_domain_open_verbs(writer->lib, writer->nic.pd, NULL, &writer->domain);
    return rc ? rc
              : hmreg_mr_reg(writer->domain, writer->slice, SLICE, HMREG_WRITE, 0, HMREG_KEY_ANY, 0,
                             &writer->mr, NULL);
}

static void close_writer(struct writer *writer)
{
    leave(&writer->before);
    for (int i = 0; i < writer->lives; i++)
        leave(&writer->life[i]);
    hmreg_mr_close(writer->mr);
    hmreg_domain_close(writer->domain);
    hmreg_close(writer->lib);
    nic_close(&writer->nic);
}

int main(int argc, char **argv)
{
    static struct writer writer;
    uint32_t round = 0;
    int rc;

    if (argc < 4 || argc > 3 + LIVES) {
        fprintf(stderr, "usage: 14-hibernate-writer NIC FOLDER LIFE... (%d at most)\n", LIVES);
        return 2;
    }
    writer.before.folder = argv[2];
    writer.lives = argc - 3;
    for (int i = 0; i < writer.lives; i++) {
        writer.life[i].folder = argv[3 + i];
        writer.life[i].number = (uint32_t)i + 1;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* others read what it says meanwhile */
    rc = open_writer(&writer, argv[1]);
    rc = rc ? say(rc, "opening") : write_until_gone(&writer, &round);
    if (!rc)
        printf("life 0: %u rounds written, then it was gone\n", round - 1);
    for (int i = 0; i < writer.lives && !rc; i++)
        rc = meet(&writer, &writer.life[i]);
    rc = rc ? rc : write_to_all(&writer, round);
    if (!rc)
        printf("%u rounds written to each of %d lives\n", ROUNDS, writer.lives);
    else
        (void)say(rc, "the lives");
    close_writer(&writer);
    return rc != 0;
}
