/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Features that only loopback has of the fabrics tested here: authorization keys of domains,
 * durable writes, which memory needs a desc, what counters do not count, events read by another
 * thread, accesses during a refresh, regions of terabytes, wrong modes. And two rules for all
 * objects: descriptors are close-on-exec, and any thread may use what another created. */
#include "tests/conformance/fixture.h"
#include "tests/support/vendors.h"

#include <fcntl.h>
#include <hmreg/group.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ---- authorization keys ----------------------------------------------------------------- */

static struct hmreg_domain *open_keyed(struct hmreg *lib, const char *auth)
{
    struct hmreg_loopback_config config = {
        .size = sizeof(config), .auth_key_size = strlen(auth), .auth_key = (const uint8_t *)auth};
    struct hmreg_domain *domain = NULL;

    assert_ok(hmreg_domain_open_loopback(lib, &config, NULL, &domain));
    return domain;
}

/* The result of writing one byte from this domain to the region. */
static int put_from(struct hmreg_domain *from, const struct hmreg_mr *mr)
{
    struct hmreg_remote *remote = test_remote_of(from, mr);
    int rc = peer_put(remote, 0, 'x');

    hmreg_remote_close(remote);
    return rc;
}

/* Peers with the domain's key reach a region without a key of its own; peers with a region's key
 * reach that region. */
TEST(auth_key__same_as_the_peers__granted)
{
    static const char *const keys[] = {
        "", "one", "two", "one and as many more bytes as the longest key has, which are 64."};
    enum { DOMAINS = 4 };
    struct hmreg_domain *domains[DOMAINS];
    char memory[16];
    struct iovec iov = {memory, sizeof(memory)};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .iov = &iov, .iov_count = 1, .access = HMREG_ACCESS_REMOTE};
    struct hmreg *lib = NULL;
    struct hmreg_mr *mr;

    assert_ok(hmreg_open(NULL, &lib));
    for (int i = 0; i < DOMAINS; i++)
        domains[i] = open_keyed(lib, keys[i]);
    for (int owner = 0; owner < DOMAINS; owner++) {
        for (int given = 0; given < DOMAINS; given++) {
            const char *wanted = given ? keys[given] : keys[owner]; /* size 0: the domain's */

            mr = NULL;
            attr.auth_key = (const uint8_t *)keys[given];
            attr.auth_key_size = strlen(keys[given]);
            assert_ok(hmreg_mr_regattr(domains[owner], &attr, 0, &mr));
            for (int peer = 0; peer < DOMAINS; peer++)
                assert_int_equal(put_from(domains[peer], mr),
                                 strcmp(keys[peer], wanted) ? -EACCES : 0);
            assert_ok(hmreg_mr_close(mr));
        }
    }
    for (int i = 0; i < DOMAINS; i++)
        assert_ok(hmreg_domain_close(domains[i]));
    assert_ok(hmreg_close(lib));
}

/* ---- HMREG_RMA_PMEM --------------------------------------------------------------------- */

static struct {
    uintptr_t start, end;
    unsigned calls;
    char byte; /* the byte when msync() began */
} synced;

/* Replaces libc's, in the library too. */
int msync(void *addr, size_t len, int flags)
{
    synced.calls++;
    synced.start = (uintptr_t)addr;
    synced.end = synced.start + len;
    synced.byte = *(char *)addr;
    return (int)syscall(SYS_msync, addr, len, flags);
}

