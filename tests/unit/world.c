/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The fixture that other cases rely on (world.h): its log, its faults, its close. */
#include "tests/support/world.h"

#include <sys/wait.h>

#define LEN 4096

TEST(log__get_of_host_and_device_memory__each_call_by_name)
{
    world_open();
    world_key(world.host, LEN);
    assert_string_equal(world_log(), "cuda.resolve rocr.resolve ze.resolve nic0.reg");
    assert_int_equal(world_last("reg")->path, HMREG_PATH_SYSTEM);
    assert_int_equal(world_last("nic0.reg")->result, 0);
    world_clear();
    world_key(world.gpu[1], LEN);
    assert_string_equal(world_log(),
                        "cuda.resolve rocr.resolve ze.resolve cuda.watch cuda.export nic0.reg "
                        "cuda.identity"); /* no runtime is spared, and the identity is compared */
    assert_int_equal(world_last("reg")->path, HMREG_PATH_DMABUF);
    assert_int_equal(world_last("reg")->device, 1);
    assert_ptr_equal(world_call("reg", 0)->addr, world.gpu[1]);
}

TEST(fault__by_number__that_call_and_so_many_more)
{
    struct hmreg_mr *mr = NULL;

    world_open(.domain.flags = HMREG_DOMAIN_NO_CACHE);
    world_fail("reg", 2, 1, -EIO);
    for (int i = 1; i <= 4; i++) {
        int rc = hmreg_mr_get(world.domain, world.host, LEN, HMREG_SEND, &mr);

        assert_int_equal(rc, i == 2 || i == 3 ? -EIO : 0);
        assert_int_equal(world_last("reg")->result, rc);
        if (!rc)
            hmreg_mr_put(mr);
    }
    world_fail("cuda.resolve", 1, -1, -ENODEV);
    assert_fails(hmreg_mr_get(world.domain, world.gpu[0], LEN, HMREG_SEND, &mr), -ENODEV,
                 "resolve of cuda failed");
    world_heal();
    world_key(world.gpu[0], LEN);
}

TEST(paths__refused__the_next)
{
    world_open(.vendor = HMREG_IFACE_ROCR);
    world.cannot[HMREG_PATH_DMABUF] = -EPERM;
    world.refuses[HMREG_PATH_PEERMEM] = -EFAULT;
    world_key(world.gpu[0], LEN);
    assert_int_equal(world_calls("reg"), 2);
    assert_int_equal(world_last("reg")->path, HMREG_PATH_MAPPED);
    assert_int_equal(world_calls("rocr.export"), 1);
}

static int refuse_the_second(const struct world_call *call)
{
    return world_is(call, "nic1.reg") ? -EIO : 0;
}

TEST(group__a_nic_fails__its_rail_is_missing)
{
    struct hmreg_mr *mr;

    world_open(.nics = 3, .group = true, .groups.flags = HMREG_GROUP_PARTIAL);
    world.on_call = refuse_the_second;
    mr = world_get(world.host, LEN);
    assert_null(hmreg_mr_rail(mr, 1));
    assert_int_equal(world_live(0), 1);
    assert_int_equal(world_live(1), 0);
    assert_int_equal(world_live(WORLD_EACH), 2);
    assert_int_equal(world_most(), 2);
    hmreg_mr_put(mr);
    world_change(world.host, 1);
    world_heal();
    world.on_call = NULL;
    hmreg_mr_put(world_get(world.host, LEN));
    assert_int_equal(world_calls("nic1.reg"), 2);
    assert_int_equal(world_calls("dereg"), 2);
}

/* In a child, whose case fails: the region that it holds keeps its domain open. */
TEST(close__region_held__the_case_fails)
{
    int status = 0;
    pid_t child = test_fork();

    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(2);
        world_open();
        world_get(world.host, LEN);
        test_finish();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

/* ---- the cases that docs/testing.md shows ----------------------------------------------- */

TEST(get__limit_of_one_region__the_first_is_evicted)
{
    world_open(.domain.max_regions = 1);
    assert_int_equal(world_key(world.host, 4096), 1); /* the key is the registration's number */
    assert_int_equal(world_key(world.host + 4096, 4096), 2);
    assert_int_equal(world_calls("dereg"), 1);
    assert_int_equal(world_last("reg")->path, HMREG_PATH_SYSTEM);
}

TEST(get__nic_fails__its_error_and_no_region)
{
    struct hmreg_mr *mr = (void *)1;

    world_open(.nics = 2, .group = true);
    world_fail("nic1.reg", 1, 0, -EIO); /* the first call, and none after */
    assert_fails(hmreg_mr_get(world.domain, world.host, 4096, HMREG_SEND, &mr), -EIO, "rail 1");
    assert_ptr_equal(mr, (void *)1);
    assert_string_equal(world_log(),
                        "cuda.resolve rocr.resolve ze.resolve nic0.reg nic1.reg nic0.dereg");
}

TEST_MAIN()
