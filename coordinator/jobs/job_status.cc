#include "coordinator/jobs/job_status.h"

#include "common/one_line.h"

namespace pfc {
namespace {

proto::JobStatus status_of(const Job& job, const char* state) {
  proto::JobStatus status;
  status.set_job_id(job.id);
  status.set_file(job.file);
  status.set_state(state);
  status.set_submitted_ms(to_ms(job.submitted));
  status.set_name(shown_name(job));
  status.set_output(job.output.string());
  status.set_submitter(job.submitter);
  return status;
}

}  // namespace

const char* name_of(Verdict::Kind how) {
  switch (how) {
    case Verdict::Kind::kCompleted:
      return "completed";
    case Verdict::Kind::kStopped:
      return "stopped";
    case Verdict::Kind::kFailed:
      break;
  }
  return "failed";
}

std::string title_of(const Job& job) { return "job " + job.id + " (" + shown_name(job) + ")"; }

proto::EndedJob ended_job(const Job& job, Verdict::Kind how, const std::string& message) {
  proto::EndedJob ended;
  *ended.mutable_status() = status_of(job, name_of(how));
  ended.mutable_status()->set_ended_ms(to_ms(wall_now()));
  ended.mutable_status()->set_message(one_line(message));
  return ended;
}

proto::JobStatus status_of_running(const Job& job, WallTime started, const std::string& reason) {
  proto::JobStatus status = status_of(job, "running");
  status.set_started_ms(to_ms(started));
  status.set_message(reason);
  return status;
}

proto::JobStatus status_of_waiting(const Job& job) { return status_of(job, "waiting"); }

}  // namespace pfc
