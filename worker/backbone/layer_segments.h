// Cuts a network's layers into stretches that run as one, so that a GPU can record each as a CUDA
// graph (Ops::repeat) and launch it with one call instead of one a kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pfc {

struct LayerTraits {
  bool repeatable = true;         ///< enqueues the same calls in every pass
  std::int64_t first_weight = 0;  ///< weights from here on belong to this layer or to later ones
};

/// Layers [begin, end).
struct Segment {
  std::size_t begin = 0, end = 0;
  bool repeatable = true;
  friend bool operator==(const Segment&, const Segment&) = default;
};

/// Pure. All layers, in order; a layer that is not repeatable is a segment of its own. A segment
/// ends where it has at least `weights` of the network's `all_weights`, counted from its end as the
/// backward pass goes: whoever waits for gradients hears of them at the ends of segments. 0: every
/// layer is a segment.
std::vector<Segment> segments_of(std::span<const LayerTraits> layers, std::int64_t all_weights,
                                 std::int64_t weights);

}  // namespace pfc
