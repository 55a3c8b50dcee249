#include "data/layouts/embedding_dataset.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>

#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/files/sha256.h"
#include "data/damaged_image.h"
#include "data/identity_names.h"
#include "data/layouts/labels.h"
#include "kernels/math/bfloat16.h"

namespace pfc {

namespace {

constexpr std::int64_t kMostNumbers = 1 << 16;  // longest embedding, as embedding_size in a job
constexpr std::int64_t kLabelsAtOnce = 1 << 16;
constexpr std::int64_t kRowsOfSum = 16;

/// Converts an IEEE 754 binary16 number.
float float_of_half(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 0x1fu;
  const std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {  // zero, or subnormal: a multiple of 2^-24
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign != 0 ? -value : value;
  }
  const std::uint32_t widened = exponent == 0x1f ? 0xffu : exponent + 112;
  return std::bit_cast<float>(sign | widened << 23 | fraction << 13);
}

float widened(ElementType type, std::uint16_t bits) {
  return type == ElementType::kFloat16 ? float_of_half(bits) : float_of(BFloat16{bits});
}

std::string text_of_shape(const ArrayInFile& array) {
  return fmt::format("[{}] of {}", fmt::join(array.shape, ", "), name_of(array.type));
}

bool is_integer(ElementType type) {
  return type == ElementType::kInt64 || type == ElementType::kInt32;
}

/// Throws unless these are the embeddings and labels of one data set.
void check_arrays(const ArrayInFile& rows, const ArrayInFile& labels) {
  if (rows.shape.size() != 2 || is_integer(rows.type) || rows.shape[1] < 1 ||
      rows.shape[1] > kMostNumbers) {
    throw InputError(fmt::format(
        "{}: found {}, expected embeddings [images, 1 .. {}] of float32, float16 or bfloat16",
        rows.name, text_of_shape(rows), kMostNumbers));
  }
  if (labels.shape.size() != 1 || !is_integer(labels.type) || labels.shape[0] != rows.shape[0]) {
    throw InputError(
        fmt::format("{}: found {}, expected labels [{}] of int64 or int32, one for each "
                    "embedding of {}",
                    labels.name, text_of_shape(labels), rows.shape[0], rows.name));
  }
  if (rows.shape[0] == 0) {
    throw InputError(rows.name + ": found no embeddings, expected at least one");
  }
}

/// Reads elements first, first + 1 ... of an array of int64 or int32.
void read_integers(const RegularFile& file, const ArrayInFile& array, std::size_t first,
                   std::span<std::int64_t> to) {
  const auto read = [&](std::span<std::byte> bytes) {
    if (file.read_at(array.offset + first * size_of(array.type), bytes) == bytes.size()) return;
    throw InputError(array.name + ": the file was truncated while it was read");
  };
  if (array.type == ElementType::kInt64) return read(std::as_writable_bytes(to));
  std::vector<std::int32_t> narrow(to.size());
  read(std::as_writable_bytes(std::span(narrow)));
  std::ranges::copy(narrow, to.begin());
}

class EmbeddingDataset final : public Dataset {
 public:
  EmbeddingDataset(ArrayInFile rows, const ArrayInFile& labels, const DatasetOptions& options)
      : rows_(std::move(rows)), rows_file_(std::make_shared<const RegularFile>(rows_.file)) {
    check_arrays(rows_, labels);
    info_.images = rows_.shape[0];
    info_.embedding_size = rows_.shape[1];
    info_.height = info_.width = 0;
    info_.layout =
        fmt::format("embeddings of {} numbers, {}", info_.embedding_size, name_of(rows_.type));
    check_image_count(info_.images, options, rows_.name, "embeddings");
    read_labels(labels, options.doing);
    info_.classes = count_classes(labels_, options, labels.name);
    names_ = read_identity_names(rows_.file.parent_path() / "identities.txt", info_.classes);
    info_.index_bytes = names_.bytes() + labels_.capacity() * sizeof(std::int64_t);
    warn_of_classes(info_, *std::ranges::min_element(labels_), rows_.file.string());
  }

  [[nodiscard]] const DatasetInfo& info() const override { return info_; }
  [[nodiscard]] Extent extent(std::int64_t image) const override {
    const std::uint64_t bytes =
        size_of(rows_.type) * static_cast<std::uint64_t>(info_.embedding_size);
    return {rows_file_, rows_.offset + static_cast<std::uint64_t>(image) * bytes, bytes};
  }
  Sample parse(std::int64_t image, StoredImage& stored) const override;
  std::int64_t label(std::int64_t image, ImageBuffer&) const override {
    return labels_.at(static_cast<std::size_t>(image));
  }
  [[nodiscard]] std::string name(std::int64_t image) const override {
    return fmt::format("{}: row {}", rows_.name, image);
  }
  [[nodiscard]] std::string identity(std::int64_t label) const override { return names_.at(label); }
  [[nodiscard]] std::vector<FileBrief> briefs() const override;

