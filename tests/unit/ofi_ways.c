/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * The ways of path dmabuf on libfabric, which imports dmabufs itself: the PCIe mapping is the
 * descriptor's and goes through, data direct cannot be asked for. */
#include "simulated/engine/pcie.h"
#include "tests/support/fake_fabric.h"
#include "tests/support/queries.h"
#include "tests/support/vendors.h"
#include "tests/unit/ofi_fixture.h"

#include <rdma/fi_errno.h>

#define BYTES 65536

static void begin(const char *provider, const enum hmreg_way *ways)
{
    struct hmreg_domain_config config = {.size = sizeof(config)};
    struct fi_info *info;

    ofi_begin();
    vendors[HMREG_IFACE_CUDA].coherent = true;
    ofi_set_provider(provider);
    info = fake_fabric.info;
    info->fabric_attr->api_version = FI_VERSION(1, 20);
    info->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
    info->caps = FI_RMA | FI_HMEM;
    fake_fabric.version = FI_VERSION(2, 0);
    for (int i = 0; ways && i < HMREG_WAY_COUNT - 1 && ways[i]; i++)
        config.ways[i] = ways[i];
    fixture.memory = vendor_memory(HMREG_IFACE_CUDA, 1, HMREG_MEM_DEVICE, BYTES);
    assert_ok(ofi_open_domain(&config));
}

/* Registers; the region has this way, and the descriptor its mapping. */
static void takes(enum hmreg_way way, struct hmreg_explanation *why)
{
    struct hmreg_mr *mr;

    *why = (struct hmreg_explanation){.size = sizeof(*why)};
    assert_ok(
        hmreg_mr_reg(fixture.domain, fixture.memory, BYTES, HMREG_ACCESS_ALL, 0, 0, 0, &mr, NULL));
    assert_int_equal(test_info_of(mr).way, way);
    assert_int_equal(fake_is_pcie(fake_fabric.dmabuf.fd), way == HMREG_WAY_PCIE);
    assert_ok(hmreg_mr_explain(mr, why));
    assert_ok(hmreg_mr_close(mr));
}

TEST(ways__data_direct__cannot_be_asked_for)
{
    static const enum hmreg_way ways[] = {HMREG_WAY_DATA_DIRECT, HMREG_WAY_PCIE, HMREG_WAY_NONE};
    struct hmreg_explanation why;

    begin("verbs;ofi_rxm", ways);
    takes(HMREG_WAY_PCIE, &why);
    assert_int_equal(why.refused, 1);
    assert_string_equal(why.reasons[0].slug, "no-data-direct");
    assert_non_null(strstr(why.reasons[0].text, "data-direct: libfabric's provider verbs;ofi_rxm "
                                                "imports dmabufs itself"));
    assert_non_null(strstr(why.reasons[0].text, "register through libibverbs"));
}

TEST(ways__unasked__pcie_on_efa_alone)
{
    struct hmreg_explanation why;

    begin("verbs;ofi_rxm", NULL);
    takes(HMREG_WAY_PLAIN, &why);
    assert_int_equal(why.refused, 0);
    test_finish();
    begin("efa", NULL);
    takes(HMREG_WAY_PCIE, &why);
    assert_int_equal(why.refused, 0);
    vendors[HMREG_IFACE_CUDA].pcie_code = -EOPNOTSUPP;
    takes(HMREG_WAY_PLAIN, &why);
    assert_string_equal(why.reasons[0].slug, "no-pcie-mapping");
}

/* No room for the PCIe mapping refuses that way, and the plain one may have some. */
TEST(ways__no_memory__each_way_is_tried)
{
    struct hmreg_mr *mr = (void *)1;

    begin("efa", NULL);
    fake_fabric.reg_code = -FI_ENOMEM;
    assert_fails(
        hmreg_mr_reg(fixture.domain, fixture.memory, BYTES, HMREG_SEND, 0, 0, 0, &mr, NULL),
        -EOPNOTSUPP, "no path to this cuda");
    assert_ptr_equal(mr, (void *)1);
    assert_int_equal(fake_fabric.regs, 3); /* by its address, too */
}

TEST_MAIN()
