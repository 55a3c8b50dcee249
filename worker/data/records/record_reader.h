// Reads RecordIO (record_format.h) at any offset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace pfc {

/// An open .rec file. Thread-safe for reading: pread(2), not mmap, so that a file that is cut short
/// or fails under us becomes an error and no signal. A record is bounded by kMaxRecordBytes and by
/// the file. Errors name the file, the offset, what was found and what was expected.
class RecordReader {
 public:
  static constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{1} << 29;

  /// Throws InputError where there is no such file or it is not a regular one.
  explicit RecordReader(std::filesystem::path path);
  ~RecordReader();
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }  ///< of the file, when it was opened

  /// The payload of the record that begins at `offset`, its parts joined and the magic words that
  /// had split it put back. Lies in `storage`, which grows as needed and is meant to be used again.
  /// Throws DamagedImage.
  std::span<const std::byte> read(std::uint64_t offset, std::vector<std::byte>& storage) const;

  /// Where the record that begins at `offset` ends, padding included, reading its part headers
  /// only. Throws InputError where it is no record or does not end inside the file.
  [[nodiscard]] std::uint64_t record_end(std::uint64_t offset) const;

  /// The offset of every record, from one pass over the file. Throws InputError.
  [[nodiscard]] std::vector<std::uint64_t> scan() const;

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

  std::filesystem::path path_;
  int fd_ = -1;
  std::uint64_t bytes_ = 0;
};

}  // namespace pfc
