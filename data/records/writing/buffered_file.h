// Buffers small writes to an AtomicFile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "common/files/atomic_file.h"

namespace pfc {

/// Collects writes into pieces of 1 MiB. The complete file appears at commit(); without commit()
/// no file is left behind. Used by one thread. Throws StorageError like AtomicFile.
class BufferedFile {
 public:
  explicit BufferedFile(const std::filesystem::path& path) : file_(path) {}

  void write(std::span<const std::byte> bytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    offset_ += bytes.size();
    if (buffer_.size() >= kPiece) flush();
  }
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  [[nodiscard]] std::uint64_t offset() const { return offset_; }  ///< bytes written so far

  void commit() {
    flush();
    file_.commit();
  }

 private:
  static constexpr std::size_t kPiece = 1 << 20;

  void flush() {
    file_.write(buffer_);
    buffer_.clear();
  }

  AtomicFile file_;
  std::vector<std::byte> buffer_;
  std::uint64_t offset_ = 0;
};

}  // namespace pfc
