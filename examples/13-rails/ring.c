/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 13: a ring over several NICs, of which one is deleted in the middle and added again. The
 * ranks go on over the others; when the NIC is there again it is registered with anew, and nothing
 * else is.
 *
 *     13-rails [-c CYCLES] [-s SEED] BREAK MEND NIC NIC...
 *
 * BREAK and MEND are commands that take the NIC named in the environment's NIC away and bring it
 * back, such as 'rdma link del $NIC'.
 */
#include "rail.h"

#include <errno.h>
#include <hmreg/group.h>
#include <hmreg/lost.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RAILS  8
#define SLICE  5000 /* bytes that a rank sends for each NIC */
#define TOKEN  8192
#define ROUNDS 3 /* with all rails, and without one */

struct rank {
    char *out, *in;
    uint32_t told;                     /* the generation of `in` that the left neighbour knows */
    uint32_t rkey[RAILS];              /* of `in`, to count what changes */
    struct hmreg_remote *right[RAILS]; /* the right neighbour's `in`, over each rail; or NULL */
};

struct ring {
    struct hmreg *lib;
    struct hmreg_domain *group;
    struct rail rail[RAILS];
    char **name;
    int rails;
    size_t bytes;
    struct rank rank[RANKS];
    unsigned round;
    unsigned long renewed; /* regions that were registered on NICs that came back */
    unsigned long others;  /* keys of other NICs that changed */
};

/* What one round has: regions, which are hits after the first time. */
struct held {
    struct hmreg_mr *out[RANKS], *in[RANKS];
};

static int say(int rc, const char *what)
{
    const struct hmreg_error *error = hmreg_last_error();

    fprintf(stderr, "13-rails: %s: %s\n", what, error->code == rc ? error->text : strerror(-rc));
    return rc;
}

/* ---- tokens ----------------------------------------------------------------------------- */

/* Learns from the token what the right neighbour's memory is over one rail. */
static int learn_rail(struct ring *ring, struct rank *rank, int rail, const void *token,
                      size_t size)
{
    struct hmreg_remote **remote = &rank->right[rail];
    enum hmreg_remote_state state = HMREG_REMOTE_RENEWED;
    const void *part = NULL;
    size_t part_size = 0;
    int rc = hmreg_token_rail(token, size, (size_t)rail, &part, &part_size);

    if (rc == -ENOENT) { /* the rail is not there */
        hmreg_remote_close(*remote);
        *remote = NULL;
        return 0;
    }
    if (!rc && !*remote)
        return hmreg_remote_open(ring->rail[rail].domain, part, part_size, remote);
    rc = rc ? rc : hmreg_remote_check(*remote, part, part_size, &state);
    return rc || state == HMREG_REMOTE_CURRENT ? rc : hmreg_remote_renew(*remote, part, part_size);
}

/* The left neighbour of a rank gets its token, which in a real ring goes over a socket. */
static int tell(struct ring *ring, int index, const struct hmreg_mr *in)
{
    struct rank *left = &ring->rank[(index + RANKS - 1) % RANKS];
    static char token[TOKEN];
    size_t size = sizeof(token);
    int rc = hmreg_mr_pack(in, token, &size);

    for (int i = 0; i < ring->rails && !rc; i++)
        rc = learn_rail(ring, left, i, token, size);
    ring->rank[index].told = hmreg_mr_head_of(in)->generation;
    return rc;
}

/* ---- a round ---------------------------------------------------------------------------- */

static void put(struct held *held)
{
    for (int i = 0; i < RANKS; i++) {
        hmreg_mr_put(held->out[i]);
        hmreg_mr_put(held->in[i]);
    }
    *held = (struct held){{NULL}, {NULL}};
}

static int get(struct ring *ring, struct held *held)
{
    int rc = 0;

    *held = (struct held){{NULL}, {NULL}};
    for (int i = 0; i < RANKS && !rc; i++) {
        rc = hmreg_mr_get(ring->group, ring->rank[i].out, ring->bytes, HMREG_WRITE, &held->out[i]);
        rc = rc ? rc
                : hmreg_mr_get(ring->group, ring->rank[i].in, ring->bytes, HMREG_REMOTE_WRITE,
                               &held->in[i]);
        if (!rc && hmreg_mr_head_of(held->in[i])->generation != ring->rank[i].told)
            rc = tell(ring, i, held->in[i]);
    }
    return rc;
}

static char pattern(int rank, unsigned round, size_t i)
{
    return (char)(i * 7 + (size_t)rank * 31 + round * 13);
}

static int present(const struct ring *ring, const struct rank *rank, const struct hmreg_mr *out,
                   int list[RAILS])
{
    int count = 0;

    for (int i = 0; i < ring->rails; i++)
        if (rank->right[i] && ring->rail[i].device && hmreg_mr_rail(out, (size_t)i))
            list[count++] = i;
    return count;
}

