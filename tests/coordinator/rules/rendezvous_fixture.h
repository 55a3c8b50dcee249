// A cluster for tests of decide(), and verbs that change it. Only the test advances the time.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/rules/rendezvous.h"
#include "coordinator/rules/verdict.h"

namespace pfc::testing {

class Rendezvous : public ::testing::Test {
 protected:
  void expect_hosts(std::vector<std::pair<std::string, int>> hosts) {
    for (const auto& [name, slots] : hosts) state.hosts.push_back({.name = name, .slots = slots});
    state.job.started_at = now;
    state.address = "10.0.0.1:7450";
  }

  /// Registers a host with this number of GPUs.
  void registers(const std::string& name, int gpus = 0) {
    proto::AgentRegistration registration;
    registration.set_gpus(gpus);
    if (gpus == 0) registration.set_no_gpu("no CUDA driver: install one");
    host_registered(*find_host(state, name), registration, state.job.device, now);
  }

  /// Returns the slots of each host, once all have registered.
  std::vector<int> slots() {
    std::vector<int> slots;
    for (const HostState& host : state.hosts) slots.push_back(host.slots);
    return slots;
  }

  /// Returns decide()'s next decision after applying it. Skips the separate decision that counts a
  /// failure, which most tests ignore.
  Decision tick() {
    Decision decision = decides();
    while (decision.actions.size() == 1 &&
           std::holds_alternative<action::Count>(decision.actions.front())) {
      decision = decides();
    }
    return decision;
  }

  Decision decides() {
    Decision decision = decide(state, config, now);
    bool described = false;
    for (const Action& action : decision.actions) {
      apply(state, action, now);
      if (const auto* describe = std::get_if<action::Describe>(&action)) {
        described = agents_answer;
        state.job.current.workers.at(describe->rank).description->answered = agents_answer;
      }
      if (!std::holds_alternative<action::StartGeneration>(action)) continue;
      for (WorkerState& worker : state.job.current.workers) {
        if (worker.pid == 0) worker.pid = 100 * state.job.current.number + worker.rank;
      }
    }
    return described ? tick() : decision;
  }

  /// Returns the name of decide()'s next action after applying it: "wait", "blame", "start".
  std::string does() {
    const Decision decision = tick();
    std::string all;
    for (const Action& action : decision.actions) {
      all += (all.empty() ? "" : ", ") + std::string(kNames.at(action.index()));
    }
    return all.empty() ? "wait" : all;
  }

  void joins(Rank rank) {
    worker_joined(state, state.job.current.workers.at(rank));
    state.job.current.workers.at(rank).last_heard = state.job.current.workers.at(rank).last_moved =
        now;
  }

  void trains_on_two_hosts() {
    expect_hosts({{"a", 1}, {"b", 1}});
    registers("a");
    registers("b");
    ASSERT_EQ(does(), "start");
    joins(0);
    joins(1);
    ASSERT_EQ(tick().reason, "training");
  }

  /// Advances the time; heartbeats of all but `silent` arrive.
  void passes(std::chrono::milliseconds time, std::optional<Rank> silent = {}) {
    now += time;
    for (HostState& host : state.hosts) host.last_heard = now;
    for (WorkerState& worker : state.job.current.workers) {
      if (worker.rank != silent) worker.last_heard = now;
    }
  }

  void progresses(Rank rank, std::int64_t step, const std::string& phase) {
    proto::Progress progress;
    progress.set_step(step);
    progress.set_phase(phase);
    worker_progressed(state.job.current.workers.at(rank), progress, now);
  }

  void starts(Rank rank, const std::string& doing, std::int64_t work = 0) {
    proto::Progress progress;
    progress.set_work(work);
    progress.set_starting(true);
    progress.set_phase(doing);
    worker_progressed(state.job.current.workers.at(rank), progress, now);
  }

  void exits(Rank rank, ProcessExit exit, const std::vector<std::string>& words = {}) {
    worker_exited(state, state.job.current.workers.at(rank), exit, words, now);
  }

  void reports(Rank rank, proto::Outcome outcome, const std::string& message = "") {
    worker_reported(state, state.job.current.workers.at(rank), outcome, message, now);
  }

  static constexpr std::array<const char*, std::variant_size_v<Action>> kNames{
      "blame", "start",        "ask to stop", "terminate", "kill",          "finish",  "measure",
      "count", "change blame", "release",     "regroup",   "stop for host", "describe"};

  /// Rank 0 publishes a checkpoint of this step.
  void saves(std::int64_t step) { state_saved(state, step, now); }

  /// The worker loses its peers.
  void leaves(Rank rank, const std::string& message = "all_reduce: rank 1 is gone") {
    worker_left(state, state.job.current.workers.at(rank), message, now);
  }

  /// Returns the members of the generation that decide() begins now.
  std::vector<Member> begins() {
    const Decision decision = tick();
    const auto* start = decision.actions.size() == 1
                            ? std::get_if<action::StartGeneration>(&decision.actions.front())
                            : nullptr;
    EXPECT_NE(start, nullptr) << decision.reason;
    return start == nullptr ? std::vector<Member>() : start->members;
  }

  /// The workers save at the end of a step and continue in a new generation. Returns its members.
  std::vector<Member> regroups() {
    EXPECT_EQ(does(), "regroup");
    EXPECT_EQ(does(), "ask to stop");
    EXPECT_EQ(does(), "wait");
    for (WorkerState& worker : state.job.current.workers) worker_paused(worker);
    return begins();
  }

  TimePoint now{std::chrono::seconds{1000}};
  ClusterState state;
  RendezvousConfig config;
  /// Agents reply immediately, with an empty description.
  bool agents_answer = true;
};

}  // namespace pfc::testing
