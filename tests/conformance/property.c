/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Random sequences of all calls on a loopback domain, beside the model of the manual (model.h):
 * every result, key, counter and byte is compared. An episode is one domain in a random mode, or a
 * group of which that domain is rail 0: what the model says is then asserted of this rail. Cached
 * regions of the same domain or group have a model of their own (cached.c).
 *
 *     HMREG_TEST_SEED=7 HMREG_TEST_OPS=1000000 conformance_property
 *
 * replays a run exactly. Without them: seed 1, 1,000,000 operations.
 */
#include "tests/conformance/property.h"

#define OPS_PER_EPISODE 4000
#define UNUSED_KEY      (UINT64_MAX - 7) /* no region has it */

struct property t;

/* ---- random numbers --------------------------------------------------------------------- */

/* xorshift64*: the same sequence everywhere. */
static uint64_t chance(void)
{
    t.random ^= t.random >> 12;
    t.random ^= t.random << 25;
    t.random ^= t.random >> 27;
    return t.random * 0x2545f4914f6cdd1dull;
}

uint64_t property_below(uint64_t limit)
{
    return (chance() >> 11) % limit;
}

bool property_once_in(unsigned n)
{
    return property_below(n) == 0;
}

void property_compare(const char *call, int slot, const struct verdict *expected, int answer)
{
    if (verdict_allows(expected, answer))
        return;
    fail_msg("seed %lu, operation %lu, mr_mode %#x: %s(%d) = %d (%s), the model says %s%d%s",
             t.seed, t.op, t.model.mr_mode, call, slot, answer,
             answer ? hmreg_last_error()->text : "success", expected->count ? "" : "success ",
             expected->count ? expected->codes[0] : 0, expected->count > 1 ? " or others" : "");
}

/* A region as its domain has it. */
static struct hmreg_mr *rail(int slot)
{
    return hmreg_mr_rail(t.mrs[slot], 0);
}

/* ---- memory ----------------------------------------------------------------------------- */

/* Only resident pages, since reading another would make it resident. */
static void compare_memory(void)
{
    for (size_t i = 0; i < MODEL_PAGES; i++)
        if (t.model.resident[i] &&
            memcmp(t.arena + i * t.model.page, t.shadow + i * t.model.page, t.model.page))
            fail_msg("seed %lu, operation %lu: page %zu differs from the model's", t.seed, t.op, i);
}

static void touch_page(void)
{
    uint64_t page = property_below(MODEL_PAGES);
    char value = (char)chance();

    t.arena[page * t.model.page + 17] = value;
    t.shadow[page * t.model.page + 17] = value;
    t.model.resident[page] = true;
}

static void drop_page(void)
{
    uint64_t page = property_below(MODEL_PAGES);

    madvise(t.arena + page * t.model.page, t.model.page, MADV_DONTNEED);
    memset(t.shadow + page * t.model.page, 0, t.model.page);
    t.model.resident[page] = false;
    cached_changed(page * t.model.page, t.model.page);
}

/* The ranges of one region lie in different parts of the arena, so that they share no page. */
static struct model_range random_range(unsigned part, unsigned parts)
{
    uint64_t room = MODEL_PAGES / parts * t.model.page;
    uint64_t offset = property_below(room);
    uint64_t len =
        property_once_in(40) ? 0 : 1 + property_below(property_once_in(4) ? room - offset : 64);

    if (len > room - offset)
        len = room - offset;
    return (struct model_range){part * room + offset, len};
}

/* ---- registering ------------------------------------------------------------------------ */

static uint64_t random_access(void)
{
    if (property_once_in(40))
        return property_once_in(2) ? 0 : UINT64_C(1) << property_below(64);
    return property_below(64) << 8;
}

static uint64_t random_key(void)
{
    if (t.model.mr_mode & HMREG_MR_PROV_KEY)
        return property_once_in(20) ? 3 : property_once_in(3) ? HMREG_KEY_ANY : 0;
    if (property_once_in(30))
        return HMREG_KEY_ANY;
    if (!property_once_in(30))
        return property_below(20);
    /* One that is too large; or, with more than one byte, the largest that the library chooses only
     * when it has no larger one left, for regions that the model does not contain. */
    if (t.model.max_key <= UINT8_MAX || property_once_in(2))
        return t.model.max_key + 1 + property_below(2);
    return t.model.max_key / 2;
}

