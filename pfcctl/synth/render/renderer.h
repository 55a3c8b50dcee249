// Draws one photograph of a synthetic person: surfaces, light, background and covering objects.
#pragma once

#include <vector>

#include "pfcctl/synth/face/capture.h"
#include "pfcctl/synth/face/identity.h"

namespace pfc::synth {

/// A square picture in linear light, row-major.
struct Picture {
  int size = 0;
  std::vector<Colour> pixels;

  explicit Picture(int side)
      : size(side), pixels(static_cast<std::size_t>(side) * static_cast<std::size_t>(side)) {}
  [[nodiscard]] Colour& at(int x, int y) { return pixels[static_cast<std::size_t>(y * size + x)]; }
  [[nodiscard]] const Colour& at(int x, int y) const {
    return pixels[static_cast<std::size_t>(y * size + x)];
  }
};

/// Draws a picture of `size` x `size` pixels. Thread-safe and pure.
Picture render(const Identity& who, const Capture& capture, int size);

}  // namespace pfc::synth
