/* SPDX-License-Identifier: GPL-2.0-only
 *
 * The slots that each user has, in all processes together. Memory is charged to the control group
 * besides; this bounds what a user's watches can add to other users' calls that change a file which
 * both map.
 */
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/slab.h>

#include "counter.h"

struct user {
    struct list_head node;
    kuid_t uid;
    u32 slots;
};

static LIST_HEAD(users);
static DEFINE_MUTEX(users_lock);

static struct user *find(kuid_t uid)
{
    struct user *user;

    list_for_each_entry(user, &users, node) if (uid_eq(user->uid, uid)) return user;
    user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);
    if (user) {
        user->uid = uid;
        list_add(&user->node, &users);
    }
    return user;
}

static void drop_if_unused(struct user *user)
{
    if (user->slots)
        return;
    list_del(&user->node);
    kfree(user);
}

int users_charge(kuid_t uid, u32 slots, u32 most, struct user **out)
{
    struct user *user;
    int rc = 0;

    mutex_lock(&users_lock);
    user = find(uid);
    if (!user) {
        rc = -ENOMEM;
    } else if (slots > most || user->slots > most - slots) {
        rc = -EDQUOT;
        drop_if_unused(user);
    } else {
        user->slots += slots;
        *out = user;
    }
    mutex_unlock(&users_lock);
    return rc;
}

void users_uncharge(struct user *user, u32 slots)
{
    mutex_lock(&users_lock);
    user->slots -= slots;
    drop_if_unused(user);
    mutex_unlock(&users_lock);
}
