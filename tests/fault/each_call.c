/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * A sequence of all the library's calls, repeated with each call of libc that can fail failing
 * once: it ends with a right code and its sentence, leaks nothing, and the next run succeeds. What
 * the library creates once per process: first.c. */
#include "tests/fault/faults.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"

#include <hmreg/group.h>
#include <hmreg/hibernate.h>
#include <hmreg/loopback.h>
#include <hmreg/lost.h>
#include <sched.h>
#include <sys/mman.h>

#define BYTES 8192

static char memory[BYTES];
static char *device; /* of cuda's */
static char *other;  /* of ze's */
static char *pieces; /* of rocr's: two segments, a page each, which no single descriptor covers */

/* ---- calls under test ------------------------------------------------------------------- */

/* The open objects of a sequence of calls; closed in reverse order, wherever it failed. */
struct way {
    struct hmreg *lib;
    struct hmreg_domain *domain, *group, *more[2];
    struct hmreg_mr *mr[4];
    struct hmreg_mr *held;
    struct hmreg_remote *remote;
    struct hmreg_loopback_ep *ep;
    struct hmreg_loopback_counter *counter;
    struct hmreg_loopback_eq *eq;
    void *made;
    uint64_t mapped;
    bool has_mapped;
};

/* A lost domain's thread may not be through yet. */
static int close_domain(struct hmreg_domain *domain)
{
    int rc;

    while ((rc = hmreg_domain_close(domain)) == -EBUSY && strstr(hmreg_last_error()->text, "lost"))
        sched_yield();
    return rc;
}

/* Everything must close, whatever failed before; a failure here would be a leak. */
static int close_way(struct way *way)
{
    int rc = 0;

    hmreg_remote_close(way->remote);
    if (way->held)
        hmreg_mr_put(way->held);
    if (way->has_mapped)
        rc |= hmreg_domain_unmap_raw(way->domain, way->mapped);
    if (way->more[0]) {
        rc |= hmreg_mr_close(way->mr[0]);
        way->mr[0] = NULL;
    }
    rc |= hmreg_domain_close(way->group);
    rc |= hmreg_loopback_ep_close(way->ep);
    rc |= hmreg_loopback_counter_close(way->counter);
    for (int i = 0; i < 4; i++)
        rc |= hmreg_mr_close(way->mr[i]);
    rc |= hmreg_loopback_eq_close(way->eq);
    rc |= close_domain(way->domain);
    for (int i = 0; i < 2; i++)
        rc |= close_domain(way->more[i]);
    if (way->made)
        rc |= hmreg_mem_free(way->lib, way->made);
    return rc | hmreg_close(way->lib);
}

static int open_way(struct way *way, uint32_t mr_mode)
{
    struct hmreg_loopback_config config = {.size = sizeof(config), .mr_mode = mr_mode};
    int rc = hmreg_open(NULL, &way->lib);

    return rc ? rc : hmreg_domain_open_loopback(way->lib, &config, NULL, &way->domain);
}

static int reg(struct way *way, int index, void *addr, size_t len)
{
    return hmreg_mr_reg(way->domain, addr, len, HMREG_ACCESS_ALL, 0, (uint64_t)index, 0,
                        &way->mr[index], NULL);
}

/* Both ends of many tokens, and of one of a part of the region. */
static int reach_many(struct way *way, struct hmreg_mr *mr)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_mr *mrs[2] = {mr, mr};
    struct hmreg_remote *remotes[3];
    static char tokens[3 * 4096];
    size_t size = 2 * 4096, part = 4096, count = 3;
    int rc = hmreg_mr_query(mr, &info);

    rc = rc ? rc : hmreg_mr_pack_many(mrs, 2, tokens, &size);
    rc = rc ? rc
            : hmreg_mr_pack_range(mr, (char *)(uintptr_t)info.addr + 60, 20, tokens + size, &part);
    rc = rc ? rc : hmreg_remote_open_many(way->domain, tokens, size + part, remotes, &count);
    for (size_t i = 0; i < 3 && !rc; i++)
        hmreg_remote_close(remotes[i]);
    return rc;
}

