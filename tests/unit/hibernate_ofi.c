/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Domains of libfabric across hmreg_hibernate() and hmreg_thaw(): the fid_domain of before, which
 * is simulated, is unmapped in between, so that who touches it crashes.
 */
#include "tests/support/fake_fabric.h"
#include "tests/support/queries.h"
#include "tests/unit/ofi_fixture.h"

#include <hmreg/hibernate.h>
#include <hmreg/ofi.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static char memory[4096];
static struct fid_domain *gone; /* in a page of its own */

static void begin_with(int mr_mode, enum fi_threading threading)
{
    ofi_begin();
    fake_fabric.info->domain_attr->mr_mode = mr_mode;
    fake_fabric.info->domain_attr->threading = threading;
    gone = test_map(4096);
    *gone = fake_fabric.domain;
    assert_ok(hmreg_domain_open_ofi(fixture.lib, gone, fake_fabric.info, NULL, &fixture.domain));
}

static void begin(void)
{
    begin_with(FI_MR_VIRT_ADDR, FI_THREAD_SAFE);
}

static void close_domain(void)
{
    assert_int_equal(munmap(gone, 4096), 0);
}

static void hibernate(void)
{
    assert_ok(hmreg_hibernate(fixture.lib));
    assert_int_equal(fake_fabric.live, 0);
    close_domain();
}

static int renew(void)
{
    return hmreg_domain_renew_ofi(fixture.domain, &fake_fabric.domain, fake_fabric.info);
}

static struct hmreg_mr *registered(uint64_t key)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_reg(fixture.domain, memory, sizeof(memory), HMREG_ACCESS_ALL, 0, key, 0, &mr,
                           NULL));
    return mr;
}

static void comes_back(enum fi_threading threading)
{
    struct hmreg_mr *explicit, *held = NULL;

    begin_with(FI_MR_VIRT_ADDR, threading);
    explicit = registered(77);
    assert_ok(hmreg_mr_get(fixture.domain, memory, 64, HMREG_ACCESS_ALL, &held));
    hibernate();
    assert_fails(hmreg_thaw(fixture.lib, NULL), -EINVAL, "hmreg_domain_renew_ofi()");
    assert_ok(renew());
    assert_ok(hmreg_thaw(fixture.lib, NULL));
    assert_int_equal(fake_fabric.live, 2);
    assert_int_equal(hmreg_mr_key(explicit), 77);
    hmreg_mr_put(held);
    assert_ok(hmreg_mr_close(explicit));
}

TEST(thaw__other_fid_domain__regions_are_registered_there_with_their_keys)
{
    comes_back(FI_THREAD_SAFE);
}

/* hmreg takes turns on the fid_domain. */
TEST(thaw__fid_domain_for_one_thread__the_same)
{
    comes_back(FI_THREAD_DOMAIN);
}

TEST(asleep__fid_domain_is_closed__not_touched)
{
    struct hmreg_explanation why = {.size = sizeof(why)};
    struct hmreg_mr *mr;
    uint64_t key;

    begin_with(FI_MR_VIRT_ADDR | FI_MR_RAW | FI_MR_PROV_KEY, FI_THREAD_SAFE);
    mr = registered(0);
    hibernate();
    assert_fails(hmreg_domain_explain(fixture.domain, HMREG_IFACE_CUDA, 0, &why), -EAGAIN,
                 "hmreg_thaw()");
    assert_fails(
        hmreg_domain_map_raw(fixture.domain, 0, (uint8_t *)memory, FAKE_RAW_BYTES, &key, 0),
        -EAGAIN, "hmreg_thaw()");
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(fixture.domain));
    fixture.domain = NULL;
    assert_ok(hmreg_thaw(fixture.lib, NULL));
}

/* What a fabric that is not the one of before demands or lacks; then the domain is as it was. */
TEST(renew__other_fabric__refused)
{
    struct fid_domain no_domain = {.fid = {.fclass = FI_CLASS_MR}};

    begin();
    assert_fails(renew(), -EBUSY, "hmreg_hibernate()");
    hibernate();
    assert_fails(hmreg_domain_renew_ofi(NULL, &fake_fabric.domain, fake_fabric.info), -EINVAL,
                 "domain");
    assert_fails(hmreg_domain_renew_ofi(fixture.domain, NULL, fake_fabric.info), -EINVAL, "domain");
    assert_fails(hmreg_domain_renew_ofi(fixture.domain, &fake_fabric.domain, NULL), -EINVAL,
                 "info");
    assert_fails(hmreg_domain_renew_ofi(fixture.domain, &no_domain, fake_fabric.info), -EINVAL,
                 "fid_domain");
    ofi_set_provider("verbs;ofi_rxm");
    assert_fails(renew(), -EINVAL, "tcp;ofi_rxm");
    ofi_set_provider("tcp;ofi_rxm");
    fake_fabric.info->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_LOCAL;
    assert_fails(renew(), -EINVAL, "demands more");
    fake_fabric.info->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_COLLECTIVE;
    assert_fails(renew(), -EOPNOTSUPP, "FI_MR_COLLECTIVE");
    fake_fabric.info->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
    fake_fabric.info->domain_attr->threading = FI_THREAD_DOMAIN;
    assert_fails(renew(), -EINVAL, "permits less");
    fake_fabric.info->domain_attr->threading = FI_THREAD_SAFE;
    assert_ok(renew());
    assert_ok(hmreg_thaw(fixture.lib, NULL));
}

TEST_MAIN()
