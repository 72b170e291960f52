/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The suite on loopback: in every combination of mr_mode bits, in the two old modes, and with
 * limits as other fabrics have them.
 */
#include "tests/conformance/suite.h"

#include <hmreg/loopback.h>

#define COMBINATIONS 512 /* of HMREG_MR_LOCAL to HMREG_MR_HMEM */

static const struct hmreg_loopback_config others[] = {
    {.mr_mode = HMREG_MR_BASIC},
    {.mr_mode = HMREG_MR_SCALABLE},
    {.key_size = 1, .iov_limit = 1, .max_len = 1 << 20},
    {.key_size = 1, .mr_mode = HMREG_MR_PROV_KEY},
    {.key_size = 2, .iov_limit = 2},
    {.key_size = 7, .iov_limit = 1, .mr_mode = HMREG_MR_VIRT_ADDR},
    {.iov_limit = 1, .mr_mode = HMREG_MR_RAW},
};

static struct hmreg_loopback_config config; /* of the current variant */

static int open_more(struct suite_fixture *fixture, const struct hmreg_domain_config *common,
                     struct hmreg_domain **out)
{
    return hmreg_domain_open_loopback(fixture->lib, &config, common, out);
}

/* With HMREG_TEST_PART=10 every 11th combination is tried: an odd step, so that each mode is tried
 * both on and off. */
static bool is_tried(unsigned combination)
{
    return combination % (COMBINATIONS / test_times(COMBINATIONS) | 1) == 0;
}

static bool open_pair(struct suite_fixture *fixture, unsigned variant)
{
    if (variant < COMBINATIONS && !is_tried(variant))
        return false;
    if (variant < COMBINATIONS)
        config = (struct hmreg_loopback_config){.mr_mode = variant * HMREG_MR_LOCAL};
    else
        config = others[variant - COMBINATIONS];
    config.size = sizeof(config);
    fixture->asked_mode = config.mr_mode;
    assert_ok(open_more(fixture, NULL, &fixture->domain));
    assert_ok(open_more(fixture, NULL, &fixture->peer));
    return true;
}

static void close_pair(struct suite_fixture *fixture)
{
    assert_ok(hmreg_domain_close(fixture->peer));
    assert_ok(hmreg_domain_close(fixture->domain));
}

static int rma(struct suite_fixture *fixture, struct hmreg_remote *remote, bool write, void *local,
               size_t len, void *desc, uint64_t addr, uint64_t key)
{
    return write ? hmreg_loopback_write(remote, local, len, desc, addr, key)
                 : hmreg_loopback_read(remote, local, len, desc, addr, key);
}

/* A refusal does not affect an initiator. */
static void replace(struct suite_fixture *fixture)
{
}

static void *ep_open(struct hmreg_domain *domain)
{
    struct hmreg_loopback_ep *ep = NULL;

    assert_ok(hmreg_loopback_ep_open(domain, &ep));
    return ep;
}

static void ep_close(void *ep)
{
    assert_ok(hmreg_loopback_ep_close(ep));
}

static void *counter_open(struct suite_fixture *fixture)
{
    struct hmreg_loopback_counter *counter = NULL;

    assert_ok(hmreg_loopback_counter_open(fixture->domain, &counter));
    return counter;
}

static uint64_t counter_read(void *counter)
{
    return hmreg_loopback_counter_read(counter);
}

static void counter_close(void *counter)
{
    assert_ok(hmreg_loopback_counter_close(counter));
}

/* ---- events ----------------------------------------------------------------------------- */

static bool async_open(struct suite_fixture *fixture, struct hmreg_domain **out)
{
    struct hmreg_loopback_eq *eq = NULL;

    assert_ok(open_more(fixture, NULL, out));
    assert_ok(hmreg_loopback_eq_open(*out, &eq));
    assert_ok(hmreg_domain_bind(*out, eq, HMREG_BIND_REG_MR));
    fixture->own = eq;
    return true;
}

static void async_close(struct suite_fixture *fixture, struct hmreg_domain *domain)
{
    assert_ok(hmreg_loopback_eq_close(fixture->own));
    assert_ok(hmreg_domain_close(domain));
}

static bool async_event(struct suite_fixture *fixture, void **context)
{
    struct hmreg_loopback_event event = {.size = sizeof(event)};

    if (hmreg_loopback_eq_read(fixture->own, &event, 0))
        return false;
    *context = event.context;
    return true;
}

const struct suite_fabric *suite_fabric(const char *name)
{
    static const struct suite_fabric loopback = {
        .name = "loopback",
        .exact_errors = true,
        .reports_denials = true,
        .variants = COMBINATIONS + sizeof(others) / sizeof(others[0]),
        .open = open_pair,
        .open_more = open_more,
        .close = close_pair,
        .rma = rma,
        .replace = replace,
        .ep_open = ep_open,
        .ep_close = ep_close,
        .counter_open = counter_open,
        .counter_read = counter_read,
        .counter_close = counter_close,
        .async_open = async_open,
        .async_close = async_close,
        .async_event = async_event,
    };

    return &loopback;
}
