/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A library that looks like a runtime which changes mappings past libc: ThreadSanitizer's or Scudo
 * (TEST_SCUDO), by a symbol, or Go's, by the note of its linker (TEST_GO).
 */
#ifdef TEST_GO
__asm__(".pushsection .note.go.buildid,\"a\",@note\n"
        "  .balign 4\n"
        "  .long 4, 4, 4\n"
        "  .asciz \"Go\\0\"\n"
        "  .long 0\n"
        ".popsection\n");
#elif defined(TEST_SCUDO)
__attribute__((visibility("default"))) unsigned long __sanitizer_get_current_allocated_bytes(void);

unsigned long __sanitizer_get_current_allocated_bytes(void)
{
    return 0;
}
#else
__attribute__((visibility("default"))) void __tsan_init(void);

void __tsan_init(void)
{
}
#endif
