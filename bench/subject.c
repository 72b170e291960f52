/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The subjects that are not caches: the loop itself, and system calls, which are the lower bound
 * for a hit that calls the kernel.
 */
#include "bench/subject.h"

#include "bench/actor.h"
#include "bench/bench.h"
#include "bench/empty.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <fcntl.h>

double registration_ns;
size_t registrations;

static void *open_nothing(const struct subject *self, size_t regions)
{
    return NULL;
}

static void close_nothing(void *state)
{
}

static void call_getpid(void *state, char *base, const uint32_t *order, size_t count)
{
    for (size_t i = 0; i < count; i++)
        (void)syscall(SYS_getpid);
}

/* An empty get and put. */
static __attribute__((noinline)) int get_nothing(void *domain, const void *addr, size_t len,
                                                 uint64_t access, void **out)
{
    __asm__ volatile("" ::: "memory");
    return 0;
}

static __attribute__((noinline)) void put_nothing(void *mr)
{
    __asm__ volatile("" ::: "memory");
}

/* The overhead of every subject's loop: the calls of get and put. */
static void only_loop(void *state, char *base, const uint32_t *order, size_t count)
{
    void *mr = NULL;

    for (size_t i = 0; i < count; i++) {
        if (get_nothing(state, base + (size_t)order[i] * REGION_BYTES, REGION_BYTES, 1, &mr))
            leave("get_nothing");
        put_nothing(mr);
    }
}

/* The empty get and put in a shared library: a lower bound for every shared library. */
static void call_empty(void *state, char *base, const uint32_t *order, size_t count)
{
    const void *region;

    for (size_t i = 0; i < count; i++) {
        if (bench_empty_get(state, base + (size_t)order[i] * REGION_BYTES, REGION_BYTES, 1,
                            &region))
            leave("bench_empty_get");
        bench_empty_put(region);
    }
}

static int userfault = -1;

static void *open_userfault(const struct subject *self, size_t regions)
{
    struct uffdio_api api = {.api = UFFD_API};

    userfault = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (userfault < 0 || ioctl(userfault, UFFDIO_API, &api))
        leave("this kernel gives no userfaultfd");
    return NULL;
}

/* Only the ioctl that a hit makes under userfaultfd. */
static void call_ioctl(void *state, char *base, const uint32_t *order, size_t count)
{
    struct uffdio_copy nothing = {.len = 0};

    for (size_t i = 0; i < count; i++)
        (void)ioctl(userfault, UFFDIO_COPY, &nothing);
}

const struct subject subject_getpid = {
    .who = "bare getpid",
    .open = open_nothing,
    .close = close_nothing,
    .hits = call_getpid,
    .most_regions = 1,
};

const struct subject subject_ioctl = {
    .who = "bare ioctl",
    .open = open_userfault,
    .hits = call_ioctl,
};

const struct subject subject_loop = {
    .who = "loop",
    .open = open_nothing,
    .close = close_nothing,
    .hits = only_loop,
};

const struct subject subject_empty = {
    .who = WHO_EMPTY,
    .open = open_nothing,
    .close = close_nothing,
    .hits = call_empty,
    .most_regions = 1000,
};
