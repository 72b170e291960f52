/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * What can be asked of a domain, a region and a peer's region, the same on every provider: answers,
 * wrong arguments, callers older and newer than the library, tokens, forked children. */
#include "tests/conformance/under.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 4096

static char memory[BYTES];

struct fixture {
    struct under under;
    struct hmreg_domain_info info;
    struct hmreg_mr *mr;    /* of all memory, for peers */
    struct hmreg_mr *local; /* without remote rights */
    struct hmreg_remote *remote;
    uint8_t token[4096];
    size_t token_size;
};

static void open_fixture(struct fixture *fixture, unsigned variant)
{
    struct hmreg_domain *domain;

    under_open(&fixture->under, variant);
    domain = fixture->under.domain;
    fixture->info.size = sizeof(fixture->info);
    assert_ok(hmreg_domain_query(domain, &fixture->info));
    assert_ok(hmreg_mr_reg(domain, memory, BYTES, HMREG_ACCESS_ALL, 0, 0, 0, &fixture->mr, memory));
    assert_ok(
        hmreg_mr_reg(domain, memory + 1, 16, HMREG_ACCESS_LOCAL, 0, 0, 0, &fixture->local, NULL));
    fixture->token_size = sizeof(fixture->token);
    assert_ok(hmreg_mr_pack(fixture->mr, fixture->token, &fixture->token_size));
    assert_ok(hmreg_remote_open(domain, fixture->token, fixture->token_size, &fixture->remote));
}

static void close_fixture(struct fixture *fixture)
{
    hmreg_remote_close(fixture->remote);
    assert_ok(hmreg_mr_close(fixture->local));
    assert_ok(hmreg_mr_close(fixture->mr));
    under_close(&fixture->under);
}

static void in_all(void (*checks)(struct fixture *fixture))
{
    for (unsigned variant = 0; variant < under_variants; variant++) {
        struct fixture fixture;

        open_fixture(&fixture, variant);
        checks(&fixture);
        close_fixture(&fixture);
    }
}

/* ---- answers ---------------------------------------------------------------------------- */

static void check_answers(struct fixture *fixture)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_remote_info remote = {.size = sizeof(remote)};
    struct hmreg_segment_info segment = {.size = sizeof(segment)};
    struct hmreg_explanation why = {.size = sizeof(why)};

    assert_ok(hmreg_mr_query(fixture->mr, &info));
    assert_int_equal(info.iface, HMREG_IFACE_SYSTEM);
    assert_int_equal(info.device, -1);
    assert_int_equal(info.path, HMREG_PATH_SYSTEM);
    assert_int_equal(info.addr, (uintptr_t)memory);
    assert_int_equal(info.len, BYTES);
    assert_int_equal(info.access, HMREG_ACCESS_ALL);
    assert_int_equal(info.local_addr, (uintptr_t)memory);
    assert_int_equal(info.cached, 0);
    assert_ptr_equal(hmreg_mr_context(fixture->mr), memory);
    assert_ptr_equal(hmreg_mr_context(fixture->local), NULL);
    assert_true(hmreg_mr_key(fixture->local) == HMREG_KEY_NOTAVAIL);
    assert_ok(hmreg_mr_segment(fixture->mr, 0, &segment));
    assert_int_equal(segment.len, BYTES);
    assert_ptr_equal(segment.native, hmreg_mr_native(fixture->mr));
    assert_fails(hmreg_mr_segment(fixture->mr, 1, &segment), -ENOENT, "index is 1");
    assert_ok(hmreg_remote_query(fixture->remote, &remote));
    assert_int_equal(remote.len, BYTES);
    assert_int_equal(remote.access, HMREG_ACCESS_REMOTE);
    assert_int_equal(remote.segments, 1);
    assert_int_equal(remote.iface, HMREG_IFACE_SYSTEM);
    assert_ok(hmreg_explain(fixture->mr, &why));
    assert_int_equal(why.path, HMREG_PATH_SYSTEM);
    assert_int_equal(why.refused, 0);
}

