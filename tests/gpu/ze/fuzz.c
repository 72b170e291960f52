/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Random memory of every kind that Level Zero has, freed in every way, made again at the same
 * addresses and got again: what a peer writes through the region of a get is in the memory that the
 * application has there then. HMREG_TEST_SEED repeats a run.
 */
#include "tests/gpu/ze/bench.h"

#include <hmreg/loopback.h>
#include <inttypes.h>
#include <pthread.h>

#define CREW    4
#define OBJECTS 6
#define HELD    4
#define PLACES  4 /* of a reservation */
#define TEXT    24
#define POOL    (128 << 10)

enum sort { NONE, DEVICE, PIECE, HOST, SHARED, IMPORT, VARIABLE, VIRTUAL, SORTS };

struct object {
    enum sort sort;
    char *addr;
    size_t len;
    char *exported; /* of an import: NULL if it was freed */
    bool pooled;    /* that is a piece of a pool */
    ze_module_handle_t module;
    ze_physical_mem_handle_t physical[PLACES]; /* NULL: destroyed */
    bool mapped[PLACES];
    ze_memory_access_attribute_t access;
};

/* One thread's. */
struct fuzz {
    struct object objects[OBJECTS];
    struct hmreg_mr *held[HELD];
    uint64_t random, seed;
    unsigned writes, steps;
};

static struct app app;
static struct hmreg_domain *domain;
static struct hmreg_remote *remote;
static size_t granule;
static bool fails; /* driver calls do, now and then */

/* Threads cannot use cmocka's assertions. */
#define must(fuzz, condition)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            wrong(fuzz, #condition, __LINE__);                                                     \
    } while (0)

static void wrong(const struct fuzz *fuzz, const char *what, int line)
{
    fprintf(stderr, "fuzz.c:%d: %s, at step %u of HMREG_TEST_SEED=%" PRIu64 ": %s\n", line, what,
            fuzz->steps, fuzz->seed, hmreg_last_error()->text);
    abort();
}

static unsigned draw(struct fuzz *fuzz, unsigned limit)
{
    fuzz->random ^= fuzz->random << 13;
    fuzz->random ^= fuzz->random >> 7;
    fuzz->random ^= fuzz->random << 17;
    return (unsigned)(fuzz->random >> 32) % limit;
}

/* ---- memory comes ------------------------------------------------------------------------- */

static void *alloc_device(struct fuzz *fuzz, size_t len, bool whole)
{
    ze_external_memory_export_desc_t export = {.stype =
                                                   ZE_STRUCTURE_TYPE_EXTERNAL_MEMORY_EXPORT_DESC,
                                               .flags = ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF};
    ze_device_mem_alloc_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC,
                                       .pNext = whole ? &export : NULL};
    void *made = NULL;

    must(fuzz, !zeMemAllocDevice(app.context, &desc, len, 0, app.devices[draw(fuzz, 2)], &made));
    return made;
}

static void *alloc_touchable(struct fuzz *fuzz, size_t len, bool shared)
{
    ze_device_mem_alloc_desc_t device = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MEM_ALLOC_DESC};
    ze_host_mem_alloc_desc_t host = {.stype = ZE_STRUCTURE_TYPE_HOST_MEM_ALLOC_DESC};
    void *made = NULL;

    if (shared)
        must(fuzz, !zeMemAllocShared(app.context, &device, &host, len, 0, app.devices[0], &made));
    else
        must(fuzz, !zeMemAllocHost(app.context, &host, len, 0, &made));
    return made;
}

/* Of a whole allocation, or of a piece of a pool. */
static void open_import(struct fuzz *fuzz, struct object *object)
{
    ze_ipc_mem_handle_t handle;
    void *made = NULL;

    object->pooled = draw(fuzz, 2);
    object->exported = alloc_device(fuzz, object->len, !object->pooled);
    must(fuzz, !zeMemGetIpcHandle(app.context, object->exported, &handle));
    must(fuzz, !zeMemOpenIpcHandle(app.context, app.devices[0], handle, 0, &made));
    object->addr = made;
}

static void open_module(struct fuzz *fuzz, struct object *object)
{
    char text[64];
    ze_module_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MODULE_DESC,
                             .format = ZE_MODULE_FORMAT_NATIVE,
                             .pInputModule = (const uint8_t *)text};
    void *made = NULL;
    size_t len = 0;

    desc.inputSize = (size_t)snprintf(text, sizeof(text), "first %u\nsecond %zu\n",
                                      1 + draw(fuzz, 5000), object->len);
    must(fuzz, !zeModuleCreate(app.context, app.devices[0], &desc, &object->module, NULL));
    must(fuzz, !zeModuleGetGlobalPointer(object->module, "second", &len, &made));
    must(fuzz, len == object->len);
    object->addr = made;
}

