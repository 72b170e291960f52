/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * How a range would be registered, and which limits it meets. */
#include "tests/support/inside.h"
#include "tests/support/script.h"
#include "tests/support/vendors.h"

#include <fcntl.h>
#include <hmreg/group.h>
#include <hmreg/plan.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static struct script_fixture fixture;

#define MiB (UINT64_C(1) << 20)

static struct hmreg_plan plan_on(enum hmreg_iface iface, int device, uint64_t len)
{
    struct hmreg_plan plan = {.size = sizeof(plan)};

    assert_ok(hmreg_domain_plan(fixture.domain, iface, device, len, &plan));
    assert_int_equal(plan.size, sizeof(plan));
    assert_true(plan.len == len);
    assert_true((plan.regions - 1) * plan.region_len + plan.last_len == len);
    assert_true(plan.last_len > 0 && plan.last_len <= plan.region_len);
    assert_true(plan.cacheable <= plan.fits && plan.fits <= len);
    for (int i = 0; i < HMREG_PLAN_KINDS; i++) {
        assert_true(plan.limits[i].text[0]);
        assert_true(plan.limits[i].fits <= len);
    }
    return plan;
}

static struct hmreg_plan plan_host(const struct script_caps *caps, uint64_t len)
{
    struct hmreg_plan plan;

    script_open(&fixture, caps, NULL);
    plan = plan_on(HMREG_IFACE_SYSTEM, -1, len);
    test_finish();
    assert_int_equal(plan.path, HMREG_PATH_SYSTEM);
    return plan;
}

/* ---- regions ---------------------------------------------------------------------------- */

TEST(plan__of_the_whole_address_space__no_overflow)
{
    struct script_caps caps = script_caps;
    struct hmreg_plan plan;

    caps.max_len = 1;
    caps.max_mr = 7;
    caps.pins = true;
    plan = plan_host(&caps, UINT64_MAX);
    assert_true(plan.regions == UINT64_MAX);
    assert_true(plan.limits[HMREG_PLAN_MAX_LEN].limit == 1);
    assert_true(plan.limits[HMREG_PLAN_MAX_MR].fits == 7);
    caps.max_len = UINT64_MAX;
    plan = plan_host(&caps, UINT64_MAX);
    assert_int_equal(plan.regions, 1);
    assert_string_equal(plan.limits[HMREG_PLAN_MAX_LEN].text,
                        "the fabric states no longest region");
}

/* ---- limits ----------------------------------------------------------------------------- */

/* Whether this process, root say, is exempt from RLIMIT_MEMLOCK. */
static void set_exempt(bool exempt)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

    assert_int_equal(syscall(SYS_capget, &header, data), 0);
    if (exempt)
        data[0].effective |= data[0].permitted & CAP_TO_MASK(CAP_IPC_LOCK);
    else
        data[0].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
    assert_int_equal(syscall(SYS_capset, &header, data), 0);
}

/* What /proc/self/status says; NULL: the kernel's. */
static char *said;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
    int fd;

    if (!said || strcmp(path, "/proc/self/status"))
        return __real_open(path, flags, 0);
    fd = memfd_create("status", MFD_CLOEXEC);
    assert_int_equal(write(fd, said, strlen(said)), strlen(said));
    lseek(fd, 0, SEEK_SET);
    return fd;
}

TEST(plan__more_than_may_be_locked__what_fits_and_the_remedy)
{
    struct script_caps caps = script_caps;
    struct rlimit before, few;
    struct hmreg_plan plan;

    caps.pins = true;
    caps.max_len = 2 * MiB;
    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    few = (struct rlimit){5 * MiB, before.rlim_max};
    if (before.rlim_max < few.rlim_cur)
        test_skip("RLIMIT_MEMLOCK is too low for this test");
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &few), 0);
    set_exempt(false);
    plan = plan_host(&caps, 9 * MiB);
    assert_true(plan.pinned == 9 * MiB);
    assert_true(plan.limits[HMREG_PLAN_MEMLOCK].limit == 5 * MiB);
    assert_true(plan.limits[HMREG_PLAN_MEMLOCK].needed >= 9 * MiB);
    assert_true(plan.limits[HMREG_PLAN_MEMLOCK].fits == 4 * MiB);
    assert_non_null(strstr(plan.limits[HMREG_PLAN_MEMLOCK].text, "ulimit -l"));
    assert_true(plan.fits == 4 * MiB);
    assert_non_null(strstr(plan.limits[HMREG_PLAN_MEMLOCK].text, "raise it"));
    plan = plan_host(&caps, 5 * MiB);
    assert_true(plan.fits == 5 * MiB);
    assert_null(strstr(plan.limits[HMREG_PLAN_MEMLOCK].text, "raise it"));
    said = "Name:\thmreg\nVmLck:\t      20 kB\nVmPin:\t    2048 kB\nVmHWM:\t    4000 kB\n";
    plan = plan_host(&caps, 5 * MiB);
    said = NULL;
    assert_true(plan.limits[HMREG_PLAN_MEMLOCK].needed == 7 * MiB);
    assert_true(plan.limits[HMREG_PLAN_MEMLOCK].fits == 2 * MiB);
    assert_non_null(strstr(plan.limits[HMREG_PLAN_MEMLOCK].text, "2097152 of it in use"));
    caps.pins = false;
    plan = plan_host(&caps, 9 * MiB);
    assert_true(plan.fits == 9 * MiB);
    set_exempt(true);
    if (inside_may_lock()) {
        caps.pins = true;
        plan = plan_host(&caps, 9 * MiB);
        assert_true(plan.fits == 9 * MiB);
    }
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

