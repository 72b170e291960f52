/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * One fixture for the library's tests: a library in a world of simulated vendors and NICs.
 *
 *     TEST(get__same_again__a_hit)
 *     {
 *         world_open(.domain.max_regions = 8);
 *         assert_int_equal(world_key(world.host, 4096), 1);
 *         assert_int_equal(world_key(world.host, 4096), 1);
 *         assert_int_equal(world_calls("reg"), 1);
 *     }
 *
 * world_open() names what differs from the usual. The world closes itself after the case, whatever
 * the case left cached, and fails it if a registration was not deregistered, was twice, or on
 * another NIC.
 *
 * The usual: vendors of cuda, rocr and ze with two devices each (vendors.h), a library whose
 * monitor is the case itself (hmreg_invalidate()), and one NIC, which registers on every path and
 * chooses keys: the key of a registration is its number, from 1, so that another key means another
 * registration.
 *
 * The log has every call that the library makes of NICs and vendors, in order, by names such as
 * "nic0.reg" and "cuda.resolve". Where a name is asked for, "reg" is that call of any NIC or
 * vendor. A call can be made to fail by its number.
 *
 * Only public headers here: a case that includes no others sees what an application sees. Link
 * test_world and hmreg_internal. Calls of the world are for any thread, but one opens and closes
 * it.
 */
#ifndef TESTS_WORLD_H
#define TESTS_WORLD_H

#include "tests/support/queries.h"
#include "tests/support/test.h"

#include <hmreg/group.h>
#include <hmreg/hmreg.h>

#define WORLD_NICS  8
#define WORLD_BYTES (3 * 65536)
#define WORLD_LOG   8192 /* calls; a case that asks for one beyond these fails */

/* Another fabric in the place of the simulated NICs: world_verbs.h, world_ofi.h. */
struct world_fabric {
    void (*begin)(void); /* before the library is opened */
    int (*open)(struct hmreg *lib, const struct hmreg_domain_config *config,
                struct hmreg_domain **out);
    void (*end)(void); /* when all is closed: fails the case if something is left */
};

/* What differs from the usual, which is 0. */
struct world_as {
    int usual_;                         /* for the macros, which take no argument, too */
    enum hmreg_monitor monitor;         /* HMREG_MONITOR_IMPORT */
    const struct hmreg_config *library; /* all of the library's, in the place of monitor; then no
                                           runtime is started yet */
    enum hmreg_iface vendor;            /* CUDA: whose memory world.gpu is */

    unsigned nics; /* 1 */
    bool later;    /* no NIC is opened yet: world_add(), whose first one is world.domain */
    bool group;    /* world.domain is a group of all NICs */
    struct hmreg_group_config groups;  /* its size, and the domains', is filled in */
    struct hmreg_domain_config domain; /* of each NIC */
    const struct world_fabric *fabric; /* the simulated NICs, which have: */
    uint32_t mr_mode;                  /* HMREG_MR_VIRT_ADDR | _PROV_KEY | _HMEM */
    uint32_t key_size;                 /* 8 */
    uint32_t iov_limit;                /* 8 ranges */
    uint64_t max_len;                  /* 1 TiB */
    bool any_thread;                   /* the library's own thread may deregister */
    bool relaxed;                      /* it has relaxed ordering only, and no iova */
    bool async;                        /* registrations complete in the caller's queue */
};

/* A call of the library's. */
struct world_call {
    char name[24]; /* "nic0.reg" */
    int result;
    /* Of a NIC: what was registered, of which `addr` is the first range's, and how. Of a vendor:
     * the range that it was asked for. */
    const void *addr;
    size_t len, ranges;
    uint64_t access, requested_key, flags, iova;
    enum hmreg_path path;
    enum hmreg_iface iface;
    enum hmreg_ordering ordering;
    int device;
    struct hmreg_dmabuf dmabuf; /* fd -1: none; closed by now */
    unsigned number;            /* of reg and dereg: the registration's */
    void *context;
};

