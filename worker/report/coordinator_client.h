// The worker's connection to the coordinator. No other file of the worker knows the protocol.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/ids.h"
#include "security/credential.h"
#include "worker/comm/key_value_store.h"

namespace pfc {

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

    friend bool operator==(const CommTotal&, const CommTotal&) = default;
  };
  std::vector<CommTotal> comm;       ///< since the start
  std::uint64_t skipped_images = 0;  ///< since the start
  /// Of rank 0: the newest step that another generation can go on from; 0: none.
  std::int64_t saved_step = 0;
  std::int64_t images_seen = 0;     ///< by the state of the model, of all workers
  std::int64_t resumed_images = 0;  ///< by the state from which this generation began
  int most_workers = 0;             ///< that the job can use
};

struct JoinResult {
  Membership membership;
  std::string job_json;      ///< the job as the coordinator has it, with overrides applied
  std::string peer_address;  ///< this host's address, as its peers see it
  std::string host;          ///< this host's name, as --hosts has it
};

/// Thread-safe, but for join(), and REQUIRES join() before everything but finish(). The loss of the
/// connection is no error while training: the client connects again as soon as it can, and keeps
/// the newest report until then.
class CoordinatorClient : public KeyValueStore {
 public:
  /// Blocks until every worker of the generation has joined; after a generation, which finish() has
  /// ended, of the next one. Throws CommError that names the missing ranks when the timeout has
  /// passed, or says that another worker or job has taken this one's place.
  virtual JoinResult join(std::chrono::milliseconds timeout) = 0;

  /// Does not wait for the network. A report that has not been sent yet is replaced, but for its
  /// phases, which are added to those of the new one.
  virtual void report(const Progress& progress) = 0;
  /// Whether the coordinator wants the job to write a checkpoint and end.
  [[nodiscard]] virtual bool stop_requested() const = 0;
  /// A newer generation or another job may begin: then the collectives of this one do not complete.
  /// `listener` is called once when that is so, with the reason, on a thread of this object, or in
  /// this call when it is so already. A new listener replaces the last one, and
  /// an empty one removes it: after that it is not called, nor does it run any more.
  virtual void on_superseded(std::function<void(const std::string& why)> listener) = 0;

  /// How this worker's work in a generation has ended. kBadInput: it would fail again. kCommFailed:
  /// another worker or the network is the likely cause, so that the coordinator prefers a failure
  /// of another worker.
  enum class Outcome { kCompleted, kStopped, kFailed, kCommFailed, kBadInput };
  struct Farewell {
    bool told = false;        ///< the coordinator has got the report
    bool join_again = false;  ///< the job goes on without this generation: join()
  };
  /// Reports the end, and waits for the coordinator to get it: a few seconds, or
  /// CoordinatorClientOptions::grace where that is longer. message: one line that says what went
  /// wrong; empty otherwise.
  virtual Farewell finish(Outcome outcome, const std::string& message) = 0;
};

struct CoordinatorClientOptions {
  std::string address;         ///< host:port
  Credential credential = {};  ///< none: plaintext
  std::string job_id;
  // Which process this is, as its agent says.
  std::string agent_id;
  int slot = 0;
  std::int64_t incarnation = 1;
  /// How long a coordinator that cannot be reached is waited for, by join() and finish(): another
  /// one may take its place.
  std::chrono::milliseconds grace{0};
  std::function<bool()> gives_up = {};  ///< nobody waits for it any more: it was told to end
};
std::unique_ptr<CoordinatorClient> connect_to_coordinator(const CoordinatorClientOptions& options);

}  // namespace pfc
