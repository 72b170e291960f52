/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * See hook_stubs.h. Each site gets a stub of its own, a copy of one of the templates below, in a
 * page within a jump's reach.
 *
 * Changing code that other threads run. All five bytes within eight aligned ones: one aligned
 * store, which a processor fetches whole or not at all. Else in three steps: the first two bytes
 * become a jump to themselves, at which threads wait that come by; the others are written, which
 * nobody runs now; then the first two. Between steps membarrier(2) makes every thread of the
 * process fetch anew. The thread that does this blocks signals meanwhile, since a handler that came
 * to the site would wait for ever; forks are kept out by the caller's lock.
 *
 * At a site the registers %rax, %rcx, %r11 are free: the system call overwrites them. (In
 * syscall(2) %rax has the number.) Below the stack pointer there may be a red zone. A compiler
 * may keep anything else across a system call, vector registers too: they are saved, but for the
 * tiles of AMX, which a hook does not touch.
 */
#include "core/hook_stubs.h"

#include "core/error.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#if defined(__x86_64__) && defined(__LP64__)
#include <cpuid.h>

/* ---- templates -------------------------------------------------------------------------- */

_Static_assert(offsetof(struct hook_state, hook) == 0, "the stubs' offset");
_Static_assert(offsetof(struct hook_state, inside) == 8, "the stubs' offset");
_Static_assert(offsetof(struct hook_state, watched) == 16, "the stubs' offset");
_Static_assert(offsetof(struct hook_state, granules) == 64, "the stubs' offset");
_Static_assert(HOOK_GRANULE_SHIFT == 21 && HOOK_GRANULES == 65536, "the stubs' numbers");

struct stub_header {
    struct hook_state *state;
    uint32_t number;
    uint32_t xsave_mask, xsave_size;
    uint32_t magic;
};
_Static_assert(sizeof(struct stub_header) == HOOK_STUB_HEADER, "the header's size");

/*
 * hook_begin: the header, and at the entry %r11 = the state.
 * hook_if_range: goes on where [%rdi, %rdi + %rsi) may be watched: by its granules, or, where they
 *   are more than 512 or the range is none, if anything is. hook_if_any: where anything is.
 * hook_end: calls the hook, and leaves. 7: leaves: the replaced instruction and a jump back, whose
 *   ten bytes are written later. Each filter jumps to 7 where there is nothing to do, to 8 to call.
 */
