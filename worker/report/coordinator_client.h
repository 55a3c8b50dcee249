// The worker's connection to the coordinator. No other file of the worker knows the protocol.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/key_value_store.h"
#include "common/ids.h"
#include "security/credential.h"
#include "worker/report/check_finding.h"
#include "worker/report/progress.h"
#include "worker/report/trace_part.h"

namespace pfc {

/// What a generation is for. A check has two: first each worker looks at its host, then all do what
/// they can do only together (docs/check.md).
enum class GenerationKind { kTraining, kCheckAlone, kCheckTogether };

struct JoinResult {
  Membership membership;
  std::string job_json;              ///< the job as the coordinator has it, with overrides applied
  std::string peer_address;          ///< this host's address, as its peers see it
  std::string host;                  ///< this host's name, as --hosts has it
  std::int64_t checkpoint_step = 0;  ///< of the job's newest checkpoint; 0: there is none
  std::string checkpoint_host;       ///< whose output folder alone has it; empty: all hosts see it
  int planned_workers = 0;  ///< workers that trained the first step; 0: no step was trained
  GenerationKind kind = GenerationKind::kTraining;
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
  /// Of a check: tells what was found. Returns the coordinator's clock, as it was when that came
  /// there. Throws CommError.
  virtual std::chrono::system_clock::time_point report_check(
      const std::vector<CheckFinding>& findings) = 0;
  /// `listener` is called for each trace that the coordinator wants, on a thread of this object. It
  /// REQUIRES: it does not wait. A new listener replaces the last one, and an empty one removes it:
  /// after that it is not called, nor does it run any more.
  virtual void on_trace(std::function<void(const TraceOrder&)> listener) = 0;
  /// Returns the coordinator's clock, as it was when the part came there. Without spans and summary
  /// it only asks for the clock. Throws CommError when the coordinator does not take it in time.
  virtual WallTime send_trace(const TracePart& part, std::chrono::milliseconds timeout) = 0;
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
