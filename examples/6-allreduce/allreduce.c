/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Example 6: a ring allreduce over several rails. Each process adds its floats to those of all
 * others; every transfer is split over all rails, and each buffer is registered once, on a group.
 *
 *     6-allreduce [-n PROCESSES] [-r RAILS] [-i IFACE] [PROVIDER]      4, 2, system, tcp
 *     6-allreduce -a ADDRESS,ADDRESS... -k RANK ...                    one process on each host
 *     mpiexec -n PROCESSES 6-allreduce-mpi [-a ADDRESS,...] [-r RAILS] [-i IFACE] [PROVIDER]
 */
#include "../common/endpoint.h"
#include "ring.h"

#include <endian.h>
#include <errno.h>
#include <hmreg/group.h>
#include <hmreg/ofi.h>
#include <hmreg/table.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_RAILS   ENDPOINT_RAILS
#define CHUNK       (64 * 1024) /* floats of one step */
#define CHUNK_BYTES (CHUNK * sizeof(float))
#define ROUNDS      3
#define TOKEN_BYTES 2048

static int processes = 4, rails = 2;
static enum hmreg_iface iface = HMREG_IFACE_SYSTEM;
static const char *provider = "tcp";
static int own_rank = -1;       /* with -k */
static char *address[RING_MAX]; /* of each process's host, with -a */

/* Memory of this process, registered on all rails. */
struct buffer {
    void *memory;
    struct hmreg_mr *mr;
};

enum { DATA, INBOX, BUFFERS }; /* of which each process gives a token */

struct process {
    struct ring *ring;
    struct endpoint endpoint[MAX_RAILS];
    struct hmreg *lib;
    struct hmreg_domain *domain[MAX_RAILS], *group;
    struct buffer data;  /* a chunk for each process */
    struct buffer inbox; /* one chunk, which the left neighbour writes */
    /* Of all processes: entry (rank * BUFFERS + buffer) * rails + rail. */
    struct hmreg_table *table;
    struct hmreg_table_entry entries[RING_MAX * BUFFERS * MAX_RAILS];
};

static void progress(void *context)
{
    struct process *process = (struct process *)context;

    for (int i = 0; i < rails; i++)
        endpoint_progress(&process->endpoint[i]);
}

/* ---- opening and closing ---------------------------------------------------------------- */

static int open_rail(struct process *process, int rail)
{
    /* A fabric that does not know device memory: path mapped reaches it. */
    struct endpoint_hints hints = {
        .provider = provider, .address = address[process->ring->rank], .wishes = FI_HMEM};
    struct endpoint *endpoint = &process->endpoint[rail];
    int rc = endpoint_open(&hints, endpoint);

    return rc ? rc
              : hmreg_domain_open_ofi(process->lib, endpoint->domain, endpoint->info, NULL,
                                      &process->domain[rail]);
}

/* Data is written to the right neighbour, and by the left one; the inbox by the left one only. */
#define DATA_RIGHTS  (HMREG_WRITE | HMREG_REMOTE_WRITE)
#define INBOX_RIGHTS HMREG_REMOTE_WRITE

static int open_buffer(struct process *process, struct buffer *buffer, size_t bytes,
                       uint64_t access)
{
    enum hmreg_mem_kind kind = iface == HMREG_IFACE_SYSTEM ? HMREG_MEM_HOST : HMREG_MEM_DEVICE;
    int rc = hmreg_mem_alloc(process->lib, iface, 0, kind, bytes, &buffer->memory);

    return rc ? rc : hmreg_mr_get(process->group, buffer->memory, bytes, access, &buffer->mr);
}

static int right_of(const struct process *process)
{
    return (process->ring->rank + 1) % processes;
}

