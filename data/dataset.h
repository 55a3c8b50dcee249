// A training set on disk: images and labels by index, the same for every layout (layouts/layout.h).
// In place of images there may be embeddings that some network has made before.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/doing.h"
#include "data/images/image_size.h"
#include "data/order/interleaving.h"

namespace pfc {

struct DatasetInfo {
  std::string layout;  ///< for people: "RecordIO with InsightFace's record 0"
  std::int64_t images = 0;
  std::int64_t classes = 0;
  /// The number of classes that each part of a combined data set has added (combined_dataset.h).
  std::vector<std::int64_t> part_classes = {};
  /// The number of images in each part of a combined data set.
  std::vector<std::int64_t> part_images = {};
  std::int64_t height = 112;  ///< of an image in training: those of another size are resized
  std::int64_t width = 112;
  /// Numbers of an embedding, where the data are embeddings; 0: they are images.
  std::int64_t embedding_size = 0;
  std::size_t index_bytes = 0;  ///< memory of the open data set: where each image is
  /// What a person should know about the data, one line each: records that the index leaves out.
  std::vector<std::string> warnings = {};

  /// Of an image as RGB, or of an embedding as float32: what a batch holds of each.
  [[nodiscard]] std::size_t sample_bytes() const {
    return static_cast<std::size_t>(embedding_size > 0 ? embedding_size * 4 : height * width * 3);
  }
};

/// One image as stored. The spans are views of the caller's buffer.
struct Sample {
  std::span<const std::byte> encoded;  ///< JPEG, PNG or WebP; or an embedding's float32 numbers
  std::int64_t label = 0;
  /// The whole record that holds them (records/image_record.h); empty where it is no RecordIO.
  std::span<const std::byte> record = {};
};

/// A file of a data set, and in brief what it holds, by which hosts see whether they have the same.
struct FileBrief {
  std::filesystem::path file;
  std::string holds;
};

/// Bytes of a file that is open as long as its data set, which hold images.
struct FileStretch {
  int fd = -1;
  std::uint64_t offset = 0, bytes = 0;
  std::int64_t images_end = 0;  ///< the number behind that of its last image
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
  /// The bytes that hold these images one behind the other, for those who read them themselves; an
  /// image's own begin at stretch() of it alone. Where the range goes on in another file, only
  /// those of the first one's: FileStretch::images_end says where to go on. None where images do
  /// not lie so: only RecordIO has them in a file's order. REQUIRES: the range is not empty.
  [[nodiscard]] virtual std::optional<FileStretch> stretch(const ImageRange& /*images*/) const {
    return std::nullopt;
  }
  /// As read(), from the bytes that begin at stretch() of the image; those of other images may be
  /// behind them. The sample is a view of `stored` or of `storage`. REQUIRES: it has a stretch().
  virtual Sample read_stored(std::int64_t image, std::span<const std::byte> /*stored*/,
                             std::vector<std::byte>& storage) const {
    return read(image, storage);
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
  std::string classes_key = "num_classes";  ///< for messages: what of the job says num_classes
};

/// The size in the header of the first image that can be read, for data that do not say it. Throws
/// InputError that names image 0 where none of the first 1,000 can.
ImageSize first_image_size(const Dataset& dataset);

/// Adds a warning if no image has label 0, as in data whose labels begin at 1. `least`: the
/// smallest label.
void warn_of_least_label(DatasetInfo& info, std::int64_t least, const std::string& origin);

}  // namespace pfc