static uint64_t random_flags(void)
{
    static const uint64_t some[] = {
        HMREG_RMA_PMEM,   HMREG_HMEM_DEVICE_ONLY, HMREG_HMEM_HOST_ALLOC, HMREG_REG_DMABUF, 1,
        UINT64_C(1) << 61};

    if (property_once_in(20))
        return some[property_below(6)];
    return property_once_in(2) ? HMREG_RMA_EVENT : 0;
}

static int random_slot(bool open)
{
    int start = (int)property_below(MODEL_REGIONS);

    for (int i = 0; i < MODEL_REGIONS; i++)
        if (t.model.regions[(start + i) % MODEL_REGIONS].open == open)
            return (start + i) % MODEL_REGIONS;
    return -1;
}

static struct model_reg random_reg(void)
{
    struct model_reg reg = {
        .access = random_access(),
        .offset = property_once_in(50) ? 1 + property_below(9) : 0,
        .key = random_key(),
        .flags = random_flags(),
    };

    reg.foreign = property_once_in(10) && !(reg.flags & HMREG_REG_DMABUF);

    reg.count = property_once_in(3) ? property_below(t.model.iov_limit + 2) : 1;
    for (size_t i = 0; i < reg.count; i++)
        reg.ranges[i] = random_range(i, reg.count < 2 ? 1 : reg.count);
    return reg;
}

static int call_regsgl(const struct model_reg *reg, const struct iovec *iov, struct hmreg_mr **mr,
                       void *context)
{
    struct hmreg_segment segments[MODEL_RANGES];

    for (size_t i = 0; i < reg->count; i++)
        segments[i] = (struct hmreg_segment){.kind = HMREG_SEGMENT_MEMORY, .u.memory = iov[i]};
    return hmreg_mr_regsgl(t.where, segments, reg->count, reg->access, reg->offset, reg->key,
                           reg->flags, mr, context);
}

/* Registers by any of the calls that can express it. */
static int call_reg(const struct model_reg *reg, struct hmreg_mr **mr, void *context)
{
    struct iovec iov[MODEL_RANGES + 2];
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = iov,
                                 .iov_count = reg->count,
                                 .access = reg->access,
                                 .offset = reg->offset,
                                 .requested_key = reg->key,
                                 .context = context,
                                 .claim_iface = (int)property_below(HMREG_CLAIM_TRUSTED + 1)};

    for (size_t i = 0; i < reg->count; i++)
        iov[i] = (struct iovec){t.arena + reg->ranges[i].offset, reg->ranges[i].len};
    if (reg->foreign) {
        attr.auth_key_size = 7;
        attr.auth_key = (const uint8_t *)"foreign";
        return hmreg_mr_regattr(t.where, &attr, reg->flags, mr);
    }
    /* As many segments as fit one registration: more would make a composite. */
    if (property_once_in(3) && reg->count && reg->count <= t.model.iov_limit)
        return call_regsgl(reg, iov, mr, context);
    if (reg->count == 1 && property_once_in(2))
        return hmreg_mr_reg(t.where, iov[0].iov_base, iov[0].iov_len, reg->access, reg->offset,
                            reg->key, reg->flags, mr, context);
    /* With HMREG_REG_DMABUF the attributes would be in another field. */
    if (property_once_in(2) && !(reg->flags & HMREG_REG_DMABUF))
        return hmreg_mr_regattr(t.where, &attr, reg->flags, mr);
    return hmreg_mr_regv(t.where, iov, reg->count, reg->access, reg->offset, reg->key, reg->flags,
                         mr, context);
}

static void check_new_key(const struct hmreg_mr *mr)
{
    uint64_t key = hmreg_mr_key(mr);

    for (int i = 0; i < MODEL_REGIONS; i++)
        if (t.model.regions[i].open && model_key(&t.model, i) == key && key != HMREG_KEY_NOTAVAIL)
            fail_msg("seed %lu, operation %lu: two regions have key %#lx", t.seed, t.op, key);
}

/* The key that the provider or the library chose, if the region is complete and its key not raw. */
static uint64_t chosen_key(const struct model_reg *reg, const struct hmreg_mr *mr)
{
    bool chosen = (t.model.mr_mode & HMREG_MR_PROV_KEY) || reg->key == HMREG_KEY_ANY;

    return chosen ? hmreg_mr_key(mr) : reg->key;
}

