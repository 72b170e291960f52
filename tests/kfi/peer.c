/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * See peer.h. */
#include "tests/kfi/peer.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define PAGE 4096u

/* ---- modules ---- */

static void load(const char *module, const char *parameters)
{
    char path[4096];
    int fd;

    assert_non_null(getenv("HMREG_GUEST"));
    snprintf(path, sizeof(path), "%s/%s/kfi/faults/%s.ko", GUEST_STORE, getenv("HMREG_GUEST"),
             module);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail_msg("%s: %s", path, strerror(errno));
    if (syscall(SYS_finit_module, fd, parameters, 0) && errno != EEXIST)
        fail_msg("%s: %s", path, strerror(errno));
    close(fd);
}

void peer_load(void)
{
    load("hmreg_kfi", "");
    load("hmreg_kfi_client", "");
}

int peer_unload(const char *module)
{
    return syscall(SYS_delete_module, module, O_NONBLOCK) ? -errno : 0;
}

/* ---- the peer ---- */

int peer_call(struct peer *peer, unsigned long call, void *argument)
{
    int rc = ioctl(peer->client, call, argument);

    return rc < 0 ? -errno : rc;
}

static int open_client(void)
{
    int fd;

    /* The file appears a moment after the module has made the device. */
    test_wait_until((fd = open("/dev/hmreg_kfi_client", O_RDWR | O_CLOEXEC)) >= 0 ||
                    errno != ENOENT);
    if (fd < 0)
        fail_msg("/dev/hmreg_kfi_client: %s", strerror(errno));
    return fd;
}

int peer_open_client_of(const char *device)
{
    char parameters[64];

    peer_unload("hmreg_kfi_client");
    snprintf(parameters, sizeof(parameters), "device=%s", device);
    load("hmreg_kfi", "");
    load("hmreg_kfi_device", "");
    load("hmreg_kfi_client", parameters);
    return open_client();
}

