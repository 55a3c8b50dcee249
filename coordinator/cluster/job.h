// A submitted and checked job.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/config/config.h"
#include "common/config/job_origin.h"

namespace pfc {

struct Job {
  std::string id;    ///< random
  std::string file;  ///< path of the job file as given, on one line
  std::string json;  ///< the whole job; sent to every worker that joins
  DeviceChoice device = DeviceChoice::kAuto;
  std::vector<std::string> warnings = {};  ///< about ignored keys; shown to the submitter
  WallTime submitted = {};
  std::string name = {};       ///< one line, from --name; empty: `file` is displayed
  std::string submitter = {};  ///< id of the submitter's token; empty: submitted by an admin
  /// The job's output folder, perhaps relative to the agents' working folder. Empty for a check,
  /// which writes nothing.
  std::filesystem::path output = {};
  bool check = false;  ///< test the hosts as this job would use them (docs/check.md)
};

/// Checks a job for this number of workers (0: unknown). Throws InputError that names the origin
/// of the problem.
Job make_job(const nlohmann::json& written, const JobOrigin& origin, int workers);

/// Turns the job into a check. Throws InputError if the job has no `rec`, unless `without_job`.
void become_check(Job& job, bool without_job);

/// Returns the output folder in Job::json; empty if there is none.
std::filesystem::path output_of(const std::string& job_json);
/// Returns whether the job resumes from its output folder.
bool resumes(const std::string& job_json);

}  // namespace pfc