TEST(pmem__written_bytes__are_synced_before_the_write_is_done)
{
    struct hmreg_remote *remote;
    uint64_t addr, key;
    struct hmreg_mr *mr;
    struct fixture fixture;
    char byte;

    for (int durable = 0; durable < 2; durable++) {
        fixture_open(&fixture, 0);
        mr = fixture_reg(&fixture, 5, durable ? HMREG_RMA_PMEM : 0);
        remote = fixture_peer(&fixture, mr);
        memset(&synced, 0, sizeof(synced));
        assert_ok(peer_put(remote, 2 * (uint64_t)sysconf(_SC_PAGESIZE), 'x'));
        assert_int_equal(synced.calls, durable);
        if (durable) {
            uintptr_t at = (uintptr_t)fixture.memory + 2 * (uintptr_t)sysconf(_SC_PAGESIZE);

            assert_true(synced.start == at && synced.end > at);
            assert_int_equal(synced.byte, 'x');
        }
        assert_ok(hmreg_remote_addr(remote, 0, 1, &addr, &key));
        assert_ok(hmreg_loopback_read(remote, &byte, 1, NULL, addr, key));
        assert_int_equal(synced.calls, durable);
        hmreg_remote_close(remote);
        assert_ok(hmreg_mr_close(mr));
        fixture_close(&fixture);
    }
}

/* ---- HMREG_MR_LOCAL and HMREG_MR_HMEM --------------------------------------------------- */

/* Reads the region into local memory, with or without a region of the local side. */
static int read_into(struct fixture *fixture, struct hmreg_remote *remote, void *local,
                     bool registered)
{
    struct hmreg_mr *mr = NULL;
    uint64_t addr, key;
    int rc;

    assert_ok(hmreg_remote_addr(remote, 0, 1, &addr, &key));
    if (registered)
        assert_ok(hmreg_mr_reg(fixture->domain, local, 1, HMREG_READ, 0, 0, 0, &mr, NULL));
    rc = hmreg_loopback_read(remote, local, 1, hmreg_mr_desc(mr), addr, key);
    assert_ok(hmreg_mr_close(mr));
    return rc;
}

/* Each mode names the kind of memory that needs a local region: the system's, or a device's. */
TEST(desc__needed_for_the_memory_that_the_mode_names)
{
    static const uint32_t modes[] = {0, HMREG_MR_LOCAL, HMREG_MR_HMEM,
                                     HMREG_MR_LOCAL | HMREG_MR_HMEM};

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        int system_needs = modes[i] & HMREG_MR_LOCAL ? -EINVAL : 0;
        int device_needs = modes[i] & HMREG_MR_HMEM ? -EINVAL : 0;
        struct hmreg_remote *remote;
        struct hmreg_mr *mr;
        struct fixture fixture;
        char *device, *pinned;
        char system;

        vendors_reset();
        fixture_open(&fixture, modes[i]);
        fixture.memory[0] = (char)('0' + i);
        device = vendor_memory(HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE, 4096);
        pinned = vendor_memory(HMREG_IFACE_CUDA, 0, HMREG_MEM_HOST_PINNED, 4096);
        mr = fixture_reg(&fixture, 5, 0);
        remote = fixture_peer(&fixture, mr);
        assert_int_equal(read_into(&fixture, remote, &system, false), system_needs);
        assert_int_equal(read_into(&fixture, remote, device, false), device_needs);
        assert_int_equal(read_into(&fixture, remote, pinned, false), device_needs);
        assert_int_equal(vendor_view(device)[0], device_needs ? 0 : '0' + (int)i);
        assert_ok(read_into(&fixture, remote, &system, true));
        assert_ok(read_into(&fixture, remote, pinned, true));
        assert_int_equal(system, '0' + (int)i);
        assert_int_equal(vendor_view(pinned)[0], '0' + (int)i);
        hmreg_remote_close(remote);
        assert_ok(hmreg_mr_close(mr));
        vendor_memory_free(device);
        vendor_memory_free(pinned);
        fixture_close(&fixture);
    }
}

/* ---- HMREG_MR_RMA_EVENT ----------------------------------------------------------------- */