static void op_reg(void)
{
    int slot = random_slot(false);
    struct model_reg reg = random_reg();
    struct verdict expected = model_reg(&t.model, &reg);
    struct hmreg_mr *untouched = (struct hmreg_mr *)&t, *mr = untouched;
    int answer;

    if (slot < 0)
        return;
    answer = call_reg(&reg, &mr, &t.mrs[slot]);
    property_compare("reg", slot, &expected, answer);
    assert_int_equal(mr == untouched, answer != 0);
    if (answer)
        return;
    t.mrs[slot] = mr;
    check_new_key(rail(slot));
    assert_ptr_equal(hmreg_mr_context(mr), &t.mrs[slot]);
    model_reg_done(&t.model, slot, &reg, chosen_key(&reg, rail(slot)));
    assert_true(hmreg_mr_key(rail(slot)) == model_key(&t.model, slot));
}

/* After the close a mapped key belongs to no region. */
static void forget_mapped(int slot)
{
    for (int i = 0; i < MODEL_MAPPED; i++)
        if (t.model.mapped[i] == slot)
            t.model.mapped[i] = MODEL_REGIONS;
}

static void op_close(void)
{
    int slot = random_slot(true);
    struct verdict expected;
    int answer;

    if (slot < 0)
        return;
    expected = model_close(&t.model, slot);
    answer = hmreg_mr_close(t.mrs[slot]);
    property_compare("close", slot, &expected, answer);
    if (answer)
        return;
    model_close_done(&t.model, slot);
    forget_mapped(slot);
}

/* ---- binding, enabling, refreshing ------------------------------------------------------ */

static void op_objects(void)
{
    int i = (int)property_below(MODEL_OBJECTS);

    if (property_once_in(2) && !t.model.ep_open[i]) {
        assert_ok(hmreg_loopback_ep_open(t.domain, &t.eps[i]));
        t.model.ep_open[i] = true;
    } else if (t.model.ep_open[i]) {
        cached_forget_endpoint(i);
        assert_ok(hmreg_loopback_ep_close(t.eps[i]));
        model_unbind_ep(&t.model, i);
    }
    i = (int)property_below(MODEL_OBJECTS);
    if (property_once_in(2) && !t.model.counter_open[i]) {
        assert_ok(hmreg_loopback_counter_open(t.domain, &t.counters[i]));
        t.model.counter_open[i] = true;
        t.model.counts[i] = 0;
    } else if (t.model.counter_open[i]) {
        assert_int_equal(hmreg_loopback_counter_read(t.counters[i]), t.model.counts[i]);
        assert_ok(hmreg_loopback_counter_close(t.counters[i]));
        model_unbind_counter(&t.model, i);
    }
}

static void op_bind(void)
{
    int slot = random_slot(true), i = (int)property_below(MODEL_OBJECTS);
    uint64_t flags = property_once_in(10) ? UINT64_C(1) << property_below(64) : 0;
    struct verdict expected;
    int answer;

    if (slot < 0)
        return;
    if (t.model.ep_open[i] && property_once_in(2)) {
        expected = model_bind_ep(&t.model, slot, flags);
        answer = hmreg_mr_bind(rail(slot), t.eps[i], flags);
        property_compare("bind endpoint", slot, &expected, answer);
        if (!answer)
            t.model.regions[slot].ep = i;
    } else if (t.model.counter_open[i]) {
        flags = flags ? flags : HMREG_REMOTE_WRITE;
        expected = model_bind_counter(&t.model, slot, i, flags);
        answer = hmreg_mr_bind(rail(slot), t.counters[i], flags);
        property_compare("bind counter", slot, &expected, answer);
        if (!answer)
            t.model.regions[slot].counters[i] = true;
    }
}

static void op_enable(void)
{
    int slot = random_slot(true);
    struct verdict expected;
    int answer;

    if (slot < 0)
        return;
    expected = model_enable(&t.model, slot);
    answer = hmreg_mr_enable(rail(slot));
    property_compare("enable", slot, &expected, answer);
    if (!answer)
        t.model.regions[slot].enabled = true;
}

