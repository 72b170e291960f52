/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * NICs that count their calls, one domain each, for tests of a group's members.
 */
#ifndef TESTS_NICS_H
#define TESTS_NICS_H

#include "tests/support/test.h"

#include <hmreg/group.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

#define NICS_MOST 8

struct nic {
    atomic_uint regs, deregs, revokes;
    atomic_int fail;              /* the result of reg */
    void (*_Atomic during)(void); /* called once, by reg, on its thread */
    void (*_Atomic using)(void);  /* called once, by bind, enable or refresh */
    atomic_uint uses;             /* calls of these */
    atomic_bool hangs;            /* reg posts `entered` and waits for `leave` */
    atomic_bool dereg_hangs;      /* so does dereg, once */
    sem_t entered, leave;
    struct hmreg_domain *domain;
};

extern struct nic nics[NICS_MOST];
extern atomic_uint nics_keys; /* the next registration's */
extern uint32_t nics_mode;    /* of those that are opened */

struct hmreg_domain *nic_open(struct hmreg *lib, unsigned number);

struct hmreg_group_member nic_member(struct hmreg_domain *group, size_t member);
/* Waits for the end of a replacement. */
struct hmreg_group_member nic_replaced(struct hmreg_domain *group, size_t member);

#endif
