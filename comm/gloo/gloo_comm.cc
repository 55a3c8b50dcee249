#include "comm/gloo/gloo_comm.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <vector>

#include "comm/gloo/gloo_mesh.h"
#include "comm/shard.h"
#include "common/trace/profiler_range.h"
#include "common/trace/recorder.h"

namespace pfc {
namespace {

using Inboxes = std::vector<Exchange::Inbox>;  // in the order of GlooMesh::peers()
using Outbox = Exchange::Outbox;

/// A slice of a float array, divided into the pieces that are sent one by one.
class Pieces {
 public:
  Pieces(RowRange slice, std::int64_t piece) : slice_(slice), piece_(piece) {}

  [[nodiscard]] std::int64_t count() const { return (slice_.size() + piece_ - 1) / piece_; }
  [[nodiscard]] RowRange operator[](std::int64_t i) const {
    const std::int64_t begin = slice_.begin + i * piece_;
    return {begin, std::min(begin + piece_, slice_.end)};
  }

 private:
  RowRange slice_;
  std::int64_t piece_;
};

std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

/// Computes out[i] = inputs[0][i] + inputs[1][i] + ... in order. out may be one of the inputs.
void sum_in_order(std::span<const float* const> inputs, float* out, std::int64_t count) {
  std::array<float, 2048> sum;  // fits the L1 cache
  constexpr auto kBlock = static_cast<std::int64_t>(sum.size());
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const auto n = static_cast<std::size_t>(std::min(kBlock, count - begin));
    std::memcpy(sum.data(), inputs[0] + begin, n * sizeof(float));
    for (const float* input : inputs.subspan(1)) {
      const float* x = input + begin;
      if (n == sum.size()) {  // a constant count lets the compiler vectorise
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += x[i];
      } else {
        for (std::size_t i = 0; i < n; ++i) sum[i] += x[i];
      }
    }
    std::memcpy(out + begin, sum.data(), n * sizeof(float));
  }
}

// Pieces per peer in scratch: one is received while another one is summed.
constexpr std::int64_t kDepth = 2;

// Returns the length of a piece: long enough for full speed, but short enough that summing overlaps
// the transfers, and that two pieces per peer use little memory.
std::int64_t piece_floats(int world_size) {
  const std::int64_t bytes =
      std::clamp<std::int64_t>((32 << 20) / (world_size - 1), 64 << 10, 1 << 20);
  return bytes / static_cast<std::int64_t>(sizeof(float));
}

class GlooComm : public Comm {
 public:
  GlooComm(const CommOptions& options, KeyValueStore& store)
      : mesh_(options, store),
        piece_(piece_floats(mesh_.size())),
        count_(track_of(options.trace, TraceRow::kCollectives, options.name)) {}

  [[nodiscard]] int rank() const override { return mesh_.rank(); }
  [[nodiscard]] int size() const override { return mesh_.size(); }
  [[nodiscard]] std::string description() const override {
    return "Gloo (TCP, " + mesh_.address() + ")";
  }
  [[nodiscard]] CommCounters counters() const override {
    CommCounters counters = count_.read();
    counters.sent_bytes = mesh_.sent_bytes();
    return counters;
  }

  void all_gather(const Tensor& in, const Tensor& out) override {
    check(out.bytes() == in.bytes() * world(), "all_gather: out must be size() times in");
    const Counted counted(*this, CollectiveKind::kAllGather, in.bytes());
    if (in.bytes() == 0) return;
    Exchange exchange(mesh_, newest(CollectiveKind::kAllGather, in.bytes()));
    gather(exchange, {static_cast<const std::byte*>(in.data), in.bytes()},
           static_cast<std::byte*>(out.data));
  }

  void all_to_all(const Tensor& in, const Tensor& out) override {
    check(in.bytes() == out.bytes() && in.bytes() % world() == 0,
          "all_to_all: in and out must have size() blocks of equal size");
    const Counted counted(*this, CollectiveKind::kAllToAll, in.bytes());
    if (in.bytes() == 0) return;
    Exchange exchange(mesh_, newest(CollectiveKind::kAllToAll, in.bytes()));
    const std::size_t block = in.bytes() / world();
    send_blocks(exchange, {static_cast<const std::byte*>(in.data), in.bytes()}, block, block,
                static_cast<std::byte*>(out.data));
  }

