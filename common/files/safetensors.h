// safetensors: 8 bytes little-endian header length, a JSON header, then raw tensors. No code in it.
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

/// Takes a tensor's bytes piece by piece, in order.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// One tensor to write: bytes stay owned by the caller.
struct SafetensorsEntry {
  std::string name;
  std::string dtype;  ///< "F32", "BF16", "F16", "I64", "U8" ...
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
  /// Instead of `bytes`, for a tensor too large to be held in one piece: gives it to the sink.
  std::function<void(const ByteSink&)> pieces;
};

/// Writes the file whole, syncs it, and returns its size and checksum (computed on the way). Wider
/// dtypes come first, so that every tensor is aligned; otherwise the order is the caller's. Throws
/// StorageError ("no space left" names the file); then a file that was there before is unchanged.
WrittenFile write_safetensors(const std::filesystem::path& path,
                              std::span<const SafetensorsEntry> entries,
                              const std::map<std::string, std::string>& metadata = {});
/// Gives the bytes of the same file to `sink`, in order. Large tensors come in one piece.
void stream_safetensors(const ByteSink& sink, std::span<const SafetensorsEntry> entries,
                        const std::map<std::string, std::string>& metadata = {});

/// A file open for reading, memory-mapped. The header is bounded and checked: names only once,
/// sizes that fit dtype and shape, and tensors that cover the data without gap or overlap. Throws
/// InputError naming file and tensor.
class SafetensorsFile : public NamedTensors {
 public:
  /// Other writers may leave tensors at odd addresses. kCopy: those are copied into memory, so that
  /// a span of numbers may begin there. kKeep: nothing is read but the header.
  enum class Unaligned { kCopy, kKeep };

  explicit SafetensorsFile(const std::filesystem::path& path,
                           Unaligned unaligned = Unaligned::kCopy);

  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  std::map<std::string, std::string> metadata_;
};

}  // namespace pfc
