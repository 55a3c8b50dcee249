// Several heads in one table of class centres. Each head has a contiguous range of classes, those
// of one data set, and its own softmax over them. They share the backbone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/margin/margin_softmax.h"

namespace pfc {

class SeparateHeads {
 public:
  /// classes: number of classes of each head; fewer than two elements mean no separate heads.
  explicit SeparateHeads(std::span<const std::int64_t> classes);

  /// Returns for each sample the part of `active` (sorted global classes) that belongs to its head;
  /// without separate heads, an empty span. labels: [N, labels_per_image], of which the first in
  /// each row gives the head. The view is valid until the next call. REQUIRES: the labels are
  /// classes of the heads.
  std::span<const ActiveRange> ranges(std::span<const std::int64_t> active,
                                      std::span<const std::int64_t> labels,
                                      std::int64_t labels_per_image = 1);

 private:
  std::vector<std::int64_t> ends_;       ///< [heads]: one past the last class of each
  std::vector<ActiveRange> of_heads_;    ///< [heads]
  std::vector<ActiveRange> of_samples_;  ///< [N]
};

}  // namespace pfc