/* Each process writes to its right neighbour. */
static int connect_right(struct process *process)
{
    static char mine[MAX_RAILS][ENDPOINT_ADDRESS_BYTES], all[RING_MAX][MAX_RAILS][sizeof(mine[0])];
    int rc = 0;

    for (int i = 0; i < rails && !rc; i++) {
        size_t size = ENDPOINT_ADDRESS_BYTES;

        rc = endpoint_address(&process->endpoint[i], mine[i], &size);
    }
    rc = rc ? rc : ring_gather(process->ring, mine, sizeof(mine), all);
    for (int i = 0; i < rails && !rc; i++)
        rc = endpoint_connect(&process->endpoint[i], all[right_of(process)][i]);
    return rc;
}

/* The tokens of all processes, as an array of addresses and keys. */
static int make_table(struct process *process)
{
    static char mine[BUFFERS][TOKEN_BYTES], all[RING_MAX][BUFFERS][TOKEN_BYTES];
    size_t size = TOKEN_BYTES, inbox_size = TOKEN_BYTES, count = (size_t)processes * BUFFERS;
    int rc = hmreg_mr_pack(process->data.mr, mine[DATA], &size);

    rc = rc ? rc : hmreg_mr_pack(process->inbox.mr, mine[INBOX], &inbox_size);
    rc = rc ? rc : ring_gather(process->ring, mine, sizeof(mine), all);
    rc = rc ? rc : hmreg_table_open(process->group, process->entries, count, 0, &process->table);
    return rc ? rc
              : hmreg_table_write(process->table, 0, count, all, count * TOKEN_BYTES, TOKEN_BYTES);
}

static int open_process(struct process *process)
{
    int rc = hmreg_open(NULL, &process->lib);

    for (int i = 0; i < rails && !rc; i++)
        rc = open_rail(process, i);
    rc = rc ? rc
            : hmreg_group_open(process->lib, process->domain, (size_t)rails, NULL, &process->group);
    rc = rc ? rc
            : open_buffer(process, &process->data, (size_t)processes * CHUNK_BYTES, DATA_RIGHTS);
    rc = rc ? rc : open_buffer(process, &process->inbox, CHUNK_BYTES, INBOX_RIGHTS);
    rc = rc ? rc : connect_right(process);
    return rc ? rc : make_table(process);
}

static void close_buffer(struct process *process, struct buffer *buffer)
{
    hmreg_mr_put(buffer->mr);
    hmreg_mem_free(process->lib, buffer->memory);
}

static int close_process(struct process *process)
{
    int rc;

    hmreg_table_close(process->table);
    close_buffer(process, &process->data);
    close_buffer(process, &process->inbox);
    rc = hmreg_domain_close(process->group);
    for (int i = 0; i < rails; i++)
        rc = rc ? rc : hmreg_domain_close(process->domain[i]);
    rc = rc ? rc : hmreg_close(process->lib);
    for (int i = 0; i < rails; i++)
        endpoint_close(&process->endpoint[i]);
    return rc;
}

/* ---- allreduce -------------------------------------------------------------------------- */

/* One rail's part of a chunk. */
static int find_part(const struct process *process, int to, struct hmreg_mr *mr, int rail_index,
                     size_t from, size_t offset, struct endpoint_part *out)
{
    struct hmreg_table_entry entry;
    struct hmreg_mr *rail = hmreg_mr_rail(mr, (size_t)rail_index);
    struct hmreg_mr_info info = {.size = sizeof(info)};
    size_t len = CHUNK_BYTES / (size_t)rails, skip = (size_t)rail_index * len;
    char *begin = (char *)process->data.memory + from + skip;
    int rc = hmreg_mr_query(rail, &info);

    rc = rc ? rc
            : hmreg_table_load(
                  &process->entries[(right_of(process) * BUFFERS + to) * rails + rail_index],
                  &entry);
    if (rc)
        return rc;
    /* The address for local operations is not always the memory's own, and the region may begin
     * before the range that was asked for. */
    out->local = (void *)(uintptr_t)(info.local_addr + ((uint64_t)(uintptr_t)begin - info.addr));
    out->len = len;
    out->desc = hmreg_mr_desc(rail);
    out->addr = le64toh(entry.base) + offset + skip;
    out->key = le64toh(entry.key);
    return 0;
}

