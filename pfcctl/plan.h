// pfcctl plan: the memory that a worker of a job will need.
#pragma once

#include <cstdint>
#include <string>

#include "worker/memory/memory_advice.h"

namespace pfc {

/// Everything that is printed about one job's memory.
struct PlanReport {
  PlannedJob planned;
  MemoryPlan plan;
  MemoryThere there;
  LargestThatFits largest;
  std::string advice;   ///< empty where the job fits
  std::string refusal;  ///< why the job would be refused, whatever the memory; empty: it would not
};

/// For people: a table of the parts, their sum, whether it fits, why the job would be refused, and
/// the largest job that would fit.
std::string plan_text(const PlanReport& report);
/// The same as a JSON object.
std::string plan_json(const PlanReport& report);

}  // namespace pfc
