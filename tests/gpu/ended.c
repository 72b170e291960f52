/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Cached regions of memory whose end the runtime reports: hits make no query, and what was freed is
 * deregistered without another call. Kinds whose end it does not report: hits ask.
 */
#include "core/base/reaper.h"
#include "tests/gpu/gpu.h"
#include "tests/support/queries.h"

#include <hmreg/loopback.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>

#define LEN 65536

/* Regions use a mapping of the memory's descriptor, which keeps the memory alive. */
struct cached {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    sem_t ended;
};

static void on_ended(const struct hmreg_mr *mr, const struct hmreg_mr_info *info, void *cached)
{
    sem_post(&((struct cached *)cached)->ended);
}

/* Memory that a signal's handler frees, once. */
static uint64_t doomed;

static void free_doomed(int signal)
{
    uint64_t addr = doomed;

    doomed = 0;
    gpu.free(addr, HMREG_MEM_DEVICE);
}

/* The thread is inside a get. */
static void on_made(const struct hmreg_mr *mr, const struct hmreg_mr_info *info, void *cached)
{
    if (doomed)
        raise(SIGUSR1);
}

static void open_library(struct cached *cached)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(gpu.ops->iface)};
    struct hmreg_domain_config domain = {.size = sizeof(domain),
                                         .order = {HMREG_PATH_MAPPED},
                                         .made = on_made,
                                         .ended = on_ended,
                                         .callback_context = cached};

    sem_init(&cached->ended, 0, 0);
    assert_ok(hmreg_open(&config, &cached->lib));
    assert_ok(hmreg_domain_open_loopback(cached->lib, NULL, &domain, &cached->domain));
}

static void close_library(struct cached *cached)
{
    assert_ok(hmreg_domain_close(cached->domain));
    assert_ok(hmreg_close(cached->lib));
    sem_destroy(&cached->ended);
}

static struct hmem *application; /* beside the library */

static void open_cached(struct cached *cached)
{
    gpu_need_fake();
    application = gpu.begin();
    open_library(cached);
}

static void close_cached(struct cached *cached)
{
    close_library(cached);
    gpu.end(application);
}

static bool is_reported(enum hmreg_mem_kind kind)
{
    return gpu.reports && gpu.reports(kind);
}

static struct hmreg_mr *get(struct cached *cached, uint64_t addr)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(cached->domain, (void *)(uintptr_t)addr, LEN, HMREG_ACCESS_REMOTE, &mr));
    return mr;
}

/* The same region by a descriptor that the caller exports, and closes at once. */
static struct hmreg_mr *get_by_dmabuf(struct cached *cached, uint64_t addr)
{
    struct hmreg_dmabuf exported;
    struct hmreg_mr_dmabuf dmabuf = {.len = LEN};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .access = HMREG_ACCESS_REMOTE, .dmabuf = &dmabuf};
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_export_dmabuf(cached->lib, (void *)(uintptr_t)addr, LEN, 0, &exported));
    dmabuf.fd = exported.fd;
    dmabuf.offset = exported.offset;
    dmabuf.base_addr = (void *)(uintptr_t)(addr - exported.offset);
    assert_ok(hmreg_mr_get_attr(cached->domain, &attr, HMREG_REG_DMABUF, &mr));
    close(exported.fd);
    return mr;
}

static struct hmreg_mr *(*const gets[])(struct cached *, uint64_t) = {get, get_by_dmabuf};
enum { GETS = sizeof(gets) / sizeof(gets[0]) };

static unsigned long queries(void)
{
    char list[256], *rest = list;
    unsigned long sum = 0;

    snprintf(list, sizeof(list), "%s", gpu.queries);
    for (char *call; (call = strsep(&rest, " "));)
        sum += gpu.fake()->calls(call);
    return sum;
}

TEST(get__end_reported__hits_make_no_query)
{
    struct cached cached;

    open_cached(&cached);
    for (unsigned k = 0; k < gpu.kinds; k++) {
        uint64_t addr = gpu.alloc(gpu.devices() - 1, gpu_kinds[k], LEN);
        struct hmreg_mr_info info;
        struct hmreg_mr *mr = get(&cached, addr);
        struct hmreg_explanation why = test_why_of(mr);
        unsigned long before = queries();

        info = test_info_of(mr);
        hmreg_mr_put(mr);
        for (int i = 0; i < 10; i++) {
            assert_ptr_equal(get(&cached, addr), mr);
            hmreg_mr_put(mr);
        }
        assert_int_equal(info.asks & HMREG_ASKS_RUNTIME,
                         is_reported(gpu_kinds[k]) ? 0 : HMREG_ASKS_RUNTIME);
        assert_int_equal(why.asks, info.asks);
        assert_int_equal(!why.asks_why[0], is_reported(gpu_kinds[k]));
        if (is_reported(gpu_kinds[k]))
            assert_int_equal(queries(), before);
        gpu.free(addr, gpu_kinds[k]);
    }
    close_cached(&cached);
}

