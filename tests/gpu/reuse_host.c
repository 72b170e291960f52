/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See reuse.h: host memory that a vendor's runtime knows. Here the peer is the kernel, which uses
 * the pages that the region has pinned (tests/support/pinning.h): bytes written through a stale
 * region are lost, as on hardware.
 */
#include "tests/gpu/reuse.h"
#include "tests/support/pinning.h"
#include "tests/support/test.h"

#include <hmreg/hmreg.h>

#if TEST_TSAN || TEST_ASAN
#define PART 20 /* of the usual number of times */
#else
#define PART 1
#endif

#define REMEMBER 64
#define TEXT     24

static struct {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    char *before[REMEMBER];
    unsigned memories, reused;
} t;

static void open_all(const struct reuse *reuse)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM) |
                                            HMREG_IFACE_BIT(reuse->iface),
                                  .monitor = HMREG_MONITOR_USERFAULTFD};
    int rc;

    memset(&t, 0, sizeof(t));
    pinning_reset();
    rc = hmreg_open(&config, &t.lib);
    if (rc == -EPERM || rc == -ENOSYS)
        test_skip("%s", hmreg_last_error()->text);
    assert_ok(rc);
    rc = ring_open(&pinning.ring);
    if (rc) {
        hmreg_close(t.lib);
        test_skip("the kernel permits no io_uring: %s", strerror(-rc));
    }
    assert_ok(pinning_open(t.lib, NULL, &t.domain));
}

static void close_all(void)
{
    assert_ok(hmreg_domain_close(t.domain));
    assert_ok(hmreg_close(t.lib));
    ring_close(pinning.ring);
    pinning.ring = NULL;
    assert_string_equal(pinning_complaint(), "");
}

static bool was_there_before(const char *memory)
{
    for (unsigned i = 0; i < REMEMBER; i++)
        if (t.before[i] == memory)
            return true;
    return false;
}

static void exchange(const struct hmreg_mr *mr, char *place)
{
    const struct pinned *region = pinned_of(mr);
    uint64_t at = (uint64_t)(uintptr_t)place;
    char out[TEXT], in[TEXT] = "";

    snprintf(out, sizeof(out), "memory %u", t.memories);
    assert_int_equal(pinned_write(region, at, out, sizeof(out)), 0);
    assert_string_equal(place, out);
    snprintf(place, sizeof(out), "answer %u", t.memories);
    assert_int_equal(pinned_read(region, at, in, sizeof(in)), 0);
    assert_string_equal(in, place);
}

/* A miss, then a hit. */
static void use(char *memory, size_t len)
{
    for (int i = 0; i < 2; i++) {
        struct hmreg_mr *mr = NULL;

        assert_ok(hmreg_mr_get(t.domain, memory, len, HMREG_ACCESS_REMOTE, &mr));
        exchange(mr, memory + t.memories * 40 % (len - TEXT));
        hmreg_mr_put(mr);
    }
}

void reuse_host_addresses(const struct reuse *reuse, unsigned times)
{
    static const size_t lengths[] = {100, 4096, 5000, 16384};
    unsigned enough = (unsigned)test_times(times / PART);
    struct hmreg_stats stats = {.size = sizeof(stats)};

    open_all(reuse);
    for (; t.reused < enough; t.memories++) {
        size_t len = lengths[t.memories % 4];
        char *memory = reuse->alloc(0, len);

        t.reused += was_there_before(memory);
        t.before[t.memories % REMEMBER] = memory;
        use(memory, len);
        reuse->free(memory);
    }
    assert_true(t.reused >= t.memories / 2);
    assert_ok(hmreg_domain_stats(t.domain, &stats));
    print_message("%u addresses reused: %llu hits, %llu misses, none stale\n", t.reused,
                  (unsigned long long)stats.hits, (unsigned long long)stats.misses);
    assert_int_equal(stats.hits, t.memories);
    assert_int_equal(stats.misses, t.memories);
    close_all();
}
