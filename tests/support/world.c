/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See world.h. A provider of the contract in provider.h, whose domains are the NICs, and the log of
 * it and of the tests' vendors.
 */
#include "tests/support/world.h"

#include "core/base/error.h"
#include "core/contract/provider.h"
#include "tests/support/vendors.h"

#include <pthread.h>
#include <sys/mman.h>

#define FAULTS        16
#define REGISTRATIONS (1u << 20)

struct world world;

static struct {
    char name[24];
    unsigned left; /* calls that succeed before it */
    int more, code;
} faults[FAULTS];

static struct world_call entries[WORLD_LOG];
static unsigned made, fault_count, registered, live, most;
static unsigned parts;                     /* of domains, not destroyed yet */
static unsigned char owner[REGISTRATIONS]; /* of a registration: its NIC, from 1; 0: it has ended */
static unsigned live_of[WORLD_NICS];
static bool chooses_keys[WORLD_NICS];
static void *extra[16];
static unsigned extras;
static _Alignas(65536) char host[WORLD_BYTES];
static const struct world_fabric *fabric; /* of an open world; NULL: the NICs here */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the log and the faults ------------------------------------------------------------- */

static bool is_called(const char *full, const char *name)
{
    return strcmp(full, name) == 0 || strcmp(strchr(full, '.') + 1, name) == 0;
}

/* With the lock. */
static int fault_of(const char *name)
{
    int code = 0;

    for (unsigned i = 0; i < fault_count; i++) {
        if (!is_called(name, faults[i].name))
            continue;
        if (faults[i].left) {
            faults[i].left--;
        } else if (faults[i].more) {
            faults[i].more -= faults[i].more > 0;
            code = faults[i].code;
        }
    }
    return code;
}

/* Notes the call, and returns what it is to fail with. */
static int called(struct world_call *call)
{
    int (*hook)(const struct world_call *call) = world.on_call;
    unsigned at;
    int code;

    pthread_mutex_lock(&lock);
    at = made++;
    code = fault_of(call->name);
    if (at < WORLD_LOG)
        entries[at] = *call;
    pthread_mutex_unlock(&lock);
    if (hook && !code)
        code = hook(call);
    pthread_mutex_lock(&lock);
    if (at < WORLD_LOG)
        entries[at].result = code;
    pthread_mutex_unlock(&lock);
    return code;
}

static int vendor_is_called(enum hmreg_iface iface, const char *name, uint64_t addr, size_t len)
{
    struct world_call call = {.addr = (void *)(uintptr_t)addr,
                              .len = len,
                              .ranges = 1,
                              .iface = iface,
                              .dmabuf = {.fd = -1}};

    snprintf(call.name, sizeof(call.name), "%s.%s", hmreg_iface_name(iface), name);
    return called(&call);
}

static struct world_call call_of(const void *self, const char *name)
{
    struct world_call call = {.device = -1, .dmabuf = {.fd = -1}};

    snprintf(call.name, sizeof(call.name), "nic%u.%s", (unsigned)(uintptr_t)self, name);
    return call;
}

static int fail_as_asked(const struct world_call *call, int code)
{
    return hmreg_fail_vendor(code, "world", 4712, "in its own words", "%s was asked to fail",
                             call->name);
}

/* ---- the NICs --------------------------------------------------------------------------- */

static int can(void *self, enum hmreg_path path, enum hmreg_iface iface, int device,
               struct hmreg_reason *why)
{
    return world.cannot[path]
               ? hmreg_refuse(why, world.cannot[path], "world-cannot", "nic%u has no path %s",
                              (unsigned)(uintptr_t)self, hmreg_path_name(path))
               : 0;
}

static unsigned next_number(void)
{
    unsigned number;

    pthread_mutex_lock(&lock);
    number = ++registered;
    pthread_mutex_unlock(&lock);
    if (number >= REGISTRATIONS)
        abort();
    return number;
}

static void begin(const void *self, unsigned number)
{
    pthread_mutex_lock(&lock);
    owner[number] = (unsigned char)((uintptr_t)self + 1);
    live_of[(uintptr_t)self]++;
    if (++live > most)
        most = live;
    pthread_mutex_unlock(&lock);
}

