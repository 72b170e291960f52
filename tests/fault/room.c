/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Each call fails once that a registration makes for which idle regions give way. It finds room
 * nevertheless, or fails for want of memory of its own.
 */
#include "tests/fault/faults.h"
#include "tests/support/scarce.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"

#include <hmreg/hmreg.h>

#define PAGE ((size_t)4096)

static char memory[32][PAGE] __attribute__((aligned(65536)));
static struct hmreg *lib;
static struct hmreg_domain *domains[2];

static void fill(void)
{
    for (unsigned i = 0; i < 8; i++) {
        struct hmreg_mr *mr = NULL;

        assert_ok(hmreg_mr_get(domains[0], memory[i], PAGE, HMREG_SEND, &mr));
        hmreg_mr_put(mr);
    }
}

static int register_as(bool get, struct hmreg_mr **mr)
{
    return get ? hmreg_mr_get(domains[1], memory[16], 5 * PAGE, HMREG_SEND, mr)
               : hmreg_mr_reg(domains[1], memory[16], 5 * PAGE, HMREG_SEND, 0, 0, 0, mr, NULL);
}

static void end_as(bool get, struct hmreg_mr *mr)
{
    if (get)
        hmreg_mr_put(mr);
    else
        assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_flush(domains[1]));
}

/* Returns the call that failed. */
static const char *try_with(unsigned nth, bool get)
{
    struct hmreg_mr *mr = NULL;
    const char *fired;
    int rc;

    fill();
    faults_arm(nth);
    rc = register_as(get, &mr);
    fired = faults_fired();
    faults_arm(0);
    if (rc && (strcmp(hmreg_last_error()->source, "hmreg") || rc != -ENOMEM))
        fail_msg("call %u (%s): %s", nth, fired, hmreg_last_error()->text);
    if (rc)
        assert_ok(register_as(get, &mr));
    end_as(get, mr);
    return fired;
}

static void each_call_fails(bool get)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_IMPORT};
    unsigned failed = 0;

    vendors_reset();
    scarce_reset();
    scarce_limit_locked(8 * PAGE);
    assert_ok(hmreg_open(&config, &lib));
    domains[0] = scarce_open(lib, 0, true, NULL);
    domains[1] = scarce_open(lib, 1, true, NULL);
    while (try_with(failed + 1, get))
        failed++;
    assert_true(failed > 3);
    for (int i = 0; i < 2; i++)
        assert_ok(hmreg_domain_close(domains[i]));
    assert_ok(hmreg_close(lib));
}

TEST(get__each_call_fails__finds_room_or_has_no_memory)
{
    each_call_fails(true);
}

TEST(reg__each_call_fails__finds_room_or_has_no_memory)
{
    each_call_fails(false);
}

TEST_MAIN()
