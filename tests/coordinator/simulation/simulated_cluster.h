// A simulated cluster with random events and its own clock: decide(), apply() and the event
// functions, without gRPC, processes or threads. Checks the invariants of decide().
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/rules/rendezvous.h"

namespace pfc::testing {

/// Counts of events in some histories.
struct Tally {
  std::int64_t events = 0;
  std::int64_t generations = 0;
  std::int64_t restarts = 0;
  std::int64_t planned = 0;    ///< generations that began without a failure
  std::int64_t smaller = 0;    ///< generations with fewer workers than wanted
  std::int64_t left_out = 0;   ///< exclusions of a slot or host
  std::int64_t takeovers = 0;  ///< takeovers from a killed coordinator
  std::int64_t completed = 0, stopped = 0, failed = 0;  ///< jobs

  Tally& operator+=(const Tally& other);
};

/// A job on a cluster that mostly does what the coordinator wants.
class SimulatedCluster {
 public:
  explicit SimulatedCluster(unsigned seed);

  /// Runs up to this many random events, then a calm time without new failures or repairs, then a
  /// stop.
  void run(int events);

  [[nodiscard]] const Tally& tally() const { return tally_; }
  /// Broken invariants; empty if there are none.
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

 private:
  bool chance(double probability) { return std::bernoulli_distribution(probability)(random_); }
  std::size_t below(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }
  void expect(bool holds, const std::string& promise);

  // Events.
  void happens();
  void coordinator_is_killed();
  void happens_to_host(HostState& host);
  void happens_to_worker(WorkerState& worker);
  void host_registers(HostState& host, bool other_agent);
  void link_breaks();
  void everybody_joins();
  void everybody_is_heard();
  void everybody_trains();
  /// Reachable agents end processes as requested, and workers stop if asked to.
  void signals_arrive();
  void asked_to_stop(WorkerState& worker);
  void measurement_ends();
  /// A worker gets a signal that was not sent for the job, and all stop with it.
  void stops_unasked();
  /// The local agent ends and cannot be replaced.
  void own_agent_ends();
  void calm_time();

  // Actions of the coordinator, and whether they are allowed.
  void decides();
  void check_start(const action::StartGeneration& start);
  void check_member(const Member& member);
  void check_processes(const action::StartGeneration& start);
  [[nodiscard]] bool goes_on() const;  ///< all have joined, and nothing is pending

  using Process = std::pair<std::string, std::int64_t>;
  static Process process(const WorkerState& worker);
  HostState& any_host() { return state_.hosts[below(state_.hosts.size())]; }
  WorkerState* any_worker();
  [[nodiscard]] bool is_reached(const WorkerState& worker) const;
  [[nodiscard]] bool lives(const WorkerState& worker) const;

  std::mt19937 random_;
  TimePoint now_{std::chrono::seconds{100'000}};
  ClusterState state_;
  RendezvousConfig config_;
  std::set<std::string> cut_;                             // unreachable hosts
  std::set<Process> frozen_;                              // processes that hang
  std::set<Process> processes_;                           // all processes ever started
  std::set<std::pair<std::string, std::string>> broken_;  // hosts that cannot reach each other
  std::int64_t step_ = 0;
  std::int64_t agents_ = 0;
  int refills_ = 0;
  std::string reason_;
  std::vector<std::string> problems_;
  Tally tally_;
  bool over_ = false;
  bool own_agent_ended_ = false;
};

/// Runs histories of up to 500 events each until `events` is reached or an invariant is broken.
/// Returns the counts. `problem`: the first broken invariant, with its seed.
Tally simulate(std::int64_t events, unsigned first_seed, std::string& problem);

}  // namespace pfc::testing