static void queries__say_what_was_registered(void **state)
{
    in_all(check_answers);
}

/* ---- callers of other versions ---------------------------------------------------------- */

/* An output struct, of which the first version had `least` bytes: too small a size is refused and
 * nothing written; bytes beyond what the caller or the library knows stay; the size stays the
 * caller's. */
static void check_out_since(struct fixture *fixture, size_t least, size_t known,
                            int (*ask)(struct fixture *fixture, void *out))
{
    union {
        size_t size;
        unsigned char bytes[4096];
    } out, before;

    memset(&before, 0xa5, sizeof(before));
    assert_fails(ask(fixture, NULL), -EINVAL, "out is NULL");
    for (size_t size = 0; size < least; size += least - 1) {
        before.size = size;
        out = before;
        assert_fails(ask(fixture, &out), -EINVAL, "size of struct");
        assert_memory_equal(&out, &before, sizeof(out));
    }
    for (size_t size = known; size <= known + 64; size += 64) {
        before.size = size;
        out = before;
        assert_ok(ask(fixture, &out));
        assert_int_equal(out.size, size);
        assert_memory_equal(out.bytes + known, before.bytes + known, sizeof(out) - known);
    }
    before.size = least;
    out = before;
    assert_ok(ask(fixture, &out));
    assert_memory_equal(out.bytes + least, before.bytes + least, sizeof(out) - least);
}

static void check_out(struct fixture *fixture, size_t known,
                      int (*ask)(struct fixture *fixture, void *out))
{
    check_out_since(fixture, known, known, ask);
}

static int ask_domain(struct fixture *fixture, void *out)
{
    return hmreg_domain_query(fixture->under.domain, out);
}

static int ask_stats(struct fixture *fixture, void *out)
{
    return hmreg_domain_stats(fixture->under.domain, out);
}

static int ask_cache_stats(struct fixture *fixture, void *out)
{
    return hmreg_cache_stats(fixture->under.domain, HMREG_IFACE_SYSTEM, -1, out);
}

static int ask_outlook(struct fixture *fixture, void *out)
{
    return hmreg_domain_explain(fixture->under.domain, HMREG_IFACE_SYSTEM, -1, out);
}

static int ask_mr(struct fixture *fixture, void *out)
{
    return hmreg_mr_query(fixture->mr, out);
}

static int ask_segment(struct fixture *fixture, void *out)
{
    return hmreg_mr_segment(fixture->mr, 0, out);
}

static int ask_why(struct fixture *fixture, void *out)
{
    return hmreg_explain(fixture->mr, out);
}

static int ask_remote(struct fixture *fixture, void *out)
{
    return hmreg_remote_query(fixture->remote, out);
}

static int ask_memory(struct fixture *fixture, void *out)
{
    return hmreg_query(fixture->under.lib, memory, BYTES, out);
}

static int ask_runtime(struct fixture *fixture, void *out)
{
    return hmreg_runtime_query(fixture->under.lib, HMREG_IFACE_SYSTEM, out);
}

static int ask_monitor(struct fixture *fixture, void *out)
{
    return hmreg_monitor_query(fixture->under.lib, out);
}

static void check_outs(struct fixture *fixture)
{
    check_out(fixture, sizeof(struct hmreg_domain_info), ask_domain);
    check_out_since(fixture, offsetof(struct hmreg_stats, caches), sizeof(struct hmreg_stats),
                    ask_stats);
    check_out_since(fixture, offsetof(struct hmreg_stats, caches), sizeof(struct hmreg_stats),
                    ask_cache_stats);
    check_out(fixture, sizeof(struct hmreg_explanation), ask_outlook);
    check_out(fixture, sizeof(struct hmreg_mr_info), ask_mr);
    check_out(fixture, sizeof(struct hmreg_segment_info), ask_segment);
    check_out(fixture, sizeof(struct hmreg_explanation), ask_why);
    check_out(fixture, sizeof(struct hmreg_remote_info), ask_remote);
    check_out(fixture, sizeof(struct hmreg_mem_info), ask_memory);
    check_out(fixture, sizeof(struct hmreg_runtime_info), ask_runtime);
    check_out(fixture, sizeof(struct hmreg_monitor_info), ask_monitor);
}

