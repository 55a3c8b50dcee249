# The CUDA side: pfc_cuda if CUDA is built, otherwise pfc_cuda_absent, and pfc_cuda_emulated
# (tests/support/simt) for tests. A program or test chooses with
#   pfc_link_cuda(pfc-worker)        CUDA if it is built
#   pfc_link_cuda(x_test emulated)
#   pfc_link_cuda(pfc-worker absent)
# Without a call it gets pfc_cuda_absent: coordinator, agent and pfcctl never link CUDA.
# With BESIDE the CUDA side, its tests and gpu/pfc-worker are built, but bin/pfc-worker does not use it: loading CUDA's
# libraries takes 0.6 s of CPU time at each start, and tests start hundreds of workers.
set(PFC_CUDA AUTO CACHE STRING
  "Build the CUDA side: AUTO (where nvcc, cuDNN and NCCL are), ON, OFF, or BESIDE (bin/pfc-worker is without it)")
set_property(CACHE PFC_CUDA PROPERTY STRINGS AUTO ON OFF BESIDE)

if(PFC_CUDA)
  find_program(PFC_NVCC nvcc HINTS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES bin)
  cmake_path(GET PFC_NVCC PARENT_PATH cuda_bin)
  cmake_path(GET cuda_bin PARENT_PATH PFC_CUDA_ROOT)
  find_path(PFC_CUDNN_INCLUDE cudnn.h HINTS ${PFC_CUDA_ROOT}/include)
  find_path(PFC_NCCL_INCLUDE nccl.h HINTS ${PFC_CUDA_ROOT}/include)
  foreach(library cudart cublasLt cudnn nccl)
    find_library(PFC_${library}_LIBRARY NAMES ${library} lib${library}.so.9 lib${library}.so.2
      lib${library}.so.13 HINTS ${PFC_CUDA_ROOT}/lib64 ${PFC_CUDA_ROOT}/lib)
  endforeach()
  set(PFC_WITH_CUDA ON)
  foreach(found PFC_NVCC PFC_CUDNN_INCLUDE PFC_NCCL_INCLUDE PFC_cudart_LIBRARY
      PFC_cublasLt_LIBRARY PFC_cudnn_LIBRARY PFC_nccl_LIBRARY)
    if(NOT ${found})
      set(PFC_WITH_CUDA OFF)
      list(APPEND missing ${found})
    endif()
  endforeach()
  if(NOT PFC_WITH_CUDA AND NOT PFC_CUDA STREQUAL AUTO)
    message(FATAL_ERROR "PFC_CUDA is ${PFC_CUDA}, but not found: ${missing}. Install the CUDA 13 "
      "toolkit, cuDNN 9 and NCCL 2, set CUDA_HOME, or configure with -DPFC_CUDA=OFF.")
  endif()
endif()

if(PFC_WITH_CUDA)
  # 80 A100, 86 RTX 30, 89 L4 and RTX 40, 90 H100 and H200, 100 B200.
  set(PFC_CUDA_ARCHITECTURES "80;86;89;90;100" CACHE STRING "GPU architectures to build for")
  set(CMAKE_CUDA_COMPILER ${PFC_NVCC})
  set(CMAKE_CUDA_ARCHITECTURES ${PFC_CUDA_ARCHITECTURES})
  enable_language(CUDA)
  # CMake 3.25 does not know that nvcc 12 and later support C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  if(PFC_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${PFC_CCACHE})
  endif()
  add_library(pfc_cuda_flags INTERFACE)
  target_compile_options(pfc_cuda_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-lineinfo>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${PFC_WERROR}>>:-Werror=all-warnings>)
  target_include_directories(pfc_cuda_flags SYSTEM INTERFACE ${PFC_CUDA_ROOT}/include
    ${PFC_CUDNN_INCLUDE} ${PFC_NCCL_INCLUDE})
  message(STATUS "CUDA: ${PFC_NVCC}, architectures ${PFC_CUDA_ARCHITECTURES}")
else()
  message(STATUS "CUDA: not built")
endif()

function(pfc_link_cuda target)
  if(ARGN)
    set_target_properties(${target} PROPERTIES PFC_CUDA_SIDE ${ARGN})
  elseif(PFC_WITH_CUDA)
    set_target_properties(${target} PROPERTIES PFC_CUDA_SIDE real)
  endif()
endfunction()

# pfc_gpu_test(kernels_gpu SOURCES ... DEPENDS ...) adds a test that needs a GPU, if CUDA is built.
# The test must report "not run" if there is no GPU.
function(pfc_gpu_test name)
  if(NOT PFC_WITH_CUDA OR NOT PFC_TESTS)
    return()
  endif()
  pfc_test_program(${name} ${ARGN})
  pfc_link_cuda(${name}_test)
  add_dependencies(gpu_tests ${name}_test)
  if(PFC_CUDA STREQUAL BESIDE)
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(${name} PROPERTIES LABELS gpu TIMEOUT 300)
    return()
  endif()
  # One entry per test case, because gpu_acceptance.sh counts the skipped ones.
  gtest_discover_tests(${name}_test TEST_PREFIX ${name}. NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS gpu TIMEOUT 300)
endfunction()

# A library that calls the CUDA side depends on this; the target that links it chooses the side.
set(side "$<TARGET_PROPERTY:PFC_CUDA_SIDE>")
set(pfc_cuda_side "$<IF:$<STREQUAL:${side},emulated>,pfc_cuda_emulated,\
$<IF:$<STREQUAL:${side},real>,pfc_cuda,pfc_cuda_absent>>")
foreach(library comm worker)
  set(pfc_${library}_cuda_side "$<IF:$<STREQUAL:${side},emulated>,pfc_${library}_cuda_emulated,\
$<IF:$<STREQUAL:${side},real>,pfc_${library}_cuda,pfc_${library}_cuda_absent>>")
endforeach()

# pfc_cuda_part(comm SOURCES nccl.cc ABSENT absent.cc): the CUDA sources of a library, compiled for
# GPUs and for tests/support/simt, and their replacement if CUDA is not built.
function(pfc_cuda_part library)
  cmake_parse_arguments(arg "" "" "SOURCES;ABSENT" ${ARGN})
  list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  set_property(GLOBAL PROPERTY PFC_CUDA_PART_OF_${library} ${arg_SOURCES})
  pfc_library(${library}_cuda_absent SOURCES ${arg_ABSENT} DEPENDS pfc_common)
  if(PFC_WITH_CUDA)
    pfc_library(${library}_cuda SOURCES ${arg_SOURCES} DEPENDS pfc_${library} pfc_cuda)
  endif()
endfunction()
