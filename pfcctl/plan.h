// pfcctl plan: the memory that a worker of a job will need, and how long its steps will take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pfcctl/capacity.h"
#include "worker/memory/memory_advice.h"

namespace pfc {

/// Everything that is printed about one job.
struct PlanReport {
  PlannedJob planned;
  MemoryPlan plan;
  MemoryThere there;
  LargestThatFits largest;
  std::string advice;   ///< empty where the job fits
  std::string refusal;  ///< why the job would be refused, whatever the memory; empty: it would not
  std::optional<Capacity> capacity = {};  ///< null where no machine was named
  int workers_of_host = 1;
  std::string config = {};  ///< the job file, as it was given
};

/// For people: a table of the parts, their sum, the largest job that would fit, and the time of a
/// step, where a machine was named. The last lines say whether it fits, why the job would be
/// refused, and what to do.
std::string plan_text(const PlanReport& report);
/// The same as a JSON object.
std::string plan_json(const PlanReport& report);

}  // namespace pfc
