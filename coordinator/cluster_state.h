// What the coordinator knows about hosts and workers, as plain values, and how each event changes
// it. Used on the coordinator's event loop only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/config/config.h"
#include "common/ids.h"
#include "common/machine/child_process.h"
#include "proto/coordinator.pb.h"

namespace pfc {

struct HostState {
  std::string name;
  int slots = 0;  ///< 0: as many as it has GPUs; known when it has registered
  bool local = false;
  bool resolves = true;     ///< its name or address is known to this machine
  bool registered = false;  ///< an agent holds (or held, within its lease) the host
  std::string agent_id;
  std::vector<std::string> former_agents;  ///< ids of those that another one has replaced
  std::string peer;                        ///< the address that its agent connects from
  std::string address;                     ///< as its peers reach it
  int cores = 0;
  std::vector<std::string> devices;
  std::string no_gpu;  ///< why its workers have no GPU; empty: they have one
  TimePoint last_heard;
  Rank first_rank = 0;           ///< of its workers in this generation: slot s has first_rank + s
  std::int64_t incarnation = 0;  ///< of the newest workers that were wanted on it
};

/// What a worker reported when it ended.
struct WorkerReport {
  proto::Outcome outcome = proto::OUTCOME_UNKNOWN;
  std::string message;
  TimePoint at;
};

struct WorkerState {
  Rank rank = 0;
  std::string host;
  int slot = 0;
  std::int64_t incarnation = 1;  ///< of the process: another one in the same slot has another
  pid_t pid = 0;                 ///< 0: its agent has not started it yet
  bool joined = false;
  bool training = false;  ///< it has told that its first step has begun
  std::optional<WorkerReport> report;
  std::optional<ProcessExit> exit;
  TimePoint last_heard;
  TimePoint last_moved;  ///< when its step or phase last changed
  proto::Progress progress;
};

/// Something that ends the job.
struct Failure {
  /// A lower kind is more likely the cause of the others: a crash breaks connections, which its
  /// peers then report as kPeerLost.
  enum class Kind { kCrash, kSilence, kPeerLost };
  Kind kind = Kind::kCrash;
  std::optional<Rank> rank;  ///< of the worker that failed
  std::string who;           ///< "rank 1 (host b, slot 0)", "host b"
  std::string what;          ///< what happened, in one line
  bool at_start = false;     ///< training had not begun: a host or worker never came
  TimePoint at;

  [[nodiscard]] std::string text() const { return who + ": " + what; }
};

struct StopRequest {
  std::string reason;   ///< "SIGINT"
  bool urgent = false;  ///< end the workers now: SIGTERM, and soon SIGKILL
  TimePoint at;
};

struct ClusterState {
  std::string job_id;   ///< random, so that no other coordinator's job has it
  std::string address;  ///< host:port by which agents reach the coordinator
  TimePoint started_at;
  Generation generation = 0;  ///< 0: none has begun
  TimePoint generation_started_at;
  std::vector<HostState> hosts;      ///< in the order given
  std::vector<WorkerState> workers;  ///< of this generation, by rank
  std::vector<Failure> failures;     ///< in order of arrival; any failure ends the job
  std::optional<StopRequest> stop;
  bool stop_sent = false;                  ///< workers were asked to checkpoint and end
  std::optional<TimePoint> terminated_at;  ///< SIGTERM was sent to what was left
  std::optional<TimePoint> killed_at;      ///< SIGKILL likewise
};

/// Notes a failure. Every failure comes through here.
void fail(ClusterState& state, Failure failure);

HostState* find_host(ClusterState& state, const std::string& name);
WorkerState* find_worker(ClusterState& state, Rank rank);
/// The worker of a slot; null where there is none, or another process is wanted there.
WorkerState* find_worker(ClusterState& state, const HostState& host, int slot,
                         std::int64_t incarnation);
/// Null also for a worker of an agent that has been replaced.
WorkerState* find_worker(ClusterState& state, const proto::WorkerId& id);

bool all_joined(const ClusterState& state);
bool all_exited(const ClusterState& state);

/// "rank 1 (host localhost, slot 1, pid 4711)"
std::string name_of(const WorkerState& worker);
/// The workers that have not joined: "rank 1 (host b, slot 0), rank 2 (host b, slot 1)".
std::string missing_workers(const ClusterState& state);
/// The hosts that have not registered: "a, b".
std::string missing_hosts(const ClusterState& state);

/// A host's agent has registered. A host without a given number of slots gets one for each GPU, and
/// one where it has no GPU or the job's device is "cpu".
void host_registered(HostState& host, const proto::AgentRegistration& registration,
                     DeviceChoice device, TimePoint now);
/// The host's agent is another process than before, and the workers of the old one have ended with
/// it. As long as not all workers have joined they are wanted again, of a new incarnation; later
/// the job has lost them, which is a failure.
void agent_replaced(ClusterState& state, HostState& host, TimePoint now);
/// A worker's process has ended. That is a failure unless the worker had reported its end, or the
/// coordinator had sent it SIGTERM or SIGKILL.
void worker_exited(ClusterState& state, WorkerState& worker, const ProcessExit& exit,
                   const std::vector<std::string>& last_stderr, TimePoint now);
/// Its agent could not start the worker's program.
void worker_not_started(ClusterState& state, WorkerState& worker, const std::string& why,
                        TimePoint now);
/// A worker has reported its end, which is a failure unless it has completed or stopped.
void worker_reported(ClusterState& state, WorkerState& worker, proto::Outcome outcome,
                     const std::string& message, TimePoint now);

}  // namespace pfc
