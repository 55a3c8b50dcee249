// Formulas of pooling and of gates: the places of windows along one side of an image, and the
// logistic function.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/math/host_device.h"

namespace pfc {

/// One side of an image, and of the windows that are laid over it.
struct PoolWindow {
  std::int64_t in, out;  ///< pixels of the input and of the output
  std::int64_t kernel, stride, pad;
};

/// Indices [begin, end).
struct PoolRange {
  std::int64_t begin, end;
};

/// Returns the pixels of window `out` that are inside the image, counted from the window's first
/// pixel.
PFC_HOST_DEVICE PoolRange pixels_of_window(const PoolWindow& w, std::int64_t out) {
  const std::int64_t first = out * w.stride - w.pad;
  return {first < 0 ? -first : 0, first + w.kernel > w.in ? w.in - first : w.kernel};
}

/// Returns the windows that contain pixel `in`.
PFC_HOST_DEVICE PoolRange windows_of_pixel(const PoolWindow& w, std::int64_t in) {
  const std::int64_t last = in + w.pad;
  const std::int64_t end = last / w.stride + 1;
  return {last < w.kernel ? 0 : (last - w.kernel) / w.stride + 1, end < w.out ? end : w.out};
}

PFC_HOST_DEVICE float sigmoid(float x) { return 1.f / (1.f + std::exp(-x)); }

}  // namespace pfc
