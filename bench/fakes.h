/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The tests' simulated runtimes, for files that are compiled with BENCH_FAKES, their folder ("": no
 * tests are built).
 */
#ifndef BENCH_FAKES_H
#define BENCH_FAKES_H

#include "bench/actor.h"

#include <dlfcn.h>
#include <hmreg/hmreg.h>
#include <stdlib.h>

#define CUDA_FAKE BENCH_FAKES "/cuda/libcuda.so.1"
#define ROCR_FAKE BENCH_FAKES "/rocr/libhsa-runtime64.so.1"
#define ZE_FAKE   BENCH_FAKES "/ze/libze_fake.so"
#define ZE_LOADER "libze_loader.so.1"

/* NULL: they can be measured. */
#define FAKES_ABSENT (BENCH_FAKES[0] ? NULL : "no tests built")

/* In a contestant: loads a runtime; hmreg then finds its soname already loaded. Level Zero's loader
 * is the real one, and finds the simulated driver. */
static inline void *fakes_load(enum hmreg_iface iface, const char *library)
{
    void *handle;

    if (iface == HMREG_IFACE_ZE)
        setenv("ZE_ENABLE_ALT_DRIVERS", ZE_FAKE, 1);
    handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
    if (!handle)
        leave("%s", dlerror());
    return handle;
}

#endif
