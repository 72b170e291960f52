/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Groups that register on their nearest members, on a simulated host of 8 GPUs and 32 NICs: how
 * many registrations a buffer takes, which rails it has and why, and what replaces a NIC that is
 * dead.
 */
#include "tests/support/queries.h"
#include "tests/support/synthetic.h"
#include "tests/unit/group_fixture.h"

#include <hmreg/affinity.h>
#include <hmreg/job.h>

#define GPUS 8
#define NICS 32

static struct vendor *cuda = &vendors[HMREG_IFACE_CUDA];

/* ---- what is asked of libhmreg-affinity ------------------------------------------------- */

static unsigned orders;
static int node;

int __real_topology_order_domains(const struct hmreg_topology *topology,
                                  const struct hmreg_place *place,
                                  struct hmreg_domain *const *domains, size_t count, size_t *order,
                                  enum hmreg_distance *distances);
int __wrap_topology_order_domains(const struct hmreg_topology *topology,
                                  const struct hmreg_place *place,
                                  struct hmreg_domain *const *domains, size_t count, size_t *order,
                                  enum hmreg_distance *distances);
int __wrap_topology_order_domains(const struct hmreg_topology *topology,
                                  const struct hmreg_place *place,
                                  struct hmreg_domain *const *domains, size_t count, size_t *order,
                                  enum hmreg_distance *distances)
{
    orders++;
    return __real_topology_order_domains(topology, place, domains, count, order, distances);
}

int __wrap_memory_node(const void *addr, size_t len, char *words, size_t size);
int __wrap_memory_node(const void *addr, size_t len, char *words, size_t size)
{
    return node;
}

/* ---- the host --------------------------------------------------------------------------- */

static struct host {
    struct script_fixture script;
    struct hmreg_domain *members[NICS], *group;
    struct hmreg_topology *topology;
} host;

static void close_host(void)
{
    assert_ok(hmreg_domain_close(host.group));
    for (unsigned i = 0; i < NICS; i++)
        assert_ok(hmreg_domain_close(host.members[i]));
    script.destroys = 0;
    hmreg_topology_close(host.topology);
    script_close(&host.script);
}

static void open_host_of(int (*before_reg)(unsigned domain))
{
    struct hmreg_topology_config config = {.size = sizeof(config)};
    char path[32];
    int rc;

    script_open(&host.script, NULL, NULL);
    script.before_reg = before_reg;
    cuda->devices = GPUS;
    synthetic_rails(path);
    config.xml = path;
    rc = hmreg_topology_open(host.script.lib, &config, &host.topology);
    unlink(path);
    if (rc == -EOPNOTSUPP) {
        script_close(&host.script);
        test_skip("%s", hmreg_last_error()->text);
    }
    assert_ok(rc);
    test_after(close_host);
    for (unsigned i = 0; i < NICS; i++) {
        struct script_caps caps = script_caps;

        snprintf(caps.fabric, sizeof(caps.fabric), "nic%u", i);
        caps.pci = (struct hmreg_pci){.bus = (uint8_t)(0x20 + i), .valid = 1};
        caps.number = i;
        assert_ok(script_domain(host.script.lib, &caps, NULL, &host.members[i]));
    }
    assert_ok(hmreg_group_open(host.script.lib, host.members, NICS, NULL, &host.group));
    orders = 0;
}

static void open_host(void)
{
    open_host_of(NULL);
}

/* Bit i: the region has rail i. */
static uint32_t rails_of(const struct hmreg_mr *mr)
{
    uint32_t rails = 0;

    for (unsigned i = 0; i < NICS; i++)
        rails |= (uint32_t)(hmreg_mr_rail(mr, i) != NULL) << i;
    return rails;
}

static uint32_t rails_near(unsigned gpu)
{
    return 0x01010101u << gpu;
}

static struct hmreg_mr *reg(void *memory)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_reg(host.group, memory, 4096, HMREG_ACCESS_ALL, 0, 5, 0, &mr, NULL));
    return mr;
}

/* ---- near ------------------------------------------------------------------------------- */

