# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What every target of ours is compiled with: the interface target hmreg_compile.
find_package(Threads REQUIRED)

configure_file(${PROJECT_SOURCE_DIR}/include/hmreg/version.h.in
               ${PROJECT_BINARY_DIR}/include/hmreg/version.h @ONLY)

add_library(hmreg_compile INTERFACE)
target_compile_features(hmreg_compile INTERFACE c_std_11)
target_compile_definitions(hmreg_compile INTERFACE _GNU_SOURCE)
target_compile_options(hmreg_compile INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-unused-parameter
  -fvisibility=hidden $<$<BOOL:${HMREG_WERROR}>:-Werror>)
# gcc clears and copies large structs by rep stos and rep movs, which take 30 cycles to begin: 15 of
# the 380 ns of a miss in the cache, 25 of the 400 ns of an explicit registration and its close. Not
# in Debug builds, whose compile_commands.json clang's tools read.
include(CheckCCompilerFlag)
set(strategy vector_loop:8192:noalign,libcall:-1:noalign)
check_c_compiler_flag(-mmemset-strategy=${strategy} HMREG_HAVE_MEMSET_STRATEGY)
if(HMREG_HAVE_MEMSET_STRATEGY)
  target_compile_options(hmreg_compile INTERFACE
    $<$<NOT:$<CONFIG:Debug>>:-mmemset-strategy=${strategy};-mmemcpy-strategy=${strategy}>)
endif()
target_include_directories(hmreg_compile INTERFACE
  ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include)
target_link_libraries(hmreg_compile INTERFACE Threads::Threads)

if(HMREG_SANITIZE)
  target_compile_options(hmreg_compile INTERFACE
    -fsanitize=${HMREG_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(hmreg_compile INTERFACE -fsanitize=${HMREG_SANITIZE})
elseif(HMREG_HARDEN)
  include(HmregHarden)
endif()

# A shared library of ours: hmreg_shared_library(hmreg-ofi MAP ofi.map SOURCES ofi.c [LINK ...]
# [PUBLIC_LINK ...])
function(hmreg_shared_library name)
  cmake_parse_arguments(arg "" "MAP" "SOURCES;LINK;PUBLIC_LINK" ${ARGN})
  add_library(${name} SHARED ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:hmreg_compile> ${arg_LINK}
                                PUBLIC ${arg_PUBLIC_LINK})
  target_include_directories(${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(${name} PROPERTIES
    VERSION ${HMREG_ABI}.${PROJECT_VERSION} SOVERSION ${HMREG_ABI} LINK_DEPENDS ${arg_MAP})
  # nodelete: thread-local data and fork handlers outlive a dlclose, so the code must too. now: hooks
  # run inside the dynamic linker, where nothing may be looked up.
  target_link_options(${name} PRIVATE -Wl,--version-script=${arg_MAP} -Wl,-z,nodelete -Wl,-z,now)
  if(NOT HMREG_SANITIZE)
    target_link_options(${name} PRIVATE -Wl,--no-undefined)
  endif()
endfunction()
