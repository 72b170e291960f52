/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A library to load and unload, with a system call of its own: it changes mappings past libc. With
 * LOADS_MARK it looks like Go's runtime, which does. The linker runs its code three times: in the
 * resolver of a function while it relocates the library, in the constructor and in the destructor;
 * each calls the program's loads_call(), if the program's link namespace is the library's.
 */
#include "tests/support/loads.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#ifdef LOADS_MARK
__attribute__((visibility("default"))) void _cgo_topofstack(void);

void _cgo_topofstack(void)
{
}
#endif

#if defined(__x86_64__)
static long enter(long number, const void *addr, size_t len, long protection, long flags)
{
    register long fourth __asm__("r10") = flags;
    register long fifth __asm__("r8") = -1;
    register long sixth __asm__("r9") = 0;
    long result = number;

    __asm__ volatile("syscall"
                     : "+a"(result)
                     : "D"(addr), "S"(len), "d"(protection), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
static long enter(long number, const void *addr, size_t len, long protection, long flags)
{
    register long eighth __asm__("x8") = number;
    register long result __asm__("x0") = (long)addr;
    register long second __asm__("x1") = (long)len;
    register long third __asm__("x2") = protection;
    register long fourth __asm__("x3") = flags;
    register long fifth __asm__("x4") = -1;
    register long sixth __asm__("x5") = 0;

    __asm__ volatile("svc #0"
                     : "+r"(result)
                     : "r"(eighth), "r"(second), "r"(third), "r"(fourth), "r"(fifth), "r"(sixth)
                     : "memory");
    return result;
}
#else
static long enter(long number, const void *addr, size_t len, long protection, long flags)
{
    return -1; /* there are no hooks either */
}
#endif

/* The numbers come from memory: no search finds the calls (core/patch/inlined.h). */
static bool change(void *addr, size_t len)
{
    volatile long unmap = SYS_munmap, map = SYS_mmap;

    return !enter(unmap, addr, len, 0, 0) &&
           enter(map, addr, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED) ==
               (long)addr;
}

__attribute__((visibility("default"))) const struct loads loads = {change};

/* By its address: when the linker calls the resolver, it may not have prepared calls yet. */
static void call(enum loads_from from)
{
    void (*volatile function)(const struct loads *, enum loads_from) = loads_call;

    if (function)
        function(&loads, from);
}

static bool yes(void)
{
    return true;
}

static bool (*resolve(void))(void)
{
    call(LOADS_RESOLVER);
    return yes;
}

static bool resolved(void) __attribute__((ifunc("resolve")));

/* The linker calls the resolver for this, after it has done the other relocations. */
static bool (*const volatile resolved_at)(void) = resolved;

__attribute__((constructor)) static void begin(void)
{
    if (resolved_at())
        call(LOADS_CONSTRUCTOR);
}

__attribute__((destructor)) static void end(void)
{
    call(LOADS_DESTRUCTOR);
}
