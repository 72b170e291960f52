/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Registration of a large range by one worker and by two, on a provider that pins pages: each
 * region is a fixed buffer of an io_uring of its own, which the kernel pins as it does for
 * ibv_reg_mr(3). A quarter of the memory that is available, 8 GiB at most, in pages of 4 KiB and,
 * if the kernel gives them, of 2 MiB. Pages that were never touched are also allocated and zeroed.
 */
#include "bench/actor.h"
#include "bench/bench.h"
#include "bench/subject.h"
#include "core/contract/provider.h"

#include <errno.h>
#include <hmreg/job.h>
#include <linux/io_uring.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MIB        ((size_t)1 << 20)
#define GIB        ((size_t)1 << 30)
#define LARGE_PAGE (2 * MIB)
#define PIECE      (128 * MIB) /* hmreg's choice for 8 GiB */
#define BARE       (~0u)       /* no workers of hmreg */
#define TURNS      7

enum { SMALL_FIRST, SMALL_AGAIN, LARGE_FIRST, LARGE_AGAIN, VALUES };

static const struct measure measures[VALUES] = {
    {"large-4k-first", "ms/GiB"},
    {"large-4k-again", "ms/GiB"},
    {"large-2m-first", "ms/GiB"},
    {"large-2m-again", "ms/GiB"},
};

struct large {
    struct hmreg_domain *domain;
    unsigned workers;
    size_t len;
};

/* ---- the provider ----------------------------------------------------------------------- */

static int reg(void *self, const struct provider_request *request, struct hmreg_mr_keys *out,
               struct hmreg_reason *why)
{
    struct io_uring_params params = {.flags = IORING_SETUP_R_DISABLED};
    int ring = (int)syscall(SYS_io_uring_setup, 1, &params);

    if (ring < 0)
        return -errno;
    if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, request->iov, 1)) {
        int rc = -errno;

        close(ring);
        return rc;
    }
    *out = (struct hmreg_mr_keys){.priv = (void *)(intptr_t)ring};
    return 0;
}

static int dereg(void *self, struct hmreg_mr_keys *mr)
{
    int ring = (int)(intptr_t)mr->priv;

    syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_BUFFERS, NULL, 0);
    close(ring);
    return 0;
}

static const struct provider_ops ops = {.name = "ring", .reg = reg, .dereg = dereg};

static size_t half_len;

/* ---- the contestants -------------------------------------------------------------------- */

static size_t available_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    unsigned long long kilobytes = 0;
    char line[128];

    while (file && !kilobytes && fgets(line, sizeof(line), file))
        if (sscanf(line, "MemAvailable: %llu", &kilobytes) != 1)
            kilobytes = 0;
    if (file)
        fclose(file);
    return (size_t)kilobytes * 1024;
}

static void *open_large(const void *arg)
{
    struct provider_caps caps = {.fabric = "ring",
                                 .key_size = 8,
                                 .iov_limit = 1,
                                 .max_len = GIB, /* the kernel's limit of a fixed buffer */
                                 .any_thread = true,
                                 .pins = true};
    struct large *large = calloc(1, sizeof(*large));
    struct hmreg *lib;
    size_t most = plan.quick ? GIB : 8 * GIB;

    if (!large)
        leave("no memory");
    large->workers = *(const unsigned *)arg;
    large->len = available_bytes() / 4 / (2 * PIECE) * (2 * PIECE);
    if (large->len > most)
        large->len = most;
    if (large->len < 256 * MIB)
        leave("less than 1 GiB of memory is available");
    hmreg_must(hmreg_open(NULL, &lib), "hmreg_open");
    hmreg_must(hmreg_domain_create(lib, &ops, &caps, NULL, NULL, &large->domain),
               "hmreg_domain_create");
    return large;
}

/* As the library's threads do: its creator runs on one core. */
static void use_all_cores(void)
{
    cpu_set_t all;

    memset(&all, 0xff, sizeof(all));
    sched_setaffinity(0, sizeof(all), &all);
}

