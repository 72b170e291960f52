/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See reuse.h.
 */
#include "tests/gpu/reuse.h"

#include "tests/support/test.h"

#include <errno.h>
#include <hmreg/loopback.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#if TEST_TSAN || TEST_ASAN
#define PART 20 /* of the usual number of times */
#else
#define PART 1
#endif

#define SLOTS    6
#define REMEMBER 64
#define TEXT     24

struct bed {
    const struct reuse *reuse;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    struct hmreg_remote *remote; /* NULL: the peer is a process, */
    int peer_fd;                 /* here, */
    pid_t peer;
    char *memory[SLOTS];
    size_t len[SLOTS];
    char *before[REMEMBER]; /* addresses of the last allocations */
    unsigned allocated, reused;
    uint64_t random;
};

static unsigned draw(struct bed *bed, unsigned limit)
{
    bed->random ^= bed->random << 13;
    bed->random ^= bed->random >> 7;
    bed->random ^= bed->random << 17;
    return (unsigned)(bed->random >> 32) % limit;
}

/* ---- a peer in another process ----------------------------------------------------------- */

/* What it is asked, and answers by the call's result. */
struct order {
    char token[512]; /* the first order's: the way to all */
    size_t size;
    char text[TEXT];
    uint64_t addr, key;
};

static int serve(struct hmreg_domain *domain, struct hmreg_remote **remote,
                 const struct order *order)
{
    if (order->size)
        return hmreg_remote_open(domain, order->token, order->size, remote);
    return hmreg_loopback_write(*remote, order->text, TEXT, NULL, order->addr, order->key);
}

/* With host memory alone: the application's runtime is of the parent only. */
static int live_as_peer(int fd)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM),
                                  .monitor = HMREG_MONITOR_DISABLED};
    struct hmreg_loopback_config modes = {.size = sizeof(modes), .mr_mode = HMREG_MR_PROV_KEY};
    struct hmreg_remote *remote = NULL;
    struct hmreg_domain *domain;
    struct order order;
    struct hmreg *lib;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (hmreg_open(&config, &lib) || hmreg_domain_open_loopback(lib, &modes, NULL, &domain))
        return 1;
    while (recv(fd, &order, sizeof(order), MSG_WAITALL) == sizeof(order)) {
        int rc = serve(domain, &remote, &order);

        if (send(fd, &rc, sizeof(rc), MSG_NOSIGNAL) != sizeof(rc))
            return 2;
    }
    hmreg_remote_close(remote);
    return hmreg_domain_close(domain) || hmreg_close(lib) ? 3 : 0;
}

/* Before anything else is open, so that the peer has nothing of ours. */
static void start_peer(struct bed *bed)
{
    int ends[2];

    fflush(NULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    bed->peer = fork();
    if (bed->peer == 0) {
        close(ends[0]);
        _exit(live_as_peer(ends[1]));
    }
    assert_true(bed->peer > 0);
    close(ends[1]);
    bed->peer_fd = ends[0];
}

static void tell_peer(struct bed *bed, const struct order *order)
{
    int rc = -EPIPE;

    assert_int_equal(send(bed->peer_fd, order, sizeof(*order), MSG_NOSIGNAL), sizeof(*order));
    assert_int_equal(recv(bed->peer_fd, &rc, sizeof(rc), MSG_WAITALL), sizeof(rc));
    assert_int_equal(rc, 0);
}

static void end_peer(struct bed *bed)
{
    int status = -1;

    if (!bed->peer)
        return;
    close(bed->peer_fd);
    assert_int_equal(waitpid(bed->peer, &status, 0), bed->peer);
    assert_int_equal(status, 0);
}

/* ---- the bed ----------------------------------------------------------------------------- */

/* Any region's token opens the way to all of its domain's. */
static void open_way(struct bed *bed)
{
    static char place[64];
    struct order order = {.size = sizeof(order.token)};
    struct hmreg_mr *mr = NULL;

    assert_ok(
        hmreg_mr_reg(bed->domain, place, sizeof(place), HMREG_ACCESS_REMOTE, 0, 0, 0, &mr, NULL));
    assert_ok(hmreg_mr_pack(mr, order.token, &order.size));
    if (bed->peer)
        tell_peer(bed, &order);
    else
        assert_ok(hmreg_remote_open(bed->domain, order.token, order.size, &bed->remote));
    assert_ok(hmreg_mr_close(mr));
}

/* By a mapping of the descriptor, which stays the old memory's whatever the address becomes. */
static void open_bed(struct bed *bed, const struct reuse *reuse, bool another_process)
{
    struct hmreg_config config = {.size = sizeof(config), .ifaces = HMREG_IFACE_BIT(reuse->iface)};
    struct hmreg_domain_config mapped = {.size = sizeof(mapped), .order = {HMREG_PATH_MAPPED}};
    struct hmreg_loopback_config modes = {.size = sizeof(modes), .mr_mode = HMREG_MR_PROV_KEY};

    *bed = (struct bed){.reuse = reuse, .random = 88172645463325252u};
    if (another_process)
        start_peer(bed);
    assert_ok(hmreg_open(&config, &bed->lib));
    assert_ok(hmreg_domain_open_loopback(bed->lib, &modes, &mapped, &bed->domain));
    open_way(bed);
}

static struct hmreg_stats close_bed(struct bed *bed)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    for (unsigned i = 0; i < SLOTS; i++)
        if (bed->memory[i])
            bed->reuse->free(bed->memory[i]);
    assert_ok(hmreg_domain_stats(bed->domain, &stats));
    hmreg_remote_close(bed->remote);
    end_peer(bed);
    assert_ok(hmreg_domain_close(bed->domain));
    assert_ok(hmreg_close(bed->lib));
    return stats;
}

