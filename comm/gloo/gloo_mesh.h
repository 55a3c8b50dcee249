// Byte streams between every two workers, over Gloo's TCP transport. Collectives are made of them.
//
// Gloo's own collectives are not used, because they find a broken connection too late: an operation
// in a pair's queue fails at once, but one whose bytes are being received waits for its whole
// timeout. Here a stream always has one more receive posted than the one it waits for; the last one
// is an empty piece, the acknowledgement. So a dead peer is found at once, also in the middle of a
// piece, and nothing is left unsent when an exchange ends.
#pragma once

#include <gloo/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "comm/collective_report.h"
#include "comm/comm_options.h"
#include "comm/key_value_store.h"
#include "common/clock.h"

namespace pfc {

/// The connections of one worker to all others. Belongs to one thread at a time, but for what says
/// otherwise.
class GlooMesh {
 public:
  /// Throws CommError that names the absent ranks, or the one that does not connect within
  /// connect_timeout, or why CommOptions::abort_switch has ended it. Borrows the store.
  GlooMesh(const CommOptions& options, KeyValueStore& store);

  [[nodiscard]] int rank() const { return membership_.rank; }
  [[nodiscard]] int size() const { return membership_.world_size; }
  [[nodiscard]] const std::string& address() const { return addresses_[index(rank())]; }
  /// Bytes of all messages to peers so far, without acknowledgements. Thread-safe.
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }
  /// Ends the wait of the exchange that goes on, and every later one, with this error. Thread-safe.
  void abort(const std::string& why);
  /// All other ranks, from the next one on, so that not all workers send to the same one first.
  [[nodiscard]] const std::vector<int>& peers() const { return peers_; }

 private:
  friend class Exchange;
  void connect(const CommOptions& options, KeyValueStore& store);
  /// Waits for the connection to this peer, unless the mesh is aborted or the time is over.
  void connect(int peer, const std::vector<char>& address);
  [[nodiscard]] std::string label() const;  // begins every error
  [[nodiscard]] static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

  const Membership membership_;
  const std::string name_;
  const std::chrono::milliseconds timeout_;
  const CollectiveReports reports_;
  std::vector<std::string> addresses_;  // by rank
  std::vector<int> peers_;
  std::shared_ptr<gloo::Context> context_;
  std::uint64_t exchanges_ = 0;
  std::atomic<std::uint64_t> sent_bytes_{0};
  bool broken_ = false;

  std::mutex abort_mutex_;
  std::string abort_reason_;                           // guarded by abort_mutex_; empty: none
  gloo::transport::UnboundBuffer* awaited_ = nullptr;  // guarded by abort_mutex_
  gloo::transport::Pair* connecting_ = nullptr;        // guarded by abort_mutex_
};

/// One collective that is being executed: its name, deadline and message slots. Every failure
/// closes all connections, so that the peers fail too before their timeouts, and throws CommError.
/// One that is late also writes into the store how far this worker has come, and names those that
/// are behind.
class Exchange {
 public:
  static constexpr int kChannels = 2;

  Exchange(GlooMesh& mesh, Collective collective);

  /// The pieces of one memory area that this worker sends to its peers, in order for each peer.
  class Outbox {
   public:
    Outbox(Exchange& exchange, int channel, std::span<const std::byte> memory);
    void send(int peer, std::size_t offset, std::size_t bytes);
    /// Tells every peer that all it has sent over this channel has arrived.
    void acknowledge();
    void wait();  ///< for all sends

   private:
    Exchange& exchange_;
    const std::uint64_t slot_;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
    std::size_t pending_ = 0;
  };

  /// The pieces that one peer sends to this worker, in order.
  class Inbox {
   public:
    Inbox(Exchange& exchange, int peer, int channel, std::span<std::byte> memory);
    void post(std::size_t offset, std::size_t bytes);
    void post_acknowledgement() { post(0, 0); }
    /// Waits for the next posted piece. REQUIRES: one more piece or the acknowledgement is posted,
    /// unless this call waits for the acknowledgement itself.
    void wait();

   private:
    Exchange& exchange_;
    const int peer_;
    const std::uint64_t slot_;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  };

 private:
  [[nodiscard]] std::uint64_t slot(int channel) const;
  [[nodiscard]] std::chrono::milliseconds time_left() const;
  [[nodiscard]] std::unique_ptr<gloo::transport::UnboundBuffer> buffer(const std::byte* data,
                                                                       std::size_t bytes) const;
  [[noreturn]] void fail(int peer, const std::string& reason);
  /// Who has not come, where the wait was so long that somebody's time is over; else empty.
  [[nodiscard]] std::string missing() const;
  /// Runs a call into Gloo that concerns a peer (-1: none in particular).
  template <typename Call>
  void guarded(int peer, Call call);
  /// Waits for a send or receive of this buffer, unless the mesh is aborted.
  enum class Wait { kSend, kReceive };
  void await(gloo::transport::UnboundBuffer& buffer, Wait what);
  /// Says which buffer may be aborted now; null: none. Throws when the mesh is aborted already.
  void announce(gloo::transport::UnboundBuffer* buffer);

  GlooMesh& mesh_;
  const Collective collective_;
  const TimePoint start_;
  const std::uint64_t number_;
};

}  // namespace pfc
