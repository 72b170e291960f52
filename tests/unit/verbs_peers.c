/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The kernel's peer memory in sysfs, on a simulated sysfs. */

/* A folder of the test's in sysfs's place: the provider looks into the machine's. */
#include "providers/verbs/verbs_peers.h"
#include "tests/support/test.h"

#include <sys/stat.h>

static const char *const folders[] = {"kernel", "kernel/mm", "kernel/mm/memory_peers", "module"};
#define FOLDERS (sizeof(folders) / sizeof(folders[0]))

static void make(const char *sys, const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", sys, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void take_away(const char *sys, const char *name)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/%s", sys, name);
    assert_int_equal(rmdir(path), 0);
}

/* The ifaces that peer memory serves, for sysfs with this folder. */
static unsigned served(const char *name)
{
    char sys[] = "/tmp/hmreg-sysXXXXXX";
    unsigned found = 0;

    assert_non_null(mkdtemp(sys));
    for (size_t i = 0; i < FOLDERS; i++)
        make(sys, folders[i]);
    if (name)
        make(sys, name);
    for (int iface = HMREG_IFACE_CUDA; iface <= HMREG_IFACE_MAX; iface++)
        if (peers_serve(sys, (enum hmreg_iface)iface))
            found |= HMREG_IFACE_BIT(iface);
    if (name)
        take_away(sys, name);
    for (size_t i = FOLDERS; i > 0; i--)
        take_away(sys, folders[i - 1]);
    rmdir(sys);
    return found;
}

TEST(serve__no_sysfs__no_iface)
{
    assert_false(peers_serve("/nonexistent", HMREG_IFACE_CUDA));
}

TEST(serve__client_of_a_vendor__its_memory_only)
{
    assert_int_equal(served("kernel/mm/memory_peers/nv_mem"), HMREG_IFACE_BIT(HMREG_IFACE_CUDA));
    assert_int_equal(served("kernel/mm/memory_peers/nvidia-peermem"),
                     HMREG_IFACE_BIT(HMREG_IFACE_CUDA));
    assert_int_equal(served("kernel/mm/memory_peers/amdkfd"), HMREG_IFACE_BIT(HMREG_IFACE_ROCR));
}

/* Which is all that the list says of it. */
TEST(serve__client_of_nobody_known__each_iface)
{
    assert_int_equal(served("kernel/mm/memory_peers/neuron"), (2u << HMREG_IFACE_MAX) - 2);
}

TEST(serve__nvidias_module_alone__cuda)
{
    assert_int_equal(served("module/nvidia_peermem"), HMREG_IFACE_BIT(HMREG_IFACE_CUDA));
    assert_int_equal(served("module/nv_peer_mem"), HMREG_IFACE_BIT(HMREG_IFACE_CUDA));
    assert_int_equal(served("module/efa_nv_peermem"), HMREG_IFACE_BIT(HMREG_IFACE_CUDA));
}

TEST(remedy__names_what_to_do)
{
    assert_non_null(strstr(peers_remedy(HMREG_IFACE_CUDA), "modprobe nvidia-peermem"));
    assert_non_null(strstr(peers_remedy(HMREG_IFACE_ROCR), "amdgpu-dkms"));
    assert_non_null(strstr(peers_remedy(HMREG_IFACE_ZE), "use dmabuf"));
    assert_non_null(strstr(peers_remedy(HMREG_IFACE_NEURON), "load the driver's client"));
}

TEST_MAIN()
