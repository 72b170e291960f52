/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See fabric.h. One request and one reply at a time, each a packet of a socket pair.
 */
#include "tests/support/fabric.h"

#include "core/base/error.h"
#include "tests/support/processor.h"
#include "tests/support/shm_names.h"

#include <fcntl.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define MAX_BLOB    2048
#define PATIENCE    1000 /* seconds: far above what any operation takes */
#define SPINS       100
#define WITNESS_KEY 0x7157 /* where callers choose keys */

enum op { OP_CONNECT, OP_TAKE, OP_WRITE, OP_READ, OP_INTRUDE, OP_SEEN, OP_OFFER, OP_CHECK };

struct request {
    enum op op;
    unsigned seed;
    uint64_t place; /* offset, or address */
    uint64_t key;
    uint64_t len;
    uint64_t word;                /* the witness's */
    size_t size;                  /* of blob */
    unsigned char blob[MAX_BLOB]; /* a token or an address */
};

struct reply {
    int rc;
    char text[256];
    size_t size;
    unsigned char blob[MAX_BLOB];
};

/* What a new process needs before it can connect. */
struct setup {
    char provider[32];
    uint64_t caps, msg_order;
    int old_mr_mode;
};

const char *fabric_name(void)
{
    const char *name = getenv("HMREG_TEST_FABRIC");

    return name ? name : "tcp";
}

bool fabric_reports_denials(void)
{
    static const char *const reporting[] = {"tcp", "sockets", "verbs"};

    for (size_t i = 0; i < sizeof(reporting) / sizeof(reporting[0]); i++)
        if (!strcmp(fabric_name(), reporting[i]))
            return true;
    return false;
}

unsigned char fabric_byte(unsigned seed, size_t index)
{
    return (unsigned char)(seed * 41 + index * 7 + (index >> 8) * 3 + 1);
}

/* Has the other side sent a message? Waits for it from round SPINS on, a millisecond: it mostly
 * comes at once, but two spinning processes slow each other down on a small machine. */
static bool is_readable(int socket, int *round)
{
    struct pollfd waiting = {.fd = socket, .events = POLLIN};

    *round += *round < SPINS;
    return poll(&waiting, 1, *round < SPINS ? 0 : 1) != 0;
}

static void progress_until_readable(int socket, struct endpoint *endpoint)
{
    int round = 0;

    while (!is_readable(socket, &round))
        endpoint_progress(endpoint);
}

/* ---- the peer --------------------------------------------------------------------------- */

struct peer {
    int socket;
    struct endpoint_hints hints;
    struct endpoint endpoint, other;             /* the other intrudes only as a witness */
    unsigned char owner[ENDPOINT_ADDRESS_BYTES]; /* the address of the test's endpoint */
    struct hmreg *lib;
    struct hmreg_domain *domain;
    struct hmreg_remote *remote;
    unsigned char *bytes; /* for RMA; kept until the endpoint is closed, since a timed-out operation
                             may still write to them */
    unsigned char *offered;
    size_t shared; /* bytes of a mapped file; 0: it is allocated */
    struct hmreg_mr *offer;
};

static int open_all(const struct endpoint_hints *hints, struct endpoint *endpoint,
                    struct hmreg **lib, struct hmreg_domain **domain)
{
    struct hmreg_domain_config exact = {.size = sizeof(exact), .flags = HMREG_DOMAIN_EXACT};
    int rc = endpoint_open(hints, endpoint);

    if (rc)
        return hmreg_fail(rc, "%s cannot be opened here: %s", hints->provider, fi_strerror(-rc));
    endpoint->patience = PATIENCE;
    rc = hmreg_open(NULL, lib);
    return rc ? rc : hmreg_domain_open_ofi(*lib, endpoint->domain, endpoint->info, &exact, domain);
}

static int close_all(struct endpoint *endpoint, struct hmreg *lib, struct hmreg_domain *domain)
{
    int rc = hmreg_domain_close(domain);

    rc = rc ? rc : hmreg_close(lib);
    endpoint_close(endpoint);
    return rc;
}

static int connect_peer(struct peer *peer, const struct request *request, struct reply *reply)
{
    int rc;

    memcpy(peer->owner, request->blob, sizeof(peer->owner));
    reply->size = sizeof(reply->blob);
    rc = endpoint_address(&peer->endpoint, reply->blob, &reply->size);
    return rc ? rc : endpoint_connect(&peer->endpoint, request->blob);
}

static int take(struct peer *peer, const struct request *request)
{
    struct hmreg_remote *remote = NULL;
    int rc = hmreg_remote_open(peer->domain, request->blob, request->size, &remote);

    if (rc)
        return rc;
    hmreg_remote_close(peer->remote);
    peer->remote = remote;
    return 0;
}