static void op_refresh(void)
{
    int slot = random_slot(true);
    uint64_t flags = property_once_in(20) ? 1 : 0;
    struct model_range part, *some = property_once_in(2) ? &part : NULL;
    struct verdict expected;
    struct iovec iov;
    int answer;

    if (slot < 0)
        return;
    part = random_range(0, 1);
    if (property_once_in(2)) { /* mostly inside */
        part = t.model.regions[slot].ranges[property_below(t.model.regions[slot].count)];
        part.len = 1 + property_below(part.len);
    }
    iov = (struct iovec){t.arena + part.offset, part.len};
    expected = model_refresh(&t.model, slot, some, flags);
    answer = hmreg_mr_refresh(t.mrs[slot], some ? &iov : NULL, some ? 1 : 0, flags);
    property_compare("refresh", slot, &expected, answer);
    if (!answer)
        model_refresh_done(&t.model, slot, some);
}

static void op_event(void)
{
    struct hmreg_loopback_event event = {.size = sizeof(event)};
    struct verdict expected = {.count = 0};
    int answer, slot;

    if (!t.eq)
        return;
    if (!t.model.queued)
        verdict_add(&expected, -EAGAIN);
    answer = hmreg_loopback_eq_read(t.eq, &event, 0);
    property_compare("eq_read", -1, &expected, answer);
    if (answer)
        return;
    slot = t.model.queue[0];
    memmove(t.model.queue, t.model.queue + 1, (size_t)--t.model.queued * sizeof(int));
    assert_ptr_equal(event.mr, t.mrs[slot]);
    assert_ptr_equal(event.context, &t.mrs[slot]);
    t.model.regions[slot].pending = false;
    if ((t.model.mr_mode & HMREG_MR_PROV_KEY) || t.model.regions[slot].key == HMREG_KEY_NOTAVAIL)
        t.model.regions[slot].key = hmreg_mr_key(event.mr);
    assert_true(hmreg_mr_key(event.mr) == model_key(&t.model, slot));
}

/* ---- raw keys --------------------------------------------------------------------------- */

static void map_key_of(int slot, int place)
{
    const struct model_region *region = &t.model.regions[slot];
    struct verdict expected = {.count = 0};
    uint8_t raw[16];
    size_t size = sizeof(raw);
    uint64_t base = 0;
    int answer;

    if (!(region->access & HMREG_ACCESS_REMOTE))
        verdict_add(&expected, -EACCES);
    if (region->pending)
        verdict_add(&expected, -EAGAIN);
    answer = hmreg_mr_raw_attr(rail(slot), &base, raw, &size, 0);
    property_compare("raw_attr", slot, &expected, answer);
    if (answer)
        return;
    assert_int_equal(size, t.model.mr_mode & HMREG_MR_RAW ? 16 : 8);
    assert_true(base == (t.model.mr_mode & HMREG_MR_VIRT_ADDR
                             ? (uint64_t)(uintptr_t)t.arena + region->ranges[0].offset
                             : 0));
    assert_ok(hmreg_domain_map_raw(t.domain, base, raw, size, &t.mapped[place], 0));
    t.model.mapped[place] = slot;
}

/* A token needs a complete region with remote rights. */
static void op_pack(void)
{
    int slot = random_slot(true);
    struct verdict expected = {.count = 0};
    uint8_t token[2048];
    size_t room = property_once_in(3) ? property_below(40) : sizeof(token), size = room;
    int answer;

    if (slot < 0)
        return;
    if (!(t.model.regions[slot].access & HMREG_ACCESS_REMOTE))
        verdict_add(&expected, -EACCES);
    if (t.model.regions[slot].pending)
        verdict_add(&expected, -EAGAIN);
    if (room < sizeof(token))
        verdict_add(&expected, -HMREG_ETOOSMALL);
    answer = hmreg_mr_pack(t.mrs[slot], token, &size);
    property_compare("pack", slot, &expected, answer);
    assert_int_equal(size == room, answer && answer != -HMREG_ETOOSMALL);
}

static void op_map(void)
{
    int slot = random_slot(true), place = (int)property_below(MODEL_MAPPED);

    if (t.model.mapped[place] >= 0) {
        assert_ok(hmreg_domain_unmap_raw(t.domain, t.mapped[place]));
        t.model.mapped[place] = -1;
    } else if (slot >= 0) {
        map_key_of(slot, place);
    }
}

/* ---- RMA -------------------------------------------------------------------------------- */

