/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Whose resource, who pays, what bounds it: /dev/hmreg where a user takes as much as the module
 * permits, seen by others.
 */
#include "tests/counter/device.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MODULE    "hmreg_counter"
#define PARAMETER "/sys/module/" MODULE "/parameters/max_user_slots"
#define USER      1000
#define MINIMUM   512u /* ranges of each process */

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        fail_msg("%s cannot be written: %s", path, strerror(errno));
    close(fd);
}

static void read_text(const char *path, char *text, size_t size)
{
    FILE *stream = fopen(path, "re");

    assert_non_null(stream);
    text[fread(text, 1, size - 1, stream)] = '\0';
    fclose(stream);
}

static char permitted[32];

static void permit_as_before(void)
{
    write_text(PARAMETER, permitted);
}

/* So many ranges, until the case ends. */
static void permit(const char *ranges)
{
    read_text(PARAMETER, permitted, sizeof(permitted));
    write_text(PARAMETER, ranges);
    test_after(permit_as_before);
}

/* Watches up to so many ranges of one page; the errno that ended it in *why. */
static unsigned watch_up_to(const struct device *device, unsigned most, int *why)
{
    struct hmreg_counter_range range;
    unsigned count = 0;

    *why = 0;
    while (count < most && !*why) {
        range = (struct hmreg_counter_range){.start = PAGE, .end = 2 * PAGE};
        *why = device_watch_many(device->fd, &range, 1);
        count += !*why;
    }
    return count;
}

static int setup_errno(void)
{
    struct hmreg_counter_setup setup = {.slots = 1};
    int fd = open("/dev/hmreg", O_RDWR | O_CLOEXEC), rc = device_setup(fd, &setup);

    close(fd);
    return rc;
}

/* ---- what a user may watch ----------------------------------------------------------------- */

static int watch_minimum(void *unused)
{
    struct device device = device_open(32768);
    int why;

    (void)unused;
    return watch_up_to(&device, 32768, &why) != MINIMUM || why != EDQUOT;
}

static int watch_nothing(void *unused)
{
    (void)unused;
    return setup_errno() != EDQUOT;
}

/* Slots cost a user nothing until ranges are watched. */
TEST(watch__as_much_as_a_user_may__the_next_process_has_its_minimum)
{
    struct device first, second;
    int why;

    permit("2048");
    first = device_open(32768);
    second = device_open(32768);
    assert_int_equal(watch_up_to(&first, 32768, &why), 1536);
    assert_int_equal(why, EDQUOT);
    assert_int_equal(watch_up_to(&second, 32768, &why), 0); /* of the same address space */
    assert_int_equal(why, EDQUOT);
    assert_int_equal(in_child(watch_minimum, NULL), 0);
    for (unsigned slot = 0; slot < 512; slot++)
        assert_int_equal(device_unwatch(first.fd, slot), 0);
    assert_int_equal(watch_up_to(&second, 32768, &why), 512);
    device_close(&first);
    device_close(&second);
}

TEST(setup__no_minimum_is_left__edquot_until_a_process_ends)
{
    struct device device;

    permit("512");
    device = device_open(512);
    assert_int_equal(in_child(watch_nothing, NULL), 0);
    device_close(&device);
    assert_int_equal(in_child(watch_nothing, NULL), 1);
}

static int become(uid_t uid)
{
    return setresuid(uid, uid, uid);
}

/* Each id of the namespace in turn watches what it can, as long as the others do. */
static unsigned watch_as_ids(unsigned id, unsigned most)
{
    int status, why, answer[2];
    unsigned count = 0;
    pid_t child;

    assert_int_equal(pipe2(answer, O_CLOEXEC), 0);
    child = test_fork();
    if (!child) {
        struct device device;

        if (id && become(id))
            _exit(1);
        if (!setup_errno()) {
            device = device_open(4096);
            count = watch_up_to(&device, 4096, &why);
        }
        if (id < most)
            count += watch_as_ids(id + 1, most);
        _exit(write(answer[1], &count, sizeof(count)) != sizeof(count));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(answer[0], &count, sizeof(count)), sizeof(count));
    close(answer[0]);
    close(answer[1]);
    return count;
}

