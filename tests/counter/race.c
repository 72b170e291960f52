/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Threads that change watched memory race with one that looks at it: a thread that sees other
 * contents must see that they were counted, also if the watch began while the change was under way.
 */
#include "tests/counter/device.h"
#include "tests/support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define SIZE (8 * PAGE)

static struct device device;
static char *at;
static int file;
static atomic_bool stopping;

/* ---- a look at memory that may not be there ---------------------------------------------- */

static __thread sigjmp_buf back;

static void on_fault(int number)
{
    (void)number;
    siglongjmp(back, 1);
}

static void catch_faults(void)
{
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};

    assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);
    assert_int_equal(sigaction(SIGBUS, &action, NULL), 0);
}

/* 0: nothing is there. */
static char look(const volatile char *byte)
{
    return sigsetjmp(back, 1) ? 0 : *byte;
}

/* ---- changes ----------------------------------------------------------------------------- */

static int to_other[2], from_other[2];

/* Another process, which changes the file that both have. */
static pid_t start_other(void)
{
    pid_t child;
    char what;

    assert_int_equal(pipe2(to_other, O_CLOEXEC), 0);
    assert_int_equal(pipe2(from_other, O_CLOEXEC), 0);
    child = test_fork();
    if (child) {
        close(to_other[0]);
        close(from_other[1]);
        return child;
    }
    close(to_other[1]);
    while (read(to_other[0], &what, 1) == 1) {
        bool failed = what == 'p'
                          ? fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, SIZE)
                          : ftruncate(file, 0) || ftruncate(file, SIZE);

        if (failed || write(from_other[1], &what, 1) != 1)
            break;
    }
    _exit(0);
}

static void stop_other(pid_t child)
{
    close(to_other[1]);
    close(from_other[0]);
    waitpid(child, NULL, 0);
}

static void ask_other(char what)
{
    char answer = 0;

    assert_int_equal(write(to_other[1], &what, 1), 1);
    assert_int_equal(read(from_other[0], &answer, 1), 1);
    assert_int_equal(answer, what);
}

static void c_dontneed(void)
{
    madvise(at, SIZE, MADV_DONTNEED);
}

static void c_fixed(void)
{
    mmap(at, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}

static void c_munmap(void)
{
    munmap(at, SIZE);
    c_fixed();
}

static void c_move_onto(void)
{
    mremap(memory_new(SIZE, 'B'), SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, at);
}

static void c_punch(void)
{
    ask_other('p');
}

static void c_truncate(void)
{
    ask_other('t');
}

/* ---- who watched before ------------------------------------------------------------------ */

static _Atomic uint64_t round_number; /* odd: the region is watched, and holds 'A' */
static _Atomic uint64_t seen_round;   /* the watcher has looked in this round */
static struct hmreg_counter_range watched;
static atomic_uint early;

static void *watch_it(void *arg)
{
    while (!atomic_load(&stopping)) {
        uint64_t number = atomic_load(&round_number);
        struct hmreg_counter_range range = watched;
        char byte;
        bool counted;

        if (number % 2 == 0)
            continue;
        byte = look(at + SIZE - 1);
        atomic_thread_fence(memory_order_acquire);
        counted = device_counted(&device, &range);
        if (atomic_load(&round_number) != number)
            continue;
        if (byte != 'A' && !counted)
            atomic_fetch_add(&early, 1);
        atomic_store(&seen_round, number);
    }
    return arg;
}

/* Keeps the module busy with other ranges. */
static void *make_noise(void *arg)
{
    while (!atomic_load(&stopping)) {
        struct hmreg_counter_range range = {.start = (uintptr_t)arg, .end = (uintptr_t)arg + PAGE};

        if (!device_watch_many(device.fd, &range, 1))
            device_unwatch(device.fd, range.slot);
        usleep(50);
    }
    return arg;
}

/* Returns how often the change was not counted when the call returned. */
static unsigned change_often(void (*change)(void), unsigned long times)
{
    unsigned late = 0;

    for (unsigned long i = 0; i < times; i++) {
        uint64_t number = atomic_load(&round_number) + 1;

        memset(at, 'A', SIZE);
        watched = device_watch(&device, at, SIZE);
        atomic_store(&round_number, number);
        test_wait_until(atomic_load(&seen_round) == number);
        change();
        late += !device_counted(&device, &watched);
        atomic_store(&round_number, number + 1);
        assert_int_equal(device_unwatch(device.fd, watched.slot), 0);
    }
    return late;
}

static void race(char *memory, void (*change)(void))
{
    at = memory;
    assert_int_equal(change_often(change, test_times(1000)), 0);
}

TEST(change__while_another_thread_looks__counted_before_it_is_seen)
{
    pthread_t watcher, noise;
    pid_t other;

    catch_faults();
    file = memfd_create("counter", MFD_CLOEXEC);
    assert_int_equal(ftruncate(file, SIZE), 0);
    other = start_other();
    device = device_open(512);
    assert_int_equal(pthread_create(&watcher, NULL, watch_it, NULL), 0);
    assert_int_equal(pthread_create(&noise, NULL, make_noise, memory_new(PAGE, 1)), 0);
    race(memory_new(SIZE, 'A'), c_dontneed);
    race(memory_new(SIZE, 'A'), c_fixed);
    race(memory_new(SIZE, 'A'), c_munmap);
    race(memory_new(SIZE, 'A'), c_move_onto);
    race(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), c_punch);
    race(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), c_truncate);
    atomic_store(&stopping, true);
    pthread_join(watcher, NULL);
    pthread_join(noise, NULL);
    stop_other(other);
    device_close(&device);
    close(file);
    assert_int_equal(atomic_load(&early), 0);
}

/* ---- who watches meanwhile --------------------------------------------------------------- */

static atomic_ulong discarded;

static void *discard(void *arg)
{
    while (!atomic_load(&stopping)) {
        c_dontneed();
        atomic_fetch_add(&discarded, 1);
    }
    return arg;
}

/* The page that a registration would pin now. Not by a load: the processor may know the page of a
 * change that has ended a moment longer (zap_page_range_single()). */
static char pinned_byte(void)
{
    char byte = 0;
    struct iovec to = {&byte, 1}, from = {at + SIZE - 1, 1};

    assert_int_equal(process_vm_readv(getpid(), &to, 1, &from, 1, 0), 1);
    return byte;
}

/* Watches, finds the byte there, and waits until it is gone: by then it must be counted. */
static bool is_counted_in_time(void)
{
    volatile char *byte = at + SIZE - 1;
    struct hmreg_counter_range range;
    bool counted = true;

    *byte = 'A';
    range = device_watch(&device, at, SIZE);
    if (pinned_byte() == 'A') {
        while (*byte == 'A')
            ;
        atomic_thread_fence(memory_order_acquire);
        counted = device_counted(&device, &range);
    }
    assert_int_equal(device_unwatch(device.fd, range.slot), 0);
    return counted;
}

TEST(watch__while_a_change_is_under_way__no_page_goes_uncounted)
{
    pthread_t thread;

    device = device_open(512);
    at = memory_new(SIZE, 'A');
    atomic_store(&stopping, false);
    assert_int_equal(pthread_create(&thread, NULL, discard, NULL), 0);
    for (unsigned long i = 0; i < test_times(5000); i++)
        if (!is_counted_in_time())
            fail_msg("the page went without a count, after %lu watches and %lu changes", i,
                     atomic_load(&discarded));
    atomic_store(&stopping, true);
    pthread_join(thread, NULL);
    munmap(at, SIZE);
    device_close(&device);
}

TEST_MAIN()
