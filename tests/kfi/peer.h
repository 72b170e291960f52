/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * For tests in the guest: a program that is the peer of hmreg_kfi's client in the kernel. Its queue
 * pair reads and writes the memory that the client registers.
 */
#ifndef TESTS_KFI_PEER_H
#define TESTS_KFI_PEER_H

#include "tests/rdma/iwarp.h"
#include "tests/kfi/kmod/calls.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* kfabric's rights, classes and errors. */
#define RIGHT_READ         (1u << 8)
#define RIGHT_WRITE        (1u << 9)
#define RIGHT_RECV         (1u << 10)
#define RIGHT_SEND         (1u << 11)
#define RIGHT_REMOTE_READ  (1u << 12)
#define RIGHT_REMOTE_WRITE (1u << 13)
#define RIGHTS_BOTH        (RIGHT_REMOTE_READ | RIGHT_REMOTE_WRITE)
/* As often the module posts a work request, while its queue pair's errors are not known to be that
 * one's. */
#define PEER_TRIES 3
#define NO_KEY     UINT64_MAX
enum { CLASS_NONE = 0, CLASS_EP = 3, CLASS_RX_CTX = 5, CLASS_CQ = 14, CLASS_CNTR = 15 };
enum { ERROR_TOOSMALL = 257, ERROR_AVAIL = 259, ERROR_BADFLAGS = 260 };
enum { EVENT_MR_COMPLETE = 4 };

struct peer {
    int client; /* /dev/hmreg_kfi_client: closing it ends all that it opened in the kernel */
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *buffer;
    size_t size;
    bool is_iwarp;
    struct iwarp iwarp;
};

/* Loads the modules if they are not; the end of the program leaves them. */
void peer_load(void);
/* unload: EBUSY or 0 */
int peer_unload(const char *module);

/* The client with that device, which transfers nothing: a descriptor. */
int peer_open_client_of(const char *device);

/* Opens the device, not yet a domain. */
void peer_open(struct peer *peer);
/* The same with a connection, and a domain as `open` says (NULL: a synchronous one, of its own). */
void peer_start(struct peer *peer, const struct client_open *open);
void peer_close(struct peer *peer);
void peer_connect(struct peer *peer);
/* The operation is refused, which ends the connection; connects anew. */
void peer_is_denied(struct peer *peer, enum ibv_wr_opcode opcode, uint64_t address, uint64_t key,
                    size_t length);

/* ioctl(2): its result or a negative errno. */
int peer_call(struct peer *peer, unsigned long call, void *argument);
int peer_open_domain(struct peer *peer, const struct client_open *open);

/* Registers memory of that kind; reg->rc is the result. */
struct client_reg peer_reg(struct peer *peer, unsigned memory, uint64_t access);
/* The same with the other members as they are in reg. */
void peer_reg_as(struct peer *peer, struct client_reg *reg);
int peer_close_region(struct peer *peer, unsigned index);

/* One operation on the first bytes of the peer's buffer; a status of struct ibv_wc. */
int peer_rdma(struct peer *peer, enum ibv_wr_opcode opcode, uint64_t address, uint64_t key,
              size_t length);
/* Writes the first bytes of the buffer, and returns when they are there; with both rights. */
void peer_write(struct peer *peer, uint64_t address, uint64_t key, size_t length);
/* Not on iWARP. */
int peer_fetch_and_add(struct peer *peer, uint64_t address, uint64_t key, uint64_t add);
int peer_send_with_invalidate(struct peer *peer, uint64_t key);

/* The kernel writes bytes, the peer reads and compares them all; then the reverse. */
void peer_round_trip(struct peer *peer, const struct client_reg *reg);
void peer_fill(uint8_t *bytes, size_t length, unsigned seed);
size_t peer_count_wrong(const uint8_t *bytes, size_t length, unsigned seed);

/* Calls of that name fail from now on: `times` of them, after `skip`. */
void peer_fault(struct peer *peer, const char *call, unsigned skip, unsigned times);
/* None fails any more; how many did. */
unsigned peer_faults(struct peer *peer);

#endif
