/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Which threads may call libfabric at once, by the threading model and the provider, on a simulated
 * fid_domain: inside the first call a second one is begun on another thread, which ends, or waits.
 */
#include "tests/support/failing_allocation.h"
#include "tests/support/fake_fabric.h"
#include "tests/support/inside.h"
#include "tests/support/test.h"
#include "tests/support/vendors.h"
#include "tests/unit/ofi_fixture.h"

#include <hmreg/ofi.h>
#include <pthread.h>

#define MODE (FI_MR_RAW | FI_MR_ENDPOINT | FI_MR_MMU_NOTIFY)

static char memory[8192], others[8192];
static struct fid ep = {.fclass = FI_CLASS_EP};

static struct hmreg_mr *mr;         /* of fixture.domain */
static struct hmreg_domain *second; /* where the other thread registers */
static struct hmreg_mr *seconds;
static pthread_t thread;
static uint64_t mapped;

/* ---- the classes ------------------------------------------------------------------------ */

struct class
{
    const char *provider;
    enum fi_threading threading;
    uint32_t libfabric; /* the provider is of its tree */
    unsigned revision;
    uint64_t caps;
    bool any_thread;
};

#define OLD FI_VERSION(1, 17)
#define NEW FI_VERSION(2, 6)

static void check_class(const struct class *class)
{
    ofi_begin();
    ofi_set_provider(class->provider);
    fake_fabric.version = class->libfabric;
    fake_fabric.info->fabric_attr->prov_version = FI_VERSION(
        FI_MAJOR(class->libfabric) * 100 + FI_MINOR(class->libfabric), class->revision * 10);
    fake_fabric.info->domain_attr->threading = class->threading;
    fake_fabric.info->caps = FI_RMA | class->caps;
    assert_ok(ofi_open_domain(NULL));
    if (inside_any_thread(fixture.domain) != class->any_thread)
        fail_msg("%s of libfabric %u.%u.%u, class %d: any thread is %d", class->provider,
                 FI_MAJOR(class->libfabric), FI_MINOR(class->libfabric), class->revision,
                 class->threading, inside_any_thread(fixture.domain));
    test_finish();
}

TEST(any_thread__by_class_and_provider)
{
    static const struct class classes[] = {
        {"tcp;ofi_rxm", FI_THREAD_SAFE, OLD, 0, 0, true},
        {"tcp;ofi_rxm", FI_THREAD_COMPLETION, OLD, 0, 0, true},
        {"tcp;ofi_rxm", FI_THREAD_DOMAIN, OLD, 0, 0, false},
        {"tcp;ofi_rxm", FI_THREAD_UNSPEC, OLD, 0, 0, false},
        {"shm", FI_THREAD_SAFE, OLD, 0, 0, true},
        {"shm", FI_THREAD_COMPLETION, NEW, 0, 0, true},
        {"verbs;ofi_rxm", FI_THREAD_COMPLETION, NEW, 0, FI_ATOMIC, true},
        {"psm3", FI_THREAD_COMPLETION, NEW, 0, 0, true},
        {"net", FI_THREAD_SAFE, OLD, 0, 0, false},
        {"net", FI_THREAD_COMPLETION, OLD, 0, 0, false},
        {"tcp", FI_THREAD_SAFE, FI_VERSION(1, 18), 1, 0, false},
        {"tcp;ofi_rxm", FI_THREAD_SAFE, FI_VERSION(1, 18), 0, 0, false},
        {"tcp", FI_THREAD_SAFE, FI_VERSION(1, 18), 2, 0, true},
        {"tcp", FI_THREAD_COMPLETION, FI_VERSION(1, 22), 0, 0, true},
        {"tcp", FI_THREAD_SAFE, NEW, 0, 0, true},
        {"tcp", FI_THREAD_COMPLETION, FI_VERSION(2, 0), 0, 0, false},
        {"tcp;ofi_rxm", FI_THREAD_COMPLETION, NEW, 0, 0, true},
        {"efa", FI_THREAD_SAFE, NEW, 0, 0, true},
        {"efa", FI_THREAD_COMPLETION, NEW, 0, 0, true},
        {"efa", FI_THREAD_SAFE, NEW, 0, FI_ATOMIC, false},
        {"cxi", FI_THREAD_SAFE, NEW, 0, 0, true},
        {"cxi", FI_THREAD_COMPLETION, NEW, 0, 0, false},
        {"opx", FI_THREAD_SAFE, NEW, 0, 0, false},
        {"unheard", FI_THREAD_SAFE, NEW, 0, 0, true},
        {"unheard", FI_THREAD_COMPLETION, NEW, 0, 0, false},
    };

    for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
        check_class(&classes[i]);
}

/* ---- two calls at once ------------------------------------------------------------------ */

static int reg(struct hmreg_domain *domain, char *bytes, struct hmreg_mr **out)
{
    uint64_t key = bytes == others;

    return hmreg_mr_reg(domain, bytes, 4096, HMREG_ACCESS_ALL, 0, key, 0, out, NULL);
}

static void *register_second(void *result)
{
    *(int *)result = reg(second, others, &seconds);
    return NULL;
}

static int seconds_result;

/* Inside the first call: until the other thread waits for it, or has ended. */
static void start_second(void)
{
    assert_int_equal(pthread_create(&thread, NULL, register_second, &seconds_result), 0);
    test_wait_until_others_sleep();
    if (atomic_load(&fake_fabric.overlaps)) {
        pthread_join(thread, NULL);
        thread = 0;
    }
}

