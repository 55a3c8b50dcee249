// Images of random squares: no two of them are similar.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "tests/support/encoded_images.h"

namespace pfc::testing {

/// Returns a JPEG of 32 x 32 pixels, which depends only on the seed.
inline std::vector<std::byte> noise_jpeg(unsigned seed) {
  constexpr int kSide = 32, kSquare = 4;
  std::mt19937 random(seed);
  std::vector<std::uint8_t> squares(kSide * kSide / (kSquare * kSquare)), rgb;
  for (std::uint8_t& x : squares) x = static_cast<std::uint8_t>(random());
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      const int square = y / kSquare * (kSide / kSquare) + x / kSquare;
      rgb.insert(rgb.end(), 3, squares[static_cast<std::size_t>(square)]);
    }
  }
  return encode_jpeg(rgb, kSide, kSide);
}

/// Image i has the seed seeds[i].
class NoiseImages : public Dataset {
 public:
  explicit NoiseImages(std::vector<unsigned> seeds)
      : seeds_(std::move(seeds)), info_{.images = std::ssize(seeds_)} {}
  [[nodiscard]] const DatasetInfo& info() const override { return info_; }
  [[nodiscard]] Extent extent(std::int64_t) const override { return {}; }
  Sample parse(std::int64_t image, StoredImage& stored) const override {
    stored.parsed() = noise_jpeg(seeds_[static_cast<std::size_t>(image)]);
    return {.encoded = stored.parsed()};
  }
  [[nodiscard]] std::string name(std::int64_t) const override { return {}; }
  [[nodiscard]] std::string identity(std::int64_t) const override { return {}; }
  [[nodiscard]] std::vector<FileBrief> briefs() const override { return {}; }

 private:
  std::vector<unsigned> seeds_;
  DatasetInfo info_;
};

/// Returns 0, 1 ... images - 1: seeds of different images.
inline std::vector<unsigned> different_seeds(std::size_t images) {
  std::vector<unsigned> seeds;
  while (seeds.size() < images) seeds.push_back(static_cast<unsigned>(seeds.size()));
  return seeds;
}

}  // namespace pfc::testing
