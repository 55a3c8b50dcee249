// One .rec of a training set: where its images are, and their records.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/doing.h"
#include "data/records/image_record.h"
#include "data/records/record_layout.h"
#include "data/records/record_reader.h"

namespace pfc {

/// An open .rec with its X.idx, or without one what one pass over the file has found. Thread-safe
/// for reading. Images are numbered from 0 within the file.
class RecordPart {
 public:
  /// Checks record 0, that no key is missing, that the last record is complete, and that the index
  /// does not name one record for all images. Throws InputError.
  explicit RecordPart(const std::filesystem::path& rec, const Doing& doing = {});

  [[nodiscard]] const RecordReader& reader() const { return rec_; }
  [[nodiscard]] const std::filesystem::path& path() const { return rec_.path(); }
  /// The .idx, or the .rec where there is none.
  [[nodiscard]] const std::filesystem::path& index() const { return index_; }
  [[nodiscard]] std::int64_t images() const { return std::ssize(layout_.offsets); }
  /// As record 0 says; 0 where there is no record 0.
  [[nodiscard]] std::int64_t identities() const { return layout_.identities; }
  [[nodiscard]] std::span<const std::uint64_t> offsets() const { return layout_.offsets; }
  [[nodiscard]] std::size_t index_bytes() const { return layout_.bytes(); }
  /// Records that the index names again and again, or not at all (index_coverage.h).
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  /// A record and what it holds: views of the caller's buffer.
  struct Read {
    std::span<const std::byte> payload;
    ImageRecord record;
  };
  /// `stored`: the bytes that begin at stretch() of the image, where they are in memory; otherwise
  /// empty. Throws DamagedImage that names file, offset and key.
  [[nodiscard]] Read record(std::int64_t image, std::span<const std::byte> stored,
                            std::vector<std::byte>& storage) const;
  /// The bytes of these images, up to the file's last one. None where images do not lie in the file
  /// as they are numbered, or with many records between them that the index leaves out.
  [[nodiscard]] std::optional<FileStretch> stretch(const ImageRange& images) const;
  /// "FILE: record KEY (offset N)"
  [[nodiscard]] std::string name(std::int64_t image) const;

 private:
  void check_last_record();

  RecordReader rec_;
  RecordLayout layout_;
  std::filesystem::path index_;
  std::vector<std::string> warnings_;
  bool has_stretches_ = false;
  std::uint64_t end_ = 0;  ///< of the record behind all others that are images
};

}  // namespace pfc
