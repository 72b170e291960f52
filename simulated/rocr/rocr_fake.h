/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Shared by the files of the simulated HSA runtime: agents, pools, and the list of all memory that
 * hsa_amd_pointer_info knows. Everything here is used under fake_lock().
 */
#ifndef SIMULATED_ROCR_FAKE_H
#define SIMULATED_ROCR_FAKE_H

#include "simulated/engine/fake.h"

#pragma GCC visibility push(default)
#include "hmem/rocr/rocr_abi.h"

/* The vendor declares these without a prototype. */
hsa_status_t hsa_init(void);
hsa_status_t hsa_shut_down(void);
#pragma GCC visibility pop

#define MAX_GPUS 4
#define POOLS    3 /* of each agent */

struct pool {
    const struct agent *agent;
    hsa_amd_segment_t segment;
    uint32_t flags;
    bool alloc;
};

struct agent {
    unsigned index; /* 0: the CPU */
    struct pool pools[POOLS];
};

struct notifier {
    struct notifier *next;
    void *ptr;
    hsa_amd_deallocation_callback_t callback;
    void *data;
};

/* Memory that pointer_info knows. */
struct memory {
    struct memory *next;
    unsigned type; /* hsa_amd_pointer_type_t */
    uint64_t base; /* for agents */
    uint64_t host; /* for the CPU; differs from base for LOCKED only */
    size_t len;
    const struct agent *owner;
    unsigned access;   /* bits of the agents that may access it */
    uint32_t flags;    /* the pool's */
    bool registered;   /* RESERVED_ADDR */
    uint64_t reserved; /* the reservation below it, 0: none of its own */
    struct notifier *notifiers;
};

extern struct agent agents[MAX_GPUS + 1];
extern struct memory *memories;

#define MAY_FAIL()                                                                                 \
    do {                                                                                           \
        long code_;                                                                                \
                                                                                                   \
        if (fake_fails(__func__, &code_))                                                          \
            return (hsa_status_t)code_;                                                            \
    } while (0)

#define ENTER()                                                                                    \
    do {                                                                                           \
        MAY_FAIL();                                                                                \
        if (!is_open())                                                                            \
            return HSA_STATUS_ERROR_NOT_INITIALIZED;                                               \
    } while (0)

bool is_open(void);
unsigned gpu_count(void);

static inline unsigned bit(const struct agent *agent)
{
    return 1u << agent->index;
}

static inline uint64_t address(const void *ptr)
{
    return (uint64_t)(uintptr_t)ptr;
}

static inline void *pointer(uint64_t addr)
{
    return (void *)(uintptr_t)addr;
}

static inline hsa_agent_t agent_id(const struct agent *agent)
{
    return (hsa_agent_t){address(agent)};
}

static inline bool contains(uint64_t base, size_t len, uint64_t addr)
{
    return addr >= base && addr - base < len;
}

/* The agent with an id that the application passed, NULL: none. */
const struct agent *agent_of(hsa_agent_t id);
const struct pool *pool_of(hsa_amd_memory_pool_t id);
unsigned access_bits(uint32_t count, const hsa_agent_t *list);
bool has_large_bar(void);

/* The memory at an address; mapped memory rather than its reservation. */
struct memory *memory_at(uint64_t addr);
struct memory *memory_from(uint64_t base, unsigned type);
/* Adds it to the list; NULL: no memory. */
struct memory *note(struct memory what);
void unlink_memory(const struct memory *gone);

#endif
