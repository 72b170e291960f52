/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The property test's operations on cached regions, with random ranges, rights, rails, endpoints
 * and claims, beside their model (model_cache.h): each get must hit, register or be refused as the
 * model says, asks a vendor only where it may, and gives what it was asked for.
 */
#include "tests/conformance/property.h"
#include "tests/support/vendors.h"

#include <sched.h>

#define HOLDS      8
#define KNOWN      8 /* requests of gets that succeeded, which later ones repeat */
#define SPOTS      3 /* of an area, where most gets begin */
#define DEVICE_LEN ((uint64_t)4 * 65536)
#define EXPLICIT   99 /* the key of explicit regions; no other region has it */

static struct {
    char *devices[CACHE_AREAS];                      /* of area 1 and 2: memory of cuda's devices */
    struct hmreg_loopback_ep *others[MODEL_OBJECTS]; /* endpoints of rail 1 */
    struct hmreg_mr *mrs[CACHE_ENTRIES];
    int holds[HOLDS]; /* entries; -1: none */
    struct cache_want known[KNOWN];
    size_t known_count; /* in this episode */
    /* Of the whole run, so that it cannot cease to test something unnoticed: */
    unsigned long refused, hits, on_groups, bound, trusted, checked, more_rights, more_range;
} c;

static struct vendor *const cuda = &vendors[HMREG_IFACE_CUDA];

/* ---- the run ---------------------------------------------------------------------------- */

void cached_open(void)
{
    vendors_reset();
    for (int i = 1; i < CACHE_AREAS; i++) {
        c.devices[i] = test_map(DEVICE_LEN);
        vendor_claim(HMREG_IFACE_CUDA, c.devices[i], DEVICE_LEN, HMREG_MEM_DEVICE, i - 1);
    }
}

void cached_close(unsigned long ops)
{
    unsigned long least = ops / 5000;

    print_message("gets refused %lu, hits %lu: on groups %lu, bound %lu, trusted claims %lu, "
                  "checked claims %lu, with more rights %lu, in larger ranges %lu\n",
                  c.refused, c.hits, c.on_groups, c.bound, c.trusted, c.checked, c.more_rights,
                  c.more_range);
    assert_true(c.refused >= least && c.on_groups >= least && c.bound >= least &&
                c.trusted >= least && c.checked >= least && c.more_rights >= least &&
                c.more_range >= least);
    for (int i = 1; i < CACHE_AREAS; i++)
        munmap(c.devices[i], DEVICE_LEN);
}

struct hmreg_domain_config cached_config(void)
{
    return (struct hmreg_domain_config){
        .size = sizeof(struct hmreg_domain_config),
        .flags = property_once_in(4) ? HMREG_DOMAIN_EXACT : 0,
        .rights = (enum hmreg_rights)property_below(HMREG_RIGHTS_ANY + 1),
        .max_regions = HMREG_LIMIT_NONE,
        .max_bytes = HMREG_LIMIT_NONE,
    };
}

void cached_begin(uint32_t other_mode)
{
    t.cache.is_group = t.group;
    t.cache.binds[0] = t.model.mr_mode & HMREG_MR_ENDPOINT;
    t.cache.binds[1] = t.group && (other_mode & HMREG_MR_ENDPOINT);
    t.cache.provider_keys = t.model.mr_mode & HMREG_MR_PROV_KEY;
    t.cache.max_len = t.model.max_len;
    for (int i = 0; i < MODEL_OBJECTS && t.group; i++)
        assert_ok(hmreg_loopback_ep_open(t.other, &c.others[i]));
    for (int i = 0; i < HOLDS; i++)
        c.holds[i] = -1;
    c.known_count = 0;
}

static void put(int *hold)
{
    int entry = *hold;

    *hold = -1;
    if (entry < 0)
        return;
    hmreg_mr_put(c.mrs[entry]);
    cache_model_put(&t.cache, entry);
}

static void flush(void)
{
    assert_ok(hmreg_domain_flush(t.where));
    cache_model_flush(&t.cache);
}

static void put_all(void)
{
    for (int i = 0; i < HOLDS; i++)
        put(&c.holds[i]);
}

/* The library's thread may be about to deregister some. */
static bool all_deregistered(struct hmreg_stats *stats)
{
    sched_yield();
    assert_ok(hmreg_domain_progress(t.where));
    assert_ok(hmreg_domain_stats(t.where, stats));
    return stats->retired <= cache_model_retired(&t.cache);
}

