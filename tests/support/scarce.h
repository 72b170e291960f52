/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A fabric of which everything is scarce: locked memory and mappings of the process, regions of
 * each NIC, the window (BAR1) of each of cuda's devices. Each domain is on one of two NICs, and may
 * be called on any thread or on the one that opened it. It notes whose regions end while another
 * registration is short of something, and of what they had.
 *
 * Device 0's memory is registered by its address, device 1's by a mapping.
 */
#ifndef TESTS_SCARCE_H
#define TESTS_SCARCE_H

#include <hmreg/hmreg.h>
#include <stdatomic.h>
#include <stdbool.h>

/* What the regions of one domain take. */
struct scarce_use {
    uint64_t locked, window;
    unsigned mappings, regions;
};

#define SCARCE_NICS    2
#define SCARCE_DEVICES 2

/* A page-aligned range takes its length of bytes. */
struct scarce {
    /* The most that there is; 0: no limit. */
    uint64_t most_locked, most_window;
    unsigned most_regions, most_mappings;
    unsigned key_size; /* bytes of the keys of domains that are opened from now on; 0: 8 */
    bool enomem;       /* a full NIC answers ENOMEM, and says that it does */
    /* What is taken. */
    _Atomic uint64_t locked, window[SCARCE_DEVICES];
    atomic_uint regions[SCARCE_NICS], mappings;
    atomic_uint regs, deregs;       /* calls */
    void (*_Atomic reg_hook)(void); /* reg calls it first, with no lock held; NULL: none */
    atomic_uint useless; /* deregistrations at once, while a registration was short of what the
                            region did not have */
    bool several;        /* threads register at once: no deregistration is useless */
    atomic_uint strayed; /* ... by another thread than the domain's */
};

extern struct scarce scarce;

/* Makes the kernel's limit of locked memory count for this process, as the fabric's. Skips the case
 * where the process cannot give up its right to exceed it. */
void scarce_limit_locked(uint64_t most);
/* Nothing is limited, and nothing may be taken. */
void scarce_reset(void);
struct hmreg_domain *scarce_open(struct hmreg *lib, unsigned nic, bool any_thread,
                                 const struct hmreg_domain_config *config);

/* Of a domain that one thread drives. */
struct scarce_use scarce_use_of(const struct hmreg_domain *domain);
/* A call begins, which is short of nothing so far. */
void scarce_begin(void);

#endif
