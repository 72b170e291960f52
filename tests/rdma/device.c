/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Device memory on a real kernel: RDMA writes it through hmreg's regions, by a dmabuf and by peer
 * memory, and nothing else; a refusal has a reason; nothing leaks. */
#include "tests/rdma/device.h"
#include "tests/support/queries.h"
#include "tests/support/softgpu.h"

#include <hmreg/suspend.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static const enum hmreg_path paths[] = {HMREG_PATH_DMABUF, HMREG_PATH_PEERMEM};
#define PATHS (sizeof(paths) / sizeof(paths[0]))

/* A case that runs with each path. */
#define CASE(name)                                                                                 \
    static void name##_on(enum hmreg_path path);                                                   \
    TEST(name)                                                                                     \
    {                                                                                              \
        for (size_t i = 0; i < PATHS; i++)                                                         \
            name##_on(paths[i]);                                                                   \
    }                                                                                              \
    static void name##_on(enum hmreg_path path)

static void assert_path(const struct hmreg_mr *mr, enum hmreg_path path)
{
    assert_int_equal(test_info_of(mr).path, path);
    assert_int_equal(test_info_of(mr).iface, device_iface());
}

/* ---- bytes ------------------------------------------------------------------------------ */

CASE(rdma_write__lands_and_neighbours_stay)
{
    struct target target;
    struct bench bench;

    device_open(&bench, path);
    target_open(&bench, &target, HMREG_REMOTE_WRITE);
    assert_path(target.mr, path);
    memcpy(target.expected + TARGET_SKEW + 4097, target.source, 50021);
    assert_int_equal(target_rdma(&bench, &target, IBV_WR_RDMA_WRITE, 4097, 50021), IBV_WC_SUCCESS);
    target_assert_expected(&bench, &target);
    memcpy(target.expected + TARGET_SKEW, target.source, TARGET_BYTES);
    assert_int_equal(target_rdma(&bench, &target, IBV_WR_RDMA_WRITE, 0, TARGET_BYTES),
                     IBV_WC_SUCCESS);
    target_assert_expected(&bench, &target);
    target_close(&bench, &target);
    device_close(&bench);
}

CASE(rdma_read__brings_the_devices_bytes)
{
    struct target target;
    struct bench bench;

    device_open(&bench, path);
    target_open(&bench, &target, HMREG_REMOTE_READ);
    target.source[TARGET_BYTES - 1] = 0x5a;
    assert_int_equal(target_rdma(&bench, &target, IBV_WR_RDMA_READ, 1, TARGET_BYTES - 1),
                     IBV_WC_SUCCESS);
    assert_memory_equal(target.source, target.expected + TARGET_SKEW + 1, TARGET_BYTES - 1);
    assert_int_equal(target.source[TARGET_BYTES - 1], 0x5a);
    target_assert_expected(&bench, &target);
    target_close(&bench, &target);
    device_close(&bench);
}

/* A refused operation stops the queue pair, so each has a bench of its own. */
static void refused_on(enum hmreg_path path, enum ibv_wr_opcode opcode, uint64_t access,
                       int64_t offset)
{
    struct target target;
    struct bench bench;

    device_open(&bench, path);
    target_open(&bench, &target, access);
    assert_int_equal(target_rdma(&bench, &target, opcode, (uint64_t)offset, 64),
                     IBV_WC_REM_ACCESS_ERR);
    target_assert_expected(&bench, &target);
    target_close(&bench, &target);
    device_close(&bench);
}

TEST(rdma__outside_or_not_granted__device_refuses)
{
    for (size_t i = 0; i < PATHS; i++) {
        refused_on(paths[i], IBV_WR_RDMA_WRITE, HMREG_REMOTE_WRITE, TARGET_BYTES - 63);
        refused_on(paths[i], IBV_WR_RDMA_WRITE, HMREG_REMOTE_WRITE, -1);
        refused_on(paths[i], IBV_WR_RDMA_READ, HMREG_REMOTE_READ, TARGET_BYTES - 63);
        refused_on(paths[i], IBV_WR_RDMA_WRITE, HMREG_REMOTE_READ, 0);
    }
}

