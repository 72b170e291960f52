/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See uffd.h. A userfaultfd is opened by the system call, or by an ioctl of /dev/userfaultfd (Linux
 * 6.1), which containers' filters permit where the file exists. A seccomp filter either fails the
 * system call or kills the process for it, and cannot be asked which: so under a filter only the
 * file is tried, unless the user requests userfaultfd by name.
 *
 * Before Linux 5.15 the kernel kept "changing" in a flag, not a counter: with two changes under way
 * the end of one hid the other, and uffd_ask_changing() returned 0 too early. No feature bit
 * reports the fix; UFFD_FEATURE_EXACT_ADDRESS came with 5.18, so a kernel that has it is new
 * enough, and one that does not must have a release of at least 5.15.
 */
#include "core/monitor/userfaultfd/uffd.h"

#include "core/base/error.h"
#include "core/base/high_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xaa, 0)
#endif
#ifndef UFFD_FEATURE_EXACT_ADDRESS
#define UFFD_FEATURE_EXACT_ADDRESS (1 << 11)
#endif

#define EVENTS (UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP)
/* User-mode faults only: an unprivileged process may have no others, and no fault is ever taken. */
#define FLAGS (O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)
#define PIECE (1ull << 30) /* bytes unregistered by one ioctl, which locks the address space */

/* ---- ioctls ----------------------------------------------------------------------------- */

int uffd_watch(int fd, uint64_t start, uint64_t end)
{
    struct uffdio_register range = {.range = {start, end - start}, .mode = UFFDIO_REGISTER_MODE_WP};

    return ioctl(fd, UFFDIO_REGISTER, &range) ? -errno : 0;
}

int uffd_unwatch(int fd, uint64_t start, uint64_t end)
{
    struct uffdio_range range = {start, end - start};

    return ioctl(fd, UFFDIO_UNREGISTER, &range) ? -errno : 0;
}

void uffd_leave_own(int fd, uint64_t start, uint64_t end, void (*between)(void *arg), void *arg)
{
    for (uint64_t at = start, next; at < end; at = next) {
        next = (at / PIECE + 1) * PIECE;
        next = next < end ? next : end;
        if (uffd_unwatch(fd, at, next) && next < end) /* each piece adds a mapping, and their number
                                                       * is limited */
            uffd_unwatch(fd, at, next = end);
        if (between)
            between(arg);
    }
}

bool uffd_leave(int fd, uint64_t start, uint64_t end, void (*between)(void *arg), void *arg)
{
    if (uffd_watch(fd, start, end))
        return false;
    uffd_leave_own(fd, start, end, between, arg);
    return true;
}

/* There is no direct query. The kernel refuses a copy to unwatched memory (ENOENT) before it finds
 * that the source cannot be read (EFAULT). Nothing is ever copied. */
int uffd_ask_watched(int fd, uint64_t addr, uint64_t page_size)
{
    void *from = mmap(NULL, page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_copy copy = {
        .dst = addr,
        .src = (uintptr_t)from,
        .len = page_size,
        .mode = UFFDIO_COPY_MODE_DONTWAKE,
    };
    int rc;

    if (from == MAP_FAILED) /* EAGAIN: beyond RLIMIT_MEMLOCK after mlockall(2) */
        return -ENOMEM;
    rc = ioctl(fd, UFFDIO_COPY, &copy) ? -errno : 0;
    munmap(from, page_size);
    return rc == -EFAULT || rc == -EEXIST ? 0 : rc;
}

/* A copy of length 0 is an error (EINVAL), which the kernel finds after it has checked whether it
 * is changing (EAGAIN). No other ioctl is as cheap, and this one does not lock the address space.
 */
int uffd_ask_changing(int fd)
{
    struct uffdio_copy nothing = {.len = 0};

    (void)ioctl(fd, UFFDIO_COPY, &nothing);
    return errno == EINVAL ? 0 : -errno;
}

/* The kernel refuses to read less than one event (EINVAL). */
bool uffd_may_read(int fd)
{
    return read(fd, NULL, 0) >= 0 || errno == EINVAL || errno == EAGAIN || errno == EINTR;
}

/* ---- opening ---------------------------------------------------------------------------- */

static int open_by_call(void)
{
    int fd = high_fd((int)syscall(SYS_userfaultfd, FLAGS));

    if (fd >= 0)
        return fd;
    return errno == EINVAL ? -ENOSYS : -errno; /* EINVAL: the kernel is too old for a flag */
}

static int open_by_file(void)
{
    int file = high_fd(open("/dev/userfaultfd", O_RDWR | O_CLOEXEC)), fd, rc;

    if (file < 0)
        return -errno;
    fd = high_fd(ioctl(file, USERFAULTFD_IOC_NEW, FLAGS));
    rc = fd < 0 ? -errno : fd;
    close(file);
    return rc;
}

static bool is_refusal(int rc)
{
    return rc < 0 && rc != -EMFILE && rc != -ENFILE && rc != -ENOMEM;
}

static int fail_filtered(int file)
{
    return hmreg_fail(
        -EPERM,
        "userfaultfd is not used: a seccomp filter might kill the process for userfaultfd(2), so "
        "hmreg calls it only if userfaultfd is requested by name; and /dev/userfaultfd: %s",
        hmreg_strerror(file));
}

static int open_descriptor(bool by_name)
{
    bool filtered = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) > 0;
    int file = filtered ? open_by_file() : -ENOENT;
    int rc = file;

    if (is_refusal(file) && filtered && !by_name)
        return fail_filtered(file);
    if (is_refusal(file))
        rc = open_by_call();
    if (is_refusal(rc) && !filtered) {
        file = open_by_file();
        rc = is_refusal(file) ? rc : file;
    }
    if (rc == -EMFILE || rc == -ENFILE)
        return hmreg_fail_os(-rc, "userfaultfd: no descriptor is left");
    if (rc < 0)
        return hmreg_fail_os(-rc, "userfaultfd is not available: permit userfaultfd(2), or grant "
                                  "access to /dev/userfaultfd");
    return rc;
}

