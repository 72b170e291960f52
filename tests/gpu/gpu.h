/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The cases that are the same for each vendor: cache.c, ended.c, export.c, fault.c, fuzz.c,
 * memory.c, open.c, public.c, resolve.c and threads.c of this folder. Each is built once for each
 * vendor (cuda_gpu_export, rocr_gpu_export, ...) with the `gpu` that tests/gpu/<vendor>/gpu.c has.
 * Tests for a single vendor are in that vendor's folder.
 */
#ifndef TESTS_GPU_H
#define TESTS_GPU_H

#include "core/base/error.h"
#include "core/contract/hmem.h"
#include "simulated/engine/fake.h"
#include "tests/support/test.h"

/* All outputs of all operations; a failed operation must not change any. */
union gpu_output {
    struct hmem_range range;
    uint64_t identity;
    struct hmreg_dmabuf dmabuf;
    void *addr;
    struct hmem *hmem;
};

/* An operation of fault.c. undo releases the results of a success; NULL: there are none. */
struct gpu_operation {
    const char *name;
    int (*run)(struct hmem *self, union gpu_output *out);
    void (*undo)(struct hmem *self, union gpu_output *out);
};

/* The calls whose failure an operation survives, separated by spaces: each of its calls of that
 * name; "NAME:1" the second, "NAME:1+" the second and later ones. leaks: those of them whose
 * failure leaves memory behind. */
struct gpu_survival {
    const char *operation, *calls, *leaks;
};

/* A rarer kind of memory, for fuzz.c. make: at least *len bytes, which may become more; 0: there is
 * no room for it now. end: by the address. Any thread. */
struct gpu_maker {
    const char *name;
    uint64_t (*make)(size_t *len);
    void (*end)(uint64_t addr);
    bool from_start; /* a range that begins elsewhere may be refused */
};

/* A vendor, and the application's own calls of its runtime. */
struct gpu {
    const struct hmem_ops *ops;
    unsigned kinds; /* how many of gpu_kinds[] it allocates */
    /* Is the end of this kind of memory reported? NULL: of none. */
    bool (*reports)(enum hmreg_mem_kind kind);
    /* A function of the driver that ends device memory and that no case calls; its name. NULL: the
     * vendor hooks none. */
    void *(*unused_end)(const char **name);
    int pinned_device; /* of pinned memory that device 0 allocated */

    /* Opens the vendor next to an application that uses the runtime; and ends both, and fails the
     * case if memory is left. */
    struct hmem *(*begin)(void);
    void (*end)(struct hmem *self);
    int (*devices)(void); /* 1 or 2 to allocate on */
    uint64_t (*alloc)(int device, enum hmreg_mem_kind kind, size_t len);
    void (*free)(uint64_t addr, enum hmreg_mem_kind kind);
    const struct fake_control *(*fake)(void); /* NULL: a real runtime; after begin() */

    /* Values that a simulated runtime reports; library: of a real one, too. */
    const char *version, *library, *device_names[2], *pci[2];
    const char *no_device, *copy_fails; /* parts of these errors' texts */
    /* Calls that ask what is at an address, separated by spaces; and how many of them the export of
     * claimed memory takes. */
    const char *queries;
    unsigned long export_queries;

    /* fault.c: every call of the runtime that the vendor makes, ended by NULL, and those that no
     * operation needs; those whose failure changes no result but may leave memory behind, which
     * after_clean_up() ends begin() with (NULL: there are none). */
    const char *const *calls;
    const char *uncalled, *cleans_up;
    void (*after_clean_up)(struct hmem *self);
    long failure; /* a code of no special meaning, and its name */
    const char *failure_name;
    long shut_down;                 /* the code of a runtime that has shut down, */
    const char *learns;             /* the calls by which the vendor detects it (NULL: each), */
    void (*after_shut_down)(void);  /* and what the application then releases; NULL: nothing */
    unsigned long (*objects)(void); /* the number of other objects that may leak; NULL: none */
    /* Operations that this vendor alone has, with memory that lives from prepare() to clean_up();
     * all NULL: none. */
    const struct gpu_operation *operations; /* ended by a NULL name */
    const struct gpu_survival *survives;    /* the same */
    const struct gpu_maker *makers;         /* ended by a NULL name */
    void (*prepare)(struct hmem *self);
    void (*clean_up)(void);
};
extern const struct gpu gpu;

extern unsigned long gpu_leaked; /* allocations that survivals left behind so far */

extern const enum hmreg_mem_kind gpu_kinds[3]; /* device, pinned, managed */

#define MIB (1ul << 20)

/* The case needs calls that fail or are counted, or addresses that are reused. */
void gpu_need_fake(void);
void gpu_fail(const char *call, long code, int skip, int times);

/* Bytes from a formula, so that a test can check any piece at its destination; written and read
 * without the library if the runtime is simulated. */
unsigned char gpu_byte(size_t i, unsigned seed);
void gpu_fill(struct hmem *self, uint64_t addr, size_t len, unsigned seed);
/* The memory has the formula's bytes, but [from, from+count) has the byte `other`. */
void gpu_check(struct hmem *self, uint64_t addr, size_t len, unsigned seed, size_t from,
               size_t count, unsigned char other);

/* The vendor's operations, which must succeed. */
struct hmem_range gpu_resolve(struct hmem *self, uint64_t addr, size_t len);
uint64_t gpu_identity(struct hmem *self, uint64_t addr, size_t len);
struct hmreg_dmabuf gpu_export(struct hmem *self, uint64_t addr, size_t len);

/* The addresses are not this vendor's, for resolve and identity; outputs and last error do not
 * change. */
void gpu_check_not_mine(struct hmem *self, uint64_t addr, size_t len);
/* Both operations fail so, and name the address; outputs do not change. */
void gpu_check_leaves(struct hmem *self, uint64_t addr, size_t len, uint64_t end);

#endif
