// What the coordinator knows about hosts and workers, as plain values, and how each event changes
// it. Used on the coordinator's event loop only.
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
#include "common/machine/child_process.h"
#include "coordinator/blame/blame.h"
#include "coordinator/blame/restart_budget.h"
#include "coordinator/network/host_addresses.h"
#include "coordinator/progress/pace.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// A host must be free soon.
struct Leaving {
  std::string reason;  ///< who says so: "SIGTERM"
  std::chrono::milliseconds within{0};
  TimePoint at;
};

struct HostState {
  std::string name;
  int slots = 0;             ///< 0: as many as it has GPUs; known when it has registered
  bool counts_gpus = false;  ///< slots was not given, and depends on the job's device
  bool local = false;
  bool resolves = true;     ///< its name or address is known to this machine
  bool registered = false;  ///< an agent holds (or held, within its lease) the host
  std::string agent_id;
  bool once = false;  ///< its agent ends with the job
  /// It must be free: no worker is started there before it has another agent.
  std::optional<Leaving> leaving;
  std::vector<std::string> former_agents;  ///< ids of the last that another one has replaced
  std::string peer;                        ///< the address that its agent connects from
  std::string address;                     ///< of its connection, as its peers may reach it
  std::vector<HostAddress> addresses;      ///< that its agent has told
  /// By which its workers are reached, as the network was measured; empty: it was not.
  std::optional<HostAddress> chosen;
  int cores = 0;
  std::vector<std::string> devices;
  int gpus = 0;
  std::string no_gpu;  ///< why its workers have no GPU; empty: they have one
  TimePoint came_at;   ///< when this agent registered
  TimePoint last_heard;
  /// Of its workers in this generation, which have ranks one after another in order of their slots;
  /// without one, that of the next host's first.
  Rank first_rank = 0;
  int workers = 0;               ///< in this generation
  std::int64_t incarnation = 0;  ///< of the newest process that was wanted on it
};

/// What a worker reported when it ended.
struct WorkerReport {
  proto::Outcome outcome = proto::OUTCOME_UNKNOWN;
  std::string message;
  TimePoint at;
};

/// What the process of a worker does, which its agent is asked before the worker is blamed.
struct WorkerDescription {
  TimePoint asked_at;
  bool answered = false;
  std::string text;  ///< "state T (stopped); main thread in futex (do_signal_stop)"
};

struct WorkerState {
  Rank rank = 0;
  std::string host;
  int slot = 0;
  std::int64_t incarnation = 1;  ///< of the process: another one in the same slot has another
  pid_t pid = 0;                 ///< 0: its agent has not started it yet
  bool stayed = false;           ///< its process was of the last generation too
  bool joined = false;
  bool left = false;      ///< it has lost its peers, and joins the next generation
  bool paused = false;    ///< it has saved its state with the others, and joins the next generation
  bool training = false;  ///< it has reported that its first step has begun
  std::optional<WorkerReport> report;
  std::optional<ProcessExit> exit;
  TimePoint last_heard;
  TimePoint last_moved;  ///< when its step or phase, or a number of a collective, last changed
  proto::Progress progress;
  std::optional<WorkerDescription> description;  ///< empty: nobody has asked
};

/// Something that ends a generation: the job goes on in the next one, or ends.
struct Incident {
  /// A lower kind is more likely the cause of the others: a crash breaks connections, which its
  /// peers then report as kPeerLost.
  enum class Kind { kCrash, kSilence, kPeerLost };
  Kind kind = Kind::kCrash;
  std::optional<Rank> rank;  ///< of the worker that failed
  std::string host;          ///< that was lost with all its workers; empty: none was
  std::string who;           ///< "rank 1 (host b, slot 0)", "host b"
  std::string what;          ///< what happened, in one line
  bool at_start = false;     ///< training had not begun: a host or worker never came
  bool permanent = false;    ///< it would happen again: bad input, a program that cannot start
  TimePoint at;

  [[nodiscard]] std::string text() const { return who + ": " + what; }
};

struct StopRequest {
  std::string reason;   ///< "SIGINT"
  bool urgent = false;  ///< end the workers now: SIGTERM, and soon SIGKILL
  TimePoint at;
  std::string leaving;  ///< the host that must be free soon; empty: somebody wants the job to end
  std::chrono::milliseconds within{0};  ///< of a host that leaves: the time for a checkpoint
};

/// The workers go on in another generation after a checkpoint, although nothing has failed.
struct Regroup {
  std::string reason;  ///< "host b is leaving (SIGTERM)"
  TimePoint at;
  std::chrono::milliseconds within{0};  ///< for the checkpoint
};

