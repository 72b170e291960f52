/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * kfi_mr(3) in the kernel: each call, each kind of memory, rights, ends, bindings, events. A peer
 * reads and writes the bytes by RDMA. */
#include "tests/kfi/peer.h"
#include "tests/support/softgpu.h"
#include "tests/support/test.h"

#include <sys/mman.h>

#define PAGE 4096u

static void round_trip_of(struct peer *peer, unsigned memory)
{
    struct client_reg reg = peer_reg(peer, memory, RIGHTS_BOTH);

    assert_int_equal(reg.rc, 0);
    assert_true(reg.iova < PAGE); /* no address of the kernel's */
    peer_round_trip(peer, &reg);
    assert_int_equal(peer_close_region(peer, reg.index), 0);
}

static void round_trip(unsigned memory)
{
    struct peer peer;

    peer_start(&peer, NULL);
    round_trip_of(&peer, memory);
    peer_close(&peer);
}

/* ---- the calls, and kinds of memory ---- */

TEST(reg__kmalloc_memory_that_begins_anywhere__every_byte)
{
    round_trip(MEMORY_KMALLOC);
}

TEST(regv__vmalloc_pages_out_of_order__one_region)
{
    round_trip(MEMORY_VMALLOC);
}

TEST(regv__halves_of_a_page__one_region)
{
    round_trip(MEMORY_HALVES);
}

TEST(regbv__pages__one_region)
{
    round_trip(MEMORY_PAGES);
}

TEST(regsgl__mapped_list__one_region)
{
    round_trip(MEMORY_LIST);
}

TEST(regattr__means_what_reg_means)
{
    round_trip(MEMORY_ATTR);
}

TEST(client_queue_pair__each_call__every_byte)
{
    const struct client_open open = {.client_qp = QP_CONNECTED_TO_PROGRAM};
    struct peer peer;

    peer_start(&peer, &open);
    for (unsigned memory = MEMORY_KMALLOC; memory <= MEMORY_LIST; memory++)
        round_trip_of(&peer, memory);
    peer_close(&peer);
}

TEST(regbv__pages_of_a_program__every_byte_is_in_its_memory)
{
    struct client_reg reg = {.memory = MEMORY_USER, .access = RIGHTS_BOTH, .length = 3 * PAGE + 9};
    uint8_t *mine = test_map(5 * PAGE);
    struct peer peer;

    peer_start(&peer, NULL);
    reg.address = (uintptr_t)mine + 77;
    peer_reg_as(&peer, &reg);
    assert_int_equal(reg.rc, 0);
    peer_fill(peer.buffer, reg.length, 5);
    peer_write(&peer, reg.iova, reg.key, reg.length);
    assert_int_equal(peer_count_wrong(mine + 77, reg.length, 5), 0);
    assert_int_equal(mine[76], 0);
    assert_int_equal(mine[77 + reg.length], 0);
    peer_close(&peer);
    munmap(mine, 5 * PAGE);
}

TEST(regbv__pages_of_a_dmabuf__every_byte_is_in_it)
{
    struct client_reg reg = {.memory = MEMORY_DMABUF, .access = RIGHTS_BOTH};
    struct peer peer;
    uint8_t *bytes;

    softgpu_set("nvidia", "0");
    softgpu_set("pages", "1");
    reg.fd = softgpu_alloc(4 * PAGE, 0);
    bytes = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, reg.fd, 0);
    assert_ptr_not_equal(bytes, MAP_FAILED);
    peer_start(&peer, NULL);
    peer_reg_as(&peer, &reg);
    close(reg.fd);
    assert_int_equal(reg.rc, 0);
    assert_int_equal(reg.length, 4 * PAGE);
    peer_fill(peer.buffer, reg.length, 5);
    peer_write(&peer, reg.iova, reg.key, reg.length);
    assert_int_equal(peer_count_wrong(bytes, reg.length, 5), 0);
    peer_close(&peer);
    munmap(bytes, 4 * PAGE);
}

/* ---- limits ---- */

