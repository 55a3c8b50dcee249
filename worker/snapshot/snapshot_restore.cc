#include "worker/snapshot/snapshot_restore.h"

#include <algorithm>
#include <map>
#include <utility>

#include "worker/snapshot/pieces.h"

namespace pfc {
namespace {

template <typename T>
Tensor byte_tensor(std::span<T> values) {
  return {values.data(), DType::kUInt8, {static_cast<std::int64_t>(values.size_bytes())}};
}

/// Returns which worker sends the shared state to which. The workers that have it share the work.
std::vector<std::pair<Rank, Rank>> shared_senders(const SnapshotChoice& choice, int world_size) {
  std::vector<std::pair<Rank, Rank>> pairs;
  for (Rank to = 0; to < world_size; ++to) {
    if (std::ranges::count(choice.shared, to) > 0) continue;
    pairs.emplace_back(choice.shared[pairs.size() % choice.shared.size()], to);
  }
  return pairs;
}

/// Sends the same bytes to all receivers, which have already allocated memory of this size.
std::uint64_t send_to(const std::vector<std::pair<Rank, Rank>>& pairs, std::span<std::byte> bytes,
                      Comm& comm) {
  if (pairs.empty()) return 0;
  for (std::size_t begin = 0; begin < bytes.size(); begin += kSnapshotPieceBytes) {
    std::vector<Comm::Sent> sent;
    std::vector<Comm::Received> received;
    for (const auto& [from, to] : pairs) {
      if (from == comm.rank()) sent.push_back({to, piece_of<const std::byte>(bytes, begin)});
      if (to == comm.rank()) received.push_back({from, piece_of(bytes, begin)});
    }
    comm.exchange(sent, received);
  }
  return bytes.size() * pairs.size();
}

/// Data that a worker needs in order to allocate memory for the rest of the shared state.
struct Header {
  std::int64_t updates = 0;
  std::int64_t batches_tracked = 0;
  LossScale::State loss_scale;
  LossState loss_state;
  std::int64_t degree = 0;      ///< ClassNeighbours::degree
  std::int64_t neighbours = 0;  ///< size of ClassNeighbours::table
};

/// Sends `shared` to the workers that do not have it; they receive it in `shared`.
std::uint64_t share(const SnapshotChoice& choice, const TrainingState& state, SharedState& shared,
                    Comm& comm) {
  const auto pairs = shared_senders(choice, comm.size());
  Header header{.updates = std::ssize(shared.updates),
                .batches_tracked = shared.batches_tracked,
                .loss_scale = shared.loss_scale,
                .loss_state = shared.loss_state,
                .degree = shared.neighbours.degree,
                .neighbours = std::ssize(shared.neighbours.table)};
  std::uint64_t sent = send_to(pairs, std::as_writable_bytes(std::span(&header, 1)), comm);
  shared.batches_tracked = header.batches_tracked;
  shared.loss_scale = header.loss_scale;
  shared.loss_state = header.loss_state;
  shared.updates.resize(static_cast<std::size_t>(header.updates));
  sent += send_to(pairs, std::as_writable_bytes(std::span(shared.updates)), comm);
  shared.neighbours.degree = header.degree;
  shared.neighbours.table.resize(static_cast<std::size_t>(header.neighbours));
  sent += send_to(pairs, std::as_writable_bytes(std::span(shared.neighbours.table)), comm);
  const auto tensors = shared_tensors(state);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    shared.tensors[i].resize(tensors[i] ? tensors[i].bytes() : 0);
    sent += send_to(pairs, shared.tensors[i], comm);
  }
  return sent;
}

/// Rows sent between pairs of workers, in pieces.
using Streams = std::map<std::pair<Rank, Rank>, std::vector<Move>>;

Streams streams_of(const std::vector<Move>& moves, std::size_t width) {
  const auto rows_at_once =
      static_cast<std::int64_t>(std::max<std::size_t>(1, kSnapshotPieceBytes / width));
  Streams streams;
  for (const Move& move : moves) {
    if (move.stays()) continue;
    for (std::int64_t begin = move.rows.begin; begin < move.rows.end; begin += rows_at_once) {
      Move piece = move;
      piece.rows = {begin, std::min(begin + rows_at_once, move.rows.end)};
      streams[{move.from, move.to}].push_back(piece);
    }
  }
  return streams;
}

/// Moves the rows of one tensor between workers. If `mine` is nullptr, this worker only receives
/// rows.
class RowsOnTheMove {
 public:
  RowsOnTheMove(std::size_t tensor, const Snapshot* mine, const TrainingState& state, Comm& comm)
      : tensor_(tensor), mine_(mine), state_(state), comm_(comm), widths_(row_bytes(state)) {}

