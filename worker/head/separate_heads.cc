#include "worker/head/separate_heads.h"

#include <algorithm>
#include <numeric>

#include "common/error.h"

namespace pfc {

SeparateHeads::SeparateHeads(std::span<const std::int64_t> classes) {
  if (classes.size() < 2) return;
  ends_.resize(classes.size());
  std::partial_sum(classes.begin(), classes.end(), ends_.begin());
}

std::span<const ActiveRange> SeparateHeads::ranges(std::span<const std::int64_t> active,
                                                   std::span<const std::int64_t> labels,
                                                   std::int64_t labels_per_image) {
  of_heads_.clear();
  of_samples_.clear();
  if (ends_.empty()) return {};
  std::int32_t begin = 0;
  for (const std::int64_t end : ends_) {
    const auto behind =
        static_cast<std::int32_t>(std::ranges::lower_bound(active, end) - active.begin());
    of_heads_.push_back({begin, behind});
    begin = behind;
  }
  for (std::size_t i = 0; i < labels.size(); i += static_cast<std::size_t>(labels_per_image)) {
    const auto head =
        static_cast<std::size_t>(std::ranges::upper_bound(ends_, labels[i]) - ends_.begin());
    check(head < ends_.size(), "separate heads: a label belongs to no head");
    of_samples_.push_back(of_heads_[head]);
  }
  return of_samples_;
}

}  // namespace pfc