static unsigned max_pages(struct peer *peer)
{
    struct client_open open = {0};

    assert_int_equal(peer_call(peer, CLIENT_OPEN, &open), 0);
    assert_int_equal(open.rc, 0);
    return open.max_pages;
}

TEST(regv__as_many_pages_as_the_device_takes__one_more_is_too_big)
{
    struct client_reg reg = {.memory = MEMORY_COUNT, .access = RIGHTS_BOTH};
    struct peer peer;
    unsigned most;

    peer_open(&peer);
    peer_connect(&peer);
    most = max_pages(&peer);
    reg.length = most + 1;
    peer_reg_as(&peer, &reg);
    assert_int_equal(reg.rc, -E2BIG);
    assert_int_equal(reg.output_untouched, 1);
    reg.length = most;
    peer_reg_as(&peer, &reg);
    assert_int_equal(reg.rc, 0);
    assert_true(reg.length <= peer.size);
    peer_round_trip(&peer, &reg);
    /* Local rights take no list of the device's. */
    reg = (struct client_reg){.memory = MEMORY_COUNT, .access = RIGHT_SEND, .length = most + 1};
    peer_reg_as(&peer, &reg);
    assert_int_equal(reg.rc, 0);
    peer_close(&peer);
}

TEST(regv__gap_that_one_key_cannot_have__inval)
{
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, NULL);
    peer_fault(&peer, "ib_map_mr_sg", 0, 1); /* it is not left to the device to find the gap */
    reg = peer_reg(&peer, MEMORY_GAP, RIGHTS_BOTH);
    assert_int_equal(reg.rc, -EINVAL);
    assert_int_equal(reg.output_untouched, 1);
    assert_int_equal(peer_faults(&peer), 0);
    peer_close(&peer);
}

/* ---- arguments ---- */

static void refuses(struct peer *peer, struct client_reg reg, int error)
{
    peer_reg_as(peer, &reg);
    assert_int_equal(reg.rc, error);
    assert_int_equal(reg.output_untouched, 1);
}

TEST(reg__wrong_argument__refused_and_no_output)
{
    struct peer peer;

    peer_start(&peer, NULL);
    refuses(&peer, (struct client_reg){.access = 0}, -EINVAL);
    refuses(&peer, (struct client_reg){.access = RIGHTS_BOTH | 1u << 20}, -EINVAL);
    refuses(&peer, (struct client_reg){.access = RIGHTS_BOTH, .offset = 8}, -EINVAL);
    refuses(&peer,
            (struct client_reg){.memory = MEMORY_ATTR, .access = RIGHTS_BOTH, .auth_key_size = 8},
            -EINVAL);
    for (unsigned call = 0; call < WRONG_CALLS; call++) {
        struct client_wrong wrong = {.call = call};

        assert_int_equal(peer_call(&peer, CLIENT_WRONG, &wrong), 0);
        if (call == WRONG_BIND_TWICE) /* which is the first time here */
            continue;
        if (wrong.rc != (call == WRONG_EQ_SREAD ? -ENOSYS
                         : call == WRONG_EQ_READ_FLAGS || call == WRONG_EQ_READERR_FLAGS
                             ? -ERROR_BADFLAGS
                             : -EINVAL))
            fail_msg("wrong call %u: %d", call, wrong.rc);
    }
    peer_close(&peer);
}

TEST(reg__flags__badflags)
{
    struct peer peer;

    peer_start(&peer, NULL);
    for (unsigned bit = 0; bit < 64; bit++)
        refuses(&peer, (struct client_reg){.access = RIGHTS_BOTH, .flags = 1ull << bit},
                -ERROR_BADFLAGS);
    peer_close(&peer);
}

