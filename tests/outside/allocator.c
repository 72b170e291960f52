/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A program whose allocator makes system calls of its own, such as a sanitizer's: it registers a
 * large block, frees it, and allocates again; and the same by mmap(2). A block of new pages at the
 * old address must not be a hit.
 */
#include <hmreg/hmreg.h>
#include <hmreg/loopback.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LEN    ((size_t)8 << 20)
#define ROUNDS 40

static struct hmreg_domain *domain;

static uint64_t key_of(void *addr)
{
    struct hmreg_mr *mr;
    uint64_t key;

    if (hmreg_mr_get(domain, addr, LEN, HMREG_ACCESS_REMOTE, &mr))
        exit(2);
    key = hmreg_mr_key(mr);
    hmreg_mr_put(mr);
    return key;
}

/* Allocators fill only the beginning. */
static unsigned char *middle(unsigned char *block)
{
    return block + LEN / 2;
}

static void *map(void *at)
{
    return mmap(at, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void *take(bool mapped, void *hint)
{
    return mapped ? map(hint) : malloc(LEN);
}

static void give_back(bool mapped, void *block)
{
    if (mapped)
        munmap(block, LEN);
    else
        free(block);
}

/* 1: new pages at the old address, and not a hit; 0: other memory; -1: a stale hit. */
static int play(bool mapped)
{
    unsigned char *block = take(mapped, NULL), *again;
    uint64_t key;
    int result = 0;

    memset(block, 1, LEN);
    key = key_of(block);
    give_back(mapped, block);
    again = take(mapped, block);
    if (again == block && *middle(again) != 1)
        result = key_of(again) == key ? -1 : 1;
    give_back(mapped, again);
    return result;
}

int main(void)
{
    struct hmreg_monitor_info info = {.size = sizeof(info)};
    unsigned fresh = 0, stale = 0;
    struct hmreg *lib;

    if (hmreg_open(NULL, &lib) || hmreg_domain_open_loopback(lib, NULL, NULL, &domain))
        return 2;
    for (int i = 0; i < ROUNDS; i++) {
        int result = play(i % 2);

        fresh += result != 0;
        stale += result < 0;
    }
    hmreg_monitor_query(lib, &info);
    printf("monitor %s (%s): %u blocks of new pages at the old address, %u stale\n",
           hmreg_monitor_name(info.active), info.why, fresh, stale);
    if (hmreg_domain_close(domain) || hmreg_close(lib) || stale)
        return 1;
    return fresh ? 0 : 3;
}
