// A zip file whose members are stored without compression, as PyTorch writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "common/files/mapped_file.h"

namespace pfc {

/// Memory-mapped. Reads sizes and offsets only from the central directory, and so supports zip64
/// and data descriptors (APPNOTE.TXT of PKWARE, sections 4.3 and 4.4).
class ZipFile {
 public:
  /// Reads the central directory. Throws InputError that names the file, and the member if one is
  /// at fault: the file is truncated or not a zip file; a member is compressed or encrypted, is
  /// outside the file, overlaps another, or has a duplicate name.
  explicit ZipFile(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Returns the name of the first member in the file that ends with `end`, or an empty text.
  [[nodiscard]] std::string first_ending_with(std::string_view end) const;
  [[nodiscard]] bool contains(const std::string& name) const { return members_.contains(name); }
  /// Returns the member's bytes, valid as long as memory(). Reads all of them to verify the
  /// checksum. Throws InputError that names file and member.
  [[nodiscard]] std::span<const std::byte> read(const std::string& name) const;
  /// Returns the mapped file, shared with tensors that are views of it.
  [[nodiscard]] const std::shared_ptr<const MappedFile>& memory() const { return file_; }

 private:
  struct Member {
    std::uint64_t begin = 0, size = 0;
    std::uint32_t crc = 0;
  };
  struct Directory {
    std::uint64_t begin = 0, size = 0, entries = 0;
  };

  [[noreturn]] void fail(const std::string& what) const;
  [[nodiscard]] std::span<const std::byte> part(std::uint64_t begin, std::uint64_t size) const;
  [[nodiscard]] Directory find_directory() const;
  void read_directory(const Directory& directory);
  /// Reads the central header at `at` and sets `at` to the next one.
  std::pair<std::string, Member> read_entry(std::uint64_t& at, std::uint64_t end) const;
  void check_places() const;

  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;
  std::map<std::string, Member> members_;
};

}  // namespace pfc
