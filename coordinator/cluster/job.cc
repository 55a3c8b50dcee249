#include "coordinator/cluster/job.h"

#include <nlohmann/json.hpp>

#include "common/config/job_json.h"
#include "common/config/keys/arcface_torch_keys.h"
#include "common/error.h"
#include "common/one_line.h"
#include "common/random_id.h"

namespace pfc {
namespace {

constexpr std::size_t kLongestOriginFile = 500;

}  // namespace

Job make_job(const nlohmann::json& written, const JobOrigin& origin, int workers) {
  const JobConfig config = parse_job(written, origin);
  if (workers > 0) check_batch_norm_samples(config, workers);
  return {.id = random_id(),
          .file = one_line(origin.file, kLongestOriginFile),
          .json = to_json(config).dump(),
          .device = config.device,
          .warnings = ignored_key_warnings(written),
          .submitted = std::chrono::system_clock::now(),
          .output = config.output};
}

void become_check(Job& job, bool without_job) {
  const auto written = nlohmann::json::parse(job.json);
  if (!without_job && written["rec"] == "") {
    throw InputError(job.file + ": rec: not given; a check reads the data of the job");
  }
  job.check = true;
  job.output.clear();
  job.file = without_job ? "check" : "check of " + job.file;
}

std::filesystem::path output_of(const std::string& job_json) {
  const auto job = nlohmann::json::parse(job_json, nullptr, /*allow_exceptions=*/false);
  return job.is_object() ? job.value("output", "") : "";
}

bool resumes(const std::string& job_json) {
  const auto job = nlohmann::json::parse(job_json, nullptr, /*allow_exceptions=*/false);
  return job.is_object() && job.value("resume", false);
}

}  // namespace pfc