/* Writes a chunk of data to the right neighbour, each rail a part of it. */
static int write_right(struct process *process, int chunk, int to, size_t offset)
{
    struct endpoint_part parts[MAX_RAILS];
    size_t from = (size_t)chunk * CHUNK_BYTES;
    struct hmreg_mr *mr;
    int rc = hmreg_mr_get(process->group, (char *)process->data.memory + from, CHUNK_BYTES,
                          DATA_RIGHTS, &mr);

    if (rc)
        return rc;
    for (int i = 0; i < rails && !rc; i++)
        rc = find_part(process, to, mr, i, from, offset, &parts[i]);
    rc = rc ? rc : endpoint_write_parts(process->endpoint, parts, rails);
    hmreg_mr_put(mr);
    return rc;
}

/* Adds the inbox to a chunk of data. */
static int add_inbox(struct process *process, int chunk)
{
    char *ours = (char *)process->data.memory + (size_t)chunk * CHUNK_BYTES;
    static float sum[CHUNK], inbox[CHUNK];
    int rc = hmreg_copy(process->lib, sum, ours, sizeof(sum));

    rc = rc ? rc : hmreg_copy(process->lib, inbox, process->inbox.memory, sizeof(inbox));
    for (int i = 0; i < CHUNK; i++)
        sum[i] += inbox[i];
    return rc ? rc : hmreg_copy(process->lib, ours, sum, sizeof(sum));
}

/* Waits until the left neighbour has written its chunk, then consumes it. The neighbour writes the
 * next one after our answer. */
static int exchange(struct process *process, int add_to)
{
    char written = 'w', consumed = 'c';
    int rc = ring_send(process->ring, RIGHT, &written, 1);

    rc = rc ? rc : ring_receive(process->ring, LEFT, &written, 1);
    if (add_to >= 0)
        rc = rc ? rc : add_inbox(process, add_to);
    rc = rc ? rc : ring_send(process->ring, LEFT, &consumed, 1);
    return rc ? rc : ring_receive(process->ring, RIGHT, &consumed, 1);
}

/* Connects the processes in turn: the first operation connects, and its bytes are written over
 * before they are read. Of two that connect to each other at once, one gives way and, over iWARP,
 * waits for the other's answer; on another rail the other may be waiting for the first. */
static int connect_in_turn(struct process *process)
{
    int rank = process->ring->rank, rc = 0;
    char turn = 't';

    if (rank > 0)
        rc = ring_receive(process->ring, LEFT, &turn, 1);
    rc = rc ? rc : write_right(process, 0, INBOX, 0);
    if (rank < processes - 1)
        rc = rc ? rc : ring_send(process->ring, RIGHT, &turn, 1);
    return rc;
}

static int chunk_before(const struct process *process, int steps)
{
    return (process->ring->rank - steps + 2 * processes) % processes;
}

static int allreduce(struct process *process)
{
    int rc = 0;

    for (int step = 0; step < processes - 1 && !rc; step++) {
        rc = write_right(process, chunk_before(process, step), INBOX, 0);
        rc = rc ? rc : exchange(process, chunk_before(process, step + 1));
    }
    for (int step = -1; step < processes - 2 && !rc; step++) {
        int chunk = chunk_before(process, step);

        rc = write_right(process, chunk, DATA, (size_t)chunk * CHUNK_BYTES);
        rc = rc ? rc : exchange(process, -1);
    }
    return rc;
}

/* ---- the program ------------------------------------------------------------------------ */

/* Whole numbers, whose sum a float holds exactly. */
static float value(int rank, int round, int i)
{
    return (float)((i * 31 + rank * 7 + round) % 1000);
}

static float expected(int round, int i)
{
    float sum = 0;

    for (int rank = 0; rank < processes; rank++)
        sum += value(rank, round, i);
    return sum;
}