TEST(reg__chosen_key__keyrejected)
{
    struct client_reg reg = {.access = RIGHTS_BOTH, .requested_key = NO_KEY};
    struct peer peer;

    peer_start(&peer, NULL);
    peer_reg_as(&peer, &reg);
    assert_int_equal(reg.rc, 0);
    /* In use, or not: no key can be chosen. */
    refuses(&peer, (struct client_reg){.access = RIGHTS_BOTH, .requested_key = reg.key},
            -EKEYREJECTED);
    refuses(&peer, (struct client_reg){.access = RIGHTS_BOTH, .requested_key = 1}, -EKEYREJECTED);
    peer_close(&peer);
}

/* ---- rights ---- */

/* Registers memory for the kernel's own writes to the peer, and makes the first of them. */
static struct client_reg push_to(struct peer *peer, unsigned memory, uint64_t rights,
                                 struct client_push *push)
{
    struct client_bytes bytes = {.seed = 5};
    struct client_reg reg;

    peer_start(peer, NULL);
    reg = peer_reg(peer, memory, rights);
    assert_int_equal(reg.rc, 0);
    bytes.index = push->index = reg.index;
    assert_int_equal(peer_call(peer, CLIENT_BYTES, &bytes), 0);
    push->address = (uintptr_t)peer->buffer;
    push->rkey = peer->mr->rkey;
    assert_int_equal(peer_call(peer, CLIENT_PUSH, push), 0);
    assert_int_equal(push->rc, 0);
    /* On iWARP it has left when the kernel's work request is done, and arrives later. */
    test_wait_until(
        !peer_count_wrong(peer->buffer, push->length, (unsigned)(5 + push->offset * 7)));
    return reg;
}

static void push_fails(struct peer *peer, struct client_push *push, int rc)
{
    assert_int_equal(peer_call(peer, CLIENT_PUSH, push), 0);
    assert_int_equal(push->rc, rc);
    peer_close(peer);
}

TEST(local_rights__memory_with_a_gap__no_key_and_the_kernel_sends_it)
{
    struct client_push push = {.offset = 50, .length = 120, .elements = 8};
    struct client_reg reg;
    struct peer peer;

    reg = push_to(&peer, MEMORY_GAP, RIGHT_SEND | RIGHT_WRITE, &push);
    assert_true(reg.key == NO_KEY);
    assert_int_equal(push.elements, 2);
    push.elements = 1;
    assert_int_equal(peer_call(&peer, CLIENT_PUSH, &push), 0);
    assert_int_equal(push.rc, -E2BIG);
    push.offset = 81; /* to one byte beyond the end */
    push_fails(&peer, &push, -EINVAL);
}

TEST(local_rights__list_that_is_freed__the_kernel_sends_its_memory)
{
    struct client_push push = {.offset = 1000, .length = 9000, .elements = 8};
    struct peer peer;

    push_to(&peer, MEMORY_LIST, RIGHT_SEND | RIGHT_WRITE, &push);
    peer_close(&peer);
}

TEST(remote_rights__the_kernel_sends_it_by_one_element)
{
    struct client_push push = {.offset = 1000, .length = 9000, .elements = 1};
    struct peer peer;

    push_to(&peer, MEMORY_VMALLOC, RIGHT_WRITE | RIGHT_REMOTE_READ, &push);
    push.elements = 0;
    push_fails(&peer, &push, -E2BIG);
}

TEST(right__alone__grants_nothing_else)
{
    struct client_reg reads, writes;
    struct peer peer;

    peer_start(&peer, NULL);
    reads = peer_reg(&peer, MEMORY_PAGES, RIGHT_REMOTE_READ);
    writes = peer_reg(&peer, MEMORY_PAGES, RIGHT_REMOTE_WRITE);
    assert_int_equal(peer_rdma(&peer, IBV_WR_RDMA_READ, reads.iova, reads.key, 100),
                     IBV_WC_SUCCESS);
    assert_int_equal(peer_rdma(&peer, IBV_WR_RDMA_WRITE, writes.iova, writes.key, 100),
                     IBV_WC_SUCCESS);
    peer_is_denied(&peer, IBV_WR_RDMA_WRITE, reads.iova, reads.key, 100);
    if (peer.is_iwarp) { /* siw looks at no right when it reads, and has no atomic operations */
        peer_close(&peer);
        return;
    }
    peer_is_denied(&peer, IBV_WR_RDMA_READ, writes.iova, writes.key, 100);
    assert_int_equal(peer_fetch_and_add(&peer, writes.iova, writes.key, 1), IBV_WC_REM_ACCESS_ERR);
    peer_close(&peer);
}

