#include "data/layouts/synthetic_dataset.h"

#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <vector>

#include "common/error.h"
#include "data/images/jpeg_encoder.h"
#include "data/images/resize.h"
#include "kernels/math/philox.h"

namespace pfc {
namespace {

constexpr std::uint32_t kPixels = 0, kLabels = 1;  // second word of the random counter

/// Returns a smooth random image. Its JPEG is about as large as that of a face.
std::vector<std::byte> random_jpeg(std::uint64_t number, std::int64_t side) {
  constexpr ImageSize kCoarse{14, 14};
  constexpr int kQuality = 90;
  std::vector<std::uint8_t> coarse(kCoarse.height * kCoarse.width * 3);
  for (std::size_t i = 0; i < coarse.size(); ++i) {
    const Philox4 words = random_words(0, Stream::kSynth, kPixels, number << 32 | i);
    coarse[i] = static_cast<std::uint8_t>(words.x[0]);
  }
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(side * side * 3));
  resize_rgb(coarse, kCoarse, {side, side}, pixels);
  return encode_jpeg(pixels, static_cast<int>(side), static_cast<int>(side), kQuality);
}

class SyntheticDataset final : public Dataset {
 public:
  explicit SyntheticDataset(const DatasetOptions& options) {
    if (options.num_classes == 0 || options.num_image == 0) {
      throw InputError(fmt::format(
          "rec: \"{}\" makes random images and needs {} in the job; add this key", kSyntheticData,
          options.num_classes == 0 ? options.classes_key : "num_image"));
    }
    info_.layout = "random images for speed tests";
    info_.images = options.num_image;
    info_.classes = options.num_classes;
    if (options.image_size != 0) info_.height = info_.width = options.image_size;
    info_.warnings = {"rec: synthetic: the images and labels are random, for speed tests"};
    for (std::uint64_t i = 0; i < kDifferent; ++i) {
      images_.push_back(random_jpeg(i, info_.height));
      info_.index_bytes += images_.back().capacity();
    }
  }

  [[nodiscard]] const DatasetInfo& info() const override { return info_; }

  [[nodiscard]] Extent extent(std::int64_t) const override { return {}; }
  Sample parse(std::int64_t image, StoredImage&) const override {
    return {.encoded = images_[static_cast<std::size_t>(image) % kDifferent],
            .label = label_of(image)};
  }
  std::int64_t label(std::int64_t image, ImageBuffer&) const override { return label_of(image); }

  [[nodiscard]] std::string name(std::int64_t image) const override {
    return fmt::format("{}: image {}", kSyntheticData, image);
  }
  [[nodiscard]] std::string identity(std::int64_t) const override { return {}; }
  [[nodiscard]] std::vector<FileBrief> briefs() const override {
    return {{kSyntheticData, fmt::format("{} images of {} classes", info_.images, info_.classes)}};
  }

 private:
  static constexpr std::size_t kDifferent = 256;

  [[nodiscard]] std::int64_t label_of(std::int64_t image) const {
    const Philox4 words =
        random_words(0, Stream::kSynth, kLabels, static_cast<std::uint64_t>(image));
    const std::uint64_t random = std::uint64_t{words.x[1]} << 32 | words.x[0];
    return static_cast<std::int64_t>(random % static_cast<std::uint64_t>(info_.classes));
  }

  DatasetInfo info_;
  std::vector<std::vector<std::byte>> images_;  ///< JPEG
};

}  // namespace

std::unique_ptr<Dataset> open_synthetic_dataset(const DatasetOptions& options) {
  return std::make_unique<SyntheticDataset>(options);
}

}  // namespace pfc
