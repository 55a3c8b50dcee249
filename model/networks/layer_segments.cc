#include "model/networks/layer_segments.h"

#include <algorithm>

namespace pfc {

std::vector<Segment> segments_of(std::span<const LayerTraits> layers, std::int64_t all_weights,
                                 std::int64_t weights) {
  std::vector<Segment> segments;
  std::size_t end = layers.size();
  std::int64_t weights_end = all_weights;
  while (end > 0) {
    std::size_t begin = end - 1;
    const bool repeatable = layers[begin].repeatable;
    while (repeatable && begin > 0 && layers[begin - 1].repeatable &&
           weights_end - layers[begin].first_weight < weights) {
      --begin;
    }
    segments.push_back({begin, end, repeatable});
    weights_end = layers[begin].first_weight;
    end = begin;
  }
  std::ranges::reverse(segments);
  return segments;
}

}  // namespace pfc
