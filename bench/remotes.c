/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Tokens and remotes: the cost to pack and open one, to find an address, and the memory of very
 * many, on a provider that does nothing else. All regions have one range, and all tokens come from
 * this process. The key table is in host memory and has an entry for each token.
 */
#include "bench/actor.h"
#include "bench/fixture.h"
#include "bench/bench.h"
#include "core/remote/token.h"

#include <hmreg/table.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT 1000 /* regions, and remotes of a turn */

enum {
    PACK,
    PACK_MANY,
    OPEN,
    CLOSE,
    OPEN_MANY,
    CLOSE_AGAIN,
    ADDR,
    FLAT,
    TABLE,
    CLEAR,
    LIFE,
    VALUES
};

static const struct measure measures[VALUES] = {
    {"remotes-pack", "ns"},        {"remotes-pack-many", "ns"},   {"remotes-open", "ns"},
    {"remotes-close", "ns"},       {"remotes-open-many", "ns"},   {"remotes-close-many", "ns"},
    {"remotes-addr", "ns"},        {"remotes-addr-inline", "ns"}, {"remotes-table", "ns"},
    {"remotes-table-clear", "ns"}, {"remotes-life", "ns"},
};

struct peers {
    struct hmreg_domain *domain;
    struct hmreg_mr *mrs[COUNT];
    char tokens[COUNT * 128];
    size_t token_size; /* of each */
    struct hmreg_remote *remotes[COUNT];
    struct hmreg_remote_flat flat[COUNT];
    struct hmreg_table *table;
    struct hmreg_table_entry entries[COUNT];
    struct token token; /* the first one */
    uint64_t sum;       /* of addresses, which no compiler leaves out */
};

/* ---- steps of COUNT each ---------------------------------------------------------------- */

static void pack_each(struct peers *peers)
{
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = sizeof(peers->tokens) / COUNT;

        hmreg_must(hmreg_mr_pack(peers->mrs[i], peers->tokens + i * peers->token_size, &size),
                   "hmreg_mr_pack");
    }
}

static void pack_many(struct peers *peers)
{
    size_t size = sizeof(peers->tokens);

    hmreg_must(hmreg_mr_pack_many(peers->mrs, COUNT, peers->tokens, &size), "hmreg_mr_pack_many");
    if (size != COUNT * peers->token_size)
        leave("failed: tokens of %zu bytes in all, each has %zu", size, peers->token_size);
}

static void open_each(struct peers *peers)
{
    for (size_t i = 0; i < COUNT; i++)
        hmreg_must(hmreg_remote_open(peers->domain, peers->tokens + i * peers->token_size,
                                     peers->token_size, &peers->remotes[i]),
                   "hmreg_remote_open");
}

static void open_many(struct peers *peers)
{
    size_t count = COUNT;

    hmreg_must(hmreg_remote_open_many(peers->domain, peers->tokens, COUNT * peers->token_size,
                                      peers->remotes, &count),
               "hmreg_remote_open_many");
}

static void close_each(struct peers *peers)
{
    for (size_t i = 0; i < COUNT; i++)
        hmreg_remote_close(peers->remotes[i]);
}

static void find_each(struct peers *peers)
{
    uint64_t addr, key;

    for (size_t i = 0; i < COUNT; i++) {
        if (hmreg_remote_addr(peers->remotes[i % 64], i, 8, &addr, &key))
            leave("failed: hmreg_remote_addr");
        peers->sum += addr + key;
    }
}

static void find_each_inline(struct peers *peers)
{
    uint64_t addr, key;

    for (size_t i = 0; i < COUNT; i++) {
        if (hmreg_remote_flat_addr(&peers->flat[i % 64], i, 8, &addr, &key))
            leave("failed: hmreg_remote_flat_addr");
        peers->sum += addr + key;
    }
}

static void write_table(struct peers *peers)
{
    hmreg_must(
        hmreg_table_write(peers->table, 0, COUNT, peers->tokens, COUNT * peers->token_size, 0),
        "hmreg_table_write");
}

static void clear_table(struct peers *peers)
{
    hmreg_must(hmreg_table_write(peers->table, 0, COUNT, NULL, 0, 0), "hmreg_table_write");
}

static void write_and_read(struct peers *peers, uint32_t extension)
{
    struct token token = peers->token, found;
    uint8_t bytes[sizeof(peers->tokens) / COUNT];

    token.extension_size = extension;
    for (size_t i = 0; i < COUNT; i++) {
        token_write(&token, bytes);
        hmreg_must(token_read(bytes, token_size(&token), &found), "token_read");
        peers->sum += found.generation;
    }
}

/* Packs and opens tokens, but for what is done with their fields: with those that say which process
 * made the token, and when, and without. */
static void with_life(struct peers *peers)
{
    write_and_read(peers, TOKEN_LIFE_BYTES);
}

