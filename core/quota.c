/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See quota.h.
 */
#include "core/quota.h"

#include "core/quiet.h"

void quota_init(struct quota *quota, uint64_t max_regions, uint64_t max_bytes)
{
    *quota = (struct quota){.max_regions = max_regions, .max_bytes = max_bytes};
    pthread_mutex_init(&quota->lock, NULL);
}

void quota_destroy(struct quota *quota)
{
    pthread_mutex_destroy(&quota->lock);
}

void quota_change(struct quota *quota, uint64_t max_regions, uint64_t max_bytes)
{
    quiet_lock(&quota->lock);
    quota->max_regions = max_regions;
    quota->max_bytes = max_bytes;
    quiet_unlock(&quota->lock);
}

/* With the lock held. */
static enum quota_answer ask(const struct quota *quota, uint64_t bytes)
{
    if (!quota->max_regions || bytes > quota->max_bytes)
        return QUOTA_NEVER;
    if (quota->regions >= quota->max_regions || quota->bytes > quota->max_bytes - bytes)
        return QUOTA_FULL;
    return QUOTA_TAKEN;
}

enum quota_answer quota_take(struct quota *quota, uint64_t bytes)
{
    enum quota_answer answer;

    quiet_lock(&quota->lock);
    answer = ask(quota, bytes);
    if (answer == QUOTA_TAKEN) {
        quota->regions++;
        quota->bytes += bytes;
    }
    quiet_unlock(&quota->lock);
    return answer;
}

void quota_give(struct quota *quota, uint64_t bytes)
{
    quiet_lock(&quota->lock);
    quota->regions--;
    quota->bytes -= bytes;
    quiet_unlock(&quota->lock);
}

bool quota_is_exceeded(struct quota *quota)
{
    bool exceeded;

    quiet_lock(&quota->lock);
    exceeded = quota->regions > quota->max_regions || quota->bytes > quota->max_bytes;
    quiet_unlock(&quota->lock);
    return exceeded;
}
