/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Device memory by a mapping: RMA over libfabric's tcp, which moves bytes with the CPU, writes
 * memory whose pages no NIC could pin, and nothing else; nothing leaks. Each case runs for all
 * vendors in VENDORS, since libfabric starts slowly under emulation. */
#include "tests/rdma/device.h"
#include "tests/support/fabric.h"
#include "tests/support/queries.h"
#include "tests/support/softgpu.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

struct fixture {
    struct fabric fabric;
    struct bench bench; /* the library and the domain of that; no device */
    struct target target;
};

static void open_target(struct fixture *fixture, uint64_t access)
{
    target_open(&fixture->bench, &fixture->target, access);
    assert_int_equal(test_info_of(fixture->target.mr).path, HMREG_PATH_MAPPED);
    assert_int_equal(test_info_of(fixture->target.mr).iface, device_iface());
    assert_ok(peer_take_region(&fixture->fabric, fixture->target.mr));
}

static void close_target(struct fixture *fixture)
{
    target_close(&fixture->bench, &fixture->target);
}

/* Runs the test with device_iface() of each vendor. */
static void on_each_vendor(struct fixture *fixture, void (*test)(struct fixture *fixture))
{
    char *vendors = strdup(getenv("VENDORS") ? getenv("VENDORS") : ""), *rest = vendors;
    const char *vendor;
    int tested = 0;

    while ((vendor = strtok_r(rest, " ", &rest))) {
        assert_int_equal(setenv("VENDOR", vendor, 1), 0);
        test(fixture);
        tested++;
    }
    free(vendors);
    assert_true(tested > 0);
}

static void open_fabric(struct fixture *fixture)
{
    softgpu_need();
    softgpu_peermem(false);
    fabric_open_pair(&fixture->fabric, NULL);
    fixture->bench = (struct bench){.lib = fixture->fabric.lib, .domain = fixture->fabric.domain};
}

static void close_fabric(struct fixture *fixture)
{
    fabric_close(&fixture->fabric);
    softgpu_assert_clean();
}

static void with_fabric(void (*test)(struct fixture *fixture))
{
    struct fixture fixture;

    open_fabric(&fixture);
    on_each_vendor(&fixture, test);
    close_fabric(&fixture);
}

#define CASE(name)                                                                                 \
    static void name##_in(struct fixture *fixture);                                                \
    TEST(name)                                                                                     \
    {                                                                                              \
        with_fabric(name##_in);                                                                    \
    }                                                                                              \
    static void name##_in(struct fixture *fixture)

/* The peer writes these bytes, and reads them; no others change. */
static void write_and_read(struct fixture *fixture, size_t offset, size_t len, unsigned seed)
{
    assert_ok(peer_write(&fixture->fabric, offset, len, seed));
    assert_ok(peer_read(&fixture->fabric, offset, len, seed));
    for (size_t i = 0; i < len; i++)
        fixture->target.expected[TARGET_SKEW + offset + i] = fabric_byte(seed, i);
    target_assert_expected(&fixture->bench, &fixture->target);
}

/* ---- bytes ------------------------------------------------------------------------------ */

CASE(rma__lands_and_neighbours_stay)
{
    open_target(fixture, HMREG_ACCESS_ALL);
    write_and_read(fixture, 4097, 50021, 1);
    write_and_read(fixture, 0, TARGET_BYTES, 2);
    write_and_read(fixture, TARGET_BYTES - 1, 1, 3);
    close_target(fixture);
}

CASE(rma__we_start_it__lands_and_neighbours_stay)
{
    struct hmreg_mr_info info = {.size = sizeof(info)};
    struct hmreg_remote *remote;
    uint64_t addr, key;

    open_target(fixture, HMREG_ACCESS_ALL);
    assert_ok(hmreg_mr_query(fixture->target.mr, &info));
    assert_ok(peer_offer(&fixture->fabric, 50000, 3, &remote));
    assert_ok(hmreg_remote_addr(remote, 0, 50000, &addr, &key));
    assert_int_equal(endpoint_read(&fixture->fabric.endpoint, (char *)info.local_addr + 77, 50000,
                                   hmreg_mr_desc(fixture->target.mr), addr, key),
                     0);
    for (size_t i = 0; i < 50000; i++)
        fixture->target.expected[TARGET_SKEW + 77 + i] = fabric_byte(3, i);
    target_assert_expected(&fixture->bench, &fixture->target);
    hmreg_remote_close(remote);
    close_target(fixture);
}

/* ---- faults of the exporter ------------------------------------------------------------- */

CASE(import_fails__mapping_not_affected)
{
    static const enum softgpu_op steps[] = {SOFTGPU_OP_ATTACH, SOFTGPU_OP_PIN, SOFTGPU_OP_MAP};

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        softgpu_fail(steps[i], ENOSPC);
    open_target(fixture, HMREG_ACCESS_ALL);
    write_and_read(fixture, 1, 5000, 1);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        softgpu_fail(steps[i], 0);
    close_target(fixture);
}

/* The memory is not pinned, and need not be: the CPU finds it after the move. */
CASE(move__the_mapping_follows)
{
    struct softgpu_stat stat;
    int fd;

    open_target(fixture, HMREG_ACCESS_ALL);
    fd = target_descriptor(&fixture->bench, &fixture->target);
    softgpu_fail(SOFTGPU_OP_MOVE, EIO);
    assert_int_equal(softgpu_move(fd, false), -1);
    write_and_read(fixture, 5, 5000, 1);
    assert_int_equal(softgpu_move(fd, false), 0);
    stat = softgpu_stat(fd);
    assert_int_equal(stat.moved, 1);
    assert_int_equal(stat.attached + stat.pinned + stat.mapped, 0);
    target_assert_expected(&fixture->bench, &fixture->target);
    write_and_read(fixture, 0, TARGET_BYTES, 2);
    close(fd);
    close_target(fixture);
}

/* ---- processes and threads -------------------------------------------------------------- */

static void hold_target(struct fixture *fixture)
{
    struct hmreg_mr *mr;

    target_alloc(&fixture->bench, &fixture->target);
    assert_ok(hmreg_mr_get(fixture->bench.domain, fixture->target.memory, TARGET_ROOM,
                           HMREG_ACCESS_ALL, &mr));
}

/* In a process of its own, since a runtime that a parent has used works in no child. */
static int hold(void)
{
    struct fixture fixture;

    fabric_open(&fixture.fabric, NULL);
    fixture.bench = (struct bench){.lib = fixture.fabric.lib, .domain = fixture.fabric.domain};
    on_each_vendor(&fixture, hold_target);
    if (write(STDOUT_FILENO, "", 1) == 1)
        pause();
    return 1;
}

static pid_t start_holder(int *ready)
{
    int ends[2];
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (!child) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "holder", "--hold", NULL);
        _exit(1);
    }
    close(ends[1]);
    *ready = ends[0];
    return child;
}