static void queries__of_older_and_newer_callers(void **state)
{
    in_all(check_outs);
}

/* ---- NULL ------------------------------------------------------------------------------- */

static void null__is_refused_by_name_or_means_nothing(void **state)
{
    struct hmreg_remote_info remote = {.size = sizeof(remote)};
    struct hmreg_segment_info segment = {.size = sizeof(segment)};
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_domain_info domain = {.size = sizeof(domain)};
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_stats stats = {.size = sizeof(stats)};
    uint64_t addr, key;
    uint8_t bytes[8];
    size_t size = 8;

    assert_fails(hmreg_domain_query(NULL, &domain), -EINVAL, "domain");
    assert_fails(hmreg_domain_stats(NULL, &stats), -EINVAL, "domain");
    assert_fails(hmreg_cache_stats(NULL, 0, -1, &stats), -EINVAL, "domain");
    assert_fails(hmreg_domain_dump(NULL, NULL, NULL), -EINVAL, "domain");
    assert_fails(hmreg_domain_explain(NULL, 0, -1, &why), -EINVAL, "domain");
    assert_fails(hmreg_mr_query(NULL, &info), -EINVAL, "mr");
    assert_fails(hmreg_mr_segment(NULL, 0, &segment), -EINVAL, "mr");
    assert_fails(hmreg_mr_pack(NULL, bytes, &size), -EINVAL, "mr");
    assert_fails(hmreg_mr_raw_attr(NULL, &addr, bytes, &size, 0), -EINVAL, "mr");
    assert_fails(hmreg_mr_map_raw(NULL, 0, bytes, 8, &key, 0), -EINVAL, "domain");
    assert_fails(hmreg_mr_unmap_key(NULL, 1), -EINVAL, "domain");
    assert_fails(hmreg_mr_bind(NULL, bytes, 0), -EINVAL, "mr");
    assert_fails(hmreg_mr_enable(NULL), -EINVAL, "mr");
    assert_fails(hmreg_mr_refresh(NULL, NULL, 0, 0), -EINVAL, "mr");
    assert_fails(hmreg_remote_open(NULL, bytes, 8, (void *)bytes), -EINVAL, "domain");
    assert_fails(hmreg_remote_query(NULL, &remote), -EINVAL, "remote");
    assert_fails(hmreg_remote_addr(NULL, 0, 1, &addr, &key), -EINVAL, "remote");
    assert_ok(hmreg_mr_close(NULL));
    hmreg_mr_put(NULL);
    hmreg_remote_close(NULL);
    assert_null(hmreg_mr_desc(NULL));
    assert_null(hmreg_mr_native(NULL));
    assert_null(hmreg_mr_context(NULL));
    assert_true(hmreg_mr_key(NULL) == HMREG_KEY_NOTAVAIL);
    assert_int_equal(hmreg_mr_lkey(NULL), 0);
    assert_int_equal(hmreg_mr_rkey(NULL), 0);
}

/* ---- tokens ----------------------------------------------------------------------------- */

static void check_pack(struct fixture *fixture)
{
    size_t needed = fixture->token_size, size = 0;
    uint8_t *exact = malloc(needed);
    uint8_t small[4096];

    memset(small, 0xa5, sizeof(small));
    assert_fails(hmreg_mr_pack(fixture->mr, small, NULL), -EINVAL, "size is NULL");
    size = 1;
    assert_fails(hmreg_mr_pack(fixture->mr, NULL, &size), -EINVAL, "buf is NULL");
    assert_int_equal(size, 1);
    for (size_t room = 0; room < needed; room++) {
        size = room;
        assert_fails(hmreg_mr_pack(fixture->mr, room ? small : NULL, &size), -HMREG_ETOOSMALL,
                     "takes");
        assert_int_equal(size, needed);
    }
    for (size_t i = 0; i < sizeof(small); i++)
        assert_int_equal(small[i], 0xa5);
    size = needed;
    assert_ok(hmreg_mr_pack(fixture->mr, exact, &size));
    assert_int_equal(size, needed);
    assert_memory_equal(exact, fixture->token, needed);
    free(exact);
    size = sizeof(small);
    assert_fails(hmreg_mr_pack(fixture->local, small, &size), -EACCES, "no remote access");
    assert_int_equal(size, sizeof(small));
}

