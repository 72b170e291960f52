# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Tests that make sense only in the guest: built here, run there. For each of its kernels they are
# listed in a folder of CTest's of their own, which tests/guest/suite runs in that guest.
set(HMREG_GUEST_SUITE ${PROJECT_BINARY_DIR}/tests/guest/suite)
set(HMREG_GUEST_KERNELS 6.1 6.12)

# hmreg_guest_entry(NAME TARGET-OR-SCRIPT [KERNEL 6.1] [LABELS rdma] [ENV A=b ...] [ARGS ...])
# KERNEL: in that guest only, for tests whose results do not depend on the kernel. Without it, in each.
function(hmreg_guest_entry name target)
  cmake_parse_arguments(arg "" "KERNEL" "LABELS;ENV;ARGS" ${ARGN})
  if(NOT arg_KERNEL)
    set(arg_KERNEL ${HMREG_GUEST_KERNELS})
  endif()
  set(command ${target})
  if(TARGET ${target})
    set(command "$<TARGET_FILE:${target}>")
  endif()
  list(APPEND command ${arg_ARGS})
  list(JOIN command "\" \"" command)
  string(CONCAT properties "LABELS \"${arg_LABELS}\" SKIP_RETURN_CODE 77 TIMEOUT 1500 RUN_SERIAL ON "
                           "ENVIRONMENT \"${sanitizer_env};${arg_ENV}\"")
  foreach(kernel IN LISTS arg_KERNEL)
    set_property(GLOBAL APPEND_STRING PROPERTY HMREG_GUEST_TESTS_${kernel}
      "add_test(${name} \"${command}\")\nset_tests_properties(${name} PROPERTIES ${properties})\n")
  endforeach()
endfunction()

# hmreg_guest_test(NAME rdma_edges LABELS rdma SOURCES edges.c [LINK ...] [ENV A=b ...])
function(hmreg_guest_test)
  cmake_parse_arguments(arg "" "NAME" "LABELS;SOURCES;LINK;ENV" ${ARGN})
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE test_support ${arg_LINK})
  hmreg_guest_entry(${arg_NAME} ${arg_NAME} LABELS ${arg_LABELS} ENV ${arg_ENV})
endfunction()
