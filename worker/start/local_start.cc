#include "worker/start/local_start.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/config/job_json.h"
#include "common/error.h"
#include "data/job_data.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/make_ops.h"
#include "worker/checkpoint/checkpoint_format.h"
#include "worker/distillation/distillation.h"
#include "worker/distillation/teacher_file.h"
#include "worker/start/job_check.h"
#include "worker/start/resumed_people.h"

namespace pfc {

std::vector<StartStep> LocalStart::steps() {
  using enum StartStep::Kind;
  const auto open_data = [this] {
    open_training_data();
    evaluation_sets = open_evaluation_sets(job, *dataset, doing);
  };
  const auto plan = [this] {
    device_memory = ops->on_host() ? host_memory : memory_of_gpu(*ops);
    memory = expect_to_fit(planned(), device_memory);
  };
  std::vector<StartStep> steps{
      {.kind = kDevice,
       .name = "device",
       .run = [this] { open_device(); },
       .remedy = "install NVIDIA's driver and a pfc with CUDA on this host, or set device to "
                 "\"cpu\"",
       .opens = true},
      {.kind = kData,
       .name = "data",
       .run = open_data,
       .remedy = "give this host the same data as the others",
       .opens = true},
      {.kind = kMemory, .name = "memory of a worker", .run = plan, .remedy = "change the job file"},
      {.kind = kJob,
       .name = "job",
       .run = [this] { check_job(planned()); },
       .remedy = "change the job file"}};
  if (!job.teacher.empty()) {
    steps.insert(steps.begin() + 2, {.kind = kTeacher,
                                     .name = "teacher",
                                     .run = [this] { open_teacher(); },
                                     .remedy = "give this host the same file as the others",
                                     .opens = true});
  }
  return steps;
}

void LocalStart::open_device() {
  ops = make_ops({.choice = job.device,
                  .index = membership.local_rank,
                  .precision = job.precision,
                  .tf32 = job.tf32,
                  .cuda_graphs = job.cuda_graphs});
}

void LocalStart::open_training_data() {
  if (doing) doing("opening " + text_of(job.rec));
  JobConfig opened = job;
  if (!staged.empty()) opened.rec = staged;
  dataset = open_job_data(opened, doing);
  complete_job(job, dataset->info());
}

void LocalStart::open_teacher() {
  if (job.teacher.empty()) return;
  if (doing) doing("reading the teacher, " + job.teacher.string());
  const std::vector<Precision> precisions = precisions_of(job.device, membership.local_rank);
  const bool has_bf16 = std::ranges::find(precisions, Precision::kBf16) != precisions.end();
  teacher_type = teacher_activations(job, activation_type(job.precision), has_bf16);
  teacher = read_teacher(job, dataset->info().height, dataset->info().width);
  if (job.distill_logits > 0) teacher_centres.emplace(job, *teacher, *dataset);
}

std::string LocalStart::brief_of_teacher() const {
  const std::string network = teacher_brief(job.teacher, *teacher) + ", computed in " +
                              (teacher_type == DType::kBFloat16 ? "bf16" : "fp32");
  return teacher_centres ? network + "; " + teacher_centres->brief() : network;
}

std::string LocalStart::other_people_of_teacher(const std::vector<std::string>& data) const {
  const auto folder = teacher_centres ? teacher_centres->checkpoint() : std::nullopt;
  if (!folder) return {};
  const checkpoint_format::Identity before = checkpoint_format::load_manifest(*folder).identity;
  try {
    if (compare_people(*folder, before.job, to_json(job), "set distill_logits to 0").empty() &&
        compare_data(*folder, before.data, data).empty()) {
      return {};
    }
  } catch (const InputError& error) {
    throw InputError(std::string("teacher: ") + error.what());
  }
  return "teacher: " + folder->string() +
         " was trained on other data; distill_logits compares each class with the teacher's class "
         "of the same number";
}

PlannedJob LocalStart::planned() const {
  PlannedJob planned{.job = job,
                     .teacher = teacher ? std::optional(teacher->options) : std::nullopt,
                     .teacher_type = teacher_type,
                     .world_size = membership.world_size,
                     .threads = threads,
                     .data = dataset ? planned_data(*dataset, evaluation_sets) : PlannedData{},
                     .gpu = ops && !ops->on_host(),
                     .host_bytes = host_memory.bytes};
  if (planned.gpu) {
    const DeviceInfo gpu = cuda_devices().at(static_cast<std::size_t>(membership.local_rank));
    planned.gpu_sizes = gpu.sizes;
  }
  return planned;
}

}  // namespace pfc
