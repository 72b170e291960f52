/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See gone.h: a domain of libfabric, on a simulated fid_domain, whose regions have raw keys, are
 * bound to counters, enabled and refreshed.
 */
#include "tests/fault/gone.h"
#include "tests/support/fake_fabric.h"
#include "tests/support/test.h"

#include <hmreg/ofi.h>
#include <rdma/fi_errno.h>
#include <string.h>
#include <sys/stat.h>

#define FOLDER "/sys/class/infiniband/nic7"

static bool there; /* the folder */
static struct fi_device_attr device = {.name = "nic7"};
static struct fid_nic nic = {.device_attr = &device};

int __real_stat(const char *path, struct stat *out);
int __wrap_stat(const char *path, struct stat *out);

int __wrap_stat(const char *path, struct stat *out)
{
    if (strncmp(path, "/sys/class/", 11) != 0)
        return __real_stat(path, out);
    if (there && !strcmp(path, FOLDER)) {
        out->st_ino = 7;
        return 0;
    }
    errno = ENOENT;
    return -1;
}

void gone_begin(void)
{
    fake_fabric_begin();
    fake_fabric.each_call = gone_asked;
    fake_fabric.gone_errno = FI_EIO;
    fake_fabric.info->nic = &nic;
    fake_fabric.info->caps |= FI_RMA_EVENT;
    fake_fabric.info->domain_attr->mr_mode = FI_MR_RAW | FI_MR_MMU_NOTIFY | FI_MR_RMA_EVENT;
    there = true;
}

void gone_vanish(void)
{
    there = false;
}

void gone_end(void)
{
    fake_fabric.info->nic = NULL;
    fake_fabric.mapped = 0; /* they end with the fid_domain */
    fake_fabric_end();
}

int gone_open(struct hmreg *lib, struct hmreg_domain **out)
{
    return hmreg_domain_open_ofi(lib, &fake_fabric.domain, fake_fabric.info, NULL, out);
}

static int call_all(struct hmreg_domain *domain, struct hmreg_mr *mr)
{
    struct fid counter = {.fclass = FI_CLASS_CNTR};
    uint64_t base = 0, key = 0;
    uint8_t raw[64];
    size_t size = sizeof(raw);
    int rc = hmreg_mr_bind(mr, &counter, HMREG_REMOTE_WRITE), unmapped;

    rc = rc ? rc : hmreg_mr_enable(mr);
    rc = rc ? rc : hmreg_mr_refresh(mr, NULL, 0, 0);
    rc = rc ? rc : hmreg_mr_raw_attr(mr, &base, raw, &size, 0);
    rc = rc ? rc : hmreg_domain_map_raw(domain, base, raw, size, &key, 0);
    if (rc)
        return rc;
    unmapped = hmreg_domain_unmap_raw(domain, key);
    return rc ? rc : unmapped;
}

int gone_calls(struct hmreg_domain *domain, void *memory, size_t len)
{
    struct hmreg_mr *mr = NULL;
    int rc, closed;

    rc = hmreg_mr_reg(domain, memory, len, HMREG_ACCESS_ALL, 0, 1000, HMREG_RMA_EVENT, &mr, NULL);
    rc = rc ? rc : call_all(domain, mr);
    closed = hmreg_mr_close(mr);
    return rc ? rc : closed;
}

void gone_rest(void)
{
}

/* A mapped key. */
void *gone_object(struct hmreg_domain *domain, struct hmreg_mr *mr, void *memory, size_t len)
{
    static uint64_t key;
    uint64_t base = 0;
    uint8_t raw[64];
    size_t size = sizeof(raw);

    assert_ok(hmreg_mr_raw_attr(mr, &base, raw, &size, 0));
    assert_ok(hmreg_domain_map_raw(domain, base, raw, size, &key, 0));
    return &key;
}

void gone_after(struct hmreg_domain *domain, struct hmreg_mr *mr, void *object, void *memory,
                size_t len)
{
    struct fid counter = {.fclass = FI_CLASS_CNTR};
    uint64_t base = 0, key = 1;
    uint8_t raw[64] = {0};
    size_t size = sizeof(raw);

    assert_int_equal(hmreg_mr_bind(mr, &counter, HMREG_REMOTE_WRITE), -ENODEV);
    assert_int_equal(hmreg_mr_enable(mr), -ENODEV);
    assert_int_equal(hmreg_mr_refresh(mr, NULL, 0, 0), -ENODEV);
    assert_int_equal(hmreg_mr_raw_attr(mr, &base, raw, &size, 0), -ENODEV);
    assert_int_equal(hmreg_domain_map_raw(domain, base, raw, size, &key, 0), -ENODEV);
    assert_int_equal(key, 1);
    assert_ok(hmreg_domain_unmap_raw(domain, *(uint64_t *)object));
}