/* Registers half of the range, without hmreg. */
static void *pin_half(void *base)
{
    static const struct provider_ops *volatile bare = &ops;
    size_t pieces = half_len / PIECE;
    struct hmreg_mr_keys *mrs = calloc(pieces, sizeof(*mrs));
    struct hmreg_reason why;

    for (size_t i = 0; mrs && i < pieces; i++) {
        struct iovec iov = {(char *)base + i * PIECE, PIECE};
        struct provider_request request = {.iov = &iov, .count = 1};

        if (bare->reg(NULL, &request, &mrs[i], &why))
            leave("the kernel pins no fixed buffers of io_uring");
    }
    return mrs;
}

static void *pin_upper_half(void *base)
{
    use_all_cores();
    return pin_half(base);
}

/* Registers by two threads without hmreg, to find the limit of the kernel and the machine. */
static double bare_ms(const struct large *large, char *base)
{
    pthread_t other;
    double begun = now_ns(), ms;
    void *mrs[2];

    half_len = large->len / 2;
    if (pthread_create(&other, NULL, pin_upper_half, base + half_len))
        leave("no thread");
    mrs[0] = pin_half(base);
    pthread_join(other, &mrs[1]);
    ms = (now_ns() - begun) / 1e6;
    for (size_t i = 0; i < half_len / PIECE; i++) {
        ops.dereg(NULL, (struct hmreg_mr_keys *)mrs[0] + i);
        ops.dereg(NULL, (struct hmreg_mr_keys *)mrs[1] + i);
    }
    free(mrs[0]);
    free(mrs[1]);
    return ms / ((double)large->len / (double)GIB);
}

static double register_ms(const struct large *large, char *base)
{
    struct hmreg_job_config config = {.size = sizeof(config), .workers = large->workers};
    struct hmreg_mr *mr = NULL;
    double begun = now_ns(), ms;
    int rc;

    if (large->workers == BARE)
        return bare_ms(large, base);
    rc = hmreg_mr_reg_large(large->domain, base, large->len, HMREG_RECV, &config, &mr);
    ms = (now_ns() - begun) / 1e6;
    if (rc)
        leave("the kernel pins no fixed buffers of io_uring: %s", strerror(-rc));
    hmreg_must(hmreg_mr_close(mr), "hmreg_mr_close");
    return ms / ((double)large->len / (double)GIB);
}

/* NAN in both: the kernel does not give such pages. */
static void sample_pages(const struct large *large, int advice, double *first, double *again)
{
    size_t mapped = large->len + LARGE_PAGE;
    char *made = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *base;

    if (made == MAP_FAILED)
        leave("no address space");
    base = made + (LARGE_PAGE - (uintptr_t)made % LARGE_PAGE) % LARGE_PAGE;
    *first = *again = NAN;
    if (!madvise(base, large->len, advice)) {
        *first = register_ms(large, base);
        *again = register_ms(large, base);
    }
    munmap(made, mapped);
}

static void sample_large(void *state, int worker, double *values)
{
    sample_pages(state, MADV_NOHUGEPAGE, &values[SMALL_FIRST], &values[SMALL_AGAIN]);
    sample_pages(state, MADV_HUGEPAGE, &values[LARGE_FIRST], &values[LARGE_AGAIN]);
}

void measure_large(void)
{
    static const struct job job = {.open = open_large, .sample = sample_large};
    static const unsigned one = 1, two = 2, chosen = 0, bare = BARE;
    const struct contestant contestants[] = {
        {.who = "one worker", .job = &job, .arg = &one},
        {.who = "two workers", .job = &job, .arg = &two},
        {.who = "as hmreg chooses", .job = &job, .arg = &chosen},
        {.who = "two threads, bare calls", .job = &job, .arg = &bare},
    };

    progress("large: %s pinned by one worker and by two", plan.quick ? "1 GiB" : "up to 8 GiB");
    contest(measures, VALUES, contestants, 4, 1, TURNS);
}
