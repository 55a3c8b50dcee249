// A training set on disk: images and labels by index, for every RecordIO layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "worker/data/doing.h"

namespace pfc {

struct DatasetInfo {
  std::int64_t images = 0;
  std::int64_t classes = 0;
  std::int64_t height = 112;
  std::int64_t width = 112;
  /// What a person should know about the data, one line each: records that the index leaves out.
  std::vector<std::string> warnings = {};
};

/// One image as stored: its label and its encoded bytes, a view of the caller's buffer.
struct Sample {
  std::span<const std::byte> encoded;
  std::int64_t label = 0;
};

/// A file of a data set, and in brief what it holds, by which hosts see whether they have the same.
struct FileBrief {
  std::filesystem::path file;
  std::string holds;
};

/// Bytes of memory that an open data set of so many images takes at most: where each record begins.
std::size_t dataset_bytes(std::int64_t images);

/// Thread-safe for reading.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual const DatasetInfo& info() const = 0;
  /// Image 0 .. images - 1. Reads the record into `storage`, which grows as needed and is meant to
  /// be used again. Throws DamagedImage for a record that cannot be read, and InputError for a
  /// label that is no integer of 0 .. classes - 1. Both name file, key and offset.
  virtual Sample read(std::int64_t image, std::vector<std::byte>& storage) const = 0;
  /// For messages: "FILE: record KEY (offset N)".
  [[nodiscard]] virtual std::string name(std::int64_t image) const = 0;
  /// Sizes, numbers and checksums: of where the records begin, and of a few of them. Never reads
  /// the whole file.
  [[nodiscard]] virtual std::vector<FileBrief> briefs() const = 0;
};

struct DatasetOptions {
  std::filesystem::path rec;     ///< a folder with train.rec, or a .rec file
  std::int64_t num_classes = 0;  ///< 0: from the data; given, it is checked
  std::int64_t num_image = 0;    ///< 0: from the data; given, it is checked
  Doing doing = {};              ///< told while it reads through a file
};

/// Opens X.rec, and X.idx and `property` in the same folder where they exist. Without X.idx it
/// reads through the .rec once. Checks the sizes, record 0, that no key is missing, that the last
/// record is complete, and that the index does not name one record for all images. Warns of
/// records that the index names again and again, or not at all (index_coverage.h).
///
/// In InsightFace's layout record 0 holds no image but the labels [images + 1, images + 1 +
/// identities], and the images are the keys 1 .. images in that order. In any other layout every
/// line of the .idx is an image, in the order of the lines. The number of classes comes from the
/// first of these that there is: `property`, record 0, num_classes, one pass over all labels, which
/// must then be integers of 0 .. 2^24 - 1.
/// Height and width come from `property`, otherwise from the first image.
///
/// Throws InputError; also for more than 2^24 classes, because RecordIO's float32 labels cannot
/// tell them apart.
std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options);

}  // namespace pfc