static void without_life(struct peers *peers)
{
    write_and_read(peers, 0);
}

/* ---- the contestants -------------------------------------------------------------------- */

static void *open_peers(const void *arg)
{
    struct hmreg_state *state = subject_hmreg_disabled.open(&subject_hmreg_disabled, COUNT);
    struct peers *peers = calloc(1, sizeof(*peers));
    char *base = fixture_reserve(COUNT);

    if (!peers)
        leave("no memory");
    peers->domain = state->domain;
    for (size_t i = 0; i < COUNT; i++)
        hmreg_must(hmreg_mr_reg(peers->domain, base + i * REGION_BYTES, REGION_BYTES,
                                HMREG_REMOTE_WRITE, 0, i, 0, &peers->mrs[i], NULL),
                   "hmreg_mr_reg");
    if (hmreg_mr_pack(peers->mrs[0], NULL, &peers->token_size) != -HMREG_ETOOSMALL ||
        peers->token_size > sizeof(peers->tokens) / COUNT)
        leave("failed: a token of %zu bytes", peers->token_size);
    pack_each(peers);
    hmreg_must(token_read((const uint8_t *)peers->tokens, peers->token_size, &peers->token),
               "token_read");
    hmreg_must(hmreg_table_open(peers->domain, peers->entries, COUNT, 0, &peers->table),
               "hmreg_table_open");
    return peers;
}

/* Does both steps in turns, for a part of a sample's time. Returns ns of each. */
static void time_both(struct peers *peers, void (*first)(struct peers *),
                      void (*second)(struct peers *), double *values)
{
    double end = now_ns() + plan.sample_ms * 1e6 / 4, begun, between, ended;
    size_t rounds = 0;

    values[0] = values[1] = 0;
    do {
        begun = now_ns();
        first(peers);
        between = now_ns();
        second(peers);
        ended = now_ns();
        values[0] += between - begun;
        values[1] += ended - between;
        rounds++;
    } while (ended < end);
    values[0] /= (double)rounds * COUNT;
    values[1] /= (double)rounds * COUNT;
}

/* How much longer the quickest of many first steps takes than that of the second ones, ns of each;
 * a mean would have the other programs' turns on the CPU. */
static double more_time(struct peers *peers, void (*first)(struct peers *),
                        void (*second)(struct peers *))
{
    double both[2], least[2] = {1e18, 1e18}, end = now_ns() + plan.sample_ms * 1e6 / 4;

    for (int round = 0; round < 100 || now_ns() < end; round++) {
        double begun = now_ns(), between;

        first(peers);
        between = now_ns();
        second(peers);
        both[0] = between - begun;
        both[1] = now_ns() - between;
        for (int i = 0; i < 2; i++)
            least[i] = both[i] < least[i] ? both[i] : least[i];
    }
    return (least[0] - least[1]) / COUNT;
}

static void sample_peers(void *state, int worker, double *values)
{
    struct peers *peers = state;

    time_both(peers, pack_each, pack_many, values + PACK);
    time_both(peers, open_each, close_each, values + OPEN);
    time_both(peers, open_many, close_each, values + OPEN_MANY);
    open_many(peers);
    for (size_t i = 0; i < COUNT; i++)
        hmreg_must(hmreg_remote_flatten(peers->remotes[i], &peers->flat[i]),
                   "hmreg_remote_flatten");
    time_both(peers, find_each, find_each_inline, values + ADDR);
    close_each(peers);
    time_both(peers, write_table, clear_table, values + TABLE);
    values[LIFE] = more_time(peers, with_life, without_life);
}

/* ---- very many -------------------------------------------------------------------------- */

static void *open_count(const void *arg)
{
    return (void *)arg;
}

/* Opens them COUNT at a time; all stay open. The array of remotes is not counted. */
static void sample_memory(void *state, int worker, double *values)
{
    const size_t *all = state;
    struct peers *peers = open_peers(NULL);
    struct hmreg_remote **remotes = malloc(*all * sizeof(struct hmreg_remote *));
    double before, begun;

    if (!remotes)
        leave("no memory");
    for (size_t i = 0; i < *all; i++)
        remotes[i] = peers->remotes[0];
    before = anonymous_bytes();
    begun = now_ns();
    for (size_t i = 0; i < *all; i += COUNT) {
        size_t count = COUNT;

        hmreg_must(hmreg_remote_open_many(peers->domain, peers->tokens, COUNT * peers->token_size,
                                          remotes + i, &count),
                   "hmreg_remote_open_many");
    }
    values[1] = (now_ns() - begun) / (double)*all;
    values[0] = (anonymous_bytes() - before) / (double)*all;
}