static void pack__room_for_the_token(void **state)
{
    in_all(check_pack);
}

static void check_remote_open(struct fixture *fixture)
{
    struct hmreg_domain *domain = fixture->under.domain;
    struct hmreg_remote *remote = (void *)1;

    assert_fails(hmreg_remote_open(domain, NULL, 8, &remote), -EINVAL, "token");
    assert_fails(hmreg_remote_open(domain, fixture->token, fixture->token_size, NULL), -EINVAL,
                 "remote");
    assert_fails(hmreg_remote_open(domain, fixture->token, 0, &remote), -EBADMSG, "token");
    assert_fails(hmreg_remote_open(domain, fixture->token, fixture->token_size - 1, &remote),
                 -EBADMSG, "token");
    assert_fails(hmreg_remote_open(domain, fixture->token, SIZE_MAX, &remote), -EBADMSG, "token");
    for (size_t i = 0; i < fixture->token_size; i++) {
        fixture->token[i] ^= 0x40;
        assert_fails(hmreg_remote_open(domain, fixture->token, fixture->token_size, &remote),
                     -EBADMSG, "token");
        fixture->token[i] ^= 0x40;
    }
    assert_ptr_equal(remote, (void *)1);
    assert_ok(hmreg_remote_open(domain, fixture->token, fixture->token_size, &remote));
    hmreg_remote_close(remote);
}

static void remote_open__bytes_that_are_no_token(void **state)
{
    in_all(check_remote_open);
}

static void check_remote_addr(struct fixture *fixture)
{
    uint64_t addr = 77, key = 78, first = 0;

    assert_fails(hmreg_remote_addr(fixture->remote, 0, 1, NULL, &key), -EINVAL, "addr");
    assert_fails(hmreg_remote_addr(fixture->remote, 0, 1, &addr, NULL), -EINVAL, "key");
    assert_fails(hmreg_remote_addr(fixture->remote, 0, 0, &addr, &key), -EINVAL, "len is 0");
    assert_fails(hmreg_remote_addr(fixture->remote, BYTES, 1, &addr, &key), -ERANGE, "outside");
    assert_fails(hmreg_remote_addr(fixture->remote, BYTES - 1, 2, &addr, &key), -ERANGE, "outside");
    assert_fails(hmreg_remote_addr(fixture->remote, 0, BYTES + 1, &addr, &key), -ERANGE, "outside");
    assert_fails(hmreg_remote_addr(fixture->remote, 1, SIZE_MAX, &addr, &key), -ERANGE, "outside");
    assert_fails(hmreg_remote_addr(fixture->remote, UINT64_MAX, 1, &addr, &key), -ERANGE,
                 "outside");
    assert_fails(hmreg_remote_addr(fixture->remote, UINT64_MAX, SIZE_MAX, &addr, &key), -ERANGE,
                 "outside");
    assert_int_equal(addr, 77);
    assert_int_equal(key, 78);
    assert_ok(hmreg_remote_addr(fixture->remote, 0, BYTES, &first, &key));
    assert_ok(hmreg_remote_addr(fixture->remote, BYTES - 1, 1, &addr, &key));
    assert_int_equal(addr, first + BYTES - 1);
    if (fixture->info.mr_mode & HMREG_MR_VIRT_ADDR)
        assert_int_equal(first, (uintptr_t)memory);
    else
        assert_int_equal(first, 0);
}

static void remote_addr__inside_and_outside(void **state)
{
    in_all(check_remote_addr);
}

/* ---- raw keys and states ---------------------------------------------------------------- */

