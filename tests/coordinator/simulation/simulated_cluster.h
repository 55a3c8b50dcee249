// A cluster to which random things happen, by a clock of its own: decide(), apply() and the event
// functions, without gRPC, processes or threads. It checks what decide() promises.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/rendezvous.h"

namespace pfc::testing {

/// What has happened in some histories.
struct Tally {
  std::int64_t events = 0;
  std::int64_t generations = 0;
  std::int64_t restarts = 0;
  std::int64_t planned = 0;    ///< generations that began without a failure before them
  std::int64_t smaller = 0;    ///< generations with fewer workers than wanted
  std::int64_t left_out = 0;   ///< times that a slot or host was left out
  std::int64_t takeovers = 0;  ///< of a coordinator that was killed
  std::int64_t completed = 0, stopped = 0, failed = 0;  ///< jobs

  Tally& operator+=(const Tally& other);
};

/// One job on a cluster that does what the coordinator wants, most of the time.
class SimulatedCluster {
 public:
  explicit SimulatedCluster(unsigned seed);

  /// So many random events at most, then a calm time in which nothing more goes wrong, but nothing
  /// that is broken mends itself either; then a stop.
  void run(int events);

  [[nodiscard]] const Tally& tally() const { return tally_; }
  /// Promises that were broken; empty: none was.
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

 private:
  bool chance(double probability) { return std::bernoulli_distribution(probability)(random_); }
  std::size_t below(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }
  void expect(bool holds, const std::string& promise);

  // What happens.
  void happens();
  void coordinator_is_killed();
  void happens_to_host(HostState& host);
  void happens_to_worker(WorkerState& worker);
  void host_registers(HostState& host, bool other_agent);
  void link_breaks();
  void everybody_joins();
  void everybody_is_heard();
  void everybody_trains();
  /// Agents that are reached end what is to end, and workers stop that were asked to.
  void signals_arrive();
  void asked_to_stop(WorkerState& worker);
  void measurement_ends();
  /// A worker gets a signal that nobody sent for the job, and all stop with it.
  void stops_unasked();
  /// The agent that the coordinator has started ends, and no other one can come.
  void own_agent_ends();
  void calm_time();

  // What the coordinator does, and whether it may.
  void decides();
  void check_start(const action::StartGeneration& start);
  void check_member(const Member& member);
  void check_processes(const action::StartGeneration& start);
  [[nodiscard]] bool goes_on() const;  ///< all have joined, and nothing is to be done

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
  std::set<std::string> cut_;                             // hosts that are not reached
  std::set<Process> frozen_;                              // processes that do nothing any more
  std::set<Process> processes_;                           // all that were ever started
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

/// Runs histories of at most 500 events each until there were so many events, or a promise is
/// broken. Returns what has happened; `problem`: the first broken promise, with its seed.
Tally simulate(std::int64_t events, unsigned first_seed, std::string& problem);

}  // namespace pfc::testing
