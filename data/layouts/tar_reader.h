// Reads the members of a tar archive from their headers.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "common/files/regular_file.h"

namespace pfc {

struct TarMember {
  std::string name;
  std::uint64_t offset = 0;  ///< where its content begins in the archive
  std::uint64_t bytes = 0;
  bool file = false;  ///< true for a regular file; false for a folder, a link, ...
};

/// Iterates over an archive: POSIX ustar with pax headers, GNU long names and large numbers. Skips
/// the content of members; the caller may read it. Names are limited to 4096 bytes. Used by one
/// thread. Throws InputError that names file and offset, what was found and what was expected.
class TarReader {
 public:
  explicit TarReader(const RegularFile& archive) : archive_(archive) {}

  /// Returns the next member; nullopt at the end: a block of zeros, or the end of the file.
  std::optional<TarMember> next();
  /// Called after the last member: returns whether blocks of zeros follow it. Without them the
  /// archive may be truncated between two members.
  [[nodiscard]] bool has_end() const { return has_end_; }
  /// Called after the last member: returns the number of bytes from the first block that is not
  /// all zeros to the end of the file. Another archive may start at this block. Returns 0 if the
  /// megabyte after the archive's end has no such block.
  [[nodiscard]] std::uint64_t bytes_behind_end() const { return bytes_behind_end_; }
  /// Returns a small member's content, for labels. Reads at most `most` bytes.
  [[nodiscard]] std::string text(const TarMember& member, std::size_t most) const;

 private:
  static constexpr std::size_t kBlock = 512;
  using Header = std::array<char, kBlock>;

  void read(std::uint64_t offset, std::span<char> to) const;
  [[nodiscard]] std::uint64_t number(const Header& header, std::size_t at, std::size_t size) const;
  void check_sum(const Header& header) const;
  [[nodiscard]] bool next_header(Header& header);  ///< false at the end
  void expect_uncompressed() const;
  void look_behind_end();
  void take_extended(char type, std::uint64_t content, std::uint64_t bytes);
  void take_pax(const std::string& records);
  [[nodiscard]] std::string name_of_member(const Header& header);
  [[noreturn]] void fail(const std::string& what) const;  ///< names the header's offset
  [[noreturn]] void fail(std::uint64_t offset, const std::string& what) const;

  const RegularFile& archive_;
  std::uint64_t offset_ = 0;  ///< where the next header begins
  bool has_end_ = false;
  std::uint64_t bytes_behind_end_ = 0;
  // Values from an extended header, for the member that follows it.
  std::optional<std::string> long_name_;
  std::optional<std::uint64_t> long_size_;
};

}  // namespace pfc
