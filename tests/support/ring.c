/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See ring.h. One transfer at a time: bytes go through a pipe, since the kernel does that
 * immediately, without a worker thread. The pages are those of IORING_REGISTER_BUFFERS, pinned for
 * long (FOLL_LONGTERM), as ibv_reg_mr(3) pins them.
 */
#include "tests/support/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct ring {
    int fd;
    int pipe[2];
    void *queues; /* of both directions, in one mapping */
    size_t queues_len;
    struct io_uring_sqe *requests;
    size_t requests_len;
    struct io_uring_params params;
    pthread_mutex_t lock; /* for everything: one transfer at a time */
    unsigned slots[RING_SLOTS];
    unsigned free; /* number of free slots */
};

static int call_register(struct ring *ring, unsigned opcode, void *arg, unsigned size)
{
    return syscall(SYS_io_uring_register, ring->fd, opcode, arg, size) < 0 ? -errno : 0;
}

static int make_table(struct ring *ring)
{
    struct io_uring_rsrc_register table = {.nr = RING_SLOTS, .flags = IORING_RSRC_REGISTER_SPARSE};

    return call_register(ring, IORING_REGISTER_BUFFERS2, &table, sizeof(table));
}

static unsigned *word(struct ring *ring, uint32_t offset)
{
    return (unsigned *)(void *)((char *)ring->queues + offset);
}

static int map_queues(struct ring *ring)
{
    const struct io_uring_params *params = &ring->params;

    ring->queues_len = params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe);
    ring->requests_len = params->sq_entries * sizeof(struct io_uring_sqe);
    ring->queues = mmap(NULL, ring->queues_len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                        ring->fd, IORING_OFF_SQ_RING);
    if (ring->queues == MAP_FAILED)
        return -errno;
    ring->requests = mmap(NULL, ring->requests_len, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQES);
    if (ring->requests != MAP_FAILED)
        return 0;
    munmap(ring->queues, ring->queues_len);
    return -errno;
}

static int open_all(struct ring *ring)
{
    int rc;

    ring->fd = (int)syscall(SYS_io_uring_setup, 1, &ring->params);
    if (ring->fd < 0)
        return -errno;
    rc = ring->params.features & IORING_FEAT_SINGLE_MMAP ? make_table(ring) : -ENOSYS;
    rc = rc ? rc : pipe2(ring->pipe, O_CLOEXEC) ? -errno : 0;
    if (rc)
        goto close_fd;
    rc = map_queues(ring);
    if (rc)
        goto close_pipe;
    return 0;

close_pipe:
    close(ring->pipe[0]);
    close(ring->pipe[1]);
close_fd:
    close(ring->fd);
    return rc;
}

int ring_open(struct ring **out)
{
    struct ring *ring = calloc(1, sizeof(*ring));
    int rc = ring ? open_all(ring) : -ENOMEM;

    if (rc) {
        free(ring);
        return rc;
    }
    pthread_mutex_init(&ring->lock, NULL);
    while (ring->free < RING_SLOTS) {
        ring->slots[ring->free] = RING_SLOTS - 1 - ring->free;
        ring->free++;
    }
    *out = ring;
    return 0;
}

void ring_close(struct ring *ring)
{
    munmap(ring->requests, ring->requests_len);
    munmap(ring->queues, ring->queues_len);
    close(ring->pipe[0]);
    close(ring->pipe[1]);
    close(ring->fd);
    pthread_mutex_destroy(&ring->lock);
    free(ring);
}

/* ---- pinning ---------------------------------------------------------------------------- */

/* NULL unpins. The call returns the number of slots that it changed. */
static int set_slot(struct ring *ring, unsigned slot, const void *addr, size_t len)
{
    struct iovec iov = {(void *)(uintptr_t)addr, len};
    struct io_uring_rsrc_update2 update = {
        .offset = slot, .data = (uint64_t)(uintptr_t)&iov, .nr = 1};

    return call_register(ring, IORING_REGISTER_BUFFERS_UPDATE, &update, sizeof(update));
}

int ring_pin(struct ring *ring, const void *addr, size_t len, unsigned *slot)
{
    int rc = -ENOSPC;

    pthread_mutex_lock(&ring->lock);
    if (ring->free)
        rc = set_slot(ring, ring->slots[ring->free - 1], addr, len);
    if (!rc)
        *slot = ring->slots[--ring->free];
    pthread_mutex_unlock(&ring->lock);
    return rc;
}

void ring_unpin(struct ring *ring, unsigned slot)
{
    pthread_mutex_lock(&ring->lock);
    (void)set_slot(ring, slot, NULL, 0);
    ring->slots[ring->free++] = slot;
    pthread_mutex_unlock(&ring->lock);
}

/* ---- transfers -------------------------------------------------------------------------- */

static void ask(struct ring *ring, const struct io_uring_sqe *request)
{
    const struct io_sqring_offsets *at = &ring->params.sq_off;
    unsigned tail = *word(ring, at->tail), index = tail & *word(ring, at->ring_mask);

    ring->requests[index] = *request;
    word(ring, at->array)[index] = index;
    __atomic_store_n(word(ring, at->tail), tail + 1, __ATOMIC_RELEASE);
}

static int answer(struct ring *ring)
{
    const struct io_cqring_offsets *at = &ring->params.cq_off;
    unsigned head = *word(ring, at->head);
    const struct io_uring_cqe *cqes = (const void *)((char *)ring->queues + at->cqes);
    int result;

    if (head == __atomic_load_n(word(ring, at->tail), __ATOMIC_ACQUIRE))
        return -EIO;
    result = cqes[head & *word(ring, at->ring_mask)].res;
    __atomic_store_n(word(ring, at->head), head + 1, __ATOMIC_RELEASE);
    return result;
}

/* Transfers between the slot's pages and the pipe. */
static int transfer(struct ring *ring, bool into_slot, unsigned slot, uint64_t at, size_t len)
{
    struct io_uring_sqe request = {
        .opcode = into_slot ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED,
        .fd = ring->pipe[!into_slot],
        .addr = at,
        .len = (uint32_t)len,
        .buf_index = (uint16_t)slot,
    };
    int rc;

    ask(ring, &request);
    do
        rc = (int)syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    while (rc < 0 && errno == EINTR);
    rc = rc < 0 ? -errno : answer(ring);
    return rc < 0 ? rc : rc == (int)len ? 0 : -EIO;
}

int ring_write(struct ring *ring, unsigned slot, uint64_t at, const void *bytes, size_t len)
{
    int rc = -EIO;

    pthread_mutex_lock(&ring->lock);
    if (write(ring->pipe[1], bytes, len) == (ssize_t)len)
        rc = transfer(ring, true, slot, at, len);
    pthread_mutex_unlock(&ring->lock);
    return rc;
}

int ring_read(struct ring *ring, unsigned slot, uint64_t at, void *bytes, size_t len)
{
    int rc;

    pthread_mutex_lock(&ring->lock);
    rc = transfer(ring, false, slot, at, len);
    if (!rc && read(ring->pipe[0], bytes, len) != (ssize_t)len)
        rc = -EIO;
    pthread_mutex_unlock(&ring->lock);
    return rc;
}
