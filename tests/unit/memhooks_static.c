/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * Hooks in a program that is linked statically, libc included: they hook the program's own copy of
 * libc. Without cmocka, which is a shared library. Exits 0, 1 or 77 as all tests do.
 */
#include <errno.h>
#include <hmreg/hmreg.h>
#include <hmreg/loopback.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LEN 65536

static struct hmreg_domain *domain;

static void must(int right, const char *what)
{
    if (right)
        return;
    fprintf(stderr, "FAILED: %s (%s)\n", what, hmreg_last_error()->text);
    exit(1);
}

static struct hmreg_stats stats(void)
{
    struct hmreg_stats all = {.size = sizeof(all)};

    must(hmreg_domain_stats(domain, &all) == 0, "stats");
    return all;
}

static void get(char *memory)
{
    struct hmreg_mr *mr;

    must(hmreg_mr_get(domain, memory, LEN, HMREG_REMOTE_READ, &mr) == 0, "get");
    hmreg_mr_put(mr);
}

/* The memory is cached, and no longer after the change. */
static void lose(int how)
{
    char *top = sbrk(0), *memory;
    uint64_t before = stats().invalidations;

    if (how == SYS_brk)
        memory = sbrk(LEN) == top ? top : NULL;
    else
        memory = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory && memory != MAP_FAILED, "memory");
    memset(memory, 1, LEN);
    get(memory);
    if (how == SYS_munmap)
        munmap(memory, LEN);
    else if (how == SYS_madvise)
        madvise(memory, LEN, MADV_DONTNEED);
    else if (how == SYS_brk)
        must(brk(top) == 0, "brk");
    else
        syscall(SYS_munmap, memory, LEN);
    must(stats().invalidations == before + 1, "one region is gone");
}

int main(void)
{
    struct hmreg_config config = {.size = sizeof(config), .monitor = HMREG_MONITOR_MEMHOOKS};
    struct hmreg_monitor_info info = {.size = sizeof(info)};
    struct hmreg *lib;

    setvbuf(stdout, NULL, _IONBF, 0);
    if (hmreg_open(&config, &lib) == -EOPNOTSUPP) {
        printf("skipped: %s\n", hmreg_last_error()->text);
        return 77;
    }
    must(hmreg_domain_open_loopback(lib, NULL, NULL, &domain) == 0, "domain");
    lose(SYS_munmap);
    lose(SYS_madvise);
    lose(SYS_brk);
    lose(-1);
    /* Also changes of memory in the same 2 MiB. */
    must(hmreg_monitor_query(lib, &info) == 0 && info.calls >= 4, "hooks reported all four");
    must(hmreg_domain_close(domain) == 0 && hmreg_close(lib) == 0, "close");
    printf("4 ways to lose memory were reported\n");
    return 0;
}
