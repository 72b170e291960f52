/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * In the guest, under `hmreg run --cache=write`: a plain program of verbs registers and deregisters
 * host memory again and again; the kernel's count of regions (rdma(8)) and the record agree. The
 * exit status is 0 if they do.
 */
#include "preload/record_layout.h"
#include "tests/rdma/bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BUFFERS 16
#define ROUNDS  100
#define LEN     8192

static void expect(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void expect_count(const char *what, uint64_t found, uint64_t expected)
{
    if (found == expected)
        return;
    fprintf(stderr, "%s: %llu, not %llu\n", what, (unsigned long long)found,
            (unsigned long long)expected);
    exit(1);
}

/* Regions that the kernel has. */
static unsigned kernel_regions(void)
{
    FILE *output = popen("rdma resource show rxe0", "r");
    char line[256];
    unsigned regions = 0;
    char *at;

    expect(output && fgets(line, sizeof(line), output), "rdma(8) does not answer");
    at = strstr(line, " mr ");
    expect(at && sscanf(at, " mr %u", &regions) == 1, "rdma(8) does not count regions");
    pclose(output);
    return regions;
}

static const struct record_layout *trace(void)
{
    char path[512];
    void *mapped;
    int fd;

    snprintf(path, sizeof(path), "%s/hmreg-%d-0%s", getenv("HMREG_RUN_DIR"), getpid(),
             RECORD_SUFFIX);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    expect(fd >= 0, "there is no trace file");
    mapped = mmap(NULL, sizeof(struct record_layout), PROT_READ, MAP_SHARED, fd, 0);
    expect(mapped != MAP_FAILED, "the trace file cannot be mapped");
    close(fd);
    return mapped;
}

/* Successful registrations of which this became. */
static uint64_t recorded(enum record_how how)
{
    const struct record_layout *layout = trace();
    uint64_t sum = 0;

    for (unsigned i = 0; i < RECORD_ROWS; i++)
        if (layout->rows[i].state == RECORD_READY && layout->rows[i].key.how == how &&
            !layout->rows[i].key.error)
            sum += layout->rows[i].count;
    return sum;
}

static uint64_t recorded_ends(void)
{
    const struct record_layout *layout = trace();
    uint64_t sum = 0;

    for (unsigned i = 0; i < RECORD_ROWS; i++)
        if (layout->rows[i].state == RECORD_READY)
            sum += layout->rows[i].ends;
    return sum;
}

static void register_once(struct ibv_pd *pd, char *addr, int access)
{
    struct ibv_mr *mr = ibv_reg_mr(pd, addr, LEN, access);

    expect(mr && !ibv_dereg_mr(mr), "a registration or its end failed");
}

int main(void)
{
    struct bench bench;
    char *memory =
        mmap(NULL, BUFFERS * LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    expect(memory != MAP_FAILED && bench_begin(&bench), "no memory, or no RDMA device");
    expect_count("regions at first", kernel_regions(), 0);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < BUFFERS; i++)
            register_once(bench.pd, memory + i * LEN, IBV_ACCESS_LOCAL_WRITE);
    expect_count("the kernel's regions", kernel_regions(), BUFFERS);
    expect_count("registrations made", recorded(RECORD_MADE), BUFFERS);
    expect_count("hits", recorded(RECORD_HIT), BUFFERS * (ROUNDS - 1));
    for (int round = 0; round < 10; round++)
        register_once(bench.pd, memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    expect_count("passed on", recorded(RECORD_PASSED), 10);
    expect_count("ends", recorded_ends(), BUFFERS * ROUNDS + 10);
    expect_count("the kernel's regions", kernel_regions(), BUFFERS);
    bench_end(&bench);
    expect_count("regions at last", kernel_regions(), 0);
    return 0;
}