/* Device to device: both sides of the operation are hmreg regions. */
TEST(rdma_write__from_device_memory)
{
    struct target from, to;
    struct bench bench;

    for (size_t i = 0; i < PATHS; i++) {
        device_open(&bench, paths[i]);
        target_open(&bench, &from, HMREG_WRITE);
        target_open(&bench, &to, HMREG_REMOTE_WRITE);
        assert_int_equal(bench_rdma(&bench, IBV_WR_RDMA_WRITE, from.memory + TARGET_SKEW, 5000,
                                    from.mr, (uintptr_t)to.memory + TARGET_SKEW + 3,
                                    hmreg_mr_head_of(to.mr)->keys->rkey),
                         IBV_WC_SUCCESS);
        memcpy(to.expected + TARGET_SKEW + 3, from.expected + TARGET_SKEW, 5000);
        target_assert_expected(&bench, &to);
        target_close(&bench, &from);
        target_close(&bench, &to);
        device_close(&bench);
    }
}

/* The kernel's client knows the memory, whatever the claim says; NVIDIA's is for CUDA's alone. */
TEST(rdma_write__memory_of_an_iface_without_runtime__lands)
{
    const char *rules = getenv("SOFTGPU_RULES");
    struct iovec iov = {.iov_len = TARGET_BYTES};
    struct hmreg_mr_attr attr = {.size = sizeof(attr),
                                 .iov = &iov,
                                 .iov_count = 1,
                                 .access = HMREG_REMOTE_WRITE,
                                 .claim_iface = HMREG_CLAIM_TRUSTED,
                                 .iface = HMREG_IFACE_NEURON};
    struct target target;
    struct bench bench;
    int rc;

    device_open(&bench, HMREG_PATH_PEERMEM);
    target_alloc(&bench, &target);
    iov.iov_base = target.memory + TARGET_SKEW;
    rc = hmreg_mr_regattr(bench.domain, &attr, 0, &target.mr);
    if (rules && !strcmp(rules, "nvidia")) {
        assert_int_equal(rc, -EOPNOTSUPP);
        assert_string_equal(test_why_of(NULL).reasons[0].slug, "no-peer-memory");
    } else {
        assert_ok(rc);
        assert_int_equal(test_info_of(target.mr).path, HMREG_PATH_PEERMEM);
        assert_int_equal(test_info_of(target.mr).iface, HMREG_IFACE_NEURON);
        memcpy(target.expected + TARGET_SKEW + 4097, target.source, 50021);
        assert_int_equal(target_rdma(&bench, &target, IBV_WR_RDMA_WRITE, 4097, 50021),
                         IBV_WC_SUCCESS);
        target_assert_expected(&bench, &target);
    }
    target_close(&bench, &target);
    device_close(&bench);
}

/* Other memory comes to the same addresses, of another buffer. */
CASE(suspend__device_memory_is_the_kernels_again__and_resume_writes_the_new)
{
    unsigned buffers = softgpu_stat(-1).buffers;
    struct target target;
    struct bench bench;
    void *again = NULL;

    device_open(&bench, path);
    target_open(&bench, &target, HMREG_REMOTE_WRITE);
    assert_ok(hmreg_suspend(bench.lib, target.memory, TARGET_ROOM));
    assert_int_equal(softgpu_stat(-1).regions, 0);
    assert_int_equal(hmreg_mr_head_of(target.mr)->keys->rkey, HMREG_VERBS_KEY_NOTAVAIL);
    assert_ok(hmreg_mem_free(bench.lib, target.memory));
    assert_int_equal(softgpu_stat(-1).buffers, buffers);
    assert_ok(hmreg_mem_alloc(bench.lib, device_iface(), 0, HMREG_MEM_DEVICE, TARGET_ROOM, &again));
    assert_ptr_equal(again, target.memory);
    assert_ok(hmreg_copy(bench.lib, again, target.expected, TARGET_ROOM));
    assert_ok(hmreg_resume(bench.lib, target.memory, TARGET_ROOM, NULL));
    assert_path(target.mr, path);
    memcpy(target.expected + TARGET_SKEW + 10, target.source, 5000);
    assert_int_equal(target_rdma(&bench, &target, IBV_WR_RDMA_WRITE, 10, 5000), IBV_WC_SUCCESS);
    target_assert_expected(&bench, &target);
    target_close(&bench, &target);
    device_close(&bench);
}

