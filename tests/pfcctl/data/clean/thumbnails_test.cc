// Correlations of copies and of different images.
#include "pfcctl/data/clean/thumbnails.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "data/images/image_size.h"
#include "data/images/resize.h"
#include "data/open_dataset.h"
#include "pfcctl/synth/face.h"
#include "tests/support/encoded_images.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

namespace pfc::testing {
namespace {

constexpr int kSide = 112;
using Rgb = std::vector<std::uint8_t>;

Rgb face(std::uint32_t person, std::uint32_t image) {
  return synth::draw_face(1, person, image, kSide, 0.5f).rgb;
}

/// A data set with one identity. Images are in the order of add().
class Correlation : public ::testing::Test {
 protected:
  void add(const std::vector<std::byte>& encoded) {
    const std::string number = std::to_string(1000 + images_++);
    write_file(folder_ / "person" / (number + ".jpg"), encoded);
  }
  void add(const Rgb& rgb, int side = kSide, int quality = 90) {
    add(encode_jpeg(rgb, side, side, quality));
  }
  double correlation(std::int64_t a, std::int64_t b) {
    const auto dataset = open_dataset({.rec = folder_.path()});
    return Thumbnails(*dataset).correlation(a, b);
  }

  TemporaryFolder folder_;
  int images_ = 0;
};

TEST_F(Correlation, ReachesTheThresholdForCopies) {
  std::filesystem::create_directories(folder_ / "person");
  const Rgb original = face(3, 0);
  add(original, kSide, 95);
  add(original, kSide, 30);
  Rgb changed = original;
  for (std::uint8_t& x : changed) x = static_cast<std::uint8_t>(0.7 * x + 20);  // brightness
  add(changed);
  for (int y = 0; y < kSide; ++y) {  // mirror image
    for (int x = 0; x < kSide; ++x) {
      std::copy_n(&original[static_cast<std::size_t>(3 * (y * kSide + x))], 3,
                  &changed[static_cast<std::size_t>(3 * (y * kSide + kSide - 1 - x))]);
    }
  }
  add(changed);
  for (const int side : {60, 91, 130}) {
    Rgb resized(static_cast<std::size_t>(side * side * 3));
    resize_rgb(original, {kSide, kSide}, {side, side}, resized);
    add(resized, side);
  }
  for (std::int64_t copy = 1; copy < images_; ++copy) {
    EXPECT_GE(correlation(0, copy), kLeastCorrelation) << copy;
    EXPECT_EQ(correlation(0, copy), correlation(copy, 0)) << copy;
  }
}

TEST_F(Correlation, StaysBelowTheThresholdForOtherImages) {
  std::filesystem::create_directories(folder_ / "person");
  for (std::uint32_t i = 0; i < 24; ++i) add(face(i / 4, i % 4));
  const auto dataset = open_dataset({.rec = folder_.path()});
  Thumbnails thumbnails(*dataset);
  for (std::int64_t a = 0; a < 24; ++a) {
    for (std::int64_t b = 0; b < a; ++b) EXPECT_LT(thumbnails.correlation(a, b), kLeastCorrelation);
  }
}

TEST_F(Correlation, IsZeroForDamagedUniformAndMissingImages) {
  std::filesystem::create_directories(folder_ / "person");
  add(face(0, 0));
  add(std::vector<std::byte>(100));
  add(Rgb(kSide * kSide * 3, 128));
  for (std::int64_t image = 1; image < 4; ++image) {  // the last one is not in the set
    EXPECT_EQ(correlation(0, image), 0) << image;
    EXPECT_EQ(correlation(image, image), 0) << image;
  }
}

}  // namespace
}  // namespace pfc::testing