/// One generation: a fixed set of workers that train together. Forgotten when the next one begins.
struct GenerationState {
  Generation number = 0;  ///< 0: none has begun
  TimePoint started_at;
  std::vector<WorkerState> workers;  ///< by rank
  std::size_t joined = 0;            ///< how many of them have joined
  bool begun = false;                ///< all have, and were told so
  std::vector<Incident> incidents;   ///< in order of arrival; any ends the generation
  Pace pace;                         ///< of its steps, checkpoints and evaluations
  bool counted = false;              ///< what has ended it counts in blame and budget already
  std::optional<Regroup> regroup;    ///< it ends soon, as it was planned
  bool stop_sent = false;            ///< workers were asked to checkpoint and end, or regroup
  /// It could not outlive the coordinator that began it, which is nobody's failure.
  bool lost = false;
};

/// A process that holds its own rows of a snapshot, and copies of another one's.
struct SnapshotPart {
  std::string host;
  int slot = 0;
  std::int64_t incarnation = 0;
};

/// The newest state that a generation can go on from.
struct SavedState {
  Generation generation = 0;         ///< whose rank 0 reported it
  std::int64_t step = 0;             ///< 0: none
  TimePoint at;                      ///< when the last one was published
  std::int64_t memory_step = 0;      ///< of the newest one in the workers' memory; 0: none
  Generation memory_generation = 0;  ///< whose workers hold it
  /// By rank: those workers, if another generation has begun. Empty also after a takeover.
  std::vector<SnapshotPart> memory_parts;
  std::int64_t checkpoint_step = 0;  ///< of the newest one on disk; 0: none
  std::string checkpoint_writer;     ///< rank 0's host when that was written
  /// The only host whose output folder has this checkpoint, or will have the first one; empty: all
  /// hosts share the folder.
  std::string checkpoint_host;
  /// Whether workers of several hosts have reported whether they share the output folder.
  bool sharing_is_known = false;
  /// Number of workers that trained the first step. The job keeps its plan if it restarts at step 1
  /// with fewer workers. 0: no step was trained.
  int planned_workers = 0;
};

/// The network between the hosts, as it was, or is being, measured last.
struct NetworkState {
  /// That took part, by host; an empty one did not. None: it was not measured.
  std::vector<std::string> agents;
  std::optional<TimePoint> ended_at;  ///< empty: it goes on
  bool failed = false;
  bool changed = false;  ///< a host has another address than the current generation was told
  std::string text;      ///< NetworkChoice::text of the last that has ended
  /// Where it has failed: the hosts without which all others reach each other; none: not known.
  std::vector<std::string> apart;
};

/// One job, from its begin to its end. The next job replaces it.
struct JobState {
  std::string id;  ///< random, so that no other job has it; empty: no job runs
  TimePoint started_at;
  GenerationState current;
  int restarts = 0;                      ///< earlier generations that have failed
  std::optional<Incident> last_restart;  ///< what ended the last of them
  FailureHistory blame;
  RestartBudget budget;
  SavedState saved;
  DeviceChoice device = DeviceChoice::kAuto;  ///< that it computes on
  /// With more its data could not be shared out, as its workers have told; 0: they have not.
  int most_workers = 0;
  /// The fewest workers that it can train with, as rank 0 has reported; 0: not known.
  int least_workers = 0;
  std::optional<StopRequest> stop;
  std::optional<TimePoint> terminated_at;  ///< SIGTERM was sent to what was left
  std::optional<TimePoint> killed_at;      ///< SIGKILL likewise
};

/// The hosts, which stay from job to job, and the job that they work on.
struct ClusterState {
  std::string address;        ///< host:port by which agents reach the coordinator
  std::string launch_advice;  ///< how a scheduler starts the agents; empty: each is started by hand
  std::string refused_agent;  ///< why an agent was refused, the last one; empty: none was
  std::vector<HostState> hosts;  ///< in the order given
  NetworkState network;
  JobState job;
};

/// Notes an incident. Every incident comes through here. A host that it names has to register
/// again, and its workers are lost.
void add_incident(ClusterState& state, Incident incident);

/// Moves all times from which somebody's silence or slowness is counted by `gap` towards the
/// future.
void postpone(ClusterState& state, Clock::duration gap);

HostState* find_host(ClusterState& state, const std::string& name);
WorkerState* find_worker(ClusterState& state, Rank rank);
/// The worker of a slot; null where there is none, or another process is wanted there.
WorkerState* find_worker(ClusterState& state, const HostState& host, int slot,
                         std::int64_t incarnation);