__asm__(".pushsection .rodata\n"
        ".macro hook_begin name\n"
        "  .balign 8\n"
        "  hook_\\name:\n"
        "  .quad 0\n"
        "  .long 0, 0, 0, 0\n"
        "  movq hook_\\name(%rip), %r11\n"
        ".endm\n"
        ".macro hook_if_any\n"
        "  cmpl $0, 16(%r11)\n"
        "  je 7f\n"
        "  jmp 8f\n"
        ".endm\n"
        ".macro hook_if_range\n"
        "  leaq -1(%rdi,%rsi), %rax\n"
        "  movq %rdi, %rcx\n"
        "  shrq $21, %rcx\n"
        "  shrq $21, %rax\n"
        "  subq %rcx, %rax\n"
        "  cmpq $512, %rax\n"
        "  ja 2f\n"
        "  movzwl %cx, %ecx\n"
        "1: cmpl $0, 64(%r11,%rcx,4)\n"
        "  jne 8f\n"
        "  incw %cx\n"
        "  decq %rax\n"
        "  jns 1b\n"
        "  jmp 7f\n"
        "2: hook_if_any\n"
        ".endm\n"
        ".macro hook_end name, number_in_rax\n"
        "8: leaq -128(%rsp), %rsp\n"
        "  pushq %rbp\n"
        "  movq %rsp, %rbp\n"
        "  pushq %r9\n"
        "  pushq %r8\n"
        "  pushq %r10\n"
        "  pushq %rdx\n"
        "  pushq %rsi\n"
        "  pushq %rdi\n"
        "  .if \\number_in_rax == 0\n"
        "  movl 8+hook_\\name(%rip), %eax\n"
        "  .endif\n"
        "  pushq %rax\n"
        "  movq %rsp, %rdi\n"
        "  movl 16+hook_\\name(%rip), %ecx\n"
        "  subq %rcx, %rsp\n"
        "  andq $-64, %rsp\n"
        "  xorl %eax, %eax\n"
        "  .irp at, 512, 520, 528, 536, 544, 552, 560, 568\n"
        "  movq %rax, \\at(%rsp)\n"
        "  .endr\n"
        "  movl 12+hook_\\name(%rip), %eax\n"
        "  xorl %edx, %edx\n"
        "  xsave64 (%rsp)\n"
        "  lock incq 8(%r11)\n"
        "  movq (%r11), %rax\n"
        "  testq %rax, %rax\n"
        "  jz 9f\n"
        "  cld\n"
        "  call *%rax\n"
        "9: movq hook_\\name(%rip), %r11\n"
        "  lock decq 8(%r11)\n"
        "  movl 12+hook_\\name(%rip), %eax\n"
        "  xorl %edx, %edx\n"
        "  xrstor64 (%rsp)\n"
        "  leaq -56(%rbp), %rsp\n"
        "  popq %rax\n"
        "  popq %rdi\n"
        "  popq %rsi\n"
        "  popq %rdx\n"
        "  popq %r10\n"
        "  popq %r8\n"
        "  popq %r9\n"
        "  popq %rbp\n"
        "  leaq 128(%rsp), %rsp\n"
        "7: .skip 10\n"
        "  hook_\\name\\()_end:\n"
        ".endm\n"

        "hook_begin munmap\n"
        "hook_if_range\n"
        "hook_end munmap, 0\n"

        "hook_begin mmap\n" /* MAP_FIXED */
        "testb $0x10, %r10b\n"
        "jz 7f\n"
        "hook_if_range\n"
        "hook_end mmap, 0\n"

        "hook_begin mremap\n" /* MREMAP_FIXED, MREMAP_DONTUNMAP */
        "testb $6, %r10b\n"
        "jnz 3f\n"
        "hook_if_range\n"
        "3: hook_if_any\n"
        "hook_end mremap, 0\n"

        "hook_begin madvise\n" /* 4 DONTNEED, 8 FREE, 9 REMOVE, 24 DONTNEED_LOCKED, 102 GUARD */
        "movl $0x01000310, %ecx\n"
        "cmpl $31, %edx\n"
        "ja 3f\n"
        "btl %edx, %ecx\n"
        "jc 4f\n"
        "jmp 7f\n"
        "3: cmpl $102, %edx\n"
        "jne 7f\n"
        "4: hook_if_range\n"
        "hook_end madvise, 0\n"

        "hook_begin shmat\n" /* SHM_REMAP */
        "testl $0x4000, %edx\n"
        "jz 7f\n"
        "hook_if_any\n"
        "hook_end shmat, 0\n"

        "hook_begin other\n"
        "hook_if_any\n"
        "hook_end other, 0\n"

        "hook_begin syscall\n" /* 9, 11, 12, 25, 28, 30; 67; 440 */
        "cmpq $63, %rax\n"
        "ja 3f\n"
        "movl $0x52001a00, %ecx\n"
        "btq %rax, %rcx\n"
        "jc 4f\n"
        "jmp 7f\n"
        "3: cmpq $67, %rax\n"
        "je 4f\n"
        "cmpq $440, %rax\n"
        "jne 7f\n"
        "4: hook_if_any\n"
        "hook_end syscall, 1\n"
        ".popsection\n");

#define TEMPLATE(name)                                                                             \
    extern const uint8_t hook_##name[] __attribute__((visibility("hidden")));                      \
    extern const uint8_t hook_##name##_end[] __attribute__((visibility("hidden")))