/* From a region to its bytes, as a peer. */
static int reach(struct way *way, struct hmreg_mr *mr)
{
    uint64_t addr = 0, key = 0;
    char token[4096], bytes[100];
    size_t size = sizeof(token);
    int rc = hmreg_mr_pack(mr, token, &size);

    memset(bytes, 'b', sizeof(bytes));
    rc = rc ? rc : hmreg_remote_open(way->domain, token, size, &way->remote);
    rc = rc ? rc : reach_many(way, mr);
    rc = rc ? rc : hmreg_remote_addr(way->remote, 50, sizeof(bytes), &addr, &key);
    rc = rc ? rc : hmreg_loopback_write(way->remote, bytes, sizeof(bytes), NULL, addr, key);
    return rc ? rc : hmreg_loopback_read(way->remote, bytes, sizeof(bytes), NULL, addr, key);
}

/* -EOPNOTSUPP: every path to device memory was refused, because a resource was missing. */
static bool is_want(int rc)
{
    return rc == -ENOMEM || rc == -EMFILE || rc == -EAGAIN || rc == -EADDRINUSE || rc == -ENOSYS ||
           rc == -EOPNOTSUPP;
}

static void each_call_fails(int (*go)(struct way *way));

/* A way through the library, of which each call to the kernel or libc fails once. */
#define CASE(name)                                                                                 \
    static int name##_way(struct way *way);                                                        \
    TEST(name)                                                                                     \
    {                                                                                              \
        each_call_fails(name##_way);                                                               \
    }                                                                                              \
    static int name##_way(struct way *way)

CASE(each_call_fails__host_memory)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};
    int rc = open_way(way, 0);

    rc = rc ? rc : hmreg_query(way->lib, memory, BYTES, &info);
    rc = rc ? rc : reg(way, 0, memory, BYTES);
    rc = rc ? rc : reg(way, 1, memory + 7, 100);
    return rc ? rc : reach(way, way->mr[0]);
}

CASE(each_call_fails__device_memory)
{
    struct hmreg_dmabuf dmabuf;
    int rc = open_way(way, HMREG_MR_ALLOCATED);

    if (!rc)
        rc = hmreg_export_dmabuf(way->lib, device + 3, 100, 0, &dmabuf);
    if (!rc)
        close(dmabuf.fd);
    rc = rc ? rc : reg(way, 0, device, BYTES);
    rc = rc ? rc : hmreg_copy(way->lib, device, memory, 64);
    rc = rc ? rc : hmreg_copy(way->lib, device, other, 64);
    return rc ? rc : reach(way, way->mr[0]);
}

CASE(each_call_fails__many_ranges)
{
    struct hmreg_segment segments[12];
    struct iovec iov[12];
    int rc = open_way(way, HMREG_MR_VIRT_ADDR | HMREG_MR_RAW | HMREG_MR_PROV_KEY);

    for (int i = 0; i < 12; i++) {
        iov[i] = (struct iovec){memory + 512 * i, 300};
        segments[i] = (struct hmreg_segment){.kind = HMREG_SEGMENT_MEMORY,
                                             .u.memory = {device + 512 * i, 300}};
    }
    rc = rc ? rc
            : hmreg_mr_regv(way->domain, iov, 12, HMREG_ACCESS_REMOTE, 0, 0, 0, &way->mr[0], NULL);
    rc = rc ? rc
            : hmreg_mr_regsgl(way->domain, segments, 12, HMREG_ACCESS_REMOTE, 0, 0, 0, &way->mr[1],
                              NULL);
    return rc ? rc : reach(way, way->mr[1]);
}

static int split_way(struct way *way)
{
    struct hmreg_domain_config config = {.size = sizeof(config), .order = {HMREG_PATH_MAPPED}};
    size_t len = 2 * (size_t)sysconf(_SC_PAGESIZE);
    int rc = hmreg_open(NULL, &way->lib);

    rc = rc ? rc : hmreg_domain_open_loopback(way->lib, NULL, &config, &way->domain);
    rc = rc ? rc : reg(way, 0, pieces, len);
    rc = rc ? rc : hmreg_mr_get(way->domain, pieces, len, HMREG_ACCESS_ALL, &way->held);
    return rc ? rc : reach(way, way->mr[0]);
}

