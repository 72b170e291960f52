/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Peer memory: with the parameter peermem, the kernel registers device memory by its address, as
 * kernels with a driver for peer memory do. Those list their clients in
 * /sys/kernel/mm/memory_peers, and so does this module while the parameter is on.
 */
#include <linux/kobject.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/sysfs.h>

#include "kmod.h"

static bool enabled;
static bool ready; /* the module is initialized */
static DEFINE_MUTEX(lock);
static struct kobject *peers, *client;

static ssize_t version_show(struct kobject *kobj, struct kobj_attribute *attr, char *text)
{
    return sysfs_emit(text, "1.0\n");
}
static struct kobj_attribute version = __ATTR_RO(version);

static void hide(void)
{
    kobject_put(client);
    kobject_put(peers);
    client = peers = NULL;
}

/* /sys/kernel/mm, which newer kernels do not let modules name. */
static struct kobject *get_mm(void)
{
    struct kernfs_node *node = sysfs_get_dirent(kernel_kobj->sd, "mm");
    struct kobject *mm = node ? kobject_get(node->priv) : NULL;

    sysfs_put(node);
    return mm;
}

static int show(void)
{
    struct kobject *mm = get_mm();

    peers = mm ? kobject_create_and_add("memory_peers", mm) : NULL;
    kobject_put(mm);
    if (!peers)
        return -ENOMEM;
    client = kobject_create_and_add("softgpu", peers);
    if (client && !sysfs_create_file(client, &version.attr))
        return 0;
    hide();
    return -ENOMEM;
}

static int update(void)
{
    if (!ready || enabled == !!client)
        return 0;
    if (enabled)
        return show();
    hide();
    return 0;
}

static int set(const char *value, const struct kernel_param *param)
{
    int rc;

    mutex_lock(&lock);
    rc = param_set_bool(value, param);
    rc = rc ? rc : update();
    mutex_unlock(&lock);
    return rc;
}

static const struct kernel_param_ops ops = {.set = set, .get = param_get_bool};
module_param_cb(peermem, &ops, &enabled, 0644);
MODULE_PARM_DESC(peermem, "ibv_reg_mr() takes CPU mappings of device memory");

bool peers_enabled(void)
{
    return READ_ONCE(enabled);
}

int peers_init(void)
{
    int rc;

    mutex_lock(&lock);
    ready = true;
    rc = update();
    mutex_unlock(&lock);
    return rc;
}

void peers_exit(void)
{
    mutex_lock(&lock);
    ready = false;
    if (client)
        hide();
    mutex_unlock(&lock);
}
