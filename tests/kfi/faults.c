/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * kfi_mr(3) in the kernel: each call of the kernel's verbs fails once, the pool of regions and its
 * limits, keys that a peer ends, unloading and a device that goes. */
#include "tests/kfi/peer.h"
#include "tests/support/test.h"

#include <pthread.h>
#include <stdatomic.h>

#define PAGE 4096u

static const struct client_open pooled = {.regions = 3, .pages = 8};

/* The region is as it should be, and is closed. */
static void works(struct peer *peer, const struct client_reg *reg)
{
    assert_int_equal(reg->rc, 0);
    peer_round_trip(peer, reg);
    assert_int_equal(peer_close_region(peer, reg->index), 0);
}

static void next_one_works(struct peer *peer)
{
    struct client_reg reg = peer_reg(peer, MEMORY_VMALLOC, RIGHTS_BOTH);

    works(peer, &reg);
}

/* ---- each call that can fail ---- */

static const struct {
    const char *call;
    int error;
} of_open[] = {
    {"kzalloc", -ENOMEM},       {"ib_alloc_cq_any", -ENOMEM}, {"ib_create_qp", -ENOMEM},
    {"ib_query_port", -ENODEV}, {"ib_modify_qp", -EINVAL},    {"kvmalloc_array", -ENOMEM},
    {"ib_alloc_mr", -ENOMEM},
};

/* Each of the calls of that name, until the open succeeds. */
static void open_fails(struct peer *peer, const char *call, int error)
{
    unsigned nth = 0;

    for (;; nth++) {
        int rc;

        peer_fault(peer, call, nth, 1);
        rc = peer_open_domain(peer, &pooled);
        if (!peer_faults(peer)) {
            assert_int_equal(rc, 0);
            break;
        }
        if (rc != error)
            fail_msg("%s, %u: %d, not %d", call, nth, rc, error);
    }
    if (!nth)
        fail_msg("%s is never called", call);
    assert_int_equal(peer_call(peer, CLIENT_FINISH, NULL), 0);
}

TEST(open__each_call_fails__its_error_and_nothing_stays)
{
    struct peer peer;

    peer_open(&peer);
    for (unsigned i = 0; i < sizeof(of_open) / sizeof(of_open[0]); i++)
        open_fails(&peer, of_open[i].call, of_open[i].error);
    /* All GIDs of the table. */
    peer_fault(&peer, "rdma_get_gid_attr", 0, 10000);
    assert_int_equal(peer_open_domain(&peer, NULL), -ENODEV);
    assert_true(peer_faults(&peer) > 0);
    peer_close(&peer);
}

TEST(open__infiniband_port_that_requires_a_route__connected)
{
    struct peer peer;

    peer_open(&peer);
    peer_connect(&peer);
    peer_fault(&peer, "rdma_ah_find_type,rdma_query_gid", 0, 2);
    assert_int_equal(peer_open_domain(&peer, NULL), -ENOENT);
    assert_int_equal(peer_faults(&peer), 2);
    peer_fault(&peer, "rdma_ah_find_type", 0, 1);
    assert_int_equal(peer_open_domain(&peer, NULL), 0);
    assert_int_equal(peer_faults(&peer), 1);
    next_one_works(&peer);
    peer_close(&peer);
}

TEST(eq_and_bind__memory_is_short__enomem)
{
    const struct client_open open = {.asynchronous = 1, .handler = HANDLER_COUNTS};
    static const struct {
        const char *call;
        unsigned skip;
    } faults[] = {{"kzalloc", 1}, {"alloc_workqueue", 0}, {"alloc_workqueue", 1}};
    struct peer peer;

    peer_open(&peer);
    for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        peer_fault(&peer, faults[i].call, faults[i].skip, 1);
        assert_int_equal(peer_open_domain(&peer, &open), -ENOMEM);
        assert_int_equal(peer_faults(&peer), 1);
        assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    }
    assert_int_equal(peer_open_domain(&peer, &open), 0);
    peer_close(&peer);
}

/* Some devices report a work request that failed as one that was flushed, which the module tries
 * again. */
