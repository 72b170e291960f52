/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See nics.h.
 */
#include "tests/support/nics.h"

#include "core/base/error.h"
#include "core/contract/provider.h"
#include "tests/support/inside.h"
#include "tests/support/test.h"

#include <sched.h>

struct nic nics[NICS_MOST];
atomic_uint nics_keys = 100;
uint32_t nics_mode = HMREG_MR_VIRT_ADDR | HMREG_MR_PROV_KEY;

static int nic_can(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
                   struct hmreg_reason *why)
{
    return 0;
}

static int nic_reg(void *self, const struct provider_request *req, struct hmreg_mr_keys *out,
                   struct hmreg_reason *why)
{
    struct nic *nic = self;
    void (*during)(void) = atomic_exchange(&nic->during, NULL);

    atomic_fetch_add(&nic->regs, 1);
    if (during)
        during();
    if (atomic_load(&nic->hangs)) {
        sem_post(&nic->entered);
        sem_wait(&nic->leave);
    }
    if (atomic_load(&nic->fail))
        return hmreg_fail(atomic_load(&nic->fail), "nic: it fails");
    *out = (struct hmreg_mr_keys){.key = atomic_fetch_add(&nics_keys, 1), .native = nic};
    return 0;
}

static int nic_dereg(void *self, struct hmreg_mr_keys *made)
{
    struct nic *nic = self;

    if (made->native != nic)
        abort(); /* a registration of another NIC */
    if (atomic_exchange(&nic->dereg_hangs, false)) {
        sem_post(&nic->entered);
        sem_wait(&nic->leave);
    }
    atomic_fetch_add(&nic->deregs, 1);
    return 0;
}

static void nic_revoke(void *self, struct hmreg_mr_keys *made)
{
    struct nic *nic = self;

    if (made->native != nic)
        abort();
    atomic_fetch_add(&nic->revokes, 1);
}

static int nic_use(void *self, const struct hmreg_mr_keys *made)
{
    struct nic *nic = self;
    void (*using)(void) = atomic_exchange(&nic->using, NULL);

    atomic_fetch_add(&nic->uses, 1);
    if (using)
        using();
    return made->native == nic ? 0 : hmreg_fail(-EIO, "nic: it has no such registration");
}

static int nic_bind(void *self, const struct hmreg_mr_keys *made, void *object, uint64_t flags)
{
    return nic_use(self, made);
}

static int nic_refresh(void *self, const struct hmreg_mr_keys *made, const struct iovec *iov,
                       size_t count, uint64_t flags)
{
    return nic_use(self, made);
}

/* The NIC's number. */
static int nic_raw_key(void *self, const struct hmreg_mr_keys *made, uint64_t *base, uint8_t *key,
                       size_t *size)
{
    struct nic *nic = self;

    *base = 0;
    *size = 1;
    *key = (uint8_t)(nic - nics);
    return nic_use(self, made);
}

static const struct provider_ops nic_ops = {.name = "nic",
                                            .can = nic_can,
                                            .reg = nic_reg,
                                            .dereg = nic_dereg,
                                            .revoke = nic_revoke,
                                            .bind = nic_bind,
                                            .enable = nic_use,
                                            .refresh = nic_refresh,
                                            .raw_key = nic_raw_key};

struct hmreg_domain *nic_open(struct hmreg *lib, unsigned number)
{
    struct provider_caps caps = {.mr_mode = nics_mode,
                                 .key_size = 8,
                                 .iov_limit = 1,
                                 .max_len = UINT64_MAX,
                                 .any_thread = true};
    struct nic *nic = &nics[number];

    snprintf(caps.fabric, sizeof(caps.fabric), "nic%u", number);
    *nic = (struct nic){.fail = 0};
    sem_init(&nic->entered, 0, 0);
    sem_init(&nic->leave, 0, 0);
    assert_ok(hmreg_domain_create(lib, &nic_ops, &caps, nic, NULL, &nic->domain));
    return nic->domain;
}

struct hmreg_group_member nic_member(struct hmreg_domain *group, size_t member)
{
    struct hmreg_group_member info = {.size = sizeof(info)};

    assert_ok(hmreg_group_query(group, member, &info));
    return info;
}

struct hmreg_group_member nic_replaced(struct hmreg_domain *group, size_t member)
{
    struct hmreg_group_member info;

    while ((info = nic_member(group, member)).state == HMREG_MEMBER_REPLACING)
        sched_yield();
    while (inside_is_replacing(group))
        sched_yield();
    return info;
}