/* Writes what a rank has to its right neighbour, over all rails that both have. */
static int write_right(struct ring *ring, int index, const struct hmreg_mr *out)
{
    struct rank *rank = &ring->rank[index];
    int list[RAILS], count = present(ring, rank, out, list), rc = count ? 0 : -ENODEV;

    for (int i = 0; i < count && !rc; i++) {
        size_t from = ring->bytes * (size_t)i / (size_t)count;
        size_t len = ring->bytes * (size_t)(i + 1) / (size_t)count - from;
        struct ibv_sge sge = {(uintptr_t)rank->out + from, (uint32_t)len,
                              hmreg_mr_head_of(out)->keys[list[i]].lkey};
        uint64_t addr, key;

        rc = hmreg_remote_addr(rank->right[list[i]], from, len, &addr, &key);
        if (!rc) /* of a NIC that is gone it may fail: rail_wait() tells */
            rail_write(&ring->rail[list[i]], index, &sge, addr, (uint32_t)key);
    }
    return rc;
}

static void fill(struct ring *ring)
{
    ring->round++;
    for (int i = 0; i < RANKS; i++) {
        memset(ring->rank[i].in, 0, ring->bytes);
        for (size_t k = 0; k < ring->bytes; k++)
            ring->rank[i].out[k] = pattern(i, ring->round, k);
    }
}

/* gone: a rail whose NIC went in this round, so that its part of the bytes may be missing; or -1.
 */
static int compare(const struct ring *ring, int gone)
{
    unsigned long wrong = 0;

    for (int i = 0; i < RANKS; i++)
        for (size_t k = 0; k < ring->bytes; k++)
            wrong += ring->rank[(i + 1) % RANKS].in[k] != pattern(i, ring->round, k) &&
                     (gone < 0 || k < ring->bytes * (size_t)gone / (size_t)ring->rails ||
                      k >= ring->bytes * (size_t)(gone + 1) / (size_t)ring->rails);
    if (wrong)
        fprintf(stderr, "13-rails: round %u: %lu bytes are wrong\n", ring->round, wrong);
    return wrong ? -EBADMSG : 0;
}

/* Waits for all rails. *gone: the rail whose NIC is gone, or -1. */
static int wait_for_all(struct ring *ring, int *gone)
{
    int rc = 0;

    *gone = -1;
    for (int i = 0; i < ring->rails; i++) {
        int one = ring->rail[i].device ? rail_wait(&ring->rail[i]) : 0;

        if (one == -ENODEV)
            *gone = i;
        else
            rc = rc ? rc : one;
    }
    return rc;
}

/* One step of the ring. breaks: a command that it runs in the middle, or NULL. */
static int run_round(struct ring *ring, const char *breaks, int *gone)
{
    struct held held;
    int rc = get(ring, &held);

    *gone = -1;
    fill(ring);
    for (int i = 0; i < RANKS && !rc; i++) {
        if (breaks && i == RANKS / 2 && system(breaks))
            rc = -ECHILD;
        rc = rc ? rc : write_right(ring, i, held.out[i]);
    }
    rc = rc ? rc : wait_for_all(ring, gone);
    put(&held); /* nothing of these regions is in flight any more */
    return rc ? rc : compare(ring, *gone);
}

static int run_rounds(struct ring *ring)
{
    int gone, rc = 0;

    for (int i = 0; i < ROUNDS && !rc; i++) {
        rc = run_round(ring, NULL, &gone);
        rc = rc ? rc : gone >= 0 ? -ENODEV : 0;
    }
    return rc;
}

/* ---- a NIC is gone and comes back -------------------------------------------------------- */

/* The library ends what it has on the NIC, by a thread of its own, and then the domain closes. */
static int lose(struct ring *ring, int index)
{
    struct rail *rail = &ring->rail[index];
    int rc = hmreg_domain_lost(rail->domain, "its device is gone (IBV_EVENT_DEVICE_FATAL)");

    for (int i = 0; i < RANKS; i++) {
        hmreg_remote_close(ring->rank[i].right[index]);
        ring->rank[i].right[index] = NULL;
    }
    return rc;
}

/* The new domain takes the place of the lost one, which then can be closed. */
static int replace(struct ring *ring, int index)
{
    struct hmreg_group_member member = {.size = sizeof(member)};
    struct rail old = ring->rail[index];
    int rc = rail_open(&ring->rail[index], ring->lib, ring->name[index]);

    rc = rc ? rc : hmreg_group_replace(ring->group, (size_t)index, ring->rail[index].domain);
    while (!rc) {
        rc = hmreg_group_query(ring->group, (size_t)index, &member);
        if (rc || member.state == HMREG_MEMBER_PRESENT)
            break;
        usleep(1000);
    }
    ring->renewed += member.done;
    while (!rc && (rc = rail_close(&old)) == -EBUSY)
        usleep(1000), rc = 0;
    return rc;
}

