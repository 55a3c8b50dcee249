#include "pfcctl/jobs.h"

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/command_line.h"
#include "common/config/config.h"
#include "common/config/job_file.h"
#include "common/exit_codes.h"
#include "common/log.h"
#include "common/one_line.h"
#include "pfcctl/coordinator_call.h"
#include "pfcctl/verbs.h"

namespace pfc {
namespace {

namespace fs = std::filesystem;
using Stub = proto::CoordinatorService::Stub;

constexpr std::chrono::milliseconds kFollow{500};  // interval between polls of a followed log
constexpr std::chrono::seconds kBroken{60};        // time limit for reconnecting in `logs --follow`

struct SubmitOptions {
  Target target;
  fs::path job;
  std::string name;
  std::vector<std::string> overrides;
};

struct QueueOptions {
  Target target;
  bool json = false;
};

struct LogsOptions {
  Target target;
  std::string job;
  int rank = 0;
  bool follow = false;
  std::int64_t tail = 0;  ///< lines to print; 0 prints all
};

constexpr std::int64_t kLogLines = -2;  // value of `part`: the offset counts lines before the end

void submit(const SubmitOptions& options) {
  nlohmann::json job = read_job_file(options.job, options.overrides);
  make_paths_absolute(job, fs::current_path());
  proto::SubmitRequest request;
  request.set_job_json(job.dump());
  request.set_file(options.job.string());
  request.set_name(options.name);
  for (const std::string& each : options.overrides) request.add_overrides(each);
  const CoordinatorCall call(options.target.endpoint());
  const proto::SubmitReply reply = call(&Stub::Submit, request);
  for (const std::string& warning : reply.warnings()) {
    print_message("pfcctl", Severity::kWarning, options.job.string() + ": " + one_line(warning));
  }
  std::cout << one_line(reply.job_id()) << std::endl;
  print_message(
      "pfcctl", Severity::kNote,
      "job accepted; " + (reply.before() == 0 ? "it is next in the queue"
                                              : counted(reply.before(), "job") + " before it"));
}

/// Returns "2026-05-12 14:03:07", in this machine's time zone; "-" for 0.
std::string job_time_text(std::int64_t unix_ms) {
  if (unix_ms == 0) return "-";
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  std::array<char, 32> text{};
  if (localtime_r(&seconds, &parts) == nullptr) return "-";
  std::strftime(text.data(), text.size(), "%F %T", &parts);
  return text.data();
}

nlohmann::ordered_json time_json(std::int64_t unix_ms) {
  if (unix_ms == 0) return {};
  return static_cast<double>(unix_ms) / 1000;
}

void show_queue(const QueueOptions& options) {
  const CoordinatorCall call(options.target.endpoint());
  const proto::QueueReply queue = call(&Stub::Queue, proto::QueueRequest());
  if (options.json) {
    std::cout << json_text(queue_json(queue)) << std::flush;
  } else {
    std::cout << queue_text(queue) << std::flush;
  }
}

/// Reads pieces of a log and retries when the connection fails.
class LogReader {
 public:
  explicit LogReader(const CoordinatorCall& call) : call_(call) {}

  /// Returns nothing if the connection failed and the log is `followed`; the caller repeats the
  /// request. Throws CommError after kBroken without a connection.
  std::optional<proto::LogsReply> read(const proto::LogsRequest& request, bool followed) {
    try {
      auto reply = call_(&Stub::Logs, request);
      broken_ = false;
      return reply;
    } catch (const CommError&) {
      const TimePoint now = Clock::now();
      if (!followed) throw;
      if (!std::exchange(broken_, true)) {
        since_ = now;
        print_message("pfcctl", Severity::kWarning,
                      "the coordinator cannot be reached; trying again");
      }
      if (now - since_ >= kBroken) throw;
      std::this_thread::sleep_for(kFollow);
      return {};
    }
  }

