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

/// Sets element i of `numbers` to deviation times number i % 4 of those that box_muller() makes of
/// words 0 and 1, and of words 2 and 3, of random_words(seed, stream, i / 4, row). The same bits on
/// every CPU.
void draw_normal_row(const NormalRow& row, std::span<float> numbers);

}  // namespace pfc