static void device_refuses(struct peer *peer, struct client_reg *reg)
{
    peer_fault(peer, "completion", 0, PEER_TRIES);
    *reg = peer_reg(peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    assert_true(peer_faults(peer) > 0);
    assert_int_equal(reg->rc, -EIO);
}

static void reg_fails(struct peer *peer, const char *call, int error)
{
    struct client_reg reg;

    if (!strcmp(call, "completion")) {
        device_refuses(peer, &reg);
    } else {
        peer_fault(peer, call, 0, 1);
        reg = peer_reg(peer, MEMORY_VMALLOC, RIGHTS_BOTH);
        assert_int_equal(peer_faults(peer), 1);
    }
    if (reg.rc != error)
        fail_msg("%s: %d, not %d", call, reg.rc, error);
    assert_int_equal(reg.output_untouched, 1);
    next_one_works(peer);
}

TEST(reg__each_call_fails__its_error_and_the_next_succeeds)
{
    struct peer peer;

    peer_start(&peer, NULL);
    reg_fails(&peer, "kzalloc", -ENOMEM);
    reg_fails(&peer, "kvmalloc_array", -ENOMEM);
    reg_fails(&peer, "ib_alloc_mr", -ENOMEM);
    reg_fails(&peer, "ib_dma_map_sg", -EIO);
    reg_fails(&peer, "ib_map_mr_sg", -ENOMEM);
    reg_fails(&peer, "ib_post_send", -ENOMEM);
    reg_fails(&peer, "completion", -EIO);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    peer_close(&peer);
}

/* A device whose driver maps memory by bounce buffers. */
TEST(reg__memory_that_the_device_reaches_by_copies__opnotsupp)
{
    struct peer peer;

    peer_start(&peer, NULL);
    for (unsigned memory = MEMORY_KMALLOC; memory <= MEMORY_LIST; memory++) {
        struct client_reg reg;

        /* One of its pages is enough. */
        peer_fault(&peer, "ib_uses_virt_dma", 1, 1);
        reg = peer_reg(&peer, memory, memory % 2 ? RIGHTS_BOTH : RIGHT_RECV);
        assert_int_equal(peer_faults(&peer), 1);
        assert_int_equal(reg.rc, -EOPNOTSUPP);
        assert_int_equal(reg.output_untouched, 1);
        next_one_works(&peer);
    }
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    peer_close(&peer);
}

TEST(pool__each_call_fails__its_error_and_all_regions_are_left)
{
    struct peer peer;

    peer_start(&peer, &pooled);
    for (unsigned i = 0; i < 4; i++) {
        reg_fails(&peer, "ib_dma_map_sg", -EIO);
        reg_fails(&peer, "ib_map_mr_sg", -ENOMEM);
        reg_fails(&peer, "ib_post_send", -ENOMEM);
        reg_fails(&peer, "completion", -EIO);
    }
    peer_close(&peer);
}

TEST(queue_pair__cannot_be_restarted__error_until_it_can)
{
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, &pooled);
    for (unsigned step = 0; step < 5; step++) {
        device_refuses(&peer, &reg);
        peer_fault(&peer, "ib_modify_qp", step, 1);
        reg = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);
        assert_int_equal(peer_faults(&peer), 1);
        assert_int_equal(reg.rc, -EINVAL);
        next_one_works(&peer);
    }
    peer_close(&peer);
}

/* The event of one of the registrations; its region's index. */
static unsigned next_event(struct peer *peer, unsigned *errors)
{
    struct client_event event;

    do {
        event = (struct client_event){.error = 0};
        assert_int_equal(peer_call(peer, CLIENT_EVENT, &event), 0);
    } while (event.rc == -EAGAIN);
    if (event.rc == -ERROR_AVAIL) {
        event = (struct client_event){.error = 1};
        assert_int_equal(peer_call(peer, CLIENT_EVENT, &event), 0);
        ++*errors;
    }
    assert_true(event.rc > 0);
    return event.index;
}

TEST(queue_pair__fails_while_others_register__they_succeed)
{
    enum { COUNT = 20 };
    const struct client_open open = {.asynchronous = 1};
    struct client_reg reg[COUNT];
    unsigned errors = 0;
    struct peer peer;

    peer_start(&peer, &open);
    for (unsigned round = 0; round < 5; round++) {
        bool failed[COUNT] = {false};

        peer_fault(&peer, "completion", 3 * round, 1);
        for (unsigned i = 0; i < COUNT; i++)
            reg[i] = peer_reg(&peer, MEMORY_PAGES, RIGHTS_BOTH);
        for (unsigned i = 0; i < COUNT; i++) {
            unsigned before = errors, index = next_event(&peer, &errors);

            failed[index] = errors > before;
        }
        assert_int_equal(peer_faults(&peer), 1);
        assert_true(errors <= round + 1);
        for (unsigned i = 0; i < COUNT; i++) {
            assert_int_equal(reg[i].rc, 0);
            assert_int_equal(peer_call(&peer, CLIENT_KEYS, &reg[i]), 0);
            if (failed[reg[i].index])
                assert_int_equal(peer_close_region(&peer, reg[i].index), 0);
            else
                works(&peer, &reg[i]);
        }
    }
    peer_close(&peer);
}

