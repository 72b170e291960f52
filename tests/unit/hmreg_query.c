/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of hmreg_query() in rows: who claims what, which range is asked for, and the answer.
 * Every runtime is asked, and nothing is guessed. Each row has a world of its own. A query that
 * fails leaves its output and the descriptors; one that succeeds leaves the last error.
 */
#include "tests/support/vendors.h"
#include "tests/support/world.h"

#define CUDA   HMREG_IFACE_CUDA
#define ROCR   HMREG_IFACE_ROCR
#define ZE     HMREG_IFACE_ZE
#define SYSTEM HMREG_IFACE_SYSTEM

#define PINNED  HMREG_MEM_HOST_PINNED
#define MANAGED HMREG_MEM_MANAGED
#define DEVICE  HMREG_MEM_DEVICE

#define PAGE  4096u
#define APART 0x10000u /* devices' addresses of what the CPU has at the host memory's beginning */

struct row {
    const char *circumstance;
    struct {
        enum hmreg_iface iface; /* 0: none */
        enum hmreg_mem_kind kind;
        uint64_t at, len; /* in the host memory, or apart: there */
        int device;
        bool endless, apart;
    } claims[3];
    enum hmreg_iface failing; /* its resolve fails; 0: none */
    uint64_t at, len;         /* of the query, as of the first claim; len 0: 16 */
    int result;
    const char *words;
    enum hmreg_iface iface;
    enum hmreg_mem_kind kind;
};

#define FAILS(code, text) .result = (code), .words = (text)
#define CLAIM_BOTH        FAILS(-EEXIST, "cuda and ze both claim")
#define IS(whose, sort)   .iface = (whose), .kind = (sort)
#define BY(whose, sort, from, bytes, ...)                                                          \
    {                                                                                              \
        .iface = (whose), .kind = (sort), .at = (from), .len = (bytes), __VA_ARGS__                \
    }

static const struct row rows[] = {
    {"no runtime knows it", .at = 1, .len = 100, IS(SYSTEM, HMREG_MEM_HOST)},

    /* one owner */
    {"a device's", {BY(ZE, DEVICE, 0, PAGE, .device = 1)}, IS(ZE, DEVICE)},
    {"pinned, at another address for devices",
     {BY(CUDA, PINNED, APART, PAGE, .apart = true)},
     .at = APART + 16,
     IS(CUDA, PINNED)},
    {"it ends before the range does",
     {BY(ZE, DEVICE, 0, PAGE)},
     .at = PAGE - 15,
     FAILS(-ERANGE, "ends at 0x")},
    {"devices' addresses end before it does",
     {BY(CUDA, PINNED, APART, PAGE, .apart = true)},
     .at = APART + PAGE - 15,
     FAILS(-ERANGE, "ends at 0x11000")},

    /* Buffers are pinned in parts, of which each is an allocation to its runtime. */
    {"the first part",
     {BY(CUDA, PINNED, 0, PAGE, .endless = true), BY(ROCR, PINNED, 0, 2 * PAGE)},
     .at = 7,
     IS(CUDA, PINNED)},
    {"a part, and all of it another's",
     {BY(CUDA, PINNED, 0, PAGE, .endless = true), BY(ROCR, PINNED, 0, 2 * PAGE),
      BY(CUDA, PINNED, PAGE, PAGE)},
     .at = 7,
     .len = 2 * PAGE - 7,
     IS(ROCR, PINNED)},
    {"a part",
     {BY(CUDA, PINNED, 0, PAGE, .endless = true), BY(ROCR, PINNED, 0, 2 * PAGE)},
     .at = 7,
     .len = WORLD_BYTES - 7,
     IS(SYSTEM, HMREG_MEM_HOST)},
    {"a part, and who may own the rest fails",
     {BY(CUDA, PINNED, 0, PAGE)},
     .failing = ZE,
     .len = WORLD_BYTES,
     FAILS(-EIO, "resolve of ze")},
    {"a part, and the rest is managed",
     {BY(CUDA, PINNED, 0, PAGE), BY(CUDA, MANAGED, PAGE, PAGE)},
     .len = 2 * PAGE,
     FAILS(-ERANGE, "ends at")},

    /* runtimes that fail */
    {"cuda fails", .failing = CUDA, FAILS(-EIO, "resolve of cuda")},
    {"rocr fails", .failing = ROCR, FAILS(-EIO, "resolve of rocr")},
    {"ze fails", .failing = ZE, FAILS(-EIO, "resolve of ze")},
    {"cuda fails, it is rocr's", {BY(ROCR, DEVICE, 0, PAGE)}, .failing = CUDA, IS(ROCR, DEVICE)},
    {"rocr fails, it is ze's", {BY(ZE, DEVICE, 0, PAGE)}, .failing = ROCR, IS(ZE, DEVICE)},
    {"ze fails, it is cuda's", {BY(CUDA, DEVICE, 0, PAGE)}, .failing = ZE, IS(CUDA, DEVICE)},
    {"ze fails, it is pinned", {BY(CUDA, PINNED, 0, PAGE)}, .failing = ZE, FAILS(-EIO, "ze")},

    /* two owners */
    {"two devices'", {BY(CUDA, DEVICE, 0, PAGE), BY(ZE, DEVICE, 0, 2 * PAGE)}, CLAIM_BOTH},
    {"a device's, and managed", {BY(CUDA, DEVICE, 0, PAGE), BY(ZE, MANAGED, 0, PAGE)}, CLAIM_BOTH},
    {"managed, and a device's", {BY(CUDA, MANAGED, 0, PAGE), BY(ZE, DEVICE, 0, PAGE)}, CLAIM_BOTH},
    {"managed by two", {BY(CUDA, MANAGED, 0, PAGE), BY(ZE, MANAGED, 0, PAGE)}, CLAIM_BOTH},
    {"pinned by two", {BY(ROCR, PINNED, 0, PAGE), BY(ZE, PINNED, 0, PAGE)}, IS(ROCR, PINNED)},
    {"pinned, and a later one's",
     {BY(ZE, MANAGED, 0, PAGE), BY(CUDA, PINNED, 0, PAGE)},
     IS(ZE, MANAGED)},
    {"pinned, and an earlier one's",
     {BY(CUDA, MANAGED, 0, PAGE), BY(ZE, PINNED, 0, PAGE)},
     IS(CUDA, MANAGED)},
};

