# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# The target format-check: does every C file look as .clang-format says? By clang-format 14,
# Debian 12's, because each version formats a little differently; no part of the tests.
find_program(HMREG_CLANG_FORMAT NAMES clang-format-14)
if(HMREG_CLANG_FORMAT)
  add_custom_target(format-check
    COMMAND sh -c "git ls-files -z '*.c' '*.h' | xargs -0 '${HMREG_CLANG_FORMAT}' --dry-run -Werror"
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM)
else()
  add_custom_target(format-check
    COMMAND ${CMAKE_COMMAND} -E echo "format-check needs clang-format-14: apt-get install clang-format-14"
    COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
endif()
