#include "worker/start/resume.h"

#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "common/config/job_json.h"
#include "common/counted.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/comm/rank_zero.h"
#include "worker/start/resumed_people.h"

namespace pfc {

std::optional<CheckpointOnDisk> newest_checkpoint_of_all(Comm& comm, const JobConfig& job,
                                                         const std::string& job_id) {
  std::int64_t step = -1;
  std::int64_t images = 0;
  OrderedJob ordered;
  on_rank_zero(comm, [&] {
    const auto there = newest_checkpoint(job.output);
    const bool is_own =
        there && checkpoint_format::load_manifest(there->folder).identity.job_id == job_id;
    const auto newest = checkpoint_to_resume(job.output, job.resume || is_own);
    if (!newest) return;
    step = newest->step;
    images = newest->step * newest->global_batch;
    const auto before = checkpoint_format::load_manifest(newest->folder).identity.job;
    const std::string warning = compare_people(newest->folder, before, to_json(job));
    if (!warning.empty()) spdlog::warn("{}", warning);
    ordered = ordered_job(before, newest->global_batch);
  });
  step = from_rank_zero(comm, step);
  images = from_rank_zero(comm, images);
  if (step < 0) return std::nullopt;
  return CheckpointOnDisk{.folder = job.output / checkpoint_format::folder_name(step),
                          .images = images,
                          .ordered = std::move(ordered)};
}

namespace {

nlohmann::json value_of(const nlohmann::json& job, const char* key) {
  const auto found = job.find(key);
  return found == job.end() ? nlohmann::json() : *found;
}

bool both(const OrderedJob& before, const OrderedJob& now, const char* key,
          const nlohmann::json& value) {
  return value_of(before.job, key) == value && value_of(now.job, key) == value;
}

bool has_one_set(const OrderedJob& of) {
  const nlohmann::json rec = value_of(of.job, "rec");
  return !rec.is_array() || rec.size() == 1;
}

/// Whether both show the same image at the same position whatever their seeds and batches are.
bool both_unshuffled(const OrderedJob& before, const OrderedJob& now) {
  if (!both(before, now, "shuffle", false)) return false;
  // Sequential reading mixes several sets.
  return (has_one_set(before) && has_one_set(now)) ||
         value_of(before.job, "read") == value_of(now.job, "read");
}

}  // namespace

OrderedJob ordered_job(nlohmann::json job, std::int64_t global_batch) {
  const nlohmann::json micro_batches = value_of(job, "gradient_acc");
  const bool known = micro_batches.is_number_integer() && micro_batches > 0;
  const std::int64_t micro_batch = known ? global_batch / micro_batches.get<std::int64_t>() : 0;
  return {.job = std::move(job), .micro_batch = micro_batch};
}

std::string other_order(const OrderedJob& before, const OrderedJob& now) {
  if (both_unshuffled(before, now)) return {};
  std::string text;
  const auto became = [&](const std::string& what, const nlohmann::json& old,
                          const nlohmann::json& value) {
    if (old == value) return;
    if (!text.empty()) text += ", ";
    text += what + " " + old.dump() + " became " + value.dump();
  };
  const auto compare = [&](const char* key) {
    if (!before.job.contains(key) || !now.job.contains(key)) return;
    became(key, before.job[key], now.job[key]);
  };
  for (const char* key : {"seed", "shuffle", "read"}) compare(key);
  if (!both(before, now, "read", "sequential")) return text;
  compare("read_buffer_mib");
  if (before.micro_batch > 0 && now.micro_batch > 0) {
    became("the batch of all workers", before.micro_batch, now.micro_batch);
  }
  return text;
}

std::string repeated_images_message(const std::string& other_order, const StepPlan& plan,
                                    std::int64_t first_step) {
  const std::int64_t micro_batch = (first_step - 1) * plan.micro_batches_per_step;
  if (other_order.empty() || micro_batch % plan.micro_batches_per_epoch == 0) return {};
  return "; " + other_order + ", so to the end of this epoch images come that have come before";
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
