/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Shared by Level Zero's tests: the vendor opened on the simulated driver, the driver's control,
 * and an application beside hmreg, with a context that hmreg does not know.
 */
#ifndef TESTS_ZE_BENCH_H
#define TESTS_ZE_BENCH_H

#include "core/contract/hmem.h"
#include "simulated/engine/fake.h"
#include "tests/support/test.h"

#include <level_zero/ze_api.h>

extern const struct hmem_ops hmem_ze_ops;
#define ze (&hmem_ze_ops)

#define MIB (1ul << 20)

/* Opens the vendor until the case returns, or a close or the next call. */
struct hmem *bench_open(void);
void bench_close(void);

/* The same on Intel's own driver, or skips. */
struct hmem *bench_open_real(void);

/* The control of the nth driver named in ZE_ENABLE_ALT_DRIVERS, which must be loaded. */
const struct fake_control *bench_control(int driver);

/* Calls control->fail(), whose name a cmocka macro hides. */
static inline void bench_fail(const struct fake_control *control, const char *call,
                              ze_result_t code, int skip, int times)
{
    (control->fail)(call, (long)code, skip, times);
}

/* Allocates by the vendor. */
uint64_t bench_alloc(struct hmem *self, int device, enum hmreg_mem_kind kind, size_t len);
void bench_free(struct hmem *self, uint64_t addr, enum hmreg_mem_kind kind);

/* An application that uses Level Zero itself, until the case returns: the nth driver, a context,
 * its devices. */
struct app {
    ze_driver_handle_t driver;
    ze_context_handle_t context;
    ze_device_handle_t devices[8];
    uint32_t device_count;
};
void app_open(struct app *app, int driver);
void app_close(void);
/* Device memory without the export descriptor, as applications allocate it. */
uint64_t app_alloc(struct app *app, ze_device_handle_t device, size_t len);
void app_free(struct app *app, uint64_t addr);

size_t bench_page(void);

/* Device memory's bytes, read past the runtime. */
unsigned char *bench_peek(uint64_t addr);

/* A recognizable byte for each offset. */
static inline unsigned char pattern(size_t i)
{
    return (unsigned char)(i * 7 + i / 251 + 1);
}

/* Sets an environment variable that the simulated driver reads, until the case returns. */
void bench_set(const char *name, long value);
void bench_set_text(const char *name, const char *value);
void bench_unset_all(void);

#endif