TEST(nearest__buffer_of_each_gpu__four_registrations_instead_of_32)
{
    static const unsigned wanted[] = {4, HMREG_NEAREST_LOCAL};

    for (size_t n = 0; n < 2; n++) {
        open_host();
        assert_ok(hmreg_group_nearest(host.group, host.topology, wanted[n]));
        for (unsigned gpu = 0; gpu < GPUS; gpu++) {
            void *memory =
                vendor_memory(HMREG_IFACE_CUDA, (int)gpu, HMREG_MEM_DEVICE, FIXTURE_BYTES);
            unsigned before = script.count;
            struct hmreg_mr *mr = reg(memory), *got[2];

            assert_int_equal(script.count - before, 4);
            assert_int_equal(rails_of(mr), rails_near(gpu));
            assert_ok(hmreg_mr_close(mr));
            for (int i = 0; i < 2; i++)
                assert_ok(hmreg_mr_get(host.group, memory, 4096, HMREG_ACCESS_ALL, &got[i]));
            assert_ptr_equal(got[0], got[1]);
            assert_int_equal(script.count - before, 8);
            hmreg_mr_put(got[0]);
            hmreg_mr_put(got[1]);
            assert_ok(hmreg_domain_flush(host.group));
            vendor_memory_free(memory);
        }
        assert_int_equal(orders, GPUS); /* once for each */
        test_finish();
    }
}

TEST(nearest__not_set__all_rails_and_no_reason)
{
    struct hmreg_mr *mr;

    open_host();
    mr = reg(host.script.memory[0]);
    assert_int_equal(script.count, NICS);
    assert_string_equal(test_why_of(mr).rail_why, "");
    assert_ok(hmreg_mr_close(mr));
    assert_int_equal(orders, 0);
}

TEST(nearest__each_rail__says_why_it_was_taken_or_left_out)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr *mr;
    const void *rail;
    size_t size = 4096, rail_size;
    uint8_t token[4096];

    open_host();
    assert_ok(hmreg_group_nearest(host.group, host.topology, 5));
    mr = reg(host.script.memory[1]);
    assert_ok(hmreg_mr_explain(hmreg_mr_rail(mr, 9), &why));
    assert_string_equal(why.rail_why, "rail 9 (nic9) is number 2 of 32 by its distance to cuda 1 "
                                      "(PIX): among the nearest");
    assert_ok(hmreg_mr_explain(hmreg_mr_rail(mr, 0), &why)); /* the fifth */
    assert_non_null(strstr(why.rail_why, "number 5 of 32 by its distance to cuda 1 (PHB)"));
    assert_ok(hmreg_mr_explain(mr, &why));
    assert_non_null(strstr(why.rail_why, "among the nearest"));
    script.can[HMREG_PATH_DMABUF][0] = -EOPNOTSUPP;
    assert_ok(hmreg_domain_explain(host.group, HMREG_IFACE_CUDA, 7, &why)); /* of a near one */
    assert_non_null(strstr(why.rail_why, "rail 4 (nic4) is number 5 of 32"));
    assert_non_null(strstr(why.rail_why, "among the nearest"));
    assert_non_null(strstr(why.reasons[0].text, "rail 4 (nic4)"));
    script.can[HMREG_PATH_DMABUF][0] = 0;
    assert_null(hmreg_mr_rail(mr, 31));
    assert_int_equal(hmreg_last_error()->code, -ENOENT);
    assert_non_null(strstr(hmreg_last_error()->text, "rail 31 (nic31) is number"));
    assert_non_null(strstr(hmreg_last_error()->text, "cuda 1 (SYS): left out"));
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_token_rail(token, size, 9, &rail, &rail_size));
    assert_fails(hmreg_token_rail(token, size, 31, &rail, &rail_size), -ENOENT, "no rail 31");
    assert_ok(hmreg_mr_close(mr));
}

