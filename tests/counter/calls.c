/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The calls of /dev/hmreg: what each refuses, limits, and what is left when a file, a
 * process or the module ends.
 */
#include "tests/counter/device.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define MODULE     "hmreg_counter"
#define PARAMETERS "/sys/module/" MODULE "/parameters/"

static int map_errno(int fd, size_t size, int protection, int flags, off_t offset)
{
    void *memory = mmap(NULL, size, protection, flags, fd, offset);

    if (memory == MAP_FAILED)
        return errno;
    munmap(memory, size);
    return 0;
}

static int read_errno(int fd, size_t size)
{
    uint64_t generation[2];

    return read(fd, generation, size) < 0 ? errno : 0;
}

static unsigned long read_number(const char *path)
{
    FILE *stream = fopen(path, "re");
    unsigned long number = 0;

    assert_non_null(stream);
    assert_int_equal(fscanf(stream, "%lu", &number), 1);
    fclose(stream);
    return number;
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* ---- set up and mapped ------------------------------------------------------------------- */

TEST(setup__bad_input__refused)
{
    struct hmreg_counter_setup setup = {.slots = 0};
    int fd = open("/dev/hmreg", O_RDWR | O_CLOEXEC);

    assert_int_equal(device_setup(fd, NULL), EFAULT);
    assert_int_equal(device_setup(fd, &setup), EINVAL);
    setup.slots = (uint32_t)read_number(PARAMETERS "max_slots") + 1;
    assert_int_equal(device_setup(fd, &setup), EINVAL);
    setup = (struct hmreg_counter_setup){.slots = 1, .unused = 1};
    assert_int_equal(device_setup(fd, &setup), EINVAL);
    setup.unused = 0;
    assert_int_equal(device_setup(fd, &setup), 0);
    assert_int_equal(setup.slots, 512);
    assert_int_equal(device_setup(fd, &setup), EBUSY);
    close(fd);
}

TEST(file__not_set_up__refuses_all_else)
{
    struct hmreg_counter_update update = {0};
    int fd = open("/dev/hmreg", O_RDWR | O_CLOEXEC);
    struct pollfd poller = {.fd = fd, .events = POLLIN};

    assert_int_equal(device_update(fd, &update), EINVAL);
    assert_int_equal(read_errno(fd, 8), EINVAL);
    assert_int_equal(map_errno(fd, PAGE, PROT_READ, MAP_SHARED, 0), EINVAL);
    assert_int_equal(poll(&poller, 1, 0), 1);
    assert_int_equal(poller.revents, POLLERR);
    close(fd);
}

TEST(map__other_than_shared_and_read_only__refused)
{
    struct device device = device_open(512);
    int fd = device.fd;

    assert_int_equal(map_errno(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, 0), EACCES);
    assert_int_equal(map_errno(fd, PAGE, PROT_READ | PROT_EXEC, MAP_SHARED, 0), EACCES);
    assert_int_equal(map_errno(fd, PAGE, PROT_READ, MAP_PRIVATE, 0), EINVAL);
    assert_int_equal(map_errno(fd, PAGE, PROT_READ, MAP_SHARED, (off_t)PAGE), EINVAL);
    assert_int_equal(map_errno(fd, device.bytes + PAGE, PROT_READ, MAP_SHARED, 0), EINVAL);
    assert_int_equal(mprotect((void *)(uintptr_t)device.page, PAGE, PROT_READ | PROT_WRITE), -1);
    assert_int_equal(errno, EACCES);
    assert_int_equal(madvise((void *)(uintptr_t)device.page, PAGE, MADV_DOFORK), -1);
    device_close(&device);
}

/* ---- updates ----------------------------------------------------------------------------- */

TEST(update__bad_input__refused_and_says_how_far_it_came)
{
    struct device device = device_open(512);
    char *memory = memory_new(PAGE, 1);
    uint64_t start = (uintptr_t)memory;
    struct hmreg_counter_range ranges[3] = {{.start = start, .end = start + 1},
                                            {.start = start, .end = start}};
    uint32_t slots[2] = {0, 0};
    struct hmreg_counter_update update = {.watch = (uintptr_t)ranges, .watch_count = 3};

    assert_int_equal(device_update(device.fd, NULL), EFAULT);
    assert_int_equal(device_update(device.fd, &update), EINVAL);
    assert_int_equal(update.watched, 1);
    slots[0] = ranges[0].slot;
    update = (struct hmreg_counter_update){.unwatch = (uintptr_t)slots, .unwatch_count = 2};
    slots[1] = slots[0];
    assert_int_equal(device_update(device.fd, &update), ENOENT);
    assert_int_equal(update.unwatched, 1);
    assert_int_equal(device_unwatch(device.fd, 512), EINVAL);
    assert_int_equal(device_unwatch(device.fd, UINT32_MAX), EINVAL);
    ranges[0] = (struct hmreg_counter_range){.start = start, .end = UINT64_MAX};
    assert_int_equal(device_watch_many(device.fd, ranges, 1), EINVAL);
    ranges[0] = (struct hmreg_counter_range){.start = start, .end = start + 1, .unused = 1};
    assert_int_equal(device_watch_many(device.fd, ranges, 1), EINVAL);
    update = (struct hmreg_counter_update){.watch_count = HMREG_COUNTER_MAX_UPDATE + 1};
    assert_int_equal(device_update(device.fd, &update), EINVAL);
    update = (struct hmreg_counter_update){.unwatch_count = HMREG_COUNTER_MAX_UPDATE + 1};
    assert_int_equal(device_update(device.fd, &update), EINVAL);
    update = (struct hmreg_counter_update){.watch = 8, .watch_count = 1};
    assert_int_equal(device_update(device.fd, &update), EFAULT);
    update = (struct hmreg_counter_update){.unwatch = 8, .unwatch_count = 1};
    assert_int_equal(device_update(device.fd, &update), EFAULT);
    assert_int_equal(device_generation(&device), 0);
    munmap(memory, PAGE);
    device_close(&device);
}

/* The process does not know the slot, so it could not unwatch it. */
TEST(watch__of_which_the_result_cannot_be_written__leaves_no_watch)
{
    struct device device = device_open(512);
    struct hmreg_counter_range *fixed =
        mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct hmreg_counter_range range;

    *fixed = (struct hmreg_counter_range){.start = (uintptr_t)fixed, .end = (uintptr_t)fixed + 1};
    range = *fixed;
    assert_int_equal(mprotect(fixed, PAGE, PROT_READ), 0);
    assert_int_equal(device_watch_many(device.fd, fixed, 1), EFAULT);
    for (unsigned i = 0; i < 512; i++)
        assert_int_equal(device_watch_many(device.fd, &range, 1), 0);
    munmap(fixed, PAGE);
    device_close(&device);
}

TEST(change__of_all_slots__each_in_the_ring_once)
{
    struct device device = device_open(512);
    char *memory = memory_new(514 * PAGE, 1);
    struct hmreg_counter_range ranges[513];
    bool found[512] = {false};

    for (unsigned i = 0; i < 513; i++)
        ranges[i] = (struct hmreg_counter_range){.start = (uintptr_t)memory + i * PAGE,
                                                 .end = (uintptr_t)memory + (i + 1) * PAGE + 1};
    assert_int_equal(device_watch_many(device.fd, ranges, 513), ENOSPC);
    munmap(memory, 514 * PAGE);
    assert_int_equal(device_generation(&device), 512);
    for (unsigned i = 0; i < 512; i++) {
        struct hmreg_counter_change change = device_change(&device, i);
        size_t at = (change.start - (uintptr_t)memory) / PAGE;

        assert_in_range(at, 0, 512);
        if (change.end - change.start == PAGE) /* the kernel has moved this page before */
            continue;
        assert_int_equal(change.end - change.start, 2 * PAGE);
        assert_false(found[at]);
        found[at] = true;
    }
    for (unsigned i = 0; i < 512; i++)
        assert_int_equal(device_slot(&device, ranges[i].slot), ranges[i].seq + 1);
    device_close(&device);
}

TEST(change__of_a_part__the_ring_names_the_pages)
{
    struct device device = device_open(512);
    char *memory = memory_new(6 * PAGE, 1);
    struct hmreg_counter_change change;

    device_watch(&device, memory + 2 * PAGE + 1, 3 * PAGE);
    munmap(memory, 3 * PAGE);
    change = device_change(&device, 0);
    assert_int_equal(device_generation(&device), 1);
    assert_int_equal(change.start - (uintptr_t)memory, 2 * PAGE);
    assert_int_equal(change.end - (uintptr_t)memory, 3 * PAGE);
    munmap(memory + 3 * PAGE, 3 * PAGE);
    assert_int_equal(device_generation(&device), 1);
    device_close(&device);
}

/* Of a slot that is used again a late reader must not take the new range for its own. */
TEST(unwatch__counts_for_who_compares_the_slot_and_not_in_the_ring)
{
    struct device device = device_open(512);
    char *memory = memory_new(PAGE, 1);
    struct hmreg_counter_range old = device_watch(&device, memory, PAGE), new;

    assert_int_equal(device_unwatch(device.fd, old.slot), 0);
    new = device_watch(&device, memory, PAGE);
    assert_int_equal(new.slot, old.slot);
    assert_true(device_counted(&device, &old));
    assert_false(device_counted(&device, &new));
    munmap(memory, PAGE);
    assert_true(device_counted(&device, &new));
    assert_int_equal(device_generation(&device), 1);
    device_close(&device);
}

/* ---- poll -------------------------------------------------------------------------------- */

static void *wait_for_count(void *fd)
{
    struct pollfd poller = {.fd = *(int *)fd, .events = POLLIN};

    assert_int_equal(poll(&poller, 1, -1), 1);
    assert_int_equal(poller.revents, POLLIN);
    return NULL;
}

TEST(poll__sleeps_until_a_change_and_is_quiet_after_a_read)
{
    struct device device = device_open(512);
    struct pollfd poller = {.fd = device.fd, .events = POLLIN};
    char *memory = memory_new(PAGE, 1);
    uint64_t generation = 0;
    pthread_t thread;

    device_watch(&device, memory, PAGE);
    assert_int_equal(poll(&poller, 1, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_count, &device.fd), 0);
    test_wait_until_others_sleep();
    munmap(memory, PAGE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(read_errno(device.fd, 7), EINVAL);
    assert_int_equal(syscall(SYS_read, device.fd, NULL, 8), -1);
    assert_int_equal(errno, EFAULT);
    assert_int_equal(poll(&poller, 1, 0), 1);
    assert_int_equal(read(device.fd, &generation, 8), 8);
    assert_int_equal(generation, 1);
    assert_int_equal(poll(&poller, 1, 0), 0);
    device_close(&device);
}

TEST(epoll__before_the_file_is_set_up__woken)
{
    struct hmreg_counter_setup setup = {.slots = 512};
    int fd = open("/dev/hmreg", O_RDWR | O_CLOEXEC), epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN};
    struct hmreg_counter_range range;
    char *memory = memory_new(PAGE, 1);

    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
    assert_int_equal(epoll_wait(epoll, &event, 1, 0), 1);
    assert_int_equal(event.events, EPOLLERR);
    assert_int_equal(device_setup(fd, &setup), 0);
    assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0);
    range = (struct hmreg_counter_range){.start = (uintptr_t)memory, .end = (uintptr_t)memory + 1};
    assert_int_equal(device_watch_many(fd, &range, 1), 0);
    munmap(memory, PAGE);
    assert_int_equal(epoll_wait(epoll, &event, 1, -1), 1);
    assert_int_equal(event.events, EPOLLIN);
    close(epoll);
    close(fd);
}

