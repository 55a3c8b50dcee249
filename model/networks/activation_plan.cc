#include "model/networks/activation_plan.h"

#include <algorithm>
#include <numeric>

namespace pfc {
namespace {

constexpr std::int64_t kAlignment = 64;

struct Placed {
  Lifetime lifetime;
  std::int64_t offset;
};

std::int64_t lowest_gap(const Lifetime& wanted, const std::vector<Placed>& by_offset) {
  std::int64_t offset = 0;
  for (const Placed& other : by_offset) {
    const bool together =
        wanted.first <= other.lifetime.last && other.lifetime.first <= wanted.last;
    if (!together) continue;
    if (offset + wanted.bytes <= other.offset) break;
    offset = std::max(offset, other.offset + other.lifetime.bytes);
  }
  return offset;
}

}  // namespace

Placement place(const std::vector<Lifetime>& lifetimes) {
  std::vector<std::size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return lifetimes[a].bytes > lifetimes[b].bytes;
  });
  Placement placement{.offsets = std::vector<std::int64_t>(lifetimes.size()), .bytes = 0};
  std::vector<Placed> by_offset;
  for (const std::size_t i : order) {
    Lifetime lifetime = lifetimes[i];
    lifetime.bytes = (lifetime.bytes + kAlignment - 1) / kAlignment * kAlignment;
    const std::int64_t offset = lowest_gap(lifetime, by_offset);
    const auto position =
        std::upper_bound(by_offset.begin(), by_offset.end(), offset,
                         [](std::int64_t o, const Placed& p) { return o < p.offset; });
    by_offset.insert(position, {lifetime, offset});
    placement.offsets[i] = offset;
    placement.bytes = std::max(placement.bytes, offset + lifetime.bytes);
  }
  return placement;
}

void ActivationPlan::make(Tensor& tensor) {
  check(!made(tensor), "activation plan: a tensor is made twice");
  storage_[&tensor] = lifetimes_.size();
  tensors_.emplace_back(&tensor, lifetimes_.size());
  lifetimes_.push_back(
      {.bytes = static_cast<std::int64_t>(tensor.bytes()), .first = now_, .last = now_});
}

void ActivationPlan::make_in_place_of(Tensor& tensor, const Tensor& other) {
  check(!made(tensor), "activation plan: a tensor is made twice");
  check(tensor.bytes() == other.bytes(), "activation plan: in-place tensors differ in size");
  use(other);
  const std::size_t storage = storage_.at(&other);
  storage_[&tensor] = storage;
  tensors_.emplace_back(&tensor, storage);
}

void ActivationPlan::use(const Tensor& tensor) {
  check(made(tensor), "activation plan: a tensor is used before it is made");
  lifetimes_[storage_.at(&tensor)].last = now_;
}

std::unique_ptr<Buffer> ActivationPlan::allocate(Ops& ops) {
  const Placement placement = place(lifetimes_);
  std::unique_ptr<Buffer> buffer = ops.allocate(static_cast<std::size_t>(placement.bytes));
  for (const auto& [tensor, storage] : tensors_) {
    tensor->data = buffer->data() + placement.offsets[storage];
  }
  return buffer;
}

}  // namespace pfc