TEST(get__region_serves_rdma)
{
    struct target target;
    struct hmreg_mr *mr;
    struct bench bench;

    device_open(&bench, HMREG_PATH_DMABUF);
    target_alloc(&bench, &target);
    for (int i = 0; i < 3; i++) {
        assert_ok(
            hmreg_mr_get(bench.domain, target.memory + 100 + i, 1000, HMREG_REMOTE_WRITE, &mr));
        assert_int_equal(bench_rdma(&bench, IBV_WR_RDMA_WRITE, target.source, 1000,
                                    target.source_mr, (uintptr_t)target.memory + 100 + i,
                                    hmreg_mr_head_of(mr)->keys->rkey),
                         IBV_WC_SUCCESS);
        memcpy(target.expected + 100 + i, target.source, 1000);
        target_assert_expected(&bench, &target);
        hmreg_mr_put(mr);
    }
    assert_ok(hmreg_domain_flush(bench.domain));
    target_close(&bench, &target);
    device_close(&bench);
}

/* ---- choice of a path ------------------------------------------------------------------- */

TEST(reg__while_registered__attached_once_and_pinned)
{
    struct softgpu_stat stat;
    struct target target;
    struct bench bench;
    int fd;

    for (size_t i = 0; i < PATHS; i++) {
        device_open(&bench, paths[i]);
        target_open(&bench, &target, HMREG_REMOTE_WRITE);
        fd = target_descriptor(&bench, &target);
        stat = softgpu_stat(fd);
        assert_int_equal(stat.attached, 1);
        assert_true(stat.pinned >= 1);
        assert_ok(hmreg_mr_close(target.mr));
        target.mr = NULL;
        stat = softgpu_stat(fd);
        assert_int_equal(stat.attached + stat.pinned + stat.mapped, 0);
        close(fd);
        target_close(&bench, &target);
        device_close(&bench);
    }
}

static struct hmreg_reason refused(struct bench *bench, struct target *target)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr *mr = (void *)1;

    assert_fails(
        hmreg_mr_reg(bench->domain, target->memory, 5000, HMREG_REMOTE_WRITE, 0, 0, 0, &mr, NULL),
        -EOPNOTSUPP, "no path to this");
    assert_ptr_equal(mr, (void *)1);
    assert_ok(hmreg_mr_explain(NULL, &why));
    assert_int_equal(why.refused, 1);
    return why.reasons[0];
}

TEST(reg__no_peer_memory__refused_with_the_remedy)
{
    struct hmreg_reason reason;
    struct target target;
    struct bench bench;

    device_open(&bench, HMREG_PATH_PEERMEM);
    softgpu_peermem(false);
    target_alloc(&bench, &target);
    reason = refused(&bench, &target);
    assert_string_equal(reason.slug, "no-peer-memory");
    target_close(&bench, &target);
    device_close(&bench);
}

TEST(reg__mapped__refused)
{
    struct target target;
    struct bench bench;

    device_open(&bench, HMREG_PATH_MAPPED);
    target_alloc(&bench, &target);
    assert_string_equal(refused(&bench, &target).slug, "fabric-pins-pages");
    target_close(&bench, &target);
    device_close(&bench);
}

/* ---- failures of the exporter ----------------------------------------------------------- */

TEST(alloc_fails__the_vendors_error)
{
    struct bench bench;
    void *memory = (void *)1;

    device_open(&bench, HMREG_PATH_DMABUF);
    softgpu_fail(SOFTGPU_OP_ALLOC, ENOMEM);
    assert_fails(
        hmreg_mem_alloc(bench.lib, device_iface(), 0, HMREG_MEM_DEVICE, TARGET_ROOM, &memory),
        -ENOMEM, "");
    assert_ptr_equal(memory, (void *)1);
    device_close(&bench);
}

