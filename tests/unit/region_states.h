/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * States of the region that a table's rows are about, beside those of world.h: its memory is
 * suspended, its domain is lost. Each ends itself after the row.
 */
#ifndef HMREG_TESTS_UNIT_REGION_STATES_H
#define HMREG_TESTS_UNIT_REGION_STATES_H

#include "tests/support/world.h"

#include <hmreg/lost.h>
#include <hmreg/suspend.h>

static struct hmreg_mr *region; /* explicit; NULL: none */

static void end_suspension(void)
{
    assert_ok(hmreg_resume(world.lib, world.host, WORLD_BYTES, NULL));
}

static void suspend(void)
{
    assert_ok(hmreg_suspend(world.lib, world.host, WORLD_BYTES));
    test_after(end_suspension);
}

/* Its thread may not be through yet. */
static void close_lost(void)
{
    assert_ok(hmreg_mr_close(region));
    region = NULL;
    test_wait_until(hmreg_domain_close(world.domain) == 0);
    world.domain = world.nic[0] = NULL;
}

static void lose(void)
{
    assert_ok(hmreg_domain_lost(world.domain, "the port is down"));
    test_after(close_lost);
}

#endif
