/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See ring.h: processes of this machine, or one on each host, with a socket between two
 * neighbours.
 */
#include "ring.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- messages --------------------------------------------------------------------------- */

int ring_send(struct ring *ring, enum neighbour to, const void *message, size_t size)
{
    return send(ring->sockets[to], message, size, MSG_NOSIGNAL) == (ssize_t)size ? 0 : -EPIPE;
}

int ring_receive(struct ring *ring, enum neighbour from, void *message, size_t size)
{
    struct pollfd waiting = {.fd = ring->sockets[from], .events = POLLIN};

    while (poll(&waiting, 1, 0) == 0) {
        ring->progress(ring->context);
        sched_yield();
    }
    return recv(ring->sockets[from], message, size, MSG_WAITALL) == (ssize_t)size ? 0 : -EPIPE;
}

/* What comes from the left goes on to the right. */
int ring_gather(struct ring *ring, const void *mine, size_t size, void *all)
{
    int at = ring->rank, rc = 0;

    memcpy((char *)all + (size_t)at * size, mine, size);
    for (int step = 1; step < ring->processes && !rc; step++) {
        int before = (at + ring->processes - 1) % ring->processes;

        rc = ring_send(ring, RIGHT, (char *)all + (size_t)at * size, size);
        rc = rc ? rc : ring_receive(ring, LEFT, (char *)all + (size_t)before * size, size);
        at = before;
    }
    return rc;
}

/* ---- processes -------------------------------------------------------------------------- */

/*
 * Neighbours of a process that failed would wait for ever. Not by SIGTERM, which libraries that
 * libfabric loads handle, and may then hang.
 */
static int wait_for_all(pid_t *child, int processes)
{
    int failed = 0, status;
    pid_t ended;

    while ((ended = wait(&status)) > 0) {
        for (int i = 0; i < processes; i++) {
            if (child[i] == ended)
                child[i] = 0;
            else if (status && !failed && child[i])
                kill(child[i], SIGKILL);
        }
        failed |= status;
    }
    return failed;
}

/* Neither libfabric nor a GPU's runtime survives fork(): it comes before both. */
int ring_run(int processes, int (*run)(struct ring *ring))
{
    int sockets[RING_MAX][2];
    pid_t child[RING_MAX] = {0};

    for (int i = 0; i < processes; i++)
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets[i]))
            return 1;
    for (int i = 0; i < processes; i++) {
        int left = (i + processes - 1) % processes;

        child[i] = fork();
        if (child[i] < 0)
            return 1;
        if (child[i] == 0) {
            struct ring ring = {i, processes, {sockets[left][1], sockets[i][0]}, NULL, NULL};

            for (int k = 0; k < processes; k++) {
                if (k != left)
                    close(sockets[k][1]);
                if (k != i)
                    close(sockets[k][0]);
            }
            exit(run(&ring));
        }
    }
    for (int i = 0; i < processes; i++)
        close(sockets[i][0]), close(sockets[i][1]);
    return wait_for_all(child, processes) != 0;
}

/* ---- one process on each host ----------------------------------------------------------- */

#define PORT     27182
#define ATTEMPTS 6000 /* ten a second, while the neighbour is not started yet */

static int make_socket(const char *host, struct sockaddr_in *address)
{
    address->sin_family = AF_INET;
    address->sin_port = htons(PORT);
    if (inet_pton(AF_INET, host, &address->sin_addr) != 1)
        return -1;
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static int listen_on(const char *host)
{
    struct sockaddr_in address = {0};
    int fd = make_socket(host, &address), yes = 1;

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (!bind(fd, (struct sockaddr *)&address, sizeof(address)) && !listen(fd, 1))
        return fd;
    close(fd);
    return -1;
}

static int connect_to(const char *host)
{
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        struct sockaddr_in address = {0};
        int fd = make_socket(host, &address);

        if (fd < 0 || !connect(fd, (struct sockaddr *)&address, sizeof(address)))
            return fd;
        close(fd);
        usleep(100000);
    }
    return -1;
}

int ring_join(int rank, char *const *hosts, int processes, int (*run)(struct ring *ring))
{
    struct ring ring = {rank, processes, {-1, -1}, NULL, NULL};
    int listener = listen_on(hosts[rank]), rc = 1;

    ring.sockets[RIGHT] = listener < 0 ? -1 : connect_to(hosts[(rank + 1) % processes]);
    ring.sockets[LEFT] = ring.sockets[RIGHT] < 0 ? -1 : accept(listener, NULL, NULL);
    if (ring.sockets[LEFT] >= 0)
        rc = run(&ring);
    else
        perror(hosts[rank]);
    close(listener);
    close(ring.sockets[LEFT]);
    close(ring.sockets[RIGHT]);
    return rc;
}