 private:
  void read_labels(const ArrayInFile& array, const Doing& doing);
  void check_row(std::span<const std::byte> row, std::int64_t image) const;

  const ArrayInFile rows_;
  const std::shared_ptr<const RegularFile> rows_file_;
  std::vector<std::int64_t> labels_;  ///< [images]
  IdentityNames names_;
  DatasetInfo info_;
};

/// Reads and checks all labels.
void EmbeddingDataset::read_labels(const ArrayInFile& array, const Doing& doing) {
  const RegularFile file(array.file);
  labels_.resize(static_cast<std::size_t>(info_.images));
  for (std::int64_t first = 0; first < info_.images; first += kLabelsAtOnce) {
    if (doing) {
      doing(fmt::format("reading the labels of {}: {} of {}", array.file.string(), first,
                        info_.images));
    }
    const auto begin = static_cast<std::size_t>(first);
    const auto some = std::span(labels_).subspan(
        begin, static_cast<std::size_t>(std::min(kLabelsAtOnce, info_.images - first)));
    read_integers(file, array, begin, some);
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (some[i] >= 0 && some[i] < kMaxClasses) continue;
      throw InputError(fmt::format("{}: found label {} of row {}, expected 0 .. {}", array.name,
                                   some[i], begin + i, kMaxClasses - 1));
    }
  }
}

/// Rejects NaN, which would spread to all class centres, and zeros, which have no direction.
void EmbeddingDataset::check_row(std::span<const std::byte> row, std::int64_t image) const {
  bool all_zero = true;
  for (std::size_t i = 0; i < row.size(); i += sizeof(float)) {
    float number = 0;
    std::memcpy(&number, row.data() + i, sizeof number);
    if (!std::isfinite(number)) {
      throw DamagedImage(fmt::format("{}: found {} at column {}, expected finite numbers",
                                     name(image), number, i / sizeof(float)));
    }
    all_zero = all_zero && number == 0;
  }
  if (all_zero) throw DamagedImage(name(image) + ": found only zeros, expected another number");
}

Sample EmbeddingDataset::parse(std::int64_t image, StoredImage& stored) const {
  std::span<const std::byte> row;
  try {
    row = stored.all();
  } catch (const DamagedImage& e) {
    throw DamagedImage(fmt::format("{} (row {})", e.what(), image));
  }
  if (row.size() < info_.sample_bytes()) {  // 16-bit numbers
    std::vector<std::byte>& wide = stored.parsed();
    wide.resize(info_.sample_bytes());
    for (std::size_t i = 0; i < wide.size() / sizeof(float); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, row.data() + i * sizeof bits, sizeof bits);
      const float number = widened(rows_.type, bits);
      std::memcpy(wide.data() + i * sizeof number, &number, sizeof number);
    }
    row = wide;
  }
  check_row(row, image);
  return {.encoded = row, .label = labels_[static_cast<std::size_t>(image)]};
}

/// Includes the labels and a few rows, because other data may have files of the same sizes.
std::vector<FileBrief> EmbeddingDataset::briefs() const {
  Sha256 sum;
  ImageBuffer storage;
  const std::int64_t distance = std::max<std::int64_t>(info_.images / kRowsOfSum, 1);
  for (std::int64_t i = 0; i < info_.images; i += distance) {
    std::int64_t known = i;
    try {
      const Sample sample = read(i, storage);
      sum.update(sample.encoded);
      known = sample.label;
    } catch (const DamagedImage&) {  // NOLINT(bugprone-empty-catch)
    }
    sum.update(std::as_bytes(std::span(&known, 1)));
  }
  return {{rows_.file, fmt::format("{} embeddings of {} numbers, {} classes, {} bytes, sha256 of "
                                   "some of them {}",
                                   info_.images, info_.embedding_size, info_.classes,
                                   rows_file_->bytes(), sum.finish().substr(0, 16))}};
}

}  // namespace

std::unique_ptr<Dataset> open_safetensors_embeddings(const DatasetOptions& options) {
  const SafetensorsFile file(options.rec, SafetensorsFile::Unaligned::kKeep);
  return std::make_unique<EmbeddingDataset>(safetensors_array(file, "embeddings"),
                                            safetensors_array(file, "labels"), options);
}

std::unique_ptr<Dataset> open_npy_embeddings(const DatasetOptions& options) {
  const std::filesystem::path labels = options.rec.parent_path() / "labels.npy";
  std::error_code ignored;  // other errors are reported when the file is opened
  if (std::filesystem::status(labels, ignored).type() == std::filesystem::file_type::not_found) {
    throw InputError(fmt::format(
        "{}: found no such file, expected the labels of {}: an array [N] of int64 or int32",
        labels.string(), options.rec.string()));
  }
  return std::make_unique<EmbeddingDataset>(npy_array(options.rec), npy_array(labels), options);
}

}  // namespace pfc
