/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * hmreg_suspend() and hmreg_resume() of device memory: the memory is free in between, other memory
 * comes back at the same address, and a peer reaches that by a renewed token only.
 */
#include "tests/gpu/gpu.h"

#include <hmreg/group.h>
#include <hmreg/hibernate.h>
#include <hmreg/loopback.h>
#include <hmreg/suspend.h>
#include <pthread.h>
#include <stdatomic.h>

#define LEN   16384
#define TEXT  24
#define WRITE (HMREG_ACCESS_LOCAL | HMREG_ACCESS_REMOTE)

/* Mappings of simulated devices' memory, of the runtime and the library, and descriptors of it. A
 * mapping holds the memory as a NIC's import does. */
static unsigned long uses(void)
{
    static const char *const names[] = {"/secretmem", "hmreg-simulated-device", "/dmabuf:"};
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long count = gpu.fake()->held(-1);
    char line[512];

    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps))
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            count += strstr(line, names[i]) != NULL;
    fclose(maps);
    return count;
}

static struct fixture {
    struct hmem *self;
    struct hmreg *lib;
    struct hmreg_domain *domain;
    uint64_t memory; /* LEN bytes */
    unsigned resumed;
    unsigned long unused; /* uses() without the memory */
} fixture;

static struct hmreg_domain *open_domain(struct hmreg *lib)
{
    struct hmreg_domain_config mapped = {.size = sizeof(mapped), .order = {HMREG_PATH_MAPPED}};
    struct hmreg_loopback_config modes = {.size = sizeof(modes), .mr_mode = HMREG_MR_PROV_KEY};
    struct hmreg_domain *domain = NULL;

    assert_ok(hmreg_domain_open_loopback(lib, &modes, &mapped, &domain));
    return domain;
}

static void close_fixture(void)
{
    gpu.free(fixture.memory, HMREG_MEM_DEVICE);
    assert_ok(hmreg_domain_close(fixture.domain));
    assert_ok(hmreg_close(fixture.lib));
    gpu.end(fixture.self);
}

static void open_fixture(void)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(gpu.ops->iface)};

    gpu_need_fake();
    test_after(close_fixture);
    fixture.self = gpu.begin();
    assert_ok(hmreg_open(&config, &fixture.lib));
    fixture.domain = open_domain(fixture.lib);
    fixture.unused = uses();
    fixture.memory = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);
    fixture.resumed = 0;
}

static void *at(uint64_t addr)
{
    return (void *)(uintptr_t)addr;
}

static struct hmreg_mr *reg(uint64_t offset, size_t len)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(
        hmreg_mr_reg(fixture.domain, at(fixture.memory + offset), len, WRITE, 0, 0, 0, &mr, NULL));
    return mr;
}

static struct hmreg_mr *get(uint64_t offset, size_t len)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(fixture.domain, at(fixture.memory + offset), len, WRITE, &mr));
    return mr;
}

static void sleep_all(void)
{
    assert_ok(hmreg_suspend(fixture.lib, at(fixture.memory), LEN));
}

static void count_resumed(struct hmreg_mr *mr, void *context)
{
    assert_ok(hmreg_mr_query(mr, &(struct hmreg_mr_info){.size = sizeof(struct hmreg_mr_info)}));
    ((struct fixture *)context)->resumed++;
}

static int wake(void)
{
    struct hmreg_resume_config config = {
        .size = sizeof(config), .resumed = count_resumed, .context = &fixture};

    return hmreg_resume(fixture.lib, at(fixture.memory), LEN, &config);
}

/* Other memory comes to the same address. */
static void exchange(bool check)
{
    gpu.free(fixture.memory, HMREG_MEM_DEVICE);
    if (check)
        assert_int_equal(uses(), fixture.unused);
    assert_int_equal(gpu.alloc(0, HMREG_MEM_DEVICE, LEN), fixture.memory);
}

static void replace(void)
{
    exchange(true);
}