TEST(nearest__host_memory__the_nics_of_its_node_or_all)
{
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .access = HMREG_ACCESS_ALL, .rails = 1u << 31};
    char memory[4096] = {0};
    struct iovec iov = {memory, sizeof(memory)};
    struct hmreg_mr *mr = NULL;

    open_host();
    assert_ok(hmreg_group_nearest(host.group, host.topology, HMREG_NEAREST_LOCAL));
    for (node = -1; node < 2; node++) {
        mr = reg(memory);
        assert_int_equal(rails_of(mr), node < 0 ? 0xffffffffu : 0x0f0f0f0fu << 4 * node);
        assert_ok(hmreg_mr_close(mr));
    }
    node = 0;
    attr.iov = &iov; /* rails that are named are taken */
    attr.iov_count = 1;
    assert_ok(hmreg_mr_regattr(host.group, &attr, 0, &mr));
    assert_int_equal(rails_of(mr), 1u << 31);
    assert_ok(hmreg_mr_close(mr));
    assert_int_equal(orders, 2);
}

TEST(nearest__plain_calls__host_memory_is_at_an_unknown_place)
{
    char memory[4096] = {0};
    struct hmreg_mr *mr;

    setenv("HMREG_SYSCALLS", "plain", 1);
    open_host();
    unsetenv("HMREG_SYSCALLS");
    assert_ok(hmreg_group_nearest(host.group, host.topology, HMREG_NEAREST_LOCAL));
    node = 0;
    mr = reg(memory);
    assert_int_equal(rails_of(mr), 0xffffffffu);
    assert_ok(hmreg_mr_close(mr));
}

/* ---- dead NICs -------------------------------------------------------------------------- */

TEST(nearest__dead_nic__the_next_nearest_in_its_place)
{
    struct hmreg_mr *mr;

    open_host();
    assert_ok(hmreg_group_nearest(host.group, host.topology, 4));
    script.fail[HMREG_PATH_DMABUF] = -EIO;
    for (unsigned dead = 0; dead < 4; dead++) { /* each of the four */
        script.count = 0;
        script.fail_index = dead + 1;
        mr = reg(host.script.memory[1]);
        assert_int_equal(script.count, 5);
        assert_int_equal(rails_of(mr), (rails_near(1) & ~(2u << 8 * dead)) | 1);
        assert_non_null(strstr(test_why_of(hmreg_mr_rail(mr, 0)).rail_why,
                               "replaces a nearer rail, which failed"));
        assert_null(hmreg_mr_rail(mr, 1 + 8 * dead));
        assert_int_equal(hmreg_last_error()->code, -EIO);
        assert_non_null(strstr(hmreg_last_error()->text, "script: dmabuf failed"));
        assert_ok(hmreg_mr_close(mr));
        assert_int_equal(script.live, 0);
    }
}

TEST(nearest__all_but_one_dead__the_one_and_then_an_error)
{
    struct hmreg_mr *mr;
    void *memory; /* near the last GPU: those in the place of others have lower numbers, too */

    open_host();
    memory = vendor_memory(HMREG_IFACE_CUDA, GPUS - 1, HMREG_MEM_DEVICE, FIXTURE_BYTES);
    assert_ok(hmreg_group_nearest(host.group, host.topology, 4));
    script.fail[HMREG_PATH_DMABUF] = -EIO;
    script.times = NICS - 1;
    mr = reg(memory);
    assert_int_equal(script.count, NICS);
    assert_int_equal(__builtin_popcount(rails_of(mr)), 1);
    assert_ok(hmreg_mr_close(mr));
    script.times = -1;
    mr = (void *)1;
    assert_reg_fails(hmreg_mr_reg(host.group, memory, 4096, HMREG_ACCESS_ALL, 0, 5, 0, &mr, NULL),
                     mr, -EIO, "rail 7 (nic7)");
    script.count = 0;
    script.fail[HMREG_PATH_DMABUF] = -ENOMEM; /* says nothing about the NIC */
    script.fail_index = 2;
    assert_reg_fails(hmreg_mr_reg(host.group, memory, 4096, HMREG_ACCESS_ALL, 0, 5, 0, &mr, NULL),
                     mr, -ENOMEM, "rail 15 (nic15)");
    assert_int_equal(script.count, 2);
    vendor_memory_free(memory);
}

