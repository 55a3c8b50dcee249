// Cuts a network's layers into segments. A GPU can record each segment as a CUDA graph
// (Ops::repeat) and launch it with one call, instead of one call for each kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pfc {

struct LayerTraits {
  bool repeatable = true;         ///< the layer enqueues the same calls in every pass
  std::int64_t first_weight = 0;  ///< the layer's first weight: later ones are of later layers
};

/// Layers [begin, end).
struct Segment {
  std::size_t begin = 0, end = 0;
  bool repeatable = true;
  friend bool operator==(const Segment&, const Segment&) = default;
};

/// Segments that hold all layers in order. A layer that is not repeatable is a segment of its own.
/// From the network's end, as the backward pass goes, a segment takes layers until it has at least
/// `weights` of the network's `all_weights`: gradients are reported as ready only at the borders of
/// segments. With `weights` 0 every layer is a segment. Pure.
std::vector<Segment> segments_of(std::span<const LayerTraits> layers, std::int64_t all_weights,
                                 std::int64_t weights);

}  // namespace pfc
