// Records the steps that the coordinator wants to trace, and sends the recordings.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/trace/clock_map.h"
#include "common/trace/gpu/gpu_recorder.h"
#include "common/trace/recorder.h"
#include "worker/coordinator_link/coordinator_client.h"

namespace pfc {

/// Used for one generation. A separate thread compares the clocks and sends the recordings, so
/// training does not wait. The destructor ends an unfinished recording, because no step follows,
/// and sends what was recorded. It stops sending after kLastParts.
class TraceTaker {
 public:
  static constexpr std::chrono::milliseconds kLastParts{3'000};

  /// Borrows `recorder` and `client`. If `client` is null, nothing is recorded. device: "cpu" or
  /// "cuda:0". A GPU is traced with the first library of `cupti` that exists.
  TraceTaker(TraceRecorder& recorder, CoordinatorClient* client, std::string device,
             std::vector<std::string> cupti = Cupti::usual_libraries());
  ~TraceTaker();
  TraceTaker(const TraceTaker&) = delete;
  TraceTaker& operator=(const TraceTaker&) = delete;

 private:
  void wanted(const TraceOrder& order);
  void run();
  void take(const TraceOrder& order);
  void send(const TraceOrder& order, TraceRecording& recording, const GpuActivity& gpu,
            const ClockMap& clock);
  [[nodiscard]] ClockOffset ask_clock(std::int64_t trace);
  [[nodiscard]] std::chrono::milliseconds patience();
  [[nodiscard]] bool on_gpu() const { return device_ != "cpu"; }

  TraceRecorder& recorder_;
  CoordinatorClient* const client_;
  const std::string device_;
  GpuRecorder gpu_;  // used by thread_
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::optional<TraceOrder> order_;  // an order that has not started
  std::int64_t newest_ = 0;          // the id of the last order
  bool ended_ = false;
  std::optional<TimePoint> send_until_;  // empty: training continues
  std::thread thread_;                   // declared last, because it uses all members above
};

}  // namespace pfc