TEST(counter__denied_writes__are_not_counted)
{
    struct hmreg_loopback_counter *counter = NULL;
    struct hmreg_remote *remote;
    uint64_t addr, key;
    struct hmreg_mr *mr;
    char bytes[2] = "x";
    struct fixture fixture;

    fixture_open(&fixture, 0);
    mr = fixture_reg(&fixture, 5, 0);
    remote = fixture_peer(&fixture, mr);
    assert_ok(hmreg_loopback_counter_open(fixture.domain, &counter));
    assert_ok(hmreg_mr_bind(mr, counter, HMREG_REMOTE_WRITE));
    assert_ok(hmreg_remote_addr(remote, fixture.bytes - 1, 1, &addr, &key));
    assert_fails(hmreg_loopback_write(remote, bytes, 2, NULL, addr, key), -ERANGE, "outside");
    assert_fails(hmreg_loopback_write(remote, bytes, 1, NULL, addr, key + 1), -EKEYREJECTED, "key");
    munmap(fixture.memory, fixture.bytes);
    assert_fails(hmreg_loopback_write(remote, bytes, 1, NULL, addr, key), -EFAULT, "mapped");
    assert_int_equal(hmreg_loopback_counter_read(counter), 0);
    assert_ok(hmreg_loopback_counter_close(counter));
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
    fixture_close(&fixture);
}

/* ---- events ----------------------------------------------------------------------------- */

#define EVENTS 2000

struct reader {
    struct hmreg_loopback_eq *eq;
    struct hmreg_mr *slots[EVENTS];
    atomic_int wrong;
};

/* The event's context is the variable that holds the region by then. */
static void *read_events(void *closure)
{
    struct hmreg_loopback_event event = {.size = sizeof(event)};
    struct reader *reader = closure;

    for (int i = 0; i < EVENTS; i++) {
        if (hmreg_loopback_eq_read(reader->eq, &event, -1) || event.context != &reader->slots[i] ||
            event.mr != reader->slots[i])
            atomic_fetch_add(&reader->wrong, 1);
    }
    return NULL;
}

TEST(event__read_by_another_thread__region_is_in_its_variable)
{
    struct hmreg_loopback_event none = {.size = sizeof(none)};
    struct reader *reader = calloc(1, sizeof(*reader));
    pthread_t thread;
    struct fixture fixture;

    fixture_open(&fixture, 0);
    assert_ok(hmreg_loopback_eq_open(fixture.domain, &reader->eq));
    assert_ok(hmreg_domain_bind(fixture.domain, reader->eq, HMREG_BIND_REG_MR));
    assert_fails(hmreg_domain_bind(fixture.domain, reader->eq, HMREG_BIND_REG_MR), -EBUSY,
                 "already");
    assert_fails(hmreg_loopback_eq_read(reader->eq, &none, 1), -EAGAIN, "no registration");
    assert_int_equal(pthread_create(&thread, NULL, read_events, reader), 0);
    for (int i = 0; i < EVENTS; i++)
        assert_ok(hmreg_mr_reg(fixture.domain, fixture.memory, 64, HMREG_SEND, 0, 0, 0,
                               &reader->slots[i], &reader->slots[i]));
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&reader->wrong), 0);
    assert_fails(hmreg_loopback_eq_close(reader->eq), -EBUSY, "regions");
    for (int i = 0; i < EVENTS; i++)
        assert_ok(hmreg_mr_close(reader->slots[i]));
    assert_ok(hmreg_loopback_eq_close(reader->eq));
    fixture_close(&fixture);
    free(reader);
}