static int check(const unsigned char *bytes, const struct request *request)
{
    for (size_t i = 0; i < request->len; i++)
        if (bytes[i] != fabric_byte(request->seed, i))
            return hmreg_fail(-EBADMSG, "byte %zu of %zu at the peer is %#x, not %#x", i,
                              (size_t)request->len, bytes[i], fabric_byte(request->seed, i));
    return 0;
}

static void fill(unsigned char *bytes, const struct request *request)
{
    for (size_t i = 0; i < request->len; i++)
        bytes[i] = fabric_byte(request->seed, i);
}

static int operate(struct peer *peer, const struct request *request, bool write, void *desc,
                   uint64_t addr, uint64_t key)
{
    int rc = write ? endpoint_write(&peer->endpoint, peer->bytes, request->len, desc, addr, key)
                   : endpoint_read(&peer->endpoint, peer->bytes, request->len, desc, addr, key);

    return rc ? hmreg_fail(rc, "RMA on %s: %s", peer->endpoint.info->fabric_attr->prov_name,
                           fi_strerror(-rc))
              : 0;
}

/* Registers local bytes for RMA, since some domains require their desc. */
static int prepare(struct peer *peer, const struct request *request, bool write,
                   struct hmreg_mr **mr)
{
    peer->bytes = realloc(peer->bytes, request->len);
    memset(peer->bytes, 0, request->len);
    if (write)
        fill(peer->bytes, request);
    return hmreg_mr_reg(peer->domain, peer->bytes, request->len, HMREG_READ | HMREG_WRITE, 0, 0, 0,
                        mr, NULL);
}

static int move(struct peer *peer, const struct request *request, bool write, uint64_t addr,
                uint64_t key)
{
    struct hmreg_mr *mr = NULL;
    int rc = prepare(peer, request, write, &mr);

    rc = rc ? rc : operate(peer, request, write, hmreg_mr_desc(mr), addr, key);
    if (!rc && !write)
        rc = check(peer->bytes, request);
    hmreg_mr_close(mr);
    return rc;
}

static int move_in_region(struct peer *peer, const struct request *request, bool write)
{
    uint64_t addr = 0, key = 0;
    int rc = hmreg_remote_addr(peer->remote, request->place, request->len, &addr, &key);

    return rc ? rc : move(peer, request, write, addr, key);
}

/* ---- intrusions: tests/conformance/fabric_ofi.c says what proves that one was processed ---- */

static bool serves_all_in_order(void)
{
    return !strcmp(fabric_name(), "shm") || !strncmp(fabric_name(), "udp", 3);
}

/* Opens the connection to be intruded by, and another initiator. */
static int open_other(struct peer *peer, const struct hmreg_remote *witness)
{
    uint64_t addr, key, word = 0;
    int rc = hmreg_remote_addr(witness, 0, sizeof(word), &addr, &key);

    rc = rc ? rc : endpoint_write(&peer->endpoint, &word, sizeof(word), NULL, addr, key);
    if (rc || peer->other.ep)
        return rc;
    rc = endpoint_open(&peer->hints, &peer->other);
    return rc ? rc : endpoint_connect(&peer->other, peer->owner);
}

static int start_write(struct peer *peer, const struct request *request, void *desc)
{
    struct endpoint *e = &peer->endpoint;
    ssize_t rc;

    while ((rc = fi_write(e->ep, peer->bytes, request->len, desc, e->peer, request->place,
                          request->key, NULL)) == -FI_EAGAIN)
        endpoint_progress(e);
    return (int)rc;
}

static bool has_completion(struct endpoint *from)
{
    struct fi_cq_err_entry failed = {0};
    struct fi_cq_entry done;
    ssize_t got = fi_cq_read(from->cq, &done, 1);

    if (got == -FI_EAVAIL)
        fi_cq_readerr(from->cq, &failed, 0);
    return got != -FI_EAGAIN;
}

/* Writes the witness's word again and again, until the test's side says that it has seen it. */
static int write_until_seen(struct peer *peer, struct endpoint *from, const uint64_t *word,
                            const struct hmreg_remote *witness)
{
    struct request seen;
    bool started = false;
    uint64_t addr, key;
    int round = 0, rc = hmreg_remote_addr(witness, 0, sizeof(*word), &addr, &key);

    while (!rc && !is_readable(peer->socket, &round)) {
        if (!started)
            started = !fi_write(from->ep, word, sizeof(*word), NULL, from->peer, addr, key, NULL);
        endpoint_progress(&peer->endpoint);
        if (has_completion(from))
            started = false;
    }
    return rc ? rc : recv(peer->socket, &seen, sizeof(seen), 0) == sizeof(seen) ? 0 : -EPIPE;
}

