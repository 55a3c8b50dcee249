// Draws rows of normally distributed numbers on the host.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/math/philox.h"

namespace pfc {

struct NormalRow {
  std::uint64_t seed = 0;
  Stream stream = Stream::kCentreInit;
  std::uint64_t row = 0;
  float deviation = 1;
};

/// Sets element i of `numbers` to deviation * z[i % 4]. For every four elements, box_muller()
/// computes z[0] and z[1] from words 0 and 1 of random_words(seed, stream, i / 4, row), and z[2]
/// and z[3] from words 2 and 3. The same bits on every CPU.
void draw_normal_row(const NormalRow& row, std::span<float> numbers);

}  // namespace pfc
