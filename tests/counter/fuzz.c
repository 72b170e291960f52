/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Random calls of /dev/hmreg, right ones and wrong ones, by several threads and their forked
 * children, beside changes of the memory that they watch. No result is judged: the guest fails if
 * its kernel complains, and the module must be unloadable afterwards.
 *
 *     counter_fuzz "" [SEED [STEPS]]
 */
#include "tests/counter/device.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define THREADS 4
#define FILES   4
#define PAGES   64

static char *arena; /* private pages, and as many of a file behind them */
static int file;
static int fds[FILES]; /* -1: none; other threads may close what one uses */
static unsigned seed = 1;
static unsigned long steps;

static unsigned any(unsigned *random, unsigned below)
{
    return (unsigned)rand_r(random) % below;
}

static uint64_t any_address(unsigned *random)
{
    uint64_t noise = (uint64_t)rand_r(random) << 33 ^ (uint64_t)rand_r(random) << 8;

    return any(random, 8) ? (uintptr_t)arena + any(random, 2 * PAGES * (unsigned)PAGE) : noise;
}

static int *any_file(unsigned *random)
{
    return &fds[any(random, FILES)];
}

static void open_or_close(unsigned *random)
{
    int *fd = any_file(random), made = -1;

    if (any(random, 2))
        made = open("/dev/hmreg", O_RDWR | O_CLOEXEC);
    made = __atomic_exchange_n(fd, made, __ATOMIC_SEQ_CST);
    if (made >= 0)
        close(made);
}

static void set_up(unsigned *random)
{
    struct hmreg_counter_setup setup = {.slots = any(random, 16) ? any(random, 2000)
                                                                 : (uint32_t)rand_r(random),
                                        .unused = any(random, 16) == 0};

    device_setup(*any_file(random), &setup);
}

static void map(unsigned *random)
{
    int protection = any(random, 4) ? PROT_READ : (int)any(random, 8);
    size_t size = (1 + any(random, 16)) * PAGE;
    void *page = mmap(NULL, size, protection, any(random, 4) ? MAP_SHARED : MAP_PRIVATE,
                      *any_file(random), any(random, 8) ? 0 : (off_t)PAGE);

    if (page == MAP_FAILED)
        return;
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
    madvise(page, PAGE, any(random, 2) ? MADV_DOFORK : MADV_DONTNEED);
    munmap(page, size);
}

static void update(unsigned *random)
{
    uint32_t slots[64];
    struct hmreg_counter_range ranges[64];
    struct hmreg_counter_update ask = {
        .unwatch = any(random, 16) ? (uintptr_t)slots : any_address(random),
        .watch = any(random, 16) ? (uintptr_t)ranges : any_address(random),
        .unwatch_count = any(random, 32) ? any(random, 64) : (uint32_t)rand_r(random),
        .watch_count = any(random, 32) ? any(random, 64) : (uint32_t)rand_r(random)};

    for (unsigned i = 0; i < 64; i++) {
        slots[i] = any(random, 16) ? any(random, 600) : (uint32_t)rand_r(random);
        ranges[i] = (struct hmreg_counter_range){.start = any_address(random),
                                                 .unused = any(random, 64) == 0};
        ranges[i].end = any(random, 16) ? ranges[i].start + any(random, 8 * (unsigned)PAGE)
                                        : any_address(random);
    }
    device_update(*any_file(random), &ask);
}

static void wait_or_read(unsigned *random)
{
    struct pollfd poller = {.fd = *any_file(random), .events = POLLIN};
    char bytes[16];

    poll(&poller, 1, (int)any(random, 2));
    if (any(random, 2) && poller.fd >= 0)
        (void)!read(poller.fd, bytes, any(random, 16));
}

static void call_anything(unsigned *random)
{
    ioctl(*any_file(random), (unsigned long)rand_r(random), any_address(random));
    ioctl(*any_file(random), _IOWR('h', any(random, 4), uint64_t), any_address(random));
}

static void change(unsigned *random)
{
    char *at = arena + any(random, PAGES) * PAGE;
    size_t size = (1 + any(random, 4)) * PAGE;

    switch (any(random, 5)) {
    case 0:
        madvise(at, size, MADV_DONTNEED);
        break;
    case 1:
        mmap(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        break;
    case 2:
        mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, arena + any(random, PAGES) * PAGE);
        break;
    case 3:
        mprotect(at, size, (int)any(random, 4));
        break;
    default:
        if (!fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                       (off_t)(any(random, PAGES) * PAGE), (off_t)size))
            madvise(arena, PAGES * PAGE, MADV_POPULATE_WRITE);
    }
}

static void (*const deeds[])(unsigned *) = {open_or_close, set_up,       map,    update,
                                            update,        update,       change, change,
                                            wait_or_read,  call_anything};

static void do_some(unsigned *random, unsigned long count)
{
    for (unsigned long i = 0; i < count; i++)
        deeds[any(random, sizeof(deeds) / sizeof(deeds[0]))](random);
}

static void *run(void *number)
{
    unsigned random = seed * THREADS + (unsigned)(uintptr_t)number;

    for (unsigned long i = 0; i < steps; i += 100) {
        pid_t child = test_fork();

        if (!child) {
            do_some(&random, 20);
            _exit(0);
        }
        do_some(&random, 100);
        waitpid(child, NULL, 0);
    }
    return NULL;
}

TEST(calls__random_ones_of_threads_and_children__the_module_can_be_unloaded)
{
    pthread_t threads[THREADS];
    int module;

    arena = memory_new(2 * PAGES * PAGE, 1);
    file = memfd_create("counter", MFD_CLOEXEC);
    assert_int_equal(ftruncate(file, (off_t)(PAGES * PAGE)), 0);
    assert_ptr_not_equal(mmap(arena + PAGES * PAGE, PAGES * PAGE, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_FIXED, file, 0),
                         MAP_FAILED);
    for (unsigned i = 0; i < FILES; i++)
        fds[i] = open("/dev/hmreg", O_RDWR | O_CLOEXEC);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < FILES; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    close(file);
    assert_int_equal(syscall(SYS_delete_module, "hmreg_counter", O_NONBLOCK), 0);
    module = open("/run/hmreg_counter.ko", O_RDONLY | O_CLOEXEC);
    assert_int_equal(syscall(SYS_finit_module, module, "", 0), 0);
    close(module);
}

int main(int argc, char **argv)
{
    if (argc > 2)
        seed = (unsigned)strtoul(argv[2], NULL, 10);
    steps = argc > 3 ? strtoul(argv[3], NULL, 10) : test_times(100000);
    return test_main(argc, argv);
}
