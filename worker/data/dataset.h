// A training set on disk: images and labels by index, whatever the RecordIO layout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
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

/// One image as stored: its encoded bytes (valid until the caller's buffer is used again) and label.
struct Sample {
  std::span<const std::byte> encoded;
  std::int64_t label = 0;
};

/// Thread-safe for reading.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual const DatasetInfo& info() const = 0;
  /// Image 0 .. images - 1. `storage` holds a record that had to be joined from parts. Throws
  /// InputError that names file and record when the record is damaged or its label is outside
  /// 0 .. classes - 1.
  virtual Sample read(std::int64_t image, std::vector<std::byte>& storage) const = 0;
};

struct DatasetOptions {
  std::filesystem::path rec;     ///< a folder with train.rec, or a .rec file
  std::int64_t num_classes = 0;  ///< 0: from the data; given, it is checked
  std::int64_t num_image = 0;    ///< likewise
};

/// Opens and checks: sizes, index inside the file, record 0. Throws InputError.
std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options);

}  // namespace pfc