static int enter_namespace(int ready, int mapped)
{
    char byte = 0;

    if (become(USER) || unshare(CLONE_NEWUSER) || write(ready, &byte, 1) != 1 ||
        read(mapped, &byte, 1) != 1)
        return 1;
    if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP)) /* each may become the next */
        return 1;
    return watch_as_ids(0, 9) > 2048;
}

/* As newuidmap(1) does with /etc/subuid. */
TEST(watch__by_subordinate_ids__is_the_users)
{
    int ready[2], mapped[2], status;
    char path[64], byte;
    pid_t child;

    permit("2048");
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    assert_int_equal(pipe2(mapped, O_CLOEXEC), 0);
    child = test_fork();
    if (!child)
        _exit(enter_namespace(ready[1], mapped[0]));
    assert_int_equal(read(ready[0], &byte, 1), 1);
    snprintf(path, sizeof(path), "/proc/%d/uid_map", child);
    write_text(path, "0 1000 1\n1 100000 9\n");
    assert_int_equal(write(mapped[1], &byte, 1), 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(ready[0]);
    close(ready[1]);
    close(mapped[0]);
    close(mapped[1]);
}

/* ---- many processes of a user ---------------------------------------------------------------- */

#define PROCESSES 400

/* Counts its own change while all of them watch. */
static int be_one_of_many(int begun, int all)
{
    struct hmreg_counter_range range;
    struct device device;
    char *memory, byte = 0;

    if (become(USER))
        return 1;
    device = device_open(32768);
    memory = memory_new(PAGE, 1);
    range = device_watch(&device, memory, PAGE);
    if (write(begun, &byte, 1) != 1 || read(all, &byte, 1) != 0)
        return 2;
    munmap(memory, PAGE);
    return device_counted(&device, &range) ? 0 : 3;
}

TEST(processes__of_one_user__all_are_counted)
{
    int begun[2], all[2], status;
    pid_t children[PROCESSES];
    char byte;

    assert_int_equal(pipe2(begun, O_CLOEXEC), 0);
    assert_int_equal(pipe2(all, O_CLOEXEC), 0);
    for (unsigned i = 0; i < PROCESSES; i++) {
        children[i] = test_fork();
        if (!children[i]) {
            close(all[1]);
            _exit(be_one_of_many(begun[1], all[0]));
        }
    }
    for (unsigned i = 0; i < PROCESSES; i++)
        assert_int_equal(read(begun[0], &byte, 1), 1);
    close(all[1]);
    for (unsigned i = 0; i < PROCESSES; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    close(begun[0]);
    close(begun[1]);
    close(all[0]);
}

/* ---- what others pay ------------------------------------------------------------------------- */

#define TRACING  "/run/counter_tracing"
#define FILES    100
#define MAPPINGS 100

/* Calls of the module's callback, by the kernel's count of a kprobe's hits. */
static unsigned long callbacks(void)
{
    char text[512];
    unsigned long hits = 0;

    read_text(TRACING "/kprobe_profile", text, sizeof(text));
    assert_int_equal(sscanf(text, " hmreg_start %lu", &hits), 1);
    return hits;
}

static void trace(const char *event)
{
    assert_true(mkdir(TRACING, 0700) == 0 || errno == EEXIST);
    if (mount("tracefs", TRACING, "tracefs", 0, NULL))
        test_skip("no tracefs: %s", strerror(errno));
    write_text(TRACING "/kprobe_events", event);
    write_text(TRACING "/events/kprobes/hmreg_start/enable", "1");
}

static void untrace(void)
{
    write_text(TRACING "/events/kprobes/hmreg_start/enable", "0");
    write_text(TRACING "/kprobe_events", "-:hmreg_start\n");
    umount(TRACING);
}

/* Of a file that it may only read. */
static int map_and_open_often(int file, int begun, int end)
{
    char byte = 0;

    if (become(USER))
        return 1;
    for (unsigned i = 0; i < FILES; i++)
        device_open(1);
    for (unsigned i = 0; i < MAPPINGS; i++)
        if (mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED)
            return 2;
    return write(begun, &byte, 1) != 1 || read(end, &byte, 1) != 0;
}

TEST(files__of_a_user_who_maps_anothers_file__one_callback_a_mapping)
{
    int begun[2], end[2], status, file = open("/run/counter_file", O_CREAT | O_RDWR, 0644);
    unsigned long before;
    pid_t child;
    char byte;

    assert_int_equal(ftruncate(file, (off_t)PAGE), 0);
    assert_int_equal(pipe2(begun, O_CLOEXEC), 0);
    assert_int_equal(pipe2(end, O_CLOEXEC), 0);
    trace("p:hmreg_start " MODULE ":on_start\n");
    child = test_fork();
    if (!child) {
        close(end[1]);
        file = open("/run/counter_file", O_RDONLY);
        _exit(map_and_open_often(file, begun[1], end[0]));
    }
    assert_int_equal(read(begun[0], &byte, 1), 1);
    before = callbacks();
    assert_int_equal(ftruncate(file, 0), 0);
    assert_in_range(callbacks() - before, MAPPINGS, 2 * MAPPINGS); /* it looks twice */
    close(end[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    untrace();
    unlink("/run/counter_file");
    close(file);
    close(begun[0]);
    close(begun[1]);
    close(end[0]);
}

TEST(setup__more_slots_than_a_process_may_have__edquot)
{
    struct hmreg_counter_setup setup = {.slots = 131072};
    struct device device = device_open(65536);
    int fd = open("/dev/hmreg", O_RDWR | O_CLOEXEC);

    assert_int_equal(device_setup(fd, &setup), EDQUOT);
    setup.slots = 65536;
    assert_int_equal(device_setup(fd, &setup), 0);
    close(fd);
    device_close(&device);
}

/* Who changes the memory may be another user: a worker of the kernel's wakes those who poll. */
TEST(poll__while_another_changes_the_file__not_woken_by_that_thread)
{
    int file = open("/run/counter_file", O_CREAT | O_RDWR, 0644), epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    struct device device = device_open(512);
    static char text[1 << 20];
    char us[32];
    void *page;

    assert_int_equal(ftruncate(file, (off_t)PAGE), 0);
    page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 0);
    device_watch(&device, page, PAGE);
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, device.fd, &event), 0);
    assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0);
    trace("p:hmreg_start ep_poll_callback\n");
    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(epoll_wait(epoll, &event, 1, -1), 1);
    read_text(TRACING "/trace", text, sizeof(text));
    snprintf(us, sizeof(us), "-%d ", (int)getpid());
    assert_non_null(strstr(text, "ep_poll_callback"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (strstr(line, "ep_poll_callback") && strstr(line, us))
            fail_msg("%s", line);
    untrace();
    munmap(page, PAGE);
    unlink("/run/counter_file");
    close(file);
    close(epoll);
    device_close(&device);
}

/* A change is counted once in each file that watches it, and wakes each. */
TEST(files__of_one_process__each_counts_and_one_may_be_closed)
{
    struct device first = device_open(512), second = device_open(512), third = device_open(512);
    char *memory = memory_new(3 * PAGE, 1);
    struct hmreg_counter_range ranges[3];

    ranges[0] = device_watch(&first, memory, 3 * PAGE);
    ranges[1] = device_watch(&second, memory, 2 * PAGE);
    ranges[2] = device_watch(&third, memory, PAGE);
    munmap(memory + 2 * PAGE, PAGE);
    assert_true(device_counted(&first, &ranges[0]));
    assert_false(device_counted(&second, &ranges[1]));
    device_close(&first);
    munmap(memory, PAGE);
    assert_true(device_counted(&second, &ranges[1]));
    assert_true(device_counted(&third, &ranges[2]));
    assert_int_equal(device_generation(&second), 1);
    assert_int_equal(device_generation(&third), 1);
    munmap(memory + PAGE, PAGE);
    device_close(&second);
    device_close(&third);
}

TEST_MAIN()
