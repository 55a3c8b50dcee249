// One .rec of a training set: locations of its images, and their records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/doing.h"
#include "data/records/image_record.h"
#include "data/records/record_layout.h"
#include "data/records/record_reader.h"

namespace pfc {

/// An open .rec with its X.idx, or with an index from one pass over the file. Thread-safe for
/// reading. Images are numbered from 0 within the file.
class RecordPart {
 public:
  /// Checks record 0, that no key is missing, that the last record is complete, and that not all
  /// images have the same record. Throws InputError.
  explicit RecordPart(const std::filesystem::path& rec, const Doing& doing = {});

  [[nodiscard]] const RecordReader& reader() const { return rec_; }
  [[nodiscard]] const std::filesystem::path& path() const { return rec_.path(); }
  /// Returns the .idx, or the .rec if there is no .idx.
  [[nodiscard]] const std::filesystem::path& index() const { return index_; }
  [[nodiscard]] std::int64_t images() const { return std::ssize(layout_.offsets); }
  /// Returns the number in record 0; 0 if there is no record 0.
  [[nodiscard]] std::int64_t identities() const { return layout_.identities; }
  [[nodiscard]] std::span<const std::uint64_t> offsets() const { return layout_.offsets; }
  [[nodiscard]] std::size_t index_bytes() const { return layout_.bytes(); }
  /// Returns warnings about records that are repeated or missing in the index (index_coverage.h).
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  /// A record and its content: views of the caller's memory.
  struct Read {
    std::span<const std::byte> payload;
    ImageRecord record;
  };
  /// Returns the location of the image's record and of the records directly after it that the index
  /// leaves out.
  [[nodiscard]] Extent extent(std::int64_t image) const;
  /// Throws DamagedImage that names file, offset and key.
  [[nodiscard]] Read parse(std::int64_t image, StoredImage& stored) const;
  [[nodiscard]] Read read(std::int64_t image, ImageBuffer& buffer) const {
    StoredImage stored(extent(image), {}, buffer);
    return parse(image, stored);
  }
  /// Returns the number of bytes from the first to the last image, including what is between
  /// images. Returns 0 if the images are not in numerical order in the file, or if there are many
  /// records between them that the index leaves out.
  [[nodiscard]] std::uint64_t bytes_in_order() const {
    return in_order_ ? end_ - layout_.offsets.front() : 0;
  }
  /// Returns text such as "FILE: record KEY (offset N)".
  [[nodiscard]] std::string name(std::int64_t image) const;

 private:
  void check_last_record();

  RecordReader rec_;
  RecordLayout layout_;
  std::filesystem::path index_;
  std::vector<std::string> warnings_;
  bool in_order_ = false;
  std::uint64_t end_ = 0;  ///< end of the last image's record
};

}  // namespace pfc
