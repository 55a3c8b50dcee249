// A job as a person gives it to the coordinator, checked.
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
  std::string file;  ///< the job file's path, as it was given, as one line of text
  std::string json;  ///< the whole job, which every worker gets when it joins
  DeviceChoice device = DeviceChoice::kAuto;
  std::vector<std::string> warnings = {};  ///< of keys that are ignored; for the person
  WallTime submitted = {};
  std::string name = {};       ///< one line, from --name; empty: `file` is displayed
  std::string submitter = {};  ///< id of the submitter's token; empty: submitted by an admin
  /// The output folder of the job, which may be relative to where its agents run; empty for a
  /// check, which writes nothing there.
  std::filesystem::path output = {};
  bool check = false;  ///< the hosts are looked at as this job would use them (docs/check.md)
};

/// Checks a job that is to run on so many workers (0: not known yet). Throws InputError, which
/// names the origin of what is wrong.
Job make_job(const nlohmann::json& written, const JobOrigin& origin, int workers);

/// Makes it a check of its hosts. Throws InputError where the job has no `rec`, unless it is a
/// check without a job.
void become_check(Job& job, bool without_job);

/// The output folder that Job::json names; empty where it names none.
std::filesystem::path output_of(const std::string& job_json);
/// Whether it goes on from what is in that folder.
bool resumes(const std::string& job_json);

}  // namespace pfc
