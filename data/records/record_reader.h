// Reads records at given offsets of a RecordIO file (record_format.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/files/regular_file.h"
#include "data/doing.h"

namespace pfc {

/// An open .rec file. Thread-safe. Reads with pread(2), not mmap, so that a file that is truncated
/// or fails while it is read causes an error and not a signal. A record has at most
/// kMaxRecordBytes. Errors name the file and the offset, what was found and what was expected.
class RecordReader {
 public:
  static constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{1} << 29;

  /// Throws InputError if the file does not exist or is not a regular file.
  explicit RecordReader(std::filesystem::path path) : file_(std::move(path)) {}

  [[nodiscard]] int fd() const { return file_.fd(); }
  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  /// Returns the size of the file when it was opened.
  [[nodiscard]] std::uint64_t bytes() const { return file_.bytes(); }

  /// Returns the payload of the record that starts at `offset`: its parts, joined by the magic
  /// words that were removed. A view of `storage`, which grows as needed and should be reused.
  /// Throws DamagedImage.
  std::span<const std::byte> read(std::uint64_t offset, std::vector<std::byte>& storage) const;

  /// Same, if `stored` contains the file's bytes from `offset` on. Returns a view of it if it
  /// contains the record in one part; otherwise reads the record.
  std::span<const std::byte> read_stored(std::uint64_t offset, std::span<const std::byte> stored,
                                         std::vector<std::byte>& storage) const;

  /// Returns the offset of the end of the record that starts at `offset`, including padding. Reads
  /// only the headers of its parts. Throws InputError if there is no complete record.
  [[nodiscard]] std::uint64_t record_end(std::uint64_t offset) const;

  /// Returns the offset of every record, from one pass over the file. Throws InputError.
  [[nodiscard]] std::vector<std::uint64_t> scan(const Doing& doing = {}) const;

 private:
  struct Part {
    std::uint32_t flag = 0;
    std::uint32_t bytes = 0;
  };
  /// Returns the bytes of a part header within the file.
  using Fetch = std::function<std::span<const std::byte>(std::uint64_t offset)>;

  [[nodiscard]] std::uint64_t walk(std::uint64_t offset, const Fetch& fetch) const;
  [[nodiscard]] Part parse_part(std::uint64_t offset, std::span<const std::byte> header,
                                bool first) const;
  std::span<const std::byte> join(std::uint64_t offset, std::vector<std::byte>& storage) const;
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> to) const;
  void read_exactly(std::uint64_t offset, std::span<std::byte> to) const;
  [[nodiscard]] std::string at(std::uint64_t offset) const;  ///< "FILE: offset N"

  const RegularFile file_;
};

}  // namespace pfc