TEMPLATE(munmap);
TEMPLATE(mmap);
TEMPLATE(mremap);
TEMPLATE(madvise);
TEMPLATE(shmat);
TEMPLATE(other);
TEMPLATE(syscall);

struct stub_template {
    long number;
    const uint8_t *start, *end;
};

static const struct stub_template *template_of(long number)
{
    static const struct stub_template templates[] = {
        {SYS_munmap, hook_munmap, hook_munmap_end}, {SYS_mmap, hook_mmap, hook_mmap_end},
        {SYS_mremap, hook_mremap, hook_mremap_end}, {SYS_madvise, hook_madvise, hook_madvise_end},
        {SYS_shmat, hook_shmat, hook_shmat_end},    {HOOK_ANY_CALL, hook_syscall, hook_syscall_end},
    };
    static const struct stub_template other = {0, hook_other, hook_other_end};

    for (size_t i = 0; i < sizeof(templates) / sizeof(templates[0]); i++)
        if (templates[i].number == number)
            return &templates[i];
    return &other;
}

/* ---- what is saved ---------------------------------------------------------------------- */

#define XSAVED 0xe7u /* x87, SSE, AVX, and AVX-512's three parts */

/* The room those take that this machine has; false: it cannot save them so. */
static bool measure_xsave(uint32_t *mask, uint32_t *size)
{
    uint32_t a, b, c, d, high;

    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return false;
    __asm__("xgetbv" : "=a"(*mask), "=d"(high) : "c"(0));
    *mask &= XSAVED;
    *size = 512 + 64; /* x87, SSE; the header */
    for (uint32_t part = 2; part < 8; part++) {
        if (!(*mask >> part & 1))
            continue;
        __cpuid_count(0xd, part, a, b, c, d);
        *size = b + a > *size ? b + a : *size;
    }
    return true;
}

/* ---- pages for stubs -------------------------------------------------------------------- */

#define ISLANDS     8
#define ISLAND_SIZE 16384 /* some forty stubs */
#define STEP        (UINT64_C(1) << 20)
#define REACH       (UINT64_C(2040) << 20) /* of a jump, and no more than a stub beyond */

static struct {
    uint8_t *start;
    size_t used;
} islands[ISLANDS]; /* kept for ever, and used again */

static bool reaches(const uint8_t *from, const uint8_t *to)
{
    return (from < to ? to - from : from - to) <= (ptrdiff_t)REACH;
}