TEST(client_queue_pair__fails__error_and_regions_still_close)
{
    const struct client_open open = {
        .client_qp = QP_CONNECTED_TO_PROGRAM, .sends = 4, .regions = 2, .pages = 8};
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, &open);
    reg = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    assert_int_equal(reg.rc, 0);
    peer_fault(&peer, "completion", 0, 1);
    assert_int_equal(peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH).rc, -EIO);
    /* Its queue pair is in the error state, and the client's own matter. */
    assert_int_equal(peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH).rc, -EIO);
    assert_int_equal(peer_close_region(&peer, reg.index), 0);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    peer_close(&peer);
}

/* ---- closing fails ---- */

TEST(close__device_does_not_end_it__stays_and_closes_later)
{
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, NULL);
    reg = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    peer_fault(&peer, "ib_dereg_mr", 0, 1);
    assert_int_equal(peer_close_region(&peer, reg.index), -EBUSY);
    assert_int_equal(peer_faults(&peer), 1);
    works(&peer, &reg);
    peer_close(&peer);
}

TEST(undo__device_does_not_end_it__the_domain_does_later)
{
    struct peer peer;

    peer_start(&peer, NULL);
    /* What was allocated for a registration that fails cannot be undone. */
    peer_fault(&peer, "ib_map_mr_sg,ib_dereg_mr", 0, 2);
    assert_int_equal(peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH).rc, -ENOMEM);
    peer_fault(&peer, "ib_dereg_mr", 0, 1);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), -EBUSY);
    assert_int_equal(peer_faults(&peer), 1);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    peer_close(&peer);
}

TEST(domain_close__device_keeps_a_region_of_the_pool__closes_later)
{
    struct peer peer;

    peer_start(&peer, &pooled);
    peer_fault(&peer, "ib_dereg_mr", 1, 1);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), -EBUSY);
    assert_int_equal(peer_faults(&peer), 1);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    peer_close(&peer);
}

/* ---- the pool ---- */

TEST(pool__limits__exact)
{
    struct client_reg reg[3], big = {.memory = MEMORY_COUNT, .access = RIGHTS_BOTH};
    struct peer peer;

    peer_start(&peer, &pooled);
    big.length = 9;
    peer_reg_as(&peer, &big);
    assert_int_equal(big.rc, -E2BIG);
    big.access = RIGHT_SEND;
    big.length = 9;
    peer_reg_as(&peer, &big);
    assert_int_equal(big.rc, -E2BIG);
    for (unsigned i = 0; i < 3; i++) {
        reg[i] = (struct client_reg){
            .memory = MEMORY_COUNT, .access = i ? RIGHTS_BOTH : RIGHT_SEND, .length = 8};
        peer_reg_as(&peer, &reg[i]);
        assert_int_equal(reg[i].rc, 0);
    }
    assert_int_equal(peer_reg(&peer, MEMORY_KMALLOC, RIGHTS_BOTH).rc, -EAGAIN);
    works(&peer, &reg[2]);
    assert_int_equal(peer_close_region(&peer, reg[0].index), 0);
    next_one_works(&peer);
    works(&peer, &reg[1]);
    peer_close(&peer);
}

TEST(pool__register_and_close__no_allocation)
{
    struct client_close close = {.rc = 0};
    struct peer peer;

    peer_start(&peer, &pooled);
    for (unsigned i = 0; i < 10; i++) {
        struct client_reg reg =
            peer_reg(&peer, i % 2 ? MEMORY_LIST : MEMORY_VMALLOC, i % 3 ? RIGHTS_BOTH : RIGHT_SEND);

        assert_int_equal(reg.rc, 0);
        assert_int_equal(reg.allocations, 0);
        close.index = reg.index;
        assert_int_equal(peer_call(&peer, CLIENT_CLOSE, &close), 0);
        assert_int_equal(close.rc, 0);
        assert_int_equal(close.allocations, 0);
    }
    peer_close(&peer);
}