static void end(unsigned number)
{
    pthread_mutex_lock(&lock);
    live_of[owner[number] - 1]--;
    owner[number] = 0;
    live--;
    pthread_mutex_unlock(&lock);
}

static int reg(void *self, const struct provider_request *req, struct hmreg_mr_keys *out,
               struct hmreg_reason *why)
{
    struct world_call call = call_of(self, "reg");
    int code;

    call.number = next_number();
    call.addr = req->iov[0].iov_base;
    for (size_t i = 0; i < req->count; i++)
        call.len += req->iov[i].iov_len;
    call.ranges = req->count;
    call.access = req->access;
    call.requested_key = req->requested_key;
    call.flags = req->flags;
    call.iova = req->options.iova;
    call.ordering = req->options.ordering;
    call.path = req->path;
    call.iface = req->iface;
    call.device = req->device;
    call.context = req->context;
    if (req->dmabuf)
        call.dmabuf = *req->dmabuf;
    code = called(&call);
    if (code)
        return fail_as_asked(&call, code);
    if (world.refuses[req->path]) {
        why->vendor_code = 4711;
        return hmreg_refuse(why, world.refuses[req->path], "world-refused", "nic%u refuses path %s",
                            (unsigned)(uintptr_t)self, hmreg_path_name(req->path));
    }
    begin(self, call.number);
    *out = (struct hmreg_mr_keys){.priv = (void *)(uintptr_t)call.number,
                                  .key = world.key                       ? world.key
                                         : chooses_keys[(uintptr_t)self] ? call.number
                                                                         : req->requested_key};
    return 0;
}

static int dereg(void *self, struct hmreg_mr_keys *mr)
{
    struct world_call call = call_of(self, "dereg");
    unsigned number = (unsigned)(uintptr_t)mr->priv;
    int code;

    call.number = number;
    if (owner[number] != (uintptr_t)self + 1)
        abort(); /* another NIC's, or a second time */
    code = called(&call);
    if (!code && (world.busy == WORLD_EACH || world.busy == number))
        code = -EBUSY;
    if (code != -EBUSY)
        end(number);
    return code ? fail_as_asked(&call, code) : 0;
}

static int refresh(void *self, const struct hmreg_mr_keys *mr, const struct iovec *iov,
                   size_t count, uint64_t flags)
{
    struct world_call call = call_of(self, "refresh");
    int code;

    call.number = (unsigned)(uintptr_t)mr->priv;
    call.addr = iov ? iov->iov_base : NULL;
    call.len = iov ? iov->iov_len : 0;
    call.ranges = count;
    code = called(&call);
    return code ? fail_as_asked(&call, code) : 0;
}

static void destroy(void *self)
{
    parts--;
}

/* No error has to do with room, but those that say so by their number. */
static enum provider_room room(void *self, int rc)
{
    return PROVIDER_ROOM_ENOUGH;
}

static const struct provider_ops ops = {
    .name = "world",
    .can = can,
    .reg = reg,
    .room = room,
    .dereg = dereg,
    .refresh = refresh,
    .destroy = destroy,
};

/* ---- opening and closing ---------------------------------------------------------------- */