/* Writes through the region as a peer does, and looks for the bytes by the vendor's own copy. */
static void write_and_look(struct bed *bed, struct hmreg_mr *mr, char *memory, size_t offset)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct order order = {.key = hmreg_mr_key(mr)};
    char in[TEXT] = "";

    assert_ok(hmreg_mr_query(mr, &info));
    order.addr = (uintptr_t)memory + offset - info.addr;
    snprintf(order.text, sizeof(order.text), "allocation %u", bed->allocated);
    if (bed->peer)
        tell_peer(bed, &order);
    else
        assert_ok(hmreg_loopback_write(bed->remote, order.text, TEXT, NULL, order.addr, order.key));
    assert_ok(hmreg_copy(bed->lib, in, memory + offset, TEXT));
    assert_string_equal(in, order.text);
}

static struct hmreg_mr *get_region(struct bed *bed, unsigned slot)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(
        hmreg_mr_get(bed->domain, bed->memory[slot], bed->len[slot], HMREG_ACCESS_REMOTE, &mr));
    return mr;
}

static bool was_there_before(const struct bed *bed, const char *memory)
{
    for (unsigned i = 0; i < REMEMBER; i++)
        if (bed->before[i] == memory)
            return true;
    return false;
}

static void allocate(struct bed *bed, unsigned slot, size_t len)
{
    char *memory = bed->reuse->alloc((int)slot % 2, len);

    bed->reused += was_there_before(bed, memory);
    bed->before[bed->allocated++ % REMEMBER] = memory;
    bed->memory[slot] = memory;
    bed->len[slot] = len;
}

static void renew(struct bed *bed, unsigned slot)
{
    static const size_t lengths[] = {100, 4096, 5000, 16384};

    if (bed->memory[slot])
        bed->reuse->free(bed->memory[slot]);
    allocate(bed, slot, lengths[draw(bed, 4)]);
}

static void go_through(const struct reuse *reuse, unsigned times, bool another_process)
{
    unsigned enough = (unsigned)test_times(times / PART);
    struct hmreg_stats stats;
    struct bed bed;

    open_bed(&bed, reuse, another_process);
    while (bed.reused < enough) {
        unsigned slot = draw(&bed, SLOTS);
        struct hmreg_mr *mr;

        renew(&bed, slot);
        hmreg_mr_put(get_region(&bed, slot)); /* a miss; and a hit on the same */
        mr = get_region(&bed, slot);
        write_and_look(&bed, mr, bed.memory[slot], draw(&bed, (unsigned)bed.len[slot] - TEXT));
        hmreg_mr_put(mr);
    }
    stats = close_bed(&bed);
    assert_true(bed.reused >= bed.allocated / 2);
    assert_int_equal(stats.hits, bed.allocated);
    assert_int_equal(stats.misses, bed.allocated);
}

void reuse_addresses(const struct reuse *reuse, unsigned times)
{
    go_through(reuse, times, false);
}

void reuse_from_a_process(const struct reuse *reuse, unsigned times)
{
    go_through(reuse, times, true);
}

void reuse_held(const struct reuse *reuse, unsigned times)
{
    struct hmreg_stats stats;
    struct bed bed;

    open_bed(&bed, reuse, false);
    for (unsigned i = 0; i < times; i++) {
        struct hmreg_mr *old, *anew;
        size_t len = 16384;

        allocate(&bed, 0, len);
        old = get_region(&bed, 0);
        reuse->free(bed.memory[0]);
        allocate(&bed, 0, len);
        anew = get_region(&bed, 0);
        assert_ptr_not_equal(anew, old);
        write_and_look(&bed, anew, bed.memory[0], 77);
        hmreg_mr_put(old);
        write_and_look(&bed, anew, bed.memory[0], 78);
        hmreg_mr_put(anew);
        reuse->free(bed.memory[0]);
        bed.memory[0] = NULL;
    }
    stats = close_bed(&bed);
    assert_true(bed.reused >= times);
    assert_int_equal(stats.hits, 0);
    assert_int_equal(stats.zombies, 0);
}
