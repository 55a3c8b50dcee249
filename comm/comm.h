// Collectives between the workers of one generation: NCCL on GPUs, Gloo on CPUs. A single worker
// needs no transport.
//
// REQUIRES: every worker calls the same collectives with the same sizes in the same order. Apart
// from abort(), only one thread at a time calls a Comm.
//
// On a CPU a call returns when the collective is done. On a GPU it enqueues the collective, in the
// compute stream or in a separate stream (make_comm.h), and returns; only barrier() waits.
//
// Every wait has a timeout. Every failure throws CommError, which names the operation, the peer if
// known, and the time waited. After a failure the Comm can only be destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "comm/comm_count.h"
#include "common/error.h"
#include "common/ids.h"
#include "kernels/tensor.h"

namespace pfc {

class Comm {
 public:
  virtual ~Comm() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual std::string description() const = 0;  ///< "Gloo (TCP, 127.0.0.1)"
  [[nodiscard]] virtual CommCounters counters() const = 0;    ///< thread-safe

  /// Concatenates the inputs of all workers in rank order into `out`, which is size() times as
  /// large as `in`. Any dtype. REQUIRES: out does not overlap in.
  virtual void all_gather(const Tensor& in, const Tensor& out) = 0;
  /// Sums float32 elements over all workers, in place. Bit-identical on every worker.
  virtual void all_reduce_sum(const Tensor& in_out) = 0;
  /// Sums over all workers. in is float32 [size() * n]; out [n] is this worker's slice.
  virtual void reduce_scatter_sum(const Tensor& in, const Tensor& out) = 0;
  /// `in` has size() blocks of equal size. Sends block r to rank r. Writes the blocks that the
  /// workers have sent to this one to `out` [size() blocks], in rank order. Any dtype. REQUIRES:
  /// out does not overlap in.
  virtual void all_to_all(const Tensor& in, const Tensor& out) = 0;
  /// Copies the bytes of rank `root` to all workers.
  virtual void broadcast(const Tensor& in_out, int root) = 0;
  /// Blocks until every worker has called it.
  virtual void barrier() = 0;

  /// The data to send to one peer.
  struct Sent {
    int rank = 0;
    std::span<const std::byte> bytes;
  };
  struct Received {
    int rank = 0;
    std::span<std::byte> bytes;
  };
  /// Sends data to some workers and receives data from some, at most once to and from each.
  /// Collective: every worker calls it, even one that neither sends nor receives. Returns when
  /// every worker has received its data. Only supported by Comms of make_host_comm(). REQUIRES: no
  /// entry names this worker; the receiver's buffer has the size that is sent.
  virtual void exchange(std::span<const Sent> /*sent*/, std::span<const Received> /*received*/) {
    check(false, description() + ": exchange() is for host memory");
  }

  /// Throws CommError when a collective has failed after its call returned. This happens only on a
  /// GPU: the stream continues, but the results are invalid. When the host has waited for results
  /// that depend on collectives, it must call this before it uses them.
  virtual void throw_if_failed() {}

  /// Aborts this Comm permanently: the waiting call and all later calls throw CommError with `why`
  /// in the message. On a GPU this also aborts the other Comm of the same training step. Peers
  /// fail when they next wait for this worker. Thread-safe; a second call does nothing.
  virtual void abort(const std::string& why) = 0;
};

}  // namespace pfc