/* Opened until the case returns. */
extern struct world {
    struct hmreg *lib;
    struct hmreg_domain *domain; /* nic[0], or the group: what a case uses. A case that has closed
                                    one of these sets it to NULL. */
    struct hmreg_domain *nic[WORLD_NICS];
    unsigned nics;
    char *host;   /* WORLD_BYTES of the system's memory, at a multiple of 64 KiB, full of 'h' */
    char *gpu[2]; /* the same of the vendor's devices, full of 'a' and 'b' */

    /* What a case changes as it goes. */
    int cannot[HMREG_PATH_COUNT];  /* a NIC says in advance that it has not this path... */
    int refuses[HMREG_PATH_COUNT]; /* ...or refuses a registration by it */
    uint64_t key;  /* not 0: the key that registrations get, whatever was requested */
    unsigned busy; /* deregistering the registration of this number is -EBUSY; 0: none */
    /* Called before each call, with no lock held: threads meet here, and memory is freed at a
     * critical moment. Not 0: what the call fails with. NULL: nothing is called. */
    int (*on_call)(const struct world_call *call);
} world;

#define WORLD_EACH 0xffffffffu /* of world.busy */

#define world_open(...) world_open_as(&(struct world_as){.usual_ = 0, __VA_ARGS__})
void world_open_as(const struct world_as *as);
/* One more NIC, which differs from the usual, not from the world's first. */
#define world_add(...) world_add_as(&(struct world_as){.usual_ = 0, __VA_ARGS__})
struct hmreg_domain *world_add_as(const struct world_as *as);
/* One that is refused. */
#define world_add_fails(code, words, ...)                                                          \
    assert_fails(world_try_as(&(struct world_as){.usual_ = 0, __VA_ARGS__}), code, words)
int world_try_as(const struct world_as *as);

/* ---- the log ---------------------------------------------------------------------------- */

/* How many calls of this name there were since the world was opened, or the log cleared. */
unsigned world_calls(const char *name);
/* The one of this number, from 0, and the last one; the case fails where there is none. */
const struct world_call *world_call(const char *name, unsigned number);
const struct world_call *world_last(const char *name);
bool world_is(const struct world_call *call, const char *name);
/* "cuda.resolve nic0.reg": all names, in order. */
const char *world_log(void);
void world_clear(void);
/* Registrations of this NIC, or with WORLD_EACH of all, that are not deregistered; the most at a
 * time of all. */
unsigned world_live(unsigned nic);
unsigned world_most(void);

/* ---- faults ----------------------------------------------------------------------------- */

/* From now on the call of this name and number, from 1, fails with the code, and so do `more` after
 * it; -1: all. A deregistration that fails with another code than -EBUSY has taken place. */
void world_fail(const char *name, unsigned number, int more, int code);
/* The thread's last error becomes one that no call makes, as of an earlier call; is it still? A
 * call that succeeds leaves it. */
void world_old_error(void);
bool world_error_is_old(void);
/* Nothing fails, nothing is busy. */
void world_heal(void);

/* ---- memory ----------------------------------------------------------------------------- */

/* More memory of a vendor's, freed with the world. */
char *world_memory(enum hmreg_iface iface, int device, enum hmreg_mem_kind kind, size_t len);
/* Is its page mapped here, whatever the access? */
bool world_is_mapped(const void *addr);
/* The bytes of a device's memory, which the CPU cannot touch at its address. */
char *world_view(const void *addr);
/* cuda says that this memory is its device 0's. */
void world_claim(void *addr, size_t len);
/* The memory that begins at addr was freed and allocated again. */
void world_renew(const void *addr);

/* ---- what nearly every case does -------------------------------------------------------- */

/* Gets it for peers to read and write; an error fails the case. */
struct hmreg_mr *world_get(const void *addr, size_t len);
/* Gets, puts, and returns the key. */
uint64_t world_key(const void *addr, size_t len);
struct hmreg_stats world_stats(void);
/* The memory changes: hmreg_invalidate(). */
void world_change(const void *addr, size_t len);

#endif
