// A training set on disk: images and labels by index, the same for every layout (layouts/layout.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "worker/data/doing.h"
#include "worker/data/images/image_size.h"

namespace pfc {

struct DatasetInfo {
  std::string layout;  ///< for people: "RecordIO with InsightFace's record 0"
  std::int64_t images = 0;
  std::int64_t classes = 0;
  /// Of several data sets as one (combined_dataset.h): how many classes each has added.
  std::vector<std::int64_t> part_classes = {};
  std::int64_t height = 112;  ///< of an image in training: those of another size are resized
  std::int64_t width = 112;
  std::size_t index_bytes = 0;  ///< memory of the open data set: where each image is
  /// What a person should know about the data, one line each: records that the index leaves out.
  std::vector<std::string> warnings = {};
};

/// One image as stored. The spans are views of the caller's buffer.
struct Sample {
  std::span<const std::byte> encoded;  ///< JPEG, PNG or WebP
  std::int64_t label = 0;
  /// The whole record that holds them (records/image_record.h); empty where it is no RecordIO.
  std::span<const std::byte> record = {};
};

/// A file of a data set, and in brief what it holds, by which hosts see whether they have the same.
struct FileBrief {
  std::filesystem::path file;
  std::string holds;
};

/// Thread-safe for reading.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual const DatasetInfo& info() const = 0;
  /// Image 0 .. images - 1. Reads the record into `storage`, which grows as needed and is meant to
  /// be used again. Throws DamagedImage for a record that cannot be read, and InputError for a
  /// label that is no integer of 0 .. classes - 1. Both name file, key and offset.
  virtual Sample read(std::int64_t image, std::vector<std::byte>& storage) const = 0;
  /// The label alone, which most layouts know without reading the image. Throws as read() does.
  virtual std::int64_t label(std::int64_t image, std::vector<std::byte>& storage) const {
    return read(image, storage).label;
  }
  /// For messages, where the image is: "FILE: record KEY (offset N)".
  [[nodiscard]] virtual std::string name(std::int64_t image) const = 0;
  /// The name of the person or thing with this label, as the data give it; empty where they give
  /// none. REQUIRES: 0 <= label < classes.
  [[nodiscard]] virtual std::string identity(std::int64_t label) const = 0;
  /// Sizes, numbers and checksums: of where the records begin, and of a few of them. Never reads
  /// the whole file.
  [[nodiscard]] virtual std::vector<FileBrief> briefs() const = 0;
};

struct DatasetOptions {
  std::filesystem::path rec;     ///< a folder or a file; layouts/layout.h says what may be there
  std::int64_t num_classes = 0;  ///< 0: from the data; given, it is checked
  std::int64_t num_image = 0;    ///< 0: from the data; given, it is checked
  std::int64_t image_size = 0;   ///< rows and columns of an image in training; 0: from the data
  Doing doing = {};              ///< told while it reads through a file
};

/// The size in the header of the first image that can be read, for data that do not say it. Throws
/// InputError that names image 0 where none of the first 1,000 can.
ImageSize first_image_size(const Dataset& dataset);

}  // namespace pfc