struct token {
    char bytes[2048];
    size_t size;
};

static struct token pack(const struct hmreg_mr *mr)
{
    struct token token = {.size = sizeof(token.bytes)};

    assert_ok(hmreg_mr_pack(mr, token.bytes, &token.size));
    return token;
}

static struct hmreg_remote *open_remote(const struct hmreg_mr *mr)
{
    struct token token = pack(mr);
    struct hmreg_remote *remote = NULL;

    assert_ok(hmreg_remote_open(fixture.domain, token.bytes, token.size, &remote));
    return remote;
}

/* A peer writes the text at an offset of the region. */
static int write_to(struct hmreg_remote *remote, uint64_t offset, const char *text)
{
    char out[TEXT] = "";
    uint64_t addr, key;

    snprintf(out, sizeof(out), "%s", text);
    assert_ok(hmreg_remote_addr(remote, offset, TEXT, &addr, &key));
    return hmreg_loopback_write(remote, out, TEXT, NULL, addr, key);
}

static void expect_text(uint64_t offset, const char *text)
{
    char in[TEXT] = "";

    assert_ok(hmreg_copy(fixture.lib, in, at(fixture.memory + offset), TEXT));
    assert_string_equal(in, text);
}

static void renew(struct hmreg_remote *remote, const struct hmreg_mr *mr)
{
    enum hmreg_remote_state state = HMREG_REMOTE_DEAD;
    struct token token = pack(mr);

    assert_ok(hmreg_remote_check(remote, token.bytes, token.size, &state));
    assert_int_equal(state, HMREG_REMOTE_RENEWED);
    assert_ok(hmreg_remote_renew(remote, token.bytes, token.size));
}

/* Suspended: nothing of the region can be used. */
static void expect_asleep(const struct hmreg_mr *mr)
{
    char token[2048];
    size_t size = sizeof(token);

    assert_int_equal(hmreg_mr_key(mr), HMREG_KEY_NOTAVAIL);
    assert_int_equal(hmreg_last_error()->code, -EAGAIN);
    assert_int_equal(hmreg_mr_head_of(mr)->keys[0].key, HMREG_KEY_NOTAVAIL);
    assert_fails(hmreg_mr_pack(mr, token, &size), -EAGAIN, "hmreg_resume()");
}

TEST(suspend__explicit_held_and_idle__memory_is_free_keys_refused)
{
    struct hmreg_mr *explicit, *held, *other = NULL;
    struct hmreg_remote *remote;
    uint32_t before;

    open_fixture();
    explicit = reg(0, LEN);
    held = get(0, 4096);
    hmreg_mr_put(get(4096, 4096));
    before = hmreg_mr_head_of(explicit)->generation;
    remote = open_remote(explicit);
    assert_ok(write_to(remote, 100, "before"));
    sleep_all();
    expect_asleep(explicit);
    expect_asleep(held);
    assert_int_not_equal(hmreg_mr_head_of(explicit)->generation, before);
    assert_int_equal(write_to(remote, 100, "refused"), -EKEYREJECTED);
    assert_fails(hmreg_mr_get(fixture.domain, at(fixture.memory + 10), 10, WRITE, &other), -EAGAIN,
                 "suspended");
    replace();
    assert_fails(hmreg_mr_reg(fixture.domain, at(fixture.memory), 10, WRITE, 0, 0, 0, &other, NULL),
                 -EAGAIN, "suspended");
    assert_ok(wake());
    assert_int_equal(fixture.resumed, 2);
    assert_int_equal(write_to(remote, 100, "refused"), -EKEYREJECTED);
    renew(remote, explicit);
    assert_ok(write_to(remote, 100, "explicit"));
    expect_text(100, "explicit");
    hmreg_remote_close(remote);
    remote = open_remote(held);
    assert_ok(write_to(remote, 200, "held"));
    expect_text(200, "held");
    hmreg_remote_close(remote);
    hmreg_mr_put(held);
    hmreg_mr_put(get(0, 4096));
    assert_ok(hmreg_mr_close(explicit));
}

