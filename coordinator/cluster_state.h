// What the coordinator knows, as plain values. Only its event loop touches it; rendezvous, health,
// metrics and the status page read it.
#pragma once

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
  bool registered = false;  ///< an agent holds (or held, within its lease) the host
  std::string agent_id;
  std::string address;  ///< as its peers reach it
  int cores = 0;
  std::vector<std::string> devices;
  std::string no_gpu;  ///< why its workers have no GPU; empty: they have
  TimePoint last_heard;
};

/// What a worker said when it ended.
struct WorkerReport {
  proto::Outcome outcome = proto::OUTCOME_UNKNOWN;
  std::string message;
  TimePoint at;
};

struct WorkerState {
  Rank rank = 0;
  std::string host;
  int slot = 0;
  pid_t pid = 0;  ///< 0: its agent has not started it yet
  bool joined = false;
  bool training = false;  ///< it has sent progress
  std::optional<WorkerReport> report;
  std::optional<ProcessExit> exit;
  TimePoint last_heard;
  TimePoint last_moved;  ///< its step or phase changed: progress, not only liveness
  proto::Progress progress;
};

/// Something that ends the job. A lower kind is nearer to the root: a peer's complaint about a
/// broken connection is caused by the crash that broke it.
struct Failure {
  enum class Kind { kCrash, kSilence, kPeerLost };
  Kind kind = Kind::kCrash;
  std::optional<Rank> rank;
  std::string cause;      ///< one line that names who and why
  bool at_start = false;  ///< training had not begun: host or worker never came
  TimePoint at;
};

struct StopRequest {
  std::string reason;   ///< "SIGINT"
  bool urgent = false;  ///< do not wait for checkpoints
  TimePoint at;
};

struct ClusterState {
  std::string address;  ///< host:port by which agents reach the coordinator
  TimePoint started_at;
  Generation generation = 0;  ///< 0: none has begun
  TimePoint generation_started_at;
  std::vector<HostState> hosts;      ///< in the order given
  std::vector<WorkerState> workers;  ///< of this generation, by rank
  std::vector<Failure> failures;     ///< in order of arrival; after the first the job only ends
  std::optional<StopRequest> stop;
  bool stop_sent = false;                  ///< workers were asked to checkpoint and end
  std::optional<TimePoint> terminated_at;  ///< SIGTERM was sent to what was left
  std::optional<TimePoint> killed_at;      ///< SIGKILL likewise
};

HostState* find_host(ClusterState& state, const std::string& name);
WorkerState* find_worker(ClusterState& state, Rank rank);

bool all_joined(const ClusterState& state);
bool all_exited(const ClusterState& state);

/// "rank 1 (host localhost, slot 1, pid 4711)"
std::string name_of(const WorkerState& worker);
/// The workers that have not joined, and the hosts that have not registered: "a, b".
std::string missing_workers(const ClusterState& state);
std::string missing_hosts(const ClusterState& state);

/// A host's agent has told what the host has. Slots that were not given become one a GPU, and one
/// where there is none or the job wants none (device "cpu").
void host_registered(HostState& host, const proto::AgentRegistration& registration,
                     DeviceChoice device, TimePoint now);
/// A worker's process has ended: keeps how, and adds a failure unless it had reported its end. What
/// happens after SIGTERM or SIGKILL was our doing, and no failure.
void worker_exited(ClusterState& state, WorkerState& worker, const ProcessExit& exit,
                   const std::vector<std::string>& last_stderr, TimePoint now);
/// Its agent could not start the worker's program.
void worker_not_started(ClusterState& state, WorkerState& worker, const std::string& why,
                        TimePoint now);
/// A worker has told its own end; a failure is added when it was one.
void worker_reported(ClusterState& state, WorkerState& worker, proto::Outcome outcome,
                     const std::string& message, TimePoint now);

}  // namespace pfc
