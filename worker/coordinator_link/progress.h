// Status reports of a worker to the coordinator.
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

/// Returns the interval between reports for this number of workers. The coordinator receives about
/// 200 reports per second, which costs a few hundredths of a core. No report is older than 5 s.
constexpr std::chrono::milliseconds report_pause(int workers) {
  return std::chrono::milliseconds{std::clamp(5 * workers, 100, 5'000)};
}

/// Values that change even while training does not progress.
struct ProcessVitals {
  double cpu_seconds = 0;  ///< CPU time that earlier sessions of the process have not reported
  std::optional<GpuReading> gpu = {};
};

/// A worker's report about itself. Its arrival shows that the worker is alive; its content shows
/// whether training progresses.
struct Progress {
  bool starting = false;  ///< before the first step; `phase` then describes the startup activity
  std::int64_t work = 0;  ///< while starting: increases while this process computes or reads
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  std::int64_t epoch = 0;
  std::string phase;  ///< current phase: "forward", "all_gather", "checkpoint"
  double loss = 0;
  std::optional<double> distillation_loss = {};  ///< only if embeddings are compared
  std::optional<double> logits_loss = {};        ///< only if logits are compared
  double lr = 0;
  double samples_per_second = 0;  ///< of this worker
  double data_wait_seconds = 0;   ///< sum over all steps since the start
  double own_seconds = 0;  ///< sum over all steps since the start, without waits for other workers
  std::uint64_t resident_bytes = 0;    ///< host memory of the process
  std::uint64_t gpu_memory_bytes = 0;  ///< memory in use on its GPU, by any process; 0 on a CPU
  std::string device;                  ///< "cpu", "cuda:0"
  struct PhaseSeconds {
    std::string phase;
    double seconds = 0;
  };
  std::vector<PhaseSeconds> phases;  ///< phases that ended since the last report
  struct CommTotal {
    std::string purpose;      ///< purpose of the communicator: "step", "gradients"
    std::uint64_t calls = 0;  ///< number of collectives begun
    std::uint64_t done = 0;
    std::string newest;  ///< newest collective: "all_gather"
    std::uint64_t sent_bytes = 0;
    std::array<CollectiveTotals, kCollectiveKinds> kinds = {};

    friend bool operator==(const CommTotal&, const CommTotal&) = default;
  };
  std::vector<CommTotal> comm;       ///< since the start
  std::uint64_t skipped_images = 0;  ///< since the start
  /// Rank 0 only: newest step from which another generation can continue; 0 if none.
  std::int64_t saved_step = 0;
  /// Rank 0 only: step of the newest checkpoint in its output folder; 0 if none is known.
  std::int64_t checkpoint_step = 0;
  std::int64_t memory_step = 0;  ///< rank 0 only: step of the newest snapshot; 0 if none
  bool output_unshared = false;  ///< a host does not share the output folder
  std::int64_t images_seen = 0;  ///< images on which the model was trained, over all workers
  /// The value of images_seen in the state from which this generation started.
  std::int64_t resumed_images = 0;
  int most_workers = 0;   ///< maximum number of workers that the job can use
  int least_workers = 0;  ///< minimum number of workers that the job can train with

  // Totals since the start.
  std::uint64_t samples = 0;  ///< samples trained by this worker
  std::uint64_t steps = 0;
  double step_seconds = 0;           ///< sum over all steps
  double own_data_wait_seconds = 0;  ///< part of data_wait_seconds caused by this worker's data
  double loader_seconds = 0;         ///< sum over all threads that read and decode
  struct Checkpoints {
    std::uint64_t count = 0;  ///< number of published checkpoints
    double seconds = 0;       ///< from the start to the final name, sum over checkpoints
    double held_seconds = 0;  ///< time that training waited for checkpoints
    std::uint64_t bytes = 0;  ///< size of all workers' files
    double newest_seconds = 0;
    std::uint64_t newest_bytes = 0;
  };
  Checkpoints checkpoints;  ///< rank 0 only

  int loader_threads = 0;
  double gradient_norm = 0;  ///< norm in the last step, before clipping
  double loss_scale = 0;     ///< 0 if the job has none
  ProcessVitals vitals = {};
};

}  // namespace pfc