static void measure_memory(size_t count)
{
    static const struct job job = {.open = open_count, .sample = sample_memory};
    const struct contestant contestants[] = {{.who = "hmreg", .job = &job, .arg = &count}};
    char bytes[40], open[40];
    const struct measure both[] = {{bytes, "bytes"}, {open, "ns"}};

    snprintf(bytes, sizeof(bytes), "remotes-bytes-%zu", count);
    snprintf(open, sizeof(open), "remotes-open-%zu", count);
    progress("remotes: %zu open at once", count);
    contest(both, 2, contestants, 1, plan.fresh, 1);
}

/* ---- a communicator -------------------------------------------------------------------------- */

#define RANKS        100000
#define RAILS        8
#define ENTRIES      (RANKS * RAILS)
#define ENTRIES_SIZE (ENTRIES * sizeof(struct hmreg_table_entry))

enum { TOKEN_BYTES, PACK_RAILS, OPEN_TABLE, WRITE, WRITE_AGAIN, LEFT_OVER, RANK_VALUES };

static const struct measure rank_measures[RANK_VALUES] = {
    {"ranks-token", "bytes"}, {"ranks-pack", "ns"},        {"ranks-table-open", "ns"},
    {"ranks-table", "ns"},    {"ranks-table-again", "ns"}, {"ranks-left", "bytes"},
};

struct ranks {
    struct hmreg_domain *group;
    struct hmreg_mr *mr;
    char *tokens; /* as an all-gather leaves them */
    size_t token_size;
};

static void *open_ranks(const void *arg)
{
    struct hmreg_state *state = subject_hmreg_group.open(&subject_hmreg_group, 1);
    struct ranks *ranks = calloc(1, sizeof(*ranks));

    if (!ranks)
        leave("no memory");
    ranks->group = state->domain;
    hmreg_must(hmreg_mr_reg(ranks->group, fixture_reserve(1), REGION_BYTES, HMREG_REMOTE_WRITE, 0,
                            0, 0, &ranks->mr, NULL),
               "hmreg_mr_reg");
    (void)hmreg_mr_pack(ranks->mr, NULL, &ranks->token_size);
    ranks->tokens = malloc(RANKS * ranks->token_size);
    if (!ranks->tokens)
        leave("no memory");
    return ranks;
}

static double pack_ranks(const struct ranks *ranks)
{
    double begun = now_ns();

    for (size_t i = 0; i < RANKS; i++) {
        size_t size = ranks->token_size;

        hmreg_must(hmreg_mr_pack(ranks->mr, ranks->tokens + i * size, &size), "hmreg_mr_pack");
    }
    return (now_ns() - begun) / RANKS;
}

/* ns of each entry. */
static double write_ranks(const struct ranks *ranks, struct hmreg_table *table)
{
    double begun = now_ns();

    hmreg_must(hmreg_table_write(table, 0, RANKS, ranks->tokens, RANKS * ranks->token_size, 0),
               "hmreg_table_write");
    return (now_ns() - begun) / ENTRIES;
}

static void sample_ranks(void *state, int worker, double *values)
{
    const struct ranks *ranks = state;
    struct hmreg_table_entry *entries;
    struct hmreg_table *table;
    double begun, before;

    values[TOKEN_BYTES] = (double)ranks->token_size;
    values[PACK_RAILS] = pack_ranks(ranks);
    values[PACK_RAILS] = pack_ranks(ranks); /* the memory is there */
    before = anonymous_bytes();
    entries = malloc(ENTRIES_SIZE);
    if (!entries)
        leave("no memory");
    begun = now_ns();
    hmreg_must(hmreg_table_open(ranks->group, entries, RANKS, 0, &table), "hmreg_table_open");
    values[OPEN_TABLE] = (now_ns() - begun) / ENTRIES;
    values[WRITE] = write_ranks(ranks, table);
    values[WRITE_AGAIN] = write_ranks(ranks, table);
    values[LEFT_OVER] = (anonymous_bytes() - before) / ENTRIES;
    hmreg_table_close(table);
    free(entries);
}

static void measure_ranks(void)
{
    static const struct job job = {.open = open_ranks, .sample = sample_ranks};
    const struct contestant contestants[] = {{.who = "hmreg", .job = &job}};

    progress("remotes: 100,000 ranks on 8 rails");
    contest(rank_measures, RANK_VALUES, contestants, 1, plan.fresh, 1);
}

void measure_remotes(void)
{
    static const struct job job = {.open = open_peers, .sample = sample_peers, .steady = true};
    const struct contestant contestants[] = {{.who = "hmreg", .job = &job}};

    progress("remotes: tokens, remotes and addresses");
    contest(measures, VALUES, contestants, 1, plan.fresh, plan.turns);
    for (size_t count = 100000; count <= plan.most_regions; count *= 10)
        measure_memory(count);
    measure_ranks();
}
