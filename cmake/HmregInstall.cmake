# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# What is installed: libraries, their headers, package files for CMake and pkg-config, the
# command, licences, documents, examples; docs/ installs the manual. Everything finds everything else relative to itself, so an
# installed tree may be moved. Consumers of it are built in tests/package.
include(CMakePackageConfigHelpers)

set(HMREG_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/hmreg)

# Folders that the installation makes would have all rights that the umask leaves: others might write to them.
if(NOT DEFINED CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS)
  set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                                  WORLD_READ WORLD_EXECUTE)
endif()

# A directory of the installation, as a .pc file names it.
function(hmreg_pc_dir dir out)
  if(IS_ABSOLUTE "${dir}")
    set(${out} "${dir}" PARENT_SCOPE)
  else()
    set(${out} "\${prefix}/${dir}" PARENT_SCOPE)
  endif()
endfunction()

# hmreg_find_libraries(hmreg-ofi INSTALL $ORIGIN BUILD hmreg ...): where an installed program or library
# finds our libraries (INSTALL), and in the build tree (BUILD: those libraries). CMake would end the list
# of the build tree with a colon: the dynamic linker would search the current folder, where
# another user may have put a library. After the target's install(). CMAKE_SKIP_INSTALL_RPATH: what is
# installed has no search path, for packages whose libraries lie where the dynamic linker looks anyway;
# or PRIVATE, the folder of libraries that lie elsewhere.
function(hmreg_find_libraries target)
  cmake_parse_arguments(arg "" "INSTALL;PRIVATE;FILE" "BUILD" ${ARGN})
  list(TRANSFORM arg_BUILD REPLACE "(.+)" "$<TARGET_FILE_DIR:\\1>")
  list(REMOVE_DUPLICATES arg_BUILD)
  list(JOIN arg_BUILD ":" build)
  set_target_properties(${target} PROPERTIES SKIP_BUILD_RPATH ON)
  target_link_options(${target} PRIVATE "LINKER:-rpath,${build}")
  if(IS_ABSOLUTE "${arg_FILE}")
    set(file "\$ENV{DESTDIR}${arg_FILE}")
  else()
    set(file "\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${arg_FILE}")
  endif()
  if(CMAKE_SKIP_INSTALL_RPATH AND arg_PRIVATE)
    set(arg_INSTALL ${arg_PRIVATE})
  elseif(CMAKE_SKIP_INSTALL_RPATH)
    install(CODE "file(RPATH_REMOVE FILE \"${file}/$<TARGET_FILE_NAME:${target}>\")")
    return()
  endif()
  install(CODE "file(RPATH_CHANGE FILE \"${file}/$<TARGET_FILE_NAME:${target}>\"
                     OLD_RPATH \"${build}\" NEW_RPATH \"\\${arg_INSTALL}\")")
endfunction()

