/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Inside the fake libcuda.so.1: what its files share. cuda.c has devices and contexts,
 * cuda_memory.c allocations and copies, cuda_shared.c pools and imported memory, cuda_graph.c
 * graphs, cuda_module.c variables of modules and mapped graphics, cuda_library.c those of
 * libraries, cuda_green.c green contexts, cuda_external.c memory of other APIs, cuda_virtual.c
 * virtual memory, cuda_multicast.c multicast objects, cuda_pointer.c what is said about pointers,
 * cuda_export.c the dmabuf export, cuda_stream.c streams, cuda_event.c events, cuda_capture.c their
 * capture, cuda_address.c cuGetProcAddress and older functions.
 *
 * From the environment, beyond the engine's:
 *   HMREG_FAKE_CUDA_DEVICES=n       devices, else HMREG_FAKE_DEVICES, else 2
 *   HMREG_FAKE_CUDA_NO_DMABUF=mask  these devices export no dmabuf
 *   HMREG_FAKE_CUDA_INTEGRATED=mask these devices share the host's memory, and have no GPUDirect
 *   HMREG_FAKE_CUDA_FORBID=mask     a call that creates a context on one of these aborts
 *   HMREG_FAKE_CUDA_POOL_EXPORT=1   memory of pools is exported, which no driver promises
 *   HMREG_FAKE_CUDA_EXPORT_ONE=1    no descriptor is given for several allocations
 *   HMREG_FAKE_CUDA_EXPORT_CONTEXT=0  the export needs no current context of the device
 *   HMREG_FAKE_CUDA_QUERY_CONTEXT=1 attributes of pointers need a current context
 *   HMREG_FAKE_CUDA_EXACT=1         descriptors of exactly the range, that cannot be mapped
 *   HMREG_FAKE_CUDA_ANY_EXPORT=1    virtual memory is exported without gpuDirectRDMACapable, and
 *                                   so are variables of modules and mapped graphics
 *   HMREG_FAKE_CUDA_EXPORT_SHORT=1  its descriptors are one page long, whatever was asked
 *   HMREG_FAKE_CUDA_COHERENT=mask   these devices use the CPU's page tables, as behind Grace
 *   HMREG_FAKE_CUDA_NO_PCIE=mask    these devices refuse dmabufs with the PCIe mapping
 *   HMREG_FAKE_CUDA_NO_MAPPING=1    a driver without the MAPPING attributes and block ids
 *   HMREG_FAKE_CUDA_REUSE_IDS=1     ids of physical memory are used again once it has no handle
 *                                   and no mapping, though a descriptor may hold it
 * FAKE_CUDA_VERSION, when compiled: the driver this one is as old as; 13000 if not set.
 */
#ifndef SIMULATED_CUDA_FAKE_H
#define SIMULATED_CUDA_FAKE_H

#include "simulated/cuda/cuda_entries.h"
#include "simulated/engine/fake.h"

#ifndef FAKE_CUDA_VERSION
#define FAKE_CUDA_VERSION 13000
#endif

#define CUDA_DECLARE(member, name, parameters)                                                     \
    __attribute__((visibility("default"))) unsigned name parameters;
CUDA_ENTRIES(CUDA_DECLARE, CUDA_DECLARE)
CUDA_TEST_ENTRIES(CUDA_DECLARE)
CUDA_OTHER_ENTRIES(CUDA_DECLARE)

/* For tests: the number of contexts of both kinds; of reservations and physical allocations. */
__attribute__((visibility("default"))) unsigned long hmreg_fake_cuda_contexts(void);
__attribute__((visibility("default"))) unsigned long hmreg_fake_cuda_virtual(void);
/* Queries of attributes after cuMemFreeAsync(), whose answers are undefined. */
__attribute__((visibility("default"))) unsigned long hmreg_fake_cuda_undefined(void);
/* Memory of a graphics API, registered with CUDA; cuGraphicsUnregisterResource frees it. */
__attribute__((visibility("default"))) struct cuda_graphics *hmreg_fake_cuda_graphics(size_t len);

/* Called without a lock at each entry of a call (ended: false), and before the return of one that
 * has ended memory, whose addresses are free by then. NULL: nothing is. */
