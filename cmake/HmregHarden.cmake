# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What makes an error of ours, or of the program around us, harder to exploit: part of hmreg_compile,
# except in builds with sanitizers, which check more. -DHMREG_HARDEN=OFF leaves the choice to CFLAGS.
# Linkers and compilers of distributions have some of it as their default; it is asked for here all the
# same. tests/package/hardening.sh reads the installed files.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckLinkerFlag)

function(hmreg_harden flag) # adds a compiler's flag, if it has it
  string(MAKE_C_IDENTIFIER "HMREG_HAVE${flag}" have)
  check_c_compiler_flag(${flag} ${have})
  if(${have})
    target_compile_options(hmreg_compile INTERFACE ${flag})
  endif()
endfunction()

function(hmreg_harden_link flag)
  string(MAKE_C_IDENTIFIER "HMREG_HAVE${flag}" have)
  check_linker_flag(C ${flag} ${have})
  if(${have})
    target_link_options(hmreg_compile INTERFACE ${flag})
  endif()
endfunction()

hmreg_harden(-fstack-protector-strong)
hmreg_harden(-fstack-clash-protection)
# Level 3 also checks objects whose size only the running program knows. Without optimization libc
# checks nothing, and warns.
check_c_source_compiles("
  #if !__has_builtin(__builtin_dynamic_object_size)
  #error none
  #endif
  int main(void) { return 0; }" HMREG_HAVE_DYNAMIC_OBJECT_SIZE)
set(level $<IF:$<BOOL:${HMREG_HAVE_DYNAMIC_OBJECT_SIZE}>,3,2>)
target_compile_options(hmreg_compile INTERFACE
  $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${level}>)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  hmreg_harden(-fcf-protection=full)
  # Debian 12's libc has start files without the note of a shadow stack, without which the linker
  # drops ours. They call and return as all code of ours does, so the note is true of the whole file.
  # The note of IBT would not be: their _init() has no endbr64.
  hmreg_harden_link(-Wl,-z,shstk)
  set(HMREG_HARDEN_HIT -fcf-protection=return)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  hmreg_harden(-mbranch-protection=standard)
  set(HMREG_HARDEN_HIT -mbranch-protection=pac-ret)
endif()
# HMREG_HARDEN_HIT: what core/cache/get_fast.c has in its place. endbr64 at the beginning of
# hmreg_mr_get() and of hmreg_mr_put() is two of 73 instructions of a hit, and no Linux (6.18) checks
# it in programs. So no library of ours has the note of IBT, wherever it is linked.

hmreg_harden_link(-Wl,-z,relro)
hmreg_harden_link(-Wl,-z,now)
hmreg_harden_link(-Wl,-z,noexecstack)
hmreg_harden_link(-Wl,-z,separate-code)
hmreg_harden_link(-Wl,-z,text)
