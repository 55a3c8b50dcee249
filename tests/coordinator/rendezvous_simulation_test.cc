// decide() against random histories of a cluster: workers die, fall silent, lose their peers, join
// late or never, hosts are cut off and come back. Whatever happens, its promises hold.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <utility>

#include "coordinator/rendezvous.h"
#include "coordinator/verdict.h"

namespace pfc {
namespace {

using namespace std::chrono_literals;

/// A cluster that does what the coordinator wants, most of the time.
class Simulation {
 public:
  explicit Simulation(unsigned seed) : random_(seed) {
    config_.max_restarts = chance(0.2) ? 0 : static_cast<int>(below(30));
    const int hosts = 1 + static_cast<int>(below(4));
    for (int i = 0; i < hosts; ++i) {
      state_.hosts.push_back(
          {.name = "host" + std::to_string(i), .slots = 1 + static_cast<int>(below(3))});
    }
    state_.job.started_at = now_;
  }

  void run(int most) {
    for (int event = 0; event < most && !over_; ++event) {
      ++events_;
      happens();
      decides();
    }
    // Nothing more goes wrong, but nothing that is broken mends itself either.
    for (int second = 0; second < 3'600 && !over_; ++second) {
      now_ += 1s;
      everybody_is_heard();
      signals_arrive();
      if (!state_.job.stop && second == 600)
        state_.job.stop = StopRequest{.reason = "a person", .at = now_};
      decides();
    }
    EXPECT_TRUE(over_) << "neither an end nor progress: " << reason_;
  }

  [[nodiscard]] std::int64_t generations() const { return state_.job.current.number; }
  [[nodiscard]] std::int64_t events() const { return events_; }

 private:
  bool chance(double probability) { return std::bernoulli_distribution(probability)(random_); }
  std::size_t below(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }

  WorkerState* any_worker() {
    auto& workers = state_.job.current.workers;
    return workers.empty() ? nullptr : &workers[below(workers.size())];
  }

