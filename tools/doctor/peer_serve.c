/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg doctor --serve: waits for peers, has each prove the secret, and gives one at a time a
 * process of its own (peer_session.c). A stranger can make it compute one MAC, and hold one of a
 * few places for a connection for some seconds, or until newer connections need it.
 */
#include "tools/command.h"
#include "tools/child.h"
#include "tools/doctor/peer.h"
#include "tools/foreign.h"
#include "tools/verify/verify.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOCKETS   2    /* that listen: of IPv6 and of IPv4 */
#define STRANGERS 8    /* connections that have not proven the secret yet */
#define PROVES_IN 5000 /* milliseconds to prove it */

struct stranger {
    int fd; /* -1: the place is free */
    int64_t until;
    struct wire wire;
    uint8_t answer[WIRE_ANSWER];
    size_t used;
    char name[96];
};

struct server {
    const struct peer_options *options;
    struct peer_secret secret;
    int sockets[SOCKETS];
    struct stranger strangers[STRANGERS];
    pid_t peer; /* the process that serves one; 0: none */
    int reader; /* its standard output; -1: none */
    char peer_name[96];
    unsigned long refused;
};

/* ---- words ------------------------------------------------------------------------------ */

static void report(const char *who, const char *words)
{
    printf("%s: %s\n", who, words);
    fflush(stdout);
}

/* Strangers choose how often they come: print a line for the 1st, 2nd, 4th, 8th ... */
static void report_refused(struct server *server, const struct stranger *stranger, const char *why)
{
    char words[128];

    server->refused++;
    if (server->refused & (server->refused - 1))
        return;
    snprintf(words, sizeof(words), "refused: %s (%lu so far)", why, server->refused);
    report(stranger->name, words);
}

static void name_of(const struct sockaddr_storage *address, socklen_t size, char name[96])
{
    char host[64] = "?", port[8] = "?";

    getnameinfo((const struct sockaddr *)address, size, host, sizeof(host), port, sizeof(port),
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(name, 96, "%s port %s", host, port);
}

/* ---- a peer ----------------------------------------------------------------------------- */

static void start_peer(struct server *server, struct stranger *stranger)
{
    char *argv[] = {(char[]){"hmreg"},
                    (char[]){"doctor"},
                    (char[]){PEER_PART},
                    (char[]){"session"},
                    strdup(server->options->secret),
                    (char[4 * WIRE_NONCE + 1]){""},
                    (char[16]){""},
                    NULL};
    int error;

    for (size_t i = 0; i < sizeof(stranger->wire.nonces); i++)
        sprintf(argv[5] + 2 * i, "%02x", stranger->wire.nonces[i]);
    sprintf(argv[6], "%d", server->options->patience);
    if (!argv[4])
        doc_no_memory();
    fcntl(stranger->fd, F_SETFL, 0);
    error = child_start(argv, stranger->fd, &server->peer, &server->reader);
    free(argv[4]);
    if (error) {
        server->peer = 0;
        server->reader = -1;
        report(stranger->name, strerror(error));
        return;
    }
    memcpy(server->peer_name, stranger->name, sizeof(server->peer_name));
    report(server->peer_name, "begins");
}

/* The process has written its one line and ends: print the line. */
static void end_peer(struct server *server)
{
    char words[256] = "";
    ssize_t got = read(server->reader, words, sizeof(words) - 1);

    words[got > 0 ? got : 0] = '\0';
    words[strcspn(words, "\n")] = '\0';
    close(server->reader);
    waitpid(server->peer, NULL, 0);
    server->peer = 0;
    server->reader = -1;
    report(server->peer_name, words[0] ? foreign_text(words) : "its process ended");
}

/* ---- strangers -------------------------------------------------------------------------- */

static void forget(struct stranger *stranger)
{
    close(stranger->fd);
    stranger->fd = -1;
}

/* A free place, or the oldest stranger's. */
static struct stranger *place_for(struct server *server)
{
    struct stranger *oldest = server->strangers;

    for (int i = 0; i < STRANGERS; i++) {
        if (server->strangers[i].fd < 0)
            return &server->strangers[i];
        if (server->strangers[i].until < oldest->until)
            oldest = &server->strangers[i];
    }
    report_refused(server, oldest, "others came");
    forget(oldest);
    return oldest;
}

static void greet(struct server *server, int listening)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);
    uint8_t greeting[WIRE_GREETING];
    struct stranger *stranger;
    int fd = accept4(listening, (struct sockaddr *)&address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd < 0)
        return;
    stranger = place_for(server);
    *stranger = (struct stranger){.fd = fd, .until = verify_now() + PROVES_IN};
    name_of(&address, size, stranger->name);
    if (!wire_greet(&stranger->wire, greeting) ||
        send(fd, greeting, sizeof(greeting), MSG_NOSIGNAL) != sizeof(greeting))
        forget(stranger);
}

