/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 * See device.h. */
#include "tests/counter/device.h"

#include "tests/support/test.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>

int device_setup(int fd, struct hmreg_counter_setup *setup)
{
    return ioctl(fd, HMREG_COUNTER_SETUP, setup) ? errno : 0;
}

int device_update(int fd, struct hmreg_counter_update *update)
{
    return ioctl(fd, HMREG_COUNTER_UPDATE, update) ? errno : 0;
}

int device_watch_many(int fd, struct hmreg_counter_range *ranges, uint32_t count)
{
    return device_update(
        fd, &(struct hmreg_counter_update){.watch = (uintptr_t)ranges, .watch_count = count});
}

int device_unwatch(int fd, uint32_t slot)
{
    return device_update(
        fd, &(struct hmreg_counter_update){.unwatch = (uintptr_t)&slot, .unwatch_count = 1});
}

struct device device_open(uint32_t slots)
{
    struct hmreg_counter_setup setup = {.slots = slots};
    struct device device = {.fd = open("/dev/hmreg", O_RDWR | O_CLOEXEC)};
    void *page;

    assert_true(device.fd >= 0);
    assert_int_equal(device_setup(device.fd, &setup), 0);
    page = mmap(NULL, setup.bytes, PROT_READ, MAP_SHARED, device.fd, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    device.bytes = setup.bytes;
    device.page = page;
    assert_int_equal(device.page->version, HMREG_COUNTER_VERSION);
    assert_int_equal(device.page->slots, setup.slots);
    return device;
}

void device_close(const struct device *device)
{
    munmap((void *)(uintptr_t)device->page, device->bytes);
    close(device->fd);
}

struct hmreg_counter_range device_watch(const struct device *device, const void *start, size_t size)
{
    struct hmreg_counter_range range = {.start = (uintptr_t)start, .end = (uintptr_t)start + size};

    assert_int_equal(device_watch_many(device->fd, &range, 1), 0);
    return range;
}

uint64_t device_generation(const struct device *device)
{
    return __atomic_load_n(&device->page->generation, __ATOMIC_ACQUIRE);
}

uint64_t device_slot(const struct device *device, uint32_t slot)
{
    const char *page = (const char *)device->page;

    return __atomic_load_n((const uint64_t *)(page + device->page->slot_offset) + slot,
                           __ATOMIC_ACQUIRE);
}

struct hmreg_counter_change device_change(const struct device *device, uint64_t index)
{
    const char *page = (const char *)device->page;

    return ((const struct hmreg_counter_change
                 *)(page + device->page->ring_offset))[index % device->page->slots];
}

char *memory_new(size_t size, char byte)
{
    char *memory = test_map(size);

    memset(memory, byte, size);
    return memory;
}

int in_child(int (*f)(void *), void *arg)
{
    int status = 0;
    pid_t child = test_fork();

    if (!child)
        _exit(f(arg));
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