/* What the test above proves could not fail otherwise. */
TEST(without_suspend__memory_is_held)
{
    struct hmreg_mr *mr;

    open_fixture();
    mr = reg(0, LEN);
    gpu.free(fixture.memory, HMREG_MEM_DEVICE);
    assert_int_not_equal(uses(), fixture.unused);
    assert_ok(hmreg_mr_close(mr));
    assert_int_equal(uses(), fixture.unused);
    fixture.memory = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);
}

TEST(suspended__closed_and_put__not_resumed)
{
    struct hmreg_mr *explicit, *held;

    open_fixture();
    explicit = reg(0, LEN);
    held = get(0, LEN);
    sleep_all();
    assert_int_equal(hmreg_domain_close(fixture.domain), -EBUSY);
    assert_ok(hmreg_mr_close(explicit));
    hmreg_mr_put(held);
    replace();
    assert_ok(hmreg_invalidate(fixture.lib, at(fixture.memory), LEN));
    assert_ok(wake());
    assert_int_equal(fixture.resumed, 0);
}

/* ---- hibernating ------------------------------------------------------------------------ */

static int suspend_all(void)
{
    return hmreg_suspend(fixture.lib, at(fixture.memory), LEN);
}

static int hibernate(void)
{
    return hmreg_hibernate(fixture.lib);
}

static int thaw(void)
{
    return hmreg_thaw(fixture.lib, NULL);
}

/* As a checkpointer does while nothing is registered: the memory is released, other memory comes to
 * its address. */
static int checkpoint(void)
{
    replace();
    return 0;
}

/* Peers meet another life of the library: an old remote is dead. */
static void check_woken(const struct hmreg_mr *mr, struct hmreg_remote *before, const char *text)
{
    enum hmreg_remote_state state = HMREG_REMOTE_CURRENT;
    struct token token = pack(mr);
    struct hmreg_remote *now;

    assert_int_equal(write_to(before, 100, "refused"), -EKEYREJECTED);
    assert_ok(hmreg_remote_check(before, token.bytes, token.size, &state));
    assert_int_equal(state, HMREG_REMOTE_OTHER_LIFE);
    hmreg_remote_close(before);
    now = open_remote(mr);
    assert_ok(write_to(now, 100, text));
    expect_text(100, text);
    hmreg_remote_close(now);
}

TEST(hibernate__memory_released_and_allocated_again__reached_by_new_tokens)
{
    int (*const orders[][5])(void) = {
        {hibernate, checkpoint, thaw},
        {suspend_all, hibernate, checkpoint, thaw, wake},
        {suspend_all, hibernate, checkpoint, wake, thaw},
        {hibernate, suspend_all, checkpoint, wake, thaw},
        {hibernate, suspend_all, checkpoint, thaw, wake},
    };
    struct hmreg_mr *explicit, *held;

    open_fixture();
    explicit = reg(0, LEN);
    held = get(0, LEN);
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        struct hmreg_remote *to_explicit = open_remote(explicit), *to_held = open_remote(held);

        for (size_t j = 0; j < 5 && orders[i][j]; j++)
            assert_ok(orders[i][j]());
        check_woken(explicit, to_explicit, "explicit");
        check_woken(held, to_held, "held");
    }
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(explicit));
}

/* The memory is not back yet when the first thaw comes to it. */
TEST(thaw__memory_is_gone__again_once_it_is_there)
{
    struct hmreg_remote *remote;
    struct hmreg_mr *mr;

    open_fixture();
    mr = reg(0, LEN);
    remote = open_remote(mr);
    assert_ok(hibernate());
    gpu.free(fixture.memory, HMREG_MEM_DEVICE);
    assert_int_not_equal(thaw(), 0);
    assert_int_equal(hmreg_mr_key(mr), HMREG_KEY_NOTAVAIL);
    assert_int_equal(gpu.alloc(0, HMREG_MEM_DEVICE, LEN), fixture.memory);
    assert_ok(thaw());
    check_woken(mr, remote, "whole");
    assert_ok(hmreg_mr_close(mr));
}

