#include "worker/start/resume.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "comm/rank_zero.h"
#include "common/config/job_json.h"
#include "common/counted.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/schedule/lr_schedule.h"
#include "worker/start/resumed_people.h"

namespace pfc {

std::optional<CheckpointInfo> newest_checkpoint_of_job(const JobConfig& job,
                                                       const std::string& job_id) {
  const auto there = newest_checkpoint(job.output);
  const bool is_own =
      there && checkpoint_format::load_manifest(there->folder).identity.job_id == job_id;
  return checkpoint_to_resume(job.output, job.resume || is_own);
}

std::optional<CheckpointOnDisk> newest_checkpoint_of_all(Comm& comm, const JobConfig& job,
                                                         const std::string& job_id,
                                                         const std::vector<std::string>& data) {
  std::int64_t step = -1;
  std::int64_t images = 0;
  OrderedJob ordered;
  on_rank_zero(comm, [&] {
    const auto newest = newest_checkpoint_of_job(job, job_id);
    if (!newest) return;
    step = newest->trained.step;
    images = newest->trained.images;
    const auto before = checkpoint_format::load_manifest(newest->folder).identity;
    std::string warning = compare_people(newest->folder, before.job, to_json(job));
    if (warning.empty()) warning = compare_data(newest->folder, before.data, data);
    if (!warning.empty()) spdlog::warn("{}", warning);
    ordered = ordered_job(before.job, newest->global_batch);
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

/// Returns whether both jobs have the same order of images, whatever their seeds and batches are.
bool both_unshuffled(const OrderedJob& before, const OrderedJob& now) {
  if (!both(before, now, "shuffle", false)) return false;
  const auto balanced = [](const OrderedJob& of) {
    return value_of(of.job, "balance_classes") == true;
  };
  if (balanced(before) != balanced(now)) return false;
  // With several data sets, sequential reading mixes them, and random reading without shuffling
  // does not.
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
    text += what + " changed from " + old.dump() + " to " + value.dump();
  };
  const auto compare = [&](const char* key) {
    if (!before.job.contains(key) || !now.job.contains(key)) return;
    became(key, before.job[key], now.job[key]);
  };
  for (const char* key : {"seed", "shuffle", "balance_classes", "read"}) compare(key);
  if (!both(before, now, "read", "sequential")) return text;
  compare("read_buffer_mib");
  if (before.micro_batch > 0 && now.micro_batch > 0) {
    became("the batch of all workers", before.micro_batch, now.micro_batch);
  }
  return text;
}

std::string repeated_images_message(const std::string& other_order, const StepPlan& plan) {
  const DataPlace& next = plan.start.next;
  if (other_order.empty() || next.position == 0 || next.position >= plan.images) return {};
  return fmt::format(
      "; {}: some of the remaining {} images of epoch {} repeat, and as many are skipped",
      other_order, plan.images - next.position, next.epoch);
}

std::string resized_message(const JobConfig& job, const StepPlan& plan) {
  if (!plan.resized()) return {};
  const auto text = [](const StepBatch& size) {
    return fmt::format("{} ({} x batch_size {} x gradient_acc {})", counted(size.images(), "image"),
                       counted(size.world_size, "worker"), size.batch_size, size.gradient_acc);
  };
  std::string message =
      fmt::format("; each step now has {} instead of {}, so the job ends after step {}",
                  text(plan.batch), text(plan.start.planned), plan.last_step);
  const double factor = lr_factor(job, plan);
  if (factor != 1) message += fmt::format("; lr is multiplied by {:.4g} (lr_scaling)", factor);
  return message;
}

std::string resumed_message(const CheckpointInfo& checkpoint, const StepPlan& plan) {
  std::string text = "resumed from " + checkpoint.folder.string() + " (step " +
                     std::to_string(checkpoint.trained.step) + ", saved by " +
                     counted(checkpoint.world_size, "worker") + ")";
  if (plan.first_step() <= plan.last_step) {
    return text + ": next is step " + std::to_string(plan.first_step());
  }
  return text + ": nothing is left to train; to continue, raise num_epoch or max_steps";
}

}  // namespace pfc