static uint8_t *map_at(uintptr_t address)
{
    void *made = mmap((void *)address, ISLAND_SIZE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    if (made != MAP_FAILED && made != (void *)address) { /* a kernel that takes it for a hint */
        munmap(made, ISLAND_SIZE);
        made = MAP_FAILED;
    }
    return made == MAP_FAILED ? NULL : made;
}

/* Below the code first: above a program's own lies the heap's way. */
static uint8_t *map_near(const uint8_t *code)
{
    uintptr_t base = (uintptr_t)code & ~(STEP - 1);
    uint8_t *made = NULL;

    for (uintptr_t away = STEP; !made && away < REACH && away < base; away += STEP)
        made = map_at(base - away);
    for (uintptr_t away = 2 * STEP; !made && away < REACH; away += STEP)
        made = map_at(base + away);
    return made;
}

/* Room within a jump of the code; NULL: none. */
static uint8_t *take_room(const uint8_t *code, size_t size)
{
    for (int i = 0; i < ISLANDS; i++) {
        if (!islands[i].start)
            islands[i].start = map_near(code);
        if (!islands[i].start)
            return NULL;
        if (!reaches(code, islands[i].start) || islands[i].used + size > ISLAND_SIZE)
            continue;
        islands[i].used += (size + 15) & ~(size_t)15;
        return islands[i].start + islands[i].used - ((size + 15) & ~(size_t)15);
    }
    return NULL;
}

static int protect_islands(int protection)
{
    for (int i = 0; i < ISLANDS; i++)
        if (islands[i].start && mprotect(islands[i].start, ISLAND_SIZE, protection))
            return hmreg_fail(-EOPNOTSUPP,
                              "memhooks: no memory for code of our own (mprotect: %s); use "
                              "userfaultfd or import",
                              strerror(errno));
    return 0;
}

/* ---- one hooked site -------------------------------------------------------------------- */

/* Do so many bytes lie within eight aligned ones? */
static bool within_word(const uint8_t *at, size_t count)
{
    return ((uintptr_t)at & 7) + count <= 8;
}

/* Kept for ever, as its stub is, and used again where the site's instruction is the same again. */
struct hooked {
    struct hook_site site;
    uint8_t before[HOOK_SITE_SIZE], after[HOOK_SITE_SIZE];
    uint8_t over[HOOK_SITE_SIZE]; /* another copy's, which leads to ours */
    bool placed;
};

static struct hooked hooked[2 * HOOK_SITES_MAX];
static size_t hooked_count;

/* What others have put there, on which we rely. */
static struct hook_jump jumps[HOOK_SITES_MAX];
static size_t jump_count;
static bool failed; /* the last hook_stubs_install() */

static void make_jump(uint8_t *to_write, const uint8_t *at, const uint8_t *target)
{
    int32_t distance = (int32_t)(target - (at + HOOK_SITE_SIZE));

    to_write[0] = 0xe9;
    memcpy(to_write + 1, &distance, sizeof(distance));
}

/* The instruction at a site, moved: one that is another copy's jump keeps its target. */
static void move_instruction(uint8_t *to, const uint8_t *from)
{
    int32_t distance;

    memcpy(to, from, HOOK_SITE_SIZE);
    memcpy(&distance, from + 1, sizeof(distance));
    if (from[0] == 0xe9)
        make_jump(to, to, from + HOOK_SITE_SIZE + distance);
}

static int make_stub(struct hooked *hook, struct hook_state *state)
{
    const struct stub_template *template = template_of(hook->site.number);
    size_t size = (size_t)(template->end - template->start);
    uint8_t *at = take_room(hook->site.at, size);
    struct stub_header header = {
        .state = state, .number = (uint32_t)hook->site.number, .magic = HOOK_STUB_MAGIC};

    if (!at)
        return hmreg_fail(-EOPNOTSUPP,
                          "memhooks: no free addresses within a jump of %s(); use "
                          "userfaultfd or import",
                          hook->site.function);
    if (!measure_xsave(&header.xsave_mask, &header.xsave_size))
        return hmreg_fail(-EOPNOTSUPP, "memhooks: this processor does not save its registers "
                                       "(XSAVE); use userfaultfd or import");
    memcpy(at, template->start, size);
    memcpy(at, &header, sizeof(header));
    move_instruction(at + size - 2 * HOOK_SITE_SIZE, hook->site.at);
    make_jump(at + size - HOOK_SITE_SIZE, at + size - HOOK_SITE_SIZE,
              hook->site.at + HOOK_SITE_SIZE);
    memcpy(hook->before, hook->site.at, HOOK_SITE_SIZE);
    make_jump(hook->after, hook->site.at, at + sizeof(header));
    return 0;
}

static bool reads(const struct hooked *hook, const uint8_t *instruction)
{
    return memcmp(hook->site.at, instruction, HOOK_SITE_SIZE) == 0;
}

/* One whose stub fits what is at the site now; in a forked child its jump is there already. */
static struct hooked *find_hooked(const struct hook_site *site)
{
    for (size_t i = 0; i < hooked_count; i++) {
        struct hooked *hook = &hooked[i];

        if (hook->site.at == site->at && (reads(hook, hook->before) || reads(hook, hook->after)))
            return hook;
    }
    return NULL;
}

static int add_hooked(const struct hook_site *site, struct hook_state *state)
{
    struct hooked *hook = &hooked[hooked_count];
    int rc;

    if (hooked_count == sizeof(hooked) / sizeof(hooked[0]))
        return hmreg_fail(-EOPNOTSUPP, "memhooks: others change the code of %s() again and again",
                          site->function);
    *hook = (struct hooked){.site = *site};
    if (!within_word(site->at, 2))
        return hmreg_fail(-EOPNOTSUPP,
                          "memhooks: %s() lies where it cannot be changed at once; "
                          "use userfaultfd or import",
                          site->function);
    rc = make_stub(hook, state);
    if (!rc)
        hooked_count++;
    return rc;
}

/* ---- changing code ---------------------------------------------------------------------- */

/* Not through libc: its functions are what is being changed. */
static long call_kernel(long number, long a, long b, long c)
{
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

/* Every thread of the process fetches its next instruction anew. */
static bool all_fetch_anew(void)
{
    return call_kernel(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) == 0;
}

static bool can_make_all_fetch(void)
{
    return call_kernel(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) ==
               0 &&
           all_fetch_anew();
}

/* Writes bytes that lie within eight aligned ones, by one store; in assembler, since code is no
 * memory that a sanitizer knows anything of. */
static void store_within_word(uint8_t *at, const uint8_t *bytes, size_t count)
{
    uint64_t *word = (uint64_t *)((uintptr_t)at & ~(uintptr_t)7);
    uint64_t value;

    __asm__ volatile("movq (%1), %0" : "=r"(value) : "r"(word) : "memory");
    memcpy((uint8_t *)&value + ((uintptr_t)at & 7), bytes, count);
    __asm__ volatile("movq %0, (%1)" : : "r"(value), "r"(word) : "memory");
}

static void change_instruction(uint8_t *at, const uint8_t *bytes)
{
    static const uint8_t wait_here[2] = {0xeb, 0xfe};

    if (within_word(at, HOOK_SITE_SIZE)) {
        store_within_word(at, bytes, HOOK_SITE_SIZE);
    } else {
        store_within_word(at, wait_here, 2);
        all_fetch_anew();
        for (size_t i = 2; i < HOOK_SITE_SIZE; i++)
            store_within_word(at + i, bytes + i, 1);
        all_fetch_anew();
        store_within_word(at, bytes, 2);
    }
    all_fetch_anew();
}

static long protect_site(const struct hooked *hook, int protection)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)hook->site.at & ~(page - 1);
    uintptr_t end = ((uintptr_t)hook->site.at + HOOK_SITE_SIZE + page - 1) & ~(page - 1);

    return call_kernel(SYS_mprotect, (long)start, (long)(end - start), protection);
}

