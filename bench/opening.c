/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See opening.h. The functions are libc's, by name, and all code of the dynamic linker. The pages
 * are private copies of a file's, as many as have such a system call, so that the kernel copies
 * each at the first write as it does with libc's.
 */
#include "bench/opening.h"

#include "bench/actor.h"
#include "bench/bench.h"
#include "core/patch/inlined.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <linux/membarrier.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST          64  /* sites */
#define FUNCTION      128 /* bytes that are searched of a function */
#define PAGE          4096
#define WRITES_A_SITE 2 /* the jump, and the short jump to it */

struct sites {
    uintptr_t at[MOST];
    size_t count, pages;
};

static void read_mappings(void)
{
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    char text[4096];

    while (read(fd, text, sizeof(text)) > 0)
        continue;
    close(fd);
}

static void add(struct sites *sites, const uint8_t *at)
{
    size_t i = 0;

    while (i < sites->count && sites->at[i] / PAGE != (uintptr_t)at / PAGE)
        i++;
    sites->pages += i == sites->count;
    if (sites->count < MOST)
        sites->at[sites->count++] = (uintptr_t)at;
}

static void search(struct sites *sites, const uint8_t *start, const uint8_t *end)
{
    struct inlined_call call;

    for (bool found = inlined_next(start, end, &call); found;
         found = inlined_after(&call, start, end, &call))
        add(sites, call.at);
}

static int search_linker(struct dl_phdr_info *info, size_t size, void *sites)
{
    if (info->dlpi_addr != getauxval(AT_BASE))
        return 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        const uint8_t *start = (const uint8_t *)info->dlpi_addr + part->p_vaddr;

        if (part->p_type == PT_LOAD && part->p_flags & PF_X)
            search(sites, start, start + part->p_memsz);
    }
    return 1;
}

static void search_all(struct sites *sites)
{
    static const char *const names[] = {"munmap",        "mmap", "mremap", "madvise",
                                        "posix_madvise", "brk",  "shmat",  "process_madvise"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const uint8_t *function = dlsym(RTLD_DEFAULT, names[i]);

        if (function)
            search(sites, function, function + FUNCTION);
    }
    (void)dl_iterate_phdr(search_linker, sites);
}

static char *map_copies(size_t pages)
{
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    void *copies = mmap(NULL, pages * PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

    close(fd);
    if (copies == MAP_FAILED)
        leave("no memory for %zu pages of code", pages);
    return copies;
}

static void write_all(const struct sites *sites, char *copies)
{
    size_t writes = WRITES_A_SITE * sites->count / sites->pages;

    for (char *page = copies; page < copies + sites->pages * PAGE; page += PAGE) {
        mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
        for (size_t i = 0; i < writes; i++)
            __atomic_store_n((uint64_t *)page + i, i, __ATOMIC_SEQ_CST);
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0);
        mprotect(page, PAGE, PROT_READ | PROT_EXEC);
    }
}

void opening_floor(double us[OPENING_PARTS])
{
    struct sites sites = {.count = 0};
    double begun = now_ns(), read_at, searched_at;
    char *copies;

    read_mappings();
    read_at = now_ns();
    search_all(&sites);
    searched_at = now_ns();
    if (!sites.count)
        leave("no system call is found in libc: this processor's are not searched for");
    us[0] = (read_at - begun) / 1e3;
    us[1] = (searched_at - read_at) / 1e3;
    copies = map_copies(sites.pages);
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0);
    begun = now_ns();
    write_all(&sites, copies);
    us[2] = (now_ns() - begun) / 1e3;
    munmap(copies, sites.pages * PAGE);
}
