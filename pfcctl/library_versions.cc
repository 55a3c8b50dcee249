#include "pfcctl/library_versions.h"

#include <gloo/config.h>
#include <google/protobuf/stubs/common.h>
#include <grpcpp/grpcpp.h>
#include <openssl/crypto.h>
#include <png.h>
#include <spdlog/version.h>

#include <boost/version.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "kernels/cpu/cpu_info.h"

namespace pfc {
namespace {

std::string dotted(int major, int minor, int patch) {
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

}  // namespace

std::vector<LibraryInfo> library_versions() {
  std::vector<LibraryInfo> all = kernel_libraries();
  const std::string openssl = OpenSSL_version(OPENSSL_VERSION_STRING);
  all.insert(
      all.end(),
      {{"Gloo", dotted(GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH)},
       {"gRPC", grpc::Version()},
       {"Protobuf", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION)},
       {"libjpeg-turbo", PFC_JPEG_TURBO_VERSION},
       {"libpng", png_get_libpng_ver(nullptr)},
       {"OpenSSL", openssl},
       {"Boost", dotted(BOOST_VERSION / 100000, BOOST_VERSION / 100 % 1000, BOOST_VERSION % 100)},
       {"nlohmann/json", dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                                NLOHMANN_JSON_VERSION_PATCH)},
       {"spdlog", dotted(SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)},
       {"prometheus-cpp", PFC_PROMETHEUS_VERSION}});
  return all;
}

}  // namespace pfc