/* Puts the bytes there if what is there is still what is expected. */
static long change_site(const struct hooked *hook, const uint8_t *expected, const uint8_t *bytes)
{
    sigset_t all, before;
    long rc;

    if (!reads(hook, expected))
        return -EBUSY;
    rc = protect_site(hook, hook->site.protection | PROT_WRITE);
    if (rc)
        return rc;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    change_instruction(hook->site.at, bytes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return protect_site(hook, hook->site.protection);
}

/* ---- all sites -------------------------------------------------------------------------- */

/* A stub for each site that has none. Threads may be in others of the same page. */
static int make_stubs(const struct hook_sites *sites, struct hook_state *state)
{
    int rc = protect_islands(PROT_READ | PROT_WRITE | PROT_EXEC);

    for (size_t i = 0; !rc && i < sites->count; i++)
        if (!find_hooked(&sites->site[i]))
            rc = add_hooked(&sites->site[i], state);
    return rc ? rc : protect_islands(PROT_READ | PROT_EXEC);
}

static void restore_sites(void)
{
    for (size_t i = 0; i < hooked_count; i++) {
        if (hooked[i].placed)
            change_site(&hooked[i], hooked[i].after, hooked[i].before);
        hooked[i].placed = false;
    }
    jump_count = 0;
}

/* Another copy's stub does what it found at the site: it jumps to ours. Asked of the kernel once.
 */
static bool leads_to_ours(struct hooked *hook)
{
    if (reads(hook, hook->after) || reads(hook, hook->over))
        return true;
    if (!hook_is_stub(hook->site.at, hook->site.number))
        return false;
    memcpy(hook->over, hook->site.at, HOOK_SITE_SIZE);
    return true;
}

/* Where others have put theirs over ours, there is nothing of ours any more. */
static void rely_on(const struct hook_sites *sites)
{
    for (size_t i = 0; i < hooked_count; i++)
        hooked[i].placed = hooked[i].placed && leads_to_ours(&hooked[i]);
    memcpy(jumps, sites->jump, sizeof(jumps));
    jump_count = sites->jumps;
}

static int place_jump(struct hooked *hook)
{
    long rc = reads(hook, hook->after) ? 0 : change_site(hook, hook->before, hook->after);

    if (rc)
        return hmreg_fail(-EOPNOTSUPP,
                          "memhooks: the code of %s() cannot be changed: %s; use "
                          "userfaultfd or import",
                          hook->site.function, strerror((int)-rc));
    hook->placed = true;
    return 0;
}

int hook_stubs_install(const struct hook_sites *sites, struct hook_state *state)
{
    int rc;

    if (!can_make_all_fetch())
        return hmreg_fail(-EOPNOTSUPP, "memhooks: this kernel's membarrier cannot synchronize "
                                       "code; use userfaultfd or import");
    /* Stubs of an attempt that failed may not be executable yet. */
    rc = protect_islands(PROT_READ | PROT_EXEC);
    for (size_t i = 0; !rc && i < sites->count; i++) {
        struct hooked *hook = find_hooked(&sites->site[i]);

        if (!hook)
            rc = make_stubs(sites, state);
        if (!rc)
            rc = place_jump(hook ? hook : find_hooked(&sites->site[i]));
    }
    failed = rc;
    if (rc)
        restore_sites();
    else
        rely_on(sites);
    return rc;
}

bool hook_stubs_are_whole(void)
{
    for (size_t i = 0; i < hooked_count; i++)
        if (hooked[i].placed && !leads_to_ours(&hooked[i]))
            return false;
    for (size_t i = 0; i < jump_count; i++)
        if (memcmp(jumps[i].at, jumps[i].bytes, HOOK_SITE_SIZE) != 0)
            return false;
    return !failed;
}

/* How long it may take a thread to leave the hook, if it is not stopped: then its code is kept
 * from nothing but being unloaded. */
#define LEAVE_TRIES 1000000

void hook_stubs_remove(struct hook_state *state)
{
    restore_sites();
    atomic_store(&state->hook, NULL);
    for (int i = 0; i < LEAVE_TRIES && atomic_load(&state->inside); i++)
        sched_yield();
}

#else

int hook_stubs_install(const struct hook_sites *sites, struct hook_state *state)
{
    return hmreg_fail(-EOPNOTSUPP, "memhooks: there are none for this processor; use userfaultfd "
                                   "or import");
}

bool hook_stubs_are_whole(void)
{
    return true;
}

void hook_stubs_remove(struct hook_state *state)
{
}

#endif

struct hook_state *hook_state_get(void)
{
    static struct hook_state *state;
    void *made;

    if (state)
        return state;
    made = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) {
        hmreg_fail_os(errno, "no memory for memhooks");
        return NULL;
    }
    if (madvise(made, sizeof(*state), MADV_WIPEONFORK)) {
        hmreg_fail(-EOPNOTSUPP, "memhooks: this kernel does not wipe memory at fork "
                                "(MADV_WIPEONFORK); use userfaultfd or import");
        munmap(made, sizeof(*state));
        return NULL;
    }
    state = made;
    return state;
}
