#include "worker/checkpoint/transfer/centres_transfer.h"

#include <algorithm>
#include <span>
#include <string>

#include "common/error.h"

namespace pfc {
namespace {

constexpr int kCentresSender = 0;  // rank of the sender in a link

template <typename T>
void exchange(Comm& link, std::span<T> values) {
  link.broadcast(
      Tensor(values.data(), DType::kUInt8, {static_cast<std::int64_t>(values.size_bytes())}),
      kCentresSender);
}

/// Called by both sides. The receiver's vectors get the sender's sizes.
void exchange(Comm& link, SeenUpdates& seen) {
  auto count = static_cast<std::int64_t>(seen.updates.size());
  exchange(link, std::span(&count, 1));
  check(count >= 0, "receive_centres: a number of updates is negative");
  seen.updates.resize(static_cast<std::size_t>(count));
  exchange(link, std::span(seen.updates));
  exchange(link, std::span(seen.updated));
}

/// Sends the rows of one worker, piece by piece.
class Sending {
 public:
  Sending(const CentresWanted& wanted, std::int64_t dimension)
      : wanted_(wanted), dimension_(dimension), pieces_(pieces_of(wanted.shard, dimension)) {}

  void begin(const StoredCentres& centres) const {
    guarded([&] {
      SeenUpdates seen = centres.seen(wanted_.shard);
      exchange(*wanted_.link->comm, seen);
    });
  }
  [[nodiscard]] std::size_t pieces() const { return pieces_.size(); }
  void send(const StoredCentres& centres, const std::string& tensor, std::size_t piece) const {
    if (piece >= pieces_.size()) return;
    std::vector<float> rows(static_cast<std::size_t>(pieces_[piece].size() * dimension_));
    centres.read(tensor, pieces_[piece].begin, rows);
    guarded([&] { exchange(*wanted_.link->comm, std::span(rows)); });
  }

 private:
  template <typename Work>
  void guarded(Work work) const {
    try {
      work();
    } catch (const CommError& error) {
      throw CommError("sending class centres to rank " + std::to_string(wanted_.link->rank) +
                      " on host " + wanted_.link->host + ": " + error.what());
    }
  }

  const CentresWanted wanted_;
  const std::int64_t dimension_;
  const std::vector<RowRange> pieces_;
};

}  // namespace

void send_centres(const StoredCentres& centres, OptimizerKind optimizer, std::int64_t dimension,
                  const std::vector<CentresWanted>& wanted) {
  std::vector<Sending> all;
  for (const CentresWanted& each : wanted) all.emplace_back(each, dimension);
  std::size_t most = 0;
  for (const Sending& each : all) {
    each.begin(centres);
    most = std::max(most, each.pieces());
  }
  for (std::size_t piece = 0; piece < most; ++piece) {
    for (const std::string& tensor : centre_tensors(optimizer)) {
      for (const Sending& each : all) each.send(centres, tensor, piece);
    }
  }
}

void receive_centres(Comm& to_rank_zero, const TrainingState& state) {
  SeenUpdates seen;
  seen.updated.resize(static_cast<std::size_t>(state.head.shard().size()));
  exchange(to_rank_zero, seen);
  fill_centres(state, seen, [&](const std::string&, std::int64_t, std::span<float> rows) {
    exchange(to_rank_zero, rows);
  });
}

}  // namespace pfc