/* Nor has a region of a group that the domain is a member of. */
TEST(event__of_a_cached_region__none_it_is_complete)
{
    struct hmreg_loopback_event none = {.size = sizeof(none)};
    struct hmreg_domain *group = NULL;
    struct hmreg_loopback_eq *eq;
    struct hmreg_remote *remote;
    struct hmreg_mr *mr = NULL;
    struct fixture fixture;

    fixture_open(&fixture, 0);
    assert_ok(hmreg_loopback_eq_open(fixture.domain, &eq));
    assert_ok(hmreg_domain_bind(fixture.domain, eq, HMREG_BIND_REG_MR));
    assert_ok(hmreg_group_open(fixture.lib, &fixture.domain, 1, NULL, &group));
    for (int i = 0; i < 2; i++) {
        assert_ok(
            hmreg_mr_get(i ? group : fixture.domain, fixture.memory, 64, HMREG_ACCESS_REMOTE, &mr));
        assert_true(hmreg_mr_key(hmreg_mr_rail(mr, 0)) != HMREG_KEY_NOTAVAIL);
        remote = test_remote_of(fixture.domain, hmreg_mr_rail(mr, 0));
        assert_ok(peer_put(remote, 3, 'x'));
        assert_fails(hmreg_loopback_eq_read(eq, &none, 0), -EAGAIN, "no registration");
        hmreg_remote_close(remote);
        hmreg_mr_put(mr);
    }
    assert_ok(hmreg_domain_close(group));
    assert_ok(hmreg_domain_flush(fixture.domain));
    assert_ok(hmreg_loopback_eq_close(eq));
    fixture_close(&fixture);
}

/* ---- HMREG_MR_MMU_NOTIFY ---------------------------------------------------------------- */

/* Nearly all of it is a hole, so that checking each page would take too long. */
TEST(mmu_notify__terabytes_with_a_page_in_them__that_page_is_known)
{
    const size_t bytes = (size_t)1 << 42;
    struct hmreg_remote *remote;
    struct hmreg_mr *mr = NULL;
    char *around, *memory;
    struct fixture fixture;

    fixture_open(&fixture, HMREG_MR_MMU_NOTIFY);
    around = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (around == MAP_FAILED) {
        fixture_close(&fixture);
        test_skip("no address space for terabytes, as under ThreadSanitizer: %s", strerror(errno));
    }
    munmap(around, bytes);
    memory = mmap(around + bytes / 2, 4096, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    assert_ptr_equal(memory, around + bytes / 2);
    *memory = 'a';
    if (hmreg_mr_reg(fixture.domain, around, bytes, HMREG_ACCESS_ALL, 0, 5, 0, &mr, NULL)) {
        munmap(memory, 4096);
        fixture_close(&fixture);
        test_skip("no memory to note the pages of terabytes: %s", hmreg_last_error()->text);
    }
    remote = fixture_peer(&fixture, mr);
    assert_ok(peer_put(remote, bytes / 2, 'x'));
    assert_int_equal(*memory, 'x');
    assert_fails(peer_put(remote, 0, 'x'), -EFAULT, "refreshed");
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
    munmap(memory, 4096);
    fixture_close(&fixture);
}

/* One registration of two ranges: what is refreshed in the second is of the same one. */
TEST(mmu_notify__second_of_two_ranges__is_refreshed)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 4 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct iovec iov[2] = {{memory, page}, {memory + 2 * page, page}};
    struct hmreg_remote *remote;
    struct hmreg_mr *mr = NULL;
    struct fixture fixture;

    fixture_open(&fixture, HMREG_MR_MMU_NOTIFY);
    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_ok(hmreg_mr_regv(fixture.domain, iov, 2, HMREG_ACCESS_ALL, 0, 5, 0, &mr, NULL));
    assert_int_equal(hmreg_mr_head_of(mr)->count, 1);
    remote = fixture_peer(&fixture, mr);
    assert_fails(peer_put(remote, page, 'x'), -EFAULT, "refreshed");
    assert_int_equal(mprotect(memory, 4 * page, PROT_READ | PROT_WRITE), 0);
    memory[2 * page] = 'a';
    assert_ok(hmreg_mr_refresh(mr, &iov[1], 1, 0));
    assert_ok(peer_put(remote, page, 'x'));
    assert_int_equal(memory[2 * page], 'x');
    hmreg_remote_close(remote);
    assert_ok(hmreg_mr_close(mr));
    munmap(memory, 4 * page);
    fixture_close(&fixture);
}

/* ---- modes ------------------------------------------------------------------------------ */