/* What a peer answers to a read of iWARP is a write, which takes a key. */
TEST(right__to_receive_reads__what_the_device_has)
{
    const struct client_open without = {.client_qp = QP_NONE};
    struct peer peer;

    peer_open(&peer);
    assert_int_equal(peer_open_domain(&peer, &without), peer.is_iwarp ? -EOPNOTSUPP : 0);
    if (peer.is_iwarp)
        assert_int_equal(peer_open_domain(&peer, NULL), 0);
    if (peer.is_iwarp)
        refuses(&peer, (struct client_reg){.access = RIGHT_READ}, -EOPNOTSUPP);
    else
        assert_int_equal(peer_reg(&peer, MEMORY_KMALLOC, RIGHT_READ).rc, 0);
    peer_close(&peer);
}

TEST(range__beyond_its_ends__denied)
{
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, NULL);
    reg = peer_reg(&peer, MEMORY_KMALLOC, RIGHTS_BOTH);
    peer_is_denied(&peer, IBV_WR_RDMA_READ, reg.iova + reg.length - 50, reg.key, 51);
    peer_is_denied(&peer, IBV_WR_RDMA_WRITE, reg.iova - 1, reg.key, 10);
    assert_int_equal(peer_rdma(&peer, IBV_WR_RDMA_READ, reg.iova + reg.length - 50, reg.key, 50),
                     IBV_WC_SUCCESS);
    peer_close(&peer);
}

TEST(atomic__both_remote_rights__done)
{
    struct client_reg reg;
    uint64_t value = 40;
    struct peer peer;

    peer_start(&peer, NULL);
    if (peer.is_iwarp) { /* which has none */
        peer_close(&peer);
        return;
    }
    reg = peer_reg(&peer, MEMORY_PAGES, RIGHTS_BOTH);
    memcpy(peer.buffer, &value, 8);
    assert_int_equal(peer_rdma(&peer, IBV_WR_RDMA_WRITE, reg.iova, reg.key, 8), IBV_WC_SUCCESS);
    assert_int_equal(peer_fetch_and_add(&peer, reg.iova, reg.key, 2), IBV_WC_SUCCESS);
    memcpy(&value, peer.buffer, 8);
    assert_int_equal(value, 40);
    assert_int_equal(peer_rdma(&peer, IBV_WR_RDMA_READ, reg.iova, reg.key, 8), IBV_WC_SUCCESS);
    memcpy(&value, peer.buffer, 8);
    assert_int_equal(value, 42);
    peer_close(&peer);
}

/* ---- closing and binding ---- */

TEST(close__later_access__denied_and_others_are_served)
{
    struct client_reg closed, other;
    struct peer peer;

    peer_start(&peer, NULL);
    closed = peer_reg(&peer, MEMORY_PAGES, RIGHTS_BOTH);
    other = peer_reg(&peer, MEMORY_KMALLOC, RIGHTS_BOTH);
    assert_int_equal(peer_close_region(&peer, closed.index), 0);
    peer_is_denied(&peer, IBV_WR_RDMA_READ, closed.iova, closed.key, 100);
    peer_round_trip(&peer, &other);
    peer_close(&peer);
}

static int bind_region(struct peer *peer, unsigned index, unsigned class, uint64_t flags)
{
    struct client_bind bind = {.index = index, .class = class, .flags = flags};

    assert_int_equal(peer_call(peer, CLIENT_BIND, &bind), 0);
    return bind.rc;
}

