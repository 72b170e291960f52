/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See gone.h: a domain of verbs, on the simulated libibverbs, and its memory windows.
 */
#include "tests/fault/gone.h"
#include "tests/support/fake_verbs.h"
#include "tests/support/test.h"

#include <errno.h>
#include <hmreg/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct ibv_pd *pd;
static char folder[] = "/tmp/hmreg-gone-XXXXXX";

static int ask(void)
{
    return gone_asked() ? EIO : 0;
}

void gone_begin(void)
{
    pd = fake_verbs_reset();
    fake_verbs.each_call = ask;
    memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
    assert_non_null(mkdtemp(folder));
    strcpy(fake_verbs_device()->ibdev_path, folder);
}

void gone_vanish(void)
{
    rmdir(folder);
}

void gone_end(void)
{
    rmdir(folder);
    fake_verbs_end_windows(); /* that the gone device did not */
    assert_int_equal(fake_verbs.live, 0);
    assert_int_equal(fake_verbs.windows, 0);
}

int gone_open(struct hmreg *lib, struct hmreg_domain **out)
{
    struct hmreg_domain_config config = {.size = sizeof(config),
                                         .flags = HMREG_VERBS_MEMORY_WINDOWS};

    return hmreg_domain_open_verbs(lib, pd, &config, out);
}

static int open_window(struct hmreg_mr *mr, void *memory, size_t len, struct hmreg_window **out)
{
    struct ibv_qp qp = {.context = pd->context, .pd = pd};

    return hmreg_window_open(mr, memory, len, HMREG_REMOTE_READ, &qp, IBV_MW_TYPE_2, 1, out);
}

/* What the device did not end. */
static struct hmreg_window *left_window;
static struct hmreg_mr *left_mr;

int gone_calls(struct hmreg_domain *domain, void *memory, size_t len)
{
    int rc, closed;

    rc = hmreg_mr_reg(domain, memory, len, HMREG_ACCESS_ALL, 0, 0, 0, &left_mr, NULL);
    rc = rc ? rc : open_window(left_mr, memory, len, &left_window);
    closed = hmreg_window_close(left_window);
    if (closed)
        return closed;
    left_window = NULL;
    closed = hmreg_mr_close(left_mr);
    left_mr = NULL;
    return rc ? rc : closed;
}

void gone_rest(void)
{
    assert_ok(hmreg_window_close(left_window));
    assert_ok(hmreg_mr_close(left_mr));
    left_window = NULL;
    left_mr = NULL;
}

void *gone_object(struct hmreg_domain *domain, struct hmreg_mr *mr, void *memory, size_t len)
{
    struct hmreg_window *window = NULL;

    assert_ok(open_window(mr, memory, len, &window));
    return window;
}

void gone_after(struct hmreg_domain *domain, struct hmreg_mr *mr, void *object, void *memory,
                size_t len)
{
    struct hmreg_window *window = (void *)1;

    assert_int_equal(open_window(mr, memory, len, &window), -ENODEV);
    assert_ptr_equal(window, (void *)1);
    assert_ok(hmreg_window_close(object));
}