static void check_raw_keys(struct fixture *fixture)
{
    struct hmreg_domain *domain = fixture->under.domain;
    uint64_t base = 77, key = 78;
    uint8_t raw[256] = {0};
    size_t size = sizeof(raw), none = 0;

    assert_fails(hmreg_mr_raw_attr(fixture->mr, &base, raw, NULL, 0), -EINVAL, "key_size");
    assert_fails(hmreg_mr_raw_attr(fixture->mr, &base, raw, &size, 1), -HMREG_EBADFLAGS, "flags");
    assert_fails(hmreg_mr_raw_attr(fixture->mr, &base, NULL, &size, 0), -EINVAL, "raw_key");
    assert_fails(hmreg_mr_raw_attr(fixture->local, &base, raw, &size, 0), -EACCES, "remote access");
    assert_fails(hmreg_mr_raw_attr(fixture->mr, &base, NULL, &none, 0), -HMREG_ETOOSMALL, "takes");
    assert_int_equal(base, 77);
    size = none;
    assert_ok(hmreg_mr_raw_attr(fixture->mr, &base, raw, &size, 0));
    assert_int_equal(size, none);
    assert_fails(hmreg_mr_map_raw(domain, base, NULL, size, &key, 0), -EINVAL, "raw_key");
    assert_fails(hmreg_mr_map_raw(domain, base, raw, size, NULL, 0), -EINVAL, "key is NULL");
    assert_fails(hmreg_mr_map_raw(domain, base, raw, size, &key, 1), -HMREG_EBADFLAGS, "flags");
    assert_fails(hmreg_mr_map_raw(domain, base, raw, size - 1, &key, 0), -EINVAL, "key_size");
    assert_int_equal(key, 78);
    assert_ok(hmreg_mr_map_raw(domain, base, raw, size, &key, 0));
    assert_ok(hmreg_mr_unmap_key(domain, key));
    assert_fails(hmreg_mr_unmap_key(domain, key), -EINVAL, "not mapped");
}

static void raw_keys__there_and_back(void **state)
{
    in_all(check_raw_keys);
}

static void check_states(struct fixture *fixture)
{
    struct iovec outside = {memory + BYTES - 1, 2}, empty = {memory, 0}, nowhere = {NULL, 1};

    assert_fails(hmreg_mr_bind(fixture->mr, NULL, 0), -EINVAL, "object");
    for (int bit = 0; bit < 64; bit++)
        if (UINT64_C(1) << bit != HMREG_REMOTE_WRITE)
            assert_fails(hmreg_mr_bind(fixture->mr, fixture, UINT64_C(1) << bit), -HMREG_EBADFLAGS,
                         "flags");
    assert_fails(hmreg_mr_refresh(fixture->mr, NULL, 0, 1), -HMREG_EBADFLAGS, "flags");
    assert_fails(hmreg_mr_refresh(fixture->mr, NULL, 1, 0), -EINVAL, "iov is NULL");
    assert_fails(hmreg_mr_refresh(fixture->mr, &outside, 0, 0), -EINVAL, "count is 0");
    assert_fails(hmreg_mr_refresh(fixture->mr, &outside, 1, 0), -EINVAL, "not inside the region");
    assert_fails(hmreg_mr_refresh(fixture->mr, &empty, 1, 0), -EINVAL, "len is 0");
    assert_fails(hmreg_mr_refresh(fixture->mr, &nowhere, 1, 0), -EINVAL, "addr is NULL");
}

static void states__wrong_argument(void **state)
{
    in_all(check_states);
}

/* ---- closing ---------------------------------------------------------------------------- */

static void check_close(struct fixture *fixture)
{
    struct hmreg_mr *mr;

    assert_fails(hmreg_domain_close(fixture->under.domain), -EBUSY, "2 regions");
    assert_fails(hmreg_close(fixture->under.lib), -EBUSY, "1 domains");
    assert_ok(hmreg_mr_get(fixture->under.domain, memory, 16, HMREG_SEND, &mr));
    assert_fails(hmreg_mr_close(mr), -EINVAL, "hmreg_mr_put()");
    hmreg_mr_put(mr);
}

