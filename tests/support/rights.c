/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See rights.h. After an end the peer writes again and again, a different byte each time, until its
 * bytes do not arrive: at the address, where new memory may be, or in the pages that were there.
 */
#include "tests/support/rights.h"
#include "tests/support/queries.h"

#include <sys/mman.h>
#include <time.h>

#define MANY_WRITES 300 /* that arrive: it goes on */

struct scene {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;
    char *memory, *other; /* a page each */
    size_t page;
};

struct end {
    const char *name;
    bool cached, held;                            /* by hmreg_mr_get(); without its put */
    enum { OPEN, ON_LOOPBACK, PROMISED } promise; /* that no access begins after the end: where */
    void (*make)(struct scene *scene);
};

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void end_by_put(struct scene *scene)
{
    hmreg_mr_put(scene->mr);
}

static void end_by_last_put(struct scene *scene)
{
    hmreg_mr_put(scene->mr);
}

static void end_by_invalidate(struct scene *scene)
{
    assert_ok(hmreg_invalidate(scene->lib, scene->memory, scene->page));
}

static void end_by_progress(struct scene *scene)
{
    end_by_invalidate(scene);
    assert_ok(hmreg_domain_progress(scene->domain));
}

/* Other memory is at the address afterwards. */
static void end_by_munmap(struct scene *scene)
{
    munmap(scene->memory, scene->page);
    assert_ptr_equal(mmap(scene->memory, scene->page, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                     scene->memory);
    memset(scene->memory, 0, scene->page);
}

/* Another get, in a cache of one region. */
static void end_by_eviction(struct scene *scene)
{
    struct hmreg_mr *mr;

    assert_ok(hmreg_mr_get(scene->domain, scene->other, scene->page, HMREG_REMOTE_WRITE, &mr));
    hmreg_mr_put(mr);
}

static void end_by_flush(struct scene *scene)
{
    assert_ok(hmreg_domain_flush(scene->domain));
}

static void end_by_close(struct scene *scene)
{
    assert_ok(hmreg_mr_close(scene->mr));
    scene->mr = NULL;
}

static const struct end ends[] = {
    {"put", true, true, OPEN, end_by_put},
    {"put, policy last put", true, true, PROMISED, end_by_last_put},
    {"invalidate, idle", true, false, ON_LOOPBACK, end_by_invalidate},
    {"invalidate and progress, idle", true, false, PROMISED, end_by_progress},
    {"invalidate, in use", true, true, ON_LOOPBACK, end_by_invalidate},
    {"munmap, idle", true, false, ON_LOOPBACK, end_by_munmap},
    {"munmap, in use", true, true, ON_LOOPBACK, end_by_munmap},
    {"eviction", true, false, PROMISED, end_by_eviction},
    {"flush", true, false, PROMISED, end_by_flush},
    {"close", false, false, PROMISED, end_by_close},
    {"munmap, not cached", false, false, OPEN, end_by_munmap},
};

const unsigned rights_ends = sizeof(ends) / sizeof(ends[0]);

static void get_until_last_put(struct scene *scene)
{
    struct iovec iov = {scene->memory, scene->page};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_REMOTE_WRITE,
                                 .policy = HMREG_POLICY_LAST_PUT};

    assert_ok(hmreg_mr_get_attr(scene->domain, &attr, 0, &scene->mr));
}

static void begin(struct scene *scene, const struct end *end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    scene->page = page;
    scene->memory = test_map(4 * page);
    memset(scene->memory, 0, 4 * page);
    scene->other = scene->memory + 2 * page;
    if (end->make == end_by_last_put)
        get_until_last_put(scene);
    else if (end->cached)
        assert_ok(hmreg_mr_get(scene->domain, scene->memory, page, HMREG_REMOTE_WRITE, &scene->mr));
    else
        assert_ok(hmreg_mr_reg(scene->domain, scene->memory, page, HMREG_REMOTE_WRITE, 0, 0, 0,
                               &scene->mr, NULL));
}

static void finish(struct scene *scene, const struct end *end)
{
    if (end->held && end->make != end_by_put && end->make != end_by_last_put)
        hmreg_mr_put(scene->mr);
    if (!end->cached && scene->mr)
        assert_ok(hmreg_mr_close(scene->mr));
    munmap(scene->memory, 4 * scene->page);
    assert_ok(hmreg_domain_flush(scene->domain));
}

/* One write: have its bytes arrived? Other threads of this process may copy them. *seen: at the
 * address. */
static bool reaches(const struct scene *scene, const struct rights_peer *peer, uint64_t addr,
                    uint64_t key, char byte, bool *seen)
{
    bool arrived = peer->write(peer->self, addr, key, byte);

    *seen = *(volatile char *)scene->memory == byte;
    return *seen || arrived;
}

void rights_report(const char *fabric, const char *end, unsigned writes, double last_ms)
{
    if (!writes)
        print_message("%s | %s | at the end\n", fabric, end);
    else if (writes == MANY_WRITES)
        print_message("%s | %s | goes on\n", fabric, end);
    else
        print_message("%s | %s | after %.2f ms, %u writes\n", fabric, end, last_ms, writes);
}

static void measure(struct scene *scene, const struct end *end, const char *fabric,
                    const struct rights_peer *peer)
{
    struct hmreg_remote *remote;
    uint64_t addr, key;
    unsigned writes = 0, elsewhere = 0;
    double ended, last = 0;
    bool seen;

    begin(scene, end);
    remote = test_remote_of(scene->domain, scene->mr);
    assert_ok(hmreg_remote_addr(remote, 0, RIGHTS_BYTES, &addr, &key));
    hmreg_remote_close(remote);
    peer->take(peer->self, scene->mr);
    assert_true(reaches(scene, peer, addr, key, 'a', &seen) && seen);
    if (end->cached && !end->held)
        hmreg_mr_put(scene->mr);
    end->make(scene);
    ended = now_ms();
    while (writes < MANY_WRITES &&
           reaches(scene, peer, addr, key, (char)('b' + writes % 20), &seen)) {
        writes++;
        elsewhere += !seen;
        last = now_ms() - ended;
    }
    rights_report(fabric, end->name, writes, last);
    if (elsewhere)
        print_message("  %u of them not to the memory that is at the address now\n", elsewhere);
    if (end->promise == PROMISED || (end->promise && !strcmp(fabric, "loopback")))
        assert_int_equal(writes, 0);
    finish(scene, end);
}

void rights_measure(struct hmreg *lib, struct hmreg_domain *domain, const char *fabric,
                    unsigned end, const struct rights_peer *peer)
{
    measure(&(struct scene){.lib = lib, .domain = domain}, &ends[end], fabric, peer);
}