CASE(each_call_fails__cached)
{
    struct hmreg_mr *mr = NULL;
    int rc = open_way(way, 0);

    for (int i = 0; i < 3 && !rc; i++) {
        rc = hmreg_mr_get(way->domain, i == 2 ? device : memory, 4096, HMREG_ACCESS_ALL, &mr);
        if (!rc)
            hmreg_mr_put(mr);
    }
    if (!rc && !hmreg_mr_try_get(way->domain, memory, 4096, HMREG_ACCESS_ALL, &mr) &&
        hmreg_mr_try_put(mr))
        hmreg_mr_put(mr);
    rc = rc ? rc : hmreg_mr_get(way->domain, memory + 1, 4000, HMREG_ACCESS_REMOTE, &way->held);
    rc = rc ? rc : hmreg_invalidate(way->lib, memory, 1);
    return rc ? rc : hmreg_domain_flush(way->domain);
}

/* More segments than the cache compares without an allocation. */
CASE(each_call_fails__cached_segments)
{
    struct hmreg_segment segments[12];
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .segments = segments,
                                 .segment_count = 12,
                                 .access = HMREG_ACCESS_REMOTE};
    int rc = open_way(way, 0);

    for (int i = 0; i < 4 && !rc; i++) {
        for (int j = 0; j < 12; j++)
            segments[j] = (struct hmreg_segment){
                .kind = HMREG_SEGMENT_MEMORY, .u.memory = {(i < 2 ? memory : device) + 512 * j, 9}};
        hmreg_mr_put(way->held);
        way->held = NULL;
        rc = hmreg_mr_get_attr(way->domain, &attr, 0, &way->held);
    }
    hmreg_mr_put(way->held);
    way->held = NULL;
    return rc ? rc : hmreg_domain_flush(way->domain);
}

CASE(each_call_fails__bound_objects)
{
    struct hmreg_loopback_event event = {.size = sizeof(event)};
    uint8_t raw[64];
    size_t size = sizeof(raw);
    int rc = open_way(way, HMREG_MR_ENDPOINT | HMREG_MR_RMA_EVENT | HMREG_MR_MMU_NOTIFY);

    rc = rc ? rc : hmreg_loopback_ep_open(way->domain, &way->ep);
    rc = rc ? rc : hmreg_loopback_counter_open(way->domain, &way->counter);
    rc = rc ? rc : hmreg_loopback_eq_open(way->domain, &way->eq);
    rc = rc ? rc : hmreg_domain_bind(way->domain, way->eq, HMREG_BIND_REG_MR);
    rc = rc ? rc
            : hmreg_mr_reg(way->domain, memory, BYTES, HMREG_ACCESS_REMOTE, 0, 1, HMREG_RMA_EVENT,
                           &way->mr[0], NULL);
    rc = rc ? rc : hmreg_loopback_eq_read(way->eq, &event, 0);
    rc = rc ? rc : hmreg_mr_bind(way->mr[0], way->ep, 0);
    rc = rc ? rc : hmreg_mr_bind(way->mr[0], way->counter, HMREG_REMOTE_WRITE);
    rc = rc ? rc : hmreg_mr_enable(way->mr[0]);
    rc = rc ? rc : hmreg_mr_refresh(way->mr[0], NULL, 0, 0);
    rc = rc ? rc : hmreg_mr_raw_attr(way->mr[0], NULL, raw, &size, 0);
    rc = rc ? rc : hmreg_domain_map_raw(way->domain, 0, raw, size, &way->mapped, 0);
    way->has_mapped = !rc;
    return rc ? rc : reach(way, way->mr[0]);
}

