// Byte streams between all pairs of workers, over Gloo's TCP transport. The collectives are built
// on them.
//
// Gloo's own collectives are not used, because they detect a broken connection too late. When a
// connection breaks, Gloo fails the queued receives at once, but a receive that is in progress
// waits for its whole timeout. So here a stream always has one more receive queued than the one
// that it waits for, and a dead peer is detected at once, even in the middle of a piece. The last
// receive is the acknowledgement, an empty piece. A peer sends it when it has received everything,
// so all data have been sent when an exchange ends.
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

#include "comm/comm_options.h"
#include "comm/failures/collective_report.h"
#include "comm/key_value_store.h"
#include "common/clock.h"

namespace pfc {

/// Connections of one worker to all others. Used by one thread at a time, unless noted.
class GlooMesh {
 public:
  /// Connects to all peers. Borrows the store. Throws CommError that names the absent ranks, the
  /// rank that does not connect in time, or the reason given to CommOptions::abort_switch.
  GlooMesh(const CommOptions& options, KeyValueStore& store);

  [[nodiscard]] int rank() const { return membership_.rank; }
  [[nodiscard]] int size() const { return membership_.world_size; }
  [[nodiscard]] const std::string& address() const { return addresses_[index(rank())]; }
  /// Returns the bytes of all messages sent to peers, without acknowledgements. Thread-safe.
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }
  /// Fails the current exchange and all later ones with this error. Thread-safe.
  void abort(const std::string& why);
  /// Returns all other ranks, starting after this one, so that workers begin with different peers.
  [[nodiscard]] const std::vector<int>& peers() const { return peers_; }

 private:
  friend class Exchange;
  void connect(const CommOptions& options, KeyValueStore& store);
  /// Connects to this peer. Stops when the mesh is aborted or the timeout expires.
  void connect(int peer, const std::vector<char>& address);
  [[nodiscard]] std::string label() const;  // prefix of every error
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

/// One running collective: its name, deadline and message slots. On every failure it closes all
/// connections, so that the peers fail before their own timeouts, and throws CommError. After a
/// timeout, it also writes this worker's progress to the store, and the error names the workers
/// that are behind.
class Exchange {
 public:
  static constexpr int kChannels = 2;

  Exchange(GlooMesh& mesh, Collective collective);

  /// Sends pieces of one memory area to peers. Each peer receives them in order.
  class Outbox {
   public:
    Outbox(Exchange& exchange, int channel, std::span<const std::byte> memory);
    void send(int peer, std::size_t offset, std::size_t bytes);
    /// Acknowledges to every peer that all its data on this channel has arrived.
    void acknowledge();
    void wait();  ///< blocks until everything is sent

   private:
    Exchange& exchange_;
    const std::uint64_t slot_;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
    std::size_t pending_ = 0;
  };

  /// Receives pieces from one peer, in order.
  class Inbox {
   public:
    Inbox(Exchange& exchange, int peer, int channel, std::span<std::byte> memory);
    void post(std::size_t offset, std::size_t bytes);
    void post_acknowledgement() { post(0, 0); }
    /// Blocks until the next posted piece has arrived. REQUIRES: one more piece or the
    /// acknowledgement is posted, unless this call waits for the acknowledgement.
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
  /// Returns text that names the missing ranks. Empty if no worker can have timed out yet.
  [[nodiscard]] std::string missing() const;
  /// Runs a call into Gloo that concerns a peer (-1: no particular peer).
  template <typename Call>
  void guarded(int peer, Call call);
  /// Blocks until this buffer is sent or received, unless the mesh is aborted.
  enum class Wait { kSend, kReceive };
  void await(gloo::transport::UnboundBuffer& buffer, Wait what);
  /// Sets the buffer that abort() may interrupt; nullptr for none. After an abort, throws
  /// CommError.
  void announce(gloo::transport::UnboundBuffer* buffer);

  GlooMesh& mesh_;
  const Collective collective_;
  const TimePoint start_;
  const std::uint64_t number_;
};

}  // namespace pfc
