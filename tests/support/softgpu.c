/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See softgpu.h. The device is opened for each call: tests count descriptors.
 */
#include "tests/support/softgpu.h"

#include "tests/support/test.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <time.h>

static int ask(unsigned long command, void *argument)
{
    int device = open(SOFTGPU_DEVICE, O_RDWR | O_CLOEXEC), rc, saved;

    assert_true(device >= 0);
    rc = ioctl(device, command, argument);
    saved = errno;
    close(device);
    errno = saved;
    return rc;
}

void softgpu_need(void)
{
    if (access(SOFTGPU_DEVICE, R_OK | W_OK))
        test_skip("there is no " SOFTGPU_DEVICE "; ./run guest has one");
}

int softgpu_alloc(size_t len, unsigned flags)
{
    struct softgpu_alloc request = {.size = len, .flags = flags};

    if (ask(SOFTGPU_ALLOC, &request))
        fail_msg("SOFTGPU_ALLOC: %s", strerror(errno));
    return request.fd;
}

struct softgpu_stat softgpu_stat(int fd)
{
    struct softgpu_stat stat = {.fd = fd};

    if (ask(SOFTGPU_STAT, &stat))
        fail_msg("SOFTGPU_STAT: %s", strerror(errno));
    return stat;
}

void softgpu_assert_clean(void)
{
    struct softgpu_stat stat = softgpu_stat(-1);

    for (int i = 0; i < TEST_PATIENCE_SECONDS * 100 && (stat.buffers || stat.regions); i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
        stat = softgpu_stat(-1);
    }
    if (stat.buffers || stat.regions)
        fail_msg("left in the kernel: %u buffers, %u regions", stat.buffers, stat.regions);
}

void softgpu_fail(enum softgpu_op op, int errnum)
{
    struct softgpu_fault fault = {.op = op, .count = errnum ? 1 : 0, .err = (unsigned)errnum};

    assert_int_equal(ask(SOFTGPU_FAULT, &fault), 0);
}

int softgpu_move(int fd, bool force)
{
    struct softgpu_move request = {.fd = fd, .force = force};

    return ask(SOFTGPU_MOVE, &request);
}

int softgpu_duplicate(int fd, uint64_t offset, uint64_t size)
{
    struct softgpu_duplicate request = {.offset = offset, .size = size, .fd = fd};

    return ask(SOFTGPU_DUPLICATE, &request) ? -1 : request.duplicate;
}

int softgpu_peek(uint64_t bus, uint64_t *bytes)
{
    struct softgpu_peek request = {.bus = bus};
    int rc = ask(SOFTGPU_PEEK, &request);

    if (!rc)
        *bytes = request.bytes;
    return rc;
}

void softgpu_set(const char *parameter, const char *value)
{
    char path[80];
    int fd;

    snprintf(path, sizeof(path), "/sys/module/softgpu/parameters/%s", parameter);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, value, strlen(value)), strlen(value));
    close(fd);
}

void softgpu_peermem(bool on)
{
    softgpu_set("peermem", on ? "1" : "0");
}
