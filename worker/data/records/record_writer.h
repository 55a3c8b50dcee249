// Writes RecordIO: a .rec file and its .idx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "worker/data/records/buffered_file.h"

namespace pfc {

/// Both files appear under their names at close(), whole; without close() nothing is left behind.
/// One thread. Throws StorageError that names the file.
class RecordWriter {
 public:
  RecordWriter(const std::filesystem::path& rec, const std::filesystem::path& idx);

  /// Appends one record (framing: record_format.h) and its line `key \t offset`. Keys are the
  /// caller's; nothing is demanded of their order. Throws InputError for 512 MiB and more.
  void append(std::int64_t key, std::span<const std::byte> payload);

  void close();

 private:
  void write_part(std::uint32_t word, std::span<const std::byte> payload);

  BufferedFile rec_;
  BufferedFile idx_;
};

}  // namespace pfc
