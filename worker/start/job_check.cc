#include "worker/start/job_check.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/config/job_json.h"
#include "common/counted.h"
#include "common/error.h"
#include "data/reading/read_options.h"
#include "worker/head/sample_margins.h"
#include "worker/schedule/step_plan.h"

namespace pfc {
namespace {

void check_precision(const PlannedJob& p) {
  if (p.gpu || p.job.precision != Precision::kFp16) return;
  throw InputError(
      "precision: found fp16, but a CPU computes in fp32 or bf16; fp16 is for device \"cuda\"");
}

void check_storage(const PlannedJob& p) {
  if (!p.gpu || p.job.centre_storage != CentreStorage::kDisk) return;
  throw InputError(
      "centre_storage: found disk, expected device for a worker on a GPU, which cannot read class "
      "centres from a file; use more GPUs, or device \"cpu\"");
}

void check_head_classes(const JobConfig& job) {
  if (job.heads != Heads::kSeparate) return;
  const auto one = std::ranges::find(job.head_classes, 1);
  if (one == job.head_classes.end()) return;
  const auto set = static_cast<std::size_t>(one - job.head_classes.begin());
  throw InputError(fmt::format(
      "heads: {} has 1 class, expected 2 or more for a separate head: the softmax over one class "
      "is 1 for every image, and nothing would be learnt; leave the data set out, or set heads to "
      "\"one\"",
      set < job.rec.size() ? job.rec[set].string()
                           : fmt::format("entry {} of head_classes", set + 1)));
}

void check_classes(const PlannedJob& p) {
  if (p.job.num_classes < 2) {
    throw InputError(
        "num_classes: found 1, expected 2 or more: the softmax over one class is 1 for every "
        "image, "
        "and nothing would be learnt");
  }
  check_head_classes(p.job);
  const std::int64_t blocks = blocks_of(p.job.num_classes, p.job.sample_unit);
  if (blocks >= p.world_size) return;
  if (p.job.sample_unit == 1) {
    throw InputError(fmt::format("{} would share {} classes: start fewer workers",
                                 counted(p.world_size, "worker"), p.job.num_classes));
  }
  throw InputError(fmt::format(
      "{} would share {} blocks of {} classes: start fewer workers, or lower sample_unit",
      counted(p.world_size, "worker"), blocks, p.job.sample_unit));
}

/// Rejects keys that need one label for each image.
void check_labels(const JobConfig& job) {
  if (job.labels_per_image <= 1) return;
  const auto fail = [&](const std::string& found, const char* expected) {
    throw InputError(fmt::format("{}, but images of {} have up to {} labels; {}", found,
                                 text_of(job.rec), job.labels_per_image, expected));
  };
  if (has_sample_margins(job.loss)) {
    const nlohmann::json name = to_json(job).at("loss").at("name");
    fail("loss: found " + name.dump(),
         "expected \"margin\" or \"softmax\": the other losses are defined for one label");
  }
  if (job.balance_classes) {
    fail("balance_classes: found true", "remove this key: it needs one label for each image");
  }
}

/// Rejects jobs with too many steps, because rows count their updates in 32 bits.
void check_not_too_many_steps(const StepPlan& plan) {
  constexpr std::int64_t kMost = 1'000'000'000;
  if (plan.last_step <= kMost) return;
  throw InputError(
      fmt::format("num_epoch: the job would have {} steps, expected at most {}: lower num_epoch, "
                  "or set max_steps",
                  plan.last_step, kMost));
}

/// Rejects a step that is longer than the job: it would pass over the data more often than
/// num_epoch allows.
void check_steps(const PlannedJob& p) {
  const StepPlan plan = plan_steps(p.job, p.world_size, p.data.images);
  check_not_too_many_steps(plan);
  const double micro_batches =
      static_cast<double>(plan.micro_batches_per_epoch()) * p.job.num_epoch;
  const auto step = static_cast<double>(p.job.gradient_acc);
  constexpr double kRounding = 1e-9;  // allowed error of num_epoch
  if (micro_batches >= step * (1 - kRounding)) return;
  const std::string job =
      fmt::format("num_epoch {:g} is {:g} micro-batches, {} an epoch", p.job.num_epoch,
                  micro_batches, plan.micro_batches_per_epoch());
  if (p.job.gradient_acc == 1) {
    throw InputError(
        fmt::format("num_epoch: expected at least one step: {}; to train only a few "
                    "steps, set max_steps",
                    job));
  }
  throw InputError(fmt::format(
      "gradient_acc: found {}, but {}: the job is shorter than one step; lower gradient_acc",
      p.job.gradient_acc, job));
}

}  // namespace

void check_job(const PlannedJob& p) {
  check_precision(p);
  check_storage(p);
  check_batch_norm_samples(p.job, p.world_size);
  check_classes(p);
  check_labels(p.job);
  if (p.data.images == 0) return;
  check_steps(p);
  if (p.job.read == ReadKind::kSequential && p.data.stored_bytes > 0) {
    (void)window_images(read_options(p.job), p.data.images, p.data.stored_bytes,
                        p.job.batch_size * p.world_size);
  }
}

int most_workers(const PlannedJob& p) {
  const auto fits = [&](std::int64_t workers) {
    PlannedJob larger = p;
    larger.world_size = static_cast<int>(workers);
    try {
      check_job(larger);
      return true;
    } catch (const InputError&) {
      return false;
    }
  };
  const std::int64_t largest = std::min<std::int64_t>(
      blocks_of(p.job.num_classes, p.job.sample_unit), std::numeric_limits<int>::max());
  std::int64_t most = p.world_size, too_many = largest + 1;
  while (too_many - most > 1) {
    const std::int64_t middle = (most + too_many) / 2;
    (fits(middle) ? most : too_many) = middle;
  }
  return static_cast<int>(most);
}

std::vector<std::string> job_warnings(const PlannedJob& p) {
  std::vector<std::string> warnings;
  if (p.job.lr == 0) warnings.emplace_back("lr: found 0: no weight will change");
  const JobConfig defaults;
  const std::initializer_list<std::pair<const char*, bool>> changed{
      {"distill_weight", p.job.distill_weight != defaults.distill_weight},
      {"distill_embeddings", p.job.distill_embeddings != defaults.distill_embeddings},
      {"distill_logits", p.job.distill_logits != defaults.distill_logits},
      {"distill_temperature", p.job.distill_temperature != defaults.distill_temperature},
      {"teacher_precision", p.job.teacher_precision != defaults.teacher_precision}};
  for (const auto& [key, is_set] : changed) {
    if (!is_set || !p.job.teacher.empty()) continue;
    warnings.emplace_back(std::string(key) + ": found a value but no teacher: it has no effect");
  }
  if (batch_norm_samples(p.job, p.world_size) == 2) {
    warnings.emplace_back(
        "batch_size: the last batch norm sees 2 samples and normalises them to about +1 and -1, "
        "whatever their values are, so their gradients carry little information; use a larger "
        "batch_size, or "
        "sync_bn with more workers");
  }
  return warnings;
}

}  // namespace pfc
