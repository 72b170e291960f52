// SPDX-License-Identifier: GPL-2.0-only
/*
 * The ranges that each user watches, in all processes together. Memory is charged to the control
 * group. This limits the time that a user's watches can add to other users' calls that change a
 * file both map.
 *
 * A user who makes a user namespace is charged for all its processes, whatever their subordinate
 * ids. The system's root is not: it makes the namespaces of containers, each with other ids. A
 * set-user-id program of a subordinate id, executed outside the namespace, is that id's alone.
 */
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include <linux/uidgid.h>
#include <linux/user_namespace.h>

#include "counter.h"

/* For eight thousand ranges on each processor. */
#define LEAST_USER_SLOTS 1048576u
#define SLOTS_OF_A_CPU 8192u

static unsigned int max_user_slots;
module_param(max_user_slots, uint, 0644);
MODULE_PARM_DESC(max_user_slots, "ranges that all processes of one user may watch together");

#define MOST_LEVELS 34 /* the kernel nests at most 32 user namespaces */

struct user {
	struct hlist_node node;
	kuid_t uid;
	unsigned int holders;
	u32 ranges;
};

struct users {
	unsigned int count;
	struct user *user[MOST_LEVELS];
};

static DEFINE_HASHTABLE(by_uid, 6);
/* Guards all of the above. With bh, since a notifier is freed where these are disabled. */
static DEFINE_SPINLOCK(users_lock);

void users_init(void)
{
	if (!max_user_slots)
		max_user_slots = max(LEAST_USER_SLOTS, num_possible_cpus() * SLOTS_OF_A_CPU);
}

/* ---- who --------------------------------------------------------------------------------- */

static struct user *find(kuid_t uid)
{
	struct user *user;

	hash_for_each_possible(by_uid, user, node, __kuid_val(uid))
		if (uid_eq(user->uid, uid))
			return user;
	return NULL;
}

static bool hold(struct users *users, kuid_t uid)
{
	struct user *made = kzalloc(sizeof(*made), GFP_KERNEL_ACCOUNT), *user;

	if (!made)
		return false;
	spin_lock_bh(&users_lock);
	user = find(uid);
	if (!user) {
		user = made;
		made = NULL;
		user->uid = uid;
		hash_add(by_uid, &user->node, __kuid_val(uid));
	}
	user->holders++;
	spin_unlock_bh(&users_lock);
	kfree(made);
	users->user[users->count++] = user;
	return true;
}

static bool has(const struct users *users, kuid_t uid)
{
	unsigned int i;

	for (i = 0; i < users->count; i++)
		if (uid_eq(users->user[i]->uid, uid))
			return true;
	return false;
}

struct users *users_get(void)
{
	struct users *users = kzalloc(sizeof(*users), GFP_KERNEL_ACCOUNT);
	struct user_namespace *ns;

	if (!users || !hold(users, current_uid()))
		goto put;
	for (ns = current_user_ns(); ns != &init_user_ns; ns = ns->parent) {
		if (uid_eq(ns->owner, GLOBAL_ROOT_UID) || has(users, ns->owner))
			continue;
		if (WARN_ON_ONCE(users->count == MOST_LEVELS) || !hold(users, ns->owner))
			goto put;
	}
	return users;
put:
	users_put(users);
	return NULL;
}

void users_put(struct users *users)
{
	unsigned int i;

	for (i = 0; users && i < users->count; i++) {
		struct user *user = users->user[i];

		spin_lock_bh(&users_lock);
		if (--user->holders)
			user = NULL;
		else
			hash_del(&user->node);
		spin_unlock_bh(&users_lock);
		kfree(user);
	}
	kfree(users);
}

/* ---- how much ---------------------------------------------------------------------------- */

static bool all_may(const struct users *users, u32 most)
{
	unsigned int i;

	for (i = 0; i < users->count; i++)
		if (most < CHARGE || users->user[i]->ranges > most - CHARGE)
			return false;
	return true;
}

/* Charges all users or none, so that a refused charge takes nothing from others meanwhile. */
int users_charge(struct users *users, bool first)
{
	u32 most = READ_ONCE(max_user_slots);
	unsigned int i;
	bool may;

	spin_lock_bh(&users_lock);
	may = all_may(users, first ? most : most - most / 4);
	for (i = 0; may && i < users->count; i++)
		users->user[i]->ranges += CHARGE;
	spin_unlock_bh(&users_lock);
	return may ? 0 : -EDQUOT;
}

void users_uncharge(struct users *users)
{
	unsigned int i;

	spin_lock_bh(&users_lock);
	for (i = 0; i < users->count; i++)
		users->user[i]->ranges -= CHARGE;
	spin_unlock_bh(&users_lock);
}
