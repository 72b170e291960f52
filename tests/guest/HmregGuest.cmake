# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Tests that make sense only in the guest: built here, run there. They are listed in a folder of CTest's
# of their own, which tests/guest/suite runs in the guest of each kernel.
set(HMREG_GUEST_SUITE ${PROJECT_BINARY_DIR}/tests/guest/suite)

# hmreg_guest_entry(NAME TARGET-OR-SCRIPT [LABELS rdma] [ENV A=b ...] [ARGS ...] [LONG])
# LONG: in `./run test --long` only, which has both kernels; the guest of the first tier has the newer one.
function(hmreg_guest_entry name target)
  cmake_parse_arguments(arg "LONG" "" "LABELS;ENV;ARGS" ${ARGN})
  set(command ${target})
  if(TARGET ${target})
    set(command "$<TARGET_FILE:${target}>")
  endif()
  list(APPEND command ${arg_ARGS})
  list(JOIN command "\" \"" command)
  string(CONCAT properties "LABELS \"${arg_LABELS}\" SKIP_RETURN_CODE 77 RUN_SERIAL ON "
                           "ENVIRONMENT \"${sanitizer_env};${arg_ENV}\"")
  set(entry "add_test(${name} \"${command}\")\nset_tests_properties(${name} PROPERTIES ${properties})\n")
  if(arg_LONG)
    set(entry "if(CTEST_CONFIGURATION_TYPE STREQUAL long)\n${entry}endif()\n")
  endif()
  set_property(GLOBAL APPEND_STRING PROPERTY HMREG_GUEST_TESTS "${entry}")
endfunction()

# hmreg_guest_test(NAME rdma_edges LABELS rdma SOURCES edges.c [LINK ...] [ENV A=b ...])
function(hmreg_guest_test)
  cmake_parse_arguments(arg "" "NAME" "LABELS;SOURCES;LINK;ENV" ${ARGN})
  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE test_support ${arg_LINK})
  hmreg_guest_entry(${arg_NAME} ${arg_NAME} LABELS ${arg_LABELS} ENV ${arg_ENV})
endfunction()

# hmreg_peermem_entry(rdma_peermem_x TARGET [ARGS ...] [ENV ...]): over nvidia-peermem
function(hmreg_peermem_entry name program)
  cmake_parse_arguments(arg "" "" "ENV;ARGS" ${ARGN})
  hmreg_guest_entry(${name} ${PROJECT_SOURCE_DIR}/tests/guest/peermem.sh LONG LABELS "rdma;guest"
                    ENV SOURCE_DIR=${PROJECT_SOURCE_DIR} ${arg_ENV}
                    ARGS $<TARGET_FILE:${program}> ${arg_ARGS})
endfunction()

# hmreg_siw_entry(siw_x TARGET-OR-SCRIPT [ARGS ...] [ENV ...]): with Soft-iWARP in the place of Soft-RoCE
function(hmreg_siw_entry name program)
  cmake_parse_arguments(arg "" "" "ENV;ARGS" ${ARGN})
  if(TARGET ${program})
    set(program $<TARGET_FILE:${program}>)
  endif()
  hmreg_guest_entry(${name} ${PROJECT_SOURCE_DIR}/tests/kfi/siw.sh LONG LABELS rdma
                    ENV SOURCE_DIR=${PROJECT_SOURCE_DIR} ${arg_ENV} ARGS ${program} ${arg_ARGS})
endfunction()