/* ---- what is kept ------------------------------------------------------------------------ */

TEST(resume__attributes__as_they_were)
{
    struct hmreg_loopback_config modes = {.size = sizeof(modes), .mr_mode = HMREG_MR_VIRT_ADDR};
    struct hmreg_domain_config mapped = {.size = sizeof(mapped), .order = {HMREG_PATH_MAPPED}};
    struct iovec range;
    uint8_t auth[] = "secret";
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &range,
                                 .iov_count = 1,
                                 .access = WRITE,
                                 .requested_key = 77,
                                 .auth_key = auth,
                                 .auth_key_size = sizeof(auth),
                                 .context = &fixture,
                                 .set_iova = 1,
                                 .iova = 0x10000};
    struct hmreg_mr *explicit = NULL, *held = NULL;
    struct hmreg_remote *remote;

    open_fixture();
    assert_ok(hmreg_domain_close(fixture.domain));
    modes.auth_key = auth;
    modes.auth_key_size = sizeof(auth);
    assert_ok(hmreg_domain_open_loopback(fixture.lib, &modes, &mapped, &fixture.domain));
    range = (struct iovec){at(fixture.memory + 64), 4096};
    assert_ok(hmreg_mr_regattr(fixture.domain, &attr, 0, &explicit));
    attr.requested_key = 0;
    assert_ok(hmreg_mr_get_attr(fixture.domain, &attr, 0, &held));
    memset(auth, 0, sizeof(auth));
    memset(&range, 0, sizeof(range));
    sleep_all();
    replace();
    assert_ok(wake());
    assert_int_equal(fixture.resumed, 2);
    assert_int_equal(hmreg_mr_key(explicit), 77);
    for (struct hmreg_mr *mr = explicit;; mr = held) {
        uint64_t addr, key;

        remote = open_remote(mr);
        assert_ptr_equal(hmreg_mr_context(mr), &fixture);
        assert_ok(hmreg_remote_addr(remote, 0, 1, &addr, &key));
        assert_int_equal(addr, 0x10000);
        assert_ok(write_to(remote, 5, "attributes"));
        expect_text(69, "attributes");
        hmreg_remote_close(remote);
        if (mr == held)
            break;
    }
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(explicit));
}

/* Both lists have two segments, of which the second alone is in the range. */
TEST(resume__lists__each_segment)
{
    struct hmreg_segment segments[2] = {{.kind = HMREG_SEGMENT_MEMORY},
                                        {.kind = HMREG_SEGMENT_MEMORY}};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .segments = segments, .segment_count = 2, .access = WRITE};
    struct hmreg_mr *mrs[2] = {NULL, NULL};
    struct hmreg_remote *remote;
    unsigned long before;
    uint64_t other;

    open_fixture();
    before = uses();
    other = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);
    fixture.unused += uses() - before;
    segments[0].u.memory = (struct iovec){at(other + 64), 4096};
    segments[1].u.memory = (struct iovec){at(fixture.memory + 32), 4096};
    assert_ok(hmreg_mr_regattr(fixture.domain, &attr, 0, &mrs[0]));
    assert_ok(hmreg_mr_get_attr(fixture.domain, &attr, 0, &mrs[1]));
    memset(segments, 0, sizeof(segments));
    sleep_all();
    expect_asleep(mrs[0]);
    expect_asleep(mrs[1]);
    replace();
    assert_ok(wake());
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(hmreg_mr_head_of(mrs[i])->count, 2);
        remote = open_remote(mrs[i]);
        assert_ok(write_to(remote, 4096 + 8, i ? "held list" : "list"));
        expect_text(40, i ? "held list" : "list");
        hmreg_remote_close(remote);
    }
    hmreg_mr_put(mrs[1]);
    assert_ok(hmreg_mr_close(mrs[0]));
    gpu.free(other, HMREG_MEM_DEVICE);
}

