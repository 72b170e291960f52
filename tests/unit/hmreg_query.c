/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The contract of hmreg_query() in rows: who claims what, which range is asked for, and the answer.
 * Every runtime is asked, and nothing is guessed. Each row has a world of its own. A query that
 * fails leaves its output and the descriptors; one that succeeds leaves the last error.
 */
#include "tests/support/table.h"
#include "tests/support/vendors.h"

#define CUDA   HMREG_IFACE_CUDA
#define ROCR   HMREG_IFACE_ROCR
#define ZE     HMREG_IFACE_ZE
#define SYSTEM HMREG_IFACE_SYSTEM

#define PINNED  HMREG_MEM_HOST_PINNED
#define MANAGED HMREG_MEM_MANAGED
#define DEVICE  HMREG_MEM_DEVICE

#define PAGE  4096u
#define APART 0x10000u /* devices' addresses of what the CPU has at the host memory's beginning */

struct args {
    int usual_;
    struct claim {
        enum hmreg_iface iface; /* 0: none */
        enum hmreg_mem_kind kind;
        uint64_t at, len; /* in the host memory, or apart: there */
        int device;
        bool endless, apart;
    } claims[3];
    enum hmreg_iface failing; /* its resolve fails; 0: none */
    uint64_t at, len;         /* of the query, as of the first claim; len 0: 16 */
};

#define CLAIM_BOTH      FAILS(-EEXIST, "cuda and ze both claim", NULL)
#define IS(whose, sort) RETURNS((whose) << 8 | (sort), NULL) /* what the memory is */
#define BY(whose, sort, from, bytes, ...)                                                          \
    {                                                                                              \
        .iface = (whose), .kind = (sort), .at = (from), .len = (bytes), __VA_ARGS__                \
    }

static const struct row rows[] = {
    {"no runtime knows it", ARGS(.at = 1, .len = 100), IS(SYSTEM, HMREG_MEM_HOST)},

    /* one owner */
    {"a device's", ARGS({BY(ZE, DEVICE, 0, PAGE, .device = 1)}), IS(ZE, DEVICE)},
    {"pinned, at another address for devices",
     ARGS({BY(CUDA, PINNED, APART, PAGE, .apart = true)}, .at = APART + 16), IS(CUDA, PINNED)},
    {"it ends before the range does", ARGS({BY(ZE, DEVICE, 0, PAGE)}, .at = PAGE - 15),
     FAILS(-ERANGE, "ends at 0x", NULL)},
    {"devices' addresses end before it does",
     ARGS({BY(CUDA, PINNED, APART, PAGE, .apart = true)}, .at = APART + PAGE - 15),
     FAILS(-ERANGE, "ends at 0x11000", NULL)},

    /* Buffers are pinned in parts, of which each is an allocation to its runtime. */
    {"the first part",
     ARGS({BY(CUDA, PINNED, 0, PAGE, .endless = true), BY(ROCR, PINNED, 0, 2 * PAGE)}, .at = 7),
     IS(CUDA, PINNED)},
    {"a part, and all of it another's",
     ARGS({BY(CUDA, PINNED, 0, PAGE, .endless = true), BY(ROCR, PINNED, 0, 2 * PAGE),
           BY(CUDA, PINNED, PAGE, PAGE)},
          .at = 7, .len = 2 * PAGE - 7),
     IS(ROCR, PINNED)},
    {"a part",
     ARGS({BY(CUDA, PINNED, 0, PAGE, .endless = true), BY(ROCR, PINNED, 0, 2 * PAGE)}, .at = 7,
          .len = WORLD_BYTES - 7),
     IS(SYSTEM, HMREG_MEM_HOST)},
    {"a part, and who may own the rest fails",
     ARGS({BY(CUDA, PINNED, 0, PAGE)}, .failing = ZE, .len = WORLD_BYTES),
     FAILS(-EIO, "resolve of ze", NULL)},
    {"a part, and the rest is managed",
     ARGS({BY(CUDA, PINNED, 0, PAGE), BY(CUDA, MANAGED, PAGE, PAGE)}, .len = 2 * PAGE),
     FAILS(-ERANGE, "ends at", NULL)},

    /* runtimes that fail */
    {"cuda fails", ARGS(.failing = CUDA), FAILS(-EIO, "resolve of cuda", NULL)},
    {"rocr fails", ARGS(.failing = ROCR), FAILS(-EIO, "resolve of rocr", NULL)},
    {"ze fails", ARGS(.failing = ZE), FAILS(-EIO, "resolve of ze", NULL)},
    {"cuda fails, it is rocr's", ARGS({BY(ROCR, DEVICE, 0, PAGE)}, .failing = CUDA),
     IS(ROCR, DEVICE)},
    {"rocr fails, it is ze's", ARGS({BY(ZE, DEVICE, 0, PAGE)}, .failing = ROCR), IS(ZE, DEVICE)},
    {"ze fails, it is cuda's", ARGS({BY(CUDA, DEVICE, 0, PAGE)}, .failing = ZE), IS(CUDA, DEVICE)},
    {"ze fails, it is pinned", ARGS({BY(CUDA, PINNED, 0, PAGE)}, .failing = ZE),
     FAILS(-EIO, "ze", NULL)},

    /* two owners */
    {"two devices'", ARGS({BY(CUDA, DEVICE, 0, PAGE), BY(ZE, DEVICE, 0, 2 * PAGE)}), CLAIM_BOTH},
    {"a device's, and managed", ARGS({BY(CUDA, DEVICE, 0, PAGE), BY(ZE, MANAGED, 0, PAGE)}),
     CLAIM_BOTH},
    {"managed, and a device's", ARGS({BY(CUDA, MANAGED, 0, PAGE), BY(ZE, DEVICE, 0, PAGE)}),
     CLAIM_BOTH},
    {"managed by two", ARGS({BY(CUDA, MANAGED, 0, PAGE), BY(ZE, MANAGED, 0, PAGE)}), CLAIM_BOTH},
    {"pinned by two", ARGS({BY(ROCR, PINNED, 0, PAGE), BY(ZE, PINNED, 0, PAGE)}), IS(ROCR, PINNED)},
    {"pinned, and a later one's", ARGS({BY(ZE, MANAGED, 0, PAGE), BY(CUDA, PINNED, 0, PAGE)}),
     IS(ZE, MANAGED)},
    {"pinned, and an earlier one's", ARGS({BY(CUDA, MANAGED, 0, PAGE), BY(ZE, PINNED, 0, PAGE)}),
     IS(CUDA, MANAGED)},
};

