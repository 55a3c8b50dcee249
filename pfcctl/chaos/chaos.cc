// pfcctl chaos: injects faults into a running job and reports how it recovers.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/command_line.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/exit_codes.h"
#include "common/log.h"
#include "common/one_line.h"
#include "pfcctl/chaos/event_line.h"
#include "pfcctl/chaos/recovery.h"
#include "pfcctl/chaos/schedule.h"
#include "pfcctl/chaos/watched_job.h"
#include "pfcctl/coordinator_call.h"
#include "pfcctl/verbs.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLook{100};  // interval between status requests

/// Times are in seconds. An interval of 0 disables that kind of fault.
struct ChaosOptions {
  Target target;
  double kill_every = 0, stop_every = 0, partition_every = 0, kill_agent_every = 0;
  double stop_for = 10, partition_for = 10;
  double duration = 600, baseline = 20, hang_after = 300;
  std::uint64_t seed = 1;
  int rank = -1;
  std::string host;
  bool dry_run = false;
};

// Set by Ctrl-C; a signal handler can access nothing else.
volatile std::sig_atomic_t interrupted = 0;

void end_at_a_signal() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = SA_RESETHAND;  // a second signal ends the program
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
}

milliseconds time_of(double seconds) {
  return milliseconds{static_cast<std::int64_t>(seconds * 1000)};
}

ChaosPlan plan_of(const ChaosOptions& options) {
  ChaosPlan plan{.wishes = {}, .duration = time_of(options.duration), .seed = options.seed};
  const auto add = [&](proto::FaultKind kind, double every, double lasts) {
    if (every <= 0) return;
    plan.wishes.push_back({.kind = kind, .every = time_of(every), .lasts = time_of(lasts)});
  };
  add(proto::FAULT_KILL_WORKER, options.kill_every, 0);
  add(proto::FAULT_STOP_WORKER, options.stop_every, options.stop_for);
  add(proto::FAULT_PARTITION, options.partition_every, options.partition_for);
  add(proto::FAULT_KILL_AGENT, options.kill_agent_every, 0);
  return plan;
}

/// Injects faults into one job, and watches it.
class Chaos {
 public:
  explicit Chaos(const ChaosOptions& options)
      : options_(options), plan_(plan_faults(plan_of(options))), job_(options.target) {
    if (options.rank >= 0) scope_.rank = options.rank;
    scope_.host = options.host;
  }

  int run() {
    wait_for_training();
    if (job_.is_lost()) return exit_code();
    ask_agents();
    if (options_.dry_run) return tell_plan();
    const double before = measure();
    if (job_.is_lost()) return exit_code();
    start_ = Clock::now();
    result_.begin = view_of(job_.status(), since_start());
    result_.rate_before = before;
    break_things();
    undo();
    result_.end = view_of(job_.status(), since_start());
    std::cout << summary(recovery_.faults(), result_) << std::flush;
    return exit_code();
  }

 private:
  /// Returns the exit code. Prints the reason first if it is not 0.
  [[nodiscard]] int exit_code() const {
    if (interrupted != 0) return kExitSuccess;
    if (recovery_.waits_since()) {
      print_message("pfcctl", Severity::kError, "training has not resumed after " + waiting_text());
      return kExitFailed;
    }
    if (!job_.is_lost()) return kExitSuccess;
    print_message("pfcctl", Severity::kError,
                  "the job ended, or its coordinator was lost, before the test was over");
    return kExitFailed;
  }

  [[nodiscard]] milliseconds since_start() const {
    return std::chrono::duration_cast<milliseconds>(Clock::now() - start_);
  }

  /// Waits until the job trains, because all hosts have registered by then.
  void wait_for_training() {
    const auto trains = [this] {
      const JobView view = view_of(job_.status(), {});
      return view.trains && view.has_stepped;
    };
    if (trains()) return;
    tell("waits", "for the job's next step");
    while (!trains() && look()) std::this_thread::sleep_for(kLook);
  }