void peer_open(struct peer *peer)
{
    struct ibv_device **list;

    peer_load();
    memset(peer, 0, sizeof(*peer));
    peer->client = open_client();
    list = ibv_get_device_list(NULL);
    assert_non_null(list);
    assert_non_null(list[0]);
    peer->is_iwarp = list[0]->transport_type == IBV_TRANSPORT_IWARP;
    if (peer->is_iwarp)
        test_count_dmabufs_only(); /* librdmacm leaves the device open */
    peer->context = peer->is_iwarp ? iwarp_open(&peer->iwarp) : ibv_open_device(list[0]);
    assert_non_null(peer->context);
    ibv_free_device_list(list);
    peer->pd = ibv_alloc_pd(peer->context);
    assert_non_null(peer->pd);
    peer->cq = ibv_create_cq(peer->context, 16, NULL, NULL, 0);
    assert_non_null(peer->cq);
    peer->size = 512 * PAGE;
    peer->buffer = mmap(NULL, peer->size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    assert_ptr_not_equal(peer->buffer, MAP_FAILED);
    peer->mr = ibv_reg_mr(peer->pd, peer->buffer, peer->size,
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(peer->mr);
}

void peer_close(struct peer *peer)
{
    close(peer->client);
    if (peer->qp && !peer->is_iwarp)
        ibv_destroy_qp(peer->qp);
    if (peer->is_iwarp)
        iwarp_end(&peer->iwarp);
    ibv_dereg_mr(peer->mr);
    ibv_destroy_cq(peer->cq);
    ibv_dealloc_pd(peer->pd);
    if (peer->is_iwarp)
        iwarp_close(&peer->iwarp);
    else
        ibv_close_device(peer->context);
    munmap(peer->buffer, peer->size);
}

static int to_rts(struct peer *peer, const struct client_connect *connect)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    int rc;

    rc = ibv_modify_qp(peer->qp, &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = connect->kernel_qpn;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    memcpy(&attr.ah_attr.grh.dgid, connect->gid, 16);
    attr.ah_attr.grh.sgid_index = connect->gid_index;
    attr.ah_attr.grh.hop_limit = 1;
    rc = rc ? rc
            : ibv_modify_qp(peer->qp, &attr,
                            IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 4;
    return rc ? rc
              : ibv_modify_qp(peer->qp, &attr,
                              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

void peer_connect(struct peer *peer)
{
    struct client_connect connect = {.gid_index = 1, .mtu = IBV_MTU_1024};
    struct ibv_qp_init_attr init = {
        .send_cq = peer->cq,
        .recv_cq = peer->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 8, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    union ibv_gid gid;

    if (peer->is_iwarp) {
        iwarp_end(&peer->iwarp);
        assert_int_equal(peer_call(peer, CLIENT_CONNECT, &connect), 0);
        peer->qp = iwarp_connect(&peer->iwarp, CLIENT_PORT, peer->pd, &init);
        return;
    }
    if (peer->qp)
        ibv_destroy_qp(peer->qp);
    peer->qp = ibv_create_qp(peer->pd, &init);
    assert_non_null(peer->qp);
    assert_int_equal(ibv_query_gid(peer->context, 1, (int)connect.gid_index, &gid), 0);
    memcpy(connect.gid, &gid, sizeof(connect.gid));
    connect.user_qpn = peer->qp->qp_num;
    assert_int_equal(peer_call(peer, CLIENT_CONNECT, &connect), 0);
    assert_int_equal(to_rts(peer, &connect), 0);
}

int peer_open_domain(struct peer *peer, const struct client_open *open)
{
    struct client_open call = {0};

    if (open)
        call = *open;
    assert_int_equal(peer_call(peer, CLIENT_OPEN, &call), 0);
    return call.rc;
}

void peer_start(struct peer *peer, const struct client_open *open)
{
    peer_open(peer);
    peer_connect(peer);
    assert_int_equal(peer_open_domain(peer, open), 0);
}

/* ---- regions ---- */

void peer_reg_as(struct peer *peer, struct client_reg *reg)
{
    assert_int_equal(peer_call(peer, CLIENT_REG, reg), 0);
}

struct client_reg peer_reg(struct peer *peer, unsigned memory, uint64_t access)
{
    struct client_reg reg = {.memory = memory, .access = access};

    peer_reg_as(peer, &reg);
    return reg;
}

int peer_close_region(struct peer *peer, unsigned index)
{
    struct client_close call = {.index = index};

    assert_int_equal(peer_call(peer, CLIENT_CLOSE, &call), 0);
    return call.rc;
}

/* ---- transfers ---- */

static int run(struct peer *peer, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    struct ibv_wc wc;
    int polled;

    wr->send_flags = IBV_SEND_SIGNALED;
    assert_int_equal(ibv_post_send(peer->qp, wr, &bad), 0);
    test_wait_until((polled = ibv_poll_cq(peer->cq, 1, &wc)) != 0);
    assert_int_equal(polled, 1);
    return wc.status;
}

int peer_rdma(struct peer *peer, enum ibv_wr_opcode opcode, uint64_t address, uint64_t key,
              size_t length)
{
    struct ibv_sge sge = {(uintptr_t)peer->buffer, (uint32_t)length, peer->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .wr.rdma = {.remote_addr = address, .rkey = (uint32_t)key}};

    return run(peer, &wr);
}

/* Of iWARP's writes the sender's completion does not say what the receiver did with them. */
void peer_is_denied(struct peer *peer, enum ibv_wr_opcode opcode, uint64_t address, uint64_t key,
                    size_t length)
{
    int status = peer_rdma(peer, opcode, address, key, length);

    if (!peer->is_iwarp)
        assert_int_equal(status, IBV_WC_REM_ACCESS_ERR);
    else if (opcode == IBV_WR_RDMA_READ)
        assert_int_not_equal(status, IBV_WC_SUCCESS);
    if (peer->is_iwarp)
        iwarp_await_end(&peer->iwarp);
    peer_connect(peer);
}

int peer_fetch_and_add(struct peer *peer, uint64_t address, uint64_t key, uint64_t add)
{
    struct ibv_sge sge = {(uintptr_t)peer->buffer, 8, peer->mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
        .wr.atomic = {.remote_addr = address, .compare_add = add, .rkey = (uint32_t)key}};

    return run(peer, &wr);
}

int peer_send_with_invalidate(struct peer *peer, uint64_t key)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_INV,
                             .invalidate_rkey = (uint32_t)key,
                             .wr.rdma.rkey = (uint32_t)key}; /* which siw's provider sends */

    return run(peer, &wr);
}

/* On iWARP a write has arrived when a read after it has its answer. */
void peer_write(struct peer *peer, uint64_t address, uint64_t key, size_t length)
{
    assert_int_equal(peer_rdma(peer, IBV_WR_RDMA_WRITE, address, key, length), IBV_WC_SUCCESS);
    if (peer->is_iwarp)
        assert_int_equal(peer_rdma(peer, IBV_WR_RDMA_READ, address, key, 1), IBV_WC_SUCCESS);
}

void peer_fill(uint8_t *bytes, size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(seed + i * 7);
}

size_t peer_count_wrong(const uint8_t *bytes, size_t length, unsigned seed)
{
    size_t wrong = 0;

    for (size_t i = 0; i < length; i++)
        wrong += bytes[i] != (uint8_t)(seed + i * 7);
    return wrong;
}

void peer_round_trip(struct peer *peer, const struct client_reg *reg)
{
    struct client_bytes bytes = {.index = reg->index, .seed = 13};

    assert_int_equal(peer_call(peer, CLIENT_BYTES, &bytes), 0);
    memset(peer->buffer, 0, reg->length);
    assert_int_equal(peer_rdma(peer, IBV_WR_RDMA_READ, reg->iova, reg->key, reg->length),
                     IBV_WC_SUCCESS);
    assert_int_equal(peer_count_wrong(peer->buffer, reg->length, 13), 0);
    peer_fill(peer->buffer, reg->length, 99);
    peer_write(peer, reg->iova, reg->key, reg->length);
    bytes = (struct client_bytes){.index = reg->index, .seed = 99, .compare = 1};
    assert_int_equal(peer_call(peer, CLIENT_BYTES, &bytes), 0);
    assert_int_equal(bytes.wrong, 0);
}

/* ---- faults ---- */

void peer_fault(struct peer *peer, const char *call, unsigned skip, unsigned times)
{
    struct client_fault fault = {.skip = skip, .times = times};

    snprintf(fault.call, sizeof(fault.call), "%s", call);
    assert_int_equal(peer_call(peer, CLIENT_FAULT, &fault), 0);
}

unsigned peer_faults(struct peer *peer)
{
    struct client_fault fault = {.times = 0};

    assert_int_equal(peer_call(peer, CLIENT_FAULT, &fault), 0);
    return fault.hits;
}