/* ---- other address spaces ---------------------------------------------------------------- */

static int read_page(void *device)
{
    signal(SIGSEGV, SIG_DFL); /* cmocka's handler exits */
    return (int)device_generation(device) + 1;
}

static int use_parents(void *arg)
{
    struct device *device = arg;
    struct hmreg_counter_setup setup = {.slots = 1};
    struct hmreg_counter_update update = {0};
    struct pollfd poller = {.fd = device->fd, .events = POLLIN};

    return device_setup(device->fd, &setup) != EPERM ||
           device_update(device->fd, &update) != EPERM || read_errno(device->fd, 8) != EPERM ||
           poll(&poller, 1, 0) != 1 || poller.revents != POLLERR ||
           map_errno(device->fd, PAGE, PROT_READ, MAP_SHARED, 0) != EPERM;
}

/* Opened before the fork: not the child's either. */
static int set_up_parents(void *fd)
{
    struct hmreg_counter_setup setup = {.slots = 1};

    return device_setup(*(int *)fd, &setup) != EPERM;
}

static int use_own(void *arg)
{
    struct device device = device_open(512);
    struct hmreg_counter_range range = device_watch(&device, arg, PAGE);

    munmap(arg, PAGE);
    return !device_counted(&device, &range);
}

TEST(child__of_fork__has_neither_page_nor_file_but_may_have_its_own)
{
    struct device device = device_open(512);
    int other = open("/dev/hmreg", O_RDWR | O_CLOEXEC);
    char *memory = memory_new(PAGE, 1);
    struct hmreg_counter_range range = device_watch(&device, memory, PAGE);

    assert_int_equal(in_child(read_page, &device), -SIGSEGV);
    assert_int_equal(in_child(use_parents, &device), 0);
    assert_int_equal(in_child(set_up_parents, &other), 0);
    assert_int_equal(in_child(use_own, memory), 0);
    assert_false(device_counted(&device, &range));
    munmap(memory, PAGE);
    close(other);
    device_close(&device);
}

