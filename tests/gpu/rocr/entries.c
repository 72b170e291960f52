/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Every way to open AMD's real runtime of this machine (5.2 on Debian 12, 6.1 on Debian 13) without
 * /dev/kfd, and over a stand-in for its libhsakmt without and with GPUs; and the fakes, the newer
 * and the older. CTest sets LD_LIBRARY_PATH accordingly.
 */
#include "hmem/rocr/rocr_abi.h"
#include "tests/gpu/entries.h"

#include <dlfcn.h>
#include <sys/wait.h>

#define RUNTIME "libhsa-runtime64.so.1"

/* An application that starts the runtime, successfully or not, and keeps using it. */
static const char *application(void)
{
    static hsa_status_t started = HSA_STATUS_ERROR;
    void *runtime = dlopen(RUNTIME, RTLD_NOW | RTLD_LOCAL);
    __typeof__(hsa_system_get_info) *get_info;
    uint64_t now = 0;

    if (!runtime)
        return dlerror();
    if (started)
        started = ((__typeof__(hsa_init) *)dlsym(runtime, "hsa_init"))();
    get_info = (__typeof__(get_info))dlsym(runtime, "hsa_system_get_info");
    if (!started && get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &now))
        return "the runtime it started does not answer";
    return NULL;
}

/* In a child, since a library that this process loads stays loaded in every case. */
static bool can_load(bool with_libhsakmt)
{
    int status = -1;
    pid_t child = fork();

    if (child == 0)
        _exit(!dlopen(RUNTIME, RTLD_NOW | RTLD_LOCAL) ||
              (with_libhsakmt && !dlopen("libhsakmt.so.1", RTLD_NOW | RTLD_NOLOAD)));
    return waitpid(child, &status, 0) == child && status == 0;
}

static void need_runtime(void)
{
    if (!can_load(false))
        test_skip("no " RUNTIME " on this machine");
    if (!access("/dev/kfd", F_OK))
        test_skip("this machine has /dev/kfd");
}

static void need_libhsakmt(void)
{
    if (!can_load(true))
        test_skip("no " RUNTIME " on this machine that loads libhsakmt.so.1");
}

#define NO_KFD "hsa_init found no AMD GPU driver: there is no /dev/kfd"
#define FAKE                                                                                       \
    {                                                                                              \
        .iface = HMREG_IFACE_ROCR, .devices = 2, .library = "/simulated/rocr",                         \
        .application = application, .fault = "HMREG_FAKE_FAIL",                                    \
        .fault_value = "hsa_init:0x1008:0:1", .fault_why = "hsa_init found no AMD GPU"             \
    }

static const struct entry kfdless = {
    .iface = HMREG_IFACE_ROCR, .why = NO_KFD, .application = application, .need = need_runtime};
static const struct entry gpuless = {.iface = HMREG_IFACE_ROCR,
                                     .why = "ROCm lists no GPU",
                                     .application = application,
                                     .need = need_libhsakmt};
static const struct entry gpu = {.iface = HMREG_IFACE_ROCR,
                                 .devices = 2,
                                 .library = RUNTIME,
                                 .application = application,
                                 .need = need_libhsakmt,
                                 .fault = "HMREG_FAKE_KMT_OPEN_FAILS",
                                 .fault_value = "1",
                                 .fault_why = "hsa_init found no AMD GPU"};
static const struct entry fake = FAKE;
static const struct entry fake_5_2 = FAKE;

ENTRY_CASES(kfdless, &kfdless)
ENTRY_CASES(gpuless, &gpuless)
ENTRY_CASES(gpu, &gpu)
ENTRY_CASES(fake, &fake)
ENTRY_CASES(fake_5_2, &fake_5_2)

TEST_MAIN()
