// pfcctl check: lists what this build and machine support, and tests whether a job can train here.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "common/config/job_file.h"
#include "common/log.h"
#include "common/one_line.h"
#include "common/version.h"
#include "kernels/cpu/cpu_info.h"
#include "kernels/device_info.h"
#include "pfcctl/check/check_machine.h"
#include "pfcctl/check/inventory.h"
#include "pfcctl/coordinator_call.h"
#include "pfcctl/interrupt_guard.h"
#include "pfcctl/jobs.h"
#include "pfcctl/verbs.h"
#include "proto/check_text.h"

namespace pfc {
namespace {

struct Report {
  std::string program = version();
  std::vector<DeviceInfo> devices;
  std::vector<DeviceInfo> collectives;  ///< "Gloo", "NCCL"
  std::vector<DeviceInfo> decoders;
  std::vector<LibraryInfo> libraries;
  std::vector<Trial> trials;

  [[nodiscard]] bool can_train() const {
    for (const Trial& trial : trials) {
      if (!trial.ok) return false;
    }
    return true;
  }
};

Report make_report() {
  Report report;
  report.devices = gpu_devices();
  report.devices.insert(report.devices.begin(), cpu_device());
  report.collectives = {{.kind = "Gloo", .available = true, .detail = "CPU, over TCP"}, nccl()};
  report.decoders = {{.kind = "JPEG", .available = true, .detail = "libjpeg-turbo"},
                     {.kind = "PNG", .available = true, .detail = "libpng"}};
  report.libraries = library_versions();
  report.trials = try_machine();
  return report;
}

void print_list(const char* title, const std::vector<DeviceInfo>& list) {
  std::printf("\n%s:\n", title);
  for (const DeviceInfo& item : list) {
    std::printf("    [%c] %s (%s)\n", item.available ? 'X' : ' ', item.kind.c_str(),
                item.detail.c_str());
  }
}

void print(const Report& report) {
  std::printf("pfc v%s:\n", report.program.c_str());
  print_list("Devices", report.devices);
  print_list("Collectives", report.collectives);
  print_list("Data decoders", report.decoders);
  std::printf("\nLibraries:\n");
  for (const LibraryInfo& library : report.libraries) {
    std::printf("    %s %s\n", library.name.c_str(), library.version.c_str());
  }
  std::printf("\nTests on this machine:\n");
  for (const Trial& trial : report.trials) {
    std::printf("    [%s] %s: %s\n", trial.ok ? "ok" : "FAILED", trial.name.c_str(),
                trial.detail.c_str());
  }
  std::printf("\n%s\n", report.can_train() ? "This machine can train."
                                           : "This machine cannot train: see FAILED above.");
}

nlohmann::ordered_json report_json(const Report& report) {
  using nlohmann::ordered_json;
  const auto list = [](const std::vector<DeviceInfo>& items) {
    ordered_json array = ordered_json::array();
    for (const DeviceInfo& item : items) {
      array.push_back(
          {{"name", item.kind}, {"available", item.available}, {"detail", item.detail}});
    }
    return array;
  };
  ordered_json json{{"version", report.program},         {"can_train", report.can_train()},
                    {"devices", list(report.devices)},   {"collectives", list(report.collectives)},
                    {"decoders", list(report.decoders)}, {"libraries", ordered_json::object()},
                    {"trials", ordered_json::array()}};
  for (const LibraryInfo& library : report.libraries) {
    json["libraries"][library.name] = library.version;
  }
  for (const Trial& trial : report.trials) {
    json["trials"].push_back({{"name", trial.name}, {"ok", trial.ok}, {"detail", trial.detail}});
  }
  return json;
}

void run_check(bool as_json) {
  const Report report = make_report();
  if (as_json) {
    std::fputs(json_text(report_json(report)).c_str(), stdout);
  } else {
    print(report);
  }
  if (!report.can_train()) throw ExitStatus{1};
}

/// Options of a check that a service runs on all its hosts (docs/check.md).
struct ClusterCheck {
  Target target;
  std::string config;  ///< the job file; empty: check only the hosts
  std::vector<std::string> overrides;
  bool cluster = false;  ///< check the service that this user runs on this machine
  bool json = false;
};

using Stub = proto::CoordinatorService::Stub;

constexpr std::chrono::milliseconds kResultPollInterval{200};

proto::SubmitRequest request_for(const ClusterCheck& check) {
  proto::SubmitRequest request;
  request.set_check(true);
  if (check.config.empty()) {
    request.set_without_job(true);
    request.set_job_json("{}");
    return request;
  }
  nlohmann::json job = read_job_file(check.config, check.overrides);
  make_paths_absolute(job, std::filesystem::current_path());
  request.set_job_json(job.dump());
  request.set_file(std::filesystem::absolute(check.config).lexically_normal().string());
  for (const std::string& each : check.overrides) request.add_overrides(each);
  return request;
}

proto::CheckReport wait_for_report(const CoordinatorCall& call, const std::string& id) {
  proto::CheckResultRequest request;
  request.set_job(id);
  for (std::string told;;) {
    const proto::CheckResultReply reply = call(&Stub::CheckResult, request);
    if (reply.over()) return reply.report();
    InterruptGuard::expect_none();
    if (const std::string reason = one_line(reply.reason()); reason != told && !reason.empty()) {
      print_message("pfcctl", Severity::kNote, reason);
      told = reason;
    }
    std::this_thread::sleep_for(kResultPollInterval);
  }
}

/// Stops the interrupted check, so that the next job does not wait for it.
void end_check(const CoordinatorCall& call, const std::string& id) {
  proto::StopRequest request;
  request.set_job(id);
  request.set_reason("pfcctl check was interrupted");
  request.set_urgent(true);
  try {
    call(&Stub::Stop, request);
    print_message("pfcctl", Severity::kNote, "the check is stopped");
  } catch (const std::exception& error) {
    print_message("pfcctl", Severity::kWarning,
                  std::string("could not stop the check: ") + error.what());
  }
}

proto::CheckReport check_and_wait(const CoordinatorCall& call, const ClusterCheck& check) {
  const InterruptGuard guard;
  const proto::SubmitReply submitted = call(&Stub::Submit, request_for(check));
  for (const std::string& warning : submitted.warnings()) {
    print_message("pfcctl", Severity::kWarning, one_line(warning));
  }
  try {
    return wait_for_report(call, submitted.job_id());
  } catch (const ExitStatus&) {
    end_check(call, submitted.job_id());
    throw;
  }
}

/// Requests a check, waits for it and prints the report; prints what it waits for on stderr.
/// Throws ExitStatus{1} if something would stop or slow the job, InputError if the coordinator
/// refuses, and CommError if it cannot be reached.
void run_cluster_check(const ClusterCheck& check) {
  const proto::CheckReport report = check_and_wait(CoordinatorCall(check.target.endpoint()), check);
  const std::string text = check.json ? json_text(check_json(report)) : check_text(report);
  std::fputs(text.c_str(), stdout);
  if (!is_good(report)) throw ExitStatus{1};
}

}  // namespace

void add_check_verb(CLI::App& pfcctl) {
  CLI::App* verb =
      pfcctl.add_subcommand("check",
                            "Checks whether this machine, or all hosts of a service, can train; "
                            "fails if they cannot, or are slower than they could be");
  const auto options = std::make_shared<ClusterCheck>();  // owned by the verb's callback
  options->target.declare(*verb);
  const std::vector<CLI::Option*> of_cluster{verb->get_option("--coordinator"),
                                             verb->get_option("--access-file"),
                                             verb->get_option("--service")};
  verb->add_flag("--cluster", options->cluster,
                 "Checks all hosts of the service that this user runs on this machine");
  CLI::Option* const config = verb->add_option(
      "--config", options->config,
      "For a cluster: a job file, whose data, output, memory and collectives are checked too");
  verb->add_option("--set", options->overrides,
                   "key=value: changes a key of the job file. May be repeated")
      ->allow_extra_args(false)
      ->needs(config);
  verb->add_flag("--json", options->json, "Prints JSON, for programs");
  verb->footer(
      "Examples:\n"
      "  pfcctl check\n"
      "  pfcctl check --json | jq .can_train\n"
      "  pfcctl check --coordinator 10.0.0.1:7450 --config job.json\n"
      "  pfcctl check --cluster --config job.json --json | jq .good\n"
      "docs/check.md lists all checks.");
  verb->callback([options, of_cluster, config] {
    const bool named =
        std::ranges::any_of(of_cluster, [](auto* each) { return each->count() > 0; });
    if (named || options->cluster || config->count() > 0) return run_cluster_check(*options);
    run_check(options->json);
  });
}

}  // namespace pfc
