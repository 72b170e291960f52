/* SPDX-License-Identifier: GPL-2.0-only
 *
 * Peer memory: with the parameter peermem, the kernel registers device memory by its address, as
 * kernels with a driver for peer memory do. Those list their clients in
 * /sys/kernel/mm/memory_peers, and so does this module while the parameter is on. The parameter
 * client names the driver whose rules hold.
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

static const char *const names[] = {
    [PEERS_SOFTGPU] = "softgpu", [PEERS_NV_MEM] = "nv_mem", [PEERS_NV_MEM_NC] = "nv_mem_nc"};
static enum peers_client kind;

static int set_client(const char *value, const struct kernel_param *param)
{
    int found = sysfs_match_string(names, value);

    if (found < 0)
        return found;
    mutex_lock(&lock);
    if (!client)
        WRITE_ONCE(kind, found);
    mutex_unlock(&lock);
    return client ? -EBUSY : 0;
}

static int get_client(char *text, const struct kernel_param *param)
{
    return sysfs_emit(text, "%s\n", names[kind]);
}

static const struct kernel_param_ops client_ops = {.set = set_client, .get = get_client};
module_param_cb(client, &client_ops, NULL, 0644);
MODULE_PARM_DESC(client, "softgpu, nv_mem or nv_mem_nc; to be set while peermem is off");

enum peers_client peers_client(void)
{
    return READ_ONCE(kind);
}
EXPORT_SYMBOL_GPL(peers_client);

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
    client = kobject_create_and_add(names[kind], peers);
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
