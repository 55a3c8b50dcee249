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

/// An open .rec file. Thread-safe. Reads with pread(2) and not through mmap, so that a file that is
/// cut short or fails while it is read causes an error and not a signal. A record has at most
/// kMaxRecordBytes. Errors name the file and the offset, what was found and what was expected.
class RecordReader {
 public:
  static constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{1} << 29;

  /// Throws InputError where the file does not exist or is not a regular file.
  explicit RecordReader(std::filesystem::path path) : file_(std::move(path)) {}

  [[nodiscard]] int fd() const { return file_.fd(); }
  [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }
  /// Of the file when it was opened.
  [[nodiscard]] std::uint64_t bytes() const { return file_.bytes(); }

  /// The payload of the record that begins at `offset`: its parts, with the magic words between
  /// them that had been left out. A view of `storage`, which grows as needed and is meant to be
  /// used again. Throws DamagedImage.
  std::span<const std::byte> read(std::uint64_t offset, std::vector<std::byte>& storage) const;

  /// The same where `stored` are the file's bytes from `offset` on: a view of them where they hold
  /// the record in one part, otherwise it is read.
  std::span<const std::byte> read_stored(std::uint64_t offset, std::span<const std::byte> stored,
                                         std::vector<std::byte>& storage) const;

  /// The offset at which the record that begins at `offset` ends, with its padding. Reads only the
  /// headers of its parts. Throws InputError where there is no record or it is not complete.
  [[nodiscard]] std::uint64_t record_end(std::uint64_t offset) const;

  /// The offset of every record, from one pass over the file. Throws InputError.
  [[nodiscard]] std::vector<std::uint64_t> scan(const Doing& doing = {}) const;

 private:
  struct Part {
    std::uint32_t flag = 0;
    std::uint32_t bytes = 0;
  };
  /// Gives the bytes of one part header that lies inside the file.
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
