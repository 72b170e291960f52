/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The suite on a provider of libfabric: two reliable endpoints of two domains in this process;
 * while one waits, the test drives the progress of both.
 */
#include "tests/conformance/suite.h"
#include "tests/support/processor.h"

#include <hmreg/ofi.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

/* One endpoint with its objects. */
struct side {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct fid_eq *eq; /* NULL: none */
    fi_addr_t peer;    /* of an initiator: the target's address */
};

struct pair {
    struct side target, initiator;
};

static struct suite_fabric self;

/* ---- opening ---------------------------------------------------------------------------- */

#define ALL_MODES                                                                                  \
    (FI_MR_LOCAL | FI_MR_RAW | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY |                \
     FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT | FI_MR_ENDPOINT | FI_MR_HMEM)

static const uint32_t variants[] = {0, ALL_MODES, HMREG_MR_BASIC, HMREG_MR_SCALABLE};

static const char *node_of_this_machine(void)
{
    const char *node = getenv("HMREG_TEST_NODE");

    if (!strcmp(self.name, "shm"))
        return NULL;
    return node ? node : "127.0.0.1";
}

static struct fi_info *find_with(uint32_t mr_mode, uint64_t caps)
{
    const char *node = node_of_this_machine();
    struct fi_info *hints = fi_allocinfo(), *found = NULL;

    hints->fabric_attr->prov_name = strdup(self.name);
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_RMA | caps;
    hints->domain_attr->mr_mode = (int)mr_mode;
    hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    if (fi_getinfo(FI_VERSION(1, 17), node, NULL, node ? FI_SOURCE : 0, hints, &found))
        found = NULL;
    fi_freeinfo(hints);
    return found;
}

/* Requests all that the provider has: counters of regions need FI_RMA_EVENT of endpoints. */
static struct fi_info *find(uint32_t mr_mode)
{
    static const uint64_t caps[] = {FI_MSG | FI_TAGGED | FI_ATOMIC | FI_RMA_EVENT,
                                    FI_MSG | FI_TAGGED | FI_ATOMIC, FI_MSG | FI_TAGGED, 0};
    struct fi_info *found = NULL;

    for (size_t i = 0; !found && i < sizeof(caps) / sizeof(caps[0]); i++)
        found = find_with(mr_mode, caps[i]);
    return found;
}

static void open_ep(struct side *side)
{
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT};

    assert_int_equal(fi_av_open(side->domain, &av, &side->av, NULL), 0);
    assert_int_equal(fi_cq_open(side->domain, &cq, &side->cq, NULL), 0);
    assert_int_equal(fi_endpoint(side->domain, side->info, &side->ep, NULL), 0);
    assert_int_equal(fi_ep_bind(side->ep, &side->av->fid, 0), 0);
    assert_int_equal(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV), 0);
    assert_int_equal(fi_enable(side->ep), 0);
}

static void open_side(struct side *side)
{
    assert_int_equal(fi_fabric(side->info->fabric_attr, &side->fabric, NULL), 0);
    assert_int_equal(fi_domain(side->fabric, side->info, &side->domain, NULL), 0);
    open_ep(side);
}

static void close_ep(struct side *side)
{
    assert_int_equal(fi_close(&side->ep->fid), 0);
    assert_int_equal(fi_close(&side->cq->fid), 0);
    assert_int_equal(fi_close(&side->av->fid), 0);
}

static void close_side(struct side *side)
{
    close_ep(side);
    assert_int_equal(fi_close(&side->domain->fid), 0);
    if (side->eq)
        assert_int_equal(fi_close(&side->eq->fid), 0);
    assert_int_equal(fi_close(&side->fabric->fid), 0);
    fi_freeinfo(side->info);
}

static void connect_to(const struct side *target, struct side *initiator)
{
    unsigned char address[256];
    size_t size = sizeof(address);

    assert_int_equal(fi_getname(&target->ep->fid, address, &size), 0);
    assert_int_equal(fi_av_insert(initiator->av, address, 1, &initiator->peer, 0, NULL), 1);
}

static int open_more(struct suite_fixture *fixture, const struct hmreg_domain_config *config,
                     struct hmreg_domain **out)
{
    struct pair *pair = fixture->own;