TEST(bind__counter__enosys)
{
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, NULL);
    reg = peer_reg(&peer, MEMORY_KMALLOC, RIGHTS_BOTH);
    assert_int_equal(bind_region(&peer, reg.index, CLASS_CNTR, RIGHT_REMOTE_WRITE), -ENOSYS);
    assert_int_equal(bind_region(&peer, reg.index, CLASS_NONE, 0), -EINVAL);
    assert_int_equal(bind_region(&peer, reg.index, CLASS_CQ, 0), -EINVAL);
    assert_int_equal(bind_region(&peer, reg.index, CLASS_EP, 1), -ERROR_BADFLAGS);
    assert_int_equal(peer_close_region(&peer, reg.index), 0);
    peer_close(&peer);
}

static int unbind_region(struct peer *peer, unsigned index)
{
    struct client_bind bind = {.index = index, .undo = 1};

    assert_int_equal(peer_call(peer, CLIENT_BIND, &bind), 0);
    return bind.rc;
}

TEST(close__while_an_endpoint_is_bound__busy_and_works_on)
{
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, NULL);
    reg = peer_reg(&peer, MEMORY_KMALLOC, RIGHTS_BOTH);
    assert_int_equal(unbind_region(&peer, reg.index), -EINVAL);
    assert_int_equal(bind_region(&peer, reg.index, CLASS_EP, 0), 0);
    assert_int_equal(bind_region(&peer, reg.index, CLASS_RX_CTX, 0), 0);
    assert_int_equal(unbind_region(&peer, reg.index), 0);
    assert_int_equal(peer_close_region(&peer, reg.index), -EBUSY);
    peer_round_trip(&peer, &reg);
    assert_int_equal(unbind_region(&peer, reg.index), 0);
    assert_int_equal(unbind_region(&peer, reg.index), -EINVAL);
    assert_int_equal(peer_close_region(&peer, reg.index), 0);
    peer_close(&peer);
}

TEST(domain_close__region_open__busy_without_effect)
{
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, NULL);
    reg = peer_reg(&peer, MEMORY_KMALLOC, RIGHTS_BOTH);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), -EBUSY);
    peer_round_trip(&peer, &reg);
    assert_int_equal(peer_close_region(&peer, reg.index), 0);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    peer_close(&peer);
}

TEST(key__ended_by_the_peer__closed_all_the_same)
{
    struct client_reg reg, other;
    struct peer peer;

    peer_start(&peer, NULL);
    reg = peer_reg(&peer, MEMORY_PAGES, RIGHTS_BOTH);
    other = peer_reg(&peer, MEMORY_KMALLOC, RIGHTS_BOTH);
    assert_int_equal(peer_send_with_invalidate(&peer, reg.key), IBV_WC_SUCCESS);
    peer_is_denied(&peer, IBV_WR_RDMA_READ, reg.iova, reg.key, 100);
    assert_int_equal(peer_close_region(&peer, reg.index), 0);
    peer_round_trip(&peer, &other);
    round_trip_of(&peer, MEMORY_VMALLOC);
    peer_close(&peer);
}

/* ---- events ---- */

static struct client_event read_event(struct peer *peer)
{
    struct client_event event = {.error = 0};

    assert_int_equal(peer_call(peer, CLIENT_EVENT, &event), 0);
    return event;
}

static struct client_event calls_of_handler(struct peer *peer)
{
    struct client_event event = {.unread = 1};

    assert_int_equal(peer_call(peer, CLIENT_EVENT, &event), 0);
    return event;
}

/* Of a registration that succeeded, or did not. */
static struct client_event next_event(struct peer *peer, bool error)
{
    struct client_event event;

    test_wait_until((event = read_event(peer)).rc != -EAGAIN);
    if (!error)
        return event;
    assert_int_equal(event.rc, -ERROR_AVAIL);
    event = (struct client_event){.error = 1};
    assert_int_equal(peer_call(peer, CLIENT_EVENT, &event), 0);
    return event;
}

static struct client_reg registered_by_event(struct peer *peer, unsigned memory, uint64_t access)
{
    struct client_reg reg = peer_reg(peer, memory, access);
    struct client_event event;

