#include "worker/start/resume.h"

#include <nlohmann/json.hpp>

#include "common/config/job_json.h"
#include "common/counted.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/comm/rank_zero.h"

namespace pfc {

std::optional<CheckpointOnDisk> newest_checkpoint_of_all(Comm& comm, const JobConfig& job,
                                                         const std::string& job_id) {
  std::int64_t step = -1;
  std::int64_t images = 0;
  std::string order;
  on_rank_zero(comm, [&] {
    const auto there = newest_checkpoint(job.output);
    const bool is_own =
        there && checkpoint_format::load_manifest(there->folder).identity.job_id == job_id;
    const auto newest = checkpoint_to_resume(job.output, job.resume || is_own);
    if (!newest) return;
    step = newest->step;
    images = newest->step * newest->global_batch;
    order =
        other_order(checkpoint_format::load_manifest(newest->folder).identity.job, to_json(job));
  });
  step = from_rank_zero(comm, step);
  images = from_rank_zero(comm, images);
  if (step < 0) return std::nullopt;
  return CheckpointOnDisk{.folder = job.output / checkpoint_format::folder_name(step),
                          .images = images,
                          .other_order = order};
}

std::string other_order(const nlohmann::json& before, const nlohmann::json& now) {
  std::string text;
  const auto compare = [&](const char* key) {
    if (!before.contains(key) || !now.contains(key) || before[key] == now[key]) return;
    if (!text.empty()) text += ", ";
    text += std::string(key) + " " + before[key].dump() + " became " + now[key].dump();
  };
  for (const char* key : {"seed", "shuffle", "read"}) compare(key);
  if (now.value("read", "") == "sequential") compare("read_buffer_mib");
  return text;
}

std::string repeated_images_message(const CheckpointOnDisk& checkpoint, const StepPlan& plan) {
  if (checkpoint.other_order.empty() || checkpoint.images % images_per_epoch(plan) == 0) return {};
  return "; " + checkpoint.other_order +
         ", so to the end of this epoch images come that have come before";
}

std::string resumed_message(const CheckpointInfo& checkpoint, std::int64_t first_step,
                            std::int64_t last_step) {
  const std::int64_t done = first_step - 1;
  std::string text = "resumed from " + checkpoint.folder.string() + " (step " +
                     std::to_string(checkpoint.step) + " of " +
                     counted(checkpoint.world_size, "worker") + ")";
  if (done < last_step) return text + ": next is step " + std::to_string(first_step);
  text += ": nothing is left to train";
  if (done != checkpoint.step) {
    text += ", as its images are those of step " + std::to_string(done) + " of this job";
  }
  return text + "; to go on, raise num_epoch or max_steps";
}

}  // namespace pfc
