// Connects a worker to the other workers of its job.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "common/trace/recorder.h"
#include "kernels/ops.h"
#include "worker/checkpoint/output_links.h"
#include "worker/report/training_log.h"
#include "worker/start/session_options.h"

namespace pfc {

/// All communicators of one worker in one generation. Each belongs to one thread.
struct WorkerComms {
  std::unique_ptr<Comm> step;       ///< for the training thread; tensors on the device
  std::unique_ptr<Comm> gradients;  ///< for the GradReducer; tensors on the device
  std::unique_ptr<Comm> inputs;     ///< for the thread of StepInputs; tensors in host memory
  std::unique_ptr<Comm> gpu_host;   ///< returned by host() on a GPU; nullptr on a CPU
  /// For the thread of the SnapshotMaker; tensors in host memory. Null without snapshots.
  std::unique_ptr<Comm> snapshots;
  std::vector<std::string> hosts;  ///< by rank, for messages; empty: the job has one host
  OutputLinks output;              ///< used by the checkpoint writer
  std::uint64_t nccl_bytes = 0;    ///< GPU memory taken while NCCL connected
  std::list<AbortSwitch::Guard> guards;

  /// For tensors in host memory, and barriers between steps. Belongs to the training thread.
  [[nodiscard]] Comm& host() const { return gpu_host ? *gpu_host : *step; }
  [[nodiscard]] Communicated counters() const;
};

/// Connects to all workers, with a communicator for snapshots if `snapshots`. Borrows `ops`,
/// `trace` and what `options` borrows. Collective. Throws CommError.
WorkerComms connect_workers(Ops& ops, const SessionOptions& options, bool snapshots,
                            TraceRecorder& trace);

/// If the job has several hosts, finds the workers that see rank 0's output folder, and connects
/// the other workers to rank 0. REQUIRES: comms.hosts is set. Collective. Throws CommError,
/// StorageError.
void link_output(WorkerComms& comms, const SessionOptions& options,
                 const std::filesystem::path& output, TraceRecorder& trace);

/// Returns the decrease of free GPU memory since `free_before`.
std::uint64_t taken_since(std::size_t free_before, const Ops& ops);

}  // namespace pfc
