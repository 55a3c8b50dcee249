// What a worker tells the coordinator about itself.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/comm_count.h"
#include "common/machine/gpu/gpu_telemetry.h"

namespace pfc {

/// How often each of so many workers tells how far it is: about 200 reports a second come to the
/// coordinator, which costs it a few hundredths of a core, and none of them is older than 5 s.
constexpr std::chrono::milliseconds report_pause(int workers) {
  return std::chrono::milliseconds{std::clamp(5 * workers, 100, 5'000)};
}

/// What changes while nothing else does.
struct ProcessVitals {
  double cpu_seconds = 0;  ///< of the process, since its start
  std::optional<GpuReading> gpu = {};
};

/// What a worker reports about itself. That a report arrives shows that the worker lives; what it
/// says shows whether training goes on.
struct Progress {
  bool starting = false;  ///< the first step has not begun; `phase` says what is done instead
  std::int64_t work = 0;  ///< while starting: grows while this process computes or reads
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  std::int64_t epoch = 0;
  std::string phase;  ///< that runs now: "forward", "all_gather", "checkpoint"
  double loss = 0;
  double lr = 0;
  double samples_per_second = 0;       ///< this worker
  double data_wait_seconds = 0;        ///< of all steps since the start
  double own_seconds = 0;              ///< likewise: not waiting for other workers
  std::uint64_t resident_bytes = 0;    ///< host memory of the process
  std::uint64_t gpu_memory_bytes = 0;  ///< in use on its GPU, by any process; 0 on a CPU
  std::string device;                  ///< "cpu", "cuda:0"
  struct PhaseSeconds {
    std::string phase;
    double seconds = 0;
  };
  std::vector<PhaseSeconds> phases;  ///< that have ended since the last report
  struct CommTotal {
    std::string purpose;      ///< of the communicator: "step", "gradients"
    std::uint64_t calls = 0;  ///< begun
    std::uint64_t done = 0;
    std::string newest;  ///< "all_gather"
    std::uint64_t sent_bytes = 0;
    std::array<CollectiveTotals, kCollectiveKinds> kinds = {};

    friend bool operator==(const CommTotal&, const CommTotal&) = default;
  };
  std::vector<CommTotal> comm;       ///< since the start
  std::uint64_t skipped_images = 0;  ///< since the start
  /// Of rank 0: the newest step that another generation can go on from; 0: none.
  std::int64_t saved_step = 0;
  /// Of rank 0: of the newest checkpoint in its output folder; 0: none that it knows.
  std::int64_t checkpoint_step = 0;
  std::int64_t memory_step = 0;  ///< of rank 0: of the newest state in all workers' memory; 0: none
  bool output_unshared = false;  ///< a host of the job does not see this folder
  std::int64_t images_seen = 0;  ///< by the state of the model, of all workers
  std::int64_t resumed_images = 0;  ///< by the state from which this generation began
  int most_workers = 0;             ///< that the job can use
  int least_workers = 0;            ///< that it can train with

  // Since the start.
  std::uint64_t samples = 0;  ///< that this worker has trained on
  std::uint64_t steps = 0;
  double step_seconds = 0;           ///< of all steps
  double own_data_wait_seconds = 0;  ///< of data_wait_seconds: its own data were not there
  double loader_seconds = 0;         ///< of all threads that read and decode, together
  struct Checkpoints {
    std::uint64_t count = 0;  ///< published
    double seconds = 0;       ///< from the begin of each to its final name
    double held_seconds = 0;  ///< in which training waited for them
    std::uint64_t bytes = 0;  ///< of all workers' files
    double newest_seconds = 0;
    std::uint64_t newest_bytes = 0;
  };
  Checkpoints checkpoints;  ///< of rank 0

  int loader_threads = 0;
  double gradient_norm = 0;  ///< of the last step, before clipping
  double loss_scale = 0;     ///< 0: the job has none
  ProcessVitals vitals = {};
};

}  // namespace pfc
