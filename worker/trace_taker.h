// Records the steps of which the coordinator wants a trace, and sends them.
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
#include "worker/report/coordinator_client.h"

namespace pfc {

/// Of one generation. A thread of its own asks for the clock and sends, so that training does not
/// wait for it. The destructor ends a recording that goes on, because no step follows, and sends
/// what there is: it begins no message after kLastParts.
class TraceTaker {
 public:
  static constexpr std::chrono::milliseconds kLastParts{3'000};

  /// Borrows both; `client` may be null: then nobody wants a trace. device: "cpu", "cuda:0", which
  /// is traced by the first of the libraries `cupti` that is there.
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
  std::optional<TraceOrder> order_;  // not begun yet
  std::int64_t newest_ = 0;          // the id of the last order
  bool ended_ = false;
  std::optional<TimePoint> send_until_;  // empty: training goes on
  std::thread thread_;                   // last: it uses all of the above
};

}  // namespace pfc