/* A group's one rail, bound to its endpoint: registered, and hit. */
CASE(each_call_fails__endpoints_of_a_group)
{
    struct iovec iov = {memory, 4096};
    void *endpoints[1];
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_ACCESS_ALL,
                                 .endpoints = endpoints,
                                 .endpoint_count = 1};
    int rc = open_way(way, HMREG_MR_ENDPOINT);

    rc = rc ? rc : hmreg_loopback_ep_open(way->domain, &way->ep);
    endpoints[0] = way->ep;
    rc = rc ? rc : hmreg_group_open(way->lib, &way->domain, 1, NULL, &way->group);
    for (int i = 0; i < 2 && !rc; i++) {
        hmreg_mr_put(way->held);
        way->held = NULL;
        rc = hmreg_mr_get_attr(way->group, &attr, 0, &way->held);
    }
    return rc;
}

/* Until both succeed, which a call that fails once makes them: what failed is not lost. */
static int sleep_and_wake(struct way *way)
{
    int rc = hmreg_hibernate(way->lib), again = 0;

    if (rc)
        again = hmreg_hibernate(way->lib);
    if (!again && (!rc || is_want(rc)))
        again = hmreg_thaw(way->lib, NULL);
    if (again) {
        rc = again;
        again = hmreg_thaw(way->lib, NULL);
    }
    if (again)
        fail_msg("the second try failed, too: %d: %s", again, hmreg_last_error()->text);
    return rc;
}

/* All monitors but the counter, in turn: the default's, and both by name. */
static int hibernate_with(struct way *way, enum hmreg_monitor monitor)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = monitor};
    struct hmreg_segment segments[2] = {{.u.memory = {memory, 300}},
                                        {.u.memory = {memory + 4096, 300}}};
    int rc = hmreg_open(&config, &way->lib);

    rc = rc ? rc : hmreg_domain_open_loopback(way->lib, NULL, NULL, &way->domain);
    rc = rc ? rc : hmreg_group_open(way->lib, &way->domain, 1, NULL, &way->group);
    rc = rc ? rc : reg(way, 0, memory, BYTES);
    rc = rc ? rc : reg(way, 1, device, BYTES);
    rc = rc ? rc
            : hmreg_mr_regsgl(way->domain, segments, 2, HMREG_ACCESS_REMOTE, 0, HMREG_KEY_ANY,
                              HMREG_REG_PARTS, &way->mr[2], NULL);
    rc = rc ? rc : hmreg_mr_get(way->group, memory + 1, 4000, HMREG_ACCESS_REMOTE, &way->held);
    rc = rc ? rc : sleep_and_wake(way);
    return rc ? rc : reach(way, way->mr[0]);
}

CASE(each_call_fails__hibernating)
{
    return hibernate_with(way, HMREG_MONITOR_DEFAULT);
}

CASE(each_call_fails__hibernating_with_userfaultfd)
{
    return hibernate_with(way, HMREG_MONITOR_USERFAULTFD);
}

static int replace_first(struct way *way)
{
    struct hmreg_group_member info = {.size = sizeof(info)};
    int rc = hmreg_group_replace(way->group, 0, way->more[1]);

    while (!rc && !(rc = hmreg_group_query(way->group, 0, &info)) &&
           info.state == HMREG_MEMBER_REPLACING)
        sched_yield();
    return rc;
}

/* A member is withdrawn and replaced, and the one that came is lost. */
CASE(each_call_fails__members_of_a_group_go)
{
    int rc = open_way(way, 0);

    for (int i = 0; i < 2 && !rc; i++)
        rc = hmreg_domain_open_loopback(way->lib, NULL, NULL, &way->more[i]);
    rc = rc ? rc
            : hmreg_group_open(way->lib, (struct hmreg_domain *[]){way->domain, way->more[0]}, 2,
                               NULL, &way->group);
    rc = rc ? rc : hmreg_mr_get(way->group, memory, 4096, HMREG_ACCESS_ALL, &way->held);
    rc = rc ? rc
            : hmreg_mr_reg(way->group, memory + 4096, 4096, HMREG_ACCESS_ALL, 0, 7, 0, &way->mr[0],
                           NULL);
    rc = rc ? rc : hmreg_group_withdraw(way->group, 0, "a test");
    rc = rc ? rc : replace_first(way);
    rc = rc ? rc : hmreg_domain_lost(way->more[1], "a test");
    rc = rc ? rc : hmreg_domain_progress(way->group);
    return rc;
}