static void map(struct fuzz *fuzz, struct object *object, unsigned i)
{
    ze_physical_mem_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_PHYSICAL_MEM_DESC, .size = granule};

    if (object->mapped[i])
        return;
    if (object->physical[i])
        must(fuzz, !zePhysicalMemDestroy(app.context, object->physical[i]));
    must(fuzz, !zePhysicalMemCreate(app.context, app.devices[draw(fuzz, 2)], &desc,
                                    &object->physical[i]));
    object->access = ZE_MEMORY_ACCESS_ATTRIBUTE_READWRITE;
    must(fuzz, !zeVirtualMemMap(app.context, object->addr + i * granule, granule,
                                object->physical[i], 0, object->access));
    object->mapped[i] = true;
}

static void reserve(struct fuzz *fuzz, struct object *object)
{
    void *made = NULL;

    object->len = PLACES * granule;
    must(fuzz, !zeVirtualMemReserve(app.context, NULL, object->len, &made));
    object->addr = made;
    object->access = ZE_MEMORY_ACCESS_ATTRIBUTE_NONE;
    for (unsigned i = 0; i < PLACES; i++)
        if (draw(fuzz, 4))
            map(fuzz, object, i);
}

static void make(struct fuzz *fuzz, struct object *object)
{
    static const size_t lengths[] = {100, 4096, 5000, 16384};

    *object = (struct object){.sort = (enum sort)(1 + draw(fuzz, SORTS - 1)),
                              .len = lengths[draw(fuzz, 4)]};
    switch (object->sort) {
    case DEVICE:
    case PIECE:
        object->addr = alloc_device(fuzz, object->len, object->sort == DEVICE);
        break;
    case HOST:
    case SHARED:
        object->addr = alloc_touchable(fuzz, object->len, object->sort == SHARED);
        break;
    case IMPORT:
        open_import(fuzz, object);
        break;
    case VARIABLE:
        open_module(fuzz, object);
        break;
    default:
        reserve(fuzz, object);
        break;
    }
}

/* ---- memory goes -------------------------------------------------------------------------- */

static void free_it(struct fuzz *fuzz, char *addr, size_t len, bool piece)
{
    ze_memory_free_ext_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_MEMORY_FREE_EXT_DESC,
                                      .freePolicy = draw(fuzz, 4)};
    size_t at = draw(fuzz, 2) ? draw(fuzz, (unsigned)len) : 0;

    if (piece && at) { /* frees nothing */
        must(fuzz, !zeMemFree(app.context, addr + at));
        at = 0;
    }
    if (draw(fuzz, 2))
        must(fuzz, !zeMemFree(app.context, addr + at));
    else
        must(fuzz, !zeMemFreeExt(app.context, &desc, addr + at));
}

/* The memory that was imported may go first or last. */
static void close_import(struct fuzz *fuzz, struct object *object)
{
    must(fuzz, !zeMemCloseIpcHandle(
                   app.context, object->addr + draw(fuzz, 2) * draw(fuzz, (unsigned)object->len)));
    if (object->exported)
        free_it(fuzz, object->exported, object->len, object->pooled);
}

static void forget_mappings(struct object *object, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++)
        object->mapped[i] = false;
}

static void free_reserved(struct fuzz *fuzz, struct object *object)
{
    must(fuzz, !zeVirtualMemFree(app.context, object->addr, object->len));
    for (unsigned i = 0; i < PLACES; i++)
        if (object->physical[i])
            must(fuzz, !zePhysicalMemDestroy(app.context, object->physical[i]));
}

static void end(struct fuzz *fuzz, struct object *object)
{
    switch (object->sort) {
    case NONE:
        break;
    case IMPORT:
        close_import(fuzz, object);
        break;
    case VARIABLE:
        must(fuzz, !zeModuleDestroy(object->module));
        break;
    case VIRTUAL:
        free_reserved(fuzz, object);
        break;
    default:
        free_it(fuzz, object->addr, object->len, object->sort == PIECE);
        break;
    }
    object->sort = NONE;
}

/* A context without memory: it counts as the end of all memory. */
static void end_another(struct fuzz *fuzz)
{
    ze_context_desc_t desc = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_context_handle_t context = NULL;

    must(fuzz, !zeContextCreate(app.driver, &desc, &context));
    must(fuzz, !zeContextDestroy(context));
}

/* ---- memory changes ----------------------------------------------------------------------- */

