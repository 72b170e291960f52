/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A plain program on libfabric, which knows nothing of hmreg, as users write them: an owner
 * registers memory, a second process writes and reads it by RMA, and both compare every byte.
 *
 *     plain_libfabric FABRIC MEMORY [ROUNDS] [WORD...]
 *
 * MEMORY: host, cuda, rocr or ze. Each round registers the memory of both processes and closes both
 * regions. WORDs: hmem: the program asks for FI_HMEM and says whose memory it registers; basic: it
 * asks for FI_MR_BASIC, so that the provider chooses keys; offsets: peers address regions from 0,
 * on any fabric; child: the owner forks a child, which exits, in the middle of each round; stay:
 * before it closes the last region it sees that the domain cannot be closed; leave: it ends without
 * closing anything.
 *
 * Prints one line if all bytes were right. Exit status 0, or 1 with a sentence on stderr.
 */
#include "tests/preload/ofi/vendor_memory.h"
#include "tests/support/shm_names.h"

#include <poll.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN      200001
#define KEY      77
#define MR_BASIC 1 /* FI_MR_BASIC, without libfabric 2's warning */

static struct {
    const char *fabric;
    const struct vendor *vendor;
    unsigned rounds;
    bool hmem, basic, offsets, child, stay, leave;
} options;

static struct {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    fi_addr_t peer;
} net;

static struct fid_mr *left; /* the last round's region, with the word stay */
static int control;         /* the socket to the other process */
static const char *who = "owner";

static void check(int rc, const char *what)
{
    if (rc == 0)
        return;
    fprintf(stderr, "plain_libfabric: %s: %s: %s\n", who, what, fi_strerror(rc < 0 ? -rc : rc));
    exit(1);
}

static void fail(const char *what)
{
    fprintf(stderr, "plain_libfabric: %s: %s\n", who, what);
    exit(1);
}

/* ---- the other process ------------------------------------------------------------------- */

struct message {
    uint64_t addr, key;
    size_t size;
    char name[256];
};

static void tell(const struct message *message)
{
    if (send(control, message, sizeof(*message), MSG_NOSIGNAL) != sizeof(*message))
        fail("the other process is gone");
}

/* Drives progress meanwhile, which the other's operations may need. */
static struct message hear(void)
{
    struct pollfd waiting = {.fd = control, .events = POLLIN};
    struct fi_cq_entry entry;
    struct message got;

    while (poll(&waiting, 1, 1) == 0)
        if (net.cq)
            fi_cq_read(net.cq, &entry, 1);
    if (recv(control, &got, sizeof(got), 0) != sizeof(got))
        fail("the other process is gone");
    return got;
}

static bool is_other_gone(void)
{
    struct pollfd other = {.fd = control};

    return poll(&other, 1, 0) == 1 && (other.revents & POLLHUP);
}

/* ---- opening ----------------------------------------------------------------------------- */

static uint32_t version(void)
{
    uint32_t wanted = FI_VERSION(1, 20), here = fi_version();

    return FI_VERSION_LT(here, wanted) ? here : wanted;
}

static int mr_mode(void)
{
    int mode = FI_MR_LOCAL | FI_MR_ALLOCATED | (options.hmem ? FI_MR_HMEM : 0);

    if (options.basic)
        return MR_BASIC;
    return options.offsets ? mode : mode | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
}

static void find(void)
{
    const char *node = strcmp(options.fabric, "shm") ? "127.0.0.1" : NULL;
    struct fi_info *hints = fi_allocinfo();

    hints->fabric_attr->prov_name = strdup(options.fabric);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_RMA | (options.hmem ? FI_HMEM : 0);
    hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    hints->domain_attr->mr_mode = mr_mode();
    check(fi_getinfo(version(), node, NULL, node ? FI_SOURCE : 0, hints, &net.info), "fi_getinfo");
    fi_freeinfo(hints);
}