  /// Finds the hosts that allow each kind of fault. Throws InputError if no host allows a kind.
  void ask_agents() {
    for (const FaultWish& wish : plan_of(options_).wishes) {
      std::string why;
      bool allowed = false;
      for (const proto::HostStatus& host : job_.status().hosts()) {
        if (!host.registered() || (!options_.host.empty() && host.name() != options_.host))
          continue;
        try {
          job_.inject({.at = {}, .kind = wish.kind}, {.host = host.name()}, true);
          allowed = true;
        } catch (const InputError& error) {
          scope_.refused[wish.kind].insert(host.name());
          why = one_line(error.what());
          print_message("pfcctl", Severity::kWarning, name_of(wish.kind) + ": " + why);
        }
      }
      if (!allowed) {
        throw InputError(
            "no host allows the fault " + name_of(wish.kind) +
            (why.empty() ? ": no matching host has registered; start its pfc-agent" : "; " + why));
      }
    }
  }

  int tell_plan() {
    for (const PlannedFault& fault : plan_) {
      const auto victim = pick_victim(fault, scope_, job_.status());
      std::string whom = !victim             ? "no possible target"
                         : victim->rank >= 0 ? "rank " + std::to_string(victim->rank) + " (host " +
                                                   one_line(victim->host, 64) + ")"
                                             : "host " + one_line(victim->host, 64);
      if (fault.lasts > milliseconds{0}) whom += " for " + seconds_text(fault.lasts);
      std::printf("after %9s  %-10s  %s\n", seconds_text(fault.at).c_str(),
                  name_of(fault.kind).c_str(), whom.c_str());
    }
    std::cout << counted(std::ssize(plan_), "fault")
              << " planned for the current hosts and workers; none was injected" << std::endl;
    return kExitSuccess;
  }

  /// Returns the goodput without faults, in images per second.
  double measure() {
    if (options_.baseline <= 0) return 0;
    tell("measures", "the job without faults for " + seconds_text(time_of(options_.baseline)));
    start_ = Clock::now();
    const JobView first = view_of(job_.status(), since_start());
    while (since_start() < time_of(options_.baseline) && look()) std::this_thread::sleep_for(kLook);
    const JobView last = view_of(job_.status(), since_start());
    const double seconds = static_cast<double>((last.at - first.at).count()) / 1000;
    return static_cast<double>(last.images_seen - first.images_seen) / std::max(seconds, 0.001);
  }

  void break_things() {
    auto next = plan_.begin();
    while (look()) {
      const milliseconds now = since_start();
      for (const DoneFault* fault : recovery_.see(view_of(job_.status(), now))) {
        tell("resumed", "after " + seconds_text(*fault->took) + " (" + name_of(fault->kind) +
                            " of " + fault->target + ")");
      }
      const auto waits = recovery_.waits_since();
      if (waits && now - *waits > time_of(options_.hang_after)) return;
      if (!waits && now >= time_of(options_.duration)) return;
      for (; next != plan_.end() && next->at <= now; ++next) do_one(*next);
      std::this_thread::sleep_for(kLook);
    }
  }

  void do_one(const PlannedFault& fault) {
    const auto victim = pick_victim(fault, scope_, job_.status());
    std::string why = "no worker or host is a possible target";
    if (victim) {
      try {
        const JobView before = view_of(job_.status(), since_start());
        const std::string target = one_line(job_.inject(fault, *victim, false).target(), 200);
        const bool lasts = fault.lasts > milliseconds{0};
        tell(name_of(fault.kind), target + (lasts ? " for " + seconds_text(fault.lasts) : ""));
        recovery_.done(
            {.kind = fault.kind, .target = target, .lasts = fault.lasts, .before = before});
        if (lasts)
          lasting_[victim->host] = std::max(lasting_[victim->host], since_start() + fault.lasts);
        return;
      } catch (const InputError& error) {
        why = one_line(error.what());
      } catch (const CommError& error) {
        why = one_line(error.what());
      }
    }
    result_.refused += 1;
    tell(name_of(fault.kind), "not done: " + why);
  }

  /// Returns false if the user interrupts or WatchedJob::look() returns false.
  bool look() { return interrupted == 0 && job_.look(); }

  /// Ends lasting faults on the hosts that can be reached.
  void undo() {
    for (const auto& [host, until] : lasting_) {
      if (until <= since_start()) continue;
      try {
        job_.inject({.at = {}, .kind = proto::FAULT_UNDO}, {.host = host}, false);
        tell("undo", "host " + one_line(host, 64));
      } catch (const std::exception&) {
        tell("undo", "host " + one_line(host, 64) +
                         " cannot be reached; its fault ends by itself in " +
                         seconds_text(until - since_start()));
      }
    }
  }

