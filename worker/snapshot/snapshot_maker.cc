#include "worker/snapshot/snapshot_maker.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/workers/keepers.h"
#include "worker/snapshot/pieces.h"

namespace pfc {

SnapshotMaker::SnapshotMaker(SnapshotStore& store, Comm& comm, SnapshotOptions options)
    : store_(store),
      comm_(comm),
      options_(std::move(options)),
      last_time_(Clock::now().time_since_epoch().count()) {}

SnapshotMaker::~SnapshotMaker() {
  if (!thread_.joinable()) return;
  if (!ended_) comm_.abort("this worker has left its generation");
  thread_.join();
}

void SnapshotMaker::fill(WorkerSignals& mine) const {
  if (options_.membership.rank != 0 || !ended_) return;
  const std::int64_t begun = begun_;
  const TimePoint last{Clock::duration(last_time_.load())};
  const bool late = Clock::now() - last >= std::chrono::duration<double>(options_.seconds);
  if (begun == 0 || late) mine.snapshot_request = begun + 1;
}

std::int64_t SnapshotMaker::after_step(const TrainingState& state, const TrainedSoFar& trained,
                                       const WorkerSignals& all) {
  if (ended_) settle();
  if (all.snapshot_request == begun_ + 1) begin(state, trained);
  return all_have_;
}

void SnapshotMaker::begin(const TrainingState& state, const TrainedSoFar& trained) {
  // Rank 0 requests a snapshot only after all workers have received the previous one. Only the
  // confirmation of this may not have arrived yet.
  settle();
  const Membership& me = options_.membership;
  const SnapshotId id{.trained = trained, .generation = me.generation, .world_size = me.world_size};
  Snapshot& snapshot = store_.make();
  copy_state(state, id, me.rank, kept_by(options_.keepers, me.rank), snapshot);
  begun_id_ = id;
  ended_ = false;
  last_time_ = Clock::now().time_since_epoch().count();
  ++begun_;
  thread_ =
      std::thread([this, &snapshot, widths = row_bytes(state), positions = state.head.positions()] {
        const TraceTrack::Scope scope(options_.track, "send_snapshot", snapshot.id.trained.step);
        try {
          run(snapshot, widths, positions);
        } catch (...) {
          error_ = std::current_exception();
        }
        ended_ = true;
      });
}

void SnapshotMaker::settle() {
  if (!thread_.joinable()) return;
  thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  store_.keep(begun_id_);
  all_have_ = begun_id_.trained.step;
}

void SnapshotMaker::run(Snapshot& snapshot, const RowBytes& row_bytes,
                        const ClassPositions& positions) {
  for (const std::size_t i : kStatistics) {
    std::vector<std::byte>& values = snapshot.shared.tensors[i];
    if (values.empty()) continue;
    comm_.broadcast(
        Tensor(values.data(), DType::kUInt8, {static_cast<std::int64_t>(values.size())}), 0);
  }
  snapshot.has_shared = true;
  if (snapshot.copy.rank < 0) return;
  send_rows(snapshot, row_bytes, positions);
  snapshot.has_copy = true;
}

// All workers take part in as many exchanges as the largest shard needs, which is rank 0's.
void SnapshotMaker::send_rows(Snapshot& snapshot, const RowBytes& row_bytes,
                              const ClassPositions& positions) {
  const Membership& me = options_.membership;
  const Rank keeper = options_.keepers[static_cast<std::size_t>(me.rank)];
  const auto most = static_cast<std::size_t>(positions.shard(0, me.world_size).size());
  for (std::size_t i = 0; i < kRowTensors; ++i) {
    const std::size_t bytes = most * row_bytes[i];
    for (std::size_t begin = 0; begin < bytes; begin += kSnapshotPieceBytes) {
      const Comm::Sent sent{keeper,
                            piece_of(std::span<const std::byte>(snapshot.own.tensors[i]), begin)};
      const Comm::Received received{snapshot.copy.rank,
                                    piece_of(std::span(snapshot.copy.tensors[i]), begin)};
      comm_.exchange(std::span(&sent, 1), std::span(&received, 1));
    }
  }
}

}  // namespace pfc
