/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The program's own UFFDIO_MOVE (Linux 6.8) of memory with an idle cached region: the kernel moves
 * no page that is pinned (EBUSY). The region is deregistered by hmreg_invalidate() and
 * hmreg_domain_progress(), and the move succeeds. The fabric pins the pages by io_uring.
 */
#include "tests/support/pinning.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <hmreg/hmreg.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define LEN 65536 /* whole pages on every machine */

/* Of Linux 6.8. */
#define MOVE_FEATURE (1ull << 16)
struct move {
    uint64_t dst, src, len, mode;
    int64_t done;
};
#define MOVE_IOCTL _IOWR(UFFDIO, 0x05, struct move)

static struct {
    struct hmreg *lib;
    struct hmreg_domain *domain;
    int uffd;
    char *from, *to;
} t;

static char *map_pages(void)
{
    char *at = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(at, MAP_FAILED);
    return at;
}

/* The program's userfaultfd, which takes the destination's faults. */
static void open_uffd(void)
{
    struct uffdio_api api = {.api = UFFD_API, .features = MOVE_FEATURE};
    struct uffdio_register watch = {.range = {(uintptr_t)t.to, LEN},
                                    .mode = UFFDIO_REGISTER_MODE_MISSING};

    t.uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (t.uffd < 0)
        test_skip("this process may open no userfaultfd: %s", strerror(errno));
    if (ioctl(t.uffd, UFFDIO_API, &api)) {
        close(t.uffd);
        test_skip("this kernel has no UFFDIO_MOVE (Linux 6.8)");
    }
    assert_int_equal(ioctl(t.uffd, UFFDIO_REGISTER, &watch), 0);
}

static void open_all(enum hmreg_monitor monitor)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = monitor};
    int rc;

    t.from = map_pages();
    t.to = map_pages();
    open_uffd();
    pinning_reset();
    rc = ring_open(&pinning.ring);
    if (rc)
        test_skip("the kernel permits no io_uring: %s", strerror(-rc));
    rc = hmreg_open(&config, &t.lib);
    if (rc == -EPERM || rc == -ENOSYS || rc == -EOPNOTSUPP) {
        ring_close(pinning.ring);
        pinning.ring = NULL;
        test_skip("%s", hmreg_last_error()->text);
    }
    assert_ok(rc);
    assert_ok(pinning_open(t.lib, NULL, &t.domain));
}

static void close_all(void)
{
    assert_ok(hmreg_domain_close(t.domain));
    assert_ok(hmreg_close(t.lib));
    ring_close(pinning.ring);
    pinning.ring = NULL;
    close(t.uffd);
    munmap(t.from, LEN);
    munmap(t.to, LEN);
    assert_string_equal(pinning_complaint(), "");
}

/* 0, or the error number. */
static int move(void)
{
    struct move move = {.dst = (uintptr_t)t.to, .src = (uintptr_t)t.from, .len = LEN};

    return ioctl(t.uffd, MOVE_IOCTL, &move) ? errno : 0;
}

static struct hmreg_mr *get(void)
{
    struct hmreg_mr *mr = NULL;

    assert_ok(hmreg_mr_get(t.domain, t.from, LEN, HMREG_ACCESS_REMOTE, &mr));
    return mr;
}

static void check(enum hmreg_monitor monitor)
{
    struct hmreg_mr *mr;
    uint64_t before;

    open_all(monitor);
    memset(t.from, 7, LEN);
    mr = get();
    before = pinned_of(mr)->key;
    hmreg_mr_put(mr);
    assert_int_equal(atomic_load(&pinning.alive), 1); /* idle, and cached */
    assert_int_equal(move(), EBUSY);
    assert_ok(hmreg_invalidate(t.lib, t.from, LEN));
    assert_ok(hmreg_domain_progress(t.domain));
    assert_int_equal(atomic_load(&pinning.alive), 0);
    test_wait_until(move() != EBUSY); /* io_uring lets go of the pages a little later */
    assert_int_equal(t.to[LEN - 1], 7);
    memset(t.from, 8, LEN);
    mr = get();
    assert_int_not_equal(pinned_of(mr)->key, before);
    hmreg_mr_put(mr);
    close_all();
}

TEST(move__idle_region__memhooks__after_an_invalidate)
{
    check(HMREG_MONITOR_MEMHOOKS);
}

TEST(move__idle_region__userfaultfd__after_an_invalidate)
{
    check(HMREG_MONITOR_USERFAULTFD);
}

TEST_MAIN()
