// Writes RecordIO: a .rec file and its .idx.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "data/records/writing/buffered_file.h"

namespace pfc {

/// Both files appear complete at close(); without close() no file is left behind. Used by one
/// thread. Throws StorageError that names the file.
class RecordWriter {
 public:
  RecordWriter(const std::filesystem::path& rec, const std::filesystem::path& idx);

  /// Appends one record (record_format.h) and its line `key \t offset`. Keys may be in any order.
  /// Throws InputError for a payload of 512 MiB or more.
  void append(std::int64_t key, std::span<const std::byte> payload);

  void close();

 private:
  BufferedFile rec_;
  BufferedFile idx_;
};

}  // namespace pfc
