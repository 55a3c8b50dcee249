// The worker's connection to the coordinator.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/ids.h"
#include "worker/comm/key_value_store.h"

namespace pfc {

/// What a worker reports about itself.
struct Progress {
  std::int64_t step = 0;
  std::int64_t total_steps = 0;
  std::int64_t epoch = 0;
  std::string phase;  ///< what it does now: "forward", "all_gather", "checkpoint"
  double loss = 0;
  double lr = 0;
  double samples_per_second = 0;  ///< this worker
  double data_wait_seconds = 0;   ///< total since the start
  std::uint64_t memory_used_bytes = 0;
  std::string device;  ///< "cpu", "cuda:0"
  struct PhaseSeconds {
    std::string phase;
    double seconds = 0;
  };
  std::vector<PhaseSeconds> phases;  ///< samples since the last report: go into histograms
  std::uint64_t comm_bytes = 0;      ///< total since the start
  std::uint64_t comm_calls = 0;
  std::uint64_t skipped_images = 0;
};

struct JoinResult {
  Membership membership;
  std::string job_json;      ///< the job as the coordinator has it, overrides applied
  std::string peer_address;  ///< this host's address as its peers see it
};

/// Thread-safe. It reconnects by itself when the connection is lost during training, and then sends
/// the newest report.
class CoordinatorClient : public KeyValueStore {
 public:
  /// Blocks until every rank of the generation has joined. Throws CommError that names who is
  /// missing after the timeout, or that the generation is an old one.
  virtual JoinResult join(std::chrono::milliseconds timeout) = 0;

  virtual void report(const Progress& progress) = 0;  ///< never blocks; the newest one is sent
  /// Whether the coordinator wants the workers to write a checkpoint and end.
  [[nodiscard]] virtual bool stop_requested() const = 0;
  /// Whether a newer generation has begun, so that this worker should end its collectives.
  [[nodiscard]] virtual bool superseded() const = 0;
  /// Reports how this worker has ended: completed, stopped after a checkpoint, or failed, with one
  /// line that says why. kCommFailed (a CommError) means that the cause is another worker. Waits
  /// a few seconds for the coordinator; returns whether it has got the report.
  enum class Outcome { kCompleted, kStopped, kFailed, kCommFailed };
  virtual bool finish(Outcome outcome, const std::string& message) = 0;
};

struct CoordinatorClientOptions {
  std::string address;  ///< host:port
  Rank rank = 0;        ///< given by the coordinator
  Generation generation = 1;
};
std::unique_ptr<CoordinatorClient> connect_to_coordinator(const CoordinatorClientOptions& options);

}  // namespace pfc
