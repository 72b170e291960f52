/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See wire.h. All nonces are 0.
 */
#include "tests/fault/wire.h"

struct loopback_address address_in(const struct target_page *page)
{
    struct loopback_address address = {0};

    memcpy(&address, page->token + 40 + 24, LOOPBACK_ADDRESS_BYTES);
    return address;
}

int listen_as(const struct loopback_address *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un name;
    socklen_t len = wire_name(address, &name);

    assert_int_equal(bind(fd, (struct sockaddr *)&name, len), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

bool prove_as_initiator(int fd, const struct loopback_address *address)
{
    struct hello hello = {.magic = HELLO_MAGIC};
    struct reply reply;
    uint64_t proof;

    if (send(fd, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello) ||
        recv(fd, &reply, sizeof(reply), MSG_WAITALL) != sizeof(reply))
        return false;
    proof = wire_proof(address->secret, INITIATOR, fd, hello.nonce, reply.nonce);
    return send(fd, &proof, sizeof(proof), MSG_NOSIGNAL) == sizeof(proof);
}

bool prove_as_target(int fd, const struct loopback_address *address)
{
    struct reply reply = {.proof = 0};
    struct hello hello;
    uint64_t proof;

    if (recv(fd, &hello, sizeof(hello), MSG_WAITALL) != sizeof(hello))
        return false;
    reply.proof = wire_proof(address->secret, TARGET, fd, hello.nonce, reply.nonce);
    return send(fd, &reply, sizeof(reply), MSG_NOSIGNAL) == sizeof(reply) &&
           recv(fd, &proof, sizeof(proof), MSG_WAITALL) == sizeof(proof) &&
           proof == wire_proof(address->secret, INITIATOR, fd, hello.nonce, reply.nonce);
}
