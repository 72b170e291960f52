/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * Structs of callers whose size ends inside a field: refused, for half a pointer would be another
 * pointer. conformance_suite has those of hmreg_mr_attr. */
#include "tests/support/test.h"

#include <errno.h>
#include <hmreg/loopback.h>
#include <stddef.h>
#include <string.h>

TEST(config__size_ends_inside_a_field__inval)
{
    struct hmreg_config config = {.size = 0};
    struct hmreg *lib = NULL;

    for (size_t size = offsetof(struct hmreg_config, log) + 1; size < sizeof(config); size++) {
        config.size = size;
        if (size == offsetof(struct hmreg_config, log_context))
            continue;
        assert_fails(hmreg_open(&config, &lib), -EINVAL, "inside");
    }
    assert_null(lib);
    config.size = offsetof(struct hmreg_config, log_context);
    assert_ok(hmreg_open(&config, &lib));
    assert_ok(hmreg_close(lib));
}

TEST(domain_config__size_ends_inside_a_field__inval)
{
    static const size_t pointers[] = {offsetof(struct hmreg_domain_config, made),
                                      offsetof(struct hmreg_domain_config, ended),
                                      offsetof(struct hmreg_domain_config, callback_context)};
    struct hmreg_domain_config config = {.size = 0};
    struct hmreg_domain *domain = NULL;
    struct hmreg *lib;

    assert_ok(hmreg_open(NULL, &lib));
    for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++)
        for (size_t inside = 1; inside < sizeof(void *); inside++) {
            config.size = pointers[i] + inside;
            assert_fails(hmreg_domain_open_loopback(lib, NULL, &config, &domain), -EINVAL,
                         "inside");
        }
    for (size_t inside = 1; inside < 4; inside++) {
        config.size = offsetof(struct hmreg_domain_config, ways) + 4 + inside;
        assert_fails(hmreg_domain_open_loopback(lib, NULL, &config, &domain), -EINVAL, "inside");
    }
    assert_null(domain);
    /* The sizes that this struct had. */
    for (size_t size = offsetof(struct hmreg_domain_config, check); size <= sizeof(config);
         size += 8) {
        config.size = size;
        assert_ok(hmreg_domain_open_loopback(lib, NULL, &config, &domain));
        assert_ok(hmreg_domain_close(domain));
    }
    assert_ok(hmreg_close(lib));
}

TEST(outputs__size_ends_inside_a_field__inval)
{
    struct hmreg_domain_info info = {.size = offsetof(struct hmreg_domain_info, pci) - 1};
    struct hmreg_stats stats = {.size = offsetof(struct hmreg_stats, shown) + 4};
    struct hmreg_explanation why = {.size = offsetof(struct hmreg_explanation, policy) + 1};
    struct hmreg_domain *domain;
    struct hmreg *lib;

    assert_ok(hmreg_open(NULL, &lib));
    assert_ok(hmreg_domain_open_loopback(lib, NULL, NULL, &domain));
    assert_fails(hmreg_domain_query(domain, &info), -EINVAL, "inside");
    assert_fails(hmreg_domain_stats(domain, &stats), -EINVAL, "inside");
    assert_fails(hmreg_domain_explain(domain, HMREG_IFACE_SYSTEM, 0, &why), -EINVAL, "inside");
    info.size = offsetof(struct hmreg_domain_info, pci);
    stats.size = offsetof(struct hmreg_stats, shown);
    assert_ok(hmreg_domain_query(domain, &info));
    assert_ok(hmreg_domain_stats(domain, &stats));
    assert_ok(hmreg_domain_close(domain));
    assert_ok(hmreg_close(lib));
}

TEST_MAIN()