/* With HMREG_DEVICE_MONITOR=off. */
TEST(get__reports_switched_off__hits_ask)
{
    struct hmreg_runtime_info runtime = {.size = sizeof(runtime)};
    struct cached cached;
    struct hmreg_mr *mr;
    uint64_t addr;

    setenv("HMREG_DEVICE_MONITOR", "off", 1);
    open_cached(&cached);
    unsetenv("HMREG_DEVICE_MONITOR");
    assert_ok(hmreg_runtime_query(cached.lib, gpu.ops->iface, &runtime));
    assert_string_equal(runtime.unreported, "HMREG_DEVICE_MONITOR is off");
    addr = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);
    mr = get(&cached, addr);
    assert_int_equal(test_info_of(mr).asks, HMREG_ASKS_RUNTIME);
    assert_int_equal(test_why_of(mr).asks, HMREG_ASKS_RUNTIME);
    assert_string_equal(test_why_of(mr).asks_why, "HMREG_DEVICE_MONITOR is off");
    hmreg_mr_put(mr);
    gpu.free(addr, HMREG_MEM_DEVICE);
    assert_int_equal(gpu.alloc(0, HMREG_MEM_DEVICE, LEN), addr);
    hmreg_mr_put(get(&cached, addr));
    sem_wait(&cached.ended);
    gpu.free(addr, HMREG_MEM_DEVICE);
    close_cached(&cached);
}

/* A runtime of which not all is reported says so. */
TEST(runtime__some_unreported__says_which)
{
    struct hmreg_runtime_info runtime = {.size = sizeof(runtime)};
    struct cached cached;

    open_cached(&cached);
    assert_ok(hmreg_runtime_query(cached.lib, gpu.ops->iface, &runtime));
    for (unsigned k = 0; k < gpu.kinds; k++)
        if (!is_reported(gpu_kinds[k]))
            assert_string_not_equal(runtime.unreported, "");
    close_cached(&cached);
}

static void wait_until_unmapped(uint64_t addr)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    while (!msync((void *)(uintptr_t)(addr & ~(page - 1)), page, MS_ASYNC))
        sched_yield();
}

/* Without another call of the library. */
TEST(free__region_not_in_use__deregistered_by_itself)
{
    struct cached cached;
    uint64_t addr, mapping;
    struct hmreg_mr *mr;

    if (!is_reported(HMREG_MEM_DEVICE))
        test_skip("the runtime does not report the end of device memory");
    open_cached(&cached);
    for (int i = 0; i < GETS; i++) {
        addr = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);
        mr = gets[i](&cached, addr);
        mapping = test_info_of(mr).local_addr;
        assert_int_equal(test_info_of(mr).asks, 0);
        hmreg_mr_put(mr);
        gpu.free(addr, HMREG_MEM_DEVICE);
        sem_wait(&cached.ended);
        wait_until_unmapped(mapping);
    }
    close_cached(&cached);
}

/* Not reported: the library's thread compares the identity after a while, and again later. */
TEST(free__end_not_reported__deregistered_by_itself)
{
    struct cached cached;
    uint64_t addr[GETS];

    reaper_set_idle(1000000);
    setenv("HMREG_DEVICE_MONITOR", "off", 1);
    open_cached(&cached);
    unsetenv("HMREG_DEVICE_MONITOR");
    for (int i = 0; i < GETS; i++) {
        struct hmreg_mr *mr;

        addr[i] = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);
        mr = gets[i](&cached, addr[i]);
        assert_int_equal(test_info_of(mr).asks, HMREG_ASKS_RUNTIME);
        hmreg_mr_put(mr);
    }
    for (int i = 0; i < GETS; i++) {
        uint64_t mapping;
        struct hmreg_mr *mr = gets[i](&cached, addr[i]);

        mapping = test_info_of(mr).local_addr;
        hmreg_mr_put(mr);
        gpu.free(addr[i], HMREG_MEM_DEVICE);
        sem_wait(&cached.ended);
        wait_until_unmapped(mapping);
    }
    assert_int_not_equal(sem_trywait(&cached.ended), 0);
    close_cached(&cached);
}

