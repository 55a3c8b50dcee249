#include "worker/capacity/measured_run.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/config/config.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/median.h"
#include "common/one_line.h"

namespace pfc {
namespace {

constexpr std::int64_t kWarmUp = 3;      // steps that allocate memory, plans and connections
constexpr std::size_t kFewestSteps = 5;  // steps after the warm-up
constexpr double kLongest = 1e6;         // maximum seconds of a phase

struct Run {
  nlohmann::json start;
  std::vector<nlohmann::json> steps;  // events of the steps since the last start
};

Run read_run(const std::filesystem::path& file) {
  { const RegularFile regular(file); }  // opening a FIFO would block
  std::ifstream in(file);
  Run run;
  std::string line;
  while (std::getline(in, line)) {
    nlohmann::json event = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object() || !event.contains("kind")) continue;  // an incomplete last line
    if (event["kind"] == "start") {
      run = {.start = std::move(event), .steps = {}};
    } else if (event["kind"] == "step") {
      run.steps.push_back(std::move(event));
    }
  }
  if (std::ssize(run.steps) < kWarmUp + static_cast<std::int64_t>(kFewestSteps)) {
    throw InputError(file.string() + ": found " + std::to_string(run.steps.size()) +
                     " steps after the last start, expected at least " +
                     std::to_string(kWarmUp + static_cast<std::int64_t>(kFewestSteps)) +
                     ": run the job with --set max_steps=30");
  }
  run.steps.erase(run.steps.begin(), run.steps.begin() + kWarmUp);
  return run;
}

StepCost median_step(const Run& run) {
  std::map<std::string, std::vector<double>> seconds;
  for (const nlohmann::json& step : run.steps) {
    for (const auto& [phase, value] : step.at("phases").get<std::map<std::string, double>>()) {
      if (!(value >= 0 && value < kLongest)) {
        throw InputError(fmt::format("a step whose phase '{}' took {} s, expected 0 to {:.0f} s",
                                     one_line(phase, 40), value, kLongest));
      }
      seconds[phase].push_back(value);
    }
  }
  StepCost cost;
  for (auto& [phase, values] : seconds) {
    cost.phases.push_back({phase, median_of(std::move(values))});
  }
  if (cost.seconds() <= 0) {
    throw InputError("expected steps that took time, found 0 s in every phase");
  }
  return cost;
}

/// Returns the job of the run: `planned`, with the values of the run's start event.
PlannedJob job_of(const Run& run, PlannedJob planned) {
  const nlohmann::json& start = run.start;
  JobConfig& job = planned.job;
  planned.world_size = start.at("workers").get<int>();
  job.network = start.at("network").get<std::string>();
  job.batch_size = start.at("batch_size").get<std::int64_t>();
  job.num_classes = start.at("classes").get<std::int64_t>();
  const auto samples = job.batch_size * planned.world_size;
  if (samples <= 0) throw InputError("found an event 'start' without samples");
  job.gradient_acc = start.at("global_batch").get<std::int64_t>() / samples;
  const std::string device = start.at("device").get<std::string>();
  if (planned.gpu == (device == "cpu")) {
    throw InputError("found a run on '" + device + "', expected a run on the device of the plan");
  }
  return planned;
}

}  // namespace

Corrections corrections_of_run(const std::filesystem::path& output, const PlannedJob& planned,
                               const ClusterModel& cluster) {
  const std::filesystem::path file = output / "metrics.jsonl";
  const Run run = read_run(file);
  try {
    const PlannedJob was = job_of(run, planned);
    ClusterModel its = cluster;
    its.workers = was.world_size;
    its.workers_of_host = std::min(was.world_size, cluster.workers_of_host);
    const std::int64_t pixels = was.data.height * was.data.width;
    return corrections(predict_step(count_step(was), was.job.batch_size, pixels, its),
                       median_step(run));
  } catch (const nlohmann::json::exception& error) {
    throw InputError(file.string() + ": found an event unknown to pfc-worker: " + error.what());
  } catch (const InputError& error) {
    throw InputError(file.string() + ": " + error.what());
  }
}

}  // namespace pfc