TEST(reg__allocates__never_waits_for_io)
{
    const struct client_open open = {.asynchronous = 1};
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, NULL);
    for (unsigned memory = MEMORY_KMALLOC; memory <= MEMORY_LIST; memory++) {
        reg = peer_reg(&peer, memory, RIGHTS_BOTH);
        assert_int_equal(reg.rc, 0);
        assert_true(reg.allocations > 0);
        assert_int_equal(reg.with_io, 0);
    }
    peer_close(&peer);
    peer_start(&peer, &open);
    reg = peer_reg(&peer, MEMORY_KMALLOC, RIGHTS_BOTH);
    assert_true(reg.allocations > 0);
    assert_int_equal(reg.with_io, 0);
    peer_close(&peer);
}

/* Its first piece is what Soft-RoCE registers of it. */
static void bridges_a_gap(struct peer *peer, unsigned allocations)
{
    struct client_bytes bytes = {.seed = 21};
    struct client_reg reg;

    peer_fault(peer, "IBK_SG_GAPS_REG", 0, 1);
    reg = peer_reg(peer, MEMORY_GAP, RIGHTS_BOTH);
    assert_int_equal(peer_faults(peer), 1);
    assert_int_equal(reg.rc, 0);
    assert_int_equal(reg.length, 200);
    assert_int_equal(reg.allocations, allocations);
    bytes.index = reg.index;
    assert_int_equal(peer_call(peer, CLIENT_BYTES, &bytes), 0);
    assert_int_equal(peer_rdma(peer, IBV_WR_RDMA_READ, reg.iova, reg.key, 100), IBV_WC_SUCCESS);
    assert_int_equal(peer_count_wrong(peer->buffer, 100, 21), 0);
    assert_int_equal(peer_close_region(peer, reg.index), 0);
}

TEST(regv__gap_that_the_device_bridges__one_region)
{
    const struct client_open one = {.regions = 1, .pages = 8};
    struct peer peer;

    peer_start(&peer, NULL);
    bridges_a_gap(&peer, 3); /* the region, its elements, its ib_mr */
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    /* A pool's region changes its ib_mr once. */
    assert_int_equal(peer_open_domain(&peer, &one), 0);
    next_one_works(&peer);
    bridges_a_gap(&peer, 1);
    bridges_a_gap(&peer, 0);
    next_one_works(&peer);
    assert_int_equal(peer_reg(&peer, MEMORY_GAP, RIGHTS_BOTH).rc, -EINVAL);
    peer_close(&peer);
}

static struct client_event error_of(struct peer *peer, const char *call, unsigned times)
{
    struct client_event event = {.rc = -EAGAIN};
    struct client_reg reg;

    peer_fault(peer, call, 0, times);
    reg = peer_reg(peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    assert_int_equal(reg.rc, 0);
    while (event.rc == -EAGAIN) {
        event = (struct client_event){.error = 1};
        assert_int_equal(peer_call(peer, CLIENT_EVENT, &event), 0);
    }
    assert_int_equal(event.index, reg.index);
    assert_true(peer_faults(peer) > 0);
    assert_int_equal(peer_close_region(peer, reg.index), 0);
    return event;
}

TEST(pool__error_event__status_of_its_own_request)
{
    const struct client_open open = {.asynchronous = 1, .regions = 1, .pages = 8};
    struct client_event event;
    struct peer peer;

    peer_start(&peer, &open);
    event = error_of(&peer, "completion", PEER_TRIES);
    assert_int_equal(event.err, EIO);
    assert_string_not_equal(event.text, "success");
    /* The same region, of which no work request is posted. */
    event = error_of(&peer, "ib_map_mr_sg", 1);
    assert_int_equal(event.err, ENOMEM);
    assert_string_equal(event.text, "success");
    peer_close(&peer);
}

TEST(pool__key_of_the_region_before__denied)
{
    const struct client_open one = {.regions = 1, .pages = 8};
    struct client_reg before, now;
    struct peer peer;

    peer_start(&peer, &one);
    before = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    assert_int_equal(peer_close_region(&peer, before.index), 0);
    assert_int_equal(peer_rdma(&peer, IBV_WR_RDMA_READ, before.iova, before.key, 8),
                     IBV_WC_REM_ACCESS_ERR);
    peer_connect(&peer);
    now = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    assert_int_equal(now.key >> 8, before.key >> 8); /* the same of the device's */
    assert_int_equal(peer_rdma(&peer, IBV_WR_RDMA_READ, before.iova, before.key, 8),
                     IBV_WC_REM_ACCESS_ERR);
    peer_connect(&peer);
    works(&peer, &now);
    peer_close(&peer);
}

/* The client knows it, from its receive, and says so; or not, and then a device refuses to end the
 * key again, which Soft-RoCE does not. */
TEST(pool__key_ended_by_the_peer__closed_and_used_again)
{
    struct peer peer;

    peer_start(&peer, &pooled);
    for (unsigned told = 0; told < 2; told++) {
        struct client_reg other = peer_reg(&peer, MEMORY_KMALLOC, RIGHTS_BOTH);

        for (unsigned i = 0; i < 3; i++) {
            struct client_reg reg = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);

            assert_int_equal(reg.rc, 0);
            assert_int_equal(peer_send_with_invalidate(&peer, reg.key), IBV_WC_SUCCESS);
            if (told)
                assert_int_equal(peer_call(&peer, CLIENT_INVALIDATED, (void *)(uintptr_t)reg.index),
                                 0);
            peer_fault(&peer, "completion", 0, PEER_TRIES);
            assert_int_equal(peer_close_region(&peer, reg.index), 0);
            assert_int_equal(peer_faults(&peer) > 0, !told);
            reg = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);
            assert_int_equal(reg.allocations, !told);
            works(&peer, &reg);
            peer_connect(&peer); /* a receive for the next */
        }
        works(&peer, &other);
    }
    peer_close(&peer);
}

