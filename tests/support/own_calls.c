/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A library with a munmap and a madvise of its own, which enter the kernel in the form of libc's,
 * as a plugin has that was linked with another libc statically.
 */
#define VISIBLE __attribute__((visibility("default")))

#if defined(__x86_64__)
#define CALL(name, number)                                                                         \
    __asm__(".text\n"                                                                              \
            ".balign 16\n"                                                                         \
            ".globl " #name "\n"                                                                   \
            ".type " #name ", @function\n" #name ":\n"                                             \
            "  endbr64\n"                                                                          \
            "  movl $" #number ", %eax\n"                                                          \
            "  syscall\n"                                                                          \
            "  ret\n"                                                                              \
            ".size " #name ", . - " #name "\n"                                                     \
            ".balign 16\n")

CALL(munmap, 11);
CALL(madvise, 28);
#elif defined(__aarch64__)
#define CALL(name, number)                                                                         \
    __asm__(".text\n"                                                                              \
            ".balign 16\n"                                                                         \
            ".globl " #name "\n"                                                                   \
            ".type " #name ", %function\n" #name ":\n"                                             \
            "  hint #34\n"                                                                         \
            "  mov x8, #" #number "\n"                                                             \
            "  svc #0\n"                                                                           \
            "  ret\n"                                                                              \
            ".size " #name ", . - " #name "\n")

CALL(munmap, 215);
CALL(madvise, 233);
#endif

VISIBLE int own_calls;
