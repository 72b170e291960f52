// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/*
 * Random calls of hmreg_kfi, by any number of threads at once, and by handlers of events: whatever
 * docs/kernel.md permits, with faults and late answers. No result is judged, but that all closes in
 * the end.
 */
#include "client.h"
#include "faults.h"

#include <linux/delay.h>
#include <linux/prandom.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#define DOMAINS 3
#define SLOTS   8 /* of each domain */
#define LENGTH  (3 * PAGE_SIZE)

/* Who uses a region of a domain holds `use` to read, who opens or closes the domain to write. */
struct fuzzed {
    struct rw_semaphore use;
    struct kfid_domain *domain;
    struct kfid_eq *eq;
    struct slot {
        struct mutex use;
        struct kfid_mr *mr;
        void *memory;
        int bindings;
    } slots[SLOTS];
};

static struct fuzzed all[DOMAINS];
static atomic_t counts[FUZZ_COUNTS];
static struct rnd_state handlers; /* shared: what it gives is random in any case */

static u32 any(struct rnd_state *random, u32 below)
{
    return prandom_u32_state(random) % below;
}

/* ---- regions ---- */

static int close_slot(struct slot *slot)
{
    int rc;

    if (!slot->mr)
        return 0;
    rc = kfi_close(&slot->mr->fid);
    atomic_inc(&counts[rc ? FUZZ_NOT_CLOSED : FUZZ_CLOSED]);
    if (rc)
        return rc;
    slot->mr = NULL;
    kfree(slot->memory);
    return 0;
}

/* The same with its bindings. */
static int end_slot(struct slot *slot)
{
    while (slot->mr && !hmreg_kfi_unbind(slot->mr))
        ;
    slot->bindings = 0;
    return close_slot(slot);
}

static u64 any_rights(struct rnd_state *random)
{
    return any(random, 16) ? (u64)any(random, 64) << 8 : prandom_u32_state(random);
}

static int reg(struct fuzzed *fuzzed, struct slot *slot, struct rnd_state *random)
{
    struct kvec iov[2] = {{slot->memory, 1 + any(random, PAGE_SIZE)},
                          {slot->memory + PAGE_SIZE * any(random, 3), 1 + any(random, PAGE_SIZE)}};
    struct bio_vec vector = {.bv_page = virt_to_page(slot->memory),
                             .bv_len = 1 + any(random, LENGTH)};
    u64 flags = any(random, 32) == 0, rights = any_rights(random);

    switch (any(random, 3)) {
    case 0:
        return kfi_mr_reg(fuzzed->domain, slot->memory, any(random, LENGTH + 1), rights, 0, 0,
                          flags, &slot->mr, slot);
    case 1:
        return kfi_mr_regv(fuzzed->domain, iov, any(random, 3), rights, 0, 0, flags, &slot->mr,
                           slot);
    default:
        return kfi_mr_regbv(fuzzed->domain, &vector, 1, rights, 0, 0, flags, &slot->mr, slot);
    }
}

static void open_slot(struct fuzzed *fuzzed, struct slot *slot, struct rnd_state *random)
{
    int rc;

    slot->memory = kmalloc(LENGTH, GFP_KERNEL);
    if (!slot->memory)
        return;
    slot->bindings = 0;
    rc = reg(fuzzed, slot, random);
    WARN_ON(!slot->mr != (rc && rc != -EINTR && rc != -ETIMEDOUT));
    atomic_inc(&counts[!rc ? FUZZ_REGISTERED : slot->mr ? FUZZ_GIVEN_UP : FUZZ_REFUSED]);
    if (!slot->mr)
        kfree(slot->memory);
}

static void use_mr(struct slot *slot, struct rnd_state *random)
{
    static struct kfid endpoint = {.fclass = KFI_CLASS_EP};
    struct ib_sge sge[4];

    switch (any(random, 6)) {
    case 0:
        slot->bindings += !kfi_mr_bind(slot->mr, &endpoint, any(random, 8) == 0);
        break;
    case 1:
        hmreg_kfi_sge(kfi_mr_desc(slot->mr), any(random, LENGTH), any(random, LENGTH), sge,
                      any(random, 5));
        break;
    case 2:
        if (any(random, 8) == 0)
            hmreg_kfi_invalidated(slot->mr);
        break;
    default:
        WARN_ON(hmreg_kfi_unbind(slot->mr) != (slot->bindings ? 0 : -KFI_EINVAL));
        slot->bindings -= !!slot->bindings;
    }
}

/* Another thread, or a handler, has it, or the domain is being closed: nothing is done. */
static void use_region(struct fuzzed *fuzzed, struct slot *slot, struct rnd_state *random)
{
    if (!down_read_trylock(&fuzzed->use))
        return;
    if (fuzzed->domain && mutex_trylock(&slot->use)) {
        if (!slot->mr)
            open_slot(fuzzed, slot, random);
        else if (any(random, 2))
            use_mr(slot, random);
        else
            close_slot(slot);
        mutex_unlock(&slot->use);
    }
    up_read(&fuzzed->use);
}

/* ---- domains ---- */

static int close_fuzzed(struct fuzzed *fuzzed)
{
    int rc = 0;

    if (fuzzed->domain)
        rc = kfi_close(&fuzzed->domain->fid);
    if (rc)
        return rc;
    if (fuzzed->domain)
        atomic_inc(&counts[FUZZ_DOMAINS]);
    fuzzed->domain = NULL;
    if (fuzzed->eq)
        rc = kfi_close(&fuzzed->eq->fid);
    if (!rc)
        fuzzed->eq = NULL;
    return rc;
}

