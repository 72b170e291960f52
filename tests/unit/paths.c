/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * From memory to a registration: which paths are tried in which order, the provider's arguments,
 * and the clean-up after a refusal or failure. */
#include "tests/support/vendors.h"
#include "tests/support/world.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define KEYS .mr_mode = HMREG_MR_VIRT_ADDR /* the caller chooses them */

static char byte; /* the first that the NIC reads of the last registration */

static int read_first(const struct world_call *call)
{
    if (world_is(call, "reg") && call->dmabuf.fd >= 0)
        assert_int_equal(pread(call->dmabuf.fd, &byte, 1, (off_t)call->dmabuf.offset), 1);
    else if (world_is(call, "reg"))
        byte = *(const char *)call->addr;
    return 0;
}

static int try(char *addr, size_t len, struct hmreg_mr **mr)
{
    return hmreg_mr_reg(world.domain, addr, len, HMREG_ACCESS_ALL, 0, 5, 0, mr, NULL);
}

static struct hmreg_mr *reg(char *addr, size_t len)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(try(addr, len, &mr));
    return mr;
}

static void only_mapped(void)
{
    world.cannot[HMREG_PATH_DMABUF] = world.cannot[HMREG_PATH_PEERMEM] = -EOPNOTSUPP;
}

/* ---- the order of paths ----------------------------------------------------------------- */

static const enum hmreg_path device_paths[] = {HMREG_PATH_DMABUF, HMREG_PATH_PEERMEM,
                                               HMREG_PATH_MAPPED};

/* All paths refuse: the provider tried each path of the order, in that order, and each left its
 * reason. */
static void check_order(enum hmreg_path first, enum hmreg_path second, enum hmreg_path third)
{
    const enum hmreg_path order[] = {first, second, third};
    struct hmreg_explanation why;
    struct hmreg_mr *mr = NULL;
    uint32_t count = 1 + !!second + !!third;

    world_open(.domain.order = {first, second, third});
    for (int i = 0; i < 3; i++)
        world.refuses[device_paths[i]] = -EOPNOTSUPP;
    assert_fails(hmreg_mr_reg(world.domain, world.gpu[0], 8, HMREG_SEND, 0, 0, 0, &mr, NULL),
                 -EOPNOTSUPP, "refuses");
    assert_null(mr);
    why = test_why_of(NULL);
    assert_int_equal(world_calls("reg"), count);
    assert_int_equal(why.refused, count);
    assert_int_equal(why.path, HMREG_PATH_NONE);
    assert_int_equal(why.iface, HMREG_IFACE_CUDA);
    assert_int_equal(why.device, 0);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(world_call("reg", i)->path, order[i]);
        assert_int_equal(why.reasons[i].path, order[i]);
        assert_int_equal(why.reasons[i].code, -EOPNOTSUPP);
        assert_int_equal(why.reasons[i].vendor_code, 4711);
        assert_string_equal(why.reasons[i].slug, "world-refused");
    }
    test_finish();
}

TEST(paths__every_order__is_followed)
{
    for (int first = 0; first < 3; first++) {
        check_order(device_paths[first], 0, 0);
        for (int second = 0; second < 3; second++)
            for (int third = 0; third < 2 && second != first; third++)
                check_order(device_paths[first], device_paths[second],
                            third ? device_paths[3 - first - second] : HMREG_PATH_NONE);
    }
}

TEST(paths__refused_before_and_by_registering__reasons_stay_with_the_region)
{
    struct hmreg_explanation why;
    struct hmreg_mr *mr;

    world_open(KEYS);
    world.cannot[HMREG_PATH_DMABUF] = -EPERM;
    world.refuses[HMREG_PATH_PEERMEM] = -EFAULT;
    world_old_error();
    mr = reg(world.gpu[0], WORLD_BYTES);
    assert_true(world_error_is_old());
    why = test_why_of(mr);
    assert_int_equal(why.path, HMREG_PATH_MAPPED);
    assert_int_equal(why.refused, 2);
    assert_int_equal(why.reasons[0].path, HMREG_PATH_DMABUF);
    assert_int_equal(why.reasons[0].code, -EPERM);
    assert_string_equal(why.reasons[0].text, "nic0 has no path dmabuf");
    assert_int_equal(why.reasons[1].path, HMREG_PATH_PEERMEM);
    assert_int_equal(why.reasons[1].code, -EFAULT);
    assert_ok(hmreg_mr_close(mr));
}

static struct hmreg_explanation foreseen(enum hmreg_iface iface, int device)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    assert_ok(hmreg_domain_explain(world.domain, iface, device, &why));
    return why;
}

