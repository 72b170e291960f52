/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See ring.h: the processes of mpiexec(1).
 */
#include "ring.h"

#include <errno.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static int rank_of(const struct ring *ring, enum neighbour neighbour)
{
    return (ring->rank + (neighbour == LEFT ? ring->processes - 1 : 1)) % ring->processes;
}

/* Of two processes one is both neighbours of the other. */
static int tag(enum neighbour to)
{
    return to == LEFT ? 1 : 2;
}

static int wait_for(struct ring *ring, MPI_Request *request)
{
    int done = 0, rc = MPI_SUCCESS;

    while (!done && rc == MPI_SUCCESS) {
        rc = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        ring->progress(ring->context);
        sched_yield();
    }
    return rc == MPI_SUCCESS ? 0 : -EIO;
}

int ring_send(struct ring *ring, enum neighbour to, const void *message, size_t size)
{
    MPI_Request request;

    if (MPI_Isend(message, (int)size, MPI_BYTE, rank_of(ring, to), tag(to), MPI_COMM_WORLD,
                  &request))
        return -EIO;
    return wait_for(ring, &request);
}

int ring_receive(struct ring *ring, enum neighbour from, void *message, size_t size)
{
    MPI_Request request;

    if (MPI_Irecv(message, (int)size, MPI_BYTE, rank_of(ring, from),
                  tag(from == LEFT ? RIGHT : LEFT), MPI_COMM_WORLD, &request))
        return -EIO;
    return wait_for(ring, &request);
}

int ring_gather(struct ring *ring, const void *mine, size_t size, void *all)
{
    MPI_Request request;

    if (MPI_Iallgather(mine, (int)size, MPI_BYTE, all, (int)size, MPI_BYTE, MPI_COMM_WORLD,
                       &request))
        return -EIO;
    return wait_for(ring, &request);
}

int ring_run(int processes, int (*run)(struct ring *ring))
{
    struct ring ring = {.rank = 0};
    int failed = MPI_Init(NULL, NULL);

    if (failed)
        return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &ring.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ring.processes);
    if (ring.processes < 2 || ring.processes > RING_MAX) {
        fprintf(stderr, "6-allreduce-mpi: %d processes; start 2 to %d with mpiexec\n",
                ring.processes, RING_MAX);
        failed = 1;
    }
    failed = failed ? failed : run(&ring);
    if (failed)
        MPI_Abort(MPI_COMM_WORLD, failed);
    return MPI_Finalize() != MPI_SUCCESS;
}

int ring_join(int rank, char *const *hosts, int processes, int (*run)(struct ring *ring))
{
    (void)rank, (void)hosts;
    return ring_run(processes, run);
}
