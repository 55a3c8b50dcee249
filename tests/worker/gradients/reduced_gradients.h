// Simulates the gradients of a backward pass, for tests of the GPU's reducer.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "tests/comm/ranks.h"
#include "worker/gradients/make_grad_reducer.h"

namespace pfc::testing {

inline constexpr std::int64_t kCount = 1000;

struct Worker {
  int rank;
  Ops& ops;
  Comm& comm;
  Comm& gradient_comm;
  GradReducer& reducer;
  Tensor gradients;  // [kCount]
};

/// Returns the gradient of element i that a rank computes in a step.
inline float gradient(int rank, int step, std::int64_t i) {
  return static_cast<float>(i % 97 + 10 * step + 1000 * rank);
}

/// Writes the gradients as a backward pass does: from the end, in pieces of any size.
inline void backward(const Worker& w, int step, std::mt19937& random) {
  for (std::int64_t offset = kCount; offset > 0;) {
    const std::int64_t count = std::min<std::int64_t>(offset, 1 + random() % 200);
    offset -= count;
    std::vector<float> values;
    for (std::int64_t i = offset; i < offset + count; ++i) {
      values.push_back(gradient(w.rank, step, i));
    }
    w.ops.copy_to_device({w.gradients.f32() + offset, Shape{count}}, values.data());
    w.reducer.ready(offset);
  }
}

}  // namespace pfc::testing
