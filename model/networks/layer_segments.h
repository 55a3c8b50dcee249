// Cuts a network's layers into segments. A GPU can record each segment as a CUDA graph
// (Ops::repeat) and launch it with one call, instead of one call for each kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pfc {

struct LayerTraits {
  bool repeatable = true;  ///< the layer enqueues the same calls in every pass
  /// The layer's first weight; weights from there on belong to this or later layers.
  std::int64_t first_weight = 0;
};

/// Layers [begin, end).
struct Segment {
  std::size_t begin = 0, end = 0;
  bool repeatable = true;
  friend bool operator==(const Segment&, const Segment&) = default;
};

/// Returns segments that cover all layers in order. A layer that is not repeatable is a segment of
/// its own. Segments are made from the network's end to its start, like the backward pass. A
/// segment takes layers until it has at least `weights` of the network's `all_weights`. Gradients
/// are reported as ready only at segment boundaries. With `weights` 0 every layer is a segment.
/// Pure.
std::vector<Segment> segments_of(std::span<const LayerTraits> layers, std::int64_t all_weights,
                                 std::int64_t weights);

}  // namespace pfc