    return hmreg_domain_open_ofi(fixture->lib, pair->target.domain, pair->target.info, config, out);
}

static bool open_pair(struct suite_fixture *fixture, unsigned variant)
{
    uint32_t mr_mode = variants[variant];
    struct fi_info *info = find(mr_mode);
    struct pair *pair;

    if (!info)
        return false;
    pair = calloc(1, sizeof(*pair));
    fixture->own = pair;
    fixture->asked_mode = mr_mode;
    pair->target.info = info;
    pair->initiator.info = fi_dupinfo(info);
    open_side(&pair->target);
    if (pair->initiator.info->src_addr) { /* a different port */
        fi_freeinfo(pair->initiator.info);
        pair->initiator.info = find(mr_mode);
    }
    open_side(&pair->initiator);
    connect_to(&pair->target, &pair->initiator);
    assert_ok(open_more(fixture, NULL, &fixture->domain));
    assert_ok(hmreg_domain_open_ofi(fixture->lib, pair->initiator.domain, pair->initiator.info,
                                    NULL, &fixture->peer));
    return true;
}

static void close_pair(struct suite_fixture *fixture)
{
    struct pair *pair = fixture->own;

    assert_ok(hmreg_domain_close(fixture->peer));
    assert_ok(hmreg_domain_close(fixture->domain));
    close_side(&pair->initiator);
    close_side(&pair->target);
    free(pair);
}

/* On most fabrics a denied operation closes the connection, or stays queued on it. */
static void recover(struct suite_fixture *fixture)
{
    struct pair *pair = fixture->own;

    close_ep(&pair->initiator);
    close_ep(&pair->target);
    open_ep(&pair->target);
    open_ep(&pair->initiator);
    connect_to(&pair->target, &pair->initiator);
}

static void replace(struct suite_fixture *fixture)
{
    struct pair *pair = fixture->own;

    close_ep(&pair->initiator);
    open_ep(&pair->initiator);
    connect_to(&pair->target, &pair->initiator);
}

/* ---- operations ------------------------------------------------------------------------- */

/* An operation of an initiator, and the context of its completion. */
struct operation {
    ssize_t (*post)(const struct side *from, struct operation *op);
    void *local;
    size_t len;
    void *desc;
    uint64_t addr, key; /* of the target's region */
};

static ssize_t post_write(const struct side *from, struct operation *op)
{
    return fi_write(from->ep, op->local, op->len, op->desc, from->peer, op->addr, op->key, op);
}

static ssize_t post_read(const struct side *from, struct operation *op)
{
    return fi_read(from->ep, op->local, op->len, op->desc, from->peer, op->addr, op->key, op);
}

static void progress(struct suite_fixture *fixture)
{
    struct pair *pair = fixture->own;

    (void)fi_cq_read(pair->target.cq, NULL, 0);
    (void)fi_cq_read(pair->initiator.cq, NULL, 0);
}

/* Reads a completion: 1; 0: none yet; or its error. */
static int poll_completion(const struct side *from, const void **context)
{
    struct fi_cq_entry done = {NULL};
    struct fi_cq_err_entry failed = {0};
    ssize_t got = fi_cq_read(from->cq, &done, 1);

    *context = done.op_context;
    if (got != -FI_EAVAIL)
        return got == -FI_EAGAIN ? 0 : (int)got;
    fi_cq_readerr(from->cq, &failed, 0);
    *context = failed.op_context;
    return failed.err ? -failed.err : -FI_EOTHER;
}

static ssize_t post(struct suite_fixture *fixture, struct operation *op)
{
    const struct pair *pair = fixture->own;
    ssize_t posted;

    while ((posted = op->post(&pair->initiator, op)) == -FI_EAGAIN)
        progress(fixture);
    return posted;
}

static int attempt(struct suite_fixture *fixture, struct operation *op);