static void compare_counters(void)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    test_wait_until(all_deregistered(&stats));
    if (stats.hits != t.cache.hits || stats.misses != t.cache.misses ||
        stats.uncached != t.cache.uncached || stats.invalidations != t.cache.invalidations ||
        stats.regions != cache_model_live(&t.cache) ||
        stats.retired != cache_model_retired(&t.cache) || stats.evictions)
        fail_msg("seed %lu, operation %lu: counters are hits %lu misses %lu uncached %lu "
                 "invalidations %lu regions %lu retired %lu, the model's %lu %lu %lu %lu %u %u",
                 t.seed, t.op, stats.hits, stats.misses, stats.uncached, stats.invalidations,
                 stats.regions, stats.retired, t.cache.hits, t.cache.misses, t.cache.uncached,
                 t.cache.invalidations, cache_model_live(&t.cache), cache_model_retired(&t.cache));
}

void cached_end(void)
{
    compare_counters();
    put_all();
    flush();
    compare_counters();
    for (int i = 0; i < MODEL_OBJECTS && t.group; i++)
        assert_ok(hmreg_loopback_ep_close(c.others[i]));
}

/* ---- ends ------------------------------------------------------------------------------- */

static char *area_at(unsigned area)
{
    return area ? c.devices[area] : t.arena;
}

static uint64_t area_len(unsigned area)
{
    return area ? DEVICE_LEN : MODEL_PAGES * t.model.page;
}

static void invalidate(unsigned area, struct model_range range)
{
    assert_ok(hmreg_invalidate(t.lib, area_at(area) + range.offset, range.len));
    cache_model_invalidate(&t.cache, area, range);
}

void cached_changed(uint64_t offset, uint64_t len)
{
    invalidate(0, (struct model_range){offset, len});
}

/* As the manual asks: the regions are put, and the domain flushed, before the endpoint is closed.
 */
void cached_forget_endpoint(int ep)
{
    bool used = false;

    for (int i = 0; i < CACHE_ENTRIES; i++)
        used |= t.cache.entries[i].open && cache_model_endpoint(&t.cache.entries[i].want, 0) == ep;
    if (!used)
        return;
    put_all();
    flush();
}

void cached_op_put(void)
{
    put(&c.holds[property_below(HOLDS)]);
}

/* ---- random requests -------------------------------------------------------------------- */

/* Often the same few places and lengths, so that gets hit. */
static struct model_range random_range(unsigned area)
{
    uint64_t len = area_len(area), spot = property_below(SPOTS) * (len / SPOTS);
    struct model_range range = {spot, (1 + property_below(3)) * 100};

    if (property_once_in(3)) {
        range.offset += property_below(50);
        range.len = 1 + property_below(50);
    }
    if (property_once_in(20))
        range.len = property_below(len - range.offset);
    return range;
}

static uint64_t random_access(void)
{
    static const uint64_t usual[] = {HMREG_ACCESS_ALL,
                                     HMREG_ACCESS_REMOTE,
                                     HMREG_REMOTE_WRITE,
                                     HMREG_SEND,
                                     HMREG_SEND | HMREG_REMOTE_WRITE,
                                     HMREG_SEND | HMREG_WRITE | HMREG_REMOTE_WRITE};

    if (property_once_in(40))
        return property_once_in(2) ? 0 : HMREG_ACCESS_ALL | 1;
    return usual[property_below(6)];
}

/* Of rail 0 an open one, if there is any. */
static int random_endpoint(size_t rail)
{
    int ep = (int)property_below(MODEL_OBJECTS);

    return rail || t.model.ep_open[ep] ? ep : -1;
}

static void choose_endpoints(struct cache_want *want)
{
    bool wrong = property_once_in(30);

    want->endpoint = -1;
    want->listed_count = wrong && property_once_in(2) ? 1 + property_below(3) : 0;
    for (size_t i = 0; i < CACHE_RAILS; i++)
        want->endpoints[i] = -1;
    if (!wrong && (property_once_in(8) || !(t.cache.binds[0] || t.cache.binds[1])))
        return;
    if (wrong || (!t.group && property_once_in(2)))
        want->endpoint = random_endpoint(0);
    if (want->endpoint >= 0 && !wrong)
        return;
    want->listed = true;
    if (!want->listed_count)
        want->listed_count = cache_model_rails(&t.cache);
    for (size_t i = 0; i < cache_model_rails(&t.cache); i++)
        if (t.cache.binds[i] || property_once_in(30))
            want->endpoints[i] = random_endpoint(i);
}

