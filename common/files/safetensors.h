// safetensors files: the length of the header (8 bytes, little-endian), the header in JSON, and
// then the raw tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/files/atomic_file.h"
#include "common/files/named_tensors.h"

namespace pfc {

/// Receives a tensor's bytes in pieces, in order.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// One tensor to write. The caller owns the bytes.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< "F32", "BF16", "F16", "I64", "U8" ...
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
  /// Alternative to `bytes` for a tensor too large to hold in one piece: passes it to the sink.
  std::function<void(const ByteSink&)> pieces;
};

/// Writes the file atomically, syncs it, and returns its size and checksum. Wider dtypes come
/// first, so that every tensor is aligned; otherwise the caller's order is kept. Throws
/// StorageError that names the file ("no space left"); an existing file is then unchanged.
WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const SafetensorsEntry> entries,
                              const std::map<std::string, std::string>& metadata = {});
/// Passes the bytes of the file that write_safetensors() would write to `sink`, in order. A tensor
/// given by `bytes` is passed in one piece.
void stream_safetensors(const ByteSink& sink, std::span<const SafetensorsEntry> entries,
                        const std::map<std::string, std::string>& metadata = {});

/// A memory-mapped file. Checks the header: its size is limited, names are unique, sizes fit dtype
/// and shape, and tensors cover the data without gap or overlap. Throws InputError naming file and
/// tensor.
class SafetensorsFile : public NamedTensors {
 public:
  /// How to treat misaligned tensors, which other writers may produce. kCopy copies them to
  /// aligned memory. kKeep reads nothing but the header.
  enum class Unaligned { kCopy, kKeep };

  explicit SafetensorsFile(const std::filesystem::path& path,
                           Unaligned unaligned = Unaligned::kCopy);

  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  std::map<std::string, std::string> metadata_;
};

}  // namespace pfc