static int perform(struct suite_fixture *fixture, struct operation *op)
{
    const struct pair *pair = fixture->own;
    const void *context;
    ssize_t posted;
    int rc;

    if (fixture->expects_denial && !self.reports_denials)
        return attempt(fixture, op);
    posted = post(fixture, op);
    if (posted)
        return (int)posted;
    do {
        rc = poll_completion(&pair->initiator, &context);
        (void)fi_cq_read(pair->target.cq, NULL, 0);
    } while (!rc || context != op);
    return rc > 0 ? 0 : rc;
}

/* ---- denied operations ------------------------------------------------------------------ */

/* Where a denied initiator gets no error, the target has processed its operation when another one,
 * which it processes later, has moved its bytes:
 *
 *   shm    another initiator's: a target has one queue of commands.
 *   udp    another initiator's, too: a target has one socket, in which the datagrams of one
 *          processor arrive in order. (It does not acknowledge the denied operation, which so holds
 *          up the initiator's next.) The denied one is sent at once where the connection is open.
 *   net    the same initiator's, on the same connection. The target closes that when it denies, and
 *          then the initiator opens a new one: so the operation is started again until it ends
 *          well. */
static bool serves_all_in_order(void)
{
    return !strcmp(self.name, "shm") || !strncmp(self.name, "udp", 3);
}

/* A word at each end, and the operation that copies it in the direction of the denied one. */
struct witness {
    uint64_t here, there;
    struct fid_mr *local, *remote;
    struct operation op;
};

#define MR_BASIC    1      /* FI_MR_BASIC, without libfabric 2's warning */
#define WITNESS_KEY 0x7157 /* where callers choose keys */

static struct fid_mr *reg_word(const struct side *side, uint64_t *word, uint64_t access)
{
    uint64_t key = side->info->domain_attr->mr_mode & FI_MR_PROV_KEY ? 0 : WITNESS_KEY;
    struct fid_mr *mr = NULL;

    assert_int_equal(fi_mr_reg(side->domain, word, sizeof(*word), access, 0, key, 0, &mr, NULL), 0);
    return mr;
}

static void begin_witness(const struct side *target, const struct side *from, bool write,
                          struct witness *witness)
{
    bool by_address = target->info->domain_attr->mr_mode & (MR_BASIC | FI_MR_VIRT_ADDR);

    *witness = (struct witness){.here = write, .there = !write};
    witness->local = reg_word(from, &witness->here, FI_READ | FI_WRITE);
    witness->remote = reg_word(target, &witness->there, FI_REMOTE_READ | FI_REMOTE_WRITE);
    witness->op = (struct operation){write ? post_write : post_read,
                                     &witness->here,
                                     sizeof(witness->here),
                                     fi_mr_desc(witness->local),
                                     by_address ? (uintptr_t)&witness->there : 0,
                                     fi_mr_key(witness->remote)};
}

static void end_witness(struct witness *witness)
{
    assert_int_equal(fi_close(&witness->local->fid), 0);
    assert_int_equal(fi_close(&witness->remote->fid), 0);
}

/* Drives all sides until the witness has its word. op: a denied operation, and *rc its result if it
 * ends; NULL: none was denied, and the connection stays. */
static void await_witness(const struct pair *pair, const struct side *from, struct witness *witness,
                          const struct operation *op, int *rc)
{
    bool started = false;
    const void *context;
    int got;

    while (witness->here != witness->there) {
        started = started || witness->op.post(from, &witness->op) == 0;
        (void)fi_cq_read(pair->target.cq, NULL, 0);
        got = poll_completion(from, &context);
        if (got && context == &witness->op)
            started = !op;
        else if (got && context == op)
            *rc = got;
    }
}

static void prove_processed(const struct pair *pair, const struct side *from, bool write,
                            const struct operation *op, int *rc)
{
    struct witness witness;
    const void *context;
    int got;

    begin_witness(&pair->target, from, write, &witness);
    await_witness(pair, from, &witness, op, rc);
    while ((got = poll_completion(&pair->initiator, &context)) != 0)
        if (op && context == op)
            *rc = got;
    end_witness(&witness);
}

/* net completes a write before its bytes have arrived. */
static void settle(struct suite_fixture *fixture)
{
    const struct pair *pair = fixture->own;

    prove_processed(pair, &pair->initiator, true, NULL, NULL);
}