/* The caller receives the kernel's error. */
static void import_fails_on(enum hmreg_path path, enum softgpu_op step)
{
    struct hmreg_reason reason;
    struct target target;
    struct bench bench;

    device_open(&bench, path);
    target_alloc(&bench, &target);
    softgpu_fail(step, ENOSPC);
    reason = refused(&bench, &target);
    assert_string_equal(reason.slug,
                        path == HMREG_PATH_DMABUF ? "dmabuf-import-failed" : "peer-memory-refused");
    assert_int_equal(reason.code, -ENOSPC);
    assert_int_equal(reason.vendor_code, ENOSPC);
    assert_int_equal(softgpu_stat(-1).regions, 0);
    assert_ok(hmreg_mr_reg(bench.domain, target.memory + TARGET_SKEW, TARGET_BYTES,
                           HMREG_REMOTE_WRITE, 0, 0, 0, &target.mr, NULL));
    target_close(&bench, &target);
    device_close(&bench);
}

TEST(import_fails__reason_then_works_again)
{
    static const enum softgpu_op steps[] = {SOFTGPU_OP_ATTACH, SOFTGPU_OP_PIN, SOFTGPU_OP_MAP};

    for (size_t i = 0; i < PATHS; i++)
        for (size_t step = 0; step < sizeof(steps) / sizeof(steps[0]); step++)
            import_fails_on(paths[i], steps[step]);
}

TEST(import_fails__next_path_is_taken)
{
    struct hmreg_domain_config config = {.size = sizeof(config),
                                         .order = {HMREG_PATH_DMABUF, HMREG_PATH_PEERMEM}};
    struct target target;
    struct bench bench;

    softgpu_need();
    softgpu_peermem(true);
    bench_open_with(&bench, &config);
    softgpu_fail(SOFTGPU_OP_PIN, ENOSPC);
    target_open(&bench, &target, HMREG_REMOTE_WRITE);
    assert_path(target.mr, HMREG_PATH_PEERMEM);
    assert_int_equal(test_why_of(target.mr).refused, 1);
    assert_int_equal(test_why_of(target.mr).reasons[0].code, -ENOSPC);
    target_close(&bench, &target);
    device_close(&bench);
}

/* The exporter answers so whatever fails, so the path is refused. */
TEST(out_of_memory__the_path_is_refused)
{
    struct target target;
    struct bench bench;

    device_open(&bench, HMREG_PATH_DMABUF);
    target_alloc(&bench, &target);
    softgpu_fail(SOFTGPU_OP_PIN, ENOMEM);
    assert_non_null(strstr(refused(&bench, &target).text, "no room for it"));
    target_close(&bench, &target);
    device_close(&bench);
}

/* A region pins its memory; without a region it can move, and the next registration finds it. */
CASE(move__while_registered__refused_then_followed)
{
    struct target target;
    struct bench bench;
    int fd;

    device_open(&bench, path);
    target_open(&bench, &target, HMREG_REMOTE_WRITE);
    fd = target_descriptor(&bench, &target);
    assert_int_equal(softgpu_move(fd, false), -1);
    assert_int_equal(errno, EBUSY);
    assert_ok(hmreg_mr_close(target.mr));
    softgpu_fail(SOFTGPU_OP_MOVE, EIO);
    assert_int_equal(softgpu_move(fd, false), -1);
    assert_int_equal(errno, EIO);
    assert_int_equal(softgpu_move(fd, false), 0);
    assert_ok(hmreg_mr_reg(bench.domain, target.memory + TARGET_SKEW, TARGET_BYTES,
                           HMREG_REMOTE_WRITE, 0, 0, 0, &target.mr, NULL));
    assert_int_equal(target_rdma(&bench, &target, IBV_WR_RDMA_WRITE, 0, 5000), IBV_WC_SUCCESS);
    memcpy(target.expected + TARGET_SKEW, target.source, 5000);
    target_assert_expected(&bench, &target);
    close(fd);
    target_close(&bench, &target);
    device_close(&bench);
}

