# How every folder is built: pfc_library, pfc_program, pfc_test.

set(PFC_TESTS AUTO CACHE STRING
  "Build the unit tests and benchmarks: AUTO (where GoogleTest and Google Benchmark are), ON or OFF")
set_property(CACHE PFC_TESTS PROPERTY STRINGS AUTO ON OFF)
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
# -g1: stack traces with lines at 3 a.m., at little cost in size.
if(PFC_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")  # builds in 60 % of the time of -O2
else()
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
endif()

find_program(PFC_CCACHE ccache)
if(PFC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PFC_CCACHE})
endif()

add_library(pfc_flags INTERFACE)
target_compile_options(pfc_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;
  -Wnon-virtual-dtor;-Woverloaded-virtual;-Wno-missing-field-initializers>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${PFC_WERROR}>>:-Werror>)
target_include_directories(pfc_flags INTERFACE ${CMAKE_SOURCE_DIR})
if(PFC_SANITIZE)
  # Each finding ends the process, however it was started.
  add_compile_options(-fsanitize=${PFC_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PFC_SANITIZE})
  # gcc 12 reports false uninitialised and overflow warnings once sanitizers change its inlining.
  target_compile_options(pfc_flags INTERFACE -Wno-maybe-uninitialized -Wno-stringop-overflow
    -Wno-array-bounds)
endif()
if(PFC_SANITIZE MATCHES thread)
  # Asio's fences add nothing to its mutexes, and gcc 12's ThreadSanitizer knows no fences.
  add_compile_definitions(BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()

# Libraries whose speed does not matter: they read files, send messages, or start processes. So do the
# programs' own files.
set(PFC_LIBRARIES_THAT_COMPUTE_NOTHING agent common coordinator coordinator_client plan proto
  security status)

# -O1 builds what is mostly gRPC, Asio, JSON and CLI11 in about three quarters of the time of -O2, and
# under sanitizers -O0 in two thirds of the time of -O1.
set(PFC_QUICK_OPTION -O1)
if(PFC_SANITIZE)
  set(PFC_QUICK_OPTION -O0)
endif()
function(pfc_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${PFC_QUICK_OPTION}>)
endfunction()

# pfc_library(common SOURCES a.cc b.cc DEPENDS pfc_x ...) makes the static library pfc_common.
function(pfc_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(pfc_${name} STATIC ${arg_SOURCES})
  target_link_libraries(pfc_${name} PUBLIC pfc_flags ${arg_DEPENDS})
  if(name IN_LIST PFC_LIBRARIES_THAT_COMPUTE_NOTHING)
    pfc_compile_quickly(pfc_${name})
  endif()
endfunction()

# pfc_program(pfcctl SOURCES main.cc DEPENDS pfc_x ...) makes bin/pfcctl.
function(pfc_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE pfc_flags ${arg_DEPENDS})
  pfc_compile_quickly(${name})
endfunction()

# Under a sanitizer each test program is run in so many parts: a process for each test case costs 0.2 s.
set(PFC_SANITIZED_PARTS 8)

# The ctest entries common.part_1_of_8 and so on, which print the test cases that fail.
function(pfc_add_parts name labels timeout)
  math(EXPR last "${PFC_SANITIZED_PARTS} - 1")
  foreach(part RANGE ${last})
    math(EXPR number "${part} + 1")
    set(entry ${name}.part_${number}_of_${PFC_SANITIZED_PARTS})
    add_test(NAME ${entry} COMMAND ${name}_test --gtest_brief=1)
    math(EXPR limit "${timeout} * 4")
    set_tests_properties(${entry} PROPERTIES LABELS "${labels}" TIMEOUT ${limit}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${PFC_SANITIZED_PARTS};GTEST_SHARD_INDEX=${part}")
  endforeach()
endfunction()

# pfc_test(common SOURCES a_test.cc ... DEPENDS pfc_common ... [LABELS ...]) makes the GoogleTest
# binary common_test and one ctest entry a test case, or a part of them under a sanitizer.
function(pfc_test name)
  if(NOT PFC_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  add_executable(${name}_test ${arg_SOURCES})
  target_link_libraries(${name}_test PRIVATE pfc_flags ${arg_DEPENDS} GTest::gmock GTest::gtest_main)
  # What is tested is compiled with it; in the tests themselves it would take half of the time again.
  if(PFC_SANITIZE MATCHES undefined)
    target_compile_options(${name}_test PRIVATE -fno-sanitize=undefined)
  endif()
  set_target_properties(${name}_test PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)  # never empty: the value would vanish, and TIMEOUT become the label
  endif()
  if(PFC_SANITIZE)
    pfc_add_parts(${name} "${arg_LABELS}" ${arg_TIMEOUT})
  else()
    gtest_discover_tests(${name}_test TEST_PREFIX ${name}. NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
      PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
  endif()
endfunction()

# pfc_benchmark(kernels SOURCES ... DEPENDS ...) makes the Google Benchmark binary
# benchmarks/kernels_benchmark.
function(pfc_benchmark name)
  if(NOT PFC_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name}_benchmark ${arg_SOURCES})
  target_link_libraries(${name}_benchmark PRIVATE pfc_flags ${arg_DEPENDS}
    benchmark::benchmark benchmark::benchmark_main)
  set_target_properties(${name}_benchmark PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/benchmarks)
endfunction()