/* Complete, or with something missing or wrong. */
static void trust(struct cache_want *want)
{
    struct cache_claim *claim = &want->claim;

    claim->kind = want->area ? HMREG_MEM_DEVICE : HMREG_MEM_HOST;
    if (want->area || property_once_in(3))
        claim->allocation = (struct model_range){0, area_len(want->area)};
    if (want->area && !property_once_in(5))
        claim->identity = 7 + property_below(2);
    if (!property_once_in(10))
        return;
    switch (property_below(5)) {
    case 0:
        claim->kind = want->area ? HMREG_MEM_HOST : HMREG_MEM_DEVICE;
        break;
    case 1:
        claim->allocation.len = claim->allocation.len ? 60 : 0;
        break;
    case 2:
        claim->half = claim->allocation.len;
        break;
    case 3:
        claim->device = HMREG_DEVICE_ANY;
        break;
    default:
        claim->identity ^= 1;
    }
}

static void choose_claim(struct cache_want *want)
{
    struct cache_claim *claim = &want->claim;

    claim->how = property_once_in(3) ? HMREG_CLAIM_NONE : 1 + (int)property_below(2);
    claim->iface = want->area ? HMREG_IFACE_CUDA : HMREG_IFACE_SYSTEM;
    claim->device = want->area ? (int)want->area - 1 : 0;
    if (property_once_in(10))
        claim->iface = (enum hmreg_iface)property_below(HMREG_IFACE_COUNT);
    if (want->area && property_once_in(6))
        claim->device = property_once_in(2) ? HMREG_DEVICE_ANY : (int)property_below(3);
    if (claim->how == HMREG_CLAIM_TRUSTED)
        trust(want);
    else if (property_once_in(40))
        claim->identity = 7;
}

static struct cache_want random_want(void)
{
    struct cache_want want = {.area = (unsigned)property_below(CACHE_AREAS)};

    want.range = random_range(want.area);
    want.access = random_access();
    if (property_once_in(40))
        want.flags = property_once_in(2) ? HMREG_RMA_EVENT : 1;
    if (property_once_in(60))
        want.key = 3;
    if (t.group ? property_once_in(3) : property_once_in(40))
        want.rails = property_below(5);
    if (property_once_in(12))
        want.page_size = property_once_in(6) ? 3 : 4096;
    choose_endpoints(&want);
    choose_claim(&want);
    return want;
}

static bool endpoint_is_open(const struct cache_want *want)
{
    int ep = cache_model_endpoint(want, 0);

    return ep < 0 || t.model.ep_open[ep];
}

/* A request that succeeded before, perhaps of a part of its range or with other rights or claims.
 */
static struct cache_want known_want(void)
{
    size_t most = c.known_count < KNOWN ? c.known_count : KNOWN;
    struct cache_want want = most ? c.known[property_below(most)] : random_want();

    if (!endpoint_is_open(&want))
        choose_endpoints(&want);
    if (property_once_in(4))
        want.access = random_access();
    if (property_once_in(4))
        want.range.len = 1 + property_below(want.range.len);
    if (property_once_in(8)) {
        want.claim = (struct cache_claim){.how = 0};
        choose_claim(&want);
    }
    return want;
}

/* ---- calls ------------------------------------------------------------------------------ */

static void *endpoint_at(size_t rail, int ep)
{
    if (ep < 0)
        return NULL;
    return rail ? c.others[ep] : t.eps[ep];
}

/* Does the call need no attributes, so that hmreg_mr_get() does the same? */
static bool is_plain(const struct cache_want *want)
{
    return !want->flags && !want->key && !want->rails && !want->page_size && want->endpoint < 0 &&
           !want->listed && !want->listed_count && !want->claim.how && !want->claim.identity;
}

static void claim_in(const struct cache_want *want, struct hmreg_mr_attr *attr)
{
    const struct cache_claim *claim = &want->claim;

    attr->claim_iface = claim->how;
    attr->iface = claim->iface;
    attr->device = claim->device;
    attr->claim_kind = claim->kind;
    attr->claim_identity = claim->identity;
    attr->claim_len = claim->allocation.len;
    if (claim->allocation.len && !claim->half)
        attr->claim_base = (uint64_t)(uintptr_t)area_at(want->area) + claim->allocation.offset;
}

