/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * The search of loaded code for system calls of its own (core/patch/inlined.h), beside memchr(3)
 * over the same bytes: resident code, repeated. memchr looks for a byte that was replaced there.
 */
#include "bench/actor.h"
#include "bench/bench.h"

#include "core/patch/inlined.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BYTES  ((size_t)64 << 20)
#define ABSENT 0x06 /* begins no instruction of x86-64 */

struct bench {
    uint8_t *code;
    size_t filled;
};

static int copy_code(struct dl_phdr_info *file, size_t size, void *arg)
{
    struct bench *bench = arg;

    if (strstr(file->dlpi_name, "/libc.so.6")) /* not searched; enters the kernel often */
        return 0;
    for (int i = 0; i < file->dlpi_phnum && bench->filled < BYTES; i++) {
        const ElfW(Phdr) *segment = &file->dlpi_phdr[i];
        size_t bytes = segment->p_filesz, left = BYTES - bench->filled;

        if (segment->p_type != PT_LOAD || (segment->p_flags & (PF_R | PF_X)) != (PF_R | PF_X))
            continue;
        bytes = (bytes < left ? bytes : left) & ~(size_t)3;
        memcpy(bench->code + bench->filled, (const void *)(file->dlpi_addr + segment->p_vaddr),
               bytes);
        bench->filled += bytes;
    }
    return 0;
}

static void *open_bench(const void *arg)
{
    struct bench *bench = calloc(1, sizeof(*bench));

    if (!bench)
        leave("no memory");
    bench->code = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bench->code == MAP_FAILED)
        leave("no memory");
    madvise(bench->code, BYTES, MADV_NOHUGEPAGE); /* as files' code */
    while (bench->filled < BYTES)
        dl_iterate_phdr(copy_code, bench);
    for (size_t i = 0; i < BYTES; i++)
        if (bench->code[i] == ABSENT)
            bench->code[i] = 0x90;
    return bench;
}

static void sample_search(void *state, int worker, double *values)
{
    const struct bench *bench = state;
    const uint8_t *end = bench->code + BYTES;
    struct inlined_call call;
    double start = now_ns();

    for (bool found = inlined_next(bench->code, end, &call); found;)
        found = inlined_after(&call, bench->code, end, &call);
    values[0] = (now_ns() - start) / 1e6;
}

static void sample_memchr(void *state, int worker, double *values)
{
    const struct bench *bench = state;
    double start = now_ns();

    if (memchr(bench->code, ABSENT, BYTES))
        leave("memchr found what is not there");
    values[0] = (now_ns() - start) / 1e6;
}

/* ---- the part ----------------------------------------------------------------------------- */

void measure_inlined(void)
{
    static const struct job search = {.open = open_bench, .sample = sample_search};
    static const struct job scan = {.open = open_bench, .sample = sample_memchr};
    static const struct measure measure = {"inlined-64m", "ms"};
    const struct contestant contestants[] = {
        {.who = "search", .job = &search},
        {.who = "memchr", .job = &scan},
    };

    progress("inlined: system calls in 64 MiB of code");
    contest(&measure, 1, contestants, 2, plan.fresh, plan.turns);
}
