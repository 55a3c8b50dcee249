// Inputs of the ranks for collectives, and expected results. All sums are exact in float32.
#pragma once

#include <cstddef>
#include <vector>

namespace pfc {

/// Returns a small whole number that depends on rank and position.
inline float input(int rank, std::size_t i) {
  return static_cast<float>((i * 7 + i / 13) % 101) + 1000.f * static_cast<float>(rank);
}

inline std::vector<float> input(int rank, std::size_t begin, std::size_t end) {
  std::vector<float> values;
  for (std::size_t i = begin; i < end; ++i) values.push_back(input(rank, i));
  return values;
}

inline float sum_of_inputs(int world_size, std::size_t i) {
  float sum = 0;
  for (int r = 0; r < world_size; ++r) sum += input(r, i);
  return sum;
}

}  // namespace pfc