TEST(group__rails_stay_and_get_new_keys)
{
    struct hmreg_group_config both = {.size = sizeof(both)};
    struct hmreg_domain *members[2], *group = NULL;
    struct hmreg_mr *explicit = NULL, *held = NULL, *rails[2];
    uint64_t keys[2];

    open_fixture();
    members[0] = fixture.domain;
    members[1] = open_domain(fixture.lib);
    assert_ok(hmreg_group_open(fixture.lib, members, 2, &both, &group));
    assert_ok(hmreg_mr_reg(group, at(fixture.memory), LEN, WRITE, 0, 0, 0, &explicit, NULL));
    assert_ok(hmreg_mr_get(group, at(fixture.memory), LEN, WRITE, &held));
    for (unsigned i = 0; i < 2; i++) {
        rails[i] = hmreg_mr_rail(explicit, i);
        keys[i] = hmreg_mr_key(rails[i]);
    }
    sleep_all();
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(hmreg_mr_key(rails[i]), HMREG_KEY_NOTAVAIL);
        assert_int_equal(hmreg_mr_head_of(held)->keys[i].key, HMREG_KEY_NOTAVAIL);
    }
    replace();
    assert_ok(wake());
    assert_int_equal(fixture.resumed, 2);
    for (unsigned i = 0; i < 2; i++) {
        struct hmreg_remote *remote = NULL;
        struct token token = pack(rails[i]);

        assert_ptr_equal(hmreg_mr_rail(explicit, i), rails[i]);
        assert_int_not_equal(hmreg_mr_key(rails[i]), keys[i]);
        assert_int_equal(hmreg_mr_head_of(explicit)->keys[i].key, hmreg_mr_key(rails[i]));
        assert_int_equal(hmreg_mr_head_of(rails[i])->keys->key, hmreg_mr_key(rails[i]));
        assert_ok(hmreg_remote_open(members[i], token.bytes, token.size, &remote));
        assert_ok(write_to(remote, i * 100ul, "rail"));
        expect_text(i * 100ul, "rail");
        hmreg_remote_close(remote);
    }
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(explicit));
    assert_ok(hmreg_domain_close(group));
    assert_ok(hmreg_domain_close(members[1]));
}

/* ---- dmabufs ----------------------------------------------------------------------------- */

static int export_anew(struct hmreg_mr *mr, size_t index, struct hmreg_mr_dmabuf *dmabuf,
                       void *context)
{
    struct hmreg_dmabuf made = {.fd = -1};

    assert_int_equal(index, 0);
    assert_int_equal(dmabuf->fd, -1);
    assert_ok(hmreg_export_dmabuf(fixture.lib, (char *)dmabuf->base_addr + dmabuf->offset,
                                  dmabuf->len, 0, &made));
    dmabuf->base_addr = (char *)dmabuf->base_addr + dmabuf->offset - made.offset;
    dmabuf->offset = made.offset;
    dmabuf->fd = made.fd;
    ((struct fixture *)context)->resumed = (unsigned)made.fd;
    return 0;
}

