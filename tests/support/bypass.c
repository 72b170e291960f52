/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
 *
 * A library that looks like a runtime which changes mappings past libc: by a function (BYPASS), or
 * like Go's by the note of its linker.
 */
#ifdef BYPASS
__attribute__((visibility("default"))) void BYPASS(void);

void BYPASS(void)
{
}
#else
__asm__(".pushsection .note.go.buildid,\"a\",@note\n"
        "  .balign 4\n"
        "  .long 4, 4, 4\n"
        "  .asciz \"Go\\0\"\n"
        "  .long 0\n"
        ".popsection\n");
#endif
