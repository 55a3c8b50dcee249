#include "coordinator/jobs/job_status.h"

#include <chrono>
#include <cstdint>

#include "common/one_line.h"

namespace pfc {
namespace {

template <typename AnyJob>
proto::JobStatus begun_status(const AnyJob& job, const char* state, const std::string& output) {
  proto::JobStatus status;
  status.set_job_id(job.id);
  status.set_file(job.file);
  status.set_state(state);
  status.set_submitted_ms(to_ms(job.submitted));
  status.set_name(shown_name(job));
  status.set_output(output);
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

EndedJob ended_job(const Job& job, Verdict::Kind how, const std::string& message) {
  return {.id = job.id,
          .file = job.file,
          .submitted = job.submitted,
          .started = {},
          .ended = std::chrono::system_clock::now(),
          .how = how,
          .message = one_line(message),
          .first_ranks = {},
          .name = job.name,
          .submitter = job.submitter,
          .output = job.output.string()};
}

proto::JobStatus status_of(const EndedJob& job) {
  proto::JobStatus status = begun_status(job, name_of(job.how), job.output);
  if (job.started) status.set_started_ms(to_ms(*job.started));
  status.set_ended_ms(to_ms(job.ended));
  status.set_message(job.message);
  return status;
}

proto::JobStatus status_of_running(const Job& job, WallTime started, const std::string& reason) {
  proto::JobStatus status = begun_status(job, "running", job.output.string());
  status.set_started_ms(to_ms(started));
  status.set_message(reason);
  return status;
}

proto::JobStatus status_of_waiting(const Job& job) {
  return begun_status(job, "waiting", job.output.string());
}

}  // namespace pfc
