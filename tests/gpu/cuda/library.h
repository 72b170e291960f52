/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * NVIDIA's own driver library on a machine without a GPU, as a login node has it: the machine's, or
 * with HMREG_TEST_NVIDIA the one in this folder, which tests/gpu/cuda/nvidia fetches.
 */
#ifndef TESTS_CUDA_LIBRARY_H
#define TESTS_CUDA_LIBRARY_H

#include "tests/support/test.h"

#include <dlfcn.h>
#include <limits.h>

/* Skips the case if the folder has no library. Loads nothing. */
static inline void library_need_fetched(void)
{
    const char *folder = getenv("HMREG_TEST_NVIDIA");
    char file[PATH_MAX];

    if (!folder)
        return;
    snprintf(file, sizeof(file), "%s/libcuda.so.1", folder);
    if (access(file, R_OK))
        test_skip("NVIDIA's driver library is not in %s: tests/gpu/cuda/nvidia fetches it", folder);
}

/* Loads it, or skips the case. */
static inline void *library_need(void)
{
    void *library;

    library_need_fetched();
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        test_skip("no CUDA driver: %s", dlerror());
    if (dlsym(library, "hmreg_fake_control"))
        test_skip("libcuda.so.1 is the simulated driver");
    test_count_dmabufs_only(); /* cuInit of driver 550 leaves four descriptors whenever it fails */
    return library;
}

#endif