/* Counts keys that have changed since the last time, of others than the NIC that was replaced. */
static int count_changes(struct ring *ring, int replaced)
{
    struct held held;
    int rc = get(ring, &held);

    for (int i = 0; i < RANKS && !rc; i++)
        for (int k = 0; k < ring->rails; k++) {
            uint32_t rkey = hmreg_mr_head_of(held.in[i])->keys[k].rkey;

            ring->others += k != replaced && rkey != ring->rank[i].rkey[k];
            ring->rank[i].rkey[k] = rkey;
        }
    put(&held);
    return rc;
}

static int run_cycle(struct ring *ring, const char *breaks, const char *mends, int *failed)
{
    int index = rand() % ring->rails, gone, rc;

    setenv("NIC", ring->name[index], 1);
    rc = run_round(ring, breaks, &gone);
    if (!rc && gone != index) /* the event may come a moment later */
        rc = run_round(ring, NULL, &gone);
    if (rc || gone != index)
        return say(rc ? rc : -ETIME, "the NIC was taken away");
    rc = lose(ring, index);
    rc = rc ? rc : run_rounds(ring);
    if (rc)
        return say(rc, "without the NIC");
    rc = system(mends) ? -ECHILD : replace(ring, index);
    rc = rc ? rc : count_changes(ring, index);
    rc = rc ? rc : run_rounds(ring);
    *failed = index;
    return rc ? say(rc, "with the NIC again") : 0;
}

/* ---- the program ------------------------------------------------------------------------ */

static int open_ring(struct ring *ring)
{
    struct hmreg_domain *members[RAILS];
    int rc = hmreg_open(NULL, &ring->lib);

    ring->bytes = (size_t)ring->rails * SLICE;
    for (int i = 0; i < ring->rails && !rc; i++) {
        rc = rail_open(&ring->rail[i], ring->lib, ring->name[i]);
        members[i] = ring->rail[i].domain;
    }
    rc = rc ? rc : hmreg_group_open(ring->lib, members, (size_t)ring->rails, NULL, &ring->group);
    for (int i = 0; i < RANKS && !rc; i++) {
        ring->rank[i].out = (char *)aligned_alloc(4096, (ring->bytes + 4095) & ~(size_t)4095);
        ring->rank[i].in = (char *)aligned_alloc(4096, (ring->bytes + 4095) & ~(size_t)4095);
        if (!ring->rank[i].out || !ring->rank[i].in)
            rc = -ENOMEM;
    }
    rc = rc ? rc : run_rounds(ring);
    rc = rc ? rc : count_changes(ring, -1);
    ring->others = 0;
    return rc ? say(rc, "opening the ring") : 0;
}

static int close_ring(struct ring *ring)
{
    int rc;

    for (int i = 0; i < RANKS; i++)
        for (int k = 0; k < ring->rails; k++)
            hmreg_remote_close(ring->rank[i].right[k]);
    rc = hmreg_domain_close(ring->group);
    for (int k = 0; k < ring->rails && !rc; k++)
        rc = rail_close(&ring->rail[k]);
    rc = rc ? rc : hmreg_close(ring->lib);
    for (int i = 0; i < RANKS; i++)
        free(ring->rank[i].out), free(ring->rank[i].in);
    return rc ? say(rc, "closing the ring") : 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: 13-rails [-c CYCLES] [-s SEED] BREAK MEND NIC NIC... (2 to %d)\n",
            RAILS);
    return 2;
}

int main(int argc, char **argv)
{
    struct ring ring = {.round = 0};
    unsigned seed = 1;
    int cycles = 1, option, rc, last = 0;

    while ((option = getopt(argc, argv, "c:s:")) != -1) {
        if (option == 'c')
            cycles = atoi(optarg);
        else if (option == 's')
            seed = (unsigned)atoi(optarg);
        else
            return usage();
    }
    ring.rails = argc - optind - 2;
    ring.name = argv + optind + 2;
    if (ring.rails < 2 || ring.rails > RAILS || cycles < 1)
        return usage();
    srand(seed);
    rc = open_ring(&ring);
    for (int i = 0; i < cycles && !rc; i++) {
        unsigned long before = ring.renewed;

        rc = run_cycle(&ring, argv[optind], argv[optind + 1], &last);
        if (!rc && cycles <= 10)
            printf("%s was gone and is back: %lu regions were registered on it anew\n",
                   ring.name[last], ring.renewed - before);
    }
    if (!rc)
        printf("%d cycles, %u rounds of %d ranks over %d NICs, every byte is right; %lu regions "
               "registered on NICs that came back, %lu keys of others changed\n",
               cycles, ring.round, RANKS, ring.rails, ring.renewed, ring.others);
    return close_ring(&ring) || rc || ring.others;
}
