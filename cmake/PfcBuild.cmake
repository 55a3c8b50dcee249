# Build functions for all folders: pfc_library, pfc_program, pfc_test.

set(PFC_TESTS OFF CACHE STRING
  "Tests and benchmarks: OFF, ON (the tests that run in this kind of build), or ALL (every unit test)")
set_property(CACHE PFC_TESTS PROPERTY STRINGS OFF ON ALL)
if(NOT PFC_TESTS MATCHES "^(OFF|ON|ALL)$")
  message(FATAL_ERROR "PFC_TESTS is ${PFC_TESTS}, expected OFF, ON or ALL; configure with -DPFC_TESTS=OFF")
endif()
option(PFC_WERROR "Treat warnings as errors" ON)
set(PFC_SANITIZE "" CACHE STRING "Sanitizers, comma-separated: address,undefined or thread")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# -g1 gives stack traces with line numbers at little cost in size.
if(PFC_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")  # builds in 60 % of the time of -O2
else()
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
endif()

find_program(PFC_CCACHE ccache)
if(PFC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PFC_CCACHE})
endif()

if(PFC_TESTS)
  find_program(PFC_GOLD ld.gold)  # links in half the time of GNU ld
  if(PFC_GOLD)
    add_link_options(-fuse-ld=gold)
  endif()
endif()

add_library(pfc_flags INTERFACE)
target_compile_options(pfc_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;
  -Wnon-virtual-dtor;-Woverloaded-virtual;-Wno-missing-field-initializers>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${PFC_WERROR}>>:-Werror>)
