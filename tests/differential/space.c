/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See space.h.
 */
#include "tests/differential/space.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct space space = {.file = -1, .own = -1};

/* ---- placement -------------------------------------------------------------------------- */

/* Below where the kernel begins to search, above a sanitizer's shadow; or in 39 bits. */
static char *const places[] = {(char *)0x200000000000, (char *)0x2000000000};

static unsigned long number_in(const char *file)
{
    char text[32] = "";
    FILE *stream = fopen(file, "r");
    size_t len = stream ? fread(text, 1, sizeof(text) - 1, stream) : 0;

    if (stream)
        fclose(stream);
    return len ? strtoul(text, NULL, 10) : 0;
}

static bool is_swapping(void)
{
    FILE *stream = fopen("/proc/swaps", "r");
    int lines = 0, c;

    while (stream && (c = getc(stream)) != EOF)
        lines += c == '\n';
    if (stream)
        fclose(stream);
    return lines > 1;
}

bool space_find(void)
{
    size_t huge = number_in("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size");
    size_t len = (AREA_COUNT + 1) * SPACE_SPACING;

    space.page = (size_t)sysconf(_SC_PAGESIZE);
    space.huge_pages = huge && huge <= (size_t)2 << 20 ? (unsigned)(huge / space.page) : 0;
    space.swaps = is_swapping();
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        void *at = mmap(places[i], len, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

        if (at != MAP_FAILED)
            munmap(at, len);
        if (at == places[i]) {
            space.base = at;
            return true;
        }
    }
    return false;
}

char *space_at(unsigned area, unsigned page)
{
    return space.base + area * SPACE_SPACING + page * space.page;
}

char *space_start(const struct step *step)
{
    return space_at(step->area, step->page);
}

size_t space_len(const struct step *step)
{
    return step->pages * space.page;
}

uint64_t space_offset(const void *addr)
{
    uint64_t offset = (uint64_t)(uintptr_t)addr - (uint64_t)(uintptr_t)space.base;

    return offset < (AREA_COUNT + 1) * SPACE_SPACING ? offset : UINT64_MAX;
}

/* Neighbours in one mapping have the same value. */
static uint64_t marks[AREA_COUNT][SPACE_PAGES];
static uint64_t calls;

void space_set_apart(unsigned area, unsigned page, unsigned pages)
{
    calls++;
    for (unsigned i = page; i < page + pages && i < SPACE_PAGES; i++)
        marks[area][i] = space_mix(marks[area][i], calls);
}

void space_make_one(unsigned area, unsigned page, unsigned pages)
{
    calls++;
    for (unsigned i = page; i < page + pages && i < SPACE_PAGES; i++)
        marks[area][i] = calls;
}

unsigned space_alike(const struct step *step)
{
    unsigned count = 1;

    while (count < step->pages && step->page + count < SPACE_PAGES &&
           marks[step->area][step->page + count] == marks[step->area][step->page])
        count++;
    return count;
}

/* ---- loads and stores ------------------------------------------------------------------- */

static sigjmp_buf back;
static volatile sig_atomic_t accessing;

static void on_fault(int number, siginfo_t *info, void *context)
{
    if (!accessing) {
        signal(number, SIG_DFL); /* a crash */
        return;
    }
    siglongjmp(back, number << 8 | (info->si_code & 0xff));
}

__attribute__((noinline)) int space_load(const void *addr, uint64_t *value)
{
    int fault = sigsetjmp(back, 0);

    if (!fault) {
        accessing = 1;
        *value = *(const volatile uint64_t *)addr;
    }
    accessing = 0;
    return fault;
}

__attribute__((noinline)) int space_store(void *addr, uint64_t value)
{
    int fault = sigsetjmp(back, 0);

    if (!fault) {
        accessing = 1;
        *(volatile uint64_t *)addr = value;
    }
    accessing = 0;
    return fault;
}

uint64_t space_digest(const char *start, size_t pages, size_t step)
{
    uint64_t hash = 1;

    for (size_t i = 0; i < pages; i += step) {
        uint64_t value = 0;

        hash = space_mix(hash, (uint64_t)space_load(start + i * space.page, &value));
        hash = space_mix(hash, value);
    }
    return hash;
}

/* ---- life ------------------------------------------------------------------------------- */

/* With SIGBUS for an access to a missing or protected page: no thread has to serve faults. */
static int open_userfaultfd(void)
{
    struct uffdio_api api = {.api = UFFD_API,
                             .features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_PAGEFAULT_FLAG_WP};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

    if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

void space_open(const struct plan *plan)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};

    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    space.file = memfd_create("differential", MFD_CLOEXEC);
    if (space.file < 0 || ftruncate(space.file, (off_t)(SPACE_FILE * space.page)))
        abort();
    space.own = open_userfaultfd();
    space.watched = plan->kind->watched;
    space.own_calls = plan->kind->monitor == HMREG_MONITOR_DEFAULT && plan->episode % 2;
    space.locks = !space.watched || plan->episode % 2;
}