 private:
  const CoordinatorCall& call_;
  bool broken_ = false;
  TimePoint since_;  ///< when the connection failed
};

void show_logs(const LogsOptions& options) {
  const CoordinatorCall call(options.target.endpoint());
  proto::LogsRequest request;
  request.set_job(options.job);
  request.set_rank(options.rank);
  if (options.tail > 0) {
    request.mutable_from()->set_part(kLogLines);
    request.mutable_from()->set_offset(options.tail);
  }
  LogReader reader(call);
  bool is_empty = true;
  for (bool has_begun = false; std::cout; has_begun = true) {
    const auto got = reader.read(request, options.follow && has_begun);
    if (!got) continue;
    const proto::LogsReply& reply = *got;
    request.set_job(reply.job_id());  // keep the job when the next one begins
    *request.mutable_from() = reply.next();
    if (reply.skipped()) {
      print_message("pfcctl", Severity::kWarning,
                    "a part of the log has been deleted before it was read");
    }
    is_empty = is_empty && reply.text().empty();
    std::cout << reply.text() << std::flush;
    if (!reply.text().empty()) continue;
    if (!options.follow || reply.over()) {
      if (is_empty) {
        print_message("pfcctl", Severity::kNote,
                      "rank " + std::to_string(options.rank) + " has written nothing");
      }
      return;
    }
    std::this_thread::sleep_for(kFollow);
  }
}

}  // namespace

void make_paths_absolute(nlohmann::json& job, const fs::path& folder) {
  const auto absolute = [&](nlohmann::json& value) {
    const bool given = value.is_string() && !value.get_ref<const std::string&>().empty();
    if (given) value = (folder / value.get<std::string>()).lexically_normal().string();
  };
  if (!job.contains("output")) job["output"] = JobConfig{}.output.string();
  for (const char* key :
       {"rec", "val_rec", "identities", "overlay", "stage", "output", "init_from", "teacher"}) {
    if (!job.contains(key)) continue;
    if (!job[key].is_array()) absolute(job[key]);
    if (job[key].is_array()) std::ranges::for_each(job[key], absolute);
  }
  if (!job.contains("val_targets") || !job["val_targets"].is_array()) return;
  for (nlohmann::json& target : job["val_targets"]) {
    if (target.is_string() && fs::path(target.get<std::string>()).has_parent_path()) {
      absolute(target);
    }
  }
}

std::string queue_text(const proto::QueueReply& queue) {
  std::string text;
  if (queue.jobs().empty()) text = "no jobs\n";
  std::array<char, 200> line{};
  const auto add = [&](const char* id, const char* state, const char* submitted,
                       const char* started, const char* ended) {
    std::snprintf(line.data(), line.size(), "%-16s  %-9s  %-19s  %-19s  %-19s  ", id, state,
                  submitted, started, ended);
    text += line.data();
  };
  if (!queue.jobs().empty()) {
    add("job", "state", "submitted", "started", "ended");
    text += "name, output\n";
  }
  for (const proto::JobStatus& job : queue.jobs()) {
    add(one_line(job.job_id(), 16).c_str(), one_line(job.state(), 9).c_str(),
        job_time_text(job.submitted_ms()).c_str(), job_time_text(job.started_ms()).c_str(),
        job_time_text(job.ended_ms()).c_str());
    text += one_line(job.name());
    if (!job.output().empty()) text += ", " + one_line(job.output());
    if (!job.message().empty()) text += ": " + one_line(job.message());
    text += "\n";
  }
  if (queue.refused() > 0) text += std::to_string(queue.refused()) + " refused\n";
  if (!queue.reason().empty()) text += one_line(queue.reason()) + "\n";
  return text;
}

nlohmann::ordered_json queue_json(const proto::QueueReply& queue) {
  auto jobs = nlohmann::ordered_json::array();
  for (const proto::JobStatus& job : queue.jobs()) {
    jobs.push_back({{"job_id", job.job_id()},
                    {"name", one_line(job.name())},
                    {"file", one_line(job.file())},
                    {"output", one_line(job.output())},
                    {"submitter", job.submitter()},
                    {"state", job.state()},
                    {"submitted", time_json(job.submitted_ms())},
                    {"started", time_json(job.started_ms())},
                    {"ended", time_json(job.ended_ms())},
                    {"message", one_line(job.message())}});
  }
  return {{"jobs", std::move(jobs)},
          {"refused", queue.refused()},
          {"reason", one_line(queue.reason())}};
}

void add_submit_verb(CLI::App& pfcctl) {
  CLI::App* verb =
      pfcctl.add_subcommand("submit", "Submits a job to a coordinator that runs as a service");
  const auto options = std::make_shared<SubmitOptions>();  // owned by the verb's callback
  verb->add_option("JOB", options->job, "The job file (JSON)")->required();
  verb->add_option(
      "--name", options->name,
      "Name of the job in the queue and on the page; default: the path of the job file");
  verb->add_option("--set", options->overrides,
                   "key=value: changes a key of the job file. May be repeated")
      ->allow_extra_args(false);
  options->target.declare(*verb);
  verb->footer(
      "Prints the job's id and returns immediately. Relative paths in the job are relative to\n"
      "the current folder, and must be valid on every host. Exit code 2: the job was rejected.\n"
      "Example:\n"
      "  pfcctl submit job.json --name night-run --set lr=0.02");
  verb->callback([options] { submit(*options); });
}

void add_queue_verb(CLI::App& pfcctl) {
  CLI::App* verb = pfcctl.add_subcommand(
      "queue", "Lists the waiting and running jobs, and how the last ones ended");
  const auto options = std::make_shared<QueueOptions>();  // owned by the verb's callback
  options->target.declare(*verb);
  verb->add_flag("--json", options->json,
                 "Prints JSON, for programs; times are seconds since 1970");
  verb->footer("Example:\n  pfcctl queue");
  verb->callback([options] { show_queue(*options); });
}

void add_logs_verb(CLI::App& pfcctl) {
  CLI::App* verb = pfcctl.add_subcommand("logs", "Prints the log of a worker");
  const auto options = std::make_shared<LogsOptions>();  // owned by the verb's callback
  verb->add_option(
      "JOB", options->job,
      "The job's id, or the beginning of it. Default: the running job, or the last one");
  verb->add_option("--rank", options->rank, "Rank of the worker")
      ->check(whole_number(0, 1'000'000))
      ->capture_default_str();
  verb->add_flag("-f,--follow", options->follow,
                 "Keeps printing new lines until the job has ended");
  verb->add_option("--tail", options->tail, "Prints only the last lines; 0: all")
      ->check(whole_number(0, 1'000'000))
      ->capture_default_str();
  options->target.declare(*verb);
  verb->footer(
      "The worker's agent stores the log and keeps the last 50 MiB. --follow also works for a\n"
      "job that is still waiting. Example:\n"
      "  pfcctl logs --rank 1 --tail 20 --follow");
  verb->callback([options] { show_logs(*options); });
}

}  // namespace pfc
