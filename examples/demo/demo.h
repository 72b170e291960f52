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
    VERIFIED, /* every byte was where it should be, on both sides */
    REFUSED,  /* no path to this memory on this fabric, and the reasons are known */
    FAILED,   /* anything else; text says what */
};

/* What became of a buffer on a fabric. */
struct row {
    char buffer[48];
    enum hmreg_iface iface;
    int device; /* -1: host memory */
    struct hmreg_pci pci;
    enum hmreg_path path;
    uint32_t refused;
    struct hmreg_reason reasons[HMREG_PATH_COUNT - 1];
    uint64_t first_ns; /* the first registration */
    uint64_t again_ns; /* a get and put of the same, 0: not measured */
    bool cached;       /* it was remembered */
    enum verdict verdict;
    char text[256];
};

/* What the owner orders the peer to do with the region whose token it sends. */
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

/* The byte at a place of the region, of a seed. */
unsigned char demo_byte(unsigned seed, uint64_t place);

/* The owner's and the peer's whole life; the exit status. Rows go to the pipe. corrupt: one byte
 * of each buffer is changed before it is verified, so that the demo must fail. */
int owner_run(int socket, const char *provider, int pipe, bool corrupt);
int peer_run(int socket, const char *provider);

/* Prints the rows, and below them their reasons, each once. */
void table_print(const char *provider, const struct row *rows, size_t count);

#endif
