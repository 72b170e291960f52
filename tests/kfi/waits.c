/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * kfi_mr(3) in the kernel: what ends a wait for a device that does not answer, or for a handler,
 * and what that leaves. The device executes each work request; the module learns it when the case
 * releases the completion. The limit of time is short only where the wait cannot end otherwise. */
#include "tests/kfi/peer.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#define USUAL_LIMIT 60000

static const struct client_open one = {.regions = 1, .pages = 8};
static const struct client_open asynchronous = {.asynchronous = 1};

static void limit(unsigned milliseconds)
{
    FILE *file = fopen("/sys/module/hmreg_kfi/parameters/timeout_ms", "w");

    assert_non_null(file);
    fprintf(file, "%u\n", milliseconds);
    assert_int_equal(fclose(file), 0);
}

static void has_come(struct peer *peer, int completions)
{
    test_wait_until(peer_call(peer, CLIENT_HELD, NULL) == completions);
}

static void release(struct peer *peer)
{
    assert_int_equal(peer_call(peer, CLIENT_RELEASE, NULL), 0);
}

static void next_one_works(struct peer *peer)
{
    struct client_reg reg = peer_reg(peer, MEMORY_VMALLOC, RIGHTS_BOTH);

    assert_int_equal(reg.rc, 0);
    peer_round_trip(peer, &reg);
    assert_int_equal(peer_close_region(peer, reg.index), 0);
}

/* The device has made its key valid, the module does not know. */
static struct client_reg registration_without_answer(struct peer *peer, const char *how)
{
    struct client_reg reg;

    peer_fault(peer, how, 0, 1);
    limit(20);
    reg = peer_reg(peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    limit(USUAL_LIMIT);
    assert_int_equal(peer_faults(peer), 1);
    return reg;
}

static int close_within(struct peer *peer, unsigned index, unsigned milliseconds)
{
    int rc;

    limit(milliseconds);
    rc = peer_close_region(peer, index);
    limit(USUAL_LIMIT);
    return rc;
}

TEST(reg__no_answer_in_time__region_whose_memory_stays_until_the_answer)
{
    struct client_push push = {.length = 8, .elements = 8};
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, NULL);
    reg = registration_without_answer(&peer, "stuck");
    assert_int_equal(reg.rc, -ETIMEDOUT);
    push.index = reg.index;
    assert_int_equal(peer_call(&peer, CLIENT_PUSH, &push), 0);
    assert_int_equal(push.rc, -EINVAL);
    assert_int_equal(reg.output_untouched, 0);
    has_come(&peer, 1);
    peer_round_trip(&peer, &reg); /* by a key that only the test knows */
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(close_within(&peer, reg.index, 20), -ETIMEDOUT);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), -EBUSY);
    peer_round_trip(&peer, &reg);
    release(&peer);
    assert_int_equal(peer_close_region(&peer, reg.index), 0);
    peer_is_denied(&peer, IBV_WR_RDMA_READ, reg.iova, reg.key, 8);
    next_one_works(&peer);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    peer_close(&peer);
}

/* The restart's error state is an answer. */
TEST(close__of_a_region_without_answer__restarts_the_queue_pair)
{
    struct client_reg reg, other;
    struct peer peer;

    peer_start(&peer, NULL);
    if (peer.is_iwarp) { /* which has the client's */
        peer_close(&peer);
        return;
    }
    other = peer_reg(&peer, MEMORY_KMALLOC, RIGHTS_BOTH);
    reg = registration_without_answer(&peer, "held");
    assert_int_equal(reg.rc, -ETIMEDOUT);
    has_come(&peer, 1);
    assert_int_equal(close_within(&peer, reg.index, 20), 0);
    peer_round_trip(&peer, &other);
    assert_int_equal(peer_close_region(&peer, other.index), 0);
    next_one_works(&peer);
    peer_close(&peer);
}

TEST(close__no_answer_in_time__open_and_its_key_is_not_used_again)
{
    struct client_reg before, now;
    struct peer peer;

    peer_start(&peer, &one);
    before = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    assert_int_equal(before.rc, 0);
    peer_fault(&peer, "stuck", 0, 1);
    assert_int_equal(close_within(&peer, before.index, 20), -ETIMEDOUT);
    assert_int_equal(peer_faults(&peer), 1);
    assert_int_equal(close_within(&peer, before.index, 20), -ETIMEDOUT);
    assert_int_equal(peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH).rc, -EAGAIN);
    release(&peer);
    assert_int_equal(peer_close_region(&peer, before.index), 0);
    now = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    assert_int_equal(now.rc, 0);
    assert_int_equal(now.allocations, 1); /* its ib_mr */
    peer_round_trip(&peer, &now);
    peer_is_denied(&peer, IBV_WR_RDMA_READ, before.iova, before.key, 8);
    peer_close(&peer);
}

