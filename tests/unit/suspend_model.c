/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Random calls beside a model: some regions, explicit and held, on a domain and on a group, and
 * some suspended ranges that overlap. A region has keys exactly while it touches no suspended
 * range, and memory is registered exactly then.
 */
#include "tests/support/test.h"

#include <hmreg/group.h>
#include <hmreg/loopback.h>
#include <hmreg/suspend.h>

#define UNIT    512u
#define UNITS   64u
#define REGIONS 12
#define RANGES  4
#define STEPS   20000

struct range {
    unsigned start, len; /* units; len 0: none */
};

static struct {
    struct hmreg *lib;
    struct hmreg_domain *domains[3]; /* the third is the group of the others */
    char memory[UNITS * UNIT];
    struct {
        struct range range;
        struct hmreg_mr *mr;
        bool held;
    } regions[REGIONS];
    struct range suspended[RANGES];
    unsigned resumed, refused, slept;
} m;

static struct range random_range(void)
{
    unsigned start = (unsigned)rand() % UNITS;
    unsigned most = UNITS - start < 12 ? UNITS - start : 12;

    return (struct range){start, 1 + (unsigned)rand() % most};
}

static bool touch(struct range a, struct range b)
{
    return a.len && b.len && a.start < b.start + b.len && b.start < a.start + a.len;
}

static bool is_asleep(struct range range)
{
    bool asleep = false;

    for (int i = 0; i < RANGES; i++)
        asleep |= touch(range, m.suspended[i]);
    return asleep;
}

static void *at(struct range range)
{
    return m.memory + (size_t)range.start * UNIT;
}

/* ---- calls ------------------------------------------------------------------------------- */

static void make(int i)
{
    struct range range = random_range();
    struct hmreg_domain *domain = m.domains[rand() % 3];
    struct hmreg_mr *mr = NULL;
    bool held = rand() % 2;
    int rc = held ? hmreg_mr_get(domain, at(range), range.len * UNIT, HMREG_ACCESS_ALL, &mr)
                  : hmreg_mr_reg(domain, at(range), range.len * UNIT, HMREG_ACCESS_ALL, 0, 0, 0,
                                 &mr, NULL);
    struct hmreg_mr_info info = {.size = sizeof(info)};

    assert_int_equal(rc, is_asleep(range) ? -EAGAIN : 0);
    m.refused += rc != 0;
    if (rc)
        return;
    assert_ok(hmreg_mr_query(mr, &info)); /* a get's region may be larger */
    m.regions[i].range.start = (unsigned)((info.addr - (uintptr_t)m.memory) / UNIT);
    m.regions[i].range.len = (unsigned)(info.len / UNIT);
    m.regions[i].mr = mr;
    m.regions[i].held = held;
}

static void release(int i)
{
    if (m.regions[i].held)
        hmreg_mr_put(m.regions[i].mr);
    else
        assert_ok(hmreg_mr_close(m.regions[i].mr));
    m.regions[i].mr = NULL;
}

static void count(struct hmreg_mr *mr, void *context)
{
    m.resumed++;
}

/* Those that touch this range and no other one; regions of several holds count once. */
static unsigned count_waking(int n)
{
    struct range range = m.suspended[n];
    unsigned waking = 0;

    m.suspended[n].len = 0;
    for (int i = 0; i < REGIONS; i++) {
        bool counted = !m.regions[i].mr;

        for (int j = 0; j < i; j++)
            counted |= m.regions[j].mr == m.regions[i].mr;
        waking += !counted && touch(m.regions[i].range, range) && !is_asleep(m.regions[i].range);
    }
    return waking;
}

static void change(int n)
{
    struct hmreg_resume_config config = {.size = sizeof(config), .resumed = count};
    struct range range = m.suspended[n];
    unsigned waking;

    if (!range.len) {
        range = random_range();
        for (int i = 0; i < RANGES; i++)
            if (m.suspended[i].start == range.start && m.suspended[i].len == range.len)
                return; /* it is suspended already */
        assert_ok(hmreg_suspend(m.lib, at(range), range.len * UNIT));
        m.suspended[n] = range;
        m.slept++;
        return;
    }
    waking = count_waking(n);
    m.resumed = 0;
    assert_ok(hmreg_resume(m.lib, at(range), range.len * UNIT, &config));
    assert_int_equal(m.resumed, waking);
}

/* ---- the run ----------------------------------------------------------------------------- */

static void check_region(int i)
{
    const struct hmreg_mr_head *head = hmreg_mr_head_of(m.regions[i].mr);
    bool asleep = is_asleep(m.regions[i].range);

    for (uint32_t part = 0; part < head->count; part++)
        assert_int_equal(head->keys[part].key == HMREG_KEY_NOTAVAIL, asleep);
    if (head->count > 1 && !asleep)
        for (uint32_t part = 0; part < head->count; part++)
            assert_int_equal(hmreg_mr_key(hmreg_mr_rail(m.regions[i].mr, part)),
                             head->keys[part].key);
}

static void open_all(void)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM),
                                  .monitor = HMREG_MONITOR_IMPORT};
    struct hmreg_loopback_config modes = {.size = sizeof(modes), .mr_mode = HMREG_MR_PROV_KEY};
    struct hmreg_group_config both = {.size = sizeof(both)};

    assert_ok(hmreg_open(&config, &m.lib));
    for (int i = 0; i < 2; i++)
        assert_ok(hmreg_domain_open_loopback(m.lib, &modes, NULL, &m.domains[i]));
    assert_ok(hmreg_group_open(m.lib, m.domains, 2, &both, &m.domains[2]));
}

static void close_all(void)
{
    for (int i = 0; i < RANGES; i++)
        if (m.suspended[i].len && i % 2) /* the others are suspended at the end too */
            change(i);
    for (int i = 0; i < REGIONS; i++)
        if (m.regions[i].mr)
            release(i);
    for (int i = 2; i >= 0; i--)
        assert_ok(hmreg_domain_close(m.domains[i]));
    assert_ok(hmreg_close(m.lib));
}

TEST(suspend__random_calls__regions_have_keys_exactly_while_awake)
{
    const char *asked = getenv("HMREG_TEST_SEED");
    unsigned seed = asked ? (unsigned)strtoul(asked, NULL, 0) : (unsigned)getpid();

    srand(seed);
    print_message("seed %u\n", seed);
    open_all();
    for (int step = 0; step < STEPS; step++) {
        int i = rand() % REGIONS;

        if (rand() % 3 == 0)
            change(rand() % RANGES);
        else if (m.regions[i].mr)
            release(i);
        else
            make(i);
        for (int n = 0; n < REGIONS; n++)
            if (m.regions[n].mr)
                check_region(n);
    }
    assert_true(m.refused > STEPS / 100 && m.slept > STEPS / 100);
    close_all();
}

TEST_MAIN()