  void all_reduce_sum(const Tensor& in_out) override {
    const std::span data(in_out.f32(), static_cast<std::size_t>(in_out.elements()));
    const Counted counted(*this, CollectiveKind::kAllReduce, data.size_bytes());
    if (data.empty()) return;
    Exchange exchange(mesh_, newest(CollectiveKind::kAllReduce, data.size_bytes()));
    if (data.size_bytes() <= kSmall) {
      reduce_small(exchange, data);
    } else {
      reduce_large(exchange, data);
    }
  }

  void reduce_scatter_sum(const Tensor& in, const Tensor& out) override {
    check(in.elements() == out.elements() * size(), "reduce_scatter: in must be size() times out");
    const std::span data(in.f32(), static_cast<std::size_t>(in.elements()));
    const Counted counted(*this, CollectiveKind::kReduceScatter, data.size_bytes());
    float* const own = out.f32();
    if (data.empty()) return;
    Exchange exchange(mesh_, newest(CollectiveKind::kReduceScatter, data.size_bytes()));
    Outbox outbox(exchange, kParts, std::as_bytes(data));
    Inboxes inboxes = reduce_own_slice(exchange, outbox, data, own, [](RowRange) {});
    finish(outbox, inboxes);
  }

  void broadcast(const Tensor& in_out, int root) override;

  void barrier() override {
    const Counted counted(*this, CollectiveKind::kBarrier, 0);
    Exchange exchange(mesh_, newest(CollectiveKind::kBarrier, 0));
    const std::byte in{};
    std::vector<std::byte> out(world());
    gather(exchange, {&in, 1}, out.data());
  }

  void exchange(std::span<const Sent> sent, std::span<const Received> received) override;

  void abort(const std::string& why) override { mesh_.abort(why); }

 private:
  static constexpr int kParts = 0;  // channels of an exchange
  static constexpr int kSums = 1;
  // Below this size latency dominates, so every worker sums everything.
  static constexpr std::size_t kSmall = 32 << 10;

  [[nodiscard]] std::size_t world() const { return static_cast<std::size_t>(size()); }
  /// Counts a call and the bytes that the mesh sends during it.
  class Counted {
   public:
    Counted(GlooComm& comm, CollectiveKind kind, std::uint64_t input_bytes)
        : range_(name_of(kind)),
          comm_(comm),
          kind_(kind),
          before_(comm.mesh_.sent_bytes()),
          call_(comm.count_, kind, input_bytes) {}
    ~Counted() { comm_.count_.sent(kind_, comm_.mesh_.sent_bytes() - before_); }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

   private:
    const ProfilerRange range_;
    GlooComm& comm_;
    const CollectiveKind kind_;
    const std::uint64_t before_;
    const CommCount::Call call_;
  };

  /// Returns a description of the newest collective.
  [[nodiscard]] Collective newest(CollectiveKind kind, std::size_t bytes) const {
    return {.number = count_.read().calls, .kind = name_of(kind), .bytes = bytes};
  }

  /// Ends an exchange: returns when all peers have sent everything and acknowledged our data.
  static void finish(Outbox& outbox, Inboxes& inboxes) {
    outbox.acknowledge();
    for (Exchange::Inbox& inbox : inboxes) inbox.wait();
    outbox.wait();
  }

  /// Sends all of `in` to every peer.
  void gather(Exchange& exchange, std::span<const std::byte> in, std::byte* out) {
    send_blocks(exchange, in, in.size(), 0, out);
  }
  /// Sends `bytes` bytes from stride * r of `in` to rank r. Receives a block of the same size from
  /// each rank, in rank order.
  void send_blocks(Exchange& exchange, std::span<const std::byte> in, std::size_t bytes,
                   std::size_t stride, std::byte* out);
  void reduce_small(Exchange& exchange, std::span<float> data);
  void reduce_large(Exchange& exchange, std::span<float> data);

  /// Sums this worker's slice of `data` over all workers into `out`, which may be that slice
  /// itself, and calls summed() after every piece. `outbox` sends from the memory of `data`. In the
  /// returned inboxes only the acknowledgement has not been received.
  Inboxes reduce_own_slice(Exchange& exchange, Outbox& outbox, std::span<const float> data,
                           float* out, const std::function<void(RowRange)>& summed);

