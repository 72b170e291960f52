/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The CUDA driver in tests: the same libcuda.so.1 that the vendor code loads, simulated if
 * LD_LIBRARY_PATH says so, or with HMREG_TEST_REAL=1 this machine's own. A test is
 *
 *     struct bench bench = bench_begin();
 *     ... bench.hmem, CU(cu.alloc(&addr, len)) in the primary context of device 0 ...
 *
 * and fails at its end if it left a context, memory or addresses behind.
 */
#ifndef TESTS_CUDA_DRIVER_H
#define TESTS_CUDA_DRIVER_H

#include "core/base/error.h"
#include "core/contract/hmem.h"
#include "simulated/cuda/cuda_entries.h"
#include "simulated/engine/fake.h"
#include "tests/support/test.h"

extern const struct hmem_ops hmem_cuda_ops;

/* Entry points, named as in the lists; NULL if this driver lacks one. */
struct driver {
    CUDA_ENTRIES(CUDA_MEMBER, CUDA_MEMBER)
    CUDA_TEST_ENTRIES(CUDA_MEMBER)
    CUDA_OTHER_ENTRIES(CUDA_MEMBER)
    const struct fake_control *fake;  /* NULL: a real driver */
    unsigned long (*contexts)(void);  /* alive; fake only */
    unsigned long (*virtuals)(void);  /* reservations and physical allocations; fake only */
    unsigned long (*undefined)(void); /* queries after cuMemFreeAsync(); fake only */
    struct cuda_graphics *(*graphics)(size_t len); /* memory of a graphics API; fake only */
    int (*external)(size_t len); /* a descriptor of another API's memory; fake only */
    /* Called at each entry of a call, and before the return of one that has ended memory; fake
     * only. */
    void (*around)(void (*hook)(const char *call, bool ended));
};
extern struct driver cu;

/* Loads the driver without initializing it, or skips the test with the reason. */
void driver_load(void);
/* Skips the test on a real driver, where calls cannot be made to fail or counted. */
void driver_need_fake(void);
/* Skips the test where the driver's functions cannot be hooked. */
void driver_need_hooks(void);
/* Skips the test if there are fewer devices. */
void driver_need_devices(int count);

/* Many tests only begin one. */
struct __attribute__((unused)) bench {
    struct hmem *hmem;
    struct cuda_context *context; /* device 0's primary one, current */
};
struct bench bench_begin(void);
/* Before the case returns. */
void bench_end(struct bench *bench);
/* The case has ended by itself what bench_begin() began. */
void bench_ended(void);

/* Opens the vendor; skips if there is no device. */
struct hmem *vendor_open(void);

#define CU(call)                                                                                   \
    do {                                                                                           \
        unsigned cu_result_ = (call);                                                              \
                                                                                                   \
        if (cu_result_)                                                                            \
            fail_msg("%s: CUDA result %u", #call, cu_result_);                                     \
    } while (0)

/* Makes the simulated driver's calls fail: after `skip` successful ones, `times` times (-1: for
 * ever). */
void cu_fail(const char *call, long code, int skip, int times);

unsigned long long cu_alloc(size_t len);
/* Large enough that a real driver unmaps its addresses when it is freed. */
unsigned long long cu_alloc_large(void);
void *as_pointer(uint64_t addr);
/* Loads a module or a library with a variable of 100,000 bytes. */
/* A pool, and memory of it, which says so. */
struct cuda_pool *cu_pool(const struct cuda_pool_prop *prop, size_t len, unsigned long long *addr);
struct cuda_module *cu_module(bool managed, unsigned long long *addr);
struct cuda_library *cu_library(bool managed, unsigned long long *addr);
/* A green context with all of a device, and its context; skips if the driver has none. */
struct cuda_green *cu_green(int device, struct cuda_context **context);
/* A buffer in memory of another API. */
unsigned long long cu_external(size_t len);

/* Short forms of the vendor's operations. */
int bench_resolve(const struct bench *bench, uint64_t addr, size_t len, struct hmem_range *out);
uint64_t identity_of(const struct bench *bench, uint64_t addr, size_t len);

/* ---- virtual memory --------------------------------------------------------------------- */

struct cuda_memory_prop prop_on(int device);
size_t cu_granule(void);
/* Physical memory with these properties, mapped at addr with access; its handle is released at
 * once, so that unmapping frees it. */
void cu_map(uint64_t addr, size_t len, const struct cuda_memory_prop *prop);
unsigned long long cu_reserve(size_t len);

/* ---- descriptors ------------------------------------------------------------------------ */

/* Bytes from a formula, so that a test can check any piece at its destination. */
unsigned char pattern(size_t i);
void cu_write_pattern(uint64_t addr, size_t len);
/* The descriptor's bytes at its offset are the pattern from `first` on. */
void check_dmabuf(const struct hmreg_dmabuf *dmabuf, size_t first);

#endif