__attribute__((visibility("default"))) void hmreg_fake_cuda_around(void (*hook)(const char *call,
                                                                                bool ended));
/* A descriptor of memory of another API, which cuImportExternalMemory() takes. */
__attribute__((visibility("default"))) int hmreg_fake_cuda_external(size_t len);

/* Every entry point but the few that always work begins so: counts the call, fails it on request,
 * before cuInit and in a forked child; then holds the lock until it returns. */
#define ENTER()                                                                                    \
    do {                                                                                           \
        long code_ = fake_cuda_enter(__func__);                                                    \
                                                                                                   \
        if (code_)                                                                                 \
            return (unsigned)code_;                                                                \
    } while (0);                                                                                   \
    __attribute__((cleanup(fake_cuda_leave), unused)) int locked_ = (fake_lock(), 0)

long fake_cuda_enter(const char *name);
void fake_cuda_leave(int *locked);
/* The call has ended memory. */
void fake_cuda_ended(void);

/* ---- contexts --------------------------------------------------------------------------- */

struct cuda_context {
    struct cuda_context *next;
    int device;
    unsigned flags;
    bool alive; /* a destroyed context is kept, so that late calls return an error */
};

/* The calling thread's context if it is valid, else the result to return. */
unsigned fake_cuda_context(struct cuda_context **out);
bool fake_cuda_device(int device);
/* Success if the calling thread's context is one of this device (-1: of any). Else the result,
 * which varies as drivers do: INVALID_CONTEXT, NOT_FOUND, INVALID_VALUE. */
unsigned fake_cuda_context_of(int device);

/* The device's primary context; NULL once the last has released it. */
struct cuda_context *fake_cuda_primary(int device);
struct cuda_context *fake_cuda_primary_retain(int device);
unsigned fake_cuda_primary_release(int device);

/* ---- memory ----------------------------------------------------------------------------- */

enum memory_sort {
    MEMORY_PLAIN,
    MEMORY_POOL,
    MEMORY_MANAGED,
    MEMORY_HOST,
    MEMORY_REGISTERED,
    MEMORY_IMPORTED,
    MEMORY_GRAPHICS,
    MEMORY_EXTERNAL,
    MEMORY_MODULE, /* with host: managed */
};

struct cuda_pool {
    struct cuda_pool *next;
    int device;
    unsigned handle_types;
    bool ended; /* destroyed; freed with its last allocation */
};

struct memory {
    struct memory *next;
    enum memory_sort sort;
    uint64_t addr; /* the device's address */
    uint64_t host; /* the CPU's, 0: none; not always the same */
    size_t len;
    uint64_t id;
    int device;
    struct cuda_context *context; /* NULL: of none */
    struct cuda_pool *pool;
    bool of_graph;    /* allocated by a launch */
    bool sync_memops; /* as the application set it */
    unsigned flags;   /* of cuMemHostAlloc */
};

/* The memory that contains the device or the host address. */
struct memory *fake_cuda_memory(uint64_t addr);
/* Memory of a pool that cuMemFreeAsync() has freed, and that no call has waited for since. */
struct memory *fake_cuda_freed(uint64_t addr);
void fake_cuda_forget_freed(void);
/* The memory, of any kind, whose host pages contain [addr, addr+len). */
struct memory *fake_cuda_pages(uint64_t addr, size_t len);
/* Frees the memory of a destroyed context. */
void fake_cuda_lose(struct cuda_context *context);
/* Finishes the pending copy; false if there is none. */
bool fake_cuda_arrive(void);
/* Copies have numbers. That of the pending copy, if work in the stream comes after it; else 0. */
unsigned long fake_cuda_pending(const struct cuda_stream *stream);
bool fake_cuda_is_pending(unsigned long copy);
/* The same, or the copy that cuStreamWaitEvent() made the stream wait for; makes it wait. */
unsigned long fake_cuda_stream_waits(struct cuda_stream *stream);
void fake_cuda_stream_wait(struct cuda_stream *stream, unsigned long copy);
struct cuda_context *fake_cuda_stream_context(const struct cuda_stream *stream,
                                              struct cuda_context *current);