# hmreg_install_library(hmreg-ofi AS ofi HEADERS ofi.h DESCRIPTION "..." [REQUIRES pc-module ...])
# AS: the name after hmreg:: in CMake. REQUIRES: what its header includes, for pkg-config.
function(hmreg_install_library target)
  cmake_parse_arguments(arg "" "AS;DESCRIPTION" "HEADERS;REQUIRES" ${ARGN})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${arg_AS})
  install(TARGETS ${target} EXPORT ${target}Targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  if(NOT target STREQUAL hmreg)
    hmreg_find_libraries(${target} INSTALL $ORIGIN FILE ${CMAKE_INSTALL_LIBDIR} BUILD hmreg)
  endif()
  install(EXPORT ${target}Targets NAMESPACE hmreg:: DESTINATION ${HMREG_PACKAGE_DIR})
  install(FILES ${arg_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/hmreg)

  if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(PC_PREFIX ${CMAKE_INSTALL_PREFIX})
  else()
    file(RELATIVE_PATH up "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
    string(REGEX REPLACE "/$" "" PC_PREFIX "\${pcfiledir}/${up}")
  endif()
  hmreg_pc_dir(${CMAKE_INSTALL_LIBDIR} PC_LIBDIR)
  hmreg_pc_dir(${CMAKE_INSTALL_INCLUDEDIR} PC_INCLUDEDIR)
  set(PC_NAME ${target})
  set(PC_DESCRIPTION "${arg_DESCRIPTION}")
  list(JOIN arg_REQUIRES ", " PC_REQUIRES)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/package/hmreg.pc.in ${PROJECT_BINARY_DIR}/${target}.pc
                 @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${target}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

set(headers ${PROJECT_SOURCE_DIR}/include/hmreg)
hmreg_install_library(hmreg AS hmreg DESCRIPTION "${PROJECT_DESCRIPTION}"
                      HEADERS ${headers}/hmreg.h ${headers}/hmreg.hpp ${headers}/cache.h ${headers}/group.h ${headers}/hibernate.h ${headers}/job.h ${headers}/lost.h ${headers}/plan.h
                              ${headers}/region.h ${headers}/remote.h ${headers}/suspend.h ${headers}/table.h ${PROJECT_BINARY_DIR}/include/hmreg/version.h)
hmreg_install_library(hmreg-loopback AS loopback DESCRIPTION "hmreg's domains that need no fabric"
                      HEADERS ${headers}/loopback.h
                      REQUIRES "hmreg = ${PROJECT_VERSION}")
hmreg_install_library(hmreg-affinity AS affinity DESCRIPTION "which NICs are near a device or NUMA node"
                      HEADERS ${headers}/affinity.h
                      REQUIRES "hmreg = ${PROJECT_VERSION}")
if(TARGET hmreg-ofi)
  hmreg_install_library(hmreg-ofi AS ofi DESCRIPTION "hmreg's domains on libfabric"
                        HEADERS ${headers}/ofi.h
                        REQUIRES "hmreg = ${PROJECT_VERSION}" libfabric)
endif()
if(TARGET hmreg-verbs)
  hmreg_install_library(hmreg-verbs AS verbs DESCRIPTION "hmreg's domains on libibverbs"
                        HEADERS ${headers}/verbs.h
                        REQUIRES "hmreg = ${PROJECT_VERSION}" libibverbs)
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/package/hmregConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/hmregConfig.cmake
                              INSTALL_DESTINATION ${HMREG_PACKAGE_DIR}
                              NO_CHECK_REQUIRED_COMPONENTS_MACRO)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hmregConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hmregConfig.cmake ${PROJECT_BINARY_DIR}/hmregConfigVersion.cmake
        DESTINATION ${HMREG_PACKAGE_DIR})

# Of a command, in the folders that bash-completion, zsh and fish keep for what others install. More arguments are
# install()'s.
function(hmreg_install_completion name)
  set(files ${PROJECT_SOURCE_DIR}/tools/completion)
  set(share ${CMAKE_INSTALL_DATADIR})
  install(FILES ${files}/hmreg RENAME ${name} DESTINATION ${share}/bash-completion/completions ${ARGN})
  install(FILES ${files}/hmreg.zsh RENAME _${name} DESTINATION ${share}/zsh/vendor-completions ${ARGN})
  install(FILES ${files}/hmreg.fish RENAME ${name}.fish DESTINATION ${share}/fish/vendor_completions.d ${ARGN})
endfunction()

if(TARGET hmreg-tool)
  file(RELATIVE_PATH bin_to_lib "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS hmreg-tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  hmreg_find_libraries(hmreg-tool INSTALL $ORIGIN/${bin_to_lib} FILE ${CMAKE_INSTALL_BINDIR}
                       BUILD hmreg hmreg-loopback hmreg-affinity)
  hmreg_install_completion(hmreg)
endif()
if(HMREG_SIMULATED)
  hmreg_install_completion(hmreg-simulated COMPONENT simulated EXCLUDE_FROM_ALL)
endif()

# What is loaded into unmodified programs: in a folder of its own, which no linker searches.
# hmreg_install_preload(hmreg-record [BUILD hmreg ...]); BUILD: the libraries of ours that it links.
function(hmreg_install_preload target)
  cmake_parse_arguments(arg "" "" "BUILD" ${ARGN})
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/hmreg)
  if(arg_BUILD)
    hmreg_find_libraries(${target} INSTALL $ORIGIN:$ORIGIN/.. PRIVATE $ORIGIN FILE ${CMAKE_INSTALL_LIBDIR}/hmreg
                         BUILD ${arg_BUILD})
  endif()
endfunction()
if(HMREG_PRELOAD)
  hmreg_install_preload(hmreg-record)
  if(TARGET hmreg-preload)
    hmreg_install_preload(hmreg-preload)
    hmreg_install_preload(hmreg-preload-verbs BUILD hmreg-record hmreg hmreg-verbs)
    hmreg_install_preload(hmreg-ibverbs)
    if(TARGET hmreg-audit)
      hmreg_install_preload(hmreg-audit)
    endif()
  endif()
  if(TARGET hmreg-hook)
    hmreg_install_preload(hmreg-hook BUILD hmreg-record)
    hmreg_install_preload(hmreg-preload-libfabric BUILD hmreg-record hmreg hmreg-ofi)
  endif()
endif()

install(DIRECTORY ${PROJECT_SOURCE_DIR}/LICENSES DESTINATION ${CMAKE_INSTALL_DOCDIR})
# The documents and the examples as they lie in the tree, so that their links work.
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs ${PROJECT_SOURCE_DIR}/examples
        DESTINATION ${CMAKE_INSTALL_DOCDIR} USE_SOURCE_PERMISSIONS
        PATTERN docs/CMakeLists.txt EXCLUDE PATTERN docs/site EXCLUDE
        PATTERN docs/pictures/draw EXCLUDE PATTERN docs/pictures/*.txt EXCLUDE)