  GlooMesh mesh_;
  const std::int64_t piece_;    // length of a piece, in floats
  std::vector<float> scratch_;  // received parts of sums
  CommCount count_;             // sent bytes come from the mesh
};

void GlooComm::send_blocks(Exchange& exchange, std::span<const std::byte> in, std::size_t bytes,
                           std::size_t stride, std::byte* out) {
  const auto sent = [&](int rank) { return static_cast<std::size_t>(rank) * stride; };
  const auto block = [&](int rank) { return out + static_cast<std::size_t>(rank) * bytes; };
  Inboxes inboxes;
  Outbox outbox(exchange, kParts, in);
  for (const int peer : mesh_.peers()) {
    inboxes.emplace_back(exchange, peer, kParts, std::span(block(peer), bytes));
    inboxes.back().post(0, bytes);
    inboxes.back().post_acknowledgement();
    outbox.send(peer, sent(peer), bytes);
  }
  std::memcpy(block(rank()), in.data() + sent(rank()), bytes);
  for (Exchange::Inbox& inbox : inboxes) inbox.wait();
  finish(outbox, inboxes);
}

void GlooComm::reduce_small(Exchange& exchange, std::span<float> data) {
  scratch_.resize(std::max(scratch_.size(), data.size() * world()));
  gather(exchange, std::as_bytes(data), reinterpret_cast<std::byte*>(scratch_.data()));
  std::vector<const float*> parts;
  for (std::size_t r = 0; r < world(); ++r) parts.push_back(scratch_.data() + r * data.size());
  sum_in_order(parts, data.data(), static_cast<std::int64_t>(data.size()));
}

Inboxes GlooComm::reduce_own_slice(Exchange& exchange, Outbox& outbox, std::span<const float> data,
                                   float* out, const std::function<void(RowRange)>& summed) {
  const auto total = static_cast<std::int64_t>(data.size());
  const RowRange own = shard_of(total, rank(), size());
  const Pieces own_pieces(own, piece_);
  const auto& peers = mesh_.peers();
  const auto per_peer = static_cast<std::size_t>(kDepth * piece_);
  scratch_.resize(std::max(scratch_.size(), gloo_comm_bytes(size()) / sizeof(float)));
  const auto scratch = [&](std::size_t i) {
    return std::span(scratch_).subspan(i * per_peer, per_peer);
  };

  Inboxes inboxes;
  const auto post = [&](std::int64_t piece) {  // the acknowledgement follows the last piece
    if (piece > own_pieces.count()) return;
    for (Exchange::Inbox& inbox : inboxes) {
      if (piece == own_pieces.count()) {
        inbox.post_acknowledgement();
      } else {
        inbox.post(bytes_of(piece % kDepth * piece_), bytes_of(own_pieces[piece].size()));
      }
    }
  };
  for (std::size_t i = 0; i < peers.size(); ++i) {
    inboxes.emplace_back(exchange, peers[i], kParts, std::as_writable_bytes(scratch(i)));
  }
  for (std::int64_t piece = 0; piece < kDepth; ++piece) post(piece);
  for (const int peer : peers) {
    const Pieces pieces(shard_of(total, peer, size()), piece_);
    for (std::int64_t i = 0; i < pieces.count(); ++i) {
      outbox.send(peer, bytes_of(pieces[i].begin), bytes_of(pieces[i].size()));
    }
  }

  std::vector<const float*> parts(world());
  for (std::int64_t piece = 0; piece < own_pieces.count(); ++piece) {
    const RowRange range = own_pieces[piece];
    for (Exchange::Inbox& inbox : inboxes) inbox.wait();
    for (std::size_t i = 0; i < peers.size(); ++i) {
      parts[static_cast<std::size_t>(peers[i])] = scratch(i).data() + piece % kDepth * piece_;
    }
    parts[static_cast<std::size_t>(rank())] = data.data() + range.begin;
    sum_in_order(parts, out + (range.begin - own.begin), range.size());
    summed(range);
    post(piece + kDepth);
  }
  return inboxes;
}

void GlooComm::reduce_large(Exchange& exchange, std::span<float> data) {
  const auto total = static_cast<std::int64_t>(data.size());
  const auto slice = [&](int rank) { return shard_of(total, rank, size()); };
  // The result that a peer sends may overwrite a part of the data that was sent to that peer. This
  // is safe: the peer computed the result from that part, so it has received the part.
  Inboxes sums;
  for (const int peer : mesh_.peers()) {
    sums.emplace_back(exchange, peer, kSums, std::as_writable_bytes(data));
    const Pieces pieces(slice(peer), piece_);
    for (std::int64_t i = 0; i < pieces.count(); ++i) {
      sums.back().post(bytes_of(pieces[i].begin), bytes_of(pieces[i].size()));
    }
    sums.back().post_acknowledgement();
  }
  Outbox part_outbox(exchange, kParts, std::as_bytes(data));
  Outbox sum_outbox(exchange, kSums, std::as_bytes(data));
  Inboxes parts = reduce_own_slice(
      exchange, part_outbox, data, data.data() + slice(rank()).begin, [&](RowRange piece) {
        for (const int peer : mesh_.peers()) {
          sum_outbox.send(peer, bytes_of(piece.begin), bytes_of(piece.size()));
        }
      });
  part_outbox.acknowledge();
  for (std::size_t p = 0; p < sums.size(); ++p) {
    const Pieces pieces(slice(mesh_.peers()[p]), piece_);
    for (std::int64_t i = 0; i < pieces.count(); ++i) sums[p].wait();
  }
  finish(sum_outbox, sums);
  for (Exchange::Inbox& inbox : parts) inbox.wait();
  part_outbox.wait();
}

// The root sends one slice to each other worker. These workers then exchange their slices.
void GlooComm::broadcast(const Tensor& in_out, int root) {
  check(root >= 0 && root < size(), "broadcast: the root is not a rank");
  const Counted counted(*this, CollectiveKind::kBroadcast, in_out.bytes());
  const std::span data(static_cast<std::byte*>(in_out.data), in_out.bytes());
  if (data.empty()) return;
  Exchange exchange(mesh_, newest(CollectiveKind::kBroadcast, data.size()));
  const auto slice = [&](int rank) {
    const int place = (rank - root + size()) % size() - 1;  // index among the receivers
    return shard_of(static_cast<std::int64_t>(data.size()), place, size() - 1);
  };
  Inboxes inboxes;
  Outbox outbox(exchange, kParts, data);
  const auto send = [&](int peer, RowRange range) {
    outbox.send(peer, static_cast<std::size_t>(range.begin),
                static_cast<std::size_t>(range.size()));
  };
  for (const int peer : mesh_.peers()) {
    inboxes.emplace_back(exchange, peer, kParts, data);
    if (rank() != root) {
      const RowRange range = slice(peer == root ? rank() : peer);
      inboxes.back().post(static_cast<std::size_t>(range.begin),
                          static_cast<std::size_t>(range.size()));
    }
    inboxes.back().post_acknowledgement();
    if (rank() == root) send(peer, slice(peer));
  }
  if (rank() != root) {
    const auto from_root = std::ranges::find(mesh_.peers(), root) - mesh_.peers().begin();
    inboxes[static_cast<std::size_t>(from_root)].wait();
    for (const int peer : mesh_.peers()) {
      if (peer != root) send(peer, slice(rank()));
    }
    for (std::size_t i = 0; i < inboxes.size(); ++i) {
      if (mesh_.peers()[i] != root) inboxes[i].wait();
    }
  }
  finish(outbox, inboxes);
}

// A peer that neither sends nor receives only sends its acknowledgement.
void GlooComm::exchange(std::span<const Sent> sent, std::span<const Received> received) {
  std::size_t bytes = 0;
  for (const Sent& part : sent) bytes += part.bytes.size();
  const Counted counted(*this, CollectiveKind::kExchange, bytes);
  // The byte count differs between workers, but reports compare the byte counts of all workers. So
  // pass 0.
  Exchange exchange(mesh_, newest(CollectiveKind::kExchange, 0));
  std::byte nothing{};
  Inboxes inboxes;
  for (const int peer : mesh_.peers()) {
    const auto from = std::ranges::find(received, peer, &Received::rank);
    const bool expects = from != received.end() && !from->bytes.empty();
    inboxes.emplace_back(exchange, peer, kParts, expects ? from->bytes : std::span(&nothing, 1));
    if (expects) inboxes.back().post(0, from->bytes.size());
    inboxes.back().post_acknowledgement();
  }
  std::vector<Outbox> outboxes;
  for (const Sent& part : sent) {
    if (part.bytes.empty()) continue;
    outboxes.emplace_back(exchange, kParts, part.bytes);
    outboxes.back().send(part.rank, 0, part.bytes.size());
  }
  for (std::size_t i = 0; i < inboxes.size(); ++i) {
    const auto from = std::ranges::find(received, mesh_.peers()[i], &Received::rank);
    if (from != received.end() && !from->bytes.empty()) inboxes[i].wait();
  }
  Outbox acknowledgements(exchange, kParts, std::span(&nothing, 1));
  finish(acknowledgements, inboxes);
  for (Outbox& outbox : outboxes) outbox.wait();
}

}  // namespace

std::size_t gloo_comm_bytes(int world_size) {
  return bytes_of(kDepth * piece_floats(world_size) * (world_size - 1));
}

std::unique_ptr<Comm> make_gloo_comm(const CommOptions& options, KeyValueStore& store) {
  return std::make_unique<GlooComm>(options, store);
}

}  // namespace pfc
