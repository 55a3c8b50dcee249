// pfcctl plan: predicts the memory of a worker and the time of a step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pfcctl/plan/capacity.h"
#include "worker/memory/memory_advice.h"

namespace pfc {

/// Everything that is printed about one job.
struct PlanReport {
  PlannedJob planned;
  MemoryPlan plan;
  MemoryThere there;
  LargestThatFits largest;
  std::string advice;   ///< empty if the job fits
  std::string refusal;  ///< why the job would be refused regardless of memory; empty if not
  bool without_teacher = false;           ///< the job has a teacher, but the plan could not read it
  std::optional<Capacity> capacity = {};  ///< null if no machine was named
  int workers_of_host = 1;
  std::string config = {};  ///< the job file, as given
};

/// Returns a table of the parts of memory, their sum, the largest job that fits, and the time of a
/// step if a machine was named. The last lines say whether the job fits, why it would be refused,
/// and what to do.
std::string plan_text(const PlanReport& report);
/// Returns the content of plan_text() as a JSON object.
std::string plan_json(const PlanReport& report);

}  // namespace pfc
