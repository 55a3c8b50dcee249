// Collectives over the workers of one generation: by NCCL on GPUs, by Gloo on CPUs. A single worker
// needs no transport.
//
// REQUIRES: every worker calls the same collectives with the same sizes in the same order, and one
// thread at a time uses a Comm, but for abort(). On a CPU a call returns when the collective is
// done. On a GPU it enqueues the collective, in the compute stream or in a stream of its own
// (make_comm.h), and returns; only barrier() waits. Every wait has a limit. Every failure throws
// CommError that names the operation, the peer where it is known, and the time waited. After a
// failure the Comm can only be destroyed.
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

  /// out = the inputs of all workers in rank order: size() times the size of in. Any dtype.
  /// REQUIRES: out does not overlap in.
  virtual void all_gather(const Tensor& in, const Tensor& out) = 0;
  /// Sums float32 elements over workers in place; the same bits on every worker.
  virtual void all_reduce_sum(const Tensor& in_out) = 0;
  /// in is float32 [size() * n]; out [n] = this worker's part of the sum over workers.
  virtual void reduce_scatter_sum(const Tensor& in, const Tensor& out) = 0;
  /// Copies the bytes of rank `root` to all workers.
  virtual void broadcast(const Tensor& in_out, int root) = 0;
  /// Returns when every worker has called it.
  virtual void barrier() = 0;

  /// Bytes for another worker, and bytes from one.
  struct Sent {
    int rank = 0;
    std::span<const std::byte> bytes;
  };
  struct Received {
    int rank = 0;
    std::span<std::byte> bytes;
  };
  /// Sends to some workers and receives from some, at most once each. Every worker calls it, also
  /// one that does neither, and it returns when every worker has what was sent to it. Only a Comm
  /// of make_host_comm() has it. REQUIRES: none of them is this worker itself; what a worker is
  /// sent has the size that it receives.
  virtual void exchange(std::span<const Sent> /*sent*/, std::span<const Received> /*received*/) {
    check(false, description() + ": exchange() is for host memory");
  }

  /// Throws CommError when a collective has failed after its call returned. That happens on a GPU
  /// only: the stream goes on, and the results are not valid. REQUIRED after the host has waited
  /// for results that depend on collectives, before it uses them.
  virtual void throw_if_failed() {}

  /// Ends every wait in this Comm, at once and for good: the call that waits, and every later one,
  /// throws CommError whose message has `why`. On a GPU also those of the other Comm of the same
  /// training step. Peers fail when they next wait for this worker. Thread-safe; a second call does
  /// nothing.
  virtual void abort(const std::string& why) = 0;
};

}  // namespace pfc
