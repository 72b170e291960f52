/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * A group of two NICs that differ: Soft-RoCE, which imports dmabufs here, and Soft-iWARP, which
 * does not. */
#include "tests/rdma/bench.h"
#include "tests/support/softgpu.h"
#include "tests/support/test.h"

#include <hmreg/group.h>

#define BYTES 8192

struct rails {
    struct bench bench[2]; /* RoCE, iWARP */
    struct hmreg *lib;
    struct hmreg_domain *group, *member[2];
};

static void open_rails(struct rails *rails, uint32_t flags)
{
    static const char *const names[] = {"rxe0", "siw0"};
    struct hmreg_group_config config = {.size = sizeof(config), .flags = flags};

    assert_ok(hmreg_open(NULL, &rails->lib));
    for (int i = 0; i < 2; i++) {
        if (!bench_begin_on(&rails->bench[i], names[i]))
            test_skip("no device %s with an active port", names[i]);
        assert_ok(hmreg_domain_open_verbs(rails->lib, rails->bench[i].pd, NULL, &rails->member[i]));
    }
    assert_ok(hmreg_group_open(rails->lib, rails->member, 2, &config, &rails->group));
}

static void close_rails(struct rails *rails)
{
    assert_ok(hmreg_domain_close(rails->group));
    for (int i = 0; i < 2; i++)
        assert_ok(hmreg_domain_close(rails->member[i]));
    assert_ok(hmreg_close(rails->lib));
    for (int i = 0; i < 2; i++)
        bench_end(&rails->bench[i]);
}

/* Each NIC writes its half of the target, and reads the whole, by its own keys of both regions. */
static void move(struct rails *rails, int i, const struct hmreg_mr *target, const char *memory,
                 const struct hmreg_mr *source, char *local)
{
    struct bench *bench = &rails->bench[i];
    uint32_t rkey = (uint32_t)hmreg_mr_key(hmreg_mr_rail(target, i));
    const struct hmreg_mr *mr = hmreg_mr_rail(source, i);
    uint64_t addr = (uintptr_t)memory;

    memset(local, 'a' + i, BYTES / 2);
    assert_int_equal(
        bench_rdma(bench, IBV_WR_RDMA_WRITE, local, BYTES / 2, mr, addr + i * BYTES / 2, rkey),
        IBV_WC_SUCCESS);
    assert_memory_equal(memory + i * BYTES / 2, local, BYTES / 2);
    memset(local, 0, BYTES);
    assert_int_equal(bench_rdma(bench, IBV_WR_RDMA_READ, local, BYTES, mr, addr, rkey),
                     IBV_WC_SUCCESS);
    assert_memory_equal(local, memory, BYTES);
}

TEST(group__roce_and_iwarp__each_moves_bytes_by_its_own_keys)
{
    struct hmreg_mr *target = NULL, *source = NULL;
    char *memory = calloc(1, BYTES), *local = calloc(1, BYTES);
    struct rails rails;

    open_rails(&rails, 0);
    assert_ok(hmreg_mr_get(rails.group, memory, BYTES, HMREG_ACCESS_REMOTE, &target));
    assert_ok(hmreg_mr_get(rails.group, local, BYTES, HMREG_READ | HMREG_WRITE, &source));
    for (int i = 0; i < 2; i++)
        move(&rails, i, target, memory, source, local);
    hmreg_mr_put(source);
    hmreg_mr_put(target);
    close_rails(&rails);
    free(memory);
    free(local);
}

/* On all or on none, and the error says which did not; in part where the group permits it. */
TEST(group__one_imports_no_dmabuf__none_or_in_part)
{
    struct hmreg_mr_dmabuf dmabuf = {.fd = softgpu_alloc(BYTES, 0), .len = BYTES};
    struct hmreg_mr_attr attr = {
        .size = sizeof(attr), .access = HMREG_ACCESS_REMOTE, .dmabuf = &dmabuf};
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr *mr = NULL;
    struct rails rails;

    open_rails(&rails, 0);
    assert_fails(hmreg_mr_regattr(rails.group, &attr, HMREG_REG_DMABUF, &mr), -EOPNOTSUPP,
                 "rail 1 (siw0): no path");
    assert_ok(hmreg_mr_explain(NULL, &why));
    assert_string_equal(why.reasons[0].slug, "nic-imports-no-dmabuf");
    assert_null(mr);
    close_rails(&rails);
    open_rails(&rails, HMREG_GROUP_PARTIAL);
    assert_ok(hmreg_mr_regattr(rails.group, &attr, HMREG_REG_DMABUF, &mr));
    assert_non_null(hmreg_mr_rail(mr, 0));
    assert_null(hmreg_mr_rail(mr, 1));
    assert_non_null(strstr(hmreg_last_error()->text, "siw0"));
    assert_ok(hmreg_mr_close(mr));
    close_rails(&rails);
    close(dmabuf.fd);
    softgpu_assert_clean();
}

TEST_MAIN()