    assert_int_equal(reg.rc, 0);
    event = next_event(peer, false);
    assert_int_equal(event.rc, 24);
    assert_int_equal(event.event, EVENT_MR_COMPLETE);
    assert_int_equal(event.index, reg.index);
    assert_int_equal(event.is_mr, 1);
    assert_int_equal(peer_call(peer, CLIENT_KEYS, &reg), 0);
    return reg;
}

TEST(async__event_has_the_callers_context_and_the_output)
{
    const struct client_open open = {.asynchronous = 1};
    struct client_event none = {.error = 0}, small = {.size = 23};
    struct client_wrong twice = {.call = WRONG_BIND_TWICE};
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, &open);
    assert_int_equal(peer_call(&peer, CLIENT_WRONG, &twice), 0);
    assert_int_equal(twice.rc, -EBUSY);
    for (unsigned memory = MEMORY_KMALLOC; memory <= MEMORY_LIST; memory++) {
        reg = registered_by_event(&peer, memory, RIGHTS_BOTH);
        peer_round_trip(&peer, &reg);
    }
    reg = registered_by_event(&peer, MEMORY_GAP, RIGHT_RECV);
    assert_true(reg.key == NO_KEY);
    /* Each had one. */
    assert_int_equal(peer_call(&peer, CLIENT_EVENT, &none), 0);
    assert_int_equal(none.rc, -EAGAIN);
    assert_int_equal(peer_call(&peer, CLIENT_EVENT, &small), 0);
    assert_int_equal(small.rc, -ERROR_TOOSMALL);
    peer_close(&peer);
}

TEST(async__call_that_fails__no_event)
{
    const struct client_open open = {.asynchronous = 1, .handler = HANDLER_COUNTS};
    struct client_event event;
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, &open);
    refuses(&peer, (struct client_reg){.access = 0}, -EINVAL);
    refuses(&peer, (struct client_reg){.memory = MEMORY_GAP, .access = RIGHTS_BOTH}, -EINVAL);
    /* Events come in order: the first is this one's. */
    reg = registered_by_event(&peer, MEMORY_KMALLOC, RIGHTS_BOTH);
    test_wait_until((event = read_event(&peer)).handled);
    assert_int_equal(event.rc, -EAGAIN);
    assert_int_equal(event.handled, 1);
    assert_int_equal(peer_close_region(&peer, reg.index), 0);
    peer_close(&peer);
}

static struct client_event refused_by_the_device(struct peer *peer, struct client_reg *reg)
{
    struct client_event event;

    peer_fault(peer, "completion", 0, PEER_TRIES);
    *reg = peer_reg(peer, MEMORY_KMALLOC, RIGHTS_BOTH);
    assert_int_equal(reg->rc, 0);
    event = next_event(peer, true);
    assert_true(peer_faults(peer) > 0);
    return event;
}

TEST(async__device_refuses__error_event_and_the_next_succeeds)
{
    const struct client_open open = {.asynchronous = 1};
    struct client_event event;
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, &open);
    event = refused_by_the_device(&peer, &reg);
    assert_int_equal(event.err, EIO);
    if (peer.is_iwarp) { /* its client's queue pair has ended: kfi_faults says what that means */
        peer_close(&peer);
        return;
    }
    assert_int_equal(event.rc, 48);
    assert_int_equal(event.index, reg.index);
    assert_int_equal(event.is_mr, 1);
    assert_true(event.text[0]);
    assert_string_not_equal(event.text, "success");
    assert_int_equal(peer_close_region(&peer, reg.index), 0);
    reg = registered_by_event(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    peer_round_trip(&peer, &reg);
    peer_close(&peer);
}

TEST(async__closed_before_its_event_is_read__no_event)
{
    const struct client_open open = {.asynchronous = 1};
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, &open);
    reg = peer_reg(&peer, MEMORY_KMALLOC, RIGHTS_BOTH);
    assert_int_equal(reg.rc, 0);
    assert_int_equal(peer_close_region(&peer, reg.index), 0);
    reg = registered_by_event(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    peer_close(&peer);
}

