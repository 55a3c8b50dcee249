#include "worker/head/accumulated_gradients.h"

#include <algorithm>

namespace pfc {

void AccumulatedGradients::clear() {
  classes_.clear();
  slots_.clear();
}

std::span<const std::int64_t> AccumulatedGradients::slots_of(
    std::span<const std::int64_t> classes) {
  const auto used = static_cast<std::int64_t>(classes_.size());
  merged_classes_.clear();
  merged_slots_.clear();
  asked_.clear();
  std::int64_t next_slot = used;
  std::size_t known = 0;
  const auto keep = [&] {
    merged_classes_.push_back(classes_[known]);
    merged_slots_.push_back(slots_[known]);
    ++known;
  };
  for (const std::int64_t c : classes) {
    while (known < classes_.size() && classes_[known] < c) keep();
    if (known < classes_.size() && classes_[known] == c) {
      keep();
    } else {
      merged_classes_.push_back(c);
      merged_slots_.push_back(next_slot++);
    }
    asked_.push_back(merged_slots_.back());
  }
  while (known < classes_.size()) keep();
  classes_.swap(merged_classes_);
  slots_.swap(merged_slots_);
  reserve_rows(used, next_slot);
  return asked_;
}

Tensor AccumulatedGradients::gradients() const {
  return {buffer_ ? buffer_->data() : nullptr, DType::kFloat32, {capacity_, dimension_}};
}

void AccumulatedGradients::reserve_rows(std::int64_t used, std::int64_t rows) {
  const auto rows_from = [&](Buffer& b, std::int64_t begin, std::int64_t end) {
    return Tensor(reinterpret_cast<float*>(b.data()) + begin * dimension_,
                  {end - begin, dimension_});
  };
  if (rows > capacity_) {
    auto larger = ops_.allocate(bytes(rows, dimension_));
    if (used > 0) ops_.copy(rows_from(*buffer_, 0, used), rows_from(*larger, 0, used));
    ops_.synchronize();  // the old buffer is freed here
    buffer_ = std::move(larger);
    capacity_ = capacity_for(rows);
  }
  if (rows > used) ops_.fill(rows_from(*buffer_, used, rows), 0.f);
}

}  // namespace pfc