TEST(domain_explain__foresees_without_registering)
{
    struct hmreg_explanation why;

    world_open();
    assert_int_equal(foreseen(HMREG_IFACE_CUDA, 0).path, HMREG_PATH_DMABUF);
    assert_int_equal(foreseen(HMREG_IFACE_CUDA, 0).refused, 0);
    world.cannot[HMREG_PATH_DMABUF] = -EPERM;
    why = foreseen(HMREG_IFACE_CUDA, 1);
    assert_int_equal(why.path, HMREG_PATH_PEERMEM);
    assert_int_equal(why.refused, 1);
    assert_int_equal(why.reasons[0].code, -EPERM);
    vendors[HMREG_IFACE_CUDA].dmabuf = false;
    world.cannot[HMREG_PATH_PEERMEM] = -ENOSYS;
    why = foreseen(HMREG_IFACE_CUDA, 0);
    assert_int_equal(why.path, HMREG_PATH_NONE);
    assert_int_equal(why.refused, 3);
    assert_string_equal(why.reasons[0].slug, "no-dmabuf-export");
    why = foreseen(HMREG_IFACE_SYSTEM, -1);
    assert_int_equal(why.path, HMREG_PATH_SYSTEM);
    assert_int_equal(why.device, -1);
    assert_fails(hmreg_domain_explain(world.domain, HMREG_IFACE_SYSTEM, 1, &why), -ENODEV,
                 "device");
    assert_fails(hmreg_domain_explain(world.domain, HMREG_IFACE_CUDA, 2, &why), -ENODEV,
                 "device 2");
    assert_fails(hmreg_domain_explain(world.domain, HMREG_IFACE_CUDA, -1, &why), -ENODEV, "device");
    assert_int_equal(world_calls("reg"), 0);
}

/* In a child without earlier cases' refusals. A child opens no runtime that its parent has used. */
TEST_FIRST(explain__nothing_was_refused__enoent)
{
    struct hmreg_explanation why = {.size = sizeof(why)};

    test_in_child(hmreg_mr_explain(NULL, &why) == -ENOENT ? 0 : 1);
}

/* ---- the provider's requests ------------------------------------------------------------ */

TEST(dmabuf__names_the_bytes_and_is_closed_after)
{
    const struct world_call *call;
    struct hmreg_mr_info info;
    struct hmreg_mr *mr;
    int before;

    world_open(KEYS);
    world.on_call = read_first;
    world_view(world.gpu[1])[65537] = '!';
    before = test_count_fds();
    mr = reg(world.gpu[1] + 65537, 1000);
    assert_int_equal(test_count_fds(), before);
    call = world_last("reg");
    assert_int_equal(call->path, HMREG_PATH_DMABUF);
    assert_int_equal(byte, '!');
    assert_int_equal(call->dmabuf.length, 1000);
    assert_ptr_equal(call->addr, world.gpu[1] + 65537);
    assert_int_equal(call->iface, HMREG_IFACE_CUDA);
    assert_int_equal(call->device, 1);
    info = test_info_of(mr);
    assert_int_equal(info.path, HMREG_PATH_DMABUF);
    assert_int_equal(info.addr, (uintptr_t)world.gpu[1] + 65537);
    assert_int_equal(info.local_addr, info.addr);
    assert_int_equal(info.identity, vendors[HMREG_IFACE_CUDA].claims[1].range.identity);
    assert_ok(hmreg_mr_close(mr));
}

/* Closes the child's standard input, so that descriptor 0 is free. */
static int check_descriptor_0(void)
{
    struct hmreg_mr *mr;
    int fd;

    world_open(KEYS);
    close(0);
    mr = reg(world.gpu[0], WORLD_BYTES);
    if (world_last("reg")->dmabuf.fd != 0)
        return 2;
    if (fcntl(0, F_GETFD) != -1)
        return 3; /* not closed after the call */
    fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd != 0)
        return 4;
    if (hmreg_mr_close(mr) || fcntl(0, F_GETFD) == -1)
        return 5; /* closed a second time */
    only_mapped();
    close(0);
    mr = reg(world.gpu[0], WORLD_BYTES);
    if (world_last("reg")->path != HMREG_PATH_MAPPED || fcntl(0, F_GETFD) != -1)
        return 7;
    return hmreg_mr_close(mr) ? 8 : 0;
}

TEST_FIRST(dmabuf__descriptor_0__is_one_like_any_other)
{
    test_in_child(check_descriptor_0());
}

static bool is_mapped_in_a_child(const void *addr)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (!child)
        _exit(world_is_mapped(addr));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void check_mapped(size_t len)
{
    char *at = world.gpu[0] + 65539, *local;
    struct hmreg_mr_info info;
    struct hmreg_mr *mr;

    world_view(at)[0] = '?';
    mr = reg(at, len);
    assert_int_equal(byte, '?');
    info = test_info_of(mr);
    local = (char *)(uintptr_t)info.local_addr;
    assert_int_equal(info.path, HMREG_PATH_MAPPED);
    assert_int_equal(info.addr, (uintptr_t)at);
    assert_ptr_equal(local, world_last("reg")->addr);
    local[len - 1] = 'w';
    assert_int_equal(world_view(at)[len - 1], 'w');
    assert_false(is_mapped_in_a_child(local));
    assert_ok(hmreg_mr_close(mr));
    assert_false(world_is_mapped(local));
    assert_false(world_is_mapped(local + len - 1));
}