/* Work in a stream: CUDA_OK, with *graph if the stream is being captured to one, or the result to
 * return. graph NULL: the call waits or asks, which cannot be captured. */
unsigned fake_cuda_use(const struct cuda_stream *stream, struct cuda_graph **graph);
/* The result of a call that a capture prohibits, which is invalid then; else CUDA_OK. */
long fake_cuda_prohibits(const char *name);
bool fake_cuda_is_blocking(const struct cuda_stream *stream);
struct cuda_graph *fake_cuda_graph(void);
void fake_cuda_put_graph(struct cuda_graph *graph);
unsigned fake_cuda_graph_alloc(struct cuda_graph *graph, int device, size_t size,
                               unsigned long long *addr);
unsigned fake_cuda_graph_free(struct cuda_graph *graph, uint64_t addr);
bool fake_cuda_is_stream(const struct cuda_stream *stream);
uint64_t fake_cuda_id(void);
/* New memory of the current context's device, or of a pool's. */
unsigned fake_cuda_allocate(enum memory_sort sort, enum fake_kind kind, size_t size,
                            struct memory **out);
struct memory *fake_cuda_enter_memory(enum memory_sort sort, uint64_t addr, uint64_t host,
                                      size_t len, struct cuda_context *context);
void fake_cuda_leave_memory(struct memory *gone);
/* A pool keeps freed memory, and has it again for its next allocation of that length; false: it has
 * none. Whatever waits for the device trims pools. */
void fake_cuda_keep(const struct memory *freed);
bool fake_cuda_kept(const struct cuda_pool *pool, int device, size_t len, uint64_t *addr);
void fake_cuda_trim(void);
bool fake_cuda_pool_used(const struct cuda_pool *pool);
bool fake_cuda_exports(int device);
/* A block of a file's bytes from start on, which owns the descriptor. NULL: it is closed. */
struct fake_block *fake_cuda_block_of(int device, int fd, size_t start, size_t len);
/* Maps a block at an address of its own; 0: no room. */
uint64_t fake_cuda_map_block(struct fake_block *block, size_t skip, size_t len);

/* Is it the text of a module, with variables? */
unsigned fake_cuda_check_image(const char *image);
/* The variable's offset in the allocation, with its length; *len 0: there is none. */
size_t fake_cuda_variable(const char *image, const char *name, size_t *len);
/* The allocation of all its variables, in the current context. */
unsigned fake_cuda_load(const char *image, struct memory **out);

/* ---- virtual memory --------------------------------------------------------------------- */

#define FAKE_CUDA_PIECES 1024 /* the most under one descriptor */

struct multicast; /* what makes an allocation a multicast object */

struct physical {
    struct physical *next;
    struct multicast *multicast; /* NULL: memory */
    struct fake_block *block;
    struct cuda_memory_prop prop;
    uint64_t id;
    unsigned holds; /* cuMemCreate and cuMemRetainAllocationHandle */
    unsigned mappings;
    bool exported;      /* a descriptor was exported: its bytes cannot move any more */
    unsigned long file; /* the joined file that contains it, 0: its own */
    size_t file_offset;
    unsigned file_pieces; /* number of pieces joined there */
};

struct mapping {
    struct mapping *next;
    uint64_t addr;
    size_t len;
    struct physical *physical;
    bool accessible; /* to devices */
    bool cpu;        /* to the CPU; memory on the host only */
};

struct reservation {
    struct reservation *next;
    uint64_t addr;
    size_t len;
    uint64_t id;
};

/* NULL: no such handle. */
struct physical *fake_cuda_physical(unsigned long long handle);
struct physical *fake_cuda_physical_new(int device, size_t size);
size_t fake_cuda_granule(void);
void fake_cuda_physical_settle(struct physical *physical);
bool fake_cuda_multicast_is_full(const struct multicast *multicast);
int fake_cuda_multicast_device(const struct multicast *multicast);
void fake_cuda_multicast_end(struct multicast *multicast);
struct mapping *fake_cuda_mapping(uint64_t addr);
struct reservation *fake_cuda_reservation(uint64_t addr);
/* A descriptor for a mapped range, -1 with the result. */
unsigned fake_cuda_export_virtual(uint64_t addr, size_t len, int *fd);

#endif
