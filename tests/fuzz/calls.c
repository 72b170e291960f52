/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Calls every public function with random arguments, but for those of peers (peer_calls.c). An
 * output that receives an object is a local variable, put into a slot on success; the slot's old
 * object is closed first.
 */
#include "tests/fuzz/call.h"

#include <errno.h>
#include <fcntl.h>
#include <hmreg/plan.h>
#include <string.h>
#include <unistd.h>

/* ---- calls that empty a slot ------------------------------------------------------------- */

static void end_region(struct fuzz *fuzz, unsigned slot)
{
    if (PLAIN(hmreg_mr_close(fuzz->regions[slot])) != -EBUSY)
        fuzz->regions[slot] = NULL;
}

static void end_gotten(struct fuzz *fuzz, unsigned slot)
{
    if (hmreg_mr_try_put(fuzz->gotten[slot]))
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

static void forget_domain(struct fuzz *fuzz, const struct hmreg_domain *domain)
{
    for (unsigned i = 0; i < FUZZ_SLOTS; i++)
        if (fuzz->domains[i] == domain)
            fuzz->domains[i] = NULL;
}

static void end_domain(struct fuzz *fuzz, unsigned slot)
{
    if (PLAIN(hmreg_domain_close(fuzz->domains[slot])))
        return;
    fuzz->domains[slot] = NULL;
    for (size_t i = 0; i < FUZZ_MEMBERS; i++)
        if (fuzz->owned[slot][i])
            forget_domain(fuzz, fuzz->owned[slot][i]);
    memset(fuzz->owned[slot], 0, sizeof(fuzz->owned[slot]));
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
    /* The groups, and what is in none; one that owns its members ends after their other groups. */
    for (unsigned i = 0; i < 2 * FUZZ_SLOTS; i++)
        end_domain(fuzz, i % FUZZ_SLOTS);
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
    MUST(!(info.it.flags & HMREG_MEM_INFO_CPU_ACCESS) == !info.it.host_addr);
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

/* Heap memory is freed at once, before a call has it: what lies next to it is other data. */
static void call_alloc(struct fuzz *fuzz)
{
    unsigned slot = SLOT;
    void *memory = fuzz->memory[slot];
    enum hmreg_iface iface = (enum hmreg_iface)fuzz_small(fuzz);
    unsigned len = fuzz_rarely(fuzz) ? 0 : 1 + fuzz_below(fuzz, 64 << 10);

    if (memory)
        return;
    CALL(hmreg_mem_alloc(fuzz->lib, iface, fuzz_small(fuzz), (enum hmreg_mem_kind)fuzz_small(fuzz),
                         len, &memory),
         &memory);
    if (memory && iface == HMREG_IFACE_SYSTEM) {
        MUST(PLAIN(hmreg_mem_free(fuzz->lib, memory)) == 0);
        return;
    }
    fuzz->memory[slot] = memory;
    fuzz->memory_len[slot] = len;
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
    config.it.flags = (uint32_t)fuzz_bits(fuzz, HMREG_DOMAIN_EXACT | HMREG_DOMAIN_NO_CACHE |
                                                    HMREG_DOMAIN_SINGLE | HMREG_DOMAIN_PARTS);
    for (int i = 0; i < HMREG_PATH_COUNT - 1 && fuzz_rarely(fuzz); i++)
        config.it.order[i] = (enum hmreg_path)fuzz_small(fuzz);
    for (int i = 0; i < HMREG_WAY_COUNT - 1 && fuzz_rarely(fuzz); i++)
        config.it.ways[i] = (enum hmreg_way)fuzz_small(fuzz);
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
    const struct hmreg_group_config *given;
    struct hmreg_domain *members[FUZZ_MEMBERS];
    unsigned slot = SLOT, count;
    struct hmreg_domain *group = fuzz->domains[slot];

    if (group)
        return;
    for (int i = 0; i < FUZZ_MEMBERS; i++)
        members[i] = PICK(fuzz->domains);
    config.it.flags = (uint32_t)fuzz_bits(fuzz, HMREG_GROUP_PARTIAL | HMREG_GROUP_OWNS_MEMBERS);
    domain.it.flags = (uint32_t)fuzz_bits(fuzz, HMREG_DOMAIN_EXACT | HMREG_DOMAIN_NO_CACHE |
                                                    HMREG_DOMAIN_SINGLE | HMREG_DOMAIN_PARTS);
    domain.it.order[0] = fuzz_rarely(fuzz) ? HMREG_PATH_DMABUF : HMREG_PATH_NONE;
    config.it.domain = fuzz_below(fuzz, 2) ? &domain.it : NULL;
    given = fuzz_below(fuzz, 2) ? &config.it : NULL;
    count = fuzz_below(fuzz, FUZZ_MEMBERS);
    CALL(hmreg_group_open(fuzz_rarely(fuzz) ? NULL : fuzz->lib, members, count, given, &group),
         &group);
    fuzz->domains[slot] = group;
    if (group && given && given->size > offsetof(struct hmreg_group_config, flags) &&
        given->flags & HMREG_GROUP_OWNS_MEMBERS)
        memcpy(fuzz->owned[slot], members, count * sizeof(members[0]));
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

uint64_t fuzz_key(struct fuzz *fuzz)
{
    return fuzz_rarely(fuzz) ? fuzz_random(fuzz) : fuzz_below(fuzz, 200);
}

static uint64_t any_access(struct fuzz *fuzz)
{
    return fuzz_bits(fuzz, HMREG_ACCESS_ALL);
}

static uint64_t any_flags(struct fuzz *fuzz)
{
    return fuzz_below(fuzz, 4)
               ? 0
               : fuzz_bits(fuzz, HMREG_HMEM_HOST_ALLOC | HMREG_HMEM_DEVICE_ONLY | HMREG_RMA_PMEM |
                                     HMREG_RMA_EVENT | HMREG_REG_SINGLE | HMREG_REG_PARTS);
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
                          any_offset(fuzz), fuzz_key(fuzz), any_flags(fuzz), &mr, fuzz),
             &mr);
    else
        CALL(hmreg_mr_regv(PICK(fuzz->domains), iov, count, any_access(fuzz), any_offset(fuzz),
                           fuzz_key(fuzz), any_flags(fuzz), &mr, fuzz),
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

/* Close the descriptors afterwards. */
static void any_segments(struct fuzz *fuzz, struct hmreg_segment segments[4], int descriptors[4])
{
    for (int i = 0; i < 4; i++) {
        struct hmreg_mr_dmabuf dmabuf = any_dmabuf(fuzz);
        bool by_dmabuf = fuzz_below(fuzz, 3) == 0;

        descriptors[i] = dmabuf.fd;
        segments[i].kind = fuzz_rarely(fuzz) ? (uint32_t)fuzz_random(fuzz) : by_dmabuf;
        segments[i].u.dmabuf = dmabuf;
        if (!by_dmabuf)
            segments[i].u.memory = (struct iovec){fuzz_target(fuzz), fuzz_length(fuzz)};
    }
}

static void close_all(const int descriptors[4])
{
    for (int i = 0; i < 4; i++)
        if (descriptors[i] >= 0)
            close(descriptors[i]);
}

/* Registers, or gets. */
static void call_with_attr(struct fuzz *fuzz, bool get)
{
    STRUCT(hmreg_mr_attr, attr);
    struct hmreg_mr_dmabuf dmabuf = any_dmabuf(fuzz);
    bool by_dmabuf = fuzz_below(fuzz, 3) == 0, by_segments = !by_dmabuf && !fuzz_below(fuzz, 3);
    struct hmreg_segment segments[4];
    int descriptors[4];
    static const uint8_t secret[64] = "of the region";
    unsigned slot = SLOT;
    struct hmreg_mr **place = get ? &fuzz->gotten[slot] : &fuzz->regions[slot], *mr = *place;
    struct iovec iov[4];

    any_segments(fuzz, segments, descriptors);
    if (!mr) {
        attr.it.iov = iov;
        attr.it.iov_count = any_ranges(fuzz, iov, fuzz_below(fuzz, 2) ? 1 : 4);
        if ((by_dmabuf || by_segments) && !fuzz_rarely(fuzz))
            attr.it.iov = NULL, attr.it.iov_count = 0;
        if (by_segments) {
            attr.it.segments = segments;
            attr.it.segment_count = fuzz_below(fuzz, 5);
        }
        attr.it.dmabuf = by_dmabuf ? &dmabuf : NULL;
        attr.it.access = any_access(fuzz);
        attr.it.offset = any_offset(fuzz);
        attr.it.requested_key = get && !fuzz_rarely(fuzz) ? 0 : fuzz_key(fuzz);
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
                                      any_flags(fuzz) | (by_dmabuf ? HMREG_REG_DMABUF : 0), &mr),
             &mr);
        *place = mr;
    }
    if (dmabuf.fd >= 0)
        close(dmabuf.fd);
    close_all(descriptors);
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

    any_segments(fuzz, segments, descriptors);
    if (!mr)
        CALL(hmreg_mr_regsgl(PICK(fuzz->domains), segments, fuzz_below(fuzz, 5), any_access(fuzz),
                             any_offset(fuzz), fuzz_key(fuzz), any_flags(fuzz), &mr, fuzz),
             &mr);
    fuzz->regions[slot] = mr;
    close_all(descriptors);
}

static void call_get(struct fuzz *fuzz)
{
    unsigned slot = SLOT;
    struct hmreg_mr *mr = fuzz->gotten[slot];
    struct hmreg_domain *domain;
    uint64_t access;
    size_t len;
    void *addr;

    if (mr)
        return;
    access = any_access(fuzz);
    len = fuzz_length(fuzz);
    addr = fuzz_target(fuzz);
    domain = PICK(fuzz->domains);
    if (hmreg_mr_try_get(domain, addr, len, access, &mr)) {
        MUST(!mr);
        CALL(hmreg_mr_get(domain, addr, len, access, &mr), &mr);
    }
    fuzz->gotten[slot] = mr;
}

/* ---- jobs ----------------------------------------------------------------------------------- */

static void progress(struct hmreg_job *job, uint64_t done, uint64_t total, void *context)
{
    struct fuzz *fuzz = context;

    MUST(done && done <= total);
    MUST(hmreg_job_wait(job, -1, NULL) == -EDEADLK);
    MUST(hmreg_job_close(job) == -EDEADLK);
    if (total % 3 == 0)
        MUST(!hmreg_job_cancel(job));
}

static void any_job_config(struct fuzz *fuzz, struct hmreg_job_config *config)
{
    config->workers = fuzz_below(fuzz, fuzz_rarely(fuzz) ? 100 : 4);
    config->piece_len = fuzz_below(fuzz, 2) ? 0 : fuzz_length(fuzz);
    config->progress = fuzz_below(fuzz, 2) ? progress : NULL;
    config->progress_context = fuzz;
}

static void call_reg_large(struct fuzz *fuzz)
{
    STRUCT(hmreg_job_config, config);
    unsigned slot = SLOT;
    struct hmreg_mr *mr = fuzz->regions[slot];

    any_job_config(fuzz, &config.it);
    if (!mr)
        CALL(hmreg_mr_reg_large(PICK(fuzz->domains), fuzz_target(fuzz), fuzz_length(fuzz),
                                any_access(fuzz), &config.it, &mr),
             &mr);
    fuzz->regions[slot] = mr;
}

static void call_job(struct fuzz *fuzz)
{
    STRUCT(hmreg_job_config, config);
    STRUCT(hmreg_mr_attr, attr);
    struct hmreg_job *job = NULL;
    struct hmreg_mr *mr = NULL;
    struct iovec iov[2];

    any_job_config(fuzz, &config.it);
    attr.it.iov = iov;
    attr.it.iov_count = any_ranges(fuzz, iov, fuzz_rarely(fuzz) ? 2 : 1);
    attr.it.access = any_access(fuzz);
    attr.it.requested_key = fuzz_key(fuzz);
    CALL(hmreg_job_start(PICK(fuzz->domains), &attr.it, any_flags(fuzz),
                         fuzz_rarely(fuzz) ? NULL : &config.it, &job),
         &job);
    if (fuzz_below(fuzz, 4) == 0)
        PLAIN(hmreg_job_cancel(job));
    if (CALL(hmreg_job_wait(job, fuzz_small(fuzz), &mr), &mr) == 0)
        MUST(PLAIN(hmreg_mr_close(mr)) == 0);
    if (job)
        MUST(PLAIN(hmreg_job_close(job)) == 0);
}

/* ---- regions -------------------------------------------------------------------------------- */

struct hmreg_mr *fuzz_region(struct fuzz *fuzz)
{
    return fuzz_below(fuzz, 2) ? PICK(fuzz->regions) : PICK(fuzz->gotten);
}

static void call_mr_queries(struct fuzz *fuzz)
{
    STRUCT(hmreg_mr_info, info);
    STRUCT(hmreg_piece_info, segment);
    STRUCT(hmreg_explanation, explanation);
    struct hmreg_mr *mr = fuzz_region(fuzz);

    CALL(hmreg_mr_query(mr, &info.it), &info);
    CALL(hmreg_mr_piece(mr, fuzz_below(fuzz, 6), &segment.it), &segment);
    CALL(hmreg_mr_explain(mr, &explanation.it), &explanation);
    MUST(!mr || !hmreg_mr_head_of(mr)->keys->native);
    hmreg_mr_key(mr);
    hmreg_mr_desc(mr);
    hmreg_mr_context(mr);
}

static void call_mr_state(struct fuzz *fuzz)
{
    struct iovec iov[2];
    size_t count = any_ranges(fuzz, iov, 2);
    void *const objects[] = {PICK(fuzz->eps), PICK(fuzz->counters)};

    PLAIN(hmreg_mr_bind(fuzz_region(fuzz), objects[fuzz_below(fuzz, 2)],
                        fuzz_bits(fuzz, HMREG_REMOTE_WRITE)));
    PLAIN(hmreg_mr_enable(fuzz_region(fuzz)));
    PLAIN(hmreg_mr_refresh(fuzz_region(fuzz), count ? iov : NULL, count, fuzz_bits(fuzz, 0)));
}

/* A rail is a region in all but its end. */
static void call_rail(struct fuzz *fuzz)
{
    STRUCT(hmreg_mr_info, info);
    struct hmreg_mr *mr = fuzz_region(fuzz), *rail = hmreg_mr_rail(mr, fuzz_below(fuzz, 4));

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
        call_reg_large,
        call_job,
        call_mr_queries,
        call_mr_state,
        call_objects,
        call_wrong_end,
        fuzz_call_raw,
        fuzz_call_pack,
        fuzz_call_remote_open,
        fuzz_call_rma,
        call_reg,
        call_get,
        fuzz_call_remote_open_many,
        call_group_open,
        call_rail,
        fuzz_call_remote_open_rails,
    };

    calls[fuzz_below(fuzz, sizeof(calls) / sizeof(calls[0]))](fuzz);
}