/* With a pool, so that each region comes back. */
static void registers_with_handler(enum client_handler handler, unsigned regions, unsigned calls)
{
    const struct client_open open = {.asynchronous = 1, .handler = handler, .regions = regions};
    struct client_event event;
    struct peer peer;

    peer_start(&peer, &open);
    for (unsigned i = 0; i < 20; i++) {
        struct client_reg reg;

        test_wait_until((reg = peer_reg(&peer, MEMORY_KMALLOC, RIGHTS_BOTH)).rc != -EAGAIN);
        assert_int_equal(reg.rc, 0);
        /* The next registration must not take the region that this handler is about to use. */
        if (handler == HANDLER_REPLACES)
            test_wait_until(calls_of_handler(&peer).handled == 2 * (i + 1));
    }
    /* One for each event. */
    test_wait_until((event = calls_of_handler(&peer)).handled == calls);
    assert_int_equal(event.result, 0);
    assert_int_equal(read_event(&peer).rc, -EAGAIN);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    peer_close(&peer);
}

TEST(async__handler_closes_the_region__freed)
{
    registers_with_handler(HANDLER_CLOSES, 2, 20);
    registers_with_handler(HANDLER_CLOSES, 1, 20);
}

TEST(async__handler_closes_a_region_whose_event_is_unread__freed)
{
    registers_with_handler(HANDLER_CLOSES_UNREAD, 1, 20);
}

TEST(async__handler_registers_and_closes_another__done)
{
    registers_with_handler(HANDLER_REPLACES, 1, 40);
}

TEST(async__region_reused_while_the_handler_that_freed_it_sleeps__works)
{
    const struct client_open open = {.asynchronous = 1, .handler = HANDLER_SLEEPS, .regions = 1};
    struct client_event event;
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, &open);
    assert_int_equal(peer_reg(&peer, MEMORY_KMALLOC, RIGHTS_BOTH).rc, 0);
    for (unsigned i = 0; i < 5; i++) {
        /* The first succeeds after the handler has closed its region. */
        test_wait_until((reg = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH)).rc != -EAGAIN);
        assert_int_equal(reg.rc, 0);
        assert_int_equal(next_event(&peer, false).index, reg.index);
        assert_int_equal(peer_call(&peer, CLIENT_KEYS, &reg), 0);
        peer_round_trip(&peer, &reg);
        assert_int_equal(peer_close_region(&peer, reg.index), 0);
    }
    assert_int_equal(calls_of_handler(&peer).handled, 0);
    assert_int_equal(peer_call(&peer, CLIENT_WAKE, NULL), 0);
    test_wait_until((event = calls_of_handler(&peer)).handled == 6);
    assert_int_equal(event.result, 0);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    peer_close(&peer);
}

TEST(async__domain_closed_while_the_handler_sleeps__waits_for_it)
{
    const struct client_open open = {.asynchronous = 1, .handler = HANDLER_SLEEPS, .regions = 1};
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, &open);
    assert_int_equal(peer_reg(&peer, MEMORY_KMALLOC, RIGHTS_BOTH).rc, 0);
    test_wait_until((reg = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH)).rc != -EAGAIN);
    assert_int_equal(peer_close_region(&peer, reg.index), 0);
    assert_int_equal(calls_of_handler(&peer).handled, 0);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    peer_close(&peer);
}

TEST(async__handler_closes_the_domain__closed)
{
    const struct client_open open = {
        .asynchronous = 1, .handler = HANDLER_CLOSES_DOMAIN, .regions = 1};
    struct client_event event;
    struct peer peer;

    peer_start(&peer, &open);
    assert_int_equal(peer_reg(&peer, MEMORY_KMALLOC, RIGHTS_BOTH).rc, 0);
    test_wait_until((event = calls_of_handler(&peer)).handled == 1);
    assert_int_equal(event.result, 0);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    assert_int_equal(peer_open_domain(&peer, &open), 0);
    peer_close(&peer);
}

TEST_MAIN()
