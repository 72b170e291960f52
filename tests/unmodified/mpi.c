/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A few lines of MPI, for the distribution's library: a ring of messages short and long, a sum over
 * all, and a window that the right neighbour writes. Prints one line per rank; exit status 1 where
 * bytes are wrong.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT = 64, LONG = 262144 };

static bool ring(int rank, int size, int bytes)
{
    unsigned char *out = malloc((size_t)bytes), *in = malloc((size_t)bytes);
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    bool same = true;

    if (!out || !in)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; i < bytes; i++)
        out[i] = (unsigned char)(rank + i * 7);
    MPI_Sendrecv(out, bytes, MPI_BYTE, right, 1, in, bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; same && i < bytes; i++)
        same = in[i] == (unsigned char)(left + i * 7);
    free(out);
    free(in);
    return same;
}

static bool window(int rank, int size)
{
    int *cells, mine = 100 + rank;
    MPI_Win win;
    bool same;

    MPI_Win_allocate(LONG, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &cells, &win);
    cells[0] = -1;
    MPI_Win_fence(0, win);
    MPI_Put(&mine, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    same = cells[0] == 100 + (rank + size - 1) % size;
    MPI_Win_free(&win);
    return same;
}

int main(int argc, char **argv)
{
    int rank, size, sum = 0;
    bool right;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    right = sum == size * (size - 1) / 2;
    right = ring(rank, size, SHORT) && right;
    right = ring(rank, size, LONG) && right;
    right = window(rank, size) && right;
    printf("rank %d of %d: %s\n", rank, size, right ? "right" : "wrong");
    MPI_Finalize();
    return right ? 0 : 1;
}
