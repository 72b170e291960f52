/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The application's side of ROCm's tests: it uses the runtime itself, as programs do, beside the
 * library's vendor. It looks up entry points in the runtime that LD_LIBRARY_PATH leads to, so that
 * a test runs on the fake that its CMake line names.
 */
#ifndef TESTS_ROCR_APP_H
#define TESTS_ROCR_APP_H

#include "core/base/error.h"
#include "core/contract/hmem.h"
#include "hmem/rocr/rocr_abi.h"
#include "simulated/engine/fake.h"
#include "tests/support/test.h"

extern const struct hmem_ops hmem_rocr_ops;

#define APP_CALLS(DO)                                                                              \
    DO(hsa_init)                                                                                   \
    DO(hsa_shut_down)                                                                              \
    DO(hsa_iterate_agents)                                                                         \
    DO(hsa_agent_get_info)                                                                         \
    DO(hsa_memory_copy)                                                                            \
    DO(hsa_amd_agent_iterate_memory_pools)                                                         \
    DO(hsa_amd_memory_pool_get_info)                                                               \
    DO(hsa_amd_memory_pool_allocate)                                                               \
    DO(hsa_amd_memory_pool_free)                                                                   \
    DO(hsa_amd_register_deallocation_callback)                                                     \
    DO(hsa_amd_agents_allow_access)                                                                \
    DO(hsa_amd_pointer_info)                                                                       \
    DO(hsa_amd_memory_lock)                                                                        \
    DO(hsa_amd_memory_unlock)                                                                      \
    DO(hsa_amd_ipc_memory_create)                                                                  \
    DO(hsa_amd_ipc_memory_attach)                                                                  \
    DO(hsa_amd_ipc_memory_detach)                                                                  \
    DO(hsa_amd_interop_map_buffer)                                                                 \
    DO(hsa_amd_interop_unmap_buffer)                                                               \
    DO(hsa_amd_portable_export_dmabuf)                                                             \
    DO(hsa_amd_portable_close_dmabuf)                                                              \
    DO(hsa_amd_vmem_address_reserve)                                                               \
    DO(hsa_amd_vmem_address_free)                                                                  \
    DO(hsa_amd_vmem_handle_create)                                                                 \
    DO(hsa_amd_vmem_handle_release)                                                                \
    DO(hsa_amd_vmem_map)                                                                           \
    DO(hsa_amd_vmem_unmap)                                                                         \
    DO(hsa_amd_vmem_set_access)                                                                    \
    DO(hsa_amd_vmem_get_access)

#define APP_MEMBER(call) __typeof__(call) *call;
struct app {
    APP_CALLS(APP_MEMBER)
    const struct fake_control *fake;
    void (**on_register)(void *ptr); /* called when a deallocation callback is registered */
    hsa_agent_t cpu, gpus[4];
    unsigned gpu_count;
};
extern struct app app;

/* Loads and starts the runtime as an application does; cancels earlier requests to the fake. */
void app_start(void);
void app_stop(void);

/* After `skip` more calls the fake fails `times` times (-1: for ever). */
void app_fail(const char *call, hsa_status_t status, int skip, int times);

/* Opens the vendor; with app_start() before, and app_stop() after the close. Both closes are made
 * when the case returns, unless it has made them, or says that it has closed all. */
struct hmem *app_open(void);
void app_close(struct hmem *rocr);
void app_closed(void);

/* The pool with this flag; rather with no other one. */
hsa_amd_memory_pool_t app_pool(hsa_agent_t agent, uint32_t flag);

/* Pool memory of a GPU, or of the CPU. */
void *app_alloc(unsigned gpu, size_t len);
void *app_alloc_host(size_t len);
void app_free(void *addr);

/* The vendor's result for a range, which must succeed. */
struct hmem_range app_resolve(struct hmem *rocr, const void *addr, size_t len);

/* Writes a pattern, or checks it, by the runtime's own copy. */
void app_fill(void *device, size_t len, unsigned seed);
void app_check(const void *device, size_t len, unsigned seed);

static inline uint64_t at(const void *ptr)
{
    return (uint64_t)(uintptr_t)ptr;
}

static inline unsigned char pattern(size_t i, unsigned seed)
{
    return (unsigned char)(i * 31 + seed * 7 + (i >> 8));
}

#endif