/* Picks the region whose key is used, and determines the key's form on the wire. */
static uint64_t pick_key(struct model_rma *rma)
{
    bool raw = t.model.mr_mode & HMREG_MR_RAW;
    int place = (int)property_below(MODEL_MAPPED), slot = random_slot(true);

    rma->region = -1;
    if (property_once_in(30))
        return UNUSED_KEY;
    if (raw) {
        if (t.model.mapped[place] < 0)
            return UINT64_MAX - 5;
        rma->raw_mapped = true;
        rma->region = t.model.mapped[place] < MODEL_REGIONS ? t.model.mapped[place] : -1;
        return t.mapped[place];
    }
    if (slot < 0 || !(t.model.regions[slot].access & HMREG_ACCESS_REMOTE) ||
        t.model.regions[slot].key == HMREG_KEY_NOTAVAIL)
        return UNUSED_KEY;
    rma->region = slot;
    return t.model.regions[slot].key;
}

/* Mostly inside the region. */
static void pick_place(struct model_rma *rma)
{
    const struct model_region *region = rma->region >= 0 ? &t.model.regions[rma->region] : NULL;
    uint64_t total = 0, offset;
    size_t index = 0;

    rma->len = 1 + property_below(property_once_in(4) ? 2 * t.model.page : 40);
    rma->addr = property_below(MODEL_PAGES * t.model.page);
    if (!region || property_once_in(8))
        return;
    index = property_below(region->count);
    offset = property_below(region->ranges[index].len);
    for (size_t i = 0; i < index; i++)
        total += region->ranges[i].len;
    if (!property_once_in(6) && rma->len > region->ranges[index].len - offset)
        rma->len = region->ranges[index].len - offset;
    rma->addr =
        offset + (t.model.mr_mode & HMREG_MR_VIRT_ADDR ? region->ranges[index].offset : total);
}

/* Would the RMA's two sides share a byte? Only checked if the target grants it. */
static bool overlaps(const struct model_rma *rma)
{
    struct verdict verdict = model_rma(&t.model, rma);

    if (verdict.count)
        return false;
    for (uint64_t at = 0; at < rma->len; at++)
        if (model_rma_place(&t.model, rma, at) - rma->local.offset < rma->local.len)
            return true;
    return false;
}

/* The local side: outside the arena, or in it, mostly inside the region whose desc is passed. */
static char *pick_local(struct model_rma *rma, void **desc)
{
    const struct model_region *region;
    uint64_t bytes = MODEL_PAGES * t.model.page;

    *desc = NULL;
    rma->desc = property_once_in(3) ? -1 : random_slot(true);
    if (rma->desc < 0)
        return t.outside;
    region = &t.model.regions[rma->desc];
    *desc = hmreg_mr_desc(rail(rma->desc));
    if (!*desc)
        rma->desc = -1;
    rma->local = (struct model_range){region->ranges[0].offset, rma->len};
    if (property_once_in(8))
        rma->local.offset = property_below(bytes);
    if (!property_once_in(3) && rma->len > region->ranges[0].len)
        rma->len = rma->local.len = region->ranges[0].len;
    if (rma->local.len <= bytes - rma->local.offset && !overlaps(rma))
        return t.arena + rma->local.offset;
    rma->local.len = 0;
    return t.outside;
}

static void move(const struct model_rma *rma, const char *source, const char *result)
{
    for (uint64_t at = 0; at < rma->len; at++) {
        uint64_t place = model_rma_place(&t.model, rma, at);

        if (rma->write)
            t.shadow[place] = source[at];
        else if (result[at] != t.shadow[place])
            fail_msg("seed %lu, operation %lu: byte %lu read is wrong", t.seed, t.op, at);
        if (!rma->write && rma->local.len)
            t.shadow[rma->local.offset + at] = t.shadow[place];
    }
}

/* The copy also touches a local side in the arena. */
static void touch_local(const struct model_rma *rma)
{
    for (uint64_t at = 0; at < rma->local.len; at++)
        t.model.resident[(rma->local.offset + at) / t.model.page] = true;
}

