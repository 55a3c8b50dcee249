# Debian bookworm packages; README.md lists each with its reason.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(PkgConfig REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS context filesystem)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
pkg_check_modules(JPEG_TURBO REQUIRED IMPORTED_TARGET libturbojpeg)
find_package(PNG REQUIRED)

# Gloo ships no CMake package in Debian.
find_path(GLOO_INCLUDE_DIR gloo/context.h REQUIRED)
find_library(GLOO_LIBRARY gloo REQUIRED)
add_library(gloo INTERFACE)
target_include_directories(gloo SYSTEM INTERFACE ${GLOO_INCLUDE_DIR})
target_link_libraries(gloo INTERFACE ${GLOO_LIBRARY})

# oneDNN's own CMake package asks for OpenCL, which a CPU build does not need.
find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
add_library(dnnl INTERFACE)
target_include_directories(dnnl SYSTEM INTERFACE ${DNNL_INCLUDE_DIR})
target_link_libraries(dnnl INTERFACE ${DNNL_LIBRARY})

if(PFC_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
  include(GoogleTest)
endif()