int world_try_as(const struct world_as *as)
{
    struct hmreg_domain_config config = as->domain;
    struct provider_caps caps = {
        .mr_mode =
            as->mr_mode ? as->mr_mode : HMREG_MR_VIRT_ADDR | HMREG_MR_PROV_KEY | HMREG_MR_HMEM,
        .key_size = as->key_size ? as->key_size : 8,
        .iov_limit = as->iov_limit ? as->iov_limit : 8,
        .max_len = as->max_len ? as->max_len : 1ull << 40,
        .any_thread = as->any_thread,
        .async = as->async,
        .orderings = as->relaxed ? PROVIDER_VALUE(HMREG_ORDERING_RELAXED) : UINT32_MAX,
        .atomics = UINT32_MAX,
        .on_demand = UINT32_MAX,
        .iova = !as->relaxed,
        .local_iova = !as->relaxed,
    };
    struct hmreg_domain *domain = NULL;
    unsigned before = parts;
    int rc;

    assert_true(world.nics < WORLD_NICS);
    chooses_keys[world.nics] = caps.mr_mode & HMREG_MR_PROV_KEY;
    config.size = sizeof(config);
    snprintf(caps.fabric, sizeof(caps.fabric), "nic%u", world.nics);
    parts += !as->fabric;
    rc = as->fabric ? as->fabric->open(world.lib, &config, &domain)
                    : hmreg_domain_create(world.lib, &ops, &caps, (void *)(uintptr_t)world.nics,
                                          &config, &domain);
    if (rc) {
        assert_null(domain);
        assert_int_equal(parts, before);
        return rc;
    }
    world.nic[world.nics] = domain;
    if (!world.nics++)
        world.domain = domain;
    return 0;
}

struct hmreg_domain *world_add_as(const struct world_as *as)
{
    assert_ok(world_try_as(as));
    return world.nic[world.nics - 1];
}

static void close_domains(void)
{
    if (world.domain != world.nic[0])
        assert_ok(hmreg_domain_close(world.domain));
    for (unsigned i = 0; i < world.nics; i++)
        assert_ok(hmreg_domain_close(world.nic[i]));
}

static void close_world(void)
{
    world_heal();
    world.on_call = NULL;
    close_domains();
    assert_int_equal(live, 0);
    assert_int_equal(parts, 0);
    while (extras)
        vendor_memory_free(extra[--extras]);
    if (world.lib)
        assert_ok(hmreg_close(world.lib));
    vendor_called = NULL;
    if (fabric && fabric->end)
        fabric->end();
}

static void reset(void)
{
    memset(owner, 0, registered + 1);
    memset(live_of, 0, sizeof(live_of));
    registered = live = most = extras = parts = 0;
    world = (struct world){.host = host};
    memset(host, 'h', sizeof(host));
    world_heal();
    world_clear();
    vendors_reset();
    vendor_called = vendor_is_called;
}

/* The runtimes start now, and not in the case's first call. */
static void start_runtimes(void)
{
    struct hmreg_mem_info info = {.size = sizeof(info)};

    assert_ok(hmreg_query(world.lib, host, 1, &info));
}

static void open_memory(enum hmreg_iface iface)
{
    for (int i = 0; i < 2; i++) {
        world.gpu[i] = world_memory(iface, i, HMREG_MEM_DEVICE, WORLD_BYTES);
        memset(world_view(world.gpu[i]), 'a' + i, WORLD_BYTES);
    }
}

void world_open_as(const struct world_as *as)
{
    struct hmreg_config library = {.size = sizeof(library),
                                   .monitor = as->monitor ? as->monitor : HMREG_MONITOR_IMPORT};
    struct hmreg_group_config group = as->groups;
    int rc;

    reset();
    fabric = as->fabric;
    if (fabric && fabric->begin)
        fabric->begin();
    rc = hmreg_open(as->library ? as->library : &library, &world.lib);
    if (as->monitor && (rc == -EPERM || rc == -ENOSYS || rc == -EOPNOTSUPP || rc == -ENOENT))
        test_skip("%s", hmreg_last_error()->text);
    assert_ok(rc);
    test_after(close_world);
    if (!as->library)
        start_runtimes();
    open_memory(as->vendor ? as->vendor : HMREG_IFACE_CUDA);
    for (unsigned i = 0; i < (as->nics ? as->nics : 1) && !as->later; i++)
        world_add_as(as);
    group.size = sizeof(group);
    if (as->group)
        assert_ok(hmreg_group_open(world.lib, world.nic, world.nics, &group, &world.domain));
    world_clear();
}

/* ---- for cases -------------------------------------------------------------------------- */