/// Null also for a worker of an agent that has been replaced.
WorkerState* find_worker(ClusterState& state, const proto::WorkerId& id);

/// A worker of this generation has joined.
void worker_joined(ClusterState& state, WorkerState& worker);
bool all_joined(const ClusterState& state);
/// Whether the worker has reported that its work is done.
bool has_completed(const WorkerState& worker);
/// Whether the worker has reported that its work is done, or that it has stopped in good order.
bool has_ended_well(const WorkerState& worker);
/// Whether it has still something to do in this generation.
bool takes_part(const WorkerState& worker);
bool all_exited(const ClusterState& state);

/// Returns a message that names the agents that keep running after the job, and how to end them;
/// empty if all end. Pure.
std::string staying_agents(const ClusterState& state);

/// By which the workers of the host are reached.
inline const std::string& peer_address(const HostState& host) {
  return host.chosen ? host.chosen->address : host.address;
}
/// "rank 1 (host localhost, slot 1, pid 4711)"
std::string name_of(const WorkerState& worker);
/// The workers that have not joined: "rank 1 (host b, slot 0), rank 2 (host b, slot 1)".
std::string missing_workers(const ClusterState& state);
/// The first 16 of them, and how many more there are: "a, b, c and 1997 more".
std::string listed(const std::vector<std::string>& names);
/// The hosts that have not registered: "a, b".
std::string missing_hosts(const ClusterState& state);

/// A host's agent has registered. A host without a given number of slots gets one for each GPU, and
/// one where it has no GPU or the job's device is "cpu".
void host_registered(HostState& host, const proto::AgentRegistration& registration,
                     DeviceChoice device, TimePoint now);
/// The host must be free soon.
void host_leaves(HostState& host, const std::string& reason, std::chrono::milliseconds within,
                 TimePoint now);
/// Another agent has the host, and this one is refused from now on.
void agent_left_behind(HostState& host, const std::string& agent_id);
/// The next job begins. Hosts without a given number of slots get those of its device.
void begin_job(ClusterState& state, const std::string& id, DeviceChoice device, TimePoint now);
/// No job runs any more.
void end_job(ClusterState& state, TimePoint now);
/// While no job runs: the hosts whose agents are silent for too long have to register again.
/// Returns their names.
std::vector<std::string> release_silent_hosts(ClusterState& state,
                                              std::chrono::milliseconds silence, TimePoint now);
/// The host's agent is another process than before, and the workers of the old one have ended with
/// it. As long as not all workers have joined they are wanted again, of a new incarnation; later
/// the generation has lost them, which is an incident.
void agent_replaced(ClusterState& state, HostState& host, TimePoint now);
/// A worker's process has ended. That is an incident unless the worker had reported its end, or the
/// coordinator had sent it SIGTERM or SIGKILL. A worker that has stayed from the last generation
/// and has not joined this one was lost with that one, so that another process is wanted in its
/// place at once: true.
bool worker_exited(ClusterState& state, WorkerState& worker, const ProcessExit& exit,
                   const std::vector<std::string>& last_stderr, TimePoint now);
/// Its agent could not start the worker's program.
void worker_not_started(ClusterState& state, WorkerState& worker, const std::string& why,
                        TimePoint now);
/// A worker has reported its end. That is an incident unless it completed, or stopped after the
/// coordinator had asked it to.
void worker_reported(ClusterState& state, WorkerState& worker, proto::Outcome outcome,
                     const std::string& message, TimePoint now);
/// Rank 0 tells the newest step that a generation can go on from: first the one that it has gone on
/// from itself, and what is newer was published now, which may bring a restart back.
void state_saved(ClusterState& state, std::int64_t step, TimePoint now);
/// Records that the workers stopped after too long without a coordinator. The peers that they lost
/// by that are not causes of their own.
void generation_lost(ClusterState& state);
/// Records where the newest checkpoint is, as rank 0 reports it.
void checkpoint_reported(ClusterState& state, const WorkerState& rank_zero,
                         const proto::Progress& progress);
/// Whether a worker that has stopped in good order goes on in the next generation.
bool may_pause(const ClusterState& state, const WorkerState& worker);
/// It does.
void worker_paused(WorkerState& worker);
/// A worker has lost its peers, and will join the next generation.
void worker_left(ClusterState& state, WorkerState& worker, const std::string& message,
                 TimePoint now);

}  // namespace pfc