TEST(callers_dmabuf__asked_for_another)
{
    struct hmreg_dmabuf made;
    struct hmreg_mr_dmabuf dmabuf;
    struct hmreg_mr_attr attr = {.size = sizeof(attr), .dmabuf = &dmabuf, .access = WRITE};
    struct hmreg_resume_config config = {
        .size = sizeof(config), .dmabuf = export_anew, .context = &fixture};
    struct hmreg_remote *remote;
    struct hmreg_mr *mrs[2] = {NULL, NULL};

    open_fixture();
    for (unsigned i = 0; i < 2; i++) {
        assert_ok(hmreg_export_dmabuf(fixture.lib, at(fixture.memory), LEN, 0, &made));
        dmabuf = (struct hmreg_mr_dmabuf){.fd = made.fd,
                                          .base_addr = at(fixture.memory - made.offset),
                                          .offset = made.offset,
                                          .len = LEN};
        if (i)
            assert_ok(hmreg_mr_get_attr(fixture.domain, &attr, HMREG_REG_DMABUF, &mrs[i]));
        else
            assert_ok(hmreg_mr_regattr(fixture.domain, &attr, HMREG_REG_DMABUF, &mrs[i]));
        close(made.fd);
        memset(&dmabuf, 0, sizeof(dmabuf));
        sleep_all();
        replace();
        assert_fails(wake(), -EINVAL, "config->dmabuf");
        expect_asleep(mrs[i]);
        assert_ok(hmreg_resume(fixture.lib, at(fixture.memory), LEN, &config));
        close((int)fixture.resumed);
        remote = open_remote(mrs[i]);
        assert_ok(write_to(remote, 300, "dmabuf"));
        expect_text(300, "dmabuf");
        hmreg_remote_close(remote);
        if (i)
            hmreg_mr_put(mrs[i]);
        else
            assert_ok(hmreg_mr_close(mrs[i]));
    }
}

/* ---- refusals ---------------------------------------------------------------------------- */

TEST(bound_region__busy_and_nothing_changed)
{
    struct hmreg_loopback_counter *counter;
    struct hmreg_mr *first, *bound, *held;
    uint64_t keys[3];

    open_fixture();
    bound = reg(0, LEN);
    first = reg(0, LEN);
    held = get(0, LEN);
    assert_ok(hmreg_loopback_counter_open(fixture.domain, &counter));
    for (unsigned i = 0; i < 2; i++) {
        assert_ok(hmreg_mr_bind(i ? held : bound, counter, HMREG_REMOTE_WRITE));
        keys[0] = hmreg_mr_key(first);
        keys[1] = hmreg_mr_key(bound);
        keys[2] = hmreg_mr_key(held);
        assert_fails(hmreg_suspend(fixture.lib, at(fixture.memory), LEN), -EBUSY, "is bound");
        assert_int_equal(hmreg_mr_key(first), keys[0]);
        assert_int_equal(hmreg_mr_key(bound), keys[1]);
        assert_int_equal(hmreg_mr_key(held), keys[2]);
        hmreg_mr_put(get(0, LEN));
        assert_int_equal(wake(), -ENOENT);
        assert_ok(hmreg_loopback_counter_close(counter));
        if (!i)
            assert_ok(hmreg_loopback_counter_open(fixture.domain, &counter));
    }
    sleep_all();
    assert_ok(wake());
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(first));
    assert_ok(hmreg_mr_close(bound));
}

/* ---- failures ---------------------------------------------------------------------------- */

TEST(resume__memory_is_not_there__still_suspended)
{
    struct hmreg_mr *mrs[3], *other = NULL;
    uint64_t before;

    open_fixture();
    mrs[0] = reg(0, LEN);
    mrs[1] = reg(0, 100);
    mrs[2] = get(0, 100);
    sleep_all();
    before = fixture.memory;
    gpu.free(fixture.memory, HMREG_MEM_DEVICE);
    assert_true(wake() < 0);
    assert_int_equal(fixture.resumed, 0);
    for (unsigned i = 0; i < 3; i++)
        expect_asleep(mrs[i]);
    assert_int_equal(hmreg_mr_get(fixture.domain, at(before), 100, WRITE, &other), -EAGAIN);
    fixture.memory = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);
    assert_int_equal(fixture.memory, before);
    assert_ok(wake());
    assert_int_equal(fixture.resumed, 3);
    hmreg_mr_put(mrs[2]);
    assert_ok(hmreg_mr_close(mrs[1]));
    assert_ok(hmreg_mr_close(mrs[0]));
}

