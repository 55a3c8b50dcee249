// State of hosts and workers as plain values, and the changes that events make to it. Used on the
// coordinator's event loop only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/config/config.h"
#include "common/ids.h"
#include "common/process/child_process.h"
#include "coordinator/rules/blame/blame.h"
#include "coordinator/rules/blame/restart_budget.h"
#include "coordinator/rules/host_addresses.h"
#include "coordinator/rules/progress/pace.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// A request to drain a host.
struct Leaving {
  std::string reason;  ///< what requested it: "SIGTERM"
  std::chrono::milliseconds within{0};
  TimePoint at;
};

struct HostState {
  std::string name;
  int slots = 0;             ///< 0: one per GPU, known after registration
  bool counts_gpus = false;  ///< the user gave no `slots`; depends on the job's device
  bool local = false;
  bool resolves = true;     ///< this machine can resolve its name
  bool answered = true;     ///< false: no name server has answered the lookup of its name
  bool registered = false;  ///< its agent has registered, and may be silent
  std::string agent_id;
  bool once = false;  ///< the agent ends with the job
  /// Set while the host is drained: no worker starts there until another agent registers.
  std::optional<Leaving> leaving;
  std::vector<std::string> former_agents;  ///< ids of the last replaced agents
  std::string peer;                        ///< address from which its agent connects
  std::string address;                     ///< `peer`, or an address that other hosts can reach
  std::vector<HostAddress> addresses;      ///< reported by its agent
  /// Address chosen by the network measurement for its workers; empty: not measured.
  std::optional<HostAddress> chosen;
  int cores = 0;
  std::vector<std::string> devices;
  int gpus = 0;
  std::string no_gpu;  ///< why there is no GPU; empty: there is one
  TimePoint came_at;   ///< when this agent registered
  TimePoint last_heard;
  /// First rank of the host in this generation; ranks follow the slots. If the host has no worker:
  /// the first rank of the next host.
  Rank first_rank = 0;
  int workers = 0;               ///< number of its workers in this generation
  std::int64_t incarnation = 0;  ///< number of the newest worker process requested there
};

/// Report of a worker when it ended.
struct WorkerReport {
  proto::Outcome outcome = proto::OUTCOME_UNKNOWN;
  std::string message;
  TimePoint at;
};

/// What a worker's process is doing; requested from its agent before the worker is blamed.
struct WorkerDescription {
  TimePoint asked_at;
  bool answered = false;
  std::string text;  ///< "state T (stopped); main thread in futex (do_signal_stop)"
};

struct WorkerState {
  Rank rank = 0;
  std::string host;
  int slot = 0;
  std::int64_t incarnation = 1;  ///< number of this process; unique within its slot
  pid_t pid = 0;                 ///< 0: not started yet
  bool stayed = false;           ///< its process stayed from the last generation
  bool joined = false;
  bool left = false;      ///< lost its peers; joins the next generation
  bool paused = false;    ///< saved with the others; joins the next generation
  bool training = false;  ///< has reported that its first step has begun
  std::optional<WorkerReport> report;
  std::optional<ProcessExit> exit;
  TimePoint last_heard;
  TimePoint last_moved;  ///< last change of its step, phase, `work` or number of collectives
  proto::Progress progress;
  std::optional<WorkerDescription> description;  ///< empty: not requested
};

/// A failure that ends a generation. The job then continues in the next one, or ends.
struct Incident {
  /// Lower kinds are more likely causes: a crash breaks connections, which peers report as
  /// kPeerLost.
  enum class Kind { kCrash, kSilence, kPeerLost };
  Kind kind = Kind::kCrash;
  std::optional<Rank> rank;  ///< rank of the failed worker
  std::string host;          ///< host that was lost with all its workers; empty: none
  std::string who;           ///< "rank 1 (host b, slot 0)", "host b"
  std::string what;          ///< what happened, one line
  bool at_start = false;     ///< happened before training: a host or worker never came
  bool permanent = false;    ///< would happen again: bad input, a program that cannot start
  TimePoint at;

  [[nodiscard]] std::string text() const { return who + ": " + what; }
};

struct StopRequest {
  std::string reason;   ///< "SIGINT"
  bool urgent = false;  ///< end the workers now: SIGTERM, soon SIGKILL
  TimePoint at;
  std::string leaving;                  ///< host being drained; empty: a request to end the job
  std::chrono::milliseconds within{0};  ///< drained host: time for a checkpoint
};

/// A planned end of a generation: the workers continue in another one after a checkpoint.
struct Regroup {
  std::string reason;  ///< "host b is leaving (SIGTERM)"
  TimePoint at;
  std::chrono::milliseconds within{0};  ///< time for the checkpoint
};