static bool read_event(struct peer *peer, struct client_event *event, bool error)
{
    *event = (struct client_event){.error = error};
    assert_int_equal(peer_call(peer, CLIENT_EVENT, event), 0);
    return event->rc != -EAGAIN;
}

static struct client_event next_event(struct peer *peer, bool error)
{
    struct client_event event;

    test_wait_until(read_event(peer, &event, error));
    assert_true(event.rc > 0);
    return event;
}

TEST(async__no_answer_in_time__error_event_and_region_to_close)
{
    struct client_event event;
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, &asynchronous);
    peer_fault(&peer, "stuck", 0, 1);
    limit(20);
    reg = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    assert_int_equal(reg.rc, 0);
    event = next_event(&peer, true);
    assert_int_equal(event.err, ETIMEDOUT);
    assert_int_equal(event.index, reg.index);
    assert_int_equal(peer_close_region(&peer, reg.index), -ETIMEDOUT);
    limit(USUAL_LIMIT);
    release(&peer);
    assert_int_equal(peer_close_region(&peer, reg.index), 0);
    peer_close(&peer);
}

TEST(async__device_out_of_time_in_the_call__region_to_close_and_no_event)
{
    struct client_event event;
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, &asynchronous);
    peer_fault(&peer, "late_mr", 0, 1);
    reg = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    assert_int_equal(peer_faults(&peer), 1);
    assert_int_equal(reg.rc, -ETIMEDOUT);
    assert_int_equal(reg.output_untouched, 0);
    assert_int_equal(close_within(&peer, reg.index, 20), 0);
    assert_false(read_event(&peer, &event, false));
    peer_close(&peer);
}

/* A queue pair of the client's, one entry of whose send queue the domain uses. */
TEST(send_queue__no_entry_in_time__region_that_closes_at_once)
{
    const struct client_open full = {
        .asynchronous = 1, .client_qp = QP_CONNECTED_TO_PROGRAM, .sends = 1};
    struct client_reg first, second;
    struct peer peer;

    peer_start(&peer, &full);
    peer_fault(&peer, "stuck", 0, 1);
    limit(20);
    first = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    assert_int_equal(next_event(&peer, true).index, first.index);
    second = peer_reg(&peer, MEMORY_PAGES, RIGHTS_BOTH);
    assert_int_equal(next_event(&peer, true).index, second.index);
    assert_int_equal(peer_close_region(&peer, second.index), 0);
    assert_int_equal(peer_close_region(&peer, first.index), -ETIMEDOUT);
    limit(USUAL_LIMIT);
    release(&peer);
    assert_int_equal(peer_close_region(&peer, first.index), 0);
    peer_close(&peer);
}

/* One work request is stuck, so the queue pair cannot be reset: its completion would never come. */
TEST(restart__a_request_without_answer__waits_for_it_and_later_works)
{
    struct client_reg reg, refused;
    struct peer peer;

    peer_start(&peer, NULL);
    if (peer.is_iwarp) {
        peer_close(&peer);
        return;
    }
    reg = registration_without_answer(&peer, "stuck");
    has_come(&peer, 1);
    peer_fault(&peer, "completion", 0, PEER_TRIES);
    limit(20);
    do
        refused = peer_reg(&peer, MEMORY_PAGES, RIGHTS_BOTH);
    while (refused.rc == -EIO);
    limit(USUAL_LIMIT);
    assert_int_equal(refused.rc, -ETIMEDOUT);
    peer_fault(&peer, "", 0, 0);
    release(&peer);
    assert_int_equal(peer_close_region(&peer, refused.index), 0);
    next_one_works(&peer);
    assert_int_equal(peer_close_region(&peer, reg.index), 0);
    peer_close(&peer);
}

/* ---- signals ---- */

/* Sleeps in an ioctl(2). */
static bool waits(pid_t child)
{
    char path[64], text[64] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/syscall", (int)child);
    file = fopen(path, "r");
    assert_non_null(file);
    if (!fgets(text, sizeof(text), file))
        text[0] = 0;
    fclose(file);
    return !strncmp(text, "16 ", 3);
}