static void prove_by_another(struct suite_fixture *fixture, const struct operation *op, int *rc)
{
    struct side other = {.info = find(fixture->asked_mode)};
    struct pair *pair = fixture->own;

    assert_non_null(other.info);
    open_side(&other);
    connect_to(&pair->target, &other);
    prove_processed(pair, &other, op->post != post_read, op, rc);
    close_side(&other);
}

/* Starts an operation that the target must deny, and returns when it has processed it: -ETIMEDOUT
 * if the operation does not end. */
static int attempt(struct suite_fixture *fixture, struct operation *op)
{
    struct pair *pair = fixture->own;
    cpu_set_t before = processor_stay();
    int rc = 0, posted;

    if (serves_all_in_order()) /* opens the connection */
        settle(fixture);
    posted = (int)post(fixture, op);
    if (!posted && serves_all_in_order())
        prove_by_another(fixture, op, &rc);
    else if (!posted)
        prove_processed(pair, &pair->initiator, op->post != post_read, op, &rc);
    processor_leave(&before);
    return posted ? posted : rc > 0 ? 0 : rc ? rc : -ETIMEDOUT;
}

/* ---- RMA -------------------------------------------------------------------------------- */

static int rma(struct suite_fixture *fixture, struct hmreg_remote *remote, bool write, void *local,
               size_t len, void *desc, uint64_t addr, uint64_t key)
{
    struct operation op = {write ? post_write : post_read, local, len, desc, addr, key};

    return perform(fixture, &op);
}

/* ---- messages and atomic operations ----------------------------------------------------- */

#define TAG 7

static ssize_t post_send(const struct side *from, struct operation *op)
{
    return fi_send(from->ep, op->local, op->len, op->desc, from->peer, op);
}

static ssize_t post_tagged(const struct side *from, struct operation *op)
{
    return fi_tsend(from->ep, op->local, op->len, op->desc, from->peer, TAG, op);
}

static int await_message(struct suite_fixture *fixture)
{
    struct pair *pair = fixture->own;
    struct fi_cq_entry done;
    ssize_t got;

    while ((got = fi_cq_read(pair->target.cq, &done, 1)) == -FI_EAGAIN)
        (void)fi_cq_read(pair->initiator.cq, NULL, 0);
    return got == 1 ? 0 : (int)got;
}

static int message(struct suite_fixture *fixture, bool tagged, const void *from, void *from_desc,
                   void *to, void *to_desc, size_t len)
{
    struct operation op = {.post = tagged ? post_tagged : post_send,
                           .local = (void *)(uintptr_t)from,
                           .len = len,
                           .desc = from_desc};
    struct pair *pair = fixture->own;
    struct fid_ep *ep = pair->target.ep;
    int rc;

    if (!(pair->target.info->caps & (tagged ? FI_TAGGED : FI_MSG)))
        return -EOPNOTSUPP;
    assert_int_equal(tagged ? fi_trecv(ep, to, len, to_desc, FI_ADDR_UNSPEC, TAG, 0, NULL)
                            : fi_recv(ep, to, len, to_desc, FI_ADDR_UNSPEC, NULL),
                     0);
    rc = perform(fixture, &op);
    return rc ? rc : await_message(fixture);
}

/* The second word is the amount; the first receives the old value. */
static ssize_t post_fetch_add(const struct side *from, struct operation *op)
{
    uint64_t *words = op->local;

    return fi_fetch_atomic(from->ep, &words[1], 1, op->desc, &words[0], op->desc, from->peer,
                           op->addr, op->key, FI_UINT64, FI_SUM, op);
}

static ssize_t post_add(const struct side *from, struct operation *op)
{
    uint64_t *words = op->local;

    return fi_atomic(from->ep, &words[1], 1, op->desc, from->peer, op->addr, op->key, FI_UINT64,
                     FI_SUM, op);
}

/* net reports atomic operations and lacks them; udp completes a fetching one before the result has
 * arrived, and crashes when it arrives. */