  [[nodiscard]] std::string waiting_text() const {
    std::string text;
    for (const DoneFault& fault : recovery_.faults()) {
      if (!fault.took)
        text += (text.empty() ? "" : ", ") + name_of(fault.kind) + " of " + fault.target;
    }
    return text;
  }

  const ChaosOptions& options_;
  const std::vector<PlannedFault> plan_;
  WatchedJob job_;
  FaultScope scope_;
  TimePoint start_;
  Recovery recovery_;
  ChaosResult result_;
  std::map<std::string, milliseconds> lasting_;  ///< end of the last fault, by host
};

void check_options(const ChaosOptions& options) {
  const ChaosPlan plan = plan_of(options);
  if (plan.wishes.empty()) {
    throw InputError(
        "found no kind of fault; give --kill-every, --stop-every, --partition-every or "
        "--kill-agent-every");
  }
  constexpr double kMostFaults = 100'000;
  double faults = 0;
  for (const FaultWish& wish : plan.wishes) {
    faults += static_cast<double>(plan.duration.count()) / static_cast<double>(wish.every.count());
  }
  if (faults > kMostFaults) {
    throw InputError("found intervals that give " +
                     std::to_string(static_cast<std::int64_t>(faults)) +
                     " faults, expected at most 100000; give a shorter --duration");
  }
}

void declare_faults(CLI::App& verb, ChaosOptions& options) {
  const auto add = [&](const char* name, double& value, const char* text) {
    return verb.add_option(name, value, text)->transform(duration());
  };
  add("--kill-every", options.kill_every,
      "Mean time between kills of a worker (SIGKILL): 30s, 2min");
  add("--stop-every", options.stop_every, "Mean time between stops of a worker (SIGSTOP)");
  add("--stop-for", options.stop_for, "How long a worker stays stopped")->capture_default_str();
  add("--partition-every", options.partition_every,
      "Mean time between partitions, which cut a host off from the job's other hosts. Its agent "
      "needs the capability CAP_NET_ADMIN, to change routes");
  add("--partition-for", options.partition_for, "How long a partition lasts")
      ->capture_default_str();
  add("--kill-agent-every", options.kill_agent_every,
      "Mean time between kills of an agent, which also end the workers of its host. systemd, "
      "Kubernetes or another program must restart the agent");
  add("--duration", options.duration, "How long new faults are injected")->capture_default_str();
  add("--baseline", options.baseline,
      "How long the job's speed is measured before the first fault; 1ms skips it")
      ->capture_default_str();
  add("--hang-after", options.hang_after,
      "The job counts as hung if no step has finished for this time after a fault")
      ->capture_default_str();
}

}  // namespace

void add_chaos_verb(CLI::App& pfcctl) {
  CLI::App* verb = pfcctl.add_subcommand(
      "chaos", "Injects faults into a running job and reports how it recovers");
  const auto options = std::make_shared<ChaosOptions>();  // owned by the verb's callback
  options->target.declare(*verb);
  declare_faults(*verb, *options);
  verb->add_option("--seed", options->seed, "Seed for the times and targets of the faults")
      ->capture_default_str();
  auto* const rank =
      verb->add_option("--rank", options->rank, "Injects faults into this worker only")
          ->check(whole_number(0, 1'000'000));
  verb->add_option("--host", options->host, "Injects faults into this host and its workers only")
      ->excludes(rank);
  verb->add_flag("--dry-run", options->dry_run, "Prints the planned faults and injects none");
  verb->footer(
      "Only hosts whose pfc-agent was started with --allow-chaos are targets; pfc-coordinator\n"
      "has the same option for its own agent. The time between two faults of a kind is random:\n"
      "0.5 to 1.5 times the given mean. Ctrl-C ends the test and the faults that still last;\n"
      "agents also end them by themselves. Exit code 1: training has not resumed after a fault\n"
      "(docs/chaos.md). Example:\n"
      "  pfcctl chaos --kill-every 2min --duration 1h");
  verb->callback([options] {
    check_options(*options);
    end_at_a_signal();
    const int code = Chaos(*options).run();
    if (code != kExitSuccess) throw ExitStatus{code};
  });
}

}  // namespace pfc