static void close__while_something_is_open__busy(void **state)
{
    in_all(check_close);
}

/* ---- the last error --------------------------------------------------------------------- */

static void check_last_error(struct fixture *fixture)
{
    struct hmreg_domain *domain = fixture->under.domain;
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct hmreg_remote *remote;
    struct hmreg_error before;
    uint64_t addr, key;
    struct hmreg_mr *mr;
    uint8_t token[4096];
    size_t size = sizeof(token);

    assert_fails(hmreg_mr_reg(domain, NULL, 1, HMREG_SEND, 0, 0, 0, &mr, NULL), -EINVAL, "addr");
    before = *hmreg_last_error();
    assert_ok(hmreg_mr_reg(domain, memory, 16, HMREG_SEND, 0, 0, 0, &mr, NULL));
    assert_ok(hmreg_mr_close(mr));
    for (int i = 0; i < 2; i++) {
        assert_ok(hmreg_mr_get(domain, memory, 16, HMREG_SEND, &mr));
        hmreg_mr_put(mr);
    }
    assert_ok(hmreg_mr_pack(fixture->mr, token, &size));
    assert_ok(hmreg_remote_open(domain, token, size, &remote));
    assert_ok(hmreg_remote_addr(remote, 1, 1, &addr, &key));
    hmreg_remote_close(remote);
    assert_ok(hmreg_domain_stats(domain, &stats));
    assert_ok(hmreg_domain_flush(domain));
    assert_ok(hmreg_invalidate(fixture->under.lib, memory, 16));
    assert_memory_equal(hmreg_last_error(), &before, sizeof(before));
}

static void success__leaves_the_last_error(void **state)
{
    in_all(check_last_error);
}

/* ---- forked children -------------------------------------------------------------------- */

#define PERM(call)                                                                                 \
    do {                                                                                           \
        if ((call) != -EPERM || hmreg_last_error()->code != -EPERM ||                              \
            !strstr(hmreg_last_error()->text, "forked child"))                                     \
            _exit(__COUNTER__ + 1);                                                                \
    } while (0)

/* In a child, every call on the parent's objects: of the library, */
static void child_calls_library(struct fixture *fixture)
{
    struct hmreg_domain_config config = {.size = sizeof(config)};
    struct hmreg_runtime_info runtime = {.size = sizeof(runtime)};
    struct hmreg_device_info device = {.size = sizeof(device)};
    struct hmreg_monitor_info monitor = {.size = sizeof(monitor)};
    struct hmreg_mem_info mem = {.size = sizeof(mem)};
    struct hmreg *lib = fixture->under.lib;
    struct hmreg_domain *other;
    struct hmreg_dmabuf dmabuf;
    void *made;

    PERM(hmreg_runtime_query(lib, HMREG_IFACE_SYSTEM, &runtime));
    PERM(hmreg_device_query(lib, HMREG_IFACE_SYSTEM, 0, &device));
    PERM(hmreg_monitor_query(lib, &monitor));
    PERM(hmreg_query(lib, memory, 16, &mem));
    PERM(hmreg_export_dmabuf(lib, memory, 16, 0, &dmabuf));
    PERM(hmreg_copy(lib, memory, memory + 64, 16));
    PERM(hmreg_mem_alloc(lib, HMREG_IFACE_SYSTEM, -1, HMREG_MEM_HOST, 16, &made));
    PERM(hmreg_mem_free(lib, memory));
    PERM(hmreg_invalidate(lib, memory, 16));
    PERM(under_open_more(&fixture->under, &config, &other));
}

