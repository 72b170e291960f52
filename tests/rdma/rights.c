/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * For how long a peer on a real RDMA device reaches a region after each kind of its end. */
#include "tests/rdma/bench.h"
#include "tests/support/rights.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* The peer: the initiator's side of the bench. */
struct writer {
    struct bench bench;
    struct hmreg_mr *mr;
    char bytes[RIGHTS_BYTES];
};

static void open_writer(struct writer *writer)
{
    const struct hmreg_domain_config one = {
        .size = sizeof(one), .max_regions = 1, .max_bytes = HMREG_LIMIT_NONE};

    bench_open_with(&writer->bench, &one);
    assert_ok(hmreg_mr_reg(writer->bench.domain, writer->bytes, RIGHTS_BYTES,
                           HMREG_READ | HMREG_WRITE, 0, 0, 0, &writer->mr, NULL));
}

static void close_writer(struct writer *writer)
{
    assert_ok(hmreg_mr_close(writer->mr));
    bench_close(&writer->bench);
}

static enum ibv_wc_status write_bytes(struct writer *writer, uint64_t addr, uint64_t key, char byte)
{
    memset(writer->bytes, byte, RIGHTS_BYTES);
    return bench_rdma(&writer->bench, IBV_WR_RDMA_WRITE, writer->bytes, RIGHTS_BYTES, writer->mr,
                      addr, (uint32_t)key);
}

/* ---- ends of a region ------------------------------------------------------------------- */

static void take(void *self, const struct hmreg_mr *mr)
{
}

/* A refused write stops the queue pairs. */
static bool write_there(void *self, uint64_t addr, uint64_t key, char byte)
{
    struct writer *writer = self;
    bool arrived = write_bytes(writer, addr, key, byte) == IBV_WC_SUCCESS;

    if (!arrived)
        bench_reconnect(&writer->bench);
    return arrived;
}

TEST(peer__after_each_end__reaches_as_long_as_promised)
{
    struct writer writer;
    const struct rights_peer peer = {take, write_there, &writer};

    open_writer(&writer);
    for (unsigned i = 0; i < rights_ends; i++)
        rights_measure(writer.bench.lib, writer.bench.domain, "verbs", i, &peer);
    close_writer(&writer);
}

/* ---- the owner's death ------------------------------------------------------------------ */

struct hello {
    uint32_t qp;
    uint32_t key;
    uint64_t addr;
    size_t token_size;
    char token[128];
};

static void exchange(int socket, const struct hello *ours, struct hello *theirs)
{
    assert_int_equal(send(socket, ours, sizeof(*ours), MSG_NOSIGNAL), sizeof(*ours));
    assert_int_equal(recv(socket, theirs, sizeof(*theirs), 0), sizeof(*theirs));
}

/* The owner's process, which begins when it is called. It never returns. */
static void own(int socket, char *memory, size_t size)
{
    struct hello ours = {.token_size = sizeof(ours.token)}, theirs;
    struct hmreg_mr *mr;
    struct bench bench;
    char call;

    if (recv(socket, &call, 1, 0) != 1)
        _exit(0);
    bench_open(&bench);
    assert_ok(hmreg_mr_reg(bench.domain, memory, size, HMREG_REMOTE_WRITE, 0, 0, 0, &mr, NULL));
    assert_ok(hmreg_mr_pack(mr, ours.token, &ours.token_size));
    ours.qp = bench_prepare(&bench);
    ours.key = (uint32_t)hmreg_mr_key(mr);
    ours.addr = (uintptr_t)memory;
    exchange(socket, &ours, &theirs);
    bench_connect(&bench, theirs.qp);
    exchange(socket, &ours, &theirs); /* both are connected */
    for (;;)
        pause();
}

/* Before this process uses the device. */
static pid_t fork_owner(int *socket, char *memory, size_t size)
{
    int ends[2];
    struct bench probe;
    pid_t owner;

    if (!bench_begin(&probe))
        test_skip("no RDMA device with an active port");
    bench_end(&probe);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    owner = fork();
    if (owner == 0)
        own(ends[1], memory, size);
    assert_true(owner > 0);
    close(ends[1]);
    *socket = ends[0];
    return owner;
}

static void call_owner(struct writer *writer, int socket, struct hello *theirs)
{
    struct hello ours = {.qp = bench_prepare(&writer->bench)};

    assert_int_equal(send(socket, "!", 1, MSG_NOSIGNAL), 1);
    exchange(socket, &ours, theirs);
    bench_connect(&writer->bench, theirs->qp);
    exchange(socket, &ours, theirs);
}

