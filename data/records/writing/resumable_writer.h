// Writes RecordIO so that a later run of the program can continue it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/records/writing/part_file.h"

namespace pfc {

/// Writes a .rec file and its .idx. Both appear complete at close(), the .rec last. Without
/// close() they remain as X.rec.part and X.idx.part, with X.rec.begun.part, which describes the
/// content. A run that writes the same content continues after the last complete record; any other
/// starts from scratch. Used by one thread. Throws StorageError that names the file.
class ResumableWriter {
 public:
  /// `what`: one line that differs whenever the records would differ.
  ResumableWriter(const std::filesystem::path& rec, const std::filesystem::path& idx,
                  const std::string& what);
  ~ResumableWriter();  ///< keeps everything appended for a later run, if possible
  ResumableWriter(const ResumableWriter&) = delete;
  ResumableWriter& operator=(const ResumableWriter&) = delete;

  /// Returns the number of records written by earlier runs. They are the first ones of the file.
  [[nodiscard]] std::int64_t written() const { return written_; }
  /// Returns the notes of earlier runs, newest last, including those after the last kept record.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

  /// Same as RecordWriter::append(). If data that were appended after a note are kept, the note is
  /// kept too.
  void append(std::int64_t key, std::span<const std::byte> payload);
  void note(const std::string& line);  ///< keeps one line for later runs
  /// Replaces the payload of the first record. The new payload has the same size and does not
  /// contain the magic word.
  void replace_first(std::span<const std::byte> payload);
  void close();

 private:
  [[nodiscard]] bool has_begun(const std::string& what);
  void go_on();
  void secure();

  PartFile begun_;
  PartFile rec_;
  PartFile idx_;
  std::string lines_;  ///< for the .idx; records of these lines may not be durable
  std::vector<std::string> notes_;
  std::uint64_t secured_ = 0;  ///< bytes of the .rec that are durable
  std::int64_t written_ = 0;
};

}  // namespace pfc
