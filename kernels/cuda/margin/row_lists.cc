#include "kernels/cuda/margin/row_lists.h"

#include <algorithm>

namespace pfc {

void CudaLists::begin(std::int64_t bytes) {
  turn_ = 1 - turn_;
  used_ = 0;
  next().copied.wait();  // waits until the lists that used the same memory before have been copied
  if (bytes <= room_) return;
  room_ = bytes + bytes / 16;  // the number of sampled classes varies between steps
  const auto size = static_cast<std::size_t>(room_);
  turns_[1 - turn_].copied.wait();
  on_device_.reserve(size);
  for (Turn& t : turns_) t.memory = std::make_unique<PinnedMemory>(size);
}

std::int64_t CudaLists::take(std::int64_t bytes) {
  const std::int64_t offset = used_;
  used_ += rounded(bytes);
  check(used_ <= room_, "CudaLists: begin() was called with too few bytes");
  return offset;
}

void CudaLists::send() {
  if (used_ == 0) return;
  cuda_check(cudaMemcpyAsync(on_device_.data(), next().memory->as<void>(),
                             static_cast<std::size_t>(used_), cudaMemcpyHostToDevice, stream_),
             "a copy to the GPU");
  next().copied.record(stream_);
}

void RowUpdates::plan(std::span<const std::int64_t> classes) {
  if (all_up_to_date()) return;
  plan_.make(*table_.history, table_.updated, table_.first_class, classes);
}

std::int64_t RowUpdates::list_bytes(std::int64_t classes) const {
  const auto index =
      classes * options_.sub_centres * static_cast<std::int64_t>(sizeof(std::int32_t));
  const auto table = static_cast<std::int64_t>(plan_.table().size_bytes());
  return 2 * CudaLists::rounded(index) + CudaLists::rounded(table);
}

RowList RowUpdates::add_lists(CudaLists& lists, std::span<const std::int64_t> classes) const {
  const std::int64_t k = options_.sub_centres;
  const auto count = static_cast<std::int64_t>(classes.size());
  if (count == 0) return {};
  RowList list{.first = (classes.front() - table_.first_class) * k};
  if (classes.back() - classes.front() != count - 1) {
    const auto rows = lists.add<std::int32_t>(count * k);
    std::int32_t* next = rows.host;
    for (const std::int64_t c : classes) {
      const std::int64_t first = (c - table_.first_class) * k;
      for (std::int64_t row = first; row < first + k; ++row) {
        *next++ = static_cast<std::int32_t>(row);
      }
    }
    list.rows = rows.device;
  }
  if (all_up_to_date() || plan_.table().size() <= 1) return list;
  const auto missed = lists.add<std::uint32_t>(count * k);
  std::uint32_t* next = missed.host;
  for (const std::uint32_t index : plan_.index()) next = std::fill_n(next, k, index);
  const auto how = lists.add<CatchUp>(static_cast<std::int64_t>(plan_.table().size()));
  std::ranges::copy(plan_.table(), how.host);
  list.missed = missed.device;
  list.catch_ups = how.device;
  return list;
}

void RowUpdates::moved(std::span<const std::int64_t> classes, const MarginSoftmax::Update& update) {
  table_.history->add(past_update(options_, update));
  settled(classes);
}

std::int32_t RowUpdates::settled(std::span<const std::int64_t> classes) {
  const std::int32_t count = table_.history->count();
  for (const std::int64_t c : classes) {
    table_.updated[static_cast<std::size_t>(c - table_.first_class)] = count;
  }
  if (classes.size() == table_.updated.size()) all_seen_ = count;
  return count;
}

}  // namespace pfc
