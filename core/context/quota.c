/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See quota.h.
 */
#include "core/context/quota.h"

#include <hmreg/hmreg.h>

void quota_init(struct quota *quota, uint64_t max_regions, uint64_t max_bytes)
{
    *quota = (struct quota){.max_regions = max_regions, .max_bytes = max_bytes};
    pthread_mutex_init(&quota->lock, NULL);
}

void quota_destroy(struct quota *quota)
{
    pthread_mutex_destroy(&quota->lock);
}

bool quota_never_fits(const struct quota *quota, uint64_t bytes)
{
    return !quota->max_regions || bytes > quota->max_bytes;
}

/* ---- with the lock held ----------------------------------------------------------------- */

static enum quota_answer ask(const struct quota *quota, uint64_t bytes)
{
    if (quota_never_fits(quota, bytes))
        return QUOTA_NEVER;
    if (quota->regions >= quota->max_regions || quota->bytes > quota->max_bytes - bytes)
        return QUOTA_FULL;
    return QUOTA_TAKEN;
}

/* ---- taking the lock --------------------------------------------------------------------- */

enum quota_answer quota_take(struct quota *quota, uint64_t bytes)
{
    enum quota_answer answer;

    pthread_mutex_lock(&quota->lock);
    answer = ask(quota, bytes);
    if (answer == QUOTA_TAKEN) {
        quota->regions++;
        quota->bytes += bytes;
    }
    pthread_mutex_unlock(&quota->lock);
    return answer;
}

void quota_give(struct quota *quota, uint64_t regions, uint64_t bytes)
{
    pthread_mutex_lock(&quota->lock);
    quota->regions -= regions;
    quota->bytes -= bytes;
    pthread_mutex_unlock(&quota->lock);
}

bool quota_is_limit(const struct quota *quota)
{
    return quota->max_regions != HMREG_LIMIT_NONE || quota->max_bytes != HMREG_LIMIT_NONE;
}