/* of a domain, */
static void child_calls_domain(struct fixture *fixture)
{
    struct hmreg_domain_info info = {.size = sizeof(info)};
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct hmreg_domain *domain = fixture->under.domain;
    struct hmreg_remote *remote;
    uint8_t raw[8] = {0};
    uint64_t key;

    PERM(hmreg_domain_query(domain, &info));
    PERM(hmreg_domain_explain(domain, HMREG_IFACE_SYSTEM, -1, &why));
    PERM(hmreg_domain_stats(domain, &stats));
    PERM(hmreg_cache_stats(domain, HMREG_IFACE_SYSTEM, -1, &stats));
    PERM(hmreg_domain_dump(domain, NULL, NULL));
    PERM(hmreg_domain_flush(domain));
    PERM(hmreg_domain_progress(domain));
    PERM(hmreg_domain_bind(domain, fixture, HMREG_REG_MR));
    PERM(hmreg_mr_map_raw(domain, 0, raw, sizeof(raw), &key, 0));
    PERM(hmreg_mr_unmap_key(domain, 1));
    PERM(hmreg_remote_open(domain, fixture->token, fixture->token_size, &remote));
}

/* registering, */
static void child_registers(struct hmreg_domain *domain)
{
    struct hmreg_segment one = {.u.memory = {memory, 16}};
    struct iovec iov = {memory, 16};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .iov = &iov, .iov_count = 1, .access = HMREG_SEND};
    struct hmreg_mr *mr;

    PERM(hmreg_mr_reg(domain, memory, 16, HMREG_SEND, 0, 0, 0, &mr, NULL));
    PERM(hmreg_mr_regv(domain, &iov, 1, HMREG_SEND, 0, 0, 0, &mr, NULL));
    PERM(hmreg_mr_regattr(domain, &attr, 0, &mr));
    PERM(hmreg_mr_regsgl(domain, &one, 1, HMREG_SEND, 0, 0, 0, &mr, NULL));
    PERM(hmreg_mr_get(domain, memory, 16, HMREG_SEND, &mr));
}

/* of a region and of a remote. */
static void child_calls_regions(struct fixture *fixture)
{
    struct hmreg_segment_info segment = {.size = sizeof(segment)};
    struct hmreg_remote_info remote = {.size = sizeof(remote)};
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr_info info = {.size = sizeof(info)};
    uint8_t bytes[4096];
    size_t size = sizeof(bytes);
    uint64_t addr, key;

    PERM(hmreg_mr_query(fixture->mr, &info));
    PERM(hmreg_mr_segment(fixture->mr, 0, &segment));
    PERM(hmreg_explain(fixture->mr, &why));
    PERM(hmreg_mr_pack(fixture->mr, bytes, &size));
    PERM(hmreg_mr_raw_attr(fixture->mr, &addr, bytes, &size, 0));
    PERM(hmreg_mr_bind(fixture->mr, fixture, 0));
    PERM(hmreg_mr_enable(fixture->mr));
    PERM(hmreg_mr_refresh(fixture->mr, NULL, 0, 0));
    PERM(hmreg_remote_query(fixture->remote, &remote));
    PERM(hmreg_remote_addr(fixture->remote, 0, 1, &addr, &key));
}

static void child(struct fixture *fixture)
{
    child_calls_library(fixture);
    child_calls_domain(fixture);
    child_registers(fixture->under.domain);
    child_calls_regions(fixture);
    hmreg_mr_put(fixture->mr);
    hmreg_remote_close(fixture->remote);
    PERM(hmreg_mr_close(fixture->mr));
    PERM(hmreg_domain_close(fixture->under.domain));
    PERM(hmreg_close(fixture->under.lib));
    _exit(0);
}

static void check_child(struct fixture *fixture)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        child(fixture);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0); /* else: which PERM() line above */
}

static void fork__every_call_on_the_parents_objects__perm(void **state)
{
    in_all(check_child);
}

TEST_MAIN(TEST(queries__say_what_was_registered), TEST(queries__of_older_and_newer_callers),
          TEST(null__is_refused_by_name_or_means_nothing), TEST(pack__room_for_the_token),
          TEST(remote_open__bytes_that_are_no_token), TEST(remote_addr__inside_and_outside),
          TEST(raw_keys__there_and_back), TEST(states__wrong_argument),
          TEST(close__while_something_is_open__busy), TEST(success__leaves_the_last_error),
          TEST(fork__every_call_on_the_parents_objects__perm))
