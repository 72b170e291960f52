/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * For how long a peer on loopback reaches a region after each kind of its end. */
#include "tests/support/rights.h"

#include <hmreg/loopback.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>

struct request {
    uint64_t addr, key;
    char byte;
    size_t token_size; /* 0: a write; else a token, to be opened */
    unsigned char token[2048];
};

/* A peer's process: one remote at a time. It never returns. */
static void serve(int socket)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_DISABLED};
    struct hmreg_domain *domain;
    struct hmreg_remote *remote = NULL;
    struct request request;
    struct hmreg *lib;
    char bytes[RIGHTS_BYTES];
    int rc = hmreg_open(&config, &lib);

    rc = rc ? rc : hmreg_domain_open_loopback(lib, NULL, NULL, &domain);
    while (!rc && recv(socket, &request, sizeof(request), 0) == sizeof(request)) {
        if (request.token_size) {
            hmreg_remote_close(remote);
            rc = hmreg_remote_open(domain, request.token, request.token_size, &remote);
        } else {
            memset(bytes, request.byte, sizeof(bytes));
            hmreg_loopback_write(remote, bytes, sizeof(bytes), NULL, request.addr, request.key);
        }
        if (send(socket, "r", 1, MSG_NOSIGNAL) != 1)
            break;
    }
    _exit(rc ? 1 : 0);
}

static void ask(int socket, const struct request *request)
{
    char reply;

    assert_int_equal(send(socket, request, sizeof(*request), MSG_NOSIGNAL), sizeof(*request));
    assert_int_equal(recv(socket, &reply, 1, 0), 1);
}

static void take(void *self, const struct hmreg_mr *mr)
{
    struct request request = {.token_size = sizeof(request.token)};

    assert_ok(hmreg_mr_pack(mr, request.token, &request.token_size));
    ask(*(int *)self, &request);
}

static bool write_there(void *self, uint64_t addr, uint64_t key, char byte)
{
    struct request request = {.addr = addr, .key = key, .byte = byte};

    ask(*(int *)self, &request);
    return false;
}

TEST(peer__after_each_end__reaches_as_long_as_promised)
{
    struct hmreg_domain_config one = {
        .size = sizeof(one), .max_regions = 1, .max_bytes = HMREG_LIMIT_NONE};
    struct rights_peer peer = {.take = take, .write = write_there};
    struct hmreg_domain *domain;
    struct hmreg *lib;
    int ends[2];
    pid_t child;

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        serve(ends[1]);
    }
    close(ends[1]);
    peer.self = &ends[0];
    assert_ok(hmreg_open(NULL, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, NULL, &one, &domain));
    for (unsigned i = 0; i < rights_ends; i++)
        rights_measure(lib, domain, "loopback", i, &peer);
    close(ends[0]);
    test_await(child);
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
}

TEST_MAIN()