/* Gives all mappings in the range away, but one that is alone and whose memory is still there. */
static void set_access(struct fuzz *fuzz, struct object *object, unsigned first, unsigned count)
{
    ze_memory_access_attribute_t access = (ze_memory_access_attribute_t)draw(fuzz, 3);
    bool stays = count == 1 && object->mapped[first] && object->physical[first];

    must(fuzz, !zeVirtualMemSetAccessAttribute(app.context, object->addr + first * granule,
                                               count * granule, access));
    if (access != object->access && object->mapped[first]) {
        forget_mappings(object, first, count);
        object->mapped[first] = stays;
    }
    object->access = access;
}

/* Else other memory may have the bytes of an import when the exported memory was freed. */
static bool has_own_pages(const struct object *object)
{
    return !object->pooled && object->len >= bench_page();
}

static void change(struct fuzz *fuzz, struct object *object)
{
    unsigned first = draw(fuzz, PLACES), count = 1 + draw(fuzz, PLACES - first);

    if (object->sort == IMPORT && object->exported && has_own_pages(object)) {
        free_it(fuzz, object->exported, object->len, object->pooled);
        object->exported = NULL;
    }
    if (object->sort != VIRTUAL)
        return;
    switch (draw(fuzz, 4)) {
    case 0:
        must(fuzz,
             !zeVirtualMemUnmap(app.context, object->addr + first * granule, count * granule));
        forget_mappings(object, first, count);
        break;
    case 1:
        set_access(fuzz, object, first, count);
        break;
    case 2:
        if (object->physical[first])
            must(fuzz, !zePhysicalMemDestroy(app.context, object->physical[first]));
        object->physical[first] = NULL;
        break;
    default:
        for (unsigned i = first; i < first + count; i++)
            map(fuzz, object, i);
        break;
    }
}

/* ---- regions ------------------------------------------------------------------------------ */

/* What a get of the range returns. */
static int expected(const struct object *object, const char *at, size_t len)
{
    size_t first = (size_t)(at - object->addr) / granule;
    size_t last = ((size_t)(at - object->addr) + len - 1) / granule;

    if (object->sort == PIECE)
        return -EOPNOTSUPP;
    if (object->sort != VIRTUAL)
        return 0;
    if (!object->mapped[first])
        return -EFAULT;
    for (size_t i = first; i <= last; i++)
        if (!object->mapped[i])
            return -ERANGE;
    return 0;
}

/* Through the piece of a composite that the address lies in. */
static int write_through(struct hmreg_mr *mr, const char *at, const char *text)
{
    struct hmreg_piece_info piece = {.size = sizeof(piece)};
    struct hmreg_mr_info info = {.size = sizeof(info)};
    uint64_t offset;
    int rc = hmreg_mr_query(mr, &info);

    if (rc)
        return rc;
    offset = (uintptr_t)at - info.addr;
    for (size_t i = 0; !(rc = hmreg_mr_piece(mr, i, &piece)) && offset >= piece.len; i++)
        offset -= piece.len;
    return rc ? rc : hmreg_loopback_write(remote, text, TEXT, NULL, offset, piece.key);
}

static void check_bytes(struct fuzz *fuzz, struct hmreg_mr *mr, const struct object *object,
                        const char *start, size_t len)
{
    size_t room =
        object->sort == VIRTUAL ? granule - (size_t)(start - object->addr) % granule : len;
    char text[TEXT + 1];
    const char *at;

    room = room < len ? room : len;
    if (room < TEXT)
        return;
    at = start + draw(fuzz, (unsigned)(room - TEXT + 1));
    snprintf(text, sizeof(text), "%016" PRIx64 "%08x", fuzz->seed, fuzz->writes++);
    must(fuzz, !write_through(mr, at, text));
    must(fuzz, !memcmp(bench_control(0)->peek((uintptr_t)at), text, TEXT));
}

static void hold_or_put(struct fuzz *fuzz, struct hmreg_mr *mr)
{
    unsigned i = draw(fuzz, HELD);

    if (draw(fuzz, 4)) {
        hmreg_mr_put(mr);
        return;
    }
    if (fuzz->held[i])
        hmreg_mr_put(fuzz->held[i]);
    fuzz->held[i] = mr;
}

static void get(struct fuzz *fuzz, struct object *object)
{
    size_t from = draw(fuzz, 2) ? draw(fuzz, (unsigned)object->len) : 0;
    size_t len =
        draw(fuzz, 2) ? 1 + draw(fuzz, (unsigned)(object->len - from)) : object->len - from;
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_get(domain, object->addr + from, len, HMREG_ACCESS_REMOTE, &mr);

    if (rc && fails)
        return;
    if (rc != expected(object, object->addr + from, len))
        fprintf(stderr, "sort %d: %d, not %d\n", object->sort, rc,
                expected(object, object->addr + from, len));
    must(fuzz, rc == expected(object, object->addr + from, len));
    if (rc)
        return;
    if (fails)
        (bench_control(0)->reset)();
    check_bytes(fuzz, mr, object, object->addr + from, len);
    hold_or_put(fuzz, mr);
}

