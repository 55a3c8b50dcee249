// Counters of the data that a Comm sends and receives.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>

#include "common/clock.h"
#include "common/trace/recorder.h"

namespace pfc {

enum class CollectiveKind {
  kAllGather,
  kAllReduce,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kBarrier,
  kExchange
};
inline constexpr std::size_t kCollectiveKinds = 7;

/// Returns a name such as "all_gather".
constexpr const char* name_of(CollectiveKind kind) {
  constexpr std::array<const char*, kCollectiveKinds> kNames{
      "all_gather", "all_reduce", "reduce_scatter", "all_to_all",
      "broadcast",  "barrier",    "exchange"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// Totals for the collectives of one kind.
struct CollectiveTotals {
  std::uint64_t calls = 0;       ///< number of calls that have begun
  std::uint64_t sent_bytes = 0;  ///< as in CommCounters; finished calls only
  double seconds = 0;            ///< as CommCounters::call_seconds; finished calls only

  friend bool operator==(const CollectiveTotals&, const CollectiveTotals&) = default;
};

/// Totals and progress of one Comm since it was created.
struct CommCounters {
  std::uint64_t calls = 0;  ///< calls begun; equals the number of the newest collective
  std::uint64_t done = 0;   ///< calls finished
  const char* newest = "";  ///< kind of the newest collective: "all_gather"; empty before the first
  std::uint64_t bytes = 0;  ///< size of this worker's inputs, summed over all calls
  /// Payload sent to peers; 0 for one worker. Gloo counts what it sends. For NCCL this is computed:
  /// what a ring algorithm sends, which is the minimum, or in an all-to-all the blocks for peers.
  std::uint64_t sent_bytes = 0;
  /// Duration of the calls. On a GPU this is only the time to enqueue them.
  double call_seconds = 0;
  std::array<CollectiveTotals, kCollectiveKinds> kinds = {};  ///< indexed by CollectiveKind
};

/// Counters of one Comm. Updated by the thread that calls collectives; readable by any thread.
class CommCount {
 public:
  /// Each Call is also recorded on the row `track` of a trace.
  explicit CommCount(const TraceTrack& track = {}) : track_(track) {}

  /// Returns the number of the collective, counted from 1.
  std::uint64_t begin(CollectiveKind kind, std::uint64_t input_bytes) {
    newest_.store(name_of(kind), std::memory_order_relaxed);
    of(kind).calls.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(input_bytes, std::memory_order_relaxed);
    return calls_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  void sent(CollectiveKind kind, std::uint64_t bytes) {
    of(kind).sent_bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  void end(CollectiveKind kind, std::chrono::nanoseconds time) {
    of(kind).nanoseconds.fetch_add(static_cast<std::uint64_t>(time.count()),
                                   std::memory_order_relaxed);
    done_.fetch_add(1, std::memory_order_relaxed);
  }

  /// Adds a span to the trace: the call, or on a GPU the time to enqueue it.
  void record(CollectiveKind kind, TimePoint begin, TimePoint end, std::uint64_t number,
              std::uint64_t input_bytes) const {
    track_.add(name_of(kind), begin, end, static_cast<std::int64_t>(number), input_bytes);
  }

  /// RAII scope of one call. A call that throws is never counted as done.
  class Call {
   public:
    Call(CommCount& count, CollectiveKind kind, std::uint64_t input_bytes)
        : count_(count),
          kind_(kind),
          bytes_(input_bytes),
          start_(Clock::now()),
          exceptions_(std::uncaught_exceptions()),
          number_(count_.begin(kind, input_bytes)) {}
    ~Call() {
      if (std::uncaught_exceptions() > exceptions_) return;
      const TimePoint end = Clock::now();
      count_.end(kind_, end - start_);
      count_.record(kind_, start_, end, number_, bytes_);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    CommCount& count_;
    const CollectiveKind kind_;
    const std::uint64_t bytes_;
    const TimePoint start_;
    const int exceptions_;
    const std::uint64_t number_;
  };

  [[nodiscard]] CommCounters read() const {
    CommCounters counters{.calls = calls_.load(std::memory_order_relaxed),
                          .done = done_.load(std::memory_order_relaxed),
                          .newest = newest_.load(std::memory_order_relaxed),
                          .bytes = bytes_.load(std::memory_order_relaxed)};
    for (std::size_t i = 0; i < kCollectiveKinds; ++i) {
      const Kind& kind = kinds_[i];
      counters.kinds[i] = {
          .calls = kind.calls.load(std::memory_order_relaxed),
          .sent_bytes = kind.sent_bytes.load(std::memory_order_relaxed),
          .seconds = 1e-9 * static_cast<double>(kind.nanoseconds.load(std::memory_order_relaxed))};
      counters.sent_bytes += counters.kinds[i].sent_bytes;
      counters.call_seconds += counters.kinds[i].seconds;
    }
    return counters;
  }

 private:
  struct Kind {
    std::atomic<std::uint64_t> calls{0}, sent_bytes{0}, nanoseconds{0};
  };
  Kind& of(CollectiveKind kind) { return kinds_[static_cast<std::size_t>(kind)]; }

  const TraceTrack track_;
  std::array<Kind, kCollectiveKinds> kinds_;
  std::atomic<std::uint64_t> calls_{0}, done_{0}, bytes_{0};
  std::atomic<const char*> newest_{""};
};

}  // namespace pfc