static int call(const struct cache_want *want, void *context, struct hmreg_mr **mr)
{
    struct iovec iov = {area_at(want->area) + want->range.offset, want->range.len};
    void *endpoints[CACHE_RAILS];
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr),
        .iov = &iov,
        .iov_count = 1,
        .access = want->access,
        .requested_key = want->key,
        .context = context,
        .page_size = want->page_size,
        .rails = want->rails,
        .endpoint = endpoint_at(0, want->endpoint),
        .endpoints = want->listed ? endpoints : NULL,
        .endpoint_count = want->listed_count,
    };

    for (size_t i = 0; i < CACHE_RAILS; i++)
        endpoints[i] = endpoint_at(i, want->endpoints[i]);
    claim_in(want, &attr);
    if (want->explicit)
        return hmreg_mr_regattr(t.where, &attr, want->flags, mr);
    return hmreg_mr_get_attr(t.where, &attr, want->flags, mr);
}

/* ---- gets ------------------------------------------------------------------------------- */

static const char *words(const struct cache_want *want, char *text, size_t size)
{
    snprintf(text, size,
             "seed %lu, operation %lu, mr_mode %#x: area %u %lu+%lu access %#lx rails %lu "
             "endpoints %d [%d %d] claim %d",
             t.seed, t.op, t.model.mr_mode, want->area, want->range.offset, want->range.len,
             want->access, want->rails, want->endpoint, want->endpoints[0], want->endpoints[1],
             want->claim.how);
    return text;
}