  std::uint64_t move(const std::vector<Move>& moves) const {
    if (widths_[tensor_] == 0) return 0;
    for (const Move& move : moves) {
      if (move.stays() && move.to == comm_.rank()) {
        restore_rows(tensor_, move.rows, stored(move), state_);
      }
    }
    const Streams streams = streams_of(moves, widths_[tensor_]);
    std::size_t rounds = 0;
    for (const auto& [pair, pieces] : streams) rounds = std::max(rounds, pieces.size());
    std::uint64_t sent = 0;
    for (std::size_t round = 0; round < rounds; ++round) sent += exchange(streams, round);
    return sent;
  }

 private:
  [[nodiscard]] std::span<const std::byte> stored(const Move& move) const {
    const SnapshotRows* const rows = mine_ == nullptr ? nullptr : mine_->rows_of(move.part);
    check(rows != nullptr, "load_snapshot: this worker does not have the rows that it is to send");
    return rows->of(tensor_, move.rows, widths_);
  }

  /// Returns the bytes sent by all workers.
  std::uint64_t exchange(const Streams& streams, std::size_t round) const {
    std::vector<Comm::Sent> sent;
    std::vector<std::pair<Move, std::vector<std::byte>>> arriving;
    std::uint64_t bytes = 0;
    for (const auto& [pair, pieces] : streams) {
      if (round >= pieces.size()) continue;
      const Move& move = pieces[round];
      const std::size_t size = static_cast<std::size_t>(move.rows.size()) * widths_[tensor_];
      bytes += size;
      if (move.from == comm_.rank()) sent.push_back({move.to, stored(move)});
      if (move.to == comm_.rank()) arriving.emplace_back(move, std::vector<std::byte>(size));
    }
    std::vector<Comm::Received> received;
    for (auto& [move, memory] : arriving) received.push_back({move.from, memory});
    comm_.exchange(sent, received);
    for (const auto& [move, memory] : arriving) restore_rows(tensor_, move.rows, memory, state_);
    return bytes;
  }

  const std::size_t tensor_;
  const Snapshot* const mine_;
  const TrainingState& state_;
  Comm& comm_;
  const RowBytes widths_;
};

}  // namespace

SnapshotChoices look_for_snapshots(const SnapshotStore& store, const ClassPositions& positions,
                                   Comm& comm) {
  HeldSnapshots mine = held_by(store);
  std::vector<HeldSnapshots> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(byte_tensor(std::span(&mine, 1)), byte_tensor(std::span(all)));
  return choose_snapshot(all, positions);
}

std::string why_not_from_memory(const SnapshotChoices& choices, const ClassPositions& positions,
                                std::int64_t images) {
  if (!choices.newest || choices.newest->whole(positions)) return {};
  if (choices.newest->id.trained.images <= images) return {};
  const std::vector<Rank> lost = choices.newest->lost(positions);
  std::string text = "the copies in memory of step " +
                     std::to_string(choices.newest->id.trained.step) + " lack the ";
  if (lost.empty()) return text + "backbone";
  text += lost.size() == 1 ? "rows of rank " : "rows of ranks ";
  for (std::size_t i = 0; i < lost.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(lost[i]);
  }
  return text + ", which no worker has";
}

std::uint64_t load_snapshot(const SnapshotChoice& choice, SnapshotStore& store,
                            const TrainingState& state, Comm& comm) {
  Snapshot* const mine = store.find(choice.id);
  std::uint64_t sent = 0;
  {
    SharedState received;
    const bool has_shared = mine != nullptr && mine->has_shared;
    SharedState& shared = has_shared ? mine->shared : received;
    sent += share(choice, state, shared, comm);
    restore_shared(shared, state);
  }
  const std::vector<Move> moves = plan_moves(choice, state.head.positions(), comm.size());
  for (std::size_t tensor = 0; tensor < kRowTensors; ++tensor) {
    sent += RowsOnTheMove(tensor, mine, state, comm).move(moves);
  }
  state.head.state_changed();
  store.keep(choice.id);
  return sent;
}

}  // namespace pfc