target_include_directories(pfc_flags INTERFACE ${CMAKE_SOURCE_DIR})
if(PFC_SANITIZE)
  # Every finding ends the process, no matter how it was started.
  add_compile_options(-fsanitize=${PFC_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(PFC_SANITIZE MATCHES undefined)
    # These checks and alignment make a file take 1.5 times as long to compile. A null pointer still
    # ends the process with a stack trace, and object-size finds nothing at -O0. Alignment is checked
    # only in PFC_LIBRARIES_THAT_READ_BYTES.
    add_compile_options(-fno-sanitize=null,vptr,object-size)
  endif()
  add_link_options(-fsanitize=${PFC_SANITIZE})
  # gcc 12 reports false uninitialised and overflow warnings once sanitizers change its inlining.
  target_compile_options(pfc_flags INTERFACE -Wno-maybe-uninitialized -Wno-stringop-overflow
    -Wno-array-bounds)
endif()
if(PFC_SANITIZE MATCHES thread)
  # Asio's fences add nothing to its mutexes, and gcc 12's ThreadSanitizer does not support fences.
  add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()

# Libraries whose speed does not matter: they read files, send messages or start processes. The same
# applies to the programs' own files.
set(PFC_LIBRARIES_THAT_COMPUTE_NOTHING agent common coordinator coordinator_client plan proto
  security status)
if(PFC_SANITIZE)  # sanitizer builds do not measure their speed
  list(APPEND PFC_LIBRARIES_THAT_COMPUTE_NOTHING data_verbs evaluation synth tensorboard worker)
endif()
if(PFC_SANITIZE MATCHES address AND NOT PFC_TESTS STREQUAL "ALL")  # what computes for long is tested in the optimised build
  list(APPEND PFC_LIBRARIES_THAT_COMPUTE_NOTHING backbone comm data head model_files)
endif()

# Libraries that parse numbers from bytes or compute on raw memory. UBSan checks their alignment.
set(PFC_LIBRARIES_THAT_READ_BYTES backbone common data evaluation head kernels)

# Compiling code that is mostly gRPC, Asio, JSON and CLI11 at -O1 takes about 3/4 of the time of -O2.
# Under sanitizers -O0 takes 2/3 of the time of -O1.
set(PFC_QUICK_OPTION -O1)
if(PFC_SANITIZE)
  set(PFC_QUICK_OPTION -O0)
endif()
function(pfc_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${PFC_QUICK_OPTION}>)
endfunction()

# Leaves a target's own code uninstrumented: tests of what it computes run in the optimised build, and sanitizers make
# it several times slower to compile and to run. With PFC_TESTS=ALL those tests run under sanitizers too.
function(pfc_do_not_sanitize target)
  if(PFC_SANITIZE AND NOT PFC_TESTS STREQUAL "ALL")
    target_compile_options(${target} PRIVATE -fno-sanitize=all)
  endif()
endfunction()

# pfc_embed(OUT x.cc HEADER h TYPE T FUNCTION f FILES a.html ...) generates a source that contains the files
# (cmake/embed.cmake).
function(pfc_embed)
  cmake_parse_arguments(arg "" "OUT;HEADER;TYPE;FUNCTION" "FILES" ${ARGN})
  string(JOIN "|" joined ${arg_FILES})
  add_custom_command(
    OUTPUT ${arg_OUT}
    COMMAND ${CMAKE_COMMAND} -DOUT=${arg_OUT} -DHEADER=${arg_HEADER} -DTYPE=${arg_TYPE}
            -DFUNCTION=${arg_FUNCTION} "-DFILES=${joined}" -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${arg_FILES} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)
endfunction()

# pfc_library(common SOURCES a.cc b.cc DEPENDS pfc_x ...) creates the static library pfc_common.
# SEPARATELY compiles each file alone; the presets compile several together (CMAKE_UNITY_BUILD).
function(pfc_library name)
  cmake_parse_arguments(arg "SEPARATELY" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(pfc_${name} STATIC ${arg_SOURCES})
  target_link_libraries(pfc_${name} PUBLIC pfc_flags ${arg_DEPENDS})
  if(name IN_LIST PFC_LIBRARIES_THAT_COMPUTE_NOTHING)
    pfc_compile_quickly(pfc_${name})
  endif()
  if(PFC_SANITIZE MATCHES undefined AND NOT name IN_LIST PFC_LIBRARIES_THAT_READ_BYTES)
    target_compile_options(pfc_${name} PRIVATE -fno-sanitize=alignment)
  endif()
  if(arg_SEPARATELY)
    set_target_properties(pfc_${name} PROPERTIES UNITY_BUILD OFF)
  endif()
endfunction()

# pfc_program(pfcctl SOURCES main.cc DEPENDS pfc_x ...) creates bin/pfcctl.
function(pfc_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE pfc_flags ${arg_DEPENDS})
  pfc_compile_quickly(${name})
endfunction()

# Each unit test runs once: in the optimised build if it computes, otherwise under AddressSanitizer and
# UndefinedBehaviorSanitizer. Tests of threads run under ThreadSanitizer as well.
if(PFC_SANITIZE MATCHES address)
  set(PFC_KIND_OF_TEST CHECKS)
elseif(PFC_SANITIZE MATCHES thread)
  set(PFC_KIND_OF_TEST THREADS)
else()
  set(PFC_KIND_OF_TEST COMPUTES)
endif()

# Sets `result` to ON if tests of one of these kinds are built here.
function(pfc_test_is_built result)
  set(${result} OFF PARENT_SCOPE)
  if(PFC_TESTS STREQUAL "ALL" OR (PFC_TESTS AND PFC_KIND_OF_TEST IN_LIST ARGN))
    set(${result} ON PARENT_SCOPE)
  endif()
endfunction()

# Environment of tests that compute but do not measure memory: glibc keeps freed memory and uses huge pages. By default
# it returns large blocks to the kernel at once, which clears their pages again at the next allocation. This took half
# of the CPU time of head_test and of a comparison with PyTorch.
set(PFC_COMPUTING_TEST "OMP_WAIT_POLICY=passive;MALLOC_MMAP_MAX_=0;MALLOC_TRIM_THRESHOLD_=1099511627776"
  "MALLOC_TOP_PAD_=67108864;GLIBC_TUNABLES=glibc.malloc.hugetlb=1")

# Adds the ctest entries common.part_1_of_8 and so on. One process runs many test cases, because a process
# for each costs 0.2 s under a sanitizer. tests/support/test_times.py lists the time of each case.
# filter: GoogleTest's pattern of the cases.
function(pfc_add_parts name parts filter)
  math(EXPR last "${parts} - 1")
  foreach(part RANGE ${last})
    math(EXPR number "${part} + 1")
    set(entry ${name}.part_${number}_of_${parts})
    add_test(NAME ${entry} COMMAND ${name}_test)
    set_tests_properties(${entry} PROPERTIES LABELS unit TIMEOUT 900
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${part};GTEST_FILTER=${filter};${PFC_COMPUTING_TEST}")
  endforeach()
endfunction()

# Creates the GoogleTest binary tests/NAME_test.
function(pfc_test_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  # g++ warns if this operator new is compiled in the same file as its uses.
  set_source_files_properties(${CMAKE_SOURCE_DIR}/tests/support/counting_new.cc PROPERTIES
    SKIP_UNITY_BUILD_INCLUSION ON)
  add_executable(${name}_test ${arg_SOURCES})
  target_link_libraries(${name}_test PRIVATE pfc_flags ${arg_DEPENDS} GTest::gmock GTest::gtest_main)
  # Only the tested code is instrumented. Instrumenting the tests too would take half as long again.
  if(PFC_SANITIZE MATCHES undefined)
    target_compile_options(${name}_test PRIVATE -fno-sanitize=undefined)
  endif()
  set_target_properties(${name}_test PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

# pfc_test_objects(head_device_tests SOURCES a_test.cc ... DEPENDS pfc_head ...): test cases that pfc_test() and
# pfc_gpu_test() of one folder have as a DEPENDS, so that they are compiled once.
function(pfc_test_objects name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE pfc_flags ${arg_DEPENDS} GTest::gmock)
endfunction()

# pfc_test(common CHECKS SOURCES a_test.cc ... DEPENDS pfc_common ...) creates the test program
# common_test and its ctest entries. At least one kind is required:
#   COMPUTES  runs in the optimised build
#   CHECKS    parses, allocates or waits: runs under AddressSanitizer and UndefinedBehaviorSanitizer
#   THREADS   runs under ThreadSanitizer
# Options:
#   PARTS 4            number of ctest entries that share its test cases (default 1)
#   NOT_FOR_THREADS case...  patterns of cases that do not run under ThreadSanitizer, because their threads are those
#                      of another case (all run with -DPFC_TESTS=ALL)
#   DEFINITIONS A=1    compile definitions
#   NEEDS target       targets to build first, which the test loads or starts
#   EMULATED_GPU [x.cc ...]  runs on the emulated GPU (tests/support/simt), with these additional
#                            sources. Not available in ThreadSanitizer builds
function(pfc_test name)
  cmake_parse_arguments(arg "COMPUTES;CHECKS;THREADS" "PARTS"
    "SOURCES;DEPENDS;DEFINITIONS;NEEDS;NOT_FOR_THREADS;EMULATED_GPU" ${ARGN})
  set(kinds)
  foreach(kind COMPUTES CHECKS THREADS)
    if(arg_${kind})
      list(APPEND kinds ${kind})
    endif()
  endforeach()
  if(NOT kinds OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "pfc_test(${name}): expected one or more of COMPUTES, CHECKS and THREADS; "
      "unknown words: '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  pfc_test_is_built(built ${kinds})
  if(NOT built)
    return()
  endif()
  pfc_test_program(${name} SOURCES ${arg_SOURCES} DEPENDS ${arg_DEPENDS})
  target_compile_definitions(${name}_test PRIVATE ${arg_DEFINITIONS})
  add_dependencies(unit_tests ${name}_test)
  if(arg_NEEDS)
    add_dependencies(${name}_test ${arg_NEEDS})
  endif()
  if(TARGET pfc_cuda_emulated AND "EMULATED_GPU" IN_LIST ARGN)
    target_sources(${name}_test PRIVATE ${arg_EMULATED_GPU})
    pfc_link_cuda(${name}_test emulated)
  endif()
  if(NOT arg_PARTS)
    set(arg_PARTS 1)
  endif()
  set(filter *)
  if(arg_NOT_FOR_THREADS AND PFC_KIND_OF_TEST STREQUAL THREADS AND NOT PFC_TESTS STREQUAL "ALL")
    list(JOIN arg_NOT_FOR_THREADS : filter)
    string(PREPEND filter -)
  endif()
  pfc_add_parts(${name} ${arg_PARTS} ${filter})
endfunction()