CASE(each_call_fails__allocation)
{
    int rc = open_way(way, 0);

    rc = rc ? rc
            : hmreg_mem_alloc(way->lib, HMREG_IFACE_SYSTEM, -1, HMREG_MEM_HOST, 5000, &way->made);
    return rc ? rc : reg(way, 0, way->made, 5000);
}

/* ---- each call fails -------------------------------------------------------------------- */

struct scales {
    long blocks, mappings;
    int fds;
};

static struct scales weigh(void)
{
    return (struct scales){faults_blocks(), faults_mappings(), test_count_fds()};
}

/* One run; returns the name of the failed call, NULL if there are fewer than nth. */
static const char *run(int (*go)(struct way *way), unsigned nth)
{
    int first = hmreg_open(NULL, NULL); /* a thread's first failure allocates its last error */
    struct scales before, after;
    struct way way = {.lib = NULL};
    const char *fired;
    int rc, code, closed;
    char text[768];

    assert_int_equal(first, -EINVAL);
    faults_hook_libc(); /* if userfaultfd fails, the default is hooks */
    before = weigh();
    faults_arm(nth);
    rc = go(&way);
    fired = faults_fired();
    faults_arm(0);
    code = hmreg_last_error()->code;
    snprintf(text, sizeof(text), "%s", hmreg_last_error()->text);
    closed = close_way(&way);
    after = weigh();
    if (rc && (!fired || !is_want(rc) || code != rc || !text[0]))
        fail_msg("call %u (%s) failed: %d, last error %d: %s", nth, fired, rc, code, text);
    if (closed)
        fail_msg("call %u (%s) failed, and then closing: %s", nth, fired, hmreg_last_error()->text);
    if (after.blocks != before.blocks || after.mappings != before.mappings ||
        after.fds != before.fds)
        fail_msg("call %u (%s) failed, and left %ld blocks, %ld mappings, %d descriptors", nth,
                 fired, after.blocks - before.blocks, after.mappings - before.mappings,
                 after.fds - before.fds);
    return fired;
}

static char *make_pieces(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *made = mmap(NULL, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(made, MAP_FAILED);
    vendors[HMREG_IFACE_ROCR].one_by_one = true;
    for (int i = 0; i < 2; i++) {
        struct vendor_claim *claim =
            vendor_claim(HMREG_IFACE_ROCR, made + i * page, page, HMREG_MEM_DEVICE, 0);

        claim->fd = memfd_create("segment", MFD_CLOEXEC);
        assert_int_equal(ftruncate(claim->fd, (off_t)page), 0);
        claim->goes_on = true;
    }
    return made;
}

static void free_pieces(void)
{
    for (int i = 0; i < 2; i++)
        close(vendors[HMREG_IFACE_ROCR].claims[i].fd);
    munmap(pieces, 2 * (size_t)sysconf(_SC_PAGESIZE));
}

static void each_call_fails(int (*go)(struct way *way))
{
    struct way first = {.lib = NULL};
    unsigned nth = 0;

    vendors_reset();
    device = vendor_memory(HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE, BYTES);
    other = vendor_memory(HMREG_IFACE_ZE, 1, HMREG_MEM_DEVICE, BYTES);
    pieces = make_pieces();
    assert_ok(go(&first)); /* allocates what is allocated once per process */
    assert_int_equal(close_way(&first), 0);
    do {
        nth++;
    } while (run(go, nth));
    print_message("%u calls\n", nth - 1);
    assert_true(nth > 5);
    vendor_memory_free(device);
    vendor_memory_free(other);
    free_pieces();
}

/* Makes the thread allocate the memory of its last refusal. */
static void refuse_once(void)
{
    struct way way = {.lib = NULL};

    vendors_reset();
    pieces = make_pieces();
    vendors[HMREG_IFACE_ROCR].export_code = -EIO;
    assert_fails(split_way(&way), -EOPNOTSUPP, "no path");
    assert_int_equal(close_way(&way), 0);
    free_pieces();
}

TEST(each_call_fails__split_range)
{
    refuse_once();
    each_call_fails(split_way);
}

TEST_MAIN()
