#include "coordinator/rules/refusal.h"

#include "common/one_line.h"
#include "coordinator/rules/cluster_state.h"

namespace pfc {

Refusal going_away() {
  return {.kind = Refusal::Kind::kUnavailable, .message = "the coordinator is ending"};
}

bool of_this_job(std::string_view job_id, const Fence& current, Refusal& why) {
  if (job_id == current.job_id && !job_id.empty()) return true;
  const std::string theirs = job_id.empty() ? "a request without a job" : "job " + one_line(job_id);
  const std::string ours = current.job_id.empty()
                               ? "this coordinator runs no job now"
                               : "this coordinator's job is " + std::string(current.job_id);
  why = {.kind = Refusal::Kind::kOldGeneration,
         .message = theirs + " is refused: " + ours +
                    "; end processes that were started for "
                    "another job"};
  return false;
}

bool admitted(const Fence& theirs, const Fence& current, Refusal& why) {
  if (!of_this_job(theirs.job_id, current, why)) return false;
  if (theirs.generation == current.generation) return true;
  why = {.kind = Refusal::Kind::kOldGeneration,
         .message = "generation " + std::to_string(theirs.generation) +
                    " is not current; the current generation is " +
                    std::to_string(current.generation) +
                    (current.cause.empty() ? "" : ", because of " + std::string(current.cause)) +
                    "; join the current one"};
  return false;
}

}  // namespace pfc