static int add(struct suite_fixture *fixture, bool fetch, uint64_t words[2], void *desc,
               uint64_t amount, uint64_t addr, uint64_t key)
{
    struct operation op = {fetch ? post_fetch_add : post_add, words, 8, desc, addr, key};
    struct pair *pair = fixture->own;
    int rc;

    if (!(pair->target.info->caps & FI_ATOMIC) || (fetch && !strcmp(self.name, "udp")))
        return -EOPNOTSUPP;
    words[1] = amount;
    rc = perform(fixture, &op);
    return rc == -FI_ENOSYS ? -EOPNOTSUPP : rc;
}

/* ---- registration without hmreg --------------------------------------------------------- */

static int native(struct suite_fixture *fixture, const void *addr, size_t len, uint64_t access,
                  uint64_t offset, uint64_t key, uint64_t flags)
{
    struct pair *pair = fixture->own;
    struct fid_mr *mr = NULL;
    int rc = fi_mr_reg(pair->target.domain, addr, len, access, offset, key, flags, &mr, NULL);

    if (!rc)
        fi_close(&mr->fid);
    return rc;
}

static void *counter_open(struct suite_fixture *fixture)
{
    struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
    struct pair *pair = fixture->own;
    struct fid_cntr *counter = NULL;

    return fi_cntr_open(pair->target.domain, &attr, &counter, NULL) ? NULL : &counter->fid;
}

static uint64_t counter_read(void *counter)
{
    return fi_cntr_read((struct fid_cntr *)counter);
}

static void counter_close(void *counter)
{
    assert_int_equal(fi_close(counter), 0);
}

/* ---- events ----------------------------------------------------------------------------- */

static bool async_open(struct suite_fixture *fixture, struct hmreg_domain **out)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .flags = HMREG_OFI_ASYNC};
    struct fi_eq_attr attr = {.size = 16, .wait_obj = FI_WAIT_NONE};
    struct pair *pair = fixture->own;
    struct side *side = &pair->target;

    if (FI_VERSION_GE(fi_version(), FI_VERSION(2, 0))) {
        assert_fails(open_more(fixture, &config, out), -EOPNOTSUPP, "complete without an event");
        return false;
    }
    if (fi_eq_open(side->fabric, &attr, &side->eq, NULL) ||
        fi_domain_bind(side->domain, &side->eq->fid, HMREG_BIND_REG_MR))
        return false;
    assert_ok(open_more(fixture, &config, out));
    return true;
}

static void async_close(struct suite_fixture *fixture, struct hmreg_domain *domain)
{
    assert_ok(hmreg_domain_close(domain));
}

static bool async_event(struct suite_fixture *fixture, void **context)
{
    struct pair *pair = fixture->own;
    struct fi_eq_entry entry;
    uint32_t event = 0;

    if (fi_eq_read(pair->target.eq, &event, &entry, sizeof(entry), 0) != sizeof(entry))
        return false;
    assert_int_equal(event, FI_MR_COMPLETE);
    *context = entry.context;
    return true;
}

const struct suite_fabric *suite_fabric(const char *name)
{
    struct fi_info *info = NULL;

    self = (struct suite_fabric){
        .reports_denials =
            !strncmp(name, "tcp", 3) || !strcmp(name, "sockets") || !strcmp(name, "verbs"),
        .variants = sizeof(variants) / sizeof(variants[0]),
        .open = open_pair,
        .open_more = open_more,
        .domain_flags = HMREG_OFI_ASYNC,
        .close = close_pair,
        .recover = recover,
        .replace = replace,
        .rma = rma,
        .add = add,
        .message = message,
        .progress = progress,
        .settle = settle,
        .native = native,
        .counter_open = counter_open,
        .counter_read = counter_read,
        .counter_close = counter_close,
        .async_open = async_open,
        .async_close = async_close,
        .async_event = async_event,
    };
    snprintf(self.name, sizeof(self.name), "%s", name);
    /* A case opens many endpoints, and uses few buffers of each. */
    setenv("FI_OFI_RXM_BUFFER_SIZE", "256", 0);
    setenv("FI_OFI_RXM_MSG_TX_SIZE", "64", 0);
    setenv("FI_OFI_RXM_MSG_RX_SIZE", "64", 0);
    /* Opens the descriptors that libfabric keeps, before the harness counts them. */
    if (fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, NULL, &info) == 0)
        fi_freeinfo(info);
    return &self;
}
