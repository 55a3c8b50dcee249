#include "model/networks/activation_plan.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>

namespace pfc {
namespace {

constexpr std::int64_t kAlignment = 64;

struct Placed {
  Lifetime lifetime;
  std::int64_t offset;
};

bool overlap(const std::vector<LayerSpan>& a, const std::vector<LayerSpan>& b) {
  return std::ranges::any_of(a, [&](const LayerSpan& x) {
    return std::ranges::any_of(
        b, [&](const LayerSpan& y) { return x.first <= y.last && y.first <= x.last; });
  });
}

std::int64_t lowest_gap(const Lifetime& wanted, const std::vector<Placed>& by_offset) {
  std::int64_t offset = 0;
  for (const Placed& other : by_offset) {
    if (!overlap(wanted.spans, other.lifetime.spans)) continue;
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
  storage_[&tensor] = storages_.size();
  tensors_.emplace_back(&tensor, storages_.size());
  storages_.push_back({.lifetime = {.bytes = static_cast<std::int64_t>(tensor.bytes()),
                                    .spans = {{.first = now_, .last = now_}}}});
  touch(tensor, true);
}

void ActivationPlan::make_in_place_of(Tensor& tensor, const Tensor& other) {
  check(!made(tensor), "activation plan: a tensor is made twice");
  check(tensor.bytes() == other.bytes(), "activation plan: in-place tensors differ in size");
  touch(other, true);
  const std::size_t storage = storage_.at(&other);
  storage_[&tensor] = storage;
  tensors_.emplace_back(&tensor, storage);
}

void ActivationPlan::use(const Tensor& tensor) { touch(tensor, false); }

void ActivationPlan::change(const Tensor& tensor) { touch(tensor, true); }

void ActivationPlan::touch(const Tensor& tensor, bool writes) {
  check(made(tensor), "activation plan: a tensor is used before it is made");
  Storage& storage = storages_[storage_.at(&tensor)];
  storage.touches.push_back({now_, writes});
  storage.lifetime.spans.back().last = now_;
}

void ActivationPlan::keep(const Tensor& tensor) { storages_[storage_.at(&tensor)].kept = true; }

std::vector<int> ActivationPlan::recompute(const LayerSpan& block, int again) {
  const auto in_block = [&](const Touch& t) {
    return block.first <= t.layer && t.layer <= block.last;
  };
  const auto late = [&](const Touch& t) { return t.layer >= again; };
  std::vector<Storage*> of_block;
  for (Storage& s : storages_) {
    const bool only =
        std::ranges::all_of(s.touches, [&](const Touch& t) { return in_block(t) || late(t); });
    if (!s.kept && only && in_block(s.touches.front())) of_block.push_back(&s);
  }
  // If a tensor is needed again, the layers that write it must run again, and these need the
  // tensors that they read.
  std::set<int> layers;
  const auto runs_again = [&](const Touch& t) { return layers.contains(t.layer); };
  std::size_t before = 0;
  do {
    before = layers.size();
    for (const Storage* s : of_block) {
      if (std::ranges::none_of(s->touches, late) && std::ranges::none_of(s->touches, runs_again)) {
        continue;
      }
      for (const Touch& t : s->touches) {
        if (t.writes && in_block(t)) layers.insert(t.layer);
      }
    }
  } while (layers.size() > before);
  for (Storage& s : storages_) {
    const auto first = std::ranges::find_if(s.touches, runs_again);
    if (first == s.touches.end()) continue;
    std::vector<LayerSpan>& spans = s.lifetime.spans;
    const int last = std::max(spans.back().last, again);
    if (std::ranges::find(of_block, &s) == of_block.end()) {
      // The layers that run again read this tensor, or write the same values into it.
      check(s.kept || std::none_of(std::max(first, std::next(s.touches.begin())), s.touches.end(),
                                   [&](const Touch& t) { return t.writes && !late(t); }),
            "activation plan: a layer that runs again needs a tensor that was changed since");
      spans.back().last = last;
      continue;
    }
    const auto end = std::ranges::find_if(s.touches, late);
    spans = {{spans.back().first, std::prev(end)->layer}, {again, last}};
  }
  return {layers.begin(), layers.end()};
}

std::vector<Lifetime> ActivationPlan::lifetimes() const {
  std::vector<Lifetime> lifetimes;
  for (const Storage& s : storages_) lifetimes.push_back(s.lifetime);
  return lifetimes;
}

std::unique_ptr<Buffer> ActivationPlan::allocate(Ops& ops) {
  const Placement placement = place(lifetimes());
  std::unique_ptr<Buffer> buffer = ops.allocate(static_cast<std::size_t>(placement.bytes));
  for (const auto& [tensor, storage] : tensors_) {
    tensor->data = buffer->data() + placement.offsets[storage];
  }
  return buffer;
}

}  // namespace pfc