static void op_rma(void)
{
    struct model_rma rma = {.write = property_once_in(2)};
    uint64_t key = pick_key(&rma), raddr;
    struct verdict expected;
    const char *source;
    char *local;
    void *desc;
    int answer;

    pick_place(&rma);
    local = pick_local(&rma, &desc);
    for (uint64_t i = 0; i < rma.len; i += 7)
        t.outside[i] = (char)chance();
    source = rma.local.len ? t.shadow + rma.local.offset : local;
    raddr = rma.addr + (t.model.mr_mode & HMREG_MR_VIRT_ADDR ? (uint64_t)(uintptr_t)t.arena : 0);
    expected = model_rma(&t.model, &rma);
    answer = rma.write ? hmreg_loopback_write(t.remote, local, rma.len, desc, raddr, key)
                       : hmreg_loopback_read(t.remote, local, rma.len, desc, raddr, key);
    property_compare(rma.write ? "write" : "read", rma.region, &expected, answer);
    if (answer)
        return;
    move(&rma, source, local);
    touch_local(&rma);
    model_rma_done(&t.model, &rma);
}

/* ---- episodes --------------------------------------------------------------------------- */

static uint32_t random_mode(void)
{
    uint32_t modern = (HMREG_MR_HMEM << 1) - HMREG_MR_LOCAL;

    if (property_once_in(10))
        return property_once_in(2) ? HMREG_MR_BASIC : HMREG_MR_SCALABLE;
    if (property_once_in(4))
        return 0;
    return (uint32_t)(chance() & chance()) & modern;
}

static uint32_t spelled_out(uint32_t mr_mode)
{
    if (mr_mode == HMREG_MR_BASIC)
        return HMREG_MR_VIRT_ADDR | HMREG_MR_ALLOCATED | HMREG_MR_PROV_KEY;
    return mr_mode == HMREG_MR_SCALABLE ? 0 : mr_mode;
}

/* Opens the peer, by the token of a region that the model does not contain. */
static void open_peer(void)
{
    struct hmreg_loopback_ep *ep = NULL;
    uint8_t token[2048];
    size_t size = sizeof(token);

    assert_ok(hmreg_mr_reg(t.domain, t.outside, 1, HMREG_REMOTE_READ, 0,
                           t.model.mr_mode & HMREG_MR_PROV_KEY ? 0 : 77, 0, &t.peers_region, NULL));
    assert_ok(hmreg_mr_pack(t.peers_region, token, &size));
    assert_ok(hmreg_remote_open(t.domain, token, size, &t.remote));
    assert_ok(hmreg_loopback_ep_close(ep));
}

/* A rail beside the domain, which demands no more than that and takes whatever it takes. Gives its
 * mode. */
static uint32_t open_group(const struct hmreg_loopback_config *config,
                           const struct hmreg_domain_config *caching)
{
    struct hmreg_group_config group = {.size = sizeof(group), .domain = caching};
    struct hmreg_loopback_config less = {.size = sizeof(less), .mr_mode = config->mr_mode};
    struct hmreg_domain *members[2];

    if (less.mr_mode != HMREG_MR_BASIC && less.mr_mode != HMREG_MR_SCALABLE)
        less.mr_mode &= (uint32_t)chance();
    assert_ok(hmreg_domain_open_loopback(t.lib, &less, NULL, &t.other));
    members[0] = t.domain;
    members[1] = t.other;
    assert_ok(hmreg_group_open(t.lib, members, 2, &group, &t.group));
    return spelled_out(less.mr_mode);
}

static void begin(void)
{
    struct hmreg_loopback_config config = {
        .size = sizeof(config),
        .mr_mode = random_mode(),
        .key_size = (uint32_t)(property_once_in(2) ? 8 : 1 + property_below(2)),
        .iov_limit = 1 + (uint32_t)property_below(MODEL_RANGES),
    };
    struct hmreg_domain_config caching = cached_config();
    uint32_t other_mode = 0;

    config.max_len = property_once_in(4) ? 3 * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
    t.model = (struct model){
        .mr_mode = spelled_out(config.mr_mode),
        .max_key = config.key_size == 8 ? UINT64_MAX - 1 : (1ull << 8 * config.key_size) - 1,
        .iov_limit = config.iov_limit,
        .max_len = config.max_len ? config.max_len : UINT64_MAX,
        .page = (uint64_t)sysconf(_SC_PAGESIZE),
    };
    if (t.model.mr_mode & HMREG_MR_RAW)
        t.model.max_key = UINT64_MAX - 1; /* the raw key can hold any */
    for (int i = 0; i < MODEL_MAPPED; i++)
        t.model.mapped[i] = -1;
    madvise(t.arena, MODEL_PAGES * t.model.page, MADV_DONTNEED);
    memset(t.shadow, 0, MODEL_PAGES * t.model.page);
    t.cache =
        (struct cache_model){.exact = caching.flags & HMREG_DOMAIN_EXACT, .rights = caching.rights};
    assert_ok(hmreg_domain_open_loopback(t.lib, &config, &caching, &t.domain));
    open_peer();
    if (property_once_in(3))
        other_mode = open_group(&config, &caching);
    t.where = t.group ? t.group : t.domain;
    if (!t.group && property_once_in(3)) {
        assert_ok(hmreg_loopback_eq_open(t.domain, &t.eq));
        assert_ok(hmreg_domain_bind(t.domain, t.eq, HMREG_BIND_REG_MR));
        t.model.async = true;
    }
    cached_begin(other_mode);
}

