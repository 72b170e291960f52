/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The libfabric provider finds that its NIC is gone: a registration fails with an error that says
 * so, and the NIC's folder in /sys is gone. The folder is simulated.
 */
#include "tests/support/fake_fabric.h"
#include "tests/support/test.h"
#include "tests/unit/ofi_fixture.h"

#include <hmreg/lost.h>

#include <errno.h>
#include <rdma/fi_errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char memory[4096];
static const char *there; /* NULL: no folder */

int __real_stat(const char *path, struct stat *out);
int __wrap_stat(const char *path, struct stat *out);

int __wrap_stat(const char *path, struct stat *out)
{
    if (strncmp(path, "/sys/class/", 11) != 0)
        return __real_stat(path, out);
    if (there && !strcmp(path, there)) {
        out->st_ino = 7;
        return 0;
    }
    errno = ENOENT;
    return -1;
}

static struct fi_device_attr device = {.name = "nic7"};
static struct fid_nic nic = {.device_attr = &device};

static void drop_nic(void)
{
    fake_fabric.info->nic = NULL;
}

static void begin(const char *folder)
{
    there = folder;
    ofi_begin();
    test_after(drop_nic);
    fake_fabric.info->nic = &nic;
    assert_ok(ofi_open_domain(NULL));
}

static int reg(void)
{
    struct hmreg_mr *mr = NULL;
    int rc = hmreg_mr_reg(fixture.domain, memory, sizeof(memory), HMREG_ACCESS_ALL, 0,
                          HMREG_KEY_ANY, 0, &mr, NULL);

    return rc ? rc : hmreg_mr_close(mr);
}

static int reg_failing(int code)
{
    fake_fabric.reg_code = code;
    fake_fabric.reg_failures = 1;
    return reg();
}

TEST(reg__fails_and_the_nics_folder_is_gone__domain_is_lost)
{
    static const int codes[] = {-FI_ENODEV, -FI_EIO, -FI_ENETDOWN};
    static const char *const folders[] = {"/sys/class/infiniband/nic7", "/sys/class/net/nic7"};

    for (size_t i = 0; i < 6; i++) {
        begin(folders[i % 2]);
        assert_ok(reg());
        there = NULL;
        assert_fails(reg_failing(codes[i / 2]), -ENODEV, folders[i % 2]);
        assert_fails(reg(), -ENODEV, folders[i % 2]);
        test_finish();
    }
}

TEST(reg__fails_and_the_nics_folder_is_there__its_own_error)
{
    begin("/sys/class/net/nic7");
    assert_int_equal(reg_failing(-FI_EIO), -EIO);
    assert_ok(reg());
}

TEST(reg__fails_and_no_folder_was_there__its_own_error)
{
    begin(NULL);
    assert_int_equal(reg_failing(-FI_EIO), -EIO);
    assert_ok(reg());
}

TEST_MAIN()
