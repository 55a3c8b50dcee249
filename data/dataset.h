// A training set on disk: images and labels by index, independent of its layout
// (layouts/layout.h). It may contain embeddings, computed earlier by a network, instead of images.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/doing.h"
#include "data/images/image_size.h"
#include "data/stored_image.h"

namespace pfc {

struct DatasetInfo {
  std::string layout;  ///< for display, such as "RecordIO with InsightFace's record 0"
  std::int64_t images = 0;
  std::int64_t classes = 0;
  std::int64_t labels_per_image = 1;  ///< maximum number of labels of an image
  /// Number of classes added by each part of a combined data set (combined_dataset.h).
  std::vector<std::int64_t> part_classes = {};
  /// Number of images in each part of a combined data set.
  std::vector<std::int64_t> part_images = {};
  std::int64_t height = 112;  ///< image size in training; images of other sizes are resized
  std::int64_t width = 112;
  /// Length of an embedding; 0 if the data are images.
  std::int64_t embedding_size = 0;
  /// The first images_in_order images are stored in order in open files, with small gaps, and take
  /// bytes_in_order bytes. A data set is read ahead only if all of its images are stored this way.
  std::int64_t images_in_order = 0;
  std::uint64_t bytes_in_order = 0;
  std::size_t index_bytes = 0;  ///< memory of the open data set for the locations of the images
  /// Warnings for the user, one line each, for example about records that the index omits.
  std::vector<std::string> warnings = {};

  /// Returns the bytes per sample in a batch: an RGB image, or a float32 embedding.
  [[nodiscard]] std::size_t sample_bytes() const {
    return static_cast<std::size_t>(embedding_size > 0 ? embedding_size * 4 : height * width * 3);
  }
};

/// One image, still encoded. The spans point into the memory that was passed to Dataset::parse() or
/// Dataset::read(): the buffer, or the bytes that were read ahead.
struct Sample {
  std::span<const std::byte> encoded;  ///< JPEG, PNG or WebP; or float32 numbers of an embedding
  std::int64_t label = 0;  ///< the label, or one of several; other_labels() returns the others
  /// The whole record (records/image_record.h); empty unless the layout is RecordIO.
  std::span<const std::byte> record = {};
};

/// A file of a data set and a summary of its content, used to compare hosts.
struct FileBrief {
  std::filesystem::path file;
  std::string holds;
};

/// Thread-safe for reading.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual const DatasetInfo& info() const = 0;
  /// Returns where the image is stored. Throws DamagedImage if its file cannot be opened.
  [[nodiscard]] virtual Extent extent(std::int64_t image) const = 0;
  /// Parses the image's bytes, which begin at extent(). The sample refers to these bytes or to the
  /// buffer of `stored`. Throws DamagedImage for an unreadable record, and InputError for a label
  /// that is not an integer of 0 .. classes - 1. Both errors name the file, and the offset, row or
  /// name of the image in it.
  virtual Sample parse(std::int64_t image, StoredImage& stored) const = 0;
  /// Reads and parses one image. REQUIRES: 0 <= image < images. `ahead`: see StoredImage. Throws
  /// like extent() and parse().
  Sample read(std::int64_t image, ImageBuffer& buffer, std::span<const std::byte> ahead = {}) const;
  /// Returns the label, which most layouts know without reading the image. Throws like read().
  virtual std::int64_t label(std::int64_t image, ImageBuffer& buffer) const {
    return read(image, buffer).label;
  }
  /// Fills `others` [labels_per_image - 1] with the other labels of the image, padded with -1.
  virtual void other_labels(std::int64_t image, std::span<std::int64_t> others) const;
  /// Returns the location of the image for messages: "FILE: record KEY (offset N)".
  [[nodiscard]] virtual std::string name(std::int64_t image) const = 0;
  /// Returns the name of the person or thing with this label; empty if the data have no names.
  /// REQUIRES: 0 <= label < classes.
  [[nodiscard]] virtual std::string identity(std::int64_t label) const = 0;
  /// Returns summaries of the files: sizes, counts and checksums of record offsets and a few
  /// records. Never reads a whole file.
  [[nodiscard]] virtual std::vector<FileBrief> briefs() const = 0;
};

struct DatasetOptions {
  std::filesystem::path rec;           ///< folder or file; see layouts/layout.h
  std::filesystem::path overlay = {};  ///< changes of its labels (mapping/overlay.h); empty: none
  std::int64_t num_classes = 0;  ///< 0: from the data; else the number that the data must have
  std::int64_t num_image = 0;    ///< 0: from the data; else the number that the data must have
  std::int64_t image_size = 0;   ///< height and width of an image in training; 0: from the data
  Doing doing = {};              ///< called with progress while a whole file is read
  std::string classes_key = "num_classes";  ///< for messages: the job's key for num_classes
};

/// Returns the image size in the header of the first readable image, for data that do not specify
/// it. Throws InputError that names image 0 if none of the first 1,000 is readable.
ImageSize first_image_size(const Dataset& dataset);

/// Throws InputError if an image has several labels, because `user` needs exactly one.
void expect_one_label(const Dataset& dataset, const std::string& user);

/// Warns if no image has label 0: the labels probably start at 1. `least`: the smallest label.
void warn_of_least_label(DatasetInfo& info, std::int64_t least, const std::string& origin);

}  // namespace pfc
