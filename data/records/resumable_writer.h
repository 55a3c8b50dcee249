// Writes RecordIO with which a second start of the program goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/records/part_file.h"

namespace pfc {

/// A .rec file and its .idx. Both appear, complete, at close(), the .rec last. Without close() they
/// stay behind as X.rec.part and X.idx.part, with X.rec.begun.part, which says what is written: a
/// start that writes the same goes on behind the last whole record, any other begins anew. Belongs
/// to one thread. Throws StorageError that names the file.
class ResumableWriter {
 public:
  /// `what`: one line that differs whenever the records would differ.
  ResumableWriter(const std::filesystem::path& rec, const std::filesystem::path& idx,
                  const std::string& what);
  ~ResumableWriter();  ///< all that was appended is kept for another start, as far as it can be
  ResumableWriter(const ResumableWriter&) = delete;
  ResumableWriter& operator=(const ResumableWriter&) = delete;

  /// Records that earlier starts have written: the first ones.
  [[nodiscard]] std::int64_t written() const { return written_; }
  /// What earlier starts have noted, the newest last: also behind the last record that is kept.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

  /// As RecordWriter::append(). What is appended after a note is never kept without it.
  void append(std::int64_t key, std::span<const std::byte> payload);
  void note(const std::string& line);  ///< REQUIRES: one line
  /// Replaces the payload of the first record by another one as long, without the magic word in it.
  void replace_first(std::span<const std::byte> payload);
  void close();

 private:
  [[nodiscard]] bool has_begun(const std::string& what);
  void go_on();
  void secure();

  PartFile begun_;
  PartFile rec_;
  PartFile idx_;
  std::string lines_;  ///< of the .idx, of records that may not be on the disk yet
  std::vector<std::string> notes_;
  std::uint64_t secured_ = 0;  ///< bytes of the .rec that are on the disk
  std::int64_t written_ = 0;
};

}  // namespace pfc
