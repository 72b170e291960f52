/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * What NVIDIA's nvidia-peermem does and softgpu's imitation of it does not, on softgpu's memory:
 * run by peermem.sh, which loads the module. Its counters are those of tests/guest/peermem.
 */
#include "tests/support/softgpu.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define BYTES  SOFTGPU_NVIDIA_PAGE
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct bench {
    struct ibv_context *context;
    struct ibv_pd *pd;
    void *bytes;
    int fd, callbacks;
};

static int counter(const char *name)
{
    char path[80], text[16];
    FILE *file;
    int value;

    snprintf(path, sizeof(path), "/sys/module/softgpu_p2p/parameters/%s", name);
    file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof(text), file));
    value = atoi(text);
    fclose(file);
    return value;
}

static void set_persistent(const char *value)
{
    int fd = open("/sys/module/softgpu_p2p/parameters/persistent", O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, value, 1), 1);
    close(fd);
}

static void serve(const char *client)
{
    softgpu_peermem(false);
    softgpu_set("client", client);
    softgpu_peermem(true);
}

static struct bench open_bench(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct bench bench = {.callbacks = counter("callbacks")};
    void *room;

    assert_non_null(list);
    assert_non_null(list[0]);
    bench.context = ibv_open_device(list[0]);
    assert_non_null(bench.context);
    ibv_free_device_list(list);
    bench.pd = ibv_alloc_pd(bench.context);
    assert_non_null(bench.pd);
    softgpu_set("nvidia", "1");
    bench.fd = softgpu_alloc(BYTES, 0);
    softgpu_set("nvidia", "0");
    room = mmap(NULL, 2 * BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(room, MAP_FAILED);
    bench.bytes = (void *)(((uintptr_t)room + BYTES - 1) & ~(uintptr_t)(BYTES - 1));
    assert_ptr_equal(
        mmap(bench.bytes, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, bench.fd, 0),
        bench.bytes);
    return bench;
}

static void free_memory(struct bench *bench)
{
    munmap(bench->bytes, BYTES);
    close(bench->fd);
}

static void close_bench(struct bench *bench)
{
    assert_int_equal(ibv_dealloc_pd(bench->pd), 0);
    assert_int_equal(ibv_close_device(bench->context), 0);
    softgpu_peermem(false);
    softgpu_set("client", "softgpu");
    softgpu_assert_clean();
    assert_int_equal(counter("tables"), 0);
}

static struct ibv_mr *reg(const struct bench *bench)
{
    struct ibv_mr *mr = ibv_reg_mr(bench->pd, bench->bytes, BYTES, ACCESS);

    assert_non_null(mr);
    return mr;
}

/* MIG, vGPU. The client has said by then that the memory is its, so no other is asked. */
TEST(persistent_pages_refused__registration_fails_with_that)
{
    struct bench bench = open_bench();

    set_persistent("0");
    serve("nv_mem_nc");
    errno = 0;
    assert_null(ibv_reg_mr(bench.pd, bench.bytes, BYTES, ACCESS));
    assert_int_equal(errno, 524);
    serve("nv_mem");
    assert_int_equal(ibv_dereg_mr(reg(&bench)), 0);
    set_persistent("1");
    free_memory(&bench);
    close_bench(&bench);
}

/* The region no longer holds it. */
TEST(freed__client_that_is_told__memory_is_given_back_at_once)
{
    struct bench bench = open_bench();
    struct ibv_mr *mr;

    serve("nv_mem");
    mr = reg(&bench);
    assert_int_equal(counter("tables"), 1);
    free_memory(&bench);
    assert_int_equal(counter("callbacks"), bench.callbacks + 1);
    assert_int_equal(counter("tables"), 0);
    for (int i = 0; i < TEST_PATIENCE_SECONDS * 100 && softgpu_stat(-1).buffers; i++)
        usleep(10000); /* the kernel frees it later */
    assert_int_equal(softgpu_stat(-1).buffers, 0);
    assert_int_equal(softgpu_stat(-1).regions, 1);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    close_bench(&bench);
}

TEST(freed__both_clients__one_is_told_and_the_other_holds_it)
{
    struct bench bench = open_bench();
    struct ibv_mr *told, *untold;

    serve("nv_mem");
    told = reg(&bench);
    serve("nv_mem_nc");
    untold = reg(&bench);
    assert_int_equal(counter("tables"), 2);
    free_memory(&bench);
    assert_int_equal(counter("callbacks"), bench.callbacks + 1);
    assert_int_equal(counter("tables"), 1);
    assert_int_equal(ibv_dereg_mr(told), 0);
    assert_int_equal(softgpu_stat(-1).buffers, 1);
    assert_int_equal(ibv_dereg_mr(untold), 0);
    close_bench(&bench);
}

static void hold_for_ever(int ready)
{
    struct bench bench = open_bench();
    char held = 1;

    reg(&bench);
    if (write(ready, &held, 1) == 1)
        pause();
    _exit(0);
}

TEST(process_killed__nothing_is_left)
{
    static const char *const clients[] = {"nv_mem", "nv_mem_nc"};
    int callbacks = counter("callbacks");

    for (int i = 0; i < 2; i++) {
        int ready[2], status;
        char held = 0;
        pid_t child;

        serve(clients[i]);
        assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
        child = fork();
        if (!child)
            hold_for_ever(ready[1]);
        close(ready[1]); /* so that a child that fails ends the read */
        assert_int_equal(read(ready[0], &held, 1), 1);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        close(ready[0]);
        softgpu_assert_clean();
        assert_int_equal(counter("tables"), 0);
    }
    assert_int_equal(counter("callbacks"), callbacks + 1);
    softgpu_peermem(false);
    softgpu_set("client", "softgpu");
}

TEST_MAIN()
