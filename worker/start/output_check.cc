#include "worker/start/output_check.h"

#include <spdlog/spdlog.h>

#include "common/config/job_json.h"
#include "common/files/regular_file.h"
#include "kernels/make_ops.h"
#include "worker/checkpoint/arcface/arcface_checkpoint.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/checkpoint/output_lock.h"
#include "worker/initial/init_from.h"
#include "worker/start/resumed_people.h"

namespace pfc {

void check_output(const JobConfig& job) {
  check_output_folder(job.output);
  expect_regular_or_nothing(job.output / checkpoint_format::kBackbone);
}

void check_start_weights(const PlannedJob& p) {
  const JobConfig& job = p.job;
  const CheckpointModel model{
      .network = job.network,
      .feature_size = job.feature_size,
      .sub_centres = job.sub_centres,
      .embedding_size = centre_size(job.loss, job.embedding_size, job.sub_centres),
      .classes = job.num_classes,
      .optimizer = job.optimizer,
      .pixels = job.pixels};
  if (const auto newest = checkpoint_to_resume(job.output, job.resume)) {
    const auto before = checkpoint_format::load_manifest(newest->folder).identity.job;
    const std::string warning = compare_people(newest->folder, before, to_json(job));
    if (!warning.empty()) spdlog::warn("{}", warning);
    return check_checkpoint_fits(newest->folder, model);
  }
  const auto theirs = job.resume ? find_arcface_checkpoint(job.output) : std::nullopt;
  if (!theirs && job.init_from.empty()) return;
  const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = 1});
  const BackboneOptions options = backbone_options(job, p.data.height, p.data.width);
  const BackboneParameters parameters = backbone_parameters(*ops, options);
  if (theirs) return check_arcface_checkpoint(*theirs, parameters, model);
  check_init_from({.file = job.init_from, .names = job.init_from_names}, parameters,
                  job.num_classes, model.embedding_size);
}

}  // namespace pfc
