/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A library with a munmap and a madvise of its own, which enter the kernel in the form of libc's,
 * as a plugin has that was linked with another libc statically.
 */
#define VISIBLE __attribute__((visibility("default")))

#if defined(OWN_CALLS_NOTYPE) /* as assembly may be written */
#define FUNCTION(name) ".type " #name ", @notype\n"
#else
#define FUNCTION(name) ".type " #name ", %function\n"
#endif
#if defined(OWN_CALLS_IFUNC)
#define MUNMAP own_munmap
#else
#define MUNMAP munmap
#endif

#if defined(__x86_64__)
#define CALL(name, number) CALL_(name, number)
#define CALL_(name, number)                                                                        \
    __asm__(".text\n"                                                                              \
            ".balign 16\n"                                                                         \
            ".globl " #name "\n" FUNCTION(name) #name ":\n"                                        \
                                                      "  endbr64\n"                                \
                                                      "  movl $" #number ", %eax\n"                \
                                                      "  syscall\n"                                \
                                                      "  ret\n"                                    \
                                                      ".size " #name ", . - " #name "\n"           \
                                                      ".balign 16\n")

CALL(MUNMAP, 11);
CALL(madvise, 28);
#elif defined(__aarch64__)
#define CALL(name, number) CALL_(name, number)
#define CALL_(name, number)                                                                        \
    __asm__(".text\n"                                                                              \
            ".balign 16\n"                                                                         \
            ".globl " #name "\n" FUNCTION(name) #name ":\n"                                        \
                                                      "  hint #34\n"                               \
                                                      "  mov x8, #" #number "\n"                   \
                                                      "  svc #0\n"                                 \
                                                      "  ret\n"                                    \
                                                      ".size " #name ", . - " #name "\n")

CALL(MUNMAP, 215);
CALL(madvise, 233);
#endif

#if defined(OWN_CALLS_IFUNC)
int own_munmap(void *addr, unsigned long len);
VISIBLE int munmap(void *addr, unsigned long len) __attribute__((ifunc("resolve")));

static int (*resolve(void))(void *addr, unsigned long len)
{
    return own_munmap;
}
#endif

VISIBLE int own_calls;