/* ---- ends ---- */

TEST(unload__in_use__refused_and_later_done)
{
    struct peer peer;

    peer_start(&peer, NULL);
    assert_int_equal(peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH).rc, 0);
    assert_int_equal(peer_unload("hmreg_kfi_client"), -EAGAIN);
    assert_int_equal(peer_unload("hmreg_kfi"), -EAGAIN);
    peer_close(&peer);
    assert_int_equal(peer_unload("hmreg_kfi_client"), 0);
    assert_int_equal(peer_unload("hmreg_kfi"), 0);
    peer_start(&peer, NULL);
    next_one_works(&peer);
    peer_close(&peer);
}

/* Registrations that have not had their event when all ends. */
TEST(close__all_while_registrations_are_under_way__nothing_stays)
{
    const struct client_open open = {.asynchronous = 1, .handler = HANDLER_COUNTS};
    struct peer peer;

    for (unsigned round = 0; round < 5; round++) {
        peer_start(&peer, &open);
        for (unsigned i = 0; i < 20; i++)
            assert_int_equal(peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH).rc, 0);
        peer_close(&peer);
    }
    assert_int_equal(peer_unload("hmreg_kfi_client"), 0);
    assert_int_equal(peer_unload("hmreg_kfi"), 0);
}

struct target {
    struct peer *peer;
    uint64_t address, key;
};

static atomic_uint writes;

static void *write_until_denied(void *argument)
{
    const struct target *target = argument;
    int status;

    do {
        status = peer_rdma(target->peer, IBV_WR_RDMA_WRITE, target->address, target->key, 16000);
        atomic_fetch_add(&writes, 1);
    } while (status == IBV_WC_SUCCESS);
    return (void *)(uintptr_t)status;
}

TEST(close__while_a_peer_writes__denied_from_then_on)
{
    struct peer peer;

    peer_start(&peer, NULL);
    for (unsigned round = 0; round < 5; round++) {
        struct client_reg reg = peer_reg(&peer, MEMORY_PAGES, RIGHTS_BOTH);
        struct target target;
        pthread_t thread;
        void *status;

        assert_int_equal(reg.rc, 0);
        atomic_store(&writes, 0);
        target = (struct target){&peer, reg.iova, reg.key};
        assert_int_equal(pthread_create(&thread, NULL, write_until_denied, &target), 0);
        test_wait_until(atomic_load(&writes) > round);
        assert_int_equal(peer_close_region(&peer, reg.index), 0);
        assert_int_equal(pthread_join(thread, &status), 0);
        assert_int_equal((uintptr_t)status, IBV_WC_REM_ACCESS_ERR);
        peer_connect(&peer);
    }
    peer_close(&peer);
}

static void run(const char *command)
{
    if (system(command))
        fail_msg("%s failed", command);
}

TEST(device__goes_while_regions_are_open__client_ends_them)
{
    struct peer peer;

    peer_start(&peer, NULL);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(peer_reg(&peer, MEMORY_PAGES, RIGHTS_BOTH).rc, 0);
    run("rdma link del rxe0");
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), -ENODEV);
    peer_close(&peer);
    run(RDMA_UP);
    peer_start(&peer, NULL);
    next_one_works(&peer);
    peer_close(&peer);
    assert_int_equal(peer_unload("hmreg_kfi_client"), 0);
    assert_int_equal(peer_unload("hmreg_kfi"), 0);
}

TEST_MAIN()
