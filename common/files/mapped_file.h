// Memory-mapped files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

namespace pfc {

/// Read-only. The file must not shrink: reading past its new end kills the process.
class MappedFile {
 public:
  /// Throws InputError if the path is missing, unreadable or not a regular file (regular_file.h).
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace pfc