/* Calls at once on one fid_domain of this class. */
static void begin(enum fi_threading threading)
{
    ofi_begin();
    fake_fabric.info->domain_attr->threading = threading;
    fake_fabric.info->domain_attr->mr_mode = MODE;
    assert_ok(ofi_open_domain(NULL));
    second = fixture.domain;
    mr = NULL;
}

static unsigned overlaps_of(int (*first)(void))
{
    fake_fabric.on_call = start_second;
    assert_ok(first());
    if (thread)
        pthread_join(thread, NULL);
    thread = 0;
    assert_int_equal(seconds_result, 0);
    assert_ok(hmreg_mr_close(seconds));
    return atomic_exchange(&fake_fabric.overlaps, 0);
}

static int reg_first(void)
{
    return reg(fixture.domain, memory, &mr);
}

static int bind_first(void)
{
    return hmreg_mr_bind(mr, &ep, 0);
}

static int enable_first(void)
{
    return hmreg_mr_enable(mr);
}

static int refresh_first(void)
{
    return hmreg_mr_refresh(mr, NULL, 0, 0);
}

static int raw_attr_first(void)
{
    uint8_t raw[FAKE_RAW_BYTES];
    size_t size = sizeof(raw);

    return hmreg_mr_raw_attr(mr, NULL, raw, &size, 0);
}

static int map_first(void)
{
    static const uint8_t raw[FAKE_RAW_BYTES];

    return hmreg_domain_map_raw(fixture.domain, 0, raw, sizeof(raw), &mapped, 0);
}

static int unmap_first(void)
{
    return hmreg_domain_unmap_raw(fixture.domain, mapped);
}

static int close_first(void)
{
    return hmreg_mr_close(mr);
}

TEST(calls__thread_domain__one_at_a_time)
{
    int (*const calls[])(void) = {reg_first,      bind_first, enable_first, refresh_first,
                                  raw_attr_first, map_first,  unmap_first,  close_first};

    begin(FI_THREAD_DOMAIN);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        if (overlaps_of(calls[i]))
            fail_msg("call %zu is not alone", i);
}

TEST(calls__thread_safe_and_completion__at_once)
{
    static const enum fi_threading classes[] = {FI_THREAD_SAFE, FI_THREAD_COMPLETION};

    for (int i = 0; i < 2; i++) {
        begin(classes[i]);
        assert_int_equal(overlaps_of(reg_first), 1);
        assert_int_equal(overlaps_of(close_first), 1);
        test_finish();
    }
}

/* A call that fails ends, too. */
TEST(calls__thread_domain_and_busy__the_next_is_not_kept_waiting)
{
    begin(FI_THREAD_DOMAIN);
    assert_ok(reg_first());
    fake_fabric.close_code = -EBUSY;
    assert_fails(close_first(), -EBUSY, "fi_close()");
    fake_fabric.close_code = 0;
    fake_fabric.reg_code = -EIO;
    assert_fails(reg(fixture.domain, others, &seconds), -EIO, "fi_mr_regattr()");
    fake_fabric.reg_code = 0;
    assert_int_equal(overlaps_of(close_first), 0);
}

/* ---- several domains -------------------------------------------------------------------- */

static unsigned overlaps_with(struct hmreg *lib, struct fid_domain *fid)
{
    unsigned overlaps;

    assert_ok(hmreg_domain_open_ofi(lib, fid, fake_fabric.info, NULL, &second));
    overlaps = overlaps_of(reg_first);
    assert_ok(hmreg_mr_close(mr));
    assert_ok(hmreg_domain_close(second));
    return overlaps;
}

TEST(domains__on_one_fid_domain__one_at_a_time)
{
    struct hmreg *other;

    begin(FI_THREAD_DOMAIN);
    assert_int_equal(overlaps_with(fixture.lib, &fake_fabric.domain), 0);
    assert_ok(hmreg_open(NULL, &other));
    assert_int_equal(overlaps_with(other, &fake_fabric.domain), 0);
    assert_ok(hmreg_close(other));
}

TEST(domains__on_two_fid_domains__at_once)
{
    struct fid_domain other;

    begin(FI_THREAD_DOMAIN);
    other = fake_fabric.domain;
    assert_int_equal(overlaps_with(fixture.lib, &other), 1);
}

/* ---- forks ------------------------------------------------------------------------------ */

static int use_in_child(void)
{
    struct hmreg *lib;

    assert_ok(hmreg_open(NULL, &lib));
    assert_ok(hmreg_domain_open_ofi(lib, &fake_fabric.domain, fake_fabric.info, NULL, &second));
    assert_ok(reg(second, others, &seconds));
    assert_ok(hmreg_mr_close(seconds));
    assert_ok(hmreg_domain_close(second));
    return hmreg_close(lib);
}

static void fork_inside(void)
{
    test_in_child(use_in_child());
}

/* The child has the address, not the call. */
TEST(fork__inside_a_call__the_child_is_not_kept_waiting)
{
    test_forks_with_threads();
    test_forks_wipe();
    begin(FI_THREAD_DOMAIN);
    fake_fabric.on_call = fork_inside;
    assert_ok(reg_first());
    assert_ok(close_first());
}

/* ---- memory ----------------------------------------------------------------------------- */

TEST(open__no_memory__nomem)
{
    unsigned number;
    int rc;

    ofi_begin();
    fake_fabric.info->domain_attr->threading = FI_THREAD_DOMAIN;
    for (number = 1;; number++) {
        allocations = 0;
        failing = number;
        rc = ofi_open_domain(NULL);
        failing = 0;
        if (!rc)
            break;
        assert_int_equal(rc, -ENOMEM);
        assert_null(fixture.domain);
    }
    assert_true(allocations < number && number > 2);
}

TEST_MAIN()
