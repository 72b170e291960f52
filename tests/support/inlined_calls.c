/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A library that unmaps by a system call of its own: in the form that compilers give to Rust's
 * rustix; with INLINED_SHORT in the shorter form of x86-64 that they choose with -Oz (Rust:
 * opt-level="z"); with INLINED_PASCAL as Free Pascal's functions do, whose number is a parameter;
 * with INLINED_FAR behind so many bytes of other code, and far before data: what the linker reads
 * of the file brings pages near it into memory. With INLINED_NONE it does not.
 */
#define VISIBLE __attribute__((visibility("default")))

#define TEXT(x)  TEXT_(x)
#define TEXT_(x) #x

#ifdef INLINED_FAR
#define OTHER_CODE ".skip " TEXT(INLINED_FAR) ", 0x90\n"
#define MORE_CODE  ".skip 1048576, 0x90\n"
#else
#define OTHER_CODE ""
#define MORE_CODE  ""
#endif

#define FUNCTION(name, code)                                                                       \
    ".globl " name "\n.type " name ", %function\n.balign 16\n" name ":\n" code ".size " name       \
    ", . - " name "\n"

#if defined(INLINED_NONE)
int unmap_inlined(void *addr, unsigned long len);

VISIBLE int unmap_inlined(void *addr, unsigned long len)
{
    return -1;
}
#elif defined(INLINED_PASCAL) && defined(__x86_64__)
__asm__(".text\n" FUNCTION("FPC_SYSCALL1", "  movq %rdi, %rax\n"
                                           "  movq %rsi, %rdi\n"
                                           "  syscall\n"
                                           "  ret\n") FUNCTION("FPC_SYSCALL2", "  movq %rdi, %rax\n"
                                                                               "  movq %rsi, %rdi\n"
                                                                               "  movq %rdx, %rsi\n"
                                                                               "  syscall\n"
                                                                               "  ret\n")
            FUNCTION("unmap_inlined", "  movq %rsi, %rdx\n"
                                      "  movq %rdi, %rsi\n"
                                      "  movl $11, %edi\n"
                                      "  jmp FPC_SYSCALL2\n"));
#elif defined(INLINED_SHORT) && defined(__x86_64__)
__asm__(".text\n" FUNCTION("unmap_inlined", "  pushq $11\n"
                                            "  popq %rax\n"
                                            "  syscall\n"
                                            "  ret\n"));
#elif defined(__x86_64__)
__asm__(".text\n" OTHER_CODE FUNCTION("unmap_inlined", "  movl $11, %eax\n"
                                                       "  syscall\n"
                                                       "  ret\n") MORE_CODE);
#elif defined(__aarch64__)
__asm__(".text\n" OTHER_CODE FUNCTION("unmap_inlined", "  mov w8, #215\n"
                                                       "  svc #0\n"
                                                       "  ret\n") MORE_CODE);
#endif

VISIBLE int inlined_calls;