static const struct world_call *find(const char *name, unsigned number, unsigned *count)
{
    const struct world_call *found = NULL;
    unsigned logged, matching = 0;

    pthread_mutex_lock(&lock);
    logged = made;
    for (unsigned i = 0; i < logged && i < WORLD_LOG; i++) {
        if (!is_called(entries[i].name, name))
            continue;
        if (matching++ == number)
            found = &entries[i];
    }
    pthread_mutex_unlock(&lock);
    if (logged > WORLD_LOG)
        fail_msg("%u calls are more than the log has room for", logged);
    *count = matching;
    return found;
}

bool world_is(const struct world_call *call, const char *name)
{
    return is_called(call->name, name);
}

unsigned world_calls(const char *name)
{
    unsigned count;

    find(name, 0, &count);
    return count;
}

const struct world_call *world_call(const char *name, unsigned number)
{
    unsigned count;
    const struct world_call *found = find(name, number, &count);

    if (!found)
        fail_msg("%s was called %u times: %s", name, count, world_log());
    return found;
}

const struct world_call *world_last(const char *name)
{
    return world_call(name, world_calls(name) - 1);
}

const char *world_log(void)
{
    static char text[65536];
    size_t len = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < made && i < WORLD_LOG && len < sizeof(text); i++)
        len +=
            (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i ? " " : "", entries[i].name);
    return text;
}

void world_clear(void)
{
    pthread_mutex_lock(&lock);
    made = 0;
    pthread_mutex_unlock(&lock);
}

unsigned world_live(unsigned nic)
{
    unsigned count;

    pthread_mutex_lock(&lock);
    count = nic == WORLD_EACH ? live : live_of[nic];
    pthread_mutex_unlock(&lock);
    return count;
}

unsigned world_most(void)
{
    return most;
}

void world_fail(const char *name, unsigned number, int more, int code)
{
    pthread_mutex_lock(&lock);
    if (fault_count == FAULTS || number == 0)
        abort();
    snprintf(faults[fault_count].name, sizeof(faults[0].name), "%s", name);
    faults[fault_count].left = number - 1;
    faults[fault_count].more = more < 0 ? -1 : more + 1;
    faults[fault_count++].code = code;
    pthread_mutex_unlock(&lock);
}

void world_heal(void)
{
    pthread_mutex_lock(&lock);
    fault_count = 0;
    world.busy = 0;
    pthread_mutex_unlock(&lock);
}

char *world_memory(enum hmreg_iface iface, int device, enum hmreg_mem_kind kind, size_t len)
{
    assert_true(extras < sizeof(extra) / sizeof(extra[0]));
    extra[extras] = vendor_memory(iface, device, kind, len);
    return extra[extras++];
}

bool world_is_mapped(const void *addr)
{
    unsigned char resident;
    uintptr_t page = (uintptr_t)addr & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1);

    return mincore((void *)page, 1, &resident) == 0;
}

char *world_view(const void *addr)
{
    return vendor_view(addr);
}

void world_claim(void *addr, size_t len)
{
    vendor_claim(HMREG_IFACE_CUDA, addr, len, HMREG_MEM_DEVICE, 0);
}

void world_renew(const void *addr)
{
    for (int i = 0; i < HMREG_IFACE_COUNT; i++)
        for (unsigned at = 0; at < vendors[i].count; at++)
            if (vendors[i].claims[at].addr == (uintptr_t)addr)
                vendor_renew(&vendors[i].claims[at]);
}

struct hmreg_mr *world_get(const void *addr, size_t len)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(world.domain, addr, len, HMREG_ACCESS_REMOTE, &mr));
    return mr;
}

uint64_t world_key(const void *addr, size_t len)
{
    struct hmreg_mr *mr = world_get(addr, len);
    uint64_t key = hmreg_mr_key(mr);

    hmreg_mr_put(mr);
    return key;
}

struct hmreg_stats world_stats(void)
{
    return test_stats_of(world.domain);
}

void world_change(const void *addr, size_t len)
{
    assert_ok(hmreg_invalidate(world.lib, addr, len));
}

void world_old_error(void)
{
    hmreg_fail(-ENODATA, "of before");
}

bool world_error_is_old(void)
{
    return hmreg_last_error()->code == -ENODATA;
}
