/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Forked children: every call on an object of the parent answers EPERM. */
#include "tests/conformance/suite.h"

#include <hmreg/suspend.h>
#include <hmreg/table.h>

/* The parent's objects. */
struct parent {
    struct suite_fixture *fixture;
    struct hmreg_mr *mr;
    struct hmreg_remote *remote;
    struct hmreg_table *table;
    uint8_t token[4096];
    size_t token_size;
};

/* In the child; the exit status is the line that failed. */
#define PERM(call)                                                                                 \
    do {                                                                                           \
        if ((call) != -EPERM || hmreg_last_error()->code != -EPERM ||                              \
            !strstr(hmreg_last_error()->text, "forked child"))                                     \
            _exit(__COUNTER__ + 1);                                                                \
    } while (0)

/* Outputs, which no call may touch. */
static union {
    size_t size;
    void *made;
    struct hmreg_remote *remote;
    enum hmreg_remote_state state;
    struct hmreg_table *table;
    struct hmreg_domain *domain;
    struct hmreg_mr *mr;
    uint64_t key;
    uint8_t bytes[4096];
} out = {.size = sizeof(out)};

static void call_library(struct suite_fixture *fixture, struct hmreg *lib, void *memory)
{
    struct hmreg_domain_config config = {.size = sizeof(config)};

    PERM(hmreg_runtime_query(lib, HMREG_IFACE_SYSTEM, (void *)&out));
    PERM(hmreg_device_query(lib, HMREG_IFACE_SYSTEM, 0, (void *)&out));
    PERM(hmreg_monitor_query(lib, (void *)&out));
    PERM(hmreg_query(lib, memory, 16, (void *)&out));
    PERM(hmreg_export_dmabuf(lib, memory, 16, 0, (void *)&out));
    PERM(hmreg_copy(lib, memory, out.bytes, 16));
    PERM(hmreg_mem_alloc(lib, HMREG_IFACE_SYSTEM, -1, HMREG_MEM_HOST, 16, &out.made));
    PERM(hmreg_mem_free(lib, memory));
    PERM(hmreg_invalidate(lib, memory, 16));
    PERM(hmreg_suspend(lib, memory, 16));
    PERM(hmreg_resume(lib, memory, 16, NULL));
    PERM(fixture->fabric->open_more(fixture, &config, &out.domain));
}

static void call_domain(const struct parent *parent, struct hmreg_domain *domain)
{
    PERM(hmreg_domain_query(domain, (void *)&out));
    PERM(hmreg_domain_explain(domain, HMREG_IFACE_SYSTEM, -1, (void *)&out));
    PERM(hmreg_domain_stats(domain, (void *)&out));
    PERM(hmreg_domain_flush(domain));
    PERM(hmreg_domain_progress(domain));
    PERM(hmreg_domain_bind(domain, &out, HMREG_BIND_REG_MR));
    PERM(hmreg_domain_map_raw(domain, 0, out.bytes, 8, &out.key, 0));
    PERM(hmreg_domain_unmap_raw(domain, 1));
    PERM(hmreg_remote_open(domain, parent->token, parent->token_size, &out.remote));
    PERM(hmreg_remote_open_many(domain, parent->token, parent->token_size, &out.remote, &out.size));
    PERM(hmreg_table_open(domain, &out, 1, 0, &out.table));
}

static void register_memory(struct hmreg_domain *domain, void *memory)
{
    struct hmreg_segment one = {.u.memory = {memory, 16}};
    struct iovec iov = {memory, 16};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .iov = &iov, .iov_count = 1, .access = HMREG_SEND};

    PERM(hmreg_mr_reg(domain, memory, 16, HMREG_SEND, 0, 0, 0, &out.mr, NULL));
    PERM(hmreg_mr_regv(domain, &iov, 1, HMREG_SEND, 0, 0, 0, &out.mr, NULL));
    PERM(hmreg_mr_regattr(domain, &attr, 0, &out.mr));
    PERM(hmreg_mr_regsgl(domain, &one, 1, HMREG_SEND, 0, 0, 0, &out.mr, NULL));
    PERM(hmreg_mr_get(domain, memory, 16, HMREG_SEND, &out.mr));
    PERM(hmreg_mr_get_attr(domain, &attr, 0, &out.mr));
}

static void call_region(const struct parent *parent, struct hmreg_mr *mr)
{
    uint64_t addr;

    PERM(hmreg_mr_query(mr, (void *)&out));
    PERM(hmreg_mr_piece(mr, 0, (void *)&out));
    PERM(hmreg_mr_explain(mr, (void *)&out));
    PERM(hmreg_mr_pack(mr, NULL, &out.size));
    PERM(hmreg_mr_pack_range(mr, parent->fixture->memory, 1, NULL, &out.size));
    PERM(hmreg_mr_pack_many(&mr, 1, NULL, &out.size));
    PERM(hmreg_mr_raw_attr(mr, &addr, NULL, &out.size, 0));
    PERM(hmreg_mr_bind(mr, &out, 0));
    PERM(hmreg_mr_enable(mr));
    PERM(hmreg_mr_refresh(mr, NULL, 0, 0));
    PERM(hmreg_remote_query(parent->remote, (void *)&out));
    PERM(hmreg_remote_addr(parent->remote, 0, 1, &addr, &out.key));
    PERM(hmreg_remote_flatten(parent->remote, (void *)&out));
    PERM(hmreg_remote_check(parent->remote, parent->token, parent->token_size, &out.state));
    PERM(hmreg_remote_renew(parent->remote, parent->token, parent->token_size));
    PERM(hmreg_table_write(parent->table, 0, 1, parent->token, parent->token_size, 0));
    PERM(hmreg_table_write(parent->table, 0, 1, NULL, 0, 0));
    hmreg_table_close(parent->table); /* has no effect */
}

static void run_child(const struct parent *parent)
{
    struct suite_fixture *fixture = parent->fixture;

    call_library(fixture, fixture->lib, fixture->memory);
    call_domain(parent, fixture->domain);
    register_memory(fixture->domain, fixture->memory);
    call_region(parent, parent->mr);
    hmreg_mr_put(parent->mr);
    hmreg_remote_close(parent->remote);
    PERM(hmreg_mr_close(parent->mr));
    PERM(hmreg_domain_close(fixture->domain));
    PERM(hmreg_close(fixture->lib));
    _exit(0);
}

CASE(fork__every_call_on_the_parents_objects__perm)
{
    struct parent parent = {.fixture = fixture, .token_size = sizeof(parent.token)};
    struct hmreg_table_entry entry;
    pid_t pid;

    parent.mr = suite_reg(fixture, fixture->memory, 64, HMREG_ACCESS_ALL, 5);
    assert_ok(hmreg_mr_pack(parent.mr, parent.token, &parent.token_size));
    parent.remote = suite_peer(fixture, parent.mr);
    assert_ok(hmreg_table_open(fixture->peer, &entry, 1, 0, &parent.table));
    pid = fork();
    if (pid == 0)
        run_child(&parent);
    test_await(pid);
    hmreg_table_close(parent.table);
    hmreg_remote_close(parent.remote);
    suite_close(fixture, parent.mr);
}
