#include "common/files/crc32c.h"

#include <boost/crc.hpp>
#include <cstring>

namespace pfc {
namespace {

std::uint32_t crc32c_by_table(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) std::uint32_t crc32c_by_instruction(std::string_view bytes) {
  std::uint64_t crc = 0xFFFFFFFF;
  for (; bytes.size() >= sizeof crc; bytes.remove_prefix(sizeof crc)) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, bytes.data(), sizeof eight);
    crc = __builtin_ia32_crc32di(crc, eight);
  }
  auto rest = static_cast<std::uint32_t>(crc);
  for (const char c : bytes) rest = __builtin_ia32_crc32qi(rest, static_cast<unsigned char>(c));
  return ~rest;
}
#endif

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("sse4.2")) return crc32c_by_instruction(bytes);
#endif
  return crc32c_by_table(bytes);
}

}  // namespace pfc
