/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What the writer and the process that hibernates know of each other: their messages, and which
 * bytes are whose.
 */
#ifndef EXAMPLES_LOAD_H
#define EXAMPLES_LOAD_H

#include "nic.h"

#include <stddef.h>
#include <stdint.h>

#define REGIONS 3
#define SLICE   4096 /* bytes that one write has */
#define SLICES  16
#define BYTES   ((size_t)SLICE * SLICES)

/* From the process, when its NIC is open: before it hibernates "letter 1", after it "letter 2". */
struct letter {
    struct queue_card card;
    uint32_t size[REGIONS];
    unsigned char token[REGIONS][256];
};
/* The answer, "card 1" and "card 2", is a struct queue_card; then comes "ready 1", "ready 2". */

/* From the writer: which rounds this life has got. Each writes one slice of each region. */
struct load {
    uint32_t life; /* of this process: 0 before it hibernated */
    uint32_t first, last;
};

/* The byte i that round writes to a region of a life. */
static inline unsigned char load_byte(uint32_t life, uint32_t round, uint32_t region, size_t i)
{
    return (unsigned char)(i * 7 + region * 31 + round * 13 + life * 101);
}

#endif
