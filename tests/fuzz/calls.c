/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Calls every public function with random arguments. An output that receives an object is a local
 * variable, put into a slot on success; the slot's old object is closed first.
 */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <hmreg/plan.h>
#include <string.h>
#include <unistd.h>

#define SLOT        fuzz_below(fuzz, FUZZ_SLOTS)
#define PICK(slots) ((slots)[fuzz_rarely(fuzz) ? 0 : SLOT])

/* Calls, and checks that out is unchanged unless the call succeeded. */
#define CALL(call, out)                                                                            \
    ({                                                                                             \
        __typeof__(*(out)) before_;                                                                \
        memcpy(&before_, (out), sizeof(before_));                                                  \
        int rc_ = (call);                                                                          \
        fuzz_check(fuzz, #call, rc_, (out), &before_, sizeof(before_));                            \
    })
#define PLAIN(call) fuzz_check(fuzz, #call, (call), NULL, NULL, 0)

/* A struct with room behind it, as an output or input of any stated size. */
#define STRUCT(type, name)                                                                         \
    union {                                                                                        \
        struct type it;                                                                            \
        uint8_t bytes[FUZZ_BYTES];                                                                 \
    } name;                                                                                        \
    memset(&name, 0, sizeof(name));                                                                \
    name.it.size = fuzz_size(fuzz, sizeof(name.it))

/* ---- calls that empty a slot ------------------------------------------------------------- */

static void end_region(struct fuzz *fuzz, unsigned slot)
{
    if (PLAIN(hmreg_mr_close(fuzz->regions[slot])) != -EBUSY)
        fuzz->regions[slot] = NULL;
}

static void end_gotten(struct fuzz *fuzz, unsigned slot)
{
    hmreg_mr_put(fuzz->gotten[slot]);
    fuzz->gotten[slot] = NULL;
}

static void end_remote(struct fuzz *fuzz, unsigned slot)
{
    hmreg_remote_close(fuzz->remotes[slot]);
    fuzz->remotes[slot] = NULL;
}

static void end_objects(struct fuzz *fuzz, unsigned slot)
{
    PLAIN(hmreg_loopback_ep_close(fuzz->eps[slot]));
    PLAIN(hmreg_loopback_counter_close(fuzz->counters[slot]));
    fuzz->eps[slot] = NULL;
    fuzz->counters[slot] = NULL;
}

/* Memory must outlive its regions: else peers would write to what is there afterwards. */
static void end_memory(struct fuzz *fuzz, unsigned slot)
{
    for (unsigned i = 0; i < FUZZ_SLOTS; i++)
        if (fuzz->regions[i] || fuzz->gotten[i])
            return;
    if (PLAIN(hmreg_mem_free(fuzz->lib, fuzz->memory[slot])) == 0)
        fuzz->memory[slot] = NULL;
}

static void end_domain(struct fuzz *fuzz, unsigned slot)
{
    if (PLAIN(hmreg_domain_close(fuzz->domains[slot])) == 0)
        fuzz->domains[slot] = NULL;
}

static void end_anything(struct fuzz *fuzz)
{
    static void (*const ends[])(struct fuzz *, unsigned) = {end_region,  end_gotten, end_remote,
                                                            end_objects, end_memory, end_domain};

    ends[fuzz_below(fuzz, sizeof(ends) / sizeof(ends[0]))](fuzz, SLOT);
}

void fuzz_end(struct fuzz *fuzz)
{
    for (unsigned i = 0; i < FUZZ_SLOTS; i++)
        end_objects(fuzz, i);
    for (unsigned i = 0; i < FUZZ_SLOTS; i++) {
        end_region(fuzz, i);
        end_gotten(fuzz, i);
        end_remote(fuzz, i);
    }
    for (unsigned i = 0; i < FUZZ_SLOTS; i++) /* the groups, and what is in none */
        end_domain(fuzz, i);
    for (unsigned i = 0; i < FUZZ_SLOTS; i++) {
        end_domain(fuzz, i);
        end_memory(fuzz, i);
        MUST(!fuzz->regions[i]);
        MUST(!fuzz->domains[i]);
        MUST(!fuzz->memory[i]);
    }
}

/* ---- the library and its devices ---------------------------------------------------------- */

static void call_queries(struct fuzz *fuzz)
{
    STRUCT(hmreg_runtime_info, runtime);
    STRUCT(hmreg_device_info, device);
    STRUCT(hmreg_monitor_info, monitor);
    enum hmreg_iface iface = (enum hmreg_iface)fuzz_small(fuzz);

    CALL(hmreg_monitor_query(fuzz->lib, &monitor.it), &monitor);
    CALL(hmreg_runtime_query(fuzz->lib, iface, &runtime.it), &runtime);
    CALL(hmreg_device_query(fuzz->lib, iface, fuzz_small(fuzz), &device.it), &device);
}

static void call_names(struct fuzz *fuzz)
{
    int value = fuzz_small(fuzz);

    MUST(hmreg_iface_name((enum hmreg_iface)value));
    MUST(hmreg_mem_kind_name((enum hmreg_mem_kind)value));
    MUST(hmreg_path_name((enum hmreg_path)value));
    MUST(hmreg_monitor_name((enum hmreg_monitor)value));
    MUST(hmreg_strerror((int)fuzz_random(fuzz)));
}

static void check_line(enum hmreg_log_level level, const char *text, void *context)
{
    struct fuzz *fuzz = context;

    MUST(text[0] && level >= HMREG_LOG_ERROR && level <= HMREG_LOG_DEBUG);
}

static void call_open(struct fuzz *fuzz)
{
    STRUCT(hmreg_config, config);
    struct hmreg *lib = NULL;

    config.it.ifaces = HMREG_IFACE_BIT(HMREG_IFACE_SYSTEM) | (fuzz_rarely(fuzz) ? 1u << 31 : 0);
    config.it.monitor = (enum hmreg_monitor)fuzz_small(fuzz);
    config.bytes[fuzz_below(fuzz, FUZZ_BYTES)] |= fuzz_rarely(fuzz);
    config.it.log = fuzz_rarely(fuzz) ? check_line : NULL;
    config.it.log_context = fuzz;
    if (CALL(hmreg_open(fuzz_rarely(fuzz) ? NULL : &config.it, &lib), &lib) == 0)
        PLAIN(hmreg_close(lib));
    PLAIN(hmreg_close(fuzz->domains[0] ? fuzz->lib : NULL));
}

/* ---- memory -------------------------------------------------------------------------------- */

static void call_query(struct fuzz *fuzz)
{
    STRUCT(hmreg_mem_info, info);
    const void *addr = fuzz_anywhere(fuzz);
    size_t len = fuzz_length(fuzz);
    int rc = CALL(hmreg_query(fuzz->lib, addr, len, &info.it), &info);
    uint64_t at = (uintptr_t)addr;

    if (rc)
        return;
    MUST((unsigned)info.it.iface < HMREG_IFACE_COUNT);
    MUST(info.it.segments >= 1);
    MUST(info.it.alloc_base <= at && at + len <= info.it.alloc_base + info.it.alloc_len);
    MUST(!(info.it.flags & HMREG_MEM_CPU_ACCESS) == !info.it.host_addr);
    if (info.it.iface == HMREG_IFACE_SYSTEM)
        MUST(info.it.device == -1);
}

static void call_export(struct fuzz *fuzz)
{
    struct hmreg_dmabuf dmabuf = {.fd = -1};
    size_t len = fuzz_length(fuzz);

    if (CALL(hmreg_export_dmabuf(fuzz->lib, fuzz_anywhere(fuzz), len, fuzz_bits(fuzz, 0), &dmabuf),
             &dmabuf))
        return;
    MUST(dmabuf.length == len);
    MUST(fcntl(dmabuf.fd, F_GETFD) == FD_CLOEXEC);
    close(dmabuf.fd);
}

static void call_copy(struct fuzz *fuzz)
{
    PLAIN(hmreg_copy(fuzz->lib, fuzz_target(fuzz), fuzz_target(fuzz), fuzz_length(fuzz)));
}

/* Heap memory is freed at once: stray writes next to it would hit other data. */
static void call_alloc(struct fuzz *fuzz)
{
    unsigned slot = SLOT;
    void *memory = fuzz->memory[slot];
    enum hmreg_iface iface = (enum hmreg_iface)fuzz_small(fuzz);

    if (memory)
        return;
    CALL(hmreg_mem_alloc(fuzz->lib, iface, fuzz_small(fuzz), (enum hmreg_mem_kind)fuzz_small(fuzz),
                         fuzz_rarely(fuzz) ? 0 : 1 + fuzz_below(fuzz, 64 << 10), &memory),
         &memory);
    fuzz->memory[slot] = memory;
    if (memory && iface == HMREG_IFACE_SYSTEM)
        end_memory(fuzz, slot);
}

/* Rarely memory from mem_alloc. */
static void call_free(struct fuzz *fuzz)
{
    void *addr = fuzz_anywhere(fuzz);

    for (unsigned i = 0; i < FUZZ_SLOTS; i++)
        if (fuzz->memory[i] == addr)
            return;
    MUST(PLAIN(hmreg_mem_free(fuzz->lib, addr)) == (addr ? -EINVAL : 0));
}

static void call_invalidate(struct fuzz *fuzz)
{
    PLAIN(hmreg_invalidate(fuzz->lib, fuzz_anywhere(fuzz), fuzz_length(fuzz)));
}

/* ---- domains ------------------------------------------------------------------------------- */

static void call_domain_open(struct fuzz *fuzz)
{
    STRUCT(hmreg_loopback_config, loopback);
    STRUCT(hmreg_domain_config, config);
    static const uint8_t secret[64] = "of the domain";
    unsigned slot = SLOT;
    struct hmreg_domain *domain = fuzz->domains[slot];

    if (domain)
        return;
    loopback.it.mr_mode = fuzz_below(fuzz, 4) ? (uint32_t)fuzz_bits(fuzz, 0x7fc) : 0;
    loopback.it.key_size = fuzz_below(fuzz, 10);
    loopback.it.iov_limit = fuzz_below(fuzz, 70);
    loopback.it.max_len = fuzz_rarely(fuzz) ? fuzz_length(fuzz) : 0;
    loopback.it.auth_key_size = fuzz_rarely(fuzz) ? fuzz_below(fuzz, 70) : 0;
    loopback.it.auth_key = loopback.it.auth_key_size <= 64 ? secret : NULL;
    config.it.flags = (uint32_t)fuzz_bits(fuzz, HMREG_DOMAIN_EXACT | HMREG_DOMAIN_NO_CACHE);
    for (int i = 0; i < HMREG_PATH_COUNT - 1 && fuzz_rarely(fuzz); i++)
        config.it.order[i] = (enum hmreg_path)fuzz_small(fuzz);
    config.it.max_regions = fuzz_below(fuzz, 6);
    config.it.max_bytes = fuzz_below(fuzz, 4) ? 0 : fuzz_length(fuzz);
    CALL(hmreg_domain_open_loopback(fuzz_rarely(fuzz) ? NULL : fuzz->lib, &loopback.it, &config.it,
                                    &domain),
         &domain);
    fuzz->domains[slot] = domain;
}

static void call_group_open(struct fuzz *fuzz)
{
    STRUCT(hmreg_group_config, config);
    STRUCT(hmreg_domain_config, domain);
    struct hmreg_domain *members[4];
    unsigned slot = SLOT;
    struct hmreg_domain *group = fuzz->domains[slot];

    if (group)
        return;
    for (int i = 0; i < 4; i++)
        members[i] = PICK(fuzz->domains);
    config.it.flags = (uint32_t)fuzz_bits(fuzz, HMREG_GROUP_PARTIAL);
    domain.it.flags = (uint32_t)fuzz_bits(fuzz, HMREG_DOMAIN_EXACT | HMREG_DOMAIN_NO_CACHE);
    domain.it.order[0] = fuzz_rarely(fuzz) ? HMREG_PATH_DMABUF : HMREG_PATH_NONE;
    config.it.domain = fuzz_below(fuzz, 2) ? &domain.it : NULL;
    CALL(hmreg_group_open(fuzz_rarely(fuzz) ? NULL : fuzz->lib, members, fuzz_below(fuzz, 4),
                          fuzz_below(fuzz, 2) ? &config.it : NULL, &group),
         &group);
    fuzz->domains[slot] = group;
    if (group)
        MUST(hmreg_group_member(group, 0) == members[0]);
}

/* The results are plausible, whatever was called before. */
static int look_at_entry(const struct hmreg_entry_info *entry, void *context)
{
    struct fuzz *fuzz = context;

    MUST((unsigned)entry->iface < HMREG_IFACE_COUNT && entry->device >= -1);
    MUST((unsigned)entry->state <= HMREG_ENTRY_ENDED);
    MUST((unsigned)entry->path < HMREG_PATH_COUNT);
    MUST(entry->len && entry->access && !(entry->access & ~HMREG_ACCESS_ALL));
    return 0;
}

static void call_domain_queries(struct fuzz *fuzz)
{
    STRUCT(hmreg_domain_info, info);
    STRUCT(hmreg_stats, stats);
    STRUCT(hmreg_explanation, explanation);
    STRUCT(hmreg_plan, plan);
    struct hmreg_domain *domain = PICK(fuzz->domains);

    CALL(hmreg_domain_query(domain, &info.it), &info);
    CALL(hmreg_domain_stats(domain, &stats.it), &stats);
    CALL(hmreg_cache_stats(domain, (enum hmreg_iface)fuzz_small(fuzz), fuzz_small(fuzz), &stats.it),
         &stats);
    PLAIN(hmreg_domain_dump(domain, look_at_entry, fuzz));
    CALL(hmreg_domain_explain(domain, (enum hmreg_iface)fuzz_small(fuzz), fuzz_small(fuzz),
                              &explanation.it),
         &explanation);
    CALL(hmreg_domain_plan(domain, (enum hmreg_iface)fuzz_small(fuzz), fuzz_small(fuzz),
                           fuzz_random(fuzz), &plan.it),
         &plan);
    if (fuzz_rarely(fuzz))
        PLAIN(hmreg_domain_flush(domain));
}

/* ---- registering ---------------------------------------------------------------------------- */

static uint64_t any_key(struct fuzz *fuzz)
{
    return fuzz_rarely(fuzz) ? fuzz_random(fuzz) : fuzz_below(fuzz, 200);
}

static uint64_t any_access(struct fuzz *fuzz)
{
    return fuzz_bits(fuzz, HMREG_ACCESS_ALL);
}

static uint64_t any_flags(struct fuzz *fuzz)
{
    return fuzz_below(fuzz, 4) ? 0
                               : fuzz_bits(fuzz, HMREG_HMEM_HOST_ALLOC | HMREG_HMEM_DEVICE_ONLY |
                                                     HMREG_RMA_PMEM | HMREG_RMA_EVENT);
}

static uint64_t any_offset(struct fuzz *fuzz)
{
    return fuzz_rarely(fuzz) ? fuzz_random(fuzz) : 0;
}

static size_t any_ranges(struct fuzz *fuzz, struct iovec *iov, size_t room)
{
    for (size_t i = 0; i < room; i++)
        iov[i] = (struct iovec){fuzz_target(fuzz), fuzz_length(fuzz)};
    return fuzz_below(fuzz, (unsigned)room + 1);
}

static void call_reg(struct fuzz *fuzz)
{
    unsigned slot = SLOT;
    struct hmreg_mr *mr = fuzz->regions[slot];
    struct iovec iov[4];
    size_t count = any_ranges(fuzz, iov, 4);

    if (mr)
        return;
    if (fuzz_below(fuzz, 2))
        CALL(hmreg_mr_reg(PICK(fuzz->domains), iov[0].iov_base, iov[0].iov_len, any_access(fuzz),
                          any_offset(fuzz), any_key(fuzz), any_flags(fuzz), &mr, fuzz),
             &mr);
    else
        CALL(hmreg_mr_regv(PICK(fuzz->domains), iov, count, any_access(fuzz), any_offset(fuzz),
                           any_key(fuzz), any_flags(fuzz), &mr, fuzz),
             &mr);
    fuzz->regions[slot] = mr;
}

/* A descriptor of device memory, of another file, or an invalid one. */
static int any_descriptor(struct fuzz *fuzz)
{
    struct hmreg_dmabuf dmabuf = {.fd = -1};
    void *memory = fuzz->memory[SLOT];

    if (memory && hmreg_export_dmabuf(fuzz->lib, memory, 1, 0, &dmabuf) == 0)
        return dmabuf.fd;
    return fuzz_below(fuzz, 2) ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;
}

static struct hmreg_mr_dmabuf any_dmabuf(struct fuzz *fuzz)
{
    return (struct hmreg_mr_dmabuf){
        .fd = any_descriptor(fuzz),
        .offset = fuzz_rarely(fuzz) ? fuzz_random(fuzz) : fuzz_below(fuzz, 5000),
        .len = fuzz_length(fuzz),
        .base_addr = fuzz_below(fuzz, 2) ? NULL : fuzz_anywhere(fuzz),
    };
}

/* Registers, or gets. */
static void call_with_attr(struct fuzz *fuzz, bool get)
{
    STRUCT(hmreg_mr_attr, attr);
    struct hmreg_mr_dmabuf dmabuf = any_dmabuf(fuzz);
    bool by_dmabuf = fuzz_below(fuzz, 3) == 0;
    static const uint8_t secret[64] = "of the region";
    unsigned slot = SLOT;
    struct hmreg_mr **place = get ? &fuzz->gotten[slot] : &fuzz->regions[slot], *mr = *place;
    struct iovec iov[4];

    if (!mr) {
        attr.it.iov = iov;
        attr.it.iov_count = any_ranges(fuzz, iov, get && !fuzz_rarely(fuzz) ? 1 : 4);
        if (by_dmabuf && !fuzz_rarely(fuzz))
            attr.it.iov = NULL, attr.it.iov_count = 0;
        attr.it.dmabuf = by_dmabuf ? &dmabuf : NULL;
        attr.it.access = any_access(fuzz);
        attr.it.offset = any_offset(fuzz);
        attr.it.requested_key = get && !fuzz_rarely(fuzz) ? 0 : any_key(fuzz);
        attr.it.auth_key_size = fuzz_rarely(fuzz) ? fuzz_below(fuzz, 64) : 0;
        attr.it.auth_key = secret;
        attr.it.claim_iface = fuzz_below(fuzz, 4) == 0 ? 1 + (int)fuzz_below(fuzz, 3) : 0;
        attr.it.claim_kind = fuzz_rarely(fuzz) ? (enum hmreg_mem_kind)fuzz_small(fuzz) : 0;
        attr.it.claim_base = fuzz_rarely(fuzz) ? (uintptr_t)fuzz_anywhere(fuzz) : 0;
        attr.it.claim_len = fuzz_rarely(fuzz) ? fuzz_length(fuzz) : 0;
        attr.it.iface = (enum hmreg_iface)fuzz_small(fuzz);
        attr.it.device = fuzz_small(fuzz);
        attr.it.page_size = fuzz_rarely(fuzz) ? fuzz_below(fuzz, 9) : 0;
        attr.it.rails = fuzz_rarely(fuzz) ? fuzz_below(fuzz, 8) : 0;
        CALL((get ? hmreg_mr_get_attr
                  : hmreg_mr_regattr)(PICK(fuzz->domains), &attr.it,
                                      any_flags(fuzz) | (by_dmabuf ? HMREG_MR_DMABUF : 0), &mr),
             &mr);
        *place = mr;
    }
    if (dmabuf.fd >= 0)
        close(dmabuf.fd);
}

static void call_regattr(struct fuzz *fuzz)
{
    call_with_attr(fuzz, false);
}

static void call_get_attr(struct fuzz *fuzz)
{
    call_with_attr(fuzz, true);
}

static void call_regsgl(struct fuzz *fuzz)
{
    struct hmreg_segment segments[4];
    int descriptors[4];
    unsigned slot = SLOT;
    struct hmreg_mr *mr = fuzz->regions[slot];

    for (int i = 0; i < 4; i++) {
        struct hmreg_mr_dmabuf dmabuf = any_dmabuf(fuzz);
        bool by_dmabuf = fuzz_below(fuzz, 3) == 0;

        descriptors[i] = dmabuf.fd;
        segments[i].kind = fuzz_rarely(fuzz) ? (uint32_t)fuzz_random(fuzz) : by_dmabuf;
        segments[i].u.dmabuf = dmabuf;
        if (!by_dmabuf)
            segments[i].u.memory = (struct iovec){fuzz_target(fuzz), fuzz_length(fuzz)};
    }
    if (!mr)
        CALL(hmreg_mr_regsgl(PICK(fuzz->domains), segments, fuzz_below(fuzz, 5), any_access(fuzz),
                             any_offset(fuzz), any_key(fuzz), any_flags(fuzz), &mr, fuzz),
             &mr);
    fuzz->regions[slot] = mr;
    for (int i = 0; i < 4; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
}

static void call_get(struct fuzz *fuzz)
{
    unsigned slot = SLOT;
    struct hmreg_mr *mr = fuzz->gotten[slot];

    if (mr)
        return;
    CALL(hmreg_mr_get(PICK(fuzz->domains), fuzz_target(fuzz), fuzz_length(fuzz), any_access(fuzz),
                      &mr),
         &mr);
    fuzz->gotten[slot] = mr;
}

/* ---- regions -------------------------------------------------------------------------------- */

static struct hmreg_mr *any_region(struct fuzz *fuzz)
{
    return fuzz_below(fuzz, 2) ? PICK(fuzz->regions) : PICK(fuzz->gotten);
}

static void call_mr_queries(struct fuzz *fuzz)
{
    STRUCT(hmreg_mr_info, info);
    STRUCT(hmreg_segment_info, segment);
    STRUCT(hmreg_explanation, explanation);
    struct hmreg_mr *mr = any_region(fuzz);

    CALL(hmreg_mr_query(mr, &info.it), &info);
    CALL(hmreg_mr_segment(mr, fuzz_below(fuzz, 6), &segment.it), &segment);
    CALL(hmreg_explain(mr, &explanation.it), &explanation);
    MUST(!hmreg_mr_native(mr));
    hmreg_mr_key(mr);
    hmreg_mr_desc(mr);
    hmreg_mr_lkey(mr);
    hmreg_mr_rkey(mr);
    hmreg_mr_context(mr);
}

static void call_mr_state(struct fuzz *fuzz)
{
    struct iovec iov[2];
    size_t count = any_ranges(fuzz, iov, 2);
    void *const objects[] = {PICK(fuzz->eps), PICK(fuzz->counters)};

    PLAIN(hmreg_mr_bind(any_region(fuzz), objects[fuzz_below(fuzz, 2)],
                        fuzz_bits(fuzz, HMREG_REMOTE_WRITE)));
    PLAIN(hmreg_mr_enable(any_region(fuzz)));
    PLAIN(hmreg_mr_refresh(any_region(fuzz), count ? iov : NULL, count, fuzz_bits(fuzz, 0)));
}

/* A rail is a region in all but its end. */
static void call_rail(struct fuzz *fuzz)
{
    STRUCT(hmreg_mr_info, info);
    struct hmreg_mr *mr = any_region(fuzz), *rail = hmreg_mr_rail(mr, fuzz_below(fuzz, 4));

    MUST(hmreg_group_member(PICK(fuzz->domains), fuzz_below(fuzz, 4)) || hmreg_last_error()->code);
    if (!rail || rail == mr)
        return;
    CALL(hmreg_mr_query(rail, &info.it), &info);
    PLAIN(hmreg_mr_bind(rail, PICK(fuzz->eps), 0));
    PLAIN(hmreg_mr_enable(rail));
    PLAIN(hmreg_mr_refresh(rail, NULL, 0, 0));
    MUST(PLAIN(hmreg_mr_close(rail)) == -EINVAL);
    hmreg_mr_put(rail);
}

static void call_objects(struct fuzz *fuzz)
{
    unsigned slot = SLOT;
    struct hmreg_loopback_ep *ep = fuzz->eps[slot];
    struct hmreg_loopback_counter *counter = fuzz->counters[slot];

    if (ep || counter)
        return;
    CALL(hmreg_loopback_ep_open(PICK(fuzz->domains), &ep), &ep);
    CALL(hmreg_loopback_counter_open(PICK(fuzz->domains), &counter), &counter);
    fuzz->eps[slot] = ep;
    fuzz->counters[slot] = counter;
}

/* Calls that do not apply to the region: each must be refused or ignored. */
static void call_wrong_end(struct fuzz *fuzz)
{
    struct hmreg_mr *gotten = PICK(fuzz->gotten);

    if (gotten)
        MUST(PLAIN(hmreg_mr_close(gotten)) == -EINVAL);
    hmreg_mr_put(PICK(fuzz->regions));
}

/* ---- peers ---------------------------------------------------------------------------------- */

static void call_raw(struct fuzz *fuzz)
{
    uint8_t raw[64] = {0};
    uint64_t base = 0, key = 0;
    size_t size = fuzz_below(fuzz, sizeof(raw) + 1);
    struct hmreg_domain *domain = PICK(fuzz->domains);
    int rc = PLAIN(hmreg_mr_raw_attr(any_region(fuzz), &base, raw, &size, fuzz_bits(fuzz, 0)));

    if (rc)
        size = fuzz_below(fuzz, sizeof(raw) + 1);
    if (fuzz_rarely(fuzz))
        raw[fuzz_below(fuzz, sizeof(raw))] ^= 1;
    if (CALL(hmreg_mr_map_raw(domain, base, raw, size, &key, fuzz_bits(fuzz, 0)), &key) == 0)
        MUST(PLAIN(hmreg_mr_unmap_key(domain, key)) == 0);
    PLAIN(hmreg_mr_unmap_key(domain, any_key(fuzz)));
}

/* A region's token, one of a part of it, or several tokens. */
static int pack_any(struct fuzz *fuzz, uint8_t *token, size_t *size)
{
    struct hmreg_mr *mrs[3] = {any_region(fuzz), any_region(fuzz), any_region(fuzz)};
    struct hmreg_mr_info info = {.size = sizeof(info)};
    const char *addr = fuzz_target(fuzz);

    switch (fuzz_below(fuzz, 3)) {
    case 0:
        if (mrs[0] && !fuzz_rarely(fuzz) && !PLAIN(hmreg_mr_query(mrs[0], &info)))
            addr = (const char *)(uintptr_t)(info.addr + fuzz_below(fuzz, 64));
        return hmreg_mr_pack_range(mrs[0], addr, fuzz_length(fuzz), token, size);
    case 1:
        return hmreg_mr_pack_many(mrs, fuzz_below(fuzz, 4), token, size);
    default:
        return hmreg_mr_pack(mrs[0], token, size);
    }
}

static void call_pack(struct fuzz *fuzz)
{
    uint8_t token[sizeof(fuzz->token)];
    size_t size = fuzz_rarely(fuzz) ? fuzz_below(fuzz, 300) : sizeof(token);

    if (PLAIN(pack_any(fuzz, token, &size)))
        return;
    MUST(size <= sizeof(token));
    memcpy(fuzz->token, token, size);
    fuzz->token_size = size;
}

/* CRC-32 (IEEE 802.3), bit by bit: repairs a damaged token's checksum. */
static void mend(uint8_t *token, size_t size)
{
    uint32_t crc = ~0u;

    for (size_t i = 0; i < size - 4; i++) {
        crc ^= token[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    }
    for (int i = 0; i < 4; i++)
        token[size - 4 + (size_t)i] = (uint8_t)(~crc >> (8 * i));
}

/* The same for each of the tokens that follow each other, as far as their headers make sense. */
static void mend_all(uint8_t *tokens, size_t size)
{
    size_t length;

    for (; size >= 44; tokens += length, size -= length) {
        length = 40 + 24 * (size_t)(tokens[6] | tokens[7] << 8) +
                 (size_t)(tokens[12] | tokens[13] << 8) + (size_t)(tokens[14] | tokens[15] << 8) +
                 (tokens[4] == 2 ? 8 : 0) + 4;
        if (length > size)
            length = size;
        mend(tokens, length);
    }
}

/* Damaged tokens, alone or one after the other, of which all are opened or none. */
static void call_remote_open_many(struct fuzz *fuzz)
{
    struct hmreg_remote *remotes[6] = {NULL};
    uint8_t tokens[2 * FUZZ_BYTES];
    size_t once = fuzz->token_size, size = once * (1 + fuzz_below(fuzz, 2));
    size_t room = fuzz_rarely(fuzz) ? fuzz_below(fuzz, 7) : 6, count = room;

    if (once < 8)
        return;
    memcpy(tokens, fuzz->token, once);
    memcpy(tokens + once, fuzz->token, once);
    for (int i = 0; i < 3 && fuzz_below(fuzz, 2); i++)
        tokens[fuzz_below(fuzz, (unsigned)size)] = (uint8_t)fuzz_random(fuzz);
    mend_all(tokens, size);
    if (fuzz_rarely(fuzz))
        size = fuzz_below(fuzz, (unsigned)size + 1);
    if (CALL(hmreg_remote_open_many(PICK(fuzz->domains), tokens, size, remotes, &count), &remotes))
        return;
    MUST(count && count <= room);
    while (count) {
        MUST(remotes[--count]);
        hmreg_remote_close(remotes[count]);
    }
}

static void call_remote_open(struct fuzz *fuzz)
{
    uint8_t token[FUZZ_BYTES] = {0};
    size_t size = fuzz->token_size;
    unsigned slot = SLOT;
    struct hmreg_remote *remote = fuzz->remotes[slot];

    if (remote || size < 8)
        return;
    memcpy(token, fuzz->token, size);
    for (int i = 0; i < 3 && fuzz_below(fuzz, 2); i++)
        token[fuzz_below(fuzz, (unsigned)size - 4)] = (uint8_t)fuzz_random(fuzz);
    mend(token, size);
    CALL(hmreg_remote_open(PICK(fuzz->domains), token, fuzz_size(fuzz, size), &remote), &remote);
    fuzz->remotes[slot] = remote;
}

/* Damages the token of one rail, with checksums that say otherwise. */
static void damage_rail(struct fuzz *fuzz, uint8_t *token, size_t size)
{
    const void *found = NULL;
    size_t bytes = 0;

    if (PLAIN(hmreg_token_rail(token, size, fuzz_below(fuzz, 4), &found, &bytes)) || bytes < 8)
        return;
    MUST((const uint8_t *)found >= token && (const uint8_t *)found + bytes <= token + size);
    ((uint8_t *)(uintptr_t)found)[fuzz_below(fuzz, (unsigned)bytes - 4)] ^= 1;
    mend((uint8_t *)(uintptr_t)found, bytes);
    mend(token, size);
}

static void call_remote_open_rails(struct fuzz *fuzz)
{
    struct hmreg_domain *domain = PICK(fuzz->domains);
    struct hmreg_remote *remotes[HMREG_GROUP_MAX] = {NULL};
    uint8_t token[FUZZ_BYTES] = {0};
    size_t size = fuzz->token_size, count = hmreg_group_count(domain);

    if (size < 8)
        return;
    memcpy(token, fuzz->token, size);
    if (fuzz_below(fuzz, 2))
        damage_rail(fuzz, token, size);
    if (fuzz_rarely(fuzz))
        token[fuzz_below(fuzz, (unsigned)size)] ^= 1;
    CALL(hmreg_remote_open_rails(domain, token, fuzz_size(fuzz, size), remotes,
                                 fuzz_rarely(fuzz) ? count + 1 : count),
         &remotes);
    for (size_t i = 0; i < count; i++)
        hmreg_remote_close(remotes[i]);
}

static void call_rma(struct fuzz *fuzz)
{
    STRUCT(hmreg_remote_info, info);
    struct hmreg_remote *remote = PICK(fuzz->remotes);
    struct hmreg_remote_flat flat = {0};
    uint64_t addr = fuzz_random(fuzz), key = any_key(fuzz);
    size_t len = fuzz_length(fuzz);
    void *desc = fuzz_below(fuzz, 2) ? hmreg_mr_desc(any_region(fuzz))
                                     : (void *)(uintptr_t)(fuzz_rarely(fuzz) ? addr : 0);

    CALL(hmreg_remote_query(remote, &info.it), &info);
    CALL(hmreg_remote_flatten(remote, &flat), &flat);
    hmreg_remote_flat_addr(&flat, addr, len, &addr, &key);
    if (fuzz_below(fuzz, 4))
        PLAIN(hmreg_remote_addr(remote, fuzz_below(fuzz, 2) ? 0 : fuzz_below(fuzz, 9000), len,
                                &addr, &key));
    if (fuzz_below(fuzz, 2))
        PLAIN(hmreg_loopback_write(remote, fuzz_target(fuzz), len, desc, addr, key));
    else
        PLAIN(hmreg_loopback_read(remote, fuzz_target(fuzz), len, desc, addr, key));
}

/* ---- all ------------------------------------------------------------------------------------ */

void fuzz_call(struct fuzz *fuzz)
{
    static void (*const calls[])(struct fuzz *) = {
        end_anything,
        call_queries,
        call_names,
        call_open,
        call_query,
        call_export,
        call_copy,
        call_alloc,
        call_free,
        call_invalidate,
        call_domain_open,
        call_reg,
        call_domain_queries,
        call_regattr,
        call_regsgl,
        call_get,
        call_get_attr,
        call_mr_queries,
        call_mr_state,
        call_objects,
        call_wrong_end,
        call_raw,
        call_pack,
        call_remote_open,
        call_rma,
        call_reg,
        call_get,
        call_remote_open_many,
        call_group_open,
        call_rail,
        call_remote_open_rails,
    };

    calls[fuzz_below(fuzz, sizeof(calls) / sizeof(calls[0]))](fuzz);
}