static void claim_all(const struct row *row)
{
    for (int i = 0; i < 3 && row->claims[i].iface; i++) {
        bool apart = row->claims[i].apart;
        void *addr = (void *)((apart ? 0 : (uintptr_t)world.host) + row->claims[i].at);
        struct vendor_claim *claim = vendor_claim(row->claims[i].iface, addr, row->claims[i].len,
                                                  row->claims[i].kind, row->claims[i].device);

        claim->endless = row->claims[i].endless;
        if (apart)
            claim->range.host_addr = (uintptr_t)world.host;
    }
    if (row->failing)
        vendors[row->failing].resolve_code = -EIO;
}

static void check_answer(const struct row *row, const struct hmreg_mem_info *info, uint64_t addr)
{
    bool apart = row->claims[0].apart, host = row->kind != DEVICE && row->kind != MANAGED;

    assert_int_equal(info->iface, row->iface);
    assert_int_equal(info->kind, row->kind);
    assert_int_equal(info->segments, 1);
    assert_int_equal(info->device, row->iface == SYSTEM ? -1 : row->claims[0].device);
    if (host)
        assert_int_equal(info->host_addr, apart ? addr - APART + (uintptr_t)world.host : addr);
    if (row->iface == SYSTEM) {
        assert_int_equal(info->identity, 0);
        assert_int_equal(info->pci.valid, 0);
    }
    if (host)
        assert_int_equal(info->flags, HMREG_MEM_INFO_CPU_ACCESS |
                                          (row->iface == SYSTEM ? 0 : HMREG_MEM_INFO_SIMULATED));
    assert_true(test_error_is_old());
}

static void check(const struct row *row)
{
    struct hmreg_mem_info info, before;
    uint64_t addr;
    int rc;

    print_message("%s\n", row->circumstance);
    world_open();
    claim_all(row);
    addr = row->at + (row->claims[0].apart ? 0 : (uintptr_t)world.host);
    memset(&info, 'u', sizeof(info));
    info.size = sizeof(info);
    before = info;
    test_old_error();
    rc = hmreg_query(world.lib, (void *)(uintptr_t)addr, row->len ? row->len : 16, &info);
    if (row->result) {
        assert_fails(rc, row->result, row->words);
        assert_memory_equal(&info, &before, sizeof(info));
    } else {
        assert_ok(rc);
        check_answer(row, &info, addr);
    }
    if (row->failing && row->result)
        assert_int_equal(hmreg_last_error()->vendor_code, 999);
    assert_in_range(world_calls("cuda.resolve"), 1, 60); /* not for each byte of a buffer */
    assert_in_range(world_calls("rocr.resolve"), 1, 60);
    assert_in_range(world_calls("ze.resolve"), 1, 60);
    test_finish();
}

TEST(query__each_row)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check(&rows[i]);
}

TEST_MAIN()
