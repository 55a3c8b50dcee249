// Reads records at given offsets of a RecordIO file (record_format.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/files/regular_file.h"
#include "data/doing.h"
#include "data/stored_image.h"

namespace pfc {

/// An open .rec file. Thread-safe. A record has at most kMaxRecordBytes. Errors name the file and
/// the offset, what was found and what was expected.
class RecordReader {
 public:
  static constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{1} << 29;

  /// Throws InputError if the file does not exist or is not a regular file.
  explicit RecordReader(std::filesystem::path path)
      : file_(std::make_shared<const RegularFile>(std::move(path))) {}

  [[nodiscard]] const std::filesystem::path& path() const { return file_->path(); }
  /// Returns the size of the file when it was opened.
  [[nodiscard]] std::uint64_t bytes() const { return file_->bytes(); }

  /// Returns the bytes to read for the record at `offset`: up to `end`, or the usual size of a
  /// record if `end` is 0 (unknown).
  [[nodiscard]] Extent extent(std::uint64_t offset, std::uint64_t end = 0) const;
  /// Returns the payload of the record at `offset`, where `stored` begins: its parts, joined by the
  /// magic words that were removed. A view of `stored` or its buffer. Throws DamagedImage.
  std::span<const std::byte> payload(std::uint64_t offset, StoredImage& stored) const;
  /// Reads the record at `offset` and returns its payload. Throws DamagedImage.
  std::span<const std::byte> read(std::uint64_t offset, ImageBuffer& buffer) const {
    StoredImage stored(extent(offset), {}, buffer);
    return payload(offset, stored);
  }

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
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> to) const;
  void read_exactly(std::uint64_t offset, std::span<std::byte> to) const;
  [[nodiscard]] std::string at(std::uint64_t offset) const;  ///< "FILE: offset N"

  const std::shared_ptr<const RegularFile> file_;
};

}  // namespace pfc
