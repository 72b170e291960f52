/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Queries of domains, regions and peers' regions, for callers older and newer than the library;
 * tokens; and the last error after a success. */
#include "tests/conformance/suite.h"
#include "tests/support/queries.h"

#define BYTES 4096

/* A region that peers may access, one without remote rights, and the peer's view of the first. */
struct objects {
    struct suite_fixture *fixture;
    struct hmreg_mr *mr, *local;
    struct hmreg_remote *remote;
    uint8_t token[4096];
    size_t token_size;
};

static void open_objects(struct suite_fixture *fixture, struct objects *out)
{
    *out = (struct objects){.fixture = fixture, .token_size = sizeof(out->token)};
    assert_ok(hmreg_mr_reg(fixture->domain, fixture->memory, BYTES, HMREG_ACCESS_ALL, 0, 0, 0,
                           &out->mr, fixture));
    assert_ok(hmreg_mr_reg(fixture->domain, fixture->memory + 1, 16, HMREG_ACCESS_LOCAL, 0, 0, 0,
                           &out->local, NULL));
    assert_ok(hmreg_mr_pack(out->mr, out->token, &out->token_size));
    assert_ok(hmreg_remote_open(fixture->peer, out->token, out->token_size, &out->remote));
}

static void close_objects(struct objects *objects)
{
    hmreg_remote_close(objects->remote);
    assert_ok(hmreg_mr_close(objects->local));
    assert_ok(hmreg_mr_close(objects->mr));
}

static void check_head(const struct hmreg_mr *mr)
{
    const struct hmreg_mr_head *head = hmreg_mr_head_of(mr);

    assert_int_equal(head->count, 1);
    assert_ptr_equal(head->keys->desc, hmreg_mr_desc(mr));
    assert_true(head->keys->key == hmreg_mr_key(mr));
}

CASE(head__has_what_the_calls_return)
{
    struct hmreg_mr *cached = NULL;
    struct objects objects;

    open_objects(fixture, &objects);
    check_head(objects.mr);
    check_head(objects.local);
    if (!(test_domain_info(fixture->domain).mr_mode & HMREG_MR_RAW))
        test_addresses(fixture->peer, objects.mr, objects.mr, 0, fixture->memory);
    if (hmreg_mr_get(fixture->domain, fixture->memory, BYTES, HMREG_ACCESS_ALL, &cached) == 0)
        check_head(cached);
    hmreg_mr_put(cached);
    close_objects(&objects);
}

CASE(query__returns_what_was_registered)
{
    struct hmreg_piece_info segment = {.size = sizeof(segment)};
    struct hmreg_remote_info remote = {.size = sizeof(remote)};
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct objects objects;

    open_objects(fixture, &objects);
    assert_ok(hmreg_mr_query(objects.mr, &info));
    assert_int_equal(info.iface, HMREG_IFACE_SYSTEM);
    assert_int_equal(info.device, -1);
    assert_int_equal(info.path, HMREG_PATH_SYSTEM);
    assert_int_equal(info.addr, (uintptr_t)fixture->memory);
    assert_int_equal(info.len, BYTES);
    assert_int_equal(info.access, HMREG_ACCESS_ALL);
    assert_int_equal(info.local_addr, (uintptr_t)fixture->memory);
    assert_int_equal(info.cached, 0);
    assert_ptr_equal(hmreg_mr_context(objects.mr), fixture);
    assert_ptr_equal(hmreg_mr_context(objects.local), NULL);
    assert_ok(hmreg_mr_piece(objects.mr, 0, &segment));
    assert_int_equal(segment.len, BYTES);
    assert_ptr_equal(segment.native, hmreg_mr_head_of(objects.mr)->keys->native);
    assert_fails(hmreg_mr_piece(objects.mr, 1, &segment), -ENOENT, "index is 1");
    assert_ok(hmreg_remote_query(objects.remote, &remote));
    assert_int_equal(remote.len, BYTES);
    assert_int_equal(remote.access, HMREG_ACCESS_REMOTE);
    assert_int_equal(remote.segments, 1);
    assert_int_equal(remote.iface, HMREG_IFACE_SYSTEM);
    assert_int_equal(test_why_of(objects.mr).path, HMREG_PATH_SYSTEM);
    assert_int_equal(test_why_of(objects.mr).refused, 0);
    close_objects(&objects);
}

/* ---- callers built against other versions ----------------------------------------------- */

/* A query whose output has `known` bytes. */
struct query {
    int (*ask)(const struct objects *objects, void *out);
    size_t known;
};

#define ASK(name, call)                                                                            \
    static int name(const struct objects *objects, void *out)                                      \
    {                                                                                              \
        return call;                                                                               \
    }