TEST(domain_open__wrong_mode__inval)
{
    struct hmreg_loopback_config config = {.size = sizeof(config),
                                           .mr_mode = HMREG_MR_BASIC | HMREG_MR_LOCAL};
    struct hmreg_domain *domain = NULL;
    struct hmreg *lib;

    assert_ok(hmreg_open(NULL, &lib));
    assert_fails(hmreg_domain_open_loopback(lib, &config, NULL, &domain), -EINVAL, "alone");
    config.mr_mode = 1u << 30;
    assert_fails(hmreg_domain_open_loopback(lib, &config, NULL, &domain), -EINVAL, "unknown bits");
    assert_null(domain);
    assert_ok(hmreg_close(lib));
}

TEST(remote_open__raw_token_on_a_domain_without_the_mode__exdev)
{
    struct hmreg_remote *remote = NULL;
    struct hmreg_domain *plain;
    uint8_t token[512];
    size_t size = sizeof(token), count = 1;
    struct hmreg_mr *mr;
    struct fixture fixture;

    fixture_open(&fixture, HMREG_MR_RAW);
    mr = fixture_reg(&fixture, 5, 0);
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_domain_open_loopback(fixture.lib, NULL, NULL, &plain));
    assert_fails(hmreg_remote_open(plain, token, size, &remote), -EXDEV, "HMREG_MR_RAW");
    assert_fails(hmreg_remote_open_many(plain, token, size, &remote, &count), -EXDEV,
                 "tokens[0], at byte 0: token: with raw keys");
    assert_null(remote);
    assert_ok(hmreg_domain_close(plain));
    assert_ok(hmreg_mr_close(mr));
    fixture_close(&fixture);
}

/* ---- refreshing ------------------------------------------------------------------------- */

/* An access that stays in progress, since the vendor holds up the call that it makes. */
static struct {
    uint64_t addr;
    pthread_barrier_t in, out;
    struct hmreg_remote *remote;
    struct hmreg_mr *mr;
    atomic_int refreshed;
} held;

static void hold(const char *call, uint64_t addr, size_t len)
{
    if (addr != held.addr)
        return;
    held.addr = 0;
    pthread_barrier_wait(&held.in);
    pthread_barrier_wait(&held.out);
}

static void *put_held(void *closure)
{
    *(int *)closure = peer_put(held.remote, 0, 'x');
    return NULL;
}

static void *refresh_meanwhile(void *closure)
{
    *(int *)closure = hmreg_mr_refresh(held.mr, NULL, 0, 0);
    atomic_store(&held.refreshed, 1);
    return NULL;
}

TEST(refresh__an_access_is_under_way__waits_and_lets_no_other_in)
{
    int put_rc = -1, refresh_rc = -1, rc;
    pthread_t writer, refresher;
    struct fixture fixture;
    char *device;

    vendors_reset();
    fixture_open(&fixture, HMREG_MR_MMU_NOTIFY);
    device = vendor_memory(HMREG_IFACE_CUDA, 0, HMREG_MEM_DEVICE, 4096);
    held.mr = NULL;
    assert_ok(
        hmreg_mr_reg(fixture.domain, device, 64, HMREG_ACCESS_REMOTE, 0, 5, 0, &held.mr, NULL));
    held.remote = fixture_peer(&fixture, held.mr);
    pthread_barrier_init(&held.in, NULL, 2);
    pthread_barrier_init(&held.out, NULL, 2);
    atomic_store(&held.refreshed, 0);
    assert_ok(peer_put(held.remote, 1, 'a'));
    held.addr = (uintptr_t)device;
    vendors[HMREG_IFACE_CUDA].hook = hold;
    assert_int_equal(pthread_create(&writer, NULL, put_held, &put_rc), 0);
    pthread_barrier_wait(&held.in);
    assert_int_equal(pthread_create(&refresher, NULL, refresh_meanwhile, &refresh_rc), 0);
    do {
        rc = peer_put(held.remote, 1, 'b');
    } while (!rc);
    assert_int_equal(rc, -EKEYREJECTED);
    assert_int_equal(atomic_load(&held.refreshed), 0);
    pthread_barrier_wait(&held.out);
    pthread_join(writer, NULL);
    pthread_join(refresher, NULL);
    assert_int_equal(put_rc, 0);
    assert_int_equal(refresh_rc, 0);
    assert_ok(peer_put(held.remote, 1, 'c'));
    assert_memory_equal(vendor_view(device), "xc", 2);
    vendors[HMREG_IFACE_CUDA].hook = NULL;
    pthread_barrier_destroy(&held.in);
    pthread_barrier_destroy(&held.out);
    hmreg_remote_close(held.remote);
    assert_ok(hmreg_mr_close(held.mr));
    vendor_memory_free(device);
    fixture_close(&fixture);
}