static int intrude_silently(struct peer *peer, const struct request *request, void *desc,
                            const struct hmreg_remote *witness)
{
    bool in_order = serves_all_in_order();
    cpu_set_t before = processor_stay();
    int rc = in_order ? open_other(peer, witness) : 0;

    rc = rc ? rc : start_write(peer, request, desc);
    rc = rc ? rc
            : write_until_seen(peer, in_order ? &peer->other : &peer->endpoint, &request->word,
                               witness);
    processor_leave(&before);
    return rc;
}

static int intrude(struct peer *peer, const struct request *request)
{
    struct hmreg_remote *witness = NULL;
    struct hmreg_mr *mr = NULL;
    int rc;

    if (fabric_reports_denials())
        return move(peer, request, true, request->place, request->key);
    rc = hmreg_remote_open(peer->domain, request->blob, request->size, &witness);
    rc = rc ? rc : prepare(peer, request, true, &mr);
    rc = rc ? rc : intrude_silently(peer, request, hmreg_mr_desc(mr), witness);
    hmreg_mr_close(mr);
    hmreg_remote_close(witness);
    return rc;
}

/* ---- what it offers --------------------------------------------------------------------- */

/* The file's name is the request's blob; it has none where the memory is to be allocated. */
static unsigned char *memory_for(const struct request *request)
{
    int file = request->size ? open((const char *)request->blob, O_RDWR | O_CLOEXEC) : -1;
    void *made = request->size
                     ? mmap(NULL, request->len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                     : malloc(request->len);

    if (file >= 0)
        close(file);
    return made == MAP_FAILED ? NULL : made;
}

static void drop_offer(struct peer *peer)
{
    hmreg_mr_close(peer->offer);
    peer->offer = NULL;
    if (peer->shared)
        munmap(peer->offered, peer->shared);
    else
        free(peer->offered);
    peer->offered = NULL;
}

static int offer(struct peer *peer, const struct request *request, struct reply *reply)
{
    int rc;

    drop_offer(peer);
    peer->offered = memory_for(request);
    peer->shared = request->size ? request->len : 0;
    if (!peer->offered)
        return hmreg_fail(-ENOMEM, "no memory to be offered");
    fill(peer->offered, request);
    rc = hmreg_mr_reg(peer->domain, peer->offered, request->len, HMREG_ACCESS_ALL, 0, 0, 0,
                      &peer->offer, NULL);
    reply->size = sizeof(reply->blob);
    return rc ? rc : hmreg_mr_pack(peer->offer, reply->blob, &reply->size);
}

static int serve_one(struct peer *peer, const struct request *request, struct reply *reply)
{
    switch (request->op) {
    case OP_CONNECT:
        return connect_peer(peer, request, reply);
    case OP_TAKE:
        return take(peer, request);
    case OP_WRITE:
    case OP_READ:
        return move_in_region(peer, request, request->op == OP_WRITE);
    case OP_INTRUDE:
        return intrude(peer, request);
    case OP_OFFER:
        return offer(peer, request, reply);
    default:
        return check(peer->offered + request->place, request);
    }
}

/* Until the socket closes. The test's process needs this side's progress as well. */
static int serve(struct peer *peer)
{
    struct request request;

    for (;;) {
        struct reply reply = {0};

        progress_until_readable(peer->socket, &peer->endpoint);
        if (recv(peer->socket, &request, sizeof(request), 0) != sizeof(request))
            return 0;
        reply.rc = serve_one(peer, &request, &reply);
        if (reply.rc)
            memcpy(reply.text, hmreg_last_error()->text, sizeof(reply.text));
        if (send(peer->socket, &reply, sizeof(reply), MSG_NOSIGNAL) != sizeof(reply))
            return 1;
    }
}

static int peer_main(int socket)
{
    struct peer peer = {.socket = socket};
    struct endpoint_hints hints = {0};
    struct setup setup;
    int rc;

    if (recv(socket, &setup, sizeof(setup), 0) != sizeof(setup))
        return 1;
    hints.provider = setup.provider;
    hints.caps = setup.caps;
    hints.msg_order = setup.msg_order;
    hints.old_mr_mode = setup.old_mr_mode;
    peer.hints = hints;
    rc = open_all(&hints, &peer.endpoint, &peer.lib, &peer.domain);
    if (!rc)
        rc = serve(&peer);
    else
        fprintf(stderr, "peer: %s\n", hmreg_last_error()->text);
    hmreg_remote_close(peer.remote);
    drop_offer(&peer);
    endpoint_close(&peer.other);
    rc = close_all(&peer.endpoint, peer.lib, peer.domain) || rc;
    free(peer.bytes);
    return rc;
}

/* ---- the test's side -------------------------------------------------------------------- */

static void send_request(struct fabric *fabric, const struct request *request)
{
    if (send(fabric->socket, request, sizeof(*request), MSG_NOSIGNAL) != sizeof(*request))
        fail_msg("the peer is gone");
}

/* Drives progress until the reply arrives. */
static int await_reply(struct fabric *fabric, struct reply *reply)
{
    progress_until_readable(fabric->socket, &fabric->endpoint);
    if (recv(fabric->socket, reply, sizeof(*reply), 0) != sizeof(*reply))
        fail_msg("the peer died");
    return reply->rc ? hmreg_fail(reply->rc, "%s", reply->text) : 0;
}

static int ask(struct fabric *fabric, const struct request *request, struct reply *reply)
{
    send_request(fabric, request);
    return await_reply(fabric, reply);
}

static int ask_simply(struct fabric *fabric, const struct request *request)
{
    struct reply reply;

    return ask(fabric, request, &reply);
}

int peer_take(struct fabric *fabric, const void *token, size_t size)
{
    struct request request = {.op = OP_TAKE, .size = size};

    assert_true(size <= sizeof(request.blob));
    memcpy(request.blob, token, size);
    return ask_simply(fabric, &request);
}

int peer_take_region(struct fabric *fabric, const struct hmreg_mr *mr)
{
    unsigned char token[MAX_BLOB];
    size_t size = sizeof(token);
    int rc = hmreg_mr_pack(mr, token, &size);

    return rc ? rc : peer_take(fabric, token, size);
}

int peer_write(struct fabric *fabric, uint64_t offset, size_t len, unsigned seed)
{
    struct request request = {.op = OP_WRITE, .place = offset, .len = len, .seed = seed};

    return ask_simply(fabric, &request);
}

int peer_read(struct fabric *fabric, uint64_t offset, size_t len, unsigned seed)
{
    struct request request = {.op = OP_READ, .place = offset, .len = len, .seed = seed};

    return ask_simply(fabric, &request);
}

static void pack_witness(struct fabric *fabric, struct request *request)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};

    assert_ok(hmreg_domain_query(fabric->domain, &info));
    if (!fabric->witness_mr)
        assert_ok(hmreg_mr_reg(
            fabric->domain, &fabric->witness, sizeof(fabric->witness), HMREG_REMOTE_WRITE, 0,
            info.mr_mode & HMREG_MR_PROV_KEY ? 0 : WITNESS_KEY, 0, &fabric->witness_mr, NULL));
    request->size = sizeof(request->blob);
    assert_ok(hmreg_mr_pack(fabric->witness_mr, request->blob, &request->size));
}