TEST(killed__nothing_is_left)
{
    int ready = -1, status;
    unsigned buffers;
    pid_t child;
    char byte;

    softgpu_need();
    child = start_holder(&ready);
    assert_int_equal(read(ready, &byte, 1), 1);
    buffers = softgpu_stat(-1).buffers;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(buffers > 0);
    assert_true(WIFSIGNALED(status));
    close(ready);
    softgpu_assert_clean();
}

static int try_as_child(struct fixture *fixture)
{
    struct hmreg_mr *mr = NULL;
    int code = hmreg_mr_reg(fixture->fabric.domain, fixture->target.memory, 64, HMREG_ACCESS_ALL, 0,
                            0, 0, &mr, NULL);

    return code == -EPERM && !mr && hmreg_mr_close(fixture->target.mr) == -EPERM ? 0 : 1;
}

CASE(fork__parents_region_goes_on)
{
    open_target(fixture, HMREG_ACCESS_ALL);
    test_in_child(try_as_child(fixture));
    write_and_read(fixture, 0, TARGET_BYTES, 1);
    close_target(fixture);
}

#define THREADS 4
#define ROUNDS  20

struct thread {
    pthread_t id;
    struct fabric *fabric;
    uint64_t key; /* separate, since callers choose keys on tcp */
    unsigned failed;
};

static void *register_often(void *argument)
{
    struct thread *self = argument;
    const struct fabric *fabric = self->fabric;

    for (int i = 0; i < ROUNDS; i++) {
        struct hmreg_mr *mr = NULL, *cached = NULL;
        void *memory = NULL;

        self->failed += hmreg_mem_alloc(fabric->lib, device_iface(), i & 1, HMREG_MEM_DEVICE, 20000,
                                        &memory) != 0;
        self->failed += hmreg_mr_reg(fabric->domain, (char *)memory + i, 10000, HMREG_REMOTE_WRITE,
                                     0, self->key, 0, &mr, NULL) != 0;
        self->failed += hmreg_mr_get(fabric->domain, memory, 20000, HMREG_READ, &cached) != 0;
        hmreg_mr_put(cached);
        self->failed += hmreg_mr_close(mr) != 0;
        self->failed += hmreg_mem_free(fabric->lib, memory) != 0;
    }
    return NULL;
}

CASE(four_threads__nothing_fails_and_nothing_is_left)
{
    struct thread threads[THREADS];

    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.fabric = &fixture->fabric, .key = 1000 + (uint64_t)i};
        assert_int_equal(pthread_create(&threads[i].id, NULL, register_often, &threads[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i].id, NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(threads[i].failed, 0);
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--hold"))
        return hold();
    return fabric_main(argc, argv);
}
