# Large headers of others, parsed once: most of a build's time goes into them. There are two sets, as
# g++ takes a precompiled header only where the options are the same:
#   lean   the standard library, JSON and logging, for what computes (-O2)
#   rich   and command lines, Asio and gRPC, for what only talks (-O1: half the time of -O2)
# No source may rely on them: each includes what it uses, and the sanitizer presets build without.
option(PFC_PRECOMPILE "Precompile large headers" ON)
if(PFC_SANITIZE)
  set(PFC_PRECOMPILE OFF)
endif()

# Libraries that only talk. Programs' main files are built as they are.
set(PFC_RICH_LIBRARIES agent coordinator coordinator_client plan proto status)

# The same definitions and options for every target, whether it uses the libraries or not.
target_link_libraries(pfc_flags INTERFACE nlohmann_json::nlohmann_json spdlog::spdlog)
target_compile_options(pfc_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${OpenMP_CXX_FLAGS}>)
target_compile_definitions(pfc_flags INTERFACE BOOST_ALL_NO_LIB)  # Boost::headers has it

set(lean_headers <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <condition_variable> <cstdint>
  <deque> <filesystem> <fstream> <functional> <iostream> <limits> <map> <memory> <mutex> <numeric>
  <optional> <set> <span> <string> <string_view> <thread> <unordered_map> <utility> <vector>
  <nlohmann/json.hpp> <spdlog/spdlog.h>)
set(rich_headers ${lean_headers} <CLI/CLI.hpp> <boost/asio.hpp> <grpcpp/grpcpp.h>)

function(pfc_precompiled_set name)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled/${name}.cc CONTENT "")
  add_library(pfc_precompiled_${name} OBJECT ${CMAKE_BINARY_DIR}/precompiled/${name}.cc)
  cmake_parse_arguments(arg "" "" "HEADERS;DEPENDS;OPTIONS" ${ARGN})
  target_link_libraries(pfc_precompiled_${name} PRIVATE pfc_flags ${arg_DEPENDS})
  target_compile_options(pfc_precompiled_${name} PRIVATE ${arg_OPTIONS})
  target_precompile_headers(pfc_precompiled_${name} PRIVATE ${arg_HEADERS})
endfunction()
if(PFC_PRECOMPILE)
  # ccache needs to see which header was precompiled.
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
  pfc_precompiled_set(lean HEADERS ${lean_headers})
  pfc_precompiled_set(rich HEADERS ${rich_headers} OPTIONS -O1
    DEPENDS CLI11::CLI11 Boost::headers gRPC::grpc++ protobuf::libprotobuf)
endif()

# pfc_precompiled(pfc_common lean)
function(pfc_precompiled target headers)
  if("${headers}" STREQUAL "rich" AND NOT PFC_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O1>)
  endif()
  if(PFC_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM pfc_precompiled_${headers})
    # gcc 12 falsely says that joined strings overlap once their operators come precompiled.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-error=array-bounds>)
  endif()
endfunction()
