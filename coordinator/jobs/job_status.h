// How a job is told to people: in lines of the coordinator, and by pfcctl queue.
#pragma once

#include <string>

#include "coordinator/jobs/job.h"
#include "coordinator/jobs/job_queue.h"
#include "proto/coordinator.pb.h"

namespace pfc {

/// "completed", "stopped" or "failed"
const char* name_of(Verdict::Kind how);

/// Returns the name to display: the name given by --name, or the path of the job file.
template <typename AnyJob>
const std::string& shown_name(const AnyJob& job) {
  return job.name.empty() ? job.file : job.name;
}

/// "job 0123456789abcdef (job.json)"
std::string title_of(const Job& job);

/// The job as it is remembered when it ends now. It has not run, and had no workers, unless the
/// caller says so.
EndedJob ended_job(const Job& job, Verdict::Kind how, const std::string& message);

proto::JobStatus status_of(const EndedJob& job);
/// `reason`: what is being waited for.
proto::JobStatus status_of_running(const Job& job, WallTime started, const std::string& reason);
proto::JobStatus status_of_waiting(const Job& job);

}  // namespace pfc