static int run_round(struct process *process, int round)
{
    int count = processes * CHUNK, rc, wrong = 0;
    float *floats = (float *)malloc(count * sizeof(float));

    if (!floats)
        return -ENOMEM;
    for (int i = 0; i < count; i++)
        floats[i] = value(process->ring->rank, round, i);
    rc = hmreg_copy(process->lib, process->data.memory, floats, count * sizeof(float));
    rc = rc ? rc : allreduce(process);
    rc = rc ? rc : hmreg_copy(process->lib, floats, process->data.memory, count * sizeof(float));
    for (int i = 0; i < count && !rc; i++)
        wrong += floats[i] != expected(round, i);
    free(floats);
    return rc ? rc : wrong ? -EBADMSG : 0;
}

static void report(const struct process *process)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct hmreg_mem_info memory = {.size = sizeof(memory)};
    struct hmreg_mr_info info = {.size = sizeof(info)};

    if (hmreg_domain_stats(process->group, &stats) || hmreg_mr_query(process->data.mr, &info) ||
        hmreg_query(process->lib, process->data.memory, 1, &memory))
        return;
    printf("%s: %d processes, %d rails, %s memory%s, path %s: every float is right; %lu of %lu "
           "gets were hits\n",
           process->endpoint[0].info->fabric_attr->prov_name, processes, rails,
           hmreg_iface_name(iface), memory.flags & HMREG_MEM_INFO_SIMULATED ? " (simulated)" : "",
           hmreg_path_name(info.path), (unsigned long)stats.hits,
           (unsigned long)(stats.hits + stats.misses));
}

static int run_process(struct ring *ring)
{
    struct process process = {.ring = ring};
    int rc;

    processes = ring->processes;
    ring->progress = progress;
    ring->context = &process;
    rc = open_process(&process);
    rc = rc ? rc : connect_in_turn(&process);
    for (int round = 0; round < ROUNDS && !rc; round++)
        rc = run_round(&process, round);
    if (rc)
        fprintf(stderr, "%s, process %d: %s\n", provider, ring->rank, failure_text(rc));
    else if (ring->rank == 0)
        report(&process);
    return close_process(&process) || rc;
}

/* HMREG_IFACE_COUNT: there is none of this name. */
static enum hmreg_iface iface_named(const char *name)
{
    for (int i = 0; i < HMREG_IFACE_COUNT; i++)
        if (!strcmp(name, hmreg_iface_name((enum hmreg_iface)i)))
            return (enum hmreg_iface)i;
    return (enum hmreg_iface)HMREG_IFACE_COUNT;
}

/* ADDRESS,ADDRESS...: as many processes. */
static int parse_addresses(char *list)
{
    int count = 0;

    for (char *one = strtok(list, ","); one && count < RING_MAX; one = strtok(NULL, ","))
        address[count++] = one;
    return count;
}

static int parse(int argc, char **argv)
{
    int option;

    while ((option = getopt(argc, argv, "a:k:n:r:i:")) != -1) {
        if (option == 'n')
            processes = atoi(optarg);
        else if (option == 'r')
            rails = atoi(optarg);
        else if (option == 'i')
            iface = iface_named(optarg);
        else if (option == 'a')
            processes = parse_addresses(optarg);
        else if (option == 'k')
            own_rank = atoi(optarg);
        else
            return 1; /* getopt() has said which */
    }
    if (optind < argc)
        provider = argv[optind];
    return processes < 2 || processes > RING_MAX || rails < 1 || rails > MAX_RAILS ||
           CHUNK % rails || iface == HMREG_IFACE_COUNT || own_rank >= processes ||
           (own_rank >= 0 && !address[processes - 1]);
}

int main(int argc, char **argv)
{
    if (parse(argc, argv)) {
        fprintf(stderr, "usage: 6-allreduce [-n 2..16 | -a ADDRESS,ADDRESS... -k RANK] [-r 1|2|4] "
                        "[-i system|cuda|rocr|ze] [PROVIDER]\n");
        return 2;
    }
    return own_rank < 0 ? ring_run(processes, run_process)
                        : ring_join(own_rank, address, processes, run_process);
}
