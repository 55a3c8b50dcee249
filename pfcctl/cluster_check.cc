#include "pfcctl/cluster_check.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "common/config/job_file.h"
#include "common/log.h"
#include "common/one_line.h"
#include "pfcctl/interrupt_guard.h"
#include "pfcctl/jobs.h"
#include "pfcctl/verbs.h"
#include "proto/check_text.h"

namespace pfc {
namespace {

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
  request.set_reason("pfcctl check, which was ended");
  request.set_urgent(true);
  try {
    call(&Stub::Stop, request);
    print_message("pfcctl", Severity::kNote, "the check is stopped");
  } catch (const std::exception& error) {
    print_message("pfcctl", Severity::kWarning,
                  std::string("the check may go on: ") + error.what());
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

}  // namespace

void run_cluster_check(const ClusterCheck& check) {
  const proto::CheckReport report = check_and_wait(CoordinatorCall(check.target.endpoint()), check);
  const std::string text = check.json ? json_text(check_json(report)) : check_text(report);
  std::fputs(text.c_str(), stdout);
  if (!is_good(report)) throw ExitStatus{1};
}

}  // namespace pfc