/* The call waits for the kernel, without a limit of time, until a signal kills its process. */
static void is_killed_in(struct peer *peer, unsigned long call, void *argument, int completions)
{
    int status = 0;
    pid_t child;

    limit(0);
    child = test_fork();
    if (!child)
        _exit(ioctl(peer->client, call, argument) != 0);
    has_come(peer, completions);
    test_wait_until(waits(child));
    assert_int_equal(kill(child, SIGKILL), 0);
    test_wait_until(waitpid(child, &status, WNOHANG) == child);
    assert_true(WIFSIGNALED(status));
    limit(USUAL_LIMIT);
}

TEST(reg__killed__region_to_close)
{
    struct client_reg reg = {.memory = MEMORY_VMALLOC, .access = RIGHTS_BOTH};
    struct peer peer;

    peer_start(&peer, NULL);
    peer_fault(&peer, "stuck", 0, 1);
    is_killed_in(&peer, CLIENT_REG, &reg, 1);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), -EBUSY);
    assert_int_equal(close_within(&peer, 0, 20), -ETIMEDOUT);
    release(&peer);
    assert_int_equal(peer_close_region(&peer, 0), 0);
    next_one_works(&peer);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    peer_close(&peer);
}

TEST(close__killed__open_and_closes_later)
{
    struct client_close close = {.rc = 0};
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, &one);
    reg = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    close.index = reg.index;
    peer_fault(&peer, "stuck", 0, 1);
    for (unsigned i = 0; i < 2; i++)
        is_killed_in(&peer, CLIENT_CLOSE, &close, 1);
    assert_int_equal(peer_faults(&peer), 1);
    assert_int_equal(peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH).rc, -EAGAIN);
    release(&peer);
    assert_int_equal(peer_close_region(&peer, reg.index), 0);
    next_one_works(&peer);
    peer_close(&peer);
}

TEST(async__close_killed_while_it_registers__event_and_closes_later)
{
    struct client_close close = {.rc = 0};
    struct client_reg reg;
    struct peer peer;

    peer_start(&peer, &asynchronous);
    peer_fault(&peer, "stuck", 0, 1);
    limit(0);
    reg = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    close.index = reg.index;
    has_come(&peer, 1);
    is_killed_in(&peer, CLIENT_CLOSE, &close, 1);
    release(&peer);
    assert_int_equal(next_event(&peer, false).index, reg.index);
    assert_int_equal(peer_call(&peer, CLIENT_KEYS, &reg), 0);
    peer_round_trip(&peer, &reg);
    assert_int_equal(peer_close_region(&peer, reg.index), 0);
    peer_close(&peer);
}

/* ---- handlers ---- */

static void handler_sleeps(struct peer *peer, enum client_handler handler)
{
    const struct client_open open = {.asynchronous = 1, .handler = handler, .regions = 1};

    peer_start(peer, &open);
    assert_int_equal(peer_reg(peer, MEMORY_KMALLOC, RIGHTS_BOTH).rc, 0);
}

/* Of the domain, and of the event queue where the handler has closed that. */
static void closing_ends(struct peer *peer)
{
    limit(20);
    assert_int_equal(peer_call(peer, CLIENT_FINISH, (void *)1), -ETIMEDOUT);
    is_killed_in(peer, CLIENT_FINISH, (void *)1, 0);
}

TEST(domain_close__handler_sleeps__works_on_and_closes_later)
{
    struct client_reg reg;
    struct peer peer;

    handler_sleeps(&peer, HANDLER_SLEEPS);
    /* After the handler has closed the first. */
    test_wait_until((reg = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH)).rc != -EAGAIN);
    assert_int_equal(peer_close_region(&peer, reg.index), 0);
    closing_ends(&peer);
    reg = peer_reg(&peer, MEMORY_VMALLOC, RIGHTS_BOTH);
    assert_int_equal(reg.rc, 0);
    assert_int_equal(peer_close_region(&peer, reg.index), 0);
    assert_int_equal(peer_call(&peer, CLIENT_WAKE, NULL), 0);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    peer_close(&peer);
}

TEST(eq_close__handler_sleeps__closes_later)
{
    struct client_event event = {.unread = 1};
    struct peer peer;

    handler_sleeps(&peer, HANDLER_CLOSES_DOMAIN_AND_SLEEPS);
    do
        assert_int_equal(peer_call(&peer, CLIENT_EVENT, &event), 0);
    while (event.domain_is_open);
    closing_ends(&peer);
    assert_int_equal(peer_call(&peer, CLIENT_WAKE, NULL), 0);
    assert_int_equal(peer_call(&peer, CLIENT_FINISH, NULL), 0);
    assert_int_equal(peer_call(&peer, CLIENT_EVENT, &event), 0);
    assert_int_equal(event.handled, 1);
    assert_int_equal(event.result, 0);
    peer_close(&peer);
}

TEST_MAIN()
