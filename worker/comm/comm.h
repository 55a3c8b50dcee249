// Collectives over the workers of one generation. NCCL on GPUs, Gloo on CPUs, none for one worker.
//
// Every worker calls the same collectives with the same sizes in the same order. A Comm belongs to
// one thread at a time. On a CPU a call blocks until it is done. On a GPU it enqueues, in the order
// of the compute stream or of a stream of its own (make_comm.h), and returns; only barrier()
// blocks. Every wait is bounded. Failure of any kind throws CommError that names the operation, the
// peer where it is known, and the time waited; the Comm is then useless and is destroyed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/ids.h"
#include "kernels/tensor.h"

namespace pfc {

/// What has been communicated since the Comm was made, for metrics.
struct CommCounters {
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;  ///< of this worker's inputs of the calls
  /// Payload that this worker has sent to its peers. Gloo counts what it sends. For NCCL it is what
  /// a ring sends, the algorithm that moves the fewest bytes. 0 for one worker.
  std::uint64_t sent_bytes = 0;
};

/// The counters of one Comm. The thread that calls collectives adds; any thread may read.
class CommCount {
 public:
  void add_call(std::uint64_t input_bytes, std::uint64_t sent_bytes) {
    calls_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(input_bytes, std::memory_order_relaxed);
    add_sent(sent_bytes);
  }
  void add_sent(std::uint64_t bytes) { sent_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  [[nodiscard]] CommCounters read() const {
    return {.calls = calls_.load(std::memory_order_relaxed),
            .bytes = bytes_.load(std::memory_order_relaxed),
            .sent_bytes = sent_bytes_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<std::uint64_t> calls_{0}, bytes_{0}, sent_bytes_{0};
};

class Comm {
 public:
  virtual ~Comm() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual std::string description() const = 0;  ///< "Gloo (TCP, 127.0.0.1)"
  [[nodiscard]] virtual CommCounters counters() const = 0;    ///< thread-safe

  /// out = [size() x in], in rank order. Any dtype. out may not alias in.
  virtual void all_gather(const Tensor& in, const Tensor& out) = 0;
  /// Sums float32 elements over workers in place; the same bits on every worker.
  virtual void all_reduce_sum(const Tensor& in_out) = 0;
  /// in is float32 [size() * n]; out [n] = this worker's part of the sum over workers.
  virtual void reduce_scatter_sum(const Tensor& in, const Tensor& out) = 0;
  /// Copies root's bytes to all.
  virtual void broadcast(const Tensor& in_out, int root) = 0;
  virtual void barrier() = 0;

  /// On a GPU a collective fails after its call has returned, and frees the stream: what the host
  /// then fetches is garbage. So this is called after the host has waited for results that depend
  /// on collectives, before it believes them. On a CPU nothing fails so late.
  virtual void throw_if_failed() {}
};

}  // namespace pfc
