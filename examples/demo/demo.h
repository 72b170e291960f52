/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The demo: on each fabric an owner process registers host memory and memory of every device, and
 * a peer process writes and reads it by RMA. The owner reports a row for each buffer; the process
 * that started both prints the rows and judges.
 */
#ifndef DEMO_H
#define DEMO_H

#include "../common/side.h"

#include <stdbool.h>

#define DEMO_BYTES 1000003

enum verdict {
    VERIFIED, /* every byte is right, on both sides */
    REFUSED,  /* no path to this memory on this fabric, with reasons */
    FAILED,   /* anything else; text says what */
};

/* The result for a buffer on a fabric. */
struct row {
    char buffer[48];
    enum hmreg_iface iface;
    int device; /* -1: host memory */
    struct hmreg_pci pci;
    enum hmreg_path path;
    uint32_t refused;
    struct hmreg_reason reasons[HMREG_REASONS_MAX];
    uint64_t first_ns; /* the first registration */
    uint64_t again_ns; /* a get and put of the same, 0: not measured */
    bool cached;       /* the second get was a hit */
    enum verdict verdict;
    char text[256];
};

/* The owner's request to the peer, for the region whose token it sends. */
enum order_kind { ORDER_WRITE, ORDER_READ };
struct order {
    enum order_kind kind;
    unsigned seed;
    uint64_t offset, len;
    size_t token_size;
    unsigned char token[1024];
};
struct answer {
    int code;
    char text[256];
};

/* The byte at an offset of the region, for a seed. */
unsigned char demo_byte(unsigned seed, uint64_t place);

/* Run the owner and the peer; return the exit status. Rows go to the pipe. corrupt: one byte of
 * each buffer is changed before it is verified, so that the demo must fail. */
int owner_run(int socket, const char *provider, int pipe, bool corrupt);
int peer_run(int socket, const char *provider);

/* Prints the rows, then their reasons, each once. */
void table_print(const char *provider, const struct row *rows, size_t count);

#endif
