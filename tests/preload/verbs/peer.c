/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * In the guest: a plain program of verbs whose device memory another process writes and reads by
 * RDMA. It knows nothing of hmreg, and the kernel has no driver for peer memory: as it is, its
 * registration fails. Under `hmreg run --gpu` the right bytes move. The exit status says what
 * happened: 0 they moved, 2 the registration failed.
 */
#include "tests/preload/verbs/vendor.h"
#include "tests/rdma/bench.h"
#include "tests/support/test.h"

#include <sys/socket.h>
#include <sys/wait.h>

#define LEN   200000
#define SKEW  4099 /* where the region begins in the allocation */
#define PART  100003
#define AT    1234 /* where the peer writes in the region */
#define WRITE 54321

struct offer {
    uint32_t queue_pair, rkey;
    uint64_t addr;
};

static void expect(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static char pattern(size_t i, unsigned seed)
{
    return (char)(i * seed + i / 251);
}

static void fill(char *bytes, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = pattern(i, seed);
}

static struct offer exchange(int peer, struct offer mine)
{
    struct offer theirs;

    expect(write(peer, &mine, sizeof(mine)) == sizeof(mine), "the peer is gone");
    expect(read(peer, &theirs, sizeof(theirs)) == sizeof(theirs), "the peer ended");
    return theirs;
}

static enum ibv_wc_status transfer(struct bench *bench, enum ibv_wr_opcode opcode, char *local,
                                   size_t len, const struct ibv_mr *mr, const struct offer *to,
                                   size_t at)
{
    struct ibv_sge sge = {(uintptr_t)local, (uint32_t)len, mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .wr.rdma = {.remote_addr = to->addr + at, .rkey = to->rkey}};

    return bench_post(bench, &wr);
}

/* The other process: writes a part of the memory, and reads all of the region. */
static int initiate(int peer)
{
    struct bench bench;
    struct offer theirs;
    char *bytes = malloc(PART);
    struct ibv_mr *mr;

    expect(bytes && bench_begin(&bench), "no RDMA device");
    mr = ibv_reg_mr(bench.pd, bytes, PART, IBV_ACCESS_LOCAL_WRITE);
    expect(mr, "host memory was not registered");
    theirs = exchange(peer, (struct offer){.queue_pair = bench_prepare(&bench)});
    if (!theirs.rkey) /* the target could not register */
        return 0;
    bench_connect(&bench, theirs.queue_pair);
    exchange(peer, (struct offer){0}); /* both are connected */
    fill(bytes, WRITE, 11);
    expect(transfer(&bench, IBV_WR_RDMA_WRITE, bytes, WRITE, mr, &theirs, AT) == IBV_WC_SUCCESS,
           "the write failed");
    memset(bytes, 0, PART);
    expect(transfer(&bench, IBV_WR_RDMA_READ, bytes, PART, mr, &theirs, 0) == IBV_WC_SUCCESS,
           "the read failed");
    for (size_t i = 0; i < PART; i++)
        expect(bytes[i] == (i >= AT && i < AT + WRITE ? pattern(i - AT, 11) : pattern(i + SKEW, 7)),
               "the read brought a wrong byte");
    expect(transfer(&bench, IBV_WR_RDMA_WRITE, bytes, 1, mr, &theirs, PART) != IBV_WC_SUCCESS,
           "a write past the region was not refused");
    exchange(peer, (struct offer){0}); /* done */
    ibv_dereg_mr(mr);
    bench_end(&bench);
    return 0;
}

static void assert_bytes(const char *device)
{
    char *bytes = malloc(LEN);

    expect(bytes, "no memory");
    vendor_copy(bytes, device, LEN);
    for (size_t i = 0; i < LEN; i++)
        expect(bytes[i] == (i >= SKEW + AT && i < SKEW + AT + WRITE ? pattern(i - SKEW - AT, 11)
                                                                    : pattern(i, 7)),
               "the memory has a wrong byte");
    free(bytes);
}

static char *new_memory(void)
{
    char *bytes = malloc(LEN), *device;

    expect(bytes && vendor_begin(), "no memory, or no VENDOR");
    device = vendor_alloc(LEN);
    fill(bytes, LEN, 7);
    vendor_copy(device, bytes, LEN);
    free(bytes);
    return device;
}

/* This process: its memory is the target. */
static int serve(int peer)
{
    char *device = new_memory();
    struct offer theirs;
    struct bench bench;
    struct ibv_mr *mr;

    expect(bench_begin(&bench), "no RDMA device");
    mr = ibv_reg_mr(bench.pd, device + SKEW, PART,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    if (!mr) {
        perror("ibv_reg_mr of device memory (simulated)");
        exchange(peer, (struct offer){0});
        return 2;
    }
    expect(mr->addr == device + SKEW && mr->length == PART, "the ibv_mr has another range");
    theirs = exchange(peer, (struct offer){bench_prepare(&bench), mr->rkey, (uintptr_t)mr->addr});
    bench_connect(&bench, theirs.queue_pair);
    exchange(peer, (struct offer){0});
    exchange(peer, (struct offer){0});
    assert_bytes(device);
    expect(!ibv_dereg_mr(mr), "the region was not deregistered");
    bench_end(&bench);
    vendor_free(device);
    return 0;
}

int main(void)
{
    int ends[2], status, result;
    pid_t pid;

    expect(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "no socket");
    pid = fork();
    if (!pid) {
        close(ends[0]);
        exit(initiate(ends[1]));
    }
    close(ends[1]);
    result = serve(ends[0]);
    close(ends[0]);
    expect(waitpid(pid, &status, 0) == pid && !status, "the peer failed");
    return result;
}