/* A region in use lives until its put, and no get finds it. */
TEST(free__region_in_use__ends_with_its_put)
{
    struct cached cached;
    struct hmreg_mr *old, *fresh;
    uint64_t addr;

    if (!is_reported(HMREG_MEM_DEVICE))
        test_skip("the runtime does not report the end of device memory");
    open_cached(&cached);
    addr = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);
    old = get(&cached, addr);
    gpu.free(addr, HMREG_MEM_DEVICE);
    assert_int_equal(gpu.alloc(0, HMREG_MEM_DEVICE, LEN), addr);
    fresh = get(&cached, addr);
    assert_ptr_not_equal(fresh, old);
    assert_int_not_equal(sem_trywait(&cached.ended), 0);
    hmreg_mr_put(old);
    sem_wait(&cached.ended);
    hmreg_mr_put(fresh);
    gpu.free(addr, HMREG_MEM_DEVICE);
    sem_wait(&cached.ended);
    close_cached(&cached);
}

/* Where a peer writes through the region, the byte is in the memory that is at the address now. */
static void check_writes(struct cached *cached, uint64_t addr, char byte)
{
    struct hmreg_mr *mr = get(cached, addr);

    *(char *)(uintptr_t)test_info_of(mr).local_addr = byte;
    assert_int_equal(*gpu.fake()->peek(addr), byte);
    hmreg_mr_put(mr);
}

/* A fabric that pins nothing registers it as host memory. */
TEST(free__then_a_get_of_the_address__not_cached)
{
    struct cached cached;
    uint64_t addr;

    open_cached(&cached);
    addr = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);
    check_writes(&cached, addr, 1);
    gpu.free(addr, HMREG_MEM_DEVICE);
    for (int i = 0; i < 2; i++) {
        struct hmreg_mr *mr = get(&cached, addr);

        assert_int_equal(test_info_of(mr).cached, 0);
        hmreg_mr_put(mr);
    }
    assert_int_equal(gpu.alloc(0, HMREG_MEM_DEVICE, LEN), addr);
    check_writes(&cached, addr, 2);
    gpu.free(addr, HMREG_MEM_DEVICE);
    close_cached(&cached);
}

/* Between two gets, and while the thread is inside a get, which then gives a region of memory that
 * has ended, or an error. */
TEST(free__in_a_signal_handler__the_new_memory)
{
    struct cached cached;
    struct hmreg_mr *mr = NULL;
    uint64_t addr;

    open_cached(&cached);
    signal(SIGUSR1, free_doomed);
    addr = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);
    check_writes(&cached, addr, 1);
    doomed = addr;
    raise(SIGUSR1);
    assert_int_equal(gpu.alloc(0, HMREG_MEM_DEVICE, LEN), addr);
    check_writes(&cached, addr, 2);
    assert_ok(hmreg_domain_flush(cached.domain));
    doomed = addr;
    if (!hmreg_mr_get(cached.domain, (void *)(uintptr_t)addr, LEN, HMREG_ACCESS_REMOTE, &mr))
        hmreg_mr_put(mr);
    assert_int_equal(doomed, 0);
    assert_int_equal(gpu.alloc(0, HMREG_MEM_DEVICE, LEN), addr);
    check_writes(&cached, addr, 3);
    check_writes(&cached, addr, 4);
    signal(SIGUSR1, SIG_DFL);
    gpu.free(addr, HMREG_MEM_DEVICE);
    close_cached(&cached);
}

/* The memory's end reaches each library that listens. */
TEST(free__two_libraries__both_deregister)
{
    struct cached cached[2];
    uint64_t addr;

    if (!is_reported(HMREG_MEM_DEVICE))
        test_skip("the runtime does not report the end of device memory");
    open_cached(&cached[0]);
    open_library(&cached[1]);
    addr = gpu.alloc(0, HMREG_MEM_DEVICE, LEN);
    hmreg_mr_put(get(&cached[0], addr));
    hmreg_mr_put(get(&cached[1], addr));
    gpu.free(addr, HMREG_MEM_DEVICE);
    sem_wait(&cached[0].ended);
    sem_wait(&cached[1].ended);
    close_library(&cached[1]);
    close_cached(&cached[0]);
}

/* Programs unmap what they registered with a runtime, which goes on to know it: without a monitor
 * nothing would tell. */
TEST(get__pinned_memory_without_a_monitor__not_cached)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(gpu.ops->iface),
                                  .monitor = HMREG_MONITOR_DISABLED};
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct hmem *self = gpu.begin();
    uint64_t addr = gpu.alloc(0, HMREG_MEM_HOST_PINNED, LEN);
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;
    struct hmreg *lib;

    assert_ok(hmreg_open(&config, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    for (int i = 0; i < 2; i++) {
        assert_ok(hmreg_mr_get(domain, (void *)(uintptr_t)addr, LEN, HMREG_REMOTE_WRITE, &mr));
        hmreg_mr_put(mr);
    }
    assert_ok(hmreg_domain_stats(domain, &stats));
    assert_int_equal(stats.hits, 0);
    assert_int_equal(stats.uncached, 2);
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
    gpu.free(addr, HMREG_MEM_HOST_PINNED);
    gpu.end(self);
}

TEST_MAIN()
