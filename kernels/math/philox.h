// Philox 4x32-10, a counter-based generator: random numbers as a pure function of (key, counter).
// Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, section 3.3 and table 2.
#pragma once

#include <cstdint>

#include "kernels/math/host_device.h"

namespace pfc {

/// Purpose of the random numbers: a part of the counter, so purposes never share numbers.
enum class Stream : std::uint32_t {
  kClassSampling = 1,
  kCentreInit = 2,
  kBackboneInit = 3,
  kShuffle = 4,
  kAugment = 5,
  kDropout = 6,
  kStochasticRounding = 7,
  kSynth = 8,
  kTiming = 9,
  kElasticMargin = 10,
  kTokenMask = 11,
  kSamplePhase = 12,
  kClassPosition = 13,
};

struct Philox4 {
  std::uint32_t x[4];
};

PFC_HOST_DEVICE Philox4 philox4x32_10(std::uint64_t key, Philox4 c) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c.x[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c.x[2];
    c = Philox4{{static_cast<std::uint32_t>(p1 >> 32) ^ c.x[1] ^ k0, static_cast<std::uint32_t>(p1),
                 static_cast<std::uint32_t>(p0 >> 32) ^ c.x[3] ^ k1,
                 static_cast<std::uint32_t>(p0)}};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/// Returns four words for (seed, stream, a, b). `a` is usually a step or an epoch (below 2^32),
/// `b` an element, a class or an image (64 bits).
PFC_HOST_DEVICE Philox4 random_words(std::uint64_t seed, Stream stream, std::uint32_t a,
                                     std::uint64_t b) {
  return philox4x32_10(
      seed, Philox4{{static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32), a,
                     static_cast<std::uint32_t>(stream)}});
}

/// Returns a number in [0, 1) with 24 bits, which float32 represents exactly.
PFC_HOST_DEVICE float uniform01(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

/// Returns an element's random number in [0, 1). Four adjacent elements use the words of a block.
PFC_HOST_DEVICE float uniform_of(std::uint64_t seed, Stream stream, std::uint32_t a,
                                 std::uint64_t element) {
  return uniform01(random_words(seed, stream, a, element / 4).x[element % 4]);
}

}  // namespace pfc