/* Each rail's registration pins the range and is counted; the memory is there once. */
TEST(plan__of_a_group__each_pinning_rail_counts)
{
    struct script_caps pins = script_caps, plain = script_caps;
    struct hmreg_domain *members[3] = {0}, *group = NULL;
    struct rlimit before, few;
    struct hmreg_plan plan = {.size = sizeof(plan)};

    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    few = (struct rlimit){6 * MiB, before.rlim_max};
    if (before.rlim_max < few.rlim_cur)
        test_skip("RLIMIT_MEMLOCK is too low for this test");
    pins.pins = true;
    pins.max_len = 2 * MiB;
    script_open(&fixture, &pins, NULL);
    members[0] = fixture.domain;
    assert_ok(script_domain(fixture.lib, &pins, NULL, &members[1]));
    assert_ok(script_domain(fixture.lib, &plain, NULL, &members[2]));
    assert_ok(hmreg_group_open(fixture.lib, members, 3, NULL, &group));
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &few), 0);
    set_exempt(false);
    assert_ok(hmreg_domain_plan(group, HMREG_IFACE_SYSTEM, -1, 4 * MiB, &plan));
    assert_true(plan.pinned == 8 * MiB);
    assert_true(plan.limits[HMREG_PLAN_MEMLOCK].needed >= 8 * MiB);
    assert_true(plan.limits[HMREG_PLAN_MEMLOCK].fits == 2 * MiB);
    assert_non_null(strstr(plan.limits[HMREG_PLAN_MEMLOCK].text, "each rail"));
    said = "VmPin:\t12345678901 kB\n";
    assert_ok(hmreg_domain_plan(group, HMREG_IFACE_SYSTEM, -1, 4 * MiB, &plan));
    said = NULL;
    assert_non_null(strstr(plan.limits[HMREG_PLAN_MEMLOCK].text, "--ulimit memlock=-1 of Docker"));
    assert_true(plan.limits[HMREG_PLAN_MEMORY].needed == 4 * MiB);
    set_exempt(true);
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &before), 0);
    assert_ok(hmreg_domain_close(group));
    for (int i = 1; i < 3; i++)
        assert_ok(hmreg_domain_close(members[i]));
    script.destroys = 0;
}

/* ---- device memory ---------------------------------------------------------------------- */

TEST(plan__device_memory_by_dmabuf__an_export_for_each_region)
{
    struct script_caps caps = script_caps;
    struct hmreg_plan plan;

    caps.max_len = 2 * MiB;
    caps.pins = true;
    script_open(&fixture, &caps, NULL);
    vendors[HMREG_IFACE_CUDA].dmabuf = true;
    plan = plan_on(HMREG_IFACE_CUDA, 1, 8 * MiB);
    assert_int_equal(plan.path, HMREG_PATH_DMABUF);
    assert_int_equal(plan.exports, 4);
    assert_int_equal(plan.pinned, 0); /* host memory only */
    assert_int_equal(plan.limits[HMREG_PLAN_DESCRIPTORS].needed,
                     test_count_fds() - 2); /* without ., .. and the folder, with one more */
    assert_true(plan.fits == 8 * MiB);
}

TEST(plan__no_descriptor_left__nothing_fits)
{
    struct script_caps caps = script_caps;
    struct rlimit before, few;
    struct hmreg_plan plan, none, host;
    int last;

    caps.pins = true;
    script_open(&fixture, &caps, NULL);
    vendors[HMREG_IFACE_CUDA].dmabuf = true;
    last = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(last >= 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){(rlim_t)last, before.rlim_max};
    close(last);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few),
                     0); /* none can be opened, to count them, too */
    none = plan_on(HMREG_IFACE_CUDA, 0, 4096);
    host = plan_on(HMREG_IFACE_SYSTEM, -1, 4096); /* /proc/self/status is out of reach */
    few.rlim_cur = (rlim_t)last + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    plan = plan_on(HMREG_IFACE_CUDA, 0, 4096);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(host.limits[HMREG_PLAN_MEMLOCK].needed, 4096);
    assert_int_equal(host.pinned, 4096);
    assert_int_equal(none.fits, 0);
    assert_int_equal(none.limits[HMREG_PLAN_DESCRIPTORS].needed, last + 1);
    assert_non_null(strstr(none.limits[HMREG_PLAN_DESCRIPTORS].text, "ulimit -n"));
    assert_int_equal(plan.fits, 4096);
}

/* ---- forks ------------------------------------------------------------------------------ */

TEST(plan__in_a_forked_child__eperm)
{
    struct hmreg_plan plan = {.size = sizeof(plan)};

    test_forks_wipe();
    script_open(&fixture, NULL, NULL);
    test_in_child(hmreg_domain_plan(fixture.domain, HMREG_IFACE_SYSTEM, -1, 1, &plan) != -EPERM);
}

TEST_MAIN()