TEST(mapped__provider_sees_the_bytes_until_close)
{
    world_open(KEYS);
    world.on_call = read_first;
    only_mapped();
    check_mapped(20);
    check_mapped(4096); /* of two pages */
}

/* As a dmabuf whose exporter has no mmap. */
TEST(mapped__descriptor_that_cannot_be_mapped__eopnotsupp)
{
    int fd = eventfd(0, EFD_CLOEXEC), was;
    struct hmreg_mr *mr = NULL;

    world_open(KEYS);
    only_mapped();
    was = vendors[HMREG_IFACE_CUDA].claims[0].fd;
    vendors[HMREG_IFACE_CUDA].claims[0].fd = fd;
    assert_fails(try(world.gpu[0], 4096, &mr), -EOPNOTSUPP, "no path");
    assert_null(mr);
    assert_string_equal(test_why_of(NULL).reasons[2].text,
                        "the dmabuf cannot be mapped for the CPU: Operation not supported");
    vendors[HMREG_IFACE_CUDA].claims[0].fd = was;
    close(fd);
}

/* The region has another path, and no mapping. */
TEST(mapped__fabric_refuses__is_mapped_no_more)
{
    struct hmreg_mr *mr;

    world_open(KEYS, .domain.order = {HMREG_PATH_MAPPED, HMREG_PATH_PEERMEM});
    world.refuses[HMREG_PATH_MAPPED] = -EIO;
    mr = reg(world.gpu[0] + 65539, 4096);
    assert_int_equal(world_calls("reg"), 2);
    assert_int_equal(world_last("reg")->path, HMREG_PATH_PEERMEM);
    assert_false(world_is_mapped(world_call("reg", 0)->addr));
    assert_ok(hmreg_mr_close(mr));
}

TEST(export__fails__is_a_refusal_with_the_vendors_words)
{
    struct hmreg_explanation why;
    struct hmreg_mr *mr;

    world_open(KEYS);
    vendors[HMREG_IFACE_CUDA].export_code = -EXDEV;
    mr = reg(world.gpu[0], WORLD_BYTES);
    why = test_why_of(mr);
    assert_int_equal(why.path, HMREG_PATH_PEERMEM);
    assert_int_equal(why.reasons[0].code, -EXDEV);
    assert_int_equal(why.reasons[0].vendor_code, 999);
    assert_string_equal(why.reasons[0].text, "export of cuda failed");
    assert_ok(hmreg_mr_close(mr));
}

TEST(request__reaches_the_provider_as_it_was)
{
    const struct world_call *call;
    struct hmreg_mr *mr;

    world_open(KEYS);
    assert_ok(hmreg_mr_reg(world.domain, world.host + 3, 17, HMREG_REMOTE_READ | HMREG_RECV, 0,
                           0x123456789a, 0, &mr, &world));
    call = world_last("reg");
    assert_int_equal(call->path, HMREG_PATH_SYSTEM);
    assert_int_equal(call->ranges, 1);
    assert_ptr_equal(call->addr, world.host + 3);
    assert_int_equal(call->len, 17);
    assert_int_equal(call->access, HMREG_REMOTE_READ | HMREG_RECV);
    assert_int_equal(call->requested_key, 0x123456789a);
    assert_int_equal(call->iface, HMREG_IFACE_SYSTEM);
    assert_int_equal(call->device, -1);
    assert_int_equal(call->dmabuf.fd, -1);
    assert_ptr_equal(call->context, &world);
    assert_ptr_equal(hmreg_mr_context(mr), &world);
    assert_ok(hmreg_mr_close(mr));
}

TEST(managed_memory__follows_only_the_cpu)
{
    struct hmreg_mr *mr = NULL;
    char *managed;

    world_open(KEYS);
    world.on_call = read_first;
    managed = world_memory(HMREG_IFACE_ZE, 1, HMREG_MEM_MANAGED, 4096);
    managed[5] = 'm';
    mr = reg(managed + 5, 10);
    assert_int_equal(world_last("reg")->path, HMREG_PATH_SYSTEM);
    assert_int_equal(byte, 'm');
    assert_ok(hmreg_mr_close(mr));
    world.cannot[HMREG_PATH_MAPPED] = -EOPNOTSUPP;
    mr = NULL;
    assert_fails(try(managed, 10, &mr), -EOPNOTSUPP, "managed memory moves");
    assert_null(mr);
    assert_string_equal(test_why_of(NULL).reasons[0].slug, "managed-memory-migrates");
}

TEST_MAIN()
