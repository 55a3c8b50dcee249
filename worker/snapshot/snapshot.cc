#include "worker/snapshot/snapshot.h"

#include <algorithm>
#include <cstring>

#include "worker/head/row_copy.h"

namespace pfc {
namespace {

// Index of Head::State::updated in RowTensors. Only this tensor is always in host memory.
constexpr std::size_t kUpdatedIndex = kRowTensors - 1;

std::array<Tensor, kUpdatedIndex> device_tables(const TrainingState& state) {
  const Head::State head = state.head.state();
  return {head.centres, head.momentum, head.second, head.centres.scales, head.momentum.scales};
}

void copy_tensor(Ops& ops, const Tensor& tensor, std::vector<std::byte>& out) {
  fit(out, tensor ? tensor.bytes() : 0);
  if (!out.empty()) ops.copy_to_host(out.data(), tensor);
}

void copy_own(const TrainingState& state, Rank rank, SnapshotRows& own) {
  own.rank = rank;
  own.rows = state.head.shard();
  const auto tables = device_tables(state);
  for (std::size_t i = 0; i < kUpdatedIndex; ++i) copy_tensor(state.ops, tables[i], own.tensors[i]);
  const std::span<const std::byte> updated = std::as_bytes(state.head.state().updated);
  fit(own.tensors[kUpdatedIndex], updated.size());
  std::ranges::copy(updated, own.tensors[kUpdatedIndex].begin());
}

void copy_shared(const TrainingState& state, SharedState& shared) {
  const auto tensors = shared_tensors(state);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    copy_tensor(state.ops, tensors[i], shared.tensors[i]);
  }
  const std::span<const PastUpdate> updates = state.head.state().history->updates();
  shared.updates.assign(updates.begin(), updates.end());
  shared.batches_tracked = state.backbone.batches_tracked;
  shared.loss_scale = state.loss_scale.state();
  shared.loss_state = *state.head.state().loss;
  if (const auto* const neighbours = state.head.state().neighbours) {
    shared.neighbours = *neighbours;
  }
}

std::size_t row_tensor_bytes(const RowTensors& tensors) {
  std::size_t sum = 0;
  for (const auto& tensor : tensors) sum += tensor.capacity();
  return sum;
}

}  // namespace

std::span<const std::byte> SnapshotRows::of(std::size_t tensor, RowRange wanted,
                                            const RowBytes& row_bytes) const {
  check(wanted.begin >= rows.begin && wanted.end <= rows.end, "snapshot: rows of another worker");
  const std::size_t width = row_bytes[tensor];
  return std::span(tensors[tensor])
      .subspan(static_cast<std::size_t>(wanted.begin - rows.begin) * width,
               static_cast<std::size_t>(wanted.size()) * width);
}

const SnapshotRows* Snapshot::rows_of(Rank rank) const {
  if (has_own && own.rank == rank) return &own;
  if (has_copy && copy.rank == rank) return &copy;
  return nullptr;
}

std::size_t Snapshot::bytes() const {
  std::size_t sum = row_tensor_bytes(own.tensors) + row_tensor_bytes(copy.tensors) +
                    shared.updates.capacity() * sizeof(PastUpdate) +
                    shared.neighbours.table.capacity() * sizeof(std::int32_t);
  for (const auto& tensor : shared.tensors) sum += tensor.capacity();
  return sum;
}

RowBytes row_bytes(const TrainingState& state) {
  RowBytes bytes{};
  const auto tables = device_tables(state);
  for (std::size_t i = 0; i < kUpdatedIndex; ++i) {
    if (tables[i].shape.rank() == 2) {  // even if this worker has no rows
      bytes[i] = static_cast<std::size_t>(tables[i].shape[1]) * size_of(tables[i].dtype);
    }
  }
  bytes[kUpdatedIndex] = sizeof(std::int32_t);
  return bytes;
}

void copy_state(const TrainingState& state, const SnapshotId& id, Rank rank, Rank copy_of,
                Snapshot& snapshot) {
  snapshot.has_own = snapshot.has_copy = snapshot.has_shared = false;
  snapshot.id = id;
  snapshot.threads = state.threads;
  copy_own(state, rank, snapshot.own);
  copy_shared(state, snapshot.shared);
  SnapshotRows& copy = snapshot.copy;
  copy.rank = copy_of;
  copy.rows = copy_of < 0 ? RowRange{}
                          : state.head.positions().shard(copy_of, static_cast<int>(id.world_size));
  const RowBytes widths = row_bytes(state);
  for (std::size_t i = 0; i < kRowTensors; ++i) {
    fit(copy.tensors[i], static_cast<std::size_t>(copy.rows.size()) * widths[i]);
  }
  snapshot.has_own = true;
  snapshot.has_shared = rank == 0;
}

void restore_shared(const SharedState& shared, const TrainingState& state) {
  state.backbone.operands_are_current = false;
  const auto tensors = shared_tensors(state);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check(shared.tensors[i].size() == (tensors[i] ? tensors[i].bytes() : 0),
          "snapshot: a tensor of the backbone has another size");
    if (tensors[i]) state.ops.copy_to_device(tensors[i], shared.tensors[i].data());
  }
  state.backbone.batches_tracked = shared.batches_tracked;
  state.loss_scale.restore(shared.loss_scale);
  *state.head.state().loss = shared.loss_state;
  if (auto* const neighbours = state.head.state().neighbours) *neighbours = shared.neighbours;
  state.head.state().history->restore(shared.updates);
}

void restore_rows(std::size_t tensor, RowRange rows, std::span<const std::byte> bytes,
                  const TrainingState& state) {
  if (bytes.empty()) return;
  const RowRange shard = state.head.shard();
  check(rows.begin >= shard.begin && rows.end <= shard.end, "snapshot: rows of another shard");
  const std::int64_t first = rows.begin - shard.begin;
  if (tensor == kUpdatedIndex) {
    std::memcpy(state.head.state().updated.data() + first, bytes.data(), bytes.size());
    return;
  }
  const Tensor view = row_range(device_tables(state)[tensor], first, rows.size());
  check(view.bytes() == bytes.size(), "snapshot: rows of another size");
  state.ops.copy_to_device(view, bytes.data());
}

}  // namespace pfc