static void kill_owner(pid_t owner, int socket)
{
    kill(owner, SIGKILL);
    assert_int_equal(waitpid(owner, NULL, 0), owner);
    close(socket);
}

/* Packets that the device has sent; -1: it does not count them. */
static long count_sent(const struct writer *writer)
{
    char path[512];
    long count = -1;
    FILE *counter;

    snprintf(path, sizeof(path), "%s/ports/1/hw_counters/sent_pkts",
             writer->bench.device->device->ibdev_path);
    counter = fopen(path, "re");
    if (counter && fscanf(counter, "%ld", &count) != 1)
        count = -1;
    if (counter)
        fclose(counter);
    return count;
}

/* Waits for the completion of a write to a queue pair that is no more. It may fail late, or not at
 * all (seen with Soft-RoCE): once it has been sent, it is given up. */
static int await_late_completion(const struct writer *writer, long sent, struct ibv_wc *done)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
    int polled;

    while (!(polled = ibv_poll_cq(writer->bench.cq, 1, done)) && count_sent(writer) == sent)
        continue;
    if (!polled)
        assert_int_equal(ibv_modify_qp(writer->bench.qp[0], &error, IBV_QP_STATE), 0);
    while (!polled)
        polled = ibv_poll_cq(writer->bench.cq, 1, done);
    return polled;
}

/* Has a write succeeded? */
static bool succeeds(struct writer *writer, const struct hello *to, char byte, bool owner_lives)
{
    struct ibv_sge sge = {(uintptr_t)writer->bytes, RIGHTS_BYTES,
                          hmreg_mr_head_of(writer->mr)->keys->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                   .num_sge = 1,
                                   .opcode = IBV_WR_RDMA_WRITE,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .wr.rdma = {to->addr, to->key}};
    long sent = count_sent(writer);
    struct ibv_wc done;
    int polled = 0;

    memset(writer->bytes, byte, RIGHTS_BYTES);
    assert_int_equal(ibv_post_send(writer->bench.qp[0], &wr, &bad), 0);
    while (owner_lives && !polled)
        polled = ibv_poll_cq(writer->bench.cq, 1, &done);
    if (!owner_lives)
        polled = await_late_completion(writer, sent, &done);
    assert_int_equal(polled, 1);
    return done.status == IBV_WC_SUCCESS;
}

/* Its memory is shared with this process, and so outlives it. */
TEST(owner__killed__no_write_reaches_its_memory)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct hello theirs;
    struct writer writer;
    int socket;
    pid_t owner = fork_owner(&socket, memory, page);

    open_writer(&writer);
    call_owner(&writer, socket, &theirs);
    assert_true(succeeds(&writer, &theirs, 'a', true));
    assert_int_equal(memory[0], 'a');
    kill_owner(owner, socket);
    assert_false(succeeds(&writer, &theirs, 'b', false));
    assert_int_equal(memory[0], 'a');
    rights_report("verbs", "end of the owner's process", 0, 0);
    close_writer(&writer);
    munmap(memory, page);
}

/* The new process registers the same address. Its key may be the old one: the device chooses. */
TEST(owner__killed_and_restarted__its_remotes_are_dead)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    enum hmreg_remote_state state = HMREG_REMOTE_CURRENT;
    struct hmreg_remote *remote = NULL;
    struct hello first, second;
    struct writer writer;
    int sockets[2];
    pid_t owners[2];

    for (int i = 0; i < 2; i++)
        owners[i] = fork_owner(&sockets[i], memory, page);
    open_writer(&writer);
    call_owner(&writer, sockets[0], &first);
    assert_ok(hmreg_remote_open(writer.bench.domain, first.token, first.token_size, &remote));
    assert_true(succeeds(&writer, &first, 'a', true));
    kill_owner(owners[0], sockets[0]);
    call_owner(&writer, sockets[1], &second);
    assert_int_equal(first.addr, second.addr);
    assert_ok(hmreg_remote_check(remote, second.token, second.token_size, &state));
    assert_int_equal(state, HMREG_REMOTE_DEAD);
    assert_fails(hmreg_remote_renew(remote, second.token, second.token_size), -EOWNERDEAD,
                 "another");
    assert_true(succeeds(&writer, &second, 'b', true));
    assert_int_equal(memory[0], 'b');
    assert_int_equal(succeeds(&writer, &first, 'c', true), first.key == second.key);
    assert_int_equal(memory[0], first.key == second.key ? 'c' : 'b');
    hmreg_remote_close(remote);
    kill_owner(owners[1], sockets[1]);
    close_writer(&writer);
    munmap(memory, page);
}

TEST_MAIN()