/* ---- descriptors and threads ------------------------------------------------------------ */

#define MOST_FDS 1024

/* The descriptors that were not open before and stay open across exec. */
static int kept_by_exec(const bool before[MOST_FDS])
{
    int kept = 0;

    for (int fd = 0; fd < MOST_FDS; fd++) {
        int flags = before[fd] ? -1 : fcntl(fd, F_GETFD);

        kept += flags != -1 && !(flags & FD_CLOEXEC);
    }
    return kept;
}

static void note_open(bool open[MOST_FDS])
{
    for (int fd = 0; fd < MOST_FDS; fd++)
        open[fd] = fcntl(fd, F_GETFD) != -1;
}

/* Those of the monitor and the stats page. */
TEST(descriptors__of_all_the_library_opens__end_with_an_exec)
{
    bool before[MOST_FDS];
    struct hmreg_mr *cached = NULL;
    struct fixture fixture;

    note_open(before);
    fixture_open(&fixture, 0);
    assert_ok(hmreg_mr_get(fixture.domain, fixture.memory, 64, HMREG_SEND, &cached));
    assert_int_equal(kept_by_exec(before), 0);
    hmreg_mr_put(cached);
    fixture_close(&fixture);
}

struct made {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    struct hmreg_loopback_ep *ep;
    struct hmreg_mr *mr, *cached;
    struct hmreg_remote *remote;
    void *memory;
};

static void *make_all(void *closure)
{
    struct hmreg_loopback_config config = {.size = sizeof(config), .mr_mode = HMREG_MR_ENDPOINT};
    struct made *made = closure;

    assert_ok(hmreg_open(NULL, &made->lib));
    assert_ok(hmreg_domain_open_loopback(made->lib, &config, NULL, &made->domain));
    assert_ok(
        hmreg_mem_alloc(made->lib, HMREG_IFACE_SYSTEM, -1, HMREG_MEM_HOST, 4096, &made->memory));
    assert_ok(hmreg_mr_reg(made->domain, made->memory, 64, HMREG_ACCESS_REMOTE, 0, 5, 0, &made->mr,
                           NULL));
    assert_ok(hmreg_mr_get(made->domain, made->memory, 64, HMREG_SEND, &made->cached));
    assert_ok(hmreg_loopback_ep_open(made->domain, &made->ep));
    made->remote = test_remote_of(made->domain, made->mr);
    return NULL;
}

TEST(objects__made_by_a_thread_that_ended__used_and_ended_by_another)
{
    struct made made = {.lib = NULL};

    test_on_a_thread(make_all, &made);
    assert_ok(hmreg_mr_bind(made.mr, made.ep, 0));
    assert_ok(hmreg_mr_enable(made.mr));
    assert_ok(peer_put(made.remote, 3, 'x'));
    assert_int_equal(((char *)made.memory)[3], 'x');
    hmreg_mr_put(made.cached);
    hmreg_remote_close(made.remote);
    assert_ok(hmreg_loopback_ep_close(made.ep));
    assert_ok(hmreg_mr_close(made.mr));
    assert_ok(hmreg_domain_close(made.domain));
    assert_ok(hmreg_mem_free(made.lib, made.memory));
    assert_ok(hmreg_close(made.lib));
}

TEST_MAIN()
