/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Initializes the parts of kmod.h. For the kernels of Debian 12, 6.1 and 6.12.
 */
#include <linux/module.h>
#include <linux/version.h>

#include "kmod.h"

static int __init softgpu_init(void)
{
    int rc = bus_init();

    if (rc)
        return rc;
    rc = memory_init();
    if (rc)
        goto exit_bus;
    rc = peers_init();
    if (rc)
        goto exit_memory;
    rc = regions_init();
    if (rc)
        goto exit_peers;
    return 0;
exit_peers:
    peers_exit();
exit_memory:
    memory_exit();
exit_bus:
    bus_exit();
    return rc;
}

static void __exit softgpu_exit(void)
{
    regions_exit();
    peers_exit();
    memory_exit();
    bus_exit();
}

module_init(softgpu_init);
module_exit(softgpu_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("For tests only: a GPU's memory, and Soft-RoCE that registers it");
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
MODULE_IMPORT_NS(DMA_BUF);
#else
MODULE_IMPORT_NS("DMA_BUF");
#endif