ASK(ask_domain, hmreg_domain_query(objects->fixture->domain, out))
ASK(ask_stats, hmreg_domain_stats(objects->fixture->domain, out))
ASK(ask_paths, hmreg_domain_explain(objects->fixture->domain, HMREG_IFACE_SYSTEM, -1, out))
ASK(ask_mr, hmreg_mr_query(objects->mr, out))
ASK(ask_segment, hmreg_mr_piece(objects->mr, 0, out))
ASK(ask_explain, hmreg_mr_explain(objects->mr, out))
ASK(ask_remote, hmreg_remote_query(objects->remote, out))
ASK(ask_memory, hmreg_query(objects->fixture->lib, objects->fixture->memory, BYTES, out))
ASK(ask_runtime, hmreg_runtime_query(objects->fixture->lib, HMREG_IFACE_SYSTEM, out))
ASK(ask_monitor, hmreg_monitor_query(objects->fixture->lib, out))

#define QUERY(ask, type)                                                                           \
    {                                                                                              \
        ask, sizeof(struct type)                                                                   \
    }

static const struct query queries_of_all[] = {
    QUERY(ask_domain, hmreg_domain_info),   QUERY(ask_stats, hmreg_stats),
    QUERY(ask_paths, hmreg_explanation),    QUERY(ask_mr, hmreg_mr_info),
    QUERY(ask_segment, hmreg_piece_info),   QUERY(ask_explain, hmreg_explanation),
    QUERY(ask_remote, hmreg_remote_info),   QUERY(ask_memory, hmreg_mem_info),
    QUERY(ask_runtime, hmreg_runtime_info), QUERY(ask_monitor, hmreg_monitor_info),
};

/* The call refuses too small a size and writes nothing; it leaves bytes beyond what the caller or
 * the library knows, and the size field, unchanged. */
static void check_sizes(const struct objects *objects, const struct query *query)
{
    const size_t good[] = {query->known, query->known + 64};
    union {
        size_t size;
        unsigned char bytes[16384];
    } out, before;

    memset(&before, 0xa5, sizeof(before));
    assert_in_range(query->known + 64, 64, sizeof(out));
    assert_fails(query->ask(objects, NULL), -EINVAL, "out is NULL");
    for (size_t size = 0; size < query->known; size += query->known - 1) {
        before.size = size;
        out = before;
        assert_fails(query->ask(objects, &out), -EINVAL, "size of struct");
        assert_memory_equal(&out, &before, sizeof(out));
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        before.size = good[i];
        out = before;
        assert_ok(query->ask(objects, &out));
        assert_int_equal(out.size, good[i]);
        assert_memory_equal(out.bytes + query->known, before.bytes + query->known,
                            sizeof(out) - query->known);
    }
}

CASE(query__of_newer_callers_and_too_small)
{
    struct objects objects;

    open_objects(fixture, &objects);
    for (size_t i = 0; i < sizeof(queries_of_all) / sizeof(queries_of_all[0]); i++)
        check_sizes(&objects, &queries_of_all[i]);
    close_objects(&objects);
}

/* ---- tokens ----------------------------------------------------------------------------- */

CASE(pack__room_for_the_token)
{
    struct objects objects;
    uint8_t small[4096], *exact;
    size_t needed, size = 1;

    open_objects(fixture, &objects);
    needed = objects.token_size;
    memset(small, 0xa5, sizeof(small));
    assert_fails(hmreg_mr_pack(objects.mr, small, NULL), -EINVAL, "size is NULL");
    assert_fails(hmreg_mr_pack(objects.mr, NULL, &size), -EINVAL, "buf is NULL");
    assert_int_equal(size, 1);
    for (size_t room = 0; room < needed; room++) {
        size = room;
        assert_fails(hmreg_mr_pack(objects.mr, room ? small : NULL, &size), -HMREG_ETOOSMALL,
                     "takes");
        assert_int_equal(size, needed);
    }
    for (size_t i = 0; i < sizeof(small); i++)
        assert_int_equal(small[i], 0xa5);
    exact = malloc(needed);
    assert_ok(hmreg_mr_pack(objects.mr, exact, &size));
    assert_int_equal(size, needed);
    assert_memory_equal(exact, objects.token, needed);
    free(exact);
    close_objects(&objects);
}

/* ---- the last error --------------------------------------------------------------------- */

CASE(success__leaves_the_last_error)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};
    struct hmreg_domain *domain = fixture->domain;
    struct hmreg_error before;
    struct objects objects;
    struct hmreg_mr *mr;
    uint64_t addr, key;

    assert_fails(hmreg_mr_reg(domain, NULL, 1, HMREG_SEND, 0, 0, 0, &mr, NULL), -EINVAL, "addr");
    before = *hmreg_last_error();
    open_objects(fixture, &objects);
    for (int i = 0; i < 2; i++) {
        assert_ok(hmreg_mr_get(domain, fixture->memory, 16, HMREG_SEND, &mr));
        hmreg_mr_put(mr);
    }
    assert_ok(hmreg_remote_addr(objects.remote, 1, 1, &addr, &key));
    assert_ok(hmreg_domain_stats(domain, &stats));
    assert_ok(hmreg_domain_flush(domain));
    assert_ok(hmreg_invalidate(fixture->lib, fixture->memory, 16));
    close_objects(&objects);
    assert_memory_equal(hmreg_last_error(), &before, sizeof(before));
}