/* Never blocks: the bytes sent here fit into the socket's buffer. */
static void admit(struct server *server, struct stranger *stranger)
{
    static const char busy[] = "{\"busy\":true}";
    uint8_t proof[WIRE_PROOF], frame[WIRE_HEADER + sizeof(busy) + PEER_MAC];
    size_t size;

    if (!wire_prove(&stranger->wire, &server->secret, stranger->answer, proof)) {
        report_refused(server, stranger, "it does not know the secret");
    } else if (send(stranger->fd, proof, sizeof(proof), MSG_NOSIGNAL) != sizeof(proof)) {
        report_refused(server, stranger, "it has gone");
    } else if (server->peer) {
        size = wire_seal(&stranger->wire, busy, sizeof(busy) - 1, frame);
        (void)!send(stranger->fd, frame, size, MSG_NOSIGNAL);
        report(stranger->name, "refused: another peer is being served");
    } else {
        start_peer(server, stranger);
    }
    forget(stranger);
}

static void hear(struct server *server, struct stranger *stranger)
{
    ssize_t got = recv(stranger->fd, stranger->answer + stranger->used,
                       sizeof(stranger->answer) - stranger->used, MSG_DONTWAIT);

    if (got <= 0 && (got == 0 || (errno != EAGAIN && errno != EINTR))) {
        report_refused(server, stranger, "it said nothing");
        forget(stranger);
    }
    stranger->used += got > 0 ? (size_t)got : 0;
    if (stranger->used == sizeof(stranger->answer))
        admit(server, stranger);
}

/* ---- waiting ---------------------------------------------------------------------------- */

static void forget_late(struct server *server)
{
    for (int i = 0; i < STRANGERS; i++)
        if (server->strangers[i].fd >= 0 && server->strangers[i].until <= verify_now()) {
            report_refused(server, &server->strangers[i], "it did not prove the secret in time");
            forget(&server->strangers[i]);
        }
}

/* Milliseconds until a stranger's time is over; -1: there is none. */
static int soonest(const struct server *server)
{
    int64_t least = -1, left;

    for (int i = 0; i < STRANGERS; i++) {
        left = server->strangers[i].until - verify_now();
        left = left > 0 ? left : 0;
        if (server->strangers[i].fd >= 0 && (least < 0 || left < least))
            least = left;
    }
    return (int)least;
}

static void serve_once(struct server *server)
{
    struct pollfd ready[SOCKETS + STRANGERS + 1];
    int count = 0;

    for (int i = 0; i < SOCKETS; i++)
        ready[count++] = (struct pollfd){.fd = server->sockets[i], .events = POLLIN};
    for (int i = 0; i < STRANGERS; i++)
        ready[count++] = (struct pollfd){.fd = server->strangers[i].fd, .events = POLLIN};
    ready[count++] = (struct pollfd){.fd = server->reader, .events = POLLIN};
    if (poll(ready, (nfds_t)count, soonest(server)) < 0)
        return;
    if (ready[SOCKETS + STRANGERS].revents)
        end_peer(server);
    for (int i = 0; i < STRANGERS; i++)
        if (ready[SOCKETS + i].revents)
            hear(server, &server->strangers[i]);
    forget_late(server);
    for (int i = 0; i < SOCKETS; i++)
        if (ready[i].revents)
            greet(server, server->sockets[i]);
}

/* ---- the command ------------------------------------------------------------------------ */

static int listen_at(const struct addrinfo *address)
{
    int one = 1, small = 536;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &small, sizeof(small));
    if (address->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    if (!bind(fd, address->ai_addr, address->ai_addrlen) && !listen(fd, STRANGERS))
        return fd;
    close(fd);
    return -1;
}

/* Prints the address with the port that the kernel chose for port 0. */
static void report_socket(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof(address);
    char name[96], words[128];

    getsockname(fd, (struct sockaddr *)&address, &size);
    name_of(&address, size, name);
    snprintf(words, sizeof(words), "serves at %s; Ctrl-C ends it", name);
    report("hmreg doctor", words);
}

/* False: an error is printed. */
static bool open_sockets(struct server *server)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    char host[256], port[16];
    int count = 0, error = 0, rc;

    if (!peer_split(server->options->serve, host, port)) {
        print_error("hmreg doctor: --serve %s: ADDRESS, ADDRESS:PORT or :PORT is accepted",
                    server->options->serve);
        return false;
    }
    rc = getaddrinfo(host[0] ? host : NULL, port, &hints, &found);
    for (const struct addrinfo *at = found; at && count < SOCKETS; at = at->ai_next) {
        server->sockets[count] = listen_at(at);
        error = server->sockets[count] < 0 ? errno : error;
        if (server->sockets[count] >= 0)
            report_socket(server->sockets[count++]);
    }
    freeaddrinfo(found);
    if (!count)
        print_error("hmreg doctor: --serve %s: %s", server->options->serve,
                    rc ? gai_strerror(rc) : strerror(error));
    return count;
}

int peer_serve(const struct peer_options *options)
{
    static struct server server;
    const char *wrong = peer_secret_read(options->secret, &server.secret);

    server.options = options;
    server.reader = -1;
    for (int i = 0; i < SOCKETS; i++)
        server.sockets[i] = -1;
    for (int i = 0; i < STRANGERS; i++)
        server.strangers[i].fd = -1;
    if (wrong) {
        print_error("hmreg doctor: --secret %s: %s", options->secret, wrong);
        return EXIT_ERROR;
    }
    if (!open_sockets(&server))
        return EXIT_ERROR;
    for (;;)
        serve_once(&server);
}
