# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Builds for arm64 on another processor, and runs tests by user-mode emulation. Needs Debian's
# gcc-aarch64-linux-gnu and qemu-user, and HMREG_SYSROOT: a folder with Debian's arm64 packages
# unpacked (.ci/arm64 makes one). Programs name that folder's loader: they run where
# the folder is.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)

set(HMREG_SYSROOT "" CACHE PATH "Debian's arm64 packages, unpacked")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HMREG_SYSROOT)
set(CMAKE_SYSROOT ${HMREG_SYSROOT})
set(CMAKE_EXE_LINKER_FLAGS_INIT
    -Wl,--dynamic-linker=${HMREG_SYSROOT}/usr/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1)
set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_CURRENT_LIST_DIR}/arm64-emulator ${HMREG_SYSROOT})

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# pkg-config reads the sysroot's files only.
set(ENV{PKG_CONFIG_LIBDIR} ${HMREG_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${HMREG_SYSROOT})