TEST(nearest__dead_nic_in_a_region_of_parts__the_other_has_all_parts)
{
    struct hmreg_segment segments[3] = {{0}};
    struct hmreg_piece_info info = {.size = sizeof(info)};
    struct hmreg_mr *mr = NULL;

    open_host();
    assert_ok(hmreg_group_nearest(host.group, host.topology, 2));
    for (unsigned i = 0; i < 3; i++)
        segments[i].u.memory = (struct iovec){host.script.memory[0] + 8192 * i, 4096};
    script.fail[HMREG_PATH_DMABUF] = -EIO;
    script.fail_index = 4; /* the second part, on the second of the two rails, which are 0 and 8 */
    assert_ok(hmreg_mr_regsgl(host.group, segments, 3, HMREG_ACCESS_ALL, 0, 5, 0, &mr, NULL));
    assert_int_equal(rails_of(mr), 1u | 1u << 16);
    for (unsigned i = 0; i < 3; i++) {
        assert_ok(hmreg_mr_piece(hmreg_mr_rail(mr, 16), i, &info));
        assert_int_equal(info.local_addr, (uintptr_t)segments[i].u.memory.iov_base);
    }
    assert_int_equal(script.live, 6);
    assert_ok(hmreg_mr_close(mr));
}

static unsigned regs, broken_by; /* this registration is the first of two that fail */

static int break_two(unsigned domain)
{
    if (++regs == 2)
        return -EIO;
    return regs == broken_by ? -ENOMEM : 0;
}

/* The NIC in the place of another lacks the job's first piece, which it registers at the end. */
TEST(nearest__job_whose_other_nic_fails_at_the_end__fails)
{
    struct hmreg_job_config config = {
        .size = sizeof(config), .workers = 1, .piece_len = FIXTURE_BYTES / 3};
    struct hmreg_mr *mr = (void *)1;

    open_host_of(break_two);
    assert_ok(hmreg_group_nearest(host.group, host.topology, 1));
    broken_by = 5;
    assert_fails(hmreg_mr_reg_large(host.group, host.script.memory[0], FIXTURE_BYTES,
                                    HMREG_ACCESS_ALL, &config, &mr),
                 -ENOMEM, "the test has it fail");
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(script.live, 0);
    regs = broken_by = 0;
    assert_ok(hmreg_mr_reg_large(host.group, host.script.memory[0], FIXTURE_BYTES, HMREG_ACCESS_ALL,
                                 &config, &mr));
    assert_int_equal(rails_of(mr), 1u << 8);
    assert_ok(hmreg_mr_close(mr));
}

/* ---- any of them dead ------------------------------------------------------------------- */

static uint32_t dead;

static int fail_if_dead(unsigned domain)
{
    return dead >> domain & 1 ? -EIO : 0;
}

/* The first `wanted` in the order of their distances that are not dead. */
static uint32_t rails_expected(unsigned gpu, unsigned wanted)
{
    struct hmreg_place place = {.size = sizeof(place),
                                .kind = HMREG_PLACE_DEVICE,
                                .iface = HMREG_IFACE_CUDA,
                                .device = (int)gpu};
    enum hmreg_distance distances[NICS];
    size_t order[NICS];
    uint32_t rails = 0;

    assert_ok(
        __real_topology_order_domains(host.topology, &place, host.members, NICS, order, distances));
    for (unsigned i = 0; i < NICS && wanted; i++)
        if (!(dead >> order[i] & 1)) {
            rails |= UINT32_C(1) << order[i];
            wanted--;
        }
    return rails;
}

static void wait_for_replaced(size_t member)
{
    struct hmreg_group_member info = {.size = sizeof(info)};

    do
        assert_ok(hmreg_group_query(host.group, member, &info));
    while (info.state == HMREG_MEMBER_REPLACING);
    assert_int_equal(info.failed, 0);
}

