/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A group of domains of the scripted provider, for group.c.
 */
#ifndef HMREG_TESTS_UNIT_GROUP_FIXTURE_H
#define HMREG_TESTS_UNIT_GROUP_FIXTURE_H

#include "tests/support/failing_allocation.h"
#include "tests/support/script.h"
#include "tests/support/vendors.h"

#include <hmreg/group.h>
#include <sys/mman.h>

#define MOST 8

/* The case's own; closed when it returns. */
static struct fixture {
    struct script_fixture script; /* its domain is member 0 */
    struct hmreg_domain *members[MOST];
    size_t count;
    struct hmreg_domain *group;
    char *host;
} fixture;

static inline void add_member(const struct script_caps *caps,
                              const struct hmreg_domain_config *config)
{
    assert_ok(script_domain(fixture.script.lib, caps, config, &fixture.members[fixture.count++]));
}

static inline void close_fixture(void)
{
    if (!fixture.count) /* the case has closed all itself */
        return;
    assert_ok(hmreg_domain_close(fixture.group));
    for (size_t i = 1; i < fixture.count; i++)
        assert_ok(hmreg_domain_close(fixture.members[i]));
    script.destroys = 0;
    free(fixture.host);
    script_close(&fixture.script);
}

static inline void open_members(size_t count, const struct script_caps *caps)
{
    fixture = (struct fixture){.count = 1};
    script_open(&fixture.script, caps, NULL);
    test_after(close_fixture);
    fixture.members[0] = fixture.script.domain;
    while (fixture.count < count)
        add_member(caps, NULL);
    fixture.host = malloc(FIXTURE_BYTES);
    memset(fixture.host, 'h', FIXTURE_BYTES);
}

static inline void open_group(uint32_t flags)
{
    struct hmreg_group_config config = {.size = sizeof(config), .flags = flags};

    assert_ok(hmreg_group_open(fixture.script.lib, fixture.members, fixture.count, &config,
                               &fixture.group));
}

static inline void open_fixture(size_t count, uint32_t flags)
{
    open_members(count, NULL);
    open_group(flags);
}

#endif