/* Drives progress until the word has arrived; false: the peer has replied instead, or died. */
static bool sees_witness(struct fabric *fabric, uint64_t word)
{
    const volatile uint64_t *witness = &fabric->witness;
    int round = 0;

    while (*witness != word && !is_readable(fabric->socket, &round))
        endpoint_progress(&fabric->endpoint);
    return *witness == word;
}

int peer_intrude(struct fabric *fabric, uint64_t addr, uint64_t key, size_t len, unsigned seed)
{
    struct request request = {.op = OP_INTRUDE,
                              .place = addr,
                              .key = key,
                              .len = len,
                              .seed = seed,
                              .word = ++fabric->words};
    struct reply reply;

    if (fabric_reports_denials())
        return ask(fabric, &request, &reply);
    pack_witness(fabric, &request);
    send_request(fabric, &request);
    request.op = OP_SEEN;
    if (sees_witness(fabric, request.word))
        send_request(fabric, &request);
    return await_reply(fabric, &reply);
}

int peer_offer_token(struct fabric *fabric, size_t len, uint8_t *token, size_t *size)
{
    struct request request = {.op = OP_OFFER, .len = len};
    struct reply reply;
    int rc = ask(fabric, &request, &reply);

    if (rc)
        return rc;
    assert_in_range(reply.size, 1, *size);
    memcpy(token, reply.blob, reply.size);
    *size = reply.size;
    return 0;
}

static int ask_for_offer(struct fabric *fabric, const struct request *request,
                         struct hmreg_remote **remote)
{
    struct reply reply;
    int rc = ask(fabric, request, &reply);

    return rc ? rc : hmreg_remote_open(fabric->domain, reply.blob, reply.size, remote);
}

