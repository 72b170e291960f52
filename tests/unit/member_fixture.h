/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A group of three NICs that count their calls, of which one is withdrawn and replaced.
 */
#ifndef HMREG_TESTS_UNIT_MEMBER_FIXTURE_H
#define HMREG_TESTS_UNIT_MEMBER_FIXTURE_H

#include "tests/support/nics.h"
#include "tests/support/queries.h"
#include "tests/support/vendors.h"

#include <hmreg/lost.h>

#define LEN    4096
#define RAILS  3
#define BROKEN 1 /* the member that is withdrawn */
#define NEW    5 /* the NIC that comes in its place */
#define GPU    65536

static char memory[16][LEN] __attribute__((aligned(LEN)));
static struct hmreg *lib;
static struct hmreg_domain *group, *spare;
static char *gpu;

/* A lost one's thread may be in the fabric yet. */
static inline void close_nic(struct hmreg_domain *domain)
{
    int rc;

    do
        rc = hmreg_domain_close(domain);
    while (rc == -EBUSY && test_domain_info(domain).lost[0]);
    assert_ok(rc);
}

static inline void close_all(void)
{
    assert_ok(hmreg_domain_close(group));
    for (unsigned i = 0; i < NICS_MOST; i++) {
        if (nics[i].domain)
            close_nic(nics[i].domain);
        if (!atomic_load(&nics[i].fail))
            assert_int_equal(atomic_load(&nics[i].regs), atomic_load(&nics[i].deregs));
        nics[i] = (struct nic){.fail = 0};
    }
    vendor_memory_free(gpu);
    assert_ok(hmreg_close(lib));
}

static inline void open_flagged(uint32_t flags, uint64_t domain_flags)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};
    struct hmreg_domain_config own = {.size = sizeof(own), .flags = domain_flags};
    struct hmreg_group_config grouped = {.size = sizeof(grouped), .flags = flags, .domain = &own};
    struct hmreg_domain *members[RAILS];

    vendors_reset();
    assert_ok(hmreg_open(&config, &lib));
    for (unsigned i = 0; i < RAILS; i++)
        members[i] = nic_open(lib, i);
    spare = nic_open(lib, NEW);
    gpu = vendor_memory(HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE, GPU);
    assert_ok(hmreg_group_open(lib, members, RAILS, &grouped, &group));
    test_after(close_all);
}

static inline void open_all(void)
{
    open_flagged(0, 0);
}

static inline struct hmreg_mr *reg(void *addr, size_t len)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_reg(group, addr, len, HMREG_ACCESS_ALL, 0, 0, 0, &mr, NULL));
    return mr;
}

static inline struct hmreg_mr *get(void *addr, size_t len)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(group, addr, len, HMREG_ACCESS_REMOTE, &mr));
    return mr;
}

static inline uint32_t generation(const struct hmreg_mr *mr)
{
    return hmreg_mr_head_of(mr)->generation;
}

/* So many calls were made on the two other members by now, and no more. */
static inline void assert_survivors(unsigned regs, unsigned deregs)
{
    for (unsigned i = 0; i < RAILS; i++) {
        if (i == BROKEN)
            continue;
        assert_int_equal(atomic_load(&nics[i].regs), regs);
        assert_int_equal(atomic_load(&nics[i].deregs), deregs);
    }
}

static inline void assert_without_broken(const struct hmreg_mr *mr)
{
    const struct hmreg_mr_head *head = hmreg_mr_head_of(mr);
    size_t parts = head->count / RAILS;

    assert_null(hmreg_mr_rail(mr, BROKEN));
    assert_int_equal(hmreg_last_error()->code, -ENODEV);
    assert_non_null(strstr(hmreg_last_error()->text, "cable cut"));
    for (size_t i = 0; i < head->count; i++) {
        assert_int_equal(head->keys[i].key == HMREG_KEY_NOTAVAIL, i / parts == BROKEN);
        assert_int_equal(head->keys[i].native == NULL, i / parts == BROKEN);
    }
    assert_non_null(hmreg_mr_rail(mr, 0));
    assert_non_null(hmreg_mr_rail(mr, 2));
}

static inline void assert_whole(const struct hmreg_mr *mr)
{
    const struct hmreg_mr_head *head = hmreg_mr_head_of(mr);
    size_t parts = head->count / RAILS;

    for (size_t i = 0; i < head->count; i++)
        assert_ptr_equal(head->keys[i].native, i / parts == BROKEN ? &nics[NEW] : &nics[i / parts]);
    assert_non_null(hmreg_mr_rail(mr, BROKEN));
}

static inline void withdraw(void)
{
    assert_ok(hmreg_group_withdraw(group, BROKEN, "cable cut"));
}

static inline struct hmreg_group_member replace(void)
{
    assert_ok(hmreg_group_replace(group, BROKEN, spare));
    return nic_replaced(group, BROKEN);
}

#endif
