// The worker's connection to the coordinator. No other file of the worker uses the protocol.
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
#include "worker/coordinator_link/check_finding.h"
#include "worker/coordinator_link/progress.h"
#include "worker/coordinator_link/trace_part.h"

namespace pfc {

/// Purpose of a generation. A check has two: in the first each worker checks its host, in the
/// second all workers run the checks that need all of them (docs/check.md).
enum class GenerationKind { kTraining, kCheckAlone, kCheckTogether };

struct JoinResult {
  Membership membership;
  std::string job_json;              ///< the coordinator's job, with overrides applied
  std::string peer_address;          ///< this host's address as its peers see it
  std::string host;                  ///< this host's name as in --hosts
  std::int64_t checkpoint_step = 0;  ///< step of the job's newest checkpoint; 0 if there is none
  std::string checkpoint_host;       ///< the only host that has it; empty if all hosts see it
  int planned_workers = 0;  ///< workers that trained the first step; 0 if no step was trained
  GenerationKind kind = GenerationKind::kTraining;
};

/// Thread-safe, except join(). REQUIRES: join() is called before any other function except
/// finish(). During training, a lost connection is not an error: the client reconnects as soon as
/// it can, and keeps the newest report until then.
class CoordinatorClient : public KeyValueStore {
 public:
  /// Blocks until every worker of the generation has joined. After finish() has ended a
  /// generation, it waits for the next one. Throws CommError that names the missing ranks after
  /// the timeout, or that says that another worker or job has replaced this one.
  virtual JoinResult join(std::chrono::milliseconds timeout) = 0;

  /// Does not wait for the network. Replaces an unsent report, but adds its phases to the new one.
  virtual void report(const Progress& progress) = 0;
  /// Reports findings of a check. Returns the coordinator's time of receipt. Throws CommError.
  virtual std::chrono::system_clock::time_point report_check(
      const std::vector<CheckFinding>& findings) = 0;
  /// `listener` is called for each requested trace, on a thread of this object. It must not block.
  /// A new listener replaces the previous one, and an empty one removes it. After this returns,
  /// the previous listener is neither running nor called again.
  virtual void on_trace(std::function<void(const TraceOrder&)> listener) = 0;
  /// Returns the coordinator's time when it received the part. A part without spans and summary
  /// only queries the coordinator's clock. Throws CommError when the coordinator does not accept
  /// the part in time.
  virtual WallTime send_trace(const TracePart& part, std::chrono::milliseconds timeout) = 0;
  /// Returns whether the coordinator wants the job to write a checkpoint and stop.
  [[nodiscard]] virtual bool stop_requested() const = 0;
  /// `listener` is called once when a newer generation or another job may begin, with the reason;
  /// the collectives of this generation will not complete then. It is called on a thread of this
  /// object, or inside on_superseded() if such a generation or job may already have begun. A new
  /// listener replaces the previous one, and an empty one removes it. After this returns, the
  /// previous listener is neither running nor called again.
  virtual void on_superseded(std::function<void(const std::string& why)> listener) = 0;

  /// How this worker's part in a generation ended. kBadInput: a retry would fail too. kCommFailed:
  /// another worker or the network is the likely cause, so the coordinator prefers to report
  /// another worker's failure.
  enum class Outcome { kCompleted, kStopped, kFailed, kCommFailed, kBadInput };
  struct Farewell {
    bool told = false;        ///< the coordinator received the report
    bool join_again = false;  ///< the job continues in a new generation: call join()
  };
  /// Reports the end and waits until the coordinator has received it: a few seconds, or
  /// CoordinatorClientOptions::grace if that is longer. message: one line that describes the
  /// failure; empty if there was none.
  virtual Farewell finish(Outcome outcome, const std::string& message) = 0;
};

struct CoordinatorClientOptions {
  std::string address;         ///< host:port
  Credential credential = {};  ///< empty: plaintext
  std::string job_id;
  // Identity of this process, as assigned by its agent.
  std::string agent_id;
  int slot = 0;
  std::int64_t incarnation = 1;
  /// How long join() and finish() wait for a coordinator, because another one may take over.
  std::chrono::milliseconds grace{0};
  std::function<bool()> gives_up = {};  ///< returns whether this process must end
};
std::unique_ptr<CoordinatorClient> connect_to_coordinator(const CoordinatorClientOptions& options);

}  // namespace pfc
