/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The verbs provider finds that its device is gone: a registration fails with EIO or ENODEV, and
 * the device's folder in /sys is gone, or is another device's.
 */
#include "tests/unit/verbs_fixture.h"

#include <hmreg/lost.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char memory[2][4096];
static char folder[] = "/tmp/hmreg-lost-XXXXXX", other[sizeof(folder) + 8];

static void drop_folders(void)
{
    rmdir(folder);
    rmdir(other);
}

static void begin(void)
{
    verbs_begin();
    memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
    snprintf(other, sizeof(other), "%s-other", folder);
    test_after(drop_folders);
    strcpy(fake_verbs_device()->ibdev_path, folder);
    verbs_open_with(0);
}

static int get(unsigned i)
{
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_get(fixture.domain, memory[i], sizeof(memory[i]), HMREG_ACCESS_ALL, &mr);

    hmreg_mr_put(mr);
    return rc;
}

static int reg(void)
{
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_reg(fixture.domain, memory[1], sizeof(memory[1]), HMREG_ACCESS_ALL, 0, 0, 0,
                          &mr, NULL);

    return rc ? rc : hmreg_mr_close(mr);
}

static void break_device(int error)
{
    fake_verbs.reg_error = error;
    fake_verbs.reg_fails = true;
}

static void relax(void)
{
    fake_verbs.reg_fails = false;
}

TEST(reg__fails_and_the_devices_folder_is_gone__domain_is_lost)
{
    static const int errors[] = {EIO, ENODEV};

    for (size_t i = 0; i < 2; i++) {
        begin();
        assert_ok(get(0));
        rmdir(folder);
        break_device(errors[i]);
        assert_fails(reg(), -ENODEV, folder);
        relax();
        assert_fails(reg(), -ENODEV, folder); /* the device answers again */
        assert_fails(get(0), -ENODEV, folder);
        assert_ok(hmreg_domain_lost(fixture.domain, "told later"));
        assert_fails(get(1), -ENODEV, folder);
        while (hmreg_domain_close(fixture.domain) == -EBUSY)
            usleep(100);
        fixture.domain = NULL;
        assert_int_equal(fake_verbs.live, 0);
        test_finish();
    }
}

TEST(get__fails_and_the_devices_folder_is_gone__idle_regions_end)
{
    struct hmreg_stats stats = {.size = sizeof(stats)};

    begin();
    assert_ok(get(0));
    rmdir(folder);
    break_device(ENODEV);
    assert_fails(get(1), -ENODEV, "is gone");
    assert_ok(hmreg_domain_stats(fixture.domain, &stats));
    assert_int_equal(stats.regions, 0);
    while (hmreg_domain_close(fixture.domain) == -EBUSY)
        usleep(100);
    fixture.domain = NULL;
    assert_int_equal(fake_verbs.live, 0);
}

TEST(reg__fails_and_another_device_has_the_name__domain_is_lost)
{
    begin();
    assert_int_equal(mkdir(other, 0700), 0);
    rmdir(folder);
    assert_int_equal(rename(other, folder), 0);
    break_device(EIO);
    assert_fails(reg(), -ENODEV, folder);
}

TEST(reg__fails_and_the_device_is_there__its_own_error)
{
    begin();
    break_device(EIO);
    assert_fails(reg(), -EIO, "fake0");
    relax();
    assert_ok(reg());
    rmdir(folder);
    break_device(EINVAL); /* which says nothing of the device */
    assert_fails(reg(), -EINVAL, "fake0");
    relax();
    assert_ok(reg());
}

TEST(reg__fails_and_no_folder_was_there__its_own_error)
{
    verbs_begin();
    strcpy(fake_verbs_device()->ibdev_path, "/tmp/no/such/folder");
    verbs_open_with(0);
    break_device(ENODEV);
    assert_fails(reg(), -ENODEV, "fake0");
    relax();
    assert_ok(reg());
}

TEST_MAIN()
