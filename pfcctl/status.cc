#include "pfcctl/status.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <thread>

#include "common/command_line.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/one_line.h"
#include "pfcctl/coordinator_call.h"
#include "pfcctl/top.h"
#include "pfcctl/verbs.h"
#include "proto/message_json.h"

namespace pfc {
namespace {

constexpr std::chrono::seconds kWatch{1};

struct StatusOptions {
  Target target;
  bool json = false;
  bool watch = false;
};

struct StopOptions {
  Target target;
  std::string job;
  bool now = false;
};

struct DrainOptions {
  Target target;
  std::string host;
  double grace = 30;
};

template <typename... Values>
std::string formatted(const char* format, Values... values) {
  char text[400];
  std::snprintf(text, sizeof(text), format, values...);
  return text;
}

std::string progress_text(const proto::StatusReply& status) {
  if (status.total_steps() == 0) return {};
  std::string text =
      formatted("step %lld of %lld, epoch %lld, loss %.4f, %.1f samples/s",
                static_cast<long long>(status.step()), static_cast<long long>(status.total_steps()),
                static_cast<long long>(status.epoch()), status.loss(), status.samples_per_second());
  const auto left = static_cast<long long>(std::llround(status.remaining_seconds()));
  if (left >= 0) {
    text += formatted(", %lld:%02lld:%02lld left", left / 3600, left / 60 % 60, left % 60);
  }
  return text + "\n";
}

/// Makes a name from another program safe for a table column.
std::string short_cell(const std::string& text) { return one_line(text, 64); }

std::string worker_row(const proto::WorkerStatus& worker) {
  const proto::Progress& progress = worker.progress();
  const double gibibytes = static_cast<double>(progress.resident_bytes()) / (1 << 30);
  return formatted(
      "%4d  %-20s %4d %8lld  %-8s %-11s %9lld  %-14s %10.1f %7.2f GiB %6.0f s %6.0f s\n",
      worker.rank(), short_cell(worker.host()).c_str(), worker.slot(),
      static_cast<long long>(worker.pid()), short_cell(progress.device()).c_str(),
      short_cell(worker.state()).c_str(), static_cast<long long>(progress.step()),
      short_cell(progress.phase()).c_str(), progress.samples_per_second(), gibibytes,
      worker.silent_seconds(), worker.stuck_seconds());
}

void print_status(const std::string& address, const proto::StatusReply& status, bool json) {
  if (json) {
    std::cout << json_text(to_json(status)) << std::flush;
  } else {
    std::cout << "coordinator " << address << ", pfc " << short_cell(status.version())
              << (status.job_id().empty() ? ""
                                          : ", job " + short_cell(status.job_id()) + " (" +
                                                one_line(status.job_name()) + ")")
              << "\n"
              << status_text(status) << std::flush;
  }
}

void show_status(const StatusOptions& options) {
  const CoordinatorCall call(options.target.endpoint());
  const bool on_terminal = isatty(STDOUT_FILENO) == 1;
  while (std::cout) {
    auto status = call(&proto::CoordinatorService::Stub::Status, proto::StatusRequest());
    if (options.watch) slowest_first(status);
    if (options.watch && on_terminal) std::cout << "\033[H\033[2J";  // clears the screen
    print_status(call.address(), status, options.json);
    if (!options.watch) return;
    std::this_thread::sleep_for(kWatch);
  }
}

/// Returns the id of the running job, empty if none runs. A stop request carries this id. So it
/// cannot stop a later job or the job of another coordinator at this address.
std::string job_that_runs(const CoordinatorCall& call) {
  return call(&proto::CoordinatorService::Stub::Status, proto::StatusRequest()).job_id();
}

/// Returns the id of the running job. Throws InputError if no job runs.
std::string running_job(const CoordinatorCall& call) {
  if (std::string job = job_that_runs(call); !job.empty()) return job;
  throw InputError(
      "coordinator " + call.address() +
      ": no job is running; pfcctl queue lists the waiting jobs, and pfcctl stop JOB removes one");
}

void stop(const StopOptions& options) {
  const CoordinatorCall call(options.target.endpoint());
  proto::StopRequest request;
  request.set_job(options.job.empty() ? running_job(call) : options.job);
  request.set_reason("pfcctl stop");
  request.set_urgent(options.now);
  if (call(&proto::CoordinatorService::Stub::Stop, request).was_waiting()) {
    std::cout << "the job was removed from the queue" << std::endl;
    return;
  }
  std::cout
      << (options.now
              ? "the job is ending; workers that need more than 5 s for a checkpoint are killed"
              : "the workers are ending; if they train, they write a checkpoint first; pfcctl "
                "status shows their state")
      << std::endl;
}

void drain(const DrainOptions& options) {
  const CoordinatorCall call(options.target.endpoint());
  proto::DrainRequest request;
  request.set_job_id(job_that_runs(call));
  request.set_host(options.host);
  request.mutable_leaving()->set_reason("pfcctl drain");
  request.mutable_leaving()->set_grace_ms(static_cast<std::int64_t>(options.grace * 1000));
  call(&proto::CoordinatorService::Stub::Drain, request);
  std::cout
      << "host " << short_cell(options.host)
      << (request.job_id().empty()
              ? " is being drained: no job is running, and none starts before its pfc-agent is "
                "started again"
              : " is being drained: the workers write a checkpoint, and end or continue without "
                "it; pfcctl status shows their state")
      << std::endl;
}

/// Lists the workers without progress and the phase of each.
std::string no_progress_text(const proto::StatusReply& status) {
  std::string text;
  for (const proto::WorkerStatus& worker : status.workers()) {
    if (worker.state() != "no progress") continue;
    text += "rank " + std::to_string(worker.rank()) +
            formatted(" has made no progress for %.0f s: step %lld, phase ", worker.stuck_seconds(),
                      static_cast<long long>(worker.progress().step())) +
            short_cell(worker.progress().phase()) + "\n";
  }
  return text;
}

/// Lists the workers that delay the others in every step.
std::string slow_text(const proto::StatusReply& status) {
  std::string text;
  for (const proto::WorkerStatus& worker : status.workers()) {
    if (worker.slowness() <= 0) continue;
    text += "rank " + std::to_string(worker.rank()) + " (host " + short_cell(worker.host()) +
            ") is slow: " +
            formatted("its own work takes %.1f times as long as that of the other ranks\n",
                      worker.slowness());
  }
  return text;
}

/// Returns "restarted 2 times, 3 of 5 restarts are left; the last cause was rank 1 (host b...):
/// ..."
std::string restarts_text(const proto::StatusReply& status) {
  if (status.restarts() == 0) return {};
  return formatted("restarted %d times, %d of %d restarts are left; the last cause was ",
                   status.restarts(), status.restarts_left(), status.max_restarts()) +
         one_line(status.last_restart()) + "\n";
}

/// Returns "4 of 6 workers: host b is not registered", the slots that are left out, and the idle
/// ones.
std::string membership_text(const proto::StatusReply& status) {
  std::string text;
  if (!status.why_smaller().empty()) text += one_line(status.why_smaller()) + "\n";
  for (const proto::LeftOut& each : status.left_out()) {
    text += (each.slot() < 0 ? "" : formatted("slot %d of ", each.slot())) + "host " +
            short_cell(each.host()) +
            formatted(" is left out for %.0f s more after %d failures, the last: ", each.seconds(),
                      each.failures()) +
            one_line(each.cause()) + "\n";
  }
  if (status.idle().empty() || status.world_size() == 0) return text;
  text += "idle: ";
  constexpr int kShown = 8;
  for (int i = 0; i < std::min(status.idle_size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + short_cell(status.idle(i));
  }
  if (status.idle_size() > kShown) text += formatted(" and %d more", status.idle_size() - kShown);
  return text + "\n";
}

/// Returns "... taken over at 2026-11-22 17:30:05 (2 times); all agents and workers were back ..."
std::string takeover_text(const proto::StatusReply& status) {
  if (status.takeovers() == 0) return {};
  const std::time_t when = status.taken_over_ms() / 1000;
  std::tm local{};
  char text[40] = "";
  if (localtime_r(&when, &local) != nullptr) {
    std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
  }
  return "the coordinator was killed and taken over at " + std::string(text) +
         (status.takeovers() > 1 ? formatted(" (%d times)", status.takeovers()) : "") +
         (status.takeover_seconds() < 0
              ? "; some agents or workers are not back yet"
              : formatted("; all agents and workers were back after %.1f s",
                          status.takeover_seconds())) +
         "\n";
}

}  // namespace

std::string status_text(const proto::StatusReply& status) {
  std::string text = short_cell(status.state());
  if (status.reason() != status.state()) text += ": " + one_line(status.reason());
  text += "\n" + progress_text(status) + restarts_text(status) + takeover_text(status) +
          membership_text(status);
  if (status.jobs_waiting() > 0) {
    text += counted(status.jobs_waiting(), "job") + " waiting: pfcctl queue lists them\n";
  }
  if (!status.network().empty()) text += one_line(status.network()) + "\n";
  for (const proto::HostStatus& host : status.hosts()) {
    if (!host.registered()) text += "host " + short_cell(host.name()) + " has not registered\n";
  }
  if (status.workers().empty()) return text;
  text += formatted("%4s  %-20s %4s %8s  %-8s %-11s %9s  %-14s %10s %11s %8s %8s\n", "rank", "host",
                    "slot", "pid", "device", "state", "step", "phase", "samples/s", "memory",
                    "heard", "moved");
  for (const proto::WorkerStatus& worker : status.workers()) text += worker_row(worker);
  return text + no_progress_text(status) + slow_text(status);
}

void add_status_verb(CLI::App& pfcctl) {
  CLI::App* verb = pfcctl.add_subcommand("status", "Shows the state of the job and of each worker");
  const auto options = std::make_shared<StatusOptions>();  // owned by the verb's callback
  options->target.declare(*verb);
  verb->add_flag("--json", options->json, "Prints JSON, for programs");
  verb->add_flag(
      "--watch", options->watch,
      "Updates every second, with the slowest rank first, until Ctrl-C or the coordinator ends");
  verb->footer(
      "heard: time since the last heartbeat; moved: since its step or phase changed. Example:\n"
      "  pfcctl status --watch");
  verb->callback([options] { show_status(*options); });
}

void add_drain_verb(CLI::App& pfcctl) {
  CLI::App* verb = pfcctl.add_subcommand(
      "drain", "Drains a host: after a checkpoint, the job continues without it, or ends");
  const auto options = std::make_shared<DrainOptions>();  // owned by the verb's callback
  verb->add_option("HOST", options->host, "The host's name in the coordinator's --hosts")
      ->required();
  options->target.declare(*verb);
  verb->add_option("--grace", options->grace,
                   "Time for the checkpoint, after which the workers are killed")
      ->transform(duration())
      ->capture_default_str();
  verb->footer(
      "Returns immediately. If --min-workers allows it, the job continues without the host.\n"
      "Otherwise a coordinator of a single job ends with exit code 5; start it again without\n"
      "this host and with \"resume\": true to continue. A service starts no further job until the\n"
      "host's pfc-agent is restarted; for the service's own host, until the service is restarted.\n"
      "SIGTERM to the host's pfc-agent also drains the host, and ends that agent. Example:\n"
      "  pfcctl drain node-7 --grace 2min");
  verb->callback([options] { drain(*options); });
}

void add_stop_verb(CLI::App& pfcctl) {
  CLI::App* verb = pfcctl.add_subcommand("stop", "Ends the job after a checkpoint");
  const auto options = std::make_shared<StopOptions>();  // owned by the verb's callback
  verb->add_option("JOB", options->job,
                   "The job's id, or the beginning of it. Default: the running job. A waiting job "
                   "is removed from the queue");
  options->target.declare(*verb);
  verb->add_flag("--now", options->now, "Kills the workers if the checkpoint takes more than 5 s");
  verb->footer(
      "Returns immediately. To continue from the checkpoint, start the job again with \"resume\":\n"
      "true. Example:\n"
      "  pfcctl stop");
  verb->callback([options] { stop(*options); });
}

}  // namespace pfc