  void happens() {
    now_ += std::chrono::milliseconds{below(chance(0.1) ? 20'000 : 500)};
    if (chance(0.9)) everybody_is_heard();
    signals_arrive();
    switch (below(6)) {
      case 0:
        return registers(any_host());
      case 1:
        return happens_to_host(any_host());
      case 2:
        if (chance(0.02))
          state_.job.stop = StopRequest{.reason = "a person", .urgent = chance(0.5), .at = now_};
        return;
      case 3:
        if (WorkerState* const worker = any_worker()) happens_to_worker(*worker);
        return;
      default:
        return everybody_joins();
    }
  }

  void happens_to_host(HostState& host) {
    if (chance(0.5)) {
      cut_.erase(host.name);
    } else if (chance(0.05)) {
      cut_.insert(host.name);
    } else if (chance(0.2) && host.registered) {
      agent_replaced(state_, host, now_);
      for (const WorkerState& worker : state_.job.current.workers)
        processes_.insert(process(worker));
    }
  }

  void happens_to_worker(WorkerState& worker) {
    switch (below(4)) {
      case 0:
        frozen_.insert(process(worker));
        return;
      case 1:
        if (worker_exited(state_, worker, {.signal = 9}, {"words"}, now_)) {
          EXPECT_TRUE(processes_.insert(process(worker)).second);
        }
        return;
      case 2:
        if (!worker.joined || worker.exit || !may_restart(state_, config_)) return;
        return worker_left(state_, worker, "lost a peer", now_);
      default:
        if (!worker.joined || chance(0.8)) return;
        return worker_reported(state_, worker,
                               chance(0.8) ? proto::OUTCOME_FAILED : proto::OUTCOME_BAD_INPUT,
                               "words", now_);
    }
  }

  HostState& any_host() { return state_.hosts[below(state_.hosts.size())]; }

  static std::pair<std::string, std::int64_t> process(const WorkerState& worker) {
    return {worker.host + "/" + std::to_string(worker.slot), worker.incarnation};
  }

  bool is_reached(const WorkerState& worker) const { return !cut_.contains(worker.host); }

  void registers(HostState& host) {
    if (cut_.contains(host.name)) return;
    proto::AgentRegistration registration;
    registration.set_gpus(1);
    host_registered(host, registration, DeviceChoice::kAuto, now_);
  }

  void everybody_is_heard() {
    for (HostState& host : state_.hosts) {
      if (!cut_.contains(host.name)) host.last_heard = now_;
    }
    for (WorkerState& worker : state_.job.current.workers) {
      if (is_reached(worker) && !frozen_.contains(process(worker))) worker.last_heard = now_;
    }
  }

  void everybody_joins() {
    for (WorkerState& worker : state_.job.current.workers) {
      if (is_reached(worker) && !frozen_.contains(process(worker)) && !worker.exit)
        worker_joined(state_, worker);
    }
  }

  /// Agents that are reached end what is to end.
  void signals_arrive() {
    for (WorkerState& worker : state_.job.current.workers) {
      if (!is_reached(worker) || worker.exit) continue;
      const bool obeys =
          state_.job.terminated_at && !frozen_.contains(process(worker)) && chance(0.5);
      if (obeys || state_.job.killed_at) worker_exited(state_, worker, {.signal = 15}, {}, now_);
      if (state_.job.current.stop_sent && !worker.report && !frozen_.contains(process(worker))) {
        worker_reported(state_, worker, proto::OUTCOME_STOPPED, "", now_);
        worker_exited(state_, worker, {}, {}, now_);
      }
    }
  }

  void decides() {
    for (int round = 0; !over_; ++round) {
      ASSERT_LT(round, 100) << "decide() does not come to rest: " << reason_;
      const Decision decision = decide(state_, config_, now_);
      reason_ = decision.reason;
      EXPECT_FALSE(reason_.empty());
      if (decision.actions.empty()) return;
      for (const Action& action : decision.actions) {
        const auto* start = std::get_if<action::StartGeneration>(&action);
        if (start != nullptr) expect_sound(*start);
        const Generation before = state_.job.current.number;
        apply(state_, action, now_);
        EXPECT_EQ(state_.job.current.number, before + (start != nullptr ? 1 : 0));
        if (start != nullptr) expect_new_processes(*start);
        over_ = over_ || std::holds_alternative<action::Finish>(action);
      }
    }
    EXPECT_FALSE(verdict(state_).message.empty());
  }

  /// Every slot has one rank, and only living workers that nobody blames stay.
  void expect_sound(const action::StartGeneration& start) {
    EXPECT_LE(static_cast<int>(state_.job.restarts.size()), config_.max_restarts);
    std::set<std::pair<std::string, int>> slots;
    Rank next = 0;
    for (const Member& member : start.members) {
      EXPECT_EQ(member.rank, next++);
      EXPECT_TRUE(slots.insert({member.host, member.slot}).second);
      EXPECT_TRUE(find_host(state_, member.host)->registered);
      if (member.survivor == 0) continue;
      const WorkerState* const worker =
          find_worker(state_, *find_host(state_, member.host), member.slot, member.survivor);
      ASSERT_NE(worker, nullptr);
      EXPECT_FALSE(worker->exit);
      for (const Incident& incident : state_.job.current.incidents) {
        EXPECT_TRUE(incident.kind == Incident::Kind::kPeerLost || incident.rank != worker->rank);
      }
    }
  }

  /// A process that is new has a name that no other has had.
  void expect_new_processes(const action::StartGeneration& start) {
    for (const Member& member : start.members) {
      const WorkerState& worker = state_.job.current.workers.at(member.rank);
      const bool is_new = processes_.insert(process(worker)).second;
      EXPECT_EQ(is_new, member.survivor == 0);
      EXPECT_FALSE(worker.joined || worker.exit || worker.report || worker.left);
    }
  }

  std::mt19937 random_;
  TimePoint now_{1000s};
  ClusterState state_;
  RendezvousConfig config_;
  std::set<std::string> cut_;                                 // hosts that are not reached
  std::set<std::pair<std::string, std::int64_t>> frozen_;     // processes that do nothing any more
  std::set<std::pair<std::string, std::int64_t>> processes_;  // all that were ever started
  std::string reason_;
  std::int64_t events_ = 0;
  bool over_ = false;
};

/// PFC_SIMULATIONS sets another number: a million by hand.
TEST(RendezvousSimulation, AlwaysEndsOrGoesOnAndKeepsItsPromises) {
  const char* const given = std::getenv("PFC_SIMULATIONS");
  const int histories = given == nullptr ? 2'000 : std::atoi(given);
  std::int64_t generations = 0, events = 0;
  for (int seed = 1; seed <= histories && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Simulation simulation(static_cast<unsigned>(seed));
    simulation.run(500);
    generations += simulation.generations();
    events += simulation.events();
  }
  RecordProperty("events", std::to_string(events));
  RecordProperty("generations", std::to_string(generations));
  EXPECT_GT(generations, 3 * histories) << "most histories must go on for a while";
}

}  // namespace
}  // namespace pfc