#define assert_right(condition, want)                                                              \
    do {                                                                                           \
        char text_[256];                                                                           \
                                                                                                   \
        if (!(condition))                                                                          \
            fail_msg("%s: not so: %s", words(want, text_, sizeof(text_)), #condition);             \
    } while (0)

/* Each rail that was asked for is there, and bound and enabled where the get named an endpoint: a
 * bound region that is not enabled answers -EBUSY. */
static void check_rails(const struct cache_want *want, const struct hmreg_mr *mr)
{
    for (size_t i = 0; i < cache_model_rails(&t.cache); i++) {
        struct hmreg_mr *rail = hmreg_mr_rail(mr, i);
        int ep = cache_model_endpoint(want, i);

        assert_right((rail != NULL) == cache_model_on(&t.cache, want, i), want);
        if (rail && ep >= 0)
            assert_right(hmreg_mr_bind(rail, endpoint_at(i, ep), 0) == -HMREG_EOPBADSTATE, want);
    }
}

static void check_region(const struct cache_want *want, int entry, struct hmreg_mr *mr)
{
    const struct cache_entry_model *model = &t.cache.entries[entry];
    struct hmreg_mr_info info = {.size = sizeof(info)};

    assert_ok(hmreg_mr_query(mr, &info));
    assert_right(info.addr == (uint64_t)(uintptr_t)area_at(want->area) + model->want.range.offset,
                 want);
    assert_right(info.len == model->want.range.len, want);
    assert_right(info.access == model->want.access, want);
    assert_right((info.cached != 0) == model->live, want);
    if (want->claim.how == HMREG_CLAIM_TRUSTED)
        assert_right(info.iface == want->claim.iface, want);
    else
        assert_right(info.iface == (want->area ? HMREG_IFACE_CUDA : HMREG_IFACE_SYSTEM), want);
    check_rails(want, mr);
}

static int entry_of(const struct hmreg_mr *mr)
{
    for (int i = 0; i < CACHE_ENTRIES; i++)
        if (t.cache.entries[i].open && c.mrs[i] == mr)
            return i;
    return -1;
}

/* An entry that is not in use; makes room if there is none. */
static int free_entry(void)
{
    for (int tries = 0; tries < 2; tries++) {
        for (int i = 0; i < CACHE_ENTRIES; i++)
            if (!t.cache.entries[i].open)
                return i;
        put_all();
        flush();
    }
    fail_msg("seed %lu, operation %lu: all entries are in use", t.seed, t.op);
    return -1;
}

/* A trusted claim asks no vendor. A hit asks none what the memory is. Else each runtime is asked.
 */
static void check_questions(const struct cache_want *want, bool hits, unsigned resolves,
                            unsigned identities)
{
    resolves = cuda->resolves - resolves;
    identities = cuda->identities - identities;
    if (want->claim.how == HMREG_CLAIM_TRUSTED)
        assert_right(!resolves && !identities, want);
    else if (hits)
        assert_right(!resolves, want);
    else
        assert_right(resolves == 1, want);
}

static void note_hit(const struct cache_want *want, const struct cache_want *has)
{
    c.hits++;
    c.on_groups += t.cache.is_group;
    c.bound += cache_model_endpoint(want, 0) >= 0 || cache_model_endpoint(want, 1) >= 0;
    c.trusted += want->claim.how == HMREG_CLAIM_TRUSTED;
    c.checked += want->claim.how == HMREG_CLAIM_CHECKED;
    c.more_rights += want->access != has->access;
    c.more_range += want->range.len != has->range.len;
}

static void take(const struct cache_want *want, int entry, struct hmreg_mr *mr, bool hits)
{
    int known = entry_of(mr);

    if (hits) {
        assert_right(known >= 0 && cache_model_serves(&t.cache, known, want), want);
        note_hit(want, &t.cache.entries[known].want);
        cache_model_hit(&t.cache, known);
        entry = known;
    } else {
        assert_right(known < 0, want);
        cache_model_registered(&t.cache, entry, want);
        c.mrs[entry] = mr;
    }
    check_region(want, entry, mr);
}

/* hmreg_mr_get(), where it does the same, has no context. */
static void check_context(const struct cache_want *want, const struct hmreg_mr *mr)
{
    void *context = hmreg_mr_context(mr);

    assert_right(!context || context == &c.mrs[entry_of(mr)], want);
}

void cached_op_get(void)
{
    int *hold = &c.holds[property_below(HOLDS)], entry = free_entry();
    struct cache_want want = property_once_in(3) ? random_want() : known_want();
    struct verdict expected = cache_model_get(&t.cache, &want);
    bool hits = cache_model_hits(&t.cache, &want), plain = is_plain(&want) && property_once_in(2);
    struct hmreg_mr *untouched = (struct hmreg_mr *)&t, *mr = untouched;
    unsigned resolves = cuda->resolves, identities = cuda->identities;
    int answer;

    put(hold);
    if (plain)
        answer = hmreg_mr_get(t.where, area_at(want.area) + want.range.offset, want.range.len,
                              want.access, &mr);
    else
        answer = call(&want, &c.mrs[entry], &mr);
    property_compare("get", (int)want.area, &expected, answer);
    assert_int_equal(mr == untouched, answer != 0);
    c.refused += answer != 0;
    if (answer)
        return;
    check_questions(&want, hits, resolves, identities);
    take(&want, entry, mr, hits);
    check_context(&want, mr);
    *hold = entry_of(mr);
    c.known[c.known_count++ % KNOWN] = want;
}

/* Explicit registration with the same attributes, without the cache. */
void cached_op_reg(void)
{
    struct hmreg_mr *untouched = (struct hmreg_mr *)&t, *mr = untouched;
    unsigned resolves = cuda->resolves, identities = cuda->identities;
    struct cache_want want = random_want();
    struct verdict expected;
    int answer;

    want.explicit = true;
    want.key = t.cache.provider_keys ? want.key : EXPLICIT;
    if (property_once_in(2)) {
        want.endpoint = -1;
        want.listed = false;
        want.listed_count = 0;
    }
    expected = cache_model_get(&t.cache, &want);
    answer = call(&want, NULL, &mr);
    property_compare("regattr", (int)want.area, &expected, answer);
    assert_int_equal(mr == untouched, answer != 0);
    if (answer)
        return;
    check_questions(&want, false, resolves, identities);
    for (size_t i = 0; i < cache_model_rails(&t.cache); i++)
        assert_right((hmreg_mr_rail(mr, i) != NULL) == cache_model_on(&t.cache, &want, i), &want);
    assert_ok(hmreg_mr_close(mr));
}

void cached_op_end_some(void)
{
    unsigned area = (unsigned)property_below(CACHE_AREAS);
    struct model_range range = random_range(area);

    if (property_once_in(6))
        flush();
    else if (range.len)
        invalidate(area, range);
    compare_counters();
}