static void read_event(struct kfid_eq *eq, struct fuzzed *fuzzed, struct rnd_state *random)
{
    struct kfi_eq_err_entry entry;
    struct slot *slot;
    u32 event;
    ssize_t rc;

    rc = kfi_eq_read(eq, &event, &entry, sizeof(entry), 0);
    if (rc == -KFI_EAVAIL)
        rc = kfi_eq_readerr(eq, &entry, 0);
    if (rc <= 0)
        return;
    atomic_inc(&counts[FUZZ_EVENTS]);
    slot = entry.context;
    if (!mutex_trylock(&slot->use))
        return;
    if (any(random, 2))
        close_slot(slot);
    mutex_unlock(&slot->use);
}

static void on_event(struct kfid_eq *eq, void *context)
{
    struct fuzzed *fuzzed = context;

    atomic_inc(&counts[FUZZ_HANDLED]);
    switch (any(&handlers, 8)) {
    case 0:
        msleep(any(&handlers, 3));
        break;
    case 1:
        if (down_write_trylock(&fuzzed->use)) {
            close_fuzzed(fuzzed);
            up_write(&fuzzed->use);
        }
        break;
    case 2:
        use_region(fuzzed, &fuzzed->slots[any(&handlers, SLOTS)], &handlers);
        break;
    default:
        if (down_read_trylock(&fuzzed->use)) {
            if (fuzzed->domain)
                read_event(eq, fuzzed, &handlers);
            up_read(&fuzzed->use);
        }
    }
}

static void open_fuzzed(struct fuzzed *fuzzed, struct rnd_state *random)
{
    struct hmreg_kfi_attr attr = {.regions = any(random, SLOTS + 1), .pages = any(random, 5)};
    kfi_event_handler handler = any(random, 2) ? on_event : NULL;

    if (fuzzed->eq || hmreg_kfi_domain_open(client_pd, &attr, &fuzzed->domain))
        return;
    if (any(random, 2) || hmreg_kfi_eq_open(handler, fuzzed, &fuzzed->eq))
        return;
    kfi_domain_bind(fuzzed->domain, &fuzzed->eq->fid, KFI_REG_MR);
}

static void change_domain(struct fuzzed *fuzzed, struct rnd_state *random)
{
    int i;

    if (down_write_killable(&fuzzed->use))
        return;
    for (i = 0; i < SLOTS && any(random, 16); i++)
        end_slot(&fuzzed->slots[i]);
    if (fuzzed->domain || fuzzed->eq)
        close_fuzzed(fuzzed);
    else
        open_fuzzed(fuzzed, random);
    up_write(&fuzzed->use);
}

/* ---- all ---- */

static void change_faults(struct rnd_state *random)
{
    static const char *const calls[] = {
        "kzalloc",       "kvmalloc_array", "ib_alloc_mr",  "late_mr", "ib_map_mr_sg", "ib_dereg_mr",
        "ib_dma_map_sg", "ib_post_send",   "ib_modify_qp", "held",    "stuck",        "completion"};

    if (any(random, 2))
        hmreg_kfi_release_held(true);
    else
        hmreg_kfi_arm(calls[any(random, ARRAY_SIZE(calls))], any(random, 4), 1 + any(random, 3));
}

static void fuzz_step(struct rnd_state *random)
{
    struct fuzzed *fuzzed = &all[any(random, DOMAINS)];
    u32 what = any(random, 256);

    if (what < 8)
        change_faults(random);
    else if (what < 12)
        change_domain(fuzzed, random);
    else if (what < 32 && down_read_trylock(&fuzzed->use)) {
        if (fuzzed->eq && fuzzed->domain)
            read_event(fuzzed->eq, fuzzed, random);
        up_read(&fuzzed->use);
    } else
        use_region(fuzzed, &fuzzed->slots[any(random, SLOTS)], random);
}

/* Until a signal kills the thread. */
void fuzz(const struct client_fuzz *call)
{
    struct rnd_state random;
    u32 i;

    prandom_seed_state(&random, call->seed);
    for (i = 0; i < call->steps && !fatal_signal_pending(current); i++) {
        fuzz_step(&random);
        cond_resched();
    }
}

/* Closes all; the first error. */
int fuzz_end(u32 *done)
{
    int i, k, rc = 0;

    hmreg_kfi_arm("", 0, 0);
    hmreg_kfi_release_held(true);
    for (i = 0; i < DOMAINS; i++) {
        /* A handler may have a region, or the domain, for a moment. */
        down_write(&all[i].use);
        for (k = 0; k < SLOTS; k++)
            rc = rc ?: end_slot(&all[i].slots[k]);
        rc = rc ?: close_fuzzed(&all[i]);
        up_write(&all[i].use);
    }
    for (i = 0; done && i < FUZZ_COUNTS; i++)
        done[i] = atomic_read(&counts[i]);
    return rc;
}

void fuzz_init(void)
{
    int i, k;

    for (i = 0; i < DOMAINS; i++) {
        init_rwsem(&all[i].use);
        for (k = 0; k < SLOTS; k++)
            mutex_init(&all[i].slots[k].use);
    }
    prandom_seed_state(&handlers, 1);
}