/* ---- runs --------------------------------------------------------------------------------- */

static void fail_something(struct fuzz *fuzz)
{
    static const char *const calls[] = {"zeMemGetAddressRange", "zeMemGetAllocProperties",
                                        "zeVirtualMemGetAccessAttribute"};

    if (fails && !draw(fuzz, 8))
        bench_fail(bench_control(0), calls[draw(fuzz, 3)], ZE_RESULT_ERROR_DEVICE_LOST,
                   (int)draw(fuzz, 4), 1);
}

static void step(struct fuzz *fuzz)
{
    struct object *object = &fuzz->objects[draw(fuzz, OBJECTS)];
    unsigned what = draw(fuzz, 16);

    fail_something(fuzz);
    if (object->sort == NONE)
        make(fuzz, object);
    else if (what < 3)
        end(fuzz, object);
    else if (what < 6)
        change(fuzz, object);
    else if (what == 6 && !draw(fuzz, 8))
        end_another(fuzz);
    else
        get(fuzz, object);
}

static void *run(void *arg)
{
    struct fuzz *fuzz = arg;
    unsigned long steps = test_times(200000);

    for (fuzz->steps = 0; fuzz->steps < steps; fuzz->steps++)
        step(fuzz);
    for (unsigned i = 0; i < HELD; i++)
        if (fuzz->held[i])
            hmreg_mr_put(fuzz->held[i]);
    for (unsigned i = 0; i < OBJECTS; i++)
        end(fuzz, &fuzz->objects[i]);
    return NULL;
}

static struct hmreg *open_all(void)
{
    struct hmreg_config config = {.size = sizeof(config),
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_ZE)};
    struct hmreg_domain_config mapped = {.size = sizeof(mapped), .order = {HMREG_PATH_MAPPED}};
    struct hmreg_loopback_config modes = {.size = sizeof(modes), .mr_mode = HMREG_MR_PROV_KEY};
    static char place[64], token[512];
    size_t size = sizeof(token);
    struct hmreg_mr *mr = NULL;
    struct hmreg *lib = NULL;

    assert_ok(hmreg_open(&config, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, &modes, &mapped, &domain));
    assert_ok(hmreg_mr_reg(domain, place, sizeof(place), HMREG_ACCESS_REMOTE, 0, 0, 0, &mr, NULL));
    assert_ok(hmreg_mr_pack(mr, token, &size));
    assert_ok(hmreg_remote_open(domain, token, size, &remote));
    assert_ok(hmreg_mr_close(mr));
    return lib;
}

static uint64_t seed_of(unsigned thread)
{
    const char *value = getenv("HMREG_TEST_SEED");
    uint64_t seed = value ? strtoull(value, NULL, 10) : 88172645463325252u;

    return seed + thread * UINT64_C(0x9e3779b97f4a7c15);
}

static void fuzz(unsigned threads, bool busy, bool failing)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};
    static struct fuzz crew[CREW];
    pthread_t running[CREW];
    unsigned writes = 0;
    struct hmreg *lib;

    bench_set("HMREG_FAKE_ZE_POOL", POOL);
    bench_set("HMREG_FAKE_ZE_BUSY", busy);
    bench_open();
    app_open(&app, 0);
    granule = bench_page() > 16384 ? bench_page() : 16384;
    fails = failing;
    lib = open_all();
    for (unsigned i = 0; i < threads; i++) {
        crew[i] = (struct fuzz){.random = seed_of(i), .seed = seed_of(i)};
        assert_int_equal(pthread_create(&running[i], NULL, run, &crew[i]), 0);
    }
    for (unsigned i = 0; i < threads; i++) {
        assert_int_equal(pthread_join(running[i], NULL), 0);
        writes += crew[i].writes;
    }
    (bench_control(0)->reset)();
    assert_ok(hmreg_domain_stats(domain, &stats));
    assert_true(writes > threads * test_times(200000) / 8);
    if (!failing)
        assert_true(stats.hits > threads * test_times(200000) / 16);
    hmreg_remote_close(remote);
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
}

TEST(fuzz__one_thread__never_stale)
{
    fuzz(1, false, false);
}

TEST(fuzz__device_is_busy__never_stale)
{
    fuzz(1, true, false);
}

TEST(fuzz__calls_fail__never_stale)
{
    fuzz(1, false, true);
}

TEST(fuzz__threads__never_stale)
{
    fuzz(CREW, false, false);
}

TEST_MAIN()
