// How jobs are shown to users, in the coordinator's output and by pfcctl queue.
#pragma once

#include <string>

#include "coordinator/cluster/job.h"
#include "coordinator/rules/verdict.h"
#include "proto/journal.pb.h"

namespace pfc {

/// Returns "completed", "stopped" or "failed".
const char* name_of(Verdict::Kind how);

/// Returns the name to display: the one given by --name, or the path of the job file.
inline const std::string& shown_name(const Job& job) {
  return job.name.empty() ? job.file : job.name;
}

/// Returns "job 0123456789abcdef (job.json)".
std::string title_of(const Job& job);

/// Returns the record of a job that ends now, without a start time and workers; the caller sets
/// them if the job ran.
proto::EndedJob ended_job(const Job& job, Verdict::Kind how, const std::string& message);

/// `reason`: what the job waits for.
proto::JobStatus status_of_running(const Job& job, WallTime started, const std::string& reason);
proto::JobStatus status_of_waiting(const Job& job);

}  // namespace pfc
