#include "pfcctl/status.h"

#include <grpcpp/client_context.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>

#include "common/command_line.h"
#include "common/coordinator_file.h"
#include "common/error.h"
#include "common/one_line.h"
#include "pfcctl/verbs.h"
#include "proto/channel.h"
#include "proto/coordinator.grpc.pb.h"
#include "proto/status_json.h"

namespace pfc {
namespace {

constexpr std::chrono::seconds kTimeout{10};

/// Where the coordinator is.
struct Target {
  std::string coordinator;
  std::string job_id;
  std::filesystem::path state_dir = default_state_folder();

  void declare(CLI::App& verb) {
    auto* const address =
        verb.add_option("--coordinator", coordinator,
                        "HOST:PORT; without it, the one that this user runs on this machine");
    address->check(host_and_port());
    verb.add_option("--job", job_id,
                    "Which one, where this user runs several here: its job's id, or the beginning "
                    "of it")
        ->excludes(address);
    verb.add_option("--state-dir", state_dir, "The coordinator's --state-dir")
        ->capture_default_str();
  }
  [[nodiscard]] std::string address() const {
    return coordinator.empty() ? find_coordinator(state_dir, job_id).address : coordinator;
  }
};

struct StatusOptions {
  Target target;
  bool json = false;
};

struct StopOptions {
  Target target;
  bool now = false;
};

template <typename... Values>
std::string print(const char* format, Values... values) {
  char text[400];
  std::snprintf(text, sizeof(text), format, values...);
  return text;
}

/// Calls the coordinator. Throws CommError when it does not answer.
template <typename Request, typename Reply>
Reply ask(const std::string& address,
          grpc::Status (proto::CoordinatorService::Stub::*rpc)(grpc::ClientContext*, const Request&,
                                                               Reply*),
          const Request& request) {
  const auto stub = proto::CoordinatorService::NewStub(make_channel(address));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kTimeout);
  Reply reply;
  const grpc::Status status = (*stub.*rpc)(&context, request, &reply);
  if (!status.ok()) {
    throw CommError("coordinator " + address + " does not answer (" + status.error_message() +
                    "); is it running, and is this its --port?");
  }
  return reply;
}

std::string progress_text(const proto::StatusReply& status) {
  if (status.total_steps() == 0) return {};
  std::string text =
      print("step %lld of %lld, epoch %lld, loss %.4f, %.1f samples/s",
            static_cast<long long>(status.step()), static_cast<long long>(status.total_steps()),
            static_cast<long long>(status.epoch()), status.loss(), status.samples_per_second());
  const auto left = static_cast<long long>(std::llround(status.remaining_seconds()));
  if (left >= 0) {
    text += print(", %lld:%02lld:%02lld left", left / 3600, left / 60 % 60, left % 60);
  }
  return text + "\n";
}

/// A name from another program, for a column of the table.
std::string cell(const std::string& text) { return one_line(text, 64); }

std::string worker_row(const proto::WorkerStatus& worker) {
  const proto::Progress& progress = worker.progress();
  const double gibibytes = static_cast<double>(progress.resident_bytes()) / (1 << 30);
  return print("%4d  %-20s %4d %8lld  %-8s %-11s %9lld  %-14s %10.1f %7.2f GiB %6.0f s %6.0f s\n",
               worker.rank(), cell(worker.host()).c_str(), worker.slot(),
               static_cast<long long>(worker.pid()), cell(progress.device()).c_str(),
               cell(worker.state()).c_str(), static_cast<long long>(progress.step()),
               cell(progress.phase()).c_str(), progress.samples_per_second(), gibibytes,
               worker.silent_seconds(), worker.stuck_seconds());
}

void show(const StatusOptions& options) {
  const std::string address = options.target.address();
  const auto status =
      ask(address, &proto::CoordinatorService::Stub::Status, proto::StatusRequest());
  if (options.json) {
    std::cout << to_json(status).dump(2) << std::endl;
  } else {
    std::cout << "coordinator " << address << ", pfc " << cell(status.version()) << ", job "
              << cell(status.job_id()) << "\n"
              << status_text(status) << std::flush;
  }
}

void stop(const StopOptions& options) {
  const std::string address = options.target.address();
  proto::StopRequest request;
  // Only this job is to end, not one that another coordinator runs at this address a moment later.
  request.set_job_id(
      ask(address, &proto::CoordinatorService::Stub::Status, proto::StatusRequest()).job_id());
  request.set_reason("pfcctl stop");
  request.set_urgent(options.now);
  ask(address, &proto::CoordinatorService::Stub::Stop, request);
  std::cout
      << (options.now
              ? "the job ends now; workers that need more than 5 s for a checkpoint are killed"
              : "the workers write a checkpoint and end; pfcctl status shows them")
      << std::endl;
}

/// The workers that have made no progress for a while, and what each was doing.
std::string no_progress_text(const proto::StatusReply& status) {
  std::string text;
  for (const proto::WorkerStatus& worker : status.workers()) {
    if (worker.state() != "no progress") continue;
    text += "rank " + std::to_string(worker.rank()) +
            print(" has made no progress for %.0f s: step %lld, phase ", worker.stuck_seconds(),
                  static_cast<long long>(worker.progress().step())) +
            cell(worker.progress().phase()) + "\n";
  }
  return text;
}

}  // namespace

std::string status_text(const proto::StatusReply& status) {
  std::string text = cell(status.state());
  if (status.reason() != status.state()) text += ": " + one_line(status.reason());
  text += "\n" + progress_text(status);
  for (const proto::HostStatus& host : status.hosts()) {
    if (!host.registered()) text += "host " + cell(host.name()) + " has not registered\n";
  }
  if (status.workers().empty()) return text;
  text +=
      print("%4s  %-20s %4s %8s  %-8s %-11s %9s  %-14s %10s %11s %8s %8s\n", "rank", "host", "slot",
            "pid", "device", "state", "step", "phase", "samples/s", "memory", "heard", "moved");
  for (const proto::WorkerStatus& worker : status.workers()) text += worker_row(worker);
  return text + no_progress_text(status);
}

void add_status_verb(CLI::App& pfcctl) {
  CLI::App* verb = pfcctl.add_subcommand("status", "Shows what the job and each worker do now");
  const auto options = std::make_shared<StatusOptions>();  // owned by the verb's callback
  options->target.declare(*verb);
  verb->add_flag("--json", options->json, "As JSON, for programs");
  verb->footer("heard: time since the last heartbeat; moved: since its step or phase changed.");
  verb->callback([options] { show(*options); });
}

void add_stop_verb(CLI::App& pfcctl) {
  CLI::App* verb = pfcctl.add_subcommand("stop", "Ends the job after a checkpoint");
  const auto options = std::make_shared<StopOptions>();  // owned by the verb's callback
  options->target.declare(*verb);
  verb->add_flag("--now", options->now,
                 "Leave the workers only 5 s for the checkpoint, then kill them");
  verb->footer("Returns at once. The job goes on from its checkpoint with \"resume\": true.");
  verb->callback([options] { stop(*options); });
}

}  // namespace pfc
