// A training set on disk: images and labels by index, whatever the RecordIO layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace pfc {

struct DatasetInfo {
  std::int64_t images = 0;
  std::int64_t classes = 0;
  std::int64_t height = 112;
  std::int64_t width = 112;
};

/// One image as stored: its encoded bytes (valid until the caller's buffer is used again) and
/// label.
struct Sample {
  std::span<const std::byte> encoded;
  std::int64_t label = 0;
};

/// Bytes of memory that an open data set of so many images takes at most: where each record begins.
std::size_t dataset_bytes(std::int64_t images);

/// Thread-safe for reading.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual const DatasetInfo& info() const = 0;
  /// Image 0 .. images - 1. `storage` receives the record; reused, it grows to the largest one.
  /// Throws DamagedImage for a record that does not read whole, and InputError (which no retry
  /// mends) for a label that is no integer in 0 .. classes - 1. Both name file, key and offset.
  virtual Sample read(std::int64_t image, std::vector<std::byte>& storage) const = 0;
  /// For messages: "FILE: record KEY (offset N)".
  [[nodiscard]] virtual std::string name(std::int64_t image) const = 0;
};

struct DatasetOptions {
  std::filesystem::path rec;     ///< a folder with train.rec, or a .rec file
  std::int64_t num_classes = 0;  ///< 0: from the data; given, it is checked
  std::int64_t num_image = 0;    ///< likewise
};

/// Opens X.rec with X.idx (without one, the .rec is scanned once) and `property` in the same
/// folder, and checks sizes, record 0, that every key is there and that the last record is whole.
///
/// InsightFace's layout (record 0 holds labels only: [images + 1, images + 1 + identities]): images
/// are the keys 1 .. images in that order. Any other: every line of the .idx is an image, in its
/// order. Classes come from `property`, else from record 0, else from num_classes, else from one
/// pass over all labels; height and width from `property`, else from the first image.
///
/// RecordIO's labels are float32: more than 2^24 classes cannot be told apart and are refused.
/// Throws InputError.
std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options);

}  // namespace pfc