/// A generation: a fixed set of workers that train together. Discarded when the next one begins.
struct GenerationState {
  Generation number = 0;  ///< 0: none
  TimePoint started_at;
  std::vector<WorkerState> workers;  ///< by rank
  std::size_t joined = 0;            ///< number of workers that have joined
  bool begun = false;                ///< all have joined and were notified
  std::vector<Incident> incidents;   ///< in order of arrival; each one ends the generation
  Pace pace;                         ///< durations of its steps, checkpoints and evaluations
  bool counted = false;              ///< its end was counted in JobState::blame and ::budget
  std::optional<Regroup> regroup;    ///< planned end
  bool stop_sent = false;            ///< workers were asked to checkpoint and end, or regroup
  /// The generation was lost together with its coordinator. Does not count as a failure.
  bool lost = false;
};

/// A process that holds its own rows of a snapshot, and replicas of another process's rows.
struct SnapshotPart {
  std::string host;
  int slot = 0;
  std::int64_t incarnation = 0;  ///< as in WorkerState
};

/// The newest state from which a generation can resume.
struct SavedState {
  Generation generation = 0;         ///< generation that reported this state
  std::int64_t step = 0;             ///< 0: none
  TimePoint at;                      ///< time of the last publication
  std::int64_t memory_step = 0;      ///< newest snapshot in the workers' memory; 0: none
  Generation memory_generation = 0;  ///< generation that took this snapshot
  /// The processes that hold the snapshot, by their rank in memory_generation. Set when the next
  /// generation begins. Lost in a takeover.
  std::vector<SnapshotPart> memory_parts;
  std::int64_t checkpoint_step = 0;  ///< step of the newest checkpoint on disk; 0: none
  std::string checkpoint_writer;     ///< host of rank 0 when this checkpoint was written
  /// The only host whose output folder has this checkpoint, or will have the first one. Empty:
  /// all hosts share the folder.
  std::string checkpoint_host;
  /// Set when workers of several hosts have reported whether they share the output folder.
  bool sharing_is_known = false;
  /// Number of workers that trained the first step; 0: no step was trained. A job that restarts at
  /// step 1 with fewer workers keeps the plan of its steps that was made for this number.
  int planned_workers = 0;
};

/// The current network measurement, or the result of the last one.
struct NetworkState {
  /// Id of each host's agent; an empty id: the host did not take part. Empty list: not measured.
  std::vector<std::string> agents;
  std::optional<TimePoint> ended_at;  ///< empty: running
  bool failed = false;
  bool changed = false;  ///< a host's address differs from the one sent to the current generation
  std::string text;      ///< NetworkChoice::text of the last finished measurement
  /// If failed: the hosts without which all others reach each other. Empty: unknown.
  std::vector<std::string> apart;
};

/// A job. The next one replaces it.
struct JobState {
  std::string id;  ///< random and unique; empty: no job is running
  TimePoint started_at;
  GenerationState current;
  int restarts = 0;                      ///< earlier generations that failed
  std::optional<Incident> last_restart;  ///< what ended the last of these generations
  FailureHistory blame;
  RestartBudget budget;
  SavedState saved;
  DeviceChoice device = DeviceChoice::kAuto;  ///< device that the job uses
  /// Maximum number of workers among which the data can be divided, as reported; 0: unknown.
  int most_workers = 0;
  /// Minimum number of workers to train with, as rank 0 has reported; 0: unknown.
  int least_workers = 0;
  std::optional<StopRequest> stop;
  std::optional<TimePoint> terminated_at;  ///< SIGTERM was sent to the remaining workers
  std::optional<TimePoint> killed_at;      ///< SIGKILL was sent to the remaining workers
};

/// The hosts, which stay from job to job, and the current job.
struct ClusterState {
  std::string address;           ///< host:port at which agents reach the coordinator
  std::string launch_advice;     ///< how the scheduler starts the agents; empty: by hand
  std::string refused_agent;     ///< reason of the last refusal of an agent; empty: none
  std::vector<HostState> hosts;  ///< in the order given
  NetworkState network;
  JobState job;
};

/// Adds an incident. All incidents are added here. If it names a host, the host must register
/// again, and its workers are lost.
void add_incident(ClusterState& state, Incident incident);

/// Moves all start times of timeouts by `gap` into the future.
void postpone(ClusterState& state, Clock::duration gap);

HostState* find_host(ClusterState& state, const std::string& name);
WorkerState* find_worker(ClusterState& state, Rank rank);
/// Returns the worker with this incarnation in the slot; null if there is none.
WorkerState* find_worker(ClusterState& state, const HostState& host, int slot,
                         std::int64_t incarnation);