/* As by a reset of the GPU: the region becomes useless, but does no harm and closes. */
CASE(move__forced__region_still_closes)
{
    unsigned before = softgpu_stat(-1).moved;
    struct target target;
    struct bench bench;
    int fd;

    device_open(&bench, path);
    target_open(&bench, &target, HMREG_REMOTE_WRITE);
    fd = target_descriptor(&bench, &target);
    assert_int_equal(softgpu_move(fd, true), 0);
    assert_int_equal(softgpu_stat(-1).moved, before + 1);
    assert_int_equal(target_rdma(&bench, &target, IBV_WR_RDMA_WRITE, 0, 5000), IBV_WC_SUCCESS);
    target_assert_expected(&bench, &target);
    close(fd);
    target_close(&bench, &target);
    device_close(&bench);
}

/* ---- processes and threads -------------------------------------------------------------- */

/* HOLDER's process inherits nothing: a runtime that a parent has used works in no child. */
static pid_t start_holder(enum hmreg_path path, int *ready)
{
    int ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (!child) {
        dup2(ends[1], STDOUT_FILENO);
        execl(HOLDER, HOLDER, hmreg_path_name(path), NULL);
        _exit(1);
    }
    close(ends[1]);
    *ready = ends[0];
    return child;
}

CASE(killed__nothing_is_left)
{
    struct softgpu_stat stat;
    int ready = -1, status;
    pid_t child;
    char byte;

    softgpu_need();
    softgpu_peermem(path == HMREG_PATH_PEERMEM);
    child = start_holder(path, &ready);
    assert_int_equal(read(ready, &byte, 1), 1);
    stat = softgpu_stat(-1);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(stat.regions, 1);
    assert_true(WIFSIGNALED(status));
    close(ready);
    softgpu_peermem(false);
    softgpu_assert_clean();
}

/* The child is refused every call, and its end does not affect the parent. */
static int try_as_child(struct bench *bench, struct target *target)
{
    struct hmreg_mr *mr = NULL;
    int code = hmreg_mr_reg(bench->domain, target->memory, 64, HMREG_SEND, 0, 0, 0, &mr, NULL);

    return code == -EPERM && !mr && hmreg_mr_close(target->mr) == -EPERM ? 0 : 1;
}

TEST(fork__parents_region_goes_on)
{
    struct target target;
    struct bench bench;

    for (size_t i = 0; i < PATHS; i++) {
        device_open(&bench, paths[i]);
        target_open(&bench, &target, HMREG_REMOTE_WRITE);
        test_in_child(try_as_child(&bench, &target));
        assert_int_equal(target_rdma(&bench, &target, IBV_WR_RDMA_WRITE, 0, TARGET_BYTES),
                         IBV_WC_SUCCESS);
        memcpy(target.expected + TARGET_SKEW, target.source, TARGET_BYTES);
        target_assert_expected(&bench, &target);
        target_close(&bench, &target);
        device_close(&bench);
    }
}

#define THREADS 4
#define ROUNDS  20

/* Returns the number of failed calls. */
static void *register_often(void *argument)
{
    struct bench *bench = argument;
    uintptr_t failed = 0;

    for (int i = 0; i < ROUNDS; i++) {
        struct hmreg_mr *mr = NULL, *cached = NULL;
        void *memory = NULL;

        failed += hmreg_mem_alloc(bench->lib, device_iface(), i & 1, HMREG_MEM_DEVICE, 20000,
                                  &memory) != 0;
        failed += hmreg_mr_reg(bench->domain, (char *)memory + i, 10000, HMREG_REMOTE_WRITE, 0, 0,
                               0, &mr, NULL) != 0;
        failed += hmreg_mr_get(bench->domain, memory, 20000, HMREG_REMOTE_READ, &cached) != 0;
        hmreg_mr_put(cached);
        failed += hmreg_mr_close(mr) != 0;
        failed += hmreg_mem_free(bench->lib, memory) != 0;
    }
    return (void *)failed;
}

CASE(four_threads__nothing_fails_and_nothing_is_left)
{
    pthread_t threads[THREADS];
    struct bench bench;
    void *failed;

    device_open(&bench, path);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, register_often, &bench), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failed);
        assert_int_equal((uintptr_t)failed, 0);
    }
    device_close(&bench);
}

TEST_MAIN()
