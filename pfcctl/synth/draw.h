// Random draws of the face generator. They are a pure function of (seed, purpose, identity,
// image), so an image does not depend on the number or order of threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/math/normal.h"
#include "kernels/math/philox.h"

namespace pfc::synth {

/// The use of a stream of draws. Streams of different purposes are independent.
enum class Purpose : std::uint32_t { kIdentity = 1, kImage = 2, kPairs = 3, kTexture = 4 };

class Draw {
 public:
  Draw(std::uint64_t seed, Purpose purpose, std::uint32_t identity, std::uint32_t image = 0)
      : seed_(seed ^ (static_cast<std::uint64_t>(purpose) << 56)),
        element_((static_cast<std::uint64_t>(identity) << 32) | image) {}

  float uniform() { return uniform01(word()); }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  bool chance(float probability) { return uniform() < probability; }
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>((std::uint64_t{word()} * n) >> 32);
  }

  /// Returns N(mean, deviation^2), clamped to 2.3 deviations so that no face looks impossible.
  float normal(float mean, float deviation) {
    const std::uint32_t first = word();
    return mean + deviation * std::clamp(box_muller(first, word()).a, -2.3f, 2.3f);
  }

  std::uint32_t word() {
    if (used_ == 4) {
      block_ = random_words(seed_, Stream::kSynth, count_++, element_);
      used_ = 0;
    }
    return block_.x[used_++];
  }

 private:
  std::uint64_t seed_;
  std::uint64_t element_;
  std::uint32_t count_ = 0;
  int used_ = 4;
  Philox4 block_{};
};

}  // namespace pfc::synth
