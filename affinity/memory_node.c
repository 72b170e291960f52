/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See memory_node.h. move_pages(2) without target nodes reports the node of each page, and moves
 * none.
 */
#include "affinity/memory_node.h"

#include <errno.h>
#include <hmreg/hmreg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_PAGES 64

/* Chooses pages evenly spread over the range, the first and the last included. */
static size_t choose_pages(const void *addr, size_t len, void *pages[MOST_PAGES])
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = (uintptr_t)addr / page, last = ((uintptr_t)addr + (len - 1)) / page;
    uintptr_t all = last - first + 1;
    size_t count = all < MOST_PAGES ? all : MOST_PAGES;

    for (size_t i = 0; i < count; i++) {
        uintptr_t at =
            first + (i ? (uintptr_t)((double)(all - 1) * (double)i / (double)(count - 1)) : 0);

        pages[i] = (void *)((at < last ? at : last) * page);
    }
    return count;
}

static size_t count_of(const int *nodes, size_t count, int node)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += nodes[i] == node;
    return found;
}

/* The node with the most pages; -1: no page is on a node. */
static int most_frequent(const int *nodes, size_t count, size_t *frequency)
{
    int best = -1;

    *frequency = 0;
    for (size_t i = 0; i < count; i++)
        if (nodes[i] >= 0 && count_of(nodes, count, nodes[i]) > *frequency) {
            best = nodes[i];
            *frequency = count_of(nodes, count, best);
        }
    return best;
}

int memory_node(const void *addr, size_t len, char *words, size_t size)
{
    void *pages[MOST_PAGES];
    int nodes[MOST_PAGES], best;
    size_t count = choose_pages(addr, len, pages), frequency;

    for (size_t i = 0; i < count; i++)
        nodes[i] = -ENOENT;
    if (syscall(SYS_move_pages, 0, count, pages, NULL, nodes, 0) < 0) {
        snprintf(words, size, "the node of the memory is unknown: move_pages(2): %s",
                 hmreg_strerror(errno));
        return -1;
    }
    best = most_frequent(nodes, count, &frequency);
    if (best < 0)
        snprintf(words, size, "the node of the memory is unknown: no page of it is in memory yet");
    else
        snprintf(words, size, "the memory (%zu of %zu pages looked at) is on NUMA node %d",
                 frequency, count, best);
    return best;
}