/* ---- limits ------------------------------------------------------------------------------ */

#define GROUP "/run/counter_group"

/* What the control group of a process with so many watches is charged. */
static unsigned long charged(unsigned count)
{
    struct device device = device_open(count);
    static struct hmreg_counter_range ranges[HMREG_COUNTER_MAX_UPDATE];
    unsigned long charge;

    for (unsigned done = 0; done < count; done += HMREG_COUNTER_MAX_UPDATE) {
        for (unsigned i = 0; i < HMREG_COUNTER_MAX_UPDATE; i++)
            ranges[i] = (struct hmreg_counter_range){.start = PAGE, .end = 2 * PAGE};
        assert_int_equal(device_watch_many(device.fd, ranges, HMREG_COUNTER_MAX_UPDATE), 0);
    }
    charge = read_number(GROUP "/a/memory.current");
    device_close(&device);
    return charge;
}

/* 32,768 watches are charged 36 bytes each, and a node of 64 bytes or more. */
static int measure_charge(void *arg)
{
    unsigned long few, many;

    (void)arg;
    write_text(GROUP "/a/cgroup.procs", "0");
    few = charged(1024);
    many = charged(32768);
    return many < few + 31744 * 92ul;
}

TEST(watches__are_charged_to_the_control_group)
{
    mkdir(GROUP, 0700);
    assert_int_equal(mount("none", GROUP, "cgroup2", 0, NULL), 0);
    write_text(GROUP "/cgroup.subtree_control", "+memory");
    assert_int_equal(mkdir(GROUP "/a", 0700), 0);
    assert_int_equal(in_child(measure_charge, NULL), 0);
    assert_int_equal(rmdir(GROUP "/a"), 0);
    assert_int_equal(umount(GROUP), 0);
}

