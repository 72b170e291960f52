/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The processes of example 6 and the messages between them: processes of this machine or one on
 * each of several hosts, over sockets (ring.c), or those of mpiexec(1) (ring_mpi.c).
 */
#ifndef HMREG_EXAMPLES_RING_H
#define HMREG_EXAMPLES_RING_H

#include <stddef.h>

#define RING_MAX 16 /* processes */

enum neighbour { LEFT, RIGHT };

struct ring {
    int rank, processes;
    int sockets[2]; /* to the neighbours; MPI has none */
    /* Called while a process waits for a message: on many fabrics a neighbour's write proceeds only
     * while its target calls the fabric. */
    void (*progress)(void *context);
    void *context;
};

/* Starts `processes` of them, or takes mpiexec's, and calls run in each. Returns 0 if all calls do.
 * Where one fails the others are ended. */
int ring_run(int processes, int (*run)(struct ring *ring));

/* Joins the processes that other hosts start, in any order, as number `rank`, and calls run.
 * hosts: the IPv4 address of each process. Under mpiexec this is ring_run(). */
int ring_join(int rank, char *const *hosts, int processes, int (*run)(struct ring *ring));

/* 0 or a negative error number. */
int ring_send(struct ring *ring, enum neighbour to, const void *message, size_t size);
int ring_receive(struct ring *ring, enum neighbour from, void *message, size_t size);
/* Each gives `size` bytes and has those of all, in the order of their ranks. */
int ring_gather(struct ring *ring, const void *mine, size_t size, void *all);

#endif