static void open_all(void)
{
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT};

    shm_names_forget();
    find();
    check(fi_fabric(net.info->fabric_attr, &net.fabric, NULL), "fi_fabric");
    check(fi_domain(net.fabric, net.info, &net.domain, NULL), "fi_domain");
    check(fi_av_open(net.domain, &av, &net.av, NULL), "fi_av_open");
    check(fi_cq_open(net.domain, &cq, &net.cq, NULL), "fi_cq_open");
    check(fi_endpoint(net.domain, net.info, &net.ep, NULL), "fi_endpoint");
    check(fi_ep_bind(net.ep, &net.av->fid, 0), "fi_ep_bind");
    check(fi_ep_bind(net.ep, &net.cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    check(fi_enable(net.ep), "fi_enable");
}

static void meet(void)
{
    struct message own = {.size = sizeof(own.name)}, other;

    check(fi_getname(&net.ep->fid, own.name, &own.size), "fi_getname");
    tell(&own);
    other = hear();
    if (fi_av_insert(net.av, other.name, 1, &net.peer, 0, NULL) != 1)
        fail("fi_av_insert failed");
}

static void close_all(void)
{
    check(fi_close(&net.ep->fid), "fi_close of the endpoint");
    check(fi_close(&net.cq->fid), "fi_close of the completion queue");
    check(fi_close(&net.av->fid), "fi_close of the address vector");
    net.cq = NULL;
    if (left) {
        if (fi_close(&net.domain->fid) != -FI_EBUSY)
            fail("the domain was closed although a region was not");
        check(fi_close(&left->fid), "fi_close of a region");
    }
    check(fi_close(&net.domain->fid), "fi_close of the domain");
    check(fi_close(&net.fabric->fid), "fi_close of the fabric");
    fi_freeinfo(net.info);
}

/* ---- registering and moving -------------------------------------------------------------- */

static struct fid_mr *reg(void *memory, uint64_t access, const struct vendor *vendor)
{
    struct iovec iov = {memory, LEN};
    struct fi_mr_attr attr = {.mr_iov = &iov,
                              .iov_count = 1,
                              .access = access,
                              .requested_key = KEY,
                              .context = memory,
                              .iface = (enum fi_hmem_iface)vendor->iface};
    struct fid_mr *mr = NULL;

    if (options.hmem)
        check(fi_mr_regattr(net.domain, &attr, 0, &mr), "fi_mr_regattr");
    else
        check(fi_mr_reg(net.domain, memory, LEN, access, 0, KEY, 0, &mr, memory), "fi_mr_reg");
    if (mr->fid.context != memory)
        fail("the region has another context");
    return mr;
}

static void complete(const char *what)
{
    struct fi_cq_entry entry;
    ssize_t got;

    do {
        got = fi_cq_read(net.cq, &entry, 1);
    } while (got == -FI_EAGAIN && !is_other_gone());
    if (got != 1)
        fail(what);
}

static void move(bool write, void *buffer, void *desc, const struct message *to)
{
    struct fi_cq_entry entry;
    ssize_t rc;

    do {
        rc = write ? fi_write(net.ep, buffer, LEN, desc, net.peer, to->addr, to->key, NULL)
                   : fi_read(net.ep, buffer, LEN, desc, net.peer, to->addr, to->key, NULL);
        if (rc == -FI_EAGAIN)
            fi_cq_read(net.cq, &entry, 0);
    } while (rc == -FI_EAGAIN && !is_other_gone());
    check((int)rc, write ? "fi_write" : "fi_read");
    complete(write ? "the write failed" : "the read failed");
}

/* ---- the two processes ------------------------------------------------------------------- */

static void fork_a_child(void)
{
    int status = 0;
    pid_t child = fork();

    /* With all handlers of exit(3), but those of libfabric's shm, whose files are the parent's. */
    if (child == 0 && strcmp(options.fabric, "shm"))
        exit(0);
    if (child == 0)
        _exit(0);
    if (waitpid(child, &status, 0) != child || status)
        fail("the child failed");
}

static bool has_virtual_addresses(void)
{
    return net.info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | MR_BASIC);
}

static void one_round(void *memory, unsigned round)
{
    struct fid_mr *mr = reg(memory, FI_REMOTE_READ | FI_REMOTE_WRITE, options.vendor);
    struct message region = {.addr = has_virtual_addresses() ? (uintptr_t)memory : 0,
                             .key = fi_mr_key(mr)};

    if (options.child)
        fork_a_child();
    tell(&region);
    hear();
    if (vendor_differences(options.vendor, memory, LEN, round))
        fail("bytes that were written are not those that were sent");
    vendor_fill(options.vendor, memory, LEN, round + 1);
    tell(&region);
    hear();
    if (options.leave)
        return;
    if (options.stay && round + 1 == options.rounds)
        left = mr;
    else
        check(fi_close(&mr->fid), "fi_close of a region");
}

static void own(void)
{
    void *memory = options.vendor->alloc(LEN);

    open_all();
    meet();
    for (unsigned round = 0; round < options.rounds; round++)
        one_round(memory, round);
    if (options.leave)
        return;
    close_all();
    options.vendor->release(memory);
}

/* Its memory is the host's. */
static void write_and_read(void)
{
    const struct vendor *host = vendor_find("host");
    unsigned char *buffer = host->alloc(LEN);

    open_all();
    meet();
    for (unsigned round = 0; round < options.rounds; round++) {
        struct message region = hear();
        struct fid_mr *mr = reg(buffer, FI_READ | FI_WRITE, host);

        vendor_fill(host, buffer, LEN, round);
        move(true, buffer, fi_mr_desc(mr), &region);
        tell(&region);
        region = hear();
        move(false, buffer, fi_mr_desc(mr), &region);
        if (vendor_differences(host, buffer, LEN, round + 1))
            fail("bytes that were read are not those of the owner");
        check(fi_close(&mr->fid), "fi_close of a region");
        tell(&region);
    }
    close_all();
    host->release(buffer);
}

/* ---- the program ------------------------------------------------------------------------- */

static bool parse(int argc, char **argv)
{
    if (argc < 3)
        return false;
    options.fabric = argv[1];
    options.vendor = vendor_find(argv[2]);
    options.rounds = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
    for (int i = 4; i < argc; i++) {
        options.hmem |= !strcmp(argv[i], "hmem");
        options.basic |= !strcmp(argv[i], "basic");
        options.offsets |= !strcmp(argv[i], "offsets");
        options.child |= !strcmp(argv[i], "child");
        options.stay |= !strcmp(argv[i], "stay");
        options.leave |= !strcmp(argv[i], "leave");
    }
    return options.vendor && options.rounds;
}

int main(int argc, char **argv)
{
    int sockets[2], status = 0;
    pid_t other;

    if (!parse(argc, argv)) {
        fprintf(stderr, "usage: %s FABRIC host|cuda|rocr|ze [ROUNDS] [WORD...]\n", argv[0]);
        return 2;
    }
    check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), "socketpair");
    other = fork();
    control = sockets[other == 0];
    close(sockets[other != 0]);
    if (other == 0) {
        who = "peer";
        write_and_read();
        return 0;
    }
    own();
    waitpid(other, &status, 0);
    if (status)
        return 1;
    printf("%u rounds of %d bytes of %s memory over %s: all right\n", options.rounds, LEN,
           options.vendor->name, options.fabric);
    return 0;
}