/* ---- the end ----------------------------------------------------------------------------- */

TEST(page__file_is_closed__counts_on)
{
    struct device device = device_open(512);
    char *memory = memory_new(PAGE, 1);
    struct hmreg_counter_range range = device_watch(&device, memory, PAGE);

    close(device.fd);
    munmap(memory, PAGE);
    assert_true(device_counted(&device, &range));
    munmap((void *)(uintptr_t)device.page, device.bytes);
}

static int end_by_exec(void *arg)
{
    struct device device = device_open(512);

    device_watch(&device, arg, PAGE);
    execl("/bin/true", "true", NULL);
    return 1;
}

static int end_while_watching(void *arg)
{
    struct device device = device_open(512);

    device_watch(&device, arg, PAGE);
    return 0;
}

static void *fork_much(void *arg)
{
    for (unsigned long i = 0; i < test_times(500); i++)
        assert_int_equal(in_child(i % 2 ? end_by_exec : end_while_watching, arg), 0);
    return NULL;
}

TEST(processes__end_and_exec_while_they_watch__the_parents_watch_stays)
{
    struct device device = device_open(512);
    char *memory = memory_new(PAGE, 1);
    struct hmreg_counter_range range = device_watch(&device, memory, PAGE);

    test_on_threads(2, fork_much, memory, 0);
    assert_false(device_counted(&device, &range));
    munmap(memory, PAGE);
    assert_true(device_counted(&device, &range));
    device_close(&device);
}

static int unload(void)
{
    return syscall(SYS_delete_module, MODULE, O_NONBLOCK) ? errno : 0;
}

/* The slab allocator complains in the kernel's log if the module has left anything. */
TEST(module__unloaded__refused_while_a_file_is_open)
{
    int fd = open("/dev/hmreg", O_RDWR | O_CLOEXEC), module;

    assert_int_equal(unload(), EWOULDBLOCK);
    close(fd);
    assert_int_equal(unload(), 0);
    assert_int_equal(open("/dev/hmreg", O_RDWR | O_CLOEXEC), -1);
    module = open("/run/" MODULE ".ko", O_RDONLY | O_CLOEXEC);
    assert_true(module >= 0);
    assert_int_equal(syscall(SYS_finit_module, module, "", 0), 0);
    close(module);
}

TEST_MAIN()