bool uffd_is_exact(uint64_t features, const char *release)
{
    unsigned major = 0, minor = 0;

    if (features & UFFD_FEATURE_EXACT_ADDRESS)
        return true;
    return sscanf(release, "%u.%u", &major, &minor) == 2 &&
           (major > 5 || (major == 5 && minor >= 15));
}

static int agree(int fd)
{
    struct uffdio_api api = {.api = UFFD_API, .features = EVENTS | UFFD_FEATURE_PAGEFAULT_FLAG_WP};
    struct utsname system = {.release = ""};

    if (ioctl(fd, UFFDIO_API, &api) && errno != EINVAL)
        return hmreg_fail_os(errno, "userfaultfd: ioctl(2) with UFFDIO_API failed");
    if (!api.ioctls)
        return hmreg_fail(-ENOSYS, "this kernel's userfaultfd lacks write protection or events");
    uname(&system);
    if (!uffd_is_exact(api.features, system.release))
        return hmreg_fail(-ENOSYS,
                          "userfaultfd of this kernel (%s) does not report when several changes "
                          "are under way; Linux 5.15 does",
                          system.release);
    return 0;
}

/* Tests, on a page of our own, whether this kernel does what the monitor needs. */
static int try_watching(int fd, uint64_t at, uint64_t size)
{
    int rc = uffd_watch(fd, at, at + size);

    rc = rc ? rc : uffd_ask_changing(fd);
    rc = rc ? rc : uffd_unwatch(fd, at, at + size);
    if (rc)
        return hmreg_fail(rc == -ENOMEM ? rc : -ENOSYS,
                          "this kernel's userfaultfd does not watch memory: %s",
                          hmreg_strerror(rc));
    return 0;
}

/* A page that is still watched is unmapped only after the descriptor is closed: before, munmap(2)
 * would wait for its event to be read. */
int uffd_open(bool by_name, struct owned_fd *out)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd, rc;

    if (page == MAP_FAILED)
        return hmreg_fail_os(errno, "hmreg has no memory for the monitor");
    fd = open_descriptor(by_name);
    rc = fd < 0 ? fd : agree(fd);
    if (!rc && !uffd_may_read(fd))
        rc = hmreg_fail_os(errno, "userfaultfd: read(2) failed");
    rc = rc ? rc : try_watching(fd, (uintptr_t)page, size);
    if (!rc)
        *out = owned_fd_take(fd);
    else if (fd >= 0)
        close(fd);
    munmap(page, size);
    return rc;
}

/* Registers a page with another one. It is unregistered before the page is unmapped, which would
 * wait for ever if a sandbox refuses close(2). */
bool uffd_is_strict(int fd, bool by_name)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int other = page == MAP_FAILED ? -1 : open_descriptor(by_name);
    uint64_t at = (uintptr_t)page;
    bool strict = false;

    if (other >= 0) {
        strict = !agree(other) && !uffd_watch(other, at, at + size) &&
                 uffd_unwatch(fd, at, at + size) == -EINVAL;
        uffd_unwatch(other, at, at + size);
        close(other);
    }
    if (page != MAP_FAILED)
        munmap(page, size);
    return strict;
}