static void claim_all(const struct args *args)
{
    for (int i = 0; i < 3 && args->claims[i].iface; i++) {
        const struct claim *asked = &args->claims[i];
        void *addr = (void *)((asked->apart ? 0 : (uintptr_t)world.host) + asked->at);
        struct vendor_claim *claim =
            vendor_claim(asked->iface, addr, asked->len, asked->kind, asked->device);

        claim->endless = asked->endless;
        if (asked->apart)
            claim->range.host_addr = (uintptr_t)world.host;
    }
    if (args->failing)
        vendors[args->failing].resolve_code = -EIO;
}

static void check_answer(const struct args *args, const struct hmreg_mem_info *info, uint64_t addr)
{
    bool apart = args->claims[0].apart, host = info->kind != DEVICE && info->kind != MANAGED;

    assert_int_equal(info->segments, 1);
    assert_int_equal(info->device, info->iface == SYSTEM ? -1 : args->claims[0].device);
    if (host)
        assert_int_equal(info->host_addr, apart ? addr - APART + (uintptr_t)world.host : addr);
    if (info->iface == SYSTEM) {
        assert_int_equal(info->identity, 0);
        assert_int_equal(info->pci.valid, 0);
    }
    if (host)
        assert_int_equal(info->flags, HMREG_MEM_INFO_CPU_ACCESS |
                                          (info->iface == SYSTEM ? 0 : HMREG_MEM_INFO_SIMULATED));
}

static int query(const struct row *row)
{
    const struct args *args = row->args;
    struct hmreg_mem_info info, before;
    uint64_t addr = args->at + (args->claims[0].apart ? 0 : (uintptr_t)world.host);
    int rc;

    claim_all(args);
    memset(&info, 'u', sizeof(info));
    info.size = sizeof(info);
    before = info;
    rc = hmreg_query(world.lib, (void *)(uintptr_t)addr, args->len ? args->len : 16, &info);
    if (rc) {
        assert_memory_equal(&info, &before, sizeof(info));
    } else {
        assert_int_equal(info.iface << 8 | info.kind, row->value);
        check_answer(args, &info, addr);
    }
    if (args->failing && rc)
        assert_int_equal(hmreg_last_error()->vendor_code, 999);
    assert_in_range(world_calls("cuda.resolve"), 1, 60); /* not for each byte of a buffer */
    assert_in_range(world_calls("rocr.resolve"), 1, 60);
    assert_in_range(world_calls("ze.resolve"), 1, 60);
    return rc;
}

TEST(query__each_row)
{
    CHECK_EACH(rows, query);
}

TEST_MAIN()