/// Returns the worker with this id; null if there is none, or if its agent has been replaced.
WorkerState* find_worker(ClusterState& state, const proto::WorkerId& id);

/// Records that a worker of this generation has joined.
void worker_joined(ClusterState& state, WorkerState& worker);
bool all_joined(const ClusterState& state);
/// Returns whether the worker has reported that its work is complete.
bool has_completed(const WorkerState& worker);
/// Returns whether the worker has reported completion or a requested stop.
bool has_ended_well(const WorkerState& worker);
/// Returns whether the worker still takes part in this generation.
bool takes_part(const WorkerState& worker);
bool all_exited(const ClusterState& state);

/// Returns a message that names the agents that keep running after the job, and how to end them.
/// Empty if all end. Pure.
std::string staying_agents(const ClusterState& state);

/// Returns the address at which the host's workers are reached.
inline const std::string& peer_address(const HostState& host) {
  return host.chosen ? host.chosen->address : host.address;
}
/// Returns "rank 1 (host localhost, slot 1, pid 4711)".
std::string name_of(const WorkerState& worker);
/// Returns the workers that have not joined: "rank 1 (host b, slot 0), rank 2 (host b, slot 1)".
std::string missing_workers(const ClusterState& state);
/// Lists the first 16 names and the number of others: "a, b, c and 1997 more".
std::string listed(const std::vector<std::string>& names);
/// Returns the hosts that have not registered: "a, b".
std::string missing_hosts(const ClusterState& state);

/// Registers a host's agent. A host without a given number of slots gets one per GPU, or one if it
/// has no GPU or the job's device is "cpu".
void host_registered(HostState& host, const proto::AgentRegistration& registration,
                     DeviceChoice device, TimePoint now);
/// Begins to drain a host.
void host_leaves(HostState& host, const std::string& reason, std::chrono::milliseconds within,
                 TimePoint now);
/// Records that an agent was replaced, so that it is refused from now on.
void agent_left_behind(HostState& host, const std::string& agent_id);
/// Begins the next job. Hosts without a given number of slots get those of its device.
void begin_job(ClusterState& state, const std::string& id, DeviceChoice device, TimePoint now);
/// Ends the job; no job is running afterwards.
void end_job(ClusterState& state, TimePoint now);
/// Without a job: requires hosts with silent agents to register again. Returns their names.
std::vector<std::string> release_silent_hosts(ClusterState& state,
                                              std::chrono::milliseconds silence, TimePoint now);
/// Records that the host's agent was replaced, which ended the old agent's workers. If not all
/// workers have joined yet, new processes of these workers are started. Otherwise the
/// replacement is an incident.
void agent_replaced(ClusterState& state, HostState& host, TimePoint now);
/// Records the exit of a worker's process. It is an incident unless the worker had reported its
/// end, or the coordinator had sent SIGTERM or SIGKILL. If the worker had stayed from the last
/// generation and had not joined the current one, it counts as lost with the last generation: it is
/// replaced immediately, and the function returns true.
bool worker_exited(ClusterState& state, WorkerState& worker, const ProcessExit& exit,
                   const std::vector<std::string>& last_stderr, TimePoint now);
/// Records that the agent could not start the worker's program.
void worker_not_started(ClusterState& state, WorkerState& worker, const std::string& why,
                        TimePoint now);
/// Records a worker's report of its end. It is an incident unless the worker completed, or stopped
/// on request.
void worker_reported(ClusterState& state, WorkerState& worker, proto::Outcome outcome,
                     const std::string& message, TimePoint now);
/// Records the newest step to resume from, as reported by rank 0. The first report names the step
/// that the generation resumed from; later ones are new, and may refill the restart budget.
void state_saved(ClusterState& state, std::int64_t step, TimePoint now);
/// Records that the generation was lost with its coordinator. Removes its incidents of lost peers,
/// because the loss explains them.
void generation_lost(ClusterState& state);
/// Records where the newest checkpoint is, as rank 0 reports it.
void checkpoint_reported(ClusterState& state, const WorkerState& rank_zero,
                         const proto::Progress& progress);
/// Returns whether a worker that has stopped on request continues in the next generation.
bool may_pause(const ClusterState& state, const WorkerState& worker);
/// Records that the worker continues in the next generation.
void worker_paused(WorkerState& worker);
/// Records that a worker has lost its peers and will join the next generation.
void worker_left(ClusterState& state, WorkerState& worker, const std::string& message,
                 TimePoint now);

}  // namespace pfc