static void close_objects(void)
{
    for (int i = 0; i < MODEL_OBJECTS; i++) {
        if (t.model.ep_open[i])
            assert_ok(hmreg_loopback_ep_close(t.eps[i]));
        if (t.model.counter_open[i])
            assert_ok(hmreg_loopback_counter_close(t.counters[i]));
    }
}

static void end(void)
{
    struct verdict busy = {.codes = {-EBUSY}, .count = 1};

    compare_memory();
    cached_end();
    property_compare("domain_close", -1, &busy, hmreg_domain_close(t.domain));
    close_objects();
    hmreg_remote_close(t.remote);
    assert_ok(hmreg_mr_close(t.peers_region));
    for (int i = 0; i < MODEL_REGIONS; i++)
        if (t.model.regions[i].open)
            assert_ok(hmreg_mr_close(t.mrs[i]));
    for (int i = 0; i < MODEL_MAPPED; i++)
        if (t.model.mapped[i] >= 0)
            assert_ok(hmreg_domain_unmap_raw(t.domain, t.mapped[i]));
    assert_ok(hmreg_loopback_eq_close(t.eq));
    t.eq = NULL;
    assert_ok(hmreg_domain_close(t.group));
    assert_ok(hmreg_domain_close(t.other));
    t.group = t.other = NULL;
    assert_ok(hmreg_domain_close(t.domain));
}

static void one_op(void)
{
    static void (*const ops[])(void) = {
        op_reg,        op_reg,        op_reg,        op_close,
        op_close,      op_objects,    op_bind,       op_bind,
        op_bind,       op_map,        op_pack,       op_enable,
        op_enable,     op_event,      op_event,      op_refresh,
        op_rma,        op_rma,        op_rma,        op_rma,
        op_rma,        op_rma,        touch_page,    drop_page,
        cached_op_get, cached_op_get, cached_op_get, cached_op_get,
        cached_op_put, cached_op_put, cached_op_reg, cached_op_end_some,
    };

    ops[property_below(sizeof(ops) / sizeof(ops[0]))]();
}

static unsigned long from_environment(const char *name, unsigned long otherwise)
{
    const char *value = getenv(name);

    return value ? strtoul(value, NULL, 0) : otherwise;
}

TEST(random_sequences__answer_as_the_model_of_the_manual)
{
    unsigned long ops = from_environment("HMREG_TEST_OPS", test_times(10000000));
    size_t bytes = MODEL_PAGES * (size_t)sysconf(_SC_PAGESIZE);
    struct hmreg_config config = {.size = sizeof(config),
                                  .monitor = HMREG_MONITOR_IMPORT,
                                  .ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM) |
                                            HMREG_IFACE_BIT(HMREG_IFACE_CUDA)};

    t.seed = from_environment("HMREG_TEST_SEED", 1);
    t.random = t.seed * 0x9e3779b97f4a7c15ull + 1;
    t.arena = test_map(bytes);
    madvise(t.arena, bytes, MADV_NOHUGEPAGE);
    t.shadow = calloc(1, bytes);
    t.outside = calloc(1, bytes);
    cached_open();
    assert_ok(hmreg_open(&config, &t.lib));
    for (t.op = 0; t.op < ops; t.op++) {
        if (t.op % OPS_PER_EPISODE == 0) {
            if (t.op)
                end();
            begin();
        }
        one_op();
        if (t.op % 64 == 0)
            compare_memory();
    }
    end();
    assert_ok(hmreg_close(t.lib));
    cached_close(ops);
    munmap(t.arena, bytes);
    free(t.shadow);
    free(t.outside);
    print_message("seed %lu: %lu operations, no difference\n", t.seed, ops);
}

TEST_MAIN()