/* A withdrawn NIC is expected back: no other is taken in its place, unless there is none left. */
TEST(nearest__withdrawn_nic__left_out_until_it_is_replaced)
{
    struct hmreg_domain *new = NULL;
    struct script_caps caps = script_caps;
    struct hmreg_mr *mr;
    void *memory;

    open_host();
    assert_ok(hmreg_group_nearest(host.group, host.topology, 4));
    memory = vendor_memory(HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE, FIXTURE_BYTES);
    assert_ok(hmreg_group_withdraw(host.group, 8, "cable cut"));
    mr = reg(memory);
    assert_int_equal(rails_of(mr), rails_near(0) & ~(1u << 8));
    for (unsigned i = 0; i < NICS; i += 8)
        assert_ok(hmreg_group_withdraw(host.group, i, "cable cut"));
    assert_int_equal(rails_of(mr), 0);
    assert_ok(hmreg_mr_close(mr));
    mr = reg(memory);
    assert_int_equal(__builtin_popcount(rails_of(mr)), 1);
    assert_int_equal(rails_of(mr) & rails_near(0), 0);
    caps.number = 8;
    assert_ok(script_domain(host.script.lib, &caps, NULL, &new));
    assert_ok(hmreg_group_replace(host.group, 8, new));
    wait_for_replaced(8);
    assert_int_equal(__builtin_popcount(rails_of(mr)), 2);
    assert_non_null(hmreg_mr_rail(mr, 8));
    assert_ok(hmreg_mr_close(mr));
    vendor_memory_free(memory);
    assert_ok(hmreg_domain_close(host.members[8]));
    host.members[8] = new;
}

TEST(nearest__random_dead_nics__rails_as_the_model_says)
{
    static const unsigned wanted[] = {1, 4, 7, NICS};

    srandom(1);
    for (size_t n = 0; n < 4; n++) {
        open_host_of(fail_if_dead);
        assert_ok(hmreg_group_nearest(host.group, host.topology, wanted[n]));
        for (unsigned round = 0; round < 100; round++) {
            unsigned gpu = (unsigned)random() % GPUS;
            struct hmreg_mr *mr = NULL;
            void *memory;

            script.count = 0; /* there is room for so many */
            /* Few, half, or nearly all. */
            dead = (uint32_t)random() << 1 ^ (uint32_t)random();
            dead = round % 3 == 0 ? dead & (uint32_t)random() << 1 & (uint32_t)random() : dead;
            dead = round % 3 == 1 ? dead | (uint32_t)random() << 1 | (uint32_t)random() : dead;
            memory = vendor_memory(HMREG_IFACE_CUDA, (int)gpu, HMREG_MEM_DEVICE, FIXTURE_BYTES);
            if (dead == UINT32_MAX)
                assert_reg_fails(
                    hmreg_mr_reg(host.group, memory, 4096, HMREG_ACCESS_ALL, 0, 5, 0, &mr, NULL),
                    mr, -EIO, "the test has it fail");
            else {
                mr = reg(memory);
                assert_int_equal(rails_of(mr), rails_expected(gpu, wanted[n]));
                assert_ok(hmreg_mr_close(mr));
            }
            vendor_memory_free(memory);
        }
        test_finish();
    }
}

/* ---- refused ---------------------------------------------------------------------------- */

TEST(group_nearest__wrong_arguments__refused)
{
    struct hmreg_topology *without = NULL;

    open_host();
    assert_ok(hmreg_topology_open(NULL, NULL, &without));
    assert_fails(hmreg_group_nearest(NULL, host.topology, 4), -EINVAL, "domain is NULL");
    assert_fails(hmreg_group_nearest(host.group, NULL, 4), -EINVAL, "topology is NULL");
    assert_fails(hmreg_group_nearest(host.members[0], host.topology, 4), -EINVAL, "no group");
    assert_fails(hmreg_group_nearest(host.group, without, 4), -EINVAL, "group's lib");
    assert_fails(hmreg_group_nearest(host.group, host.topology, HMREG_GROUP_MAX + 1), -EINVAL,
                 "nearest is 65");
    allocations = 0;
    failing = 1;
    assert_fails(hmreg_group_nearest(host.group, host.topology, 4), -ENOMEM, "no memory");
    failing = 0;
    assert_ok(hmreg_group_nearest(host.group, host.topology, HMREG_GROUP_MAX));
    assert_fails(hmreg_group_nearest(host.group, host.topology, 4), -EBUSY,
                 "was called for this group before");
    hmreg_topology_close(without);
}

TEST(group_nearest__in_a_forked_child__eperm)
{
    open_host();
    test_in_child(hmreg_group_nearest(host.group, host.topology, 4) != -EPERM);
}

TEST_MAIN()