/* Suspending calls no runtime. Each call of a resumption may fail, once: then the region is still
 * suspended, and the next try succeeds. */
TEST(both__each_call_of_the_runtime_fails__suspended_until_the_next)
{
    struct hmreg_mr *mrs[2];
    unsigned failed = 0;

    open_fixture();
    mrs[0] = reg(0, LEN);
    mrs[1] = get(0, LEN);
    for (const char *const *call = gpu.calls; *call; call++) {
        if (gpu.cleans_up && strstr(gpu.cleans_up, *call))
            continue;
        gpu_fail(*call, gpu.failure, 0, 1);
        sleep_all();
        gpu.fake()->reset();
        replace();
        gpu_fail(*call, gpu.failure, 0, 1);
        if (wake()) {
            failed++;
            expect_asleep(mrs[0]);
            gpu.fake()->reset();
            assert_ok(wake());
        }
        gpu.fake()->reset();
        for (unsigned i = 0; i < 2; i++) {
            struct hmreg_remote *remote = open_remote(mrs[i]);

            assert_ok(write_to(remote, 64, *call));
            hmreg_remote_close(remote);
        }
    }
    assert_true(failed >= 2);
    hmreg_mr_put(mrs[1]);
    assert_ok(hmreg_mr_close(mrs[0]));
}

/* ---- threads ----------------------------------------------------------------------------- */

#define CREW 3

/* HMREG_TEST_CYCLES, else a fiftieth of what the long tier has. */
static unsigned cycles(void)
{
    const char *asked = getenv("HMREG_TEST_CYCLES");

    return asked ? (unsigned)atoi(asked) : 2000;
}

struct member {
    pthread_t thread;
    unsigned number, wrong, got;
    atomic_bool *stop;
};

/* Gets memory that is suspended again and again; the first thread registers it. */
static void *get_and_put(void *arg)
{
    struct member *member = arg;
    char *addr = at(fixture.memory + member->number * 4096ul);
    bool explicit = !member->number;

    while (!atomic_load(member->stop)) {
        struct hmreg_mr *mr = NULL;
        int rc = explicit ? hmreg_mr_reg(fixture.domain, addr, 100, WRITE, 0, 0, 0, &mr, NULL)
                          : hmreg_mr_get(fixture.domain, addr, 100, WRITE, &mr);

        if (rc && rc != -EAGAIN)
            member->wrong++;
        member->got += !rc;
        if (explicit)
            member->wrong += !rc && hmreg_mr_close(mr);
        else
            hmreg_mr_put(mr);
    }
    return NULL;
}

TEST(cycles__under_concurrent_gets__none_stale)
{
    struct member crew[CREW];
    atomic_bool stop = false;
    struct hmreg_mr *explicit, *held;
    struct hmreg_remote *remote;
    unsigned times = cycles();
    char text[TEXT];

    open_fixture();
    explicit = reg(0, LEN);
    held = get(0, LEN);
    remote = open_remote(explicit);
    for (unsigned i = 0; i < CREW; i++) {
        crew[i] = (struct member){.number = i, .stop = &stop};
        assert_int_equal(pthread_create(&crew[i].thread, NULL, get_and_put, &crew[i]), 0);
    }
    for (unsigned i = 0; i < times; i++) {
        sleep_all();
        exchange(i % 50 == 0);
        assert_ok(wake());
        renew(remote, explicit);
        snprintf(text, sizeof(text), "cycle %u", i);
        assert_ok(write_to(remote, 3 * 4096, text));
        expect_text(3 * 4096, text);
    }
    atomic_store(&stop, true);
    for (unsigned i = 0; i < CREW; i++) {
        pthread_join(crew[i].thread, NULL);
        assert_int_equal(crew[i].wrong, 0);
    }
    assert_true(fixture.resumed >= 2 * times);
    hmreg_remote_close(remote);
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(explicit));
}

TEST_MAIN()