int peer_offer(struct fabric *fabric, size_t len, unsigned seed, struct hmreg_remote **remote)
{
    struct request request = {.op = OP_OFFER, .len = len, .seed = seed};

    return ask_for_offer(fabric, &request, remote);
}

int peer_offer_shared(struct fabric *fabric, int file, size_t len, unsigned seed,
                      struct hmreg_remote **remote)
{
    struct request request = {.op = OP_OFFER, .len = len, .seed = seed, .size = 1};

    snprintf((char *)request.blob, sizeof(request.blob), "/proc/%d/fd/%d", (int)getpid(), file);
    return ask_for_offer(fabric, &request, remote);
}

int peer_check(struct fabric *fabric, uint64_t offset, size_t len, unsigned seed)
{
    struct request request = {.op = OP_CHECK, .place = offset, .len = len, .seed = seed};

    return ask_simply(fabric, &request);
}

void fabric_open(struct fabric *fabric, const struct endpoint_hints *wanted)
{
    struct endpoint_hints hints = wanted ? *wanted : (struct endpoint_hints){0};
    int rc;

    memset(fabric, 0, sizeof(*fabric));
    fabric->socket = -1;
    hints.provider = fabric_name();
    rc = open_all(&hints, &fabric->endpoint, &fabric->lib, &fabric->domain);
    if (rc && !fabric->endpoint.domain)
        test_skip("%s", hmreg_last_error()->text);
    assert_ok(rc);
}

static void start_peer(struct fabric *fabric)
{
    char number[16];
    int sockets[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets), 0);
    snprintf(number, sizeof(number), "%d", sockets[1]);
    fabric->peer = fork();
    if (fabric->peer == 0) {
        close(sockets[0]);
        execl("/proc/self/exe", "peer", "--peer", number, NULL);
        _exit(127);
    }
    close(sockets[1]);
    assert_true(fabric->peer > 0);
    fabric->socket = sockets[0];
}

static void connect_both(struct fabric *fabric)
{
    struct request request = {.op = OP_CONNECT, .size = sizeof(request.blob)};
    struct reply reply;

    assert_ok(endpoint_address(&fabric->endpoint, request.blob, &request.size));
    assert_ok(ask(fabric, &request, &reply));
    assert_ok(endpoint_connect(&fabric->endpoint, reply.blob));
}

static void begin_peer(struct fabric *fabric, const struct endpoint_hints *hints)
{
    struct setup setup = {0};

    snprintf(setup.provider, sizeof(setup.provider), "%s", fabric_name());
    if (hints) {
        setup.caps = hints->caps;
        setup.msg_order = hints->msg_order;
        setup.old_mr_mode = hints->old_mr_mode;
    }
    start_peer(fabric);
    assert_int_equal(send(fabric->socket, &setup, sizeof(setup), MSG_NOSIGNAL), sizeof(setup));
    connect_both(fabric);
}

void fabric_open_pair(struct fabric *fabric, const struct endpoint_hints *hints)
{
    fabric_open(fabric, hints);
    begin_peer(fabric, hints);
}

void fabric_restart_peer(struct fabric *fabric)
{
    fabric_kill_peer(fabric);
    begin_peer(fabric, NULL);
}

/* libfabric's shm leaves its memory behind, named by a process number, and a later process of that
 * number cannot open an endpoint. */
void fabric_kill_peer(struct fabric *fabric)
{
    char name[64];

    kill(fabric->peer, SIGKILL);
    assert_int_equal(waitpid(fabric->peer, NULL, 0), fabric->peer);
    snprintf(name, sizeof(name), "/dev/shm/%d:0:0", (int)fabric->peer);
    (void)unlink(name);
    close(fabric->socket);
    fabric->socket = -1;
}

void fabric_close(struct fabric *fabric)
{
    int status = 0;

    if (fabric->socket >= 0) {
        close(fabric->socket);
        assert_int_equal(waitpid(fabric->peer, &status, 0), fabric->peer);
    }
    assert_ok(hmreg_mr_close(fabric->witness_mr));
    assert_ok(close_all(&fabric->endpoint, fabric->lib, fabric->domain));
    assert_int_equal(status, 0);
}

int fabric_main(int argc, char **argv)
{
    struct fi_info *info = NULL;

    shm_names_forget();
    if (argc == 3 && !strcmp(argv[1], "--peer"))
        return peer_main(atoi(argv[2]));
    /* Opens the descriptors that libfabric keeps, before the harness counts them. */
    if (fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, NULL, &info) == 0)
        fi_freeinfo(info);
    return test_main(argc, argv);
}
