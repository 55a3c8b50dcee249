#include "pfcctl/plan/plan.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "common/byte_size.h"
#include "common/command_line.h"
#include "common/config/config.h"
#include "common/config/job_file.h"
#include "common/config/job_json.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/machine/cores.h"
#include "common/machine/gpu/gpus.h"
#include "common/one_line.h"
#include "data/job_data.h"
#include "kernels/cpu/margin/tile_products.h"
#include "kernels/make_ops.h"
#include "model/evaluation/evaluation.h"
#include "pfcctl/verbs.h"
#include "worker/distillation/distillation.h"
#include "worker/distillation/teacher_file.h"
#include "worker/start/job_check.h"
#include "worker/start/output_check.h"

namespace pfc {
namespace {

struct Flags {
  std::string config;
  std::vector<std::string> overrides;
  int workers = 1;
  int workers_per_host = 0;  // 0: all
  std::string device_memory;
  bool json = false;
  CapacityFlags capacity;
};

/// Reads the sets and decodes every image, as the job would at its start.
EvaluationSets read_evaluation_sets(const JobConfig& job, const Dataset& training) {
  const EmbedOptions size{
      .height = training.info().height, .width = training.info().width, .threads = 0};
  EvaluationSets sets = open_evaluation_sets(job, training);
  for (const VerificationSet& set : sets.verification) {
    check_verification_set(set, {0, std::ssize(set.images)}, size);
  }
  for (const RetrievalSet& set : sets.retrieval) {
    check_retrieval_set(set, {0, std::ssize(set.labels)}, size);
  }
  for (const ClassificationSet& set : sets.classification) {
    check_classification_set(set, {0, std::ssize(set.labels)}, size);
  }
  return sets;
}

/// Returns why a worker would refuse the job at its start; empty if it would not. If the data are
/// not here, the job will run on another machine, so its other files are not checked either.
std::string refusal_of(const PlannedJob& planned) {
  try {
    check_job(planned);
    if (!has_data_here(planned.job)) return {};
    check_output(planned.job);
    check_start_weights(planned);
  } catch (const InputError& refusal) {  // for example, the output cannot be written
    return refusal.what();
  }
  return {};
}

/// Reads the sizes of the data and verification sets and sets job.num_classes from them. Without
/// the data here, the job must give num_classes, images without image_size count as 112 x 112, and
/// other unknown sizes as 0.
PlannedData read_data(JobConfig& job) {
  if (has_data_here(job)) {
    const auto dataset = open_job_data_and_complete(job);
    for (const std::string& warning : dataset->info().warnings) spdlog::warn("{}", warning);
    return planned_data(*dataset, read_evaluation_sets(job, *dataset));
  }
  if (job.num_classes == 0) {
    throw InputError(
        (job.rec.empty() ? std::string("rec is not given")
                         : "rec: " + text_of(job.rec) + " is not on this machine") +
        ": the plan needs the number of classes; give it with --set num_classes=1000000");
  }
  if (job.embedding_size == 0) {
    throw InputError(
        "embedding_size: with network \"none\" it comes from the data, which are not on this "
        "machine; give it with --set embedding_size=512");
  }
  PlannedData unknown{.images = job.num_image};
  if (job.image_size > 0) unknown.height = unknown.width = job.image_size;
  return unknown;
}

/// Reads the network of the job's teacher. If it cannot be read, the job would be refused. But if
/// neither the data nor the teacher is here, the job will run on another machine, and the plan
/// omits the teacher.
void plan_teacher(PlanReport& report) {
  PlannedJob& planned = report.planned;
  const JobConfig& job = planned.job;
  if (job.teacher.empty()) return;
  report.without_teacher = true;
  if (!has_data_here(job) && !something_at(job.teacher)) {
    spdlog::warn("teacher: {} is not on this machine; the plan omits it", job.teacher.string());
    return;
  }
  try {
    planned.teacher = read_teacher(job, planned.data.height, planned.data.width).options;
    report.without_teacher = false;
  } catch (const InputError& refusal) {
    report.refusal = refusal.what();
  }
}

/// Decides whether the job would run on GPUs, and returns the memory of one worker, on the machine
/// that the flags name or on this one.
MemoryThere memory_there(const Flags& flags, const std::optional<MachineProfile>& machine,
                         PlannedJob& planned, int workers_on_host) {
  if (machine && machine->gpu) {
    planned.gpu = true;
    if (planned.job.device == DeviceChoice::kCpu) {
      spdlog::warn("device is \"cpu\", but --gpu is given: the plan is for GPUs");
    }
    if (flags.device_memory.empty()) return {machine->memory_bytes, "memory of " + machine->name};
    return {parse_byte_size(flags.device_memory, "--device-memory"), "--device-memory"};
  }
  const DeviceChoice device = planned.job.device;
  const GpuSearch search = device == DeviceChoice::kCpu ? GpuSearch{} : usable_gpus();
  planned.gpu = device == DeviceChoice::kCuda || !search.gpus.empty();
  if (!flags.device_memory.empty()) {
    return {parse_byte_size(flags.device_memory, "--device-memory"), "--device-memory"};
  }
  if (!planned.gpu) return memory_of_this_host(workers_on_host);
  if (search.gpus.empty()) {
    throw InputError("device is \"cuda\", but " + search.problem +
                     "; give a GPU's memory with --device-memory 80GB");
  }
  const auto least = std::ranges::min_element(search.gpus, {}, &Gpu::memory_bytes);
  planned.gpu_sizes = least->sizes;
  return {least->memory_bytes, "memory of " + least->name};
}

/// Sets the precision of the teacher. REQUIRES: the job's precision and planned.gpu are set.
void plan_teacher_type(PlanReport& report) {
  PlannedJob& planned = report.planned;
  if (!planned.teacher) return;
  const bool has_bf16 = planned.gpu || cpu_has_bfloat16();
  try {
    planned.teacher_type =
        teacher_activations(planned.job, activation_type(planned.job.precision), has_bf16);
  } catch (const InputError& refusal) {
    report.refusal = refusal.what();
  }
}

PlanReport make_report(const Flags& flags) {
  prepare_capacity(flags.capacity);
  const nlohmann::json job = read_job_file(flags.config, flags.overrides);
  PlanReport report{.planned = {.job = parse_job(job, {flags.config, flags.overrides}),
                                .world_size = flags.workers},
                    .plan = {},
                    .there = {},
                    .largest = {},
                    .advice = {},
                    .refusal = {},
                    .capacity = {},
                    .config = flags.config};
  for (const std::string& each : flags.overrides) report.config += " --set '" + each + "'";
  PlannedJob& planned = report.planned;
  const int on_host = flags.workers_per_host == 0 ? flags.workers : flags.workers_per_host;
  if (on_host > flags.workers) {
    throw InputError(fmt::format("--workers-per-host: found {}, expected at most the {} --workers",
                                 on_host, flags.workers));
  }
  report.workers_of_host = on_host;
  planned.threads = threads_of_worker(on_host);
  planned.data = read_data(planned.job);
  plan_teacher(report);
  decide_precision(flags.capacity, planned.job);
  const std::optional<MachineProfile> machine = machine_of(flags.capacity, planned);
  report.there = memory_there(flags, machine, planned, on_host);
  plan_teacher_type(report);
  if (report.refusal.empty()) report.refusal = refusal_of(planned);
  for (const std::string& warning : job_warnings(planned)) spdlog::warn("{}", warning);
  const PlannedBackbone backbone = plan_backbone(planned);
  report.plan = plan_memory(planned, backbone, report.there.bytes);
  report.largest = largest_that_fits(planned, backbone, report.there.bytes);
  if (!report.plan.fits()) report.advice = advice(planned, backbone, report.there);
  if (machine) {
    report.capacity = plan_capacity(flags.capacity, planned, on_host, report.plan, *machine);
  }
  return report;
}

std::string row(const std::string& name, std::uint64_t bytes, const std::string& detail) {
  const std::string line = fmt::format("  {:<30} {:>9}   {}", name, byte_size_text(bytes), detail);
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

std::string largest_text(const char* key, std::int64_t value) {
  return value == 0 ? fmt::format("no {} fits, all else equal\n", key)
                    : fmt::format("largest {} that fits, all else equal: {}\n", key, value);
}

/// Returns the last lines: the verdict and the advice.
std::string verdict_text(const PlanReport& r) {
  std::string fit = r.without_teacher ? "it fits without the teacher" : "it fits";
  if (r.plan.fits() && r.refusal.empty()) {
    return fit + (r.without_teacher
                      ? ", which is not on this machine\n"
                      : "; start the job with pfc-coordinator --config " + r.config + "\n");
  }
  fit = r.plan.fits() ? fit + "\n" : "it does not fit: " + r.advice + "\n";
  if (r.refusal.empty()) return fit;
  return fit + (r.plan.fits() ? "but" : "and") + " the job would be refused: " + r.refusal + "\n";
}

void run_plan(const Flags& flags) {
  const PlanReport report = make_report(flags);
  std::fputs((flags.json ? plan_json(report) : plan_text(report)).c_str(), stdout);
  if (!report.plan.fits() || !report.refusal.empty()) throw ExitStatus{1};
}

}  // namespace

std::string plan_text(const PlanReport& r) {
  const JobConfig& job = r.planned.job;
  const int workers = r.planned.world_size;
  std::string text = fmt::format("{}, {} classes, {} x batch {}. A worker needs{}\n", job.network,
                                 job.num_classes, counted(workers, "worker"), job.batch_size,
                                 r.planned.gpu ? " of GPU memory" : "");
  for (const MemoryPart& part : r.plan.parts) text += row(part.name, part.bytes, part.detail);
  text += row("in all", r.plan.total(), "");
  text += row("available", r.there.bytes, r.there.where);
  if (r.plan.checkpoints_in_place) {
    text += r.plan.checkpoint_copy == 0
                ? "the class centres are on disk: training waits while checkpoints are written\n"
                : fmt::format(
                      "a copy of {} for checkpoints would not fit: training waits while they are "
                      "written\n",
                      byte_size_text(r.plan.checkpoint_copy));
  }
  if (r.planned.gpu) {
    text +=
        fmt::format("and {} of host memory, {} for the {} of a host\n", byte_size_text(r.plan.host),
                    byte_size_text(r.plan.host * static_cast<std::uint64_t>(r.workers_of_host)),
                    counted(r.workers_of_host, "worker"));
  }
  text += largest_text("num_classes", r.largest.num_classes) +
          largest_text("batch_size", r.largest.batch_size);
  if (r.capacity) text += capacity_text(*r.capacity);
  return text + verdict_text(r);
}

std::string plan_json(const PlanReport& r) {
  using nlohmann::ordered_json;
  ordered_json parts = ordered_json::array();
  for (const MemoryPart& part : r.plan.parts) {
    parts.push_back({{"name", part.name}, {"bytes", part.bytes}, {"detail", part.detail}});
  }
  ordered_json json{{"workers", r.planned.world_size},
                    {"device", r.planned.gpu ? "cuda" : "cpu"},
                    {"num_classes", r.planned.job.num_classes},
                    {"batch_size", r.planned.job.batch_size},
                    {"parts", parts},
                    {"total_bytes", r.plan.total()},
                    {"available_bytes", r.there.bytes},
                    {"available_where", r.there.where},
                    {"fits", r.plan.fits()},
                    {"without_teacher", r.without_teacher},
                    {"checkpoints_in_place", r.plan.checkpoints_in_place},
                    {"snapshots_bytes", r.plan.snapshots},
                    {"host_bytes", r.plan.host},
                    {"workers_of_host", r.workers_of_host},
                    {"largest_num_classes", r.largest.num_classes},
                    {"largest_batch_size", r.largest.batch_size},
                    {"advice", r.advice},
                    {"refusal", r.refusal}};
  if (r.capacity) json["time"] = capacity_json(*r.capacity);
  return json_text(json);
}

void add_plan_verb(CLI::App& pfcctl) {
  CLI::App* verb = pfcctl.add_subcommand(
      "plan",
      "Prints the memory that a worker of a job needs, and with --gpu how long its steps take; "
      "fails if there is too little memory or the job would be refused");
  const auto flags = std::make_shared<Flags>();  // owned by the verb's callback
  verb->add_option("--config", flags->config, "Job file (docs/configuration.md)")->required();
  verb->add_option("--set", flags->overrides,
                   "key=value: changes a key of the job file. May be repeated");
  verb->add_option("--workers,--gpus", flags->workers, "Workers of the job")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  verb->add_option("--workers-per-host,--gpus-per-host", flags->workers_per_host,
                   "Workers that share this host's memory and cores. Default: all")
      ->check(whole_number(1, 1 << 20));
  verb->add_option("--device-memory", flags->device_memory,
                   "Memory of each worker (80GB, 80GiB, 512MB). Default: this machine's");
  add_capacity_options(*verb, flags->capacity);
  verb->add_flag("--json", flags->json, "Prints JSON, for programs");
  verb->footer(
      "Examples:\n"
      "  pfcctl plan --config job.json --workers 2\n"
      "  pfcctl plan --config job.json --workers 8 --device-memory 80GB --set batch_size=256\n"
      "  pfcctl plan --config job.json --gpus 64 --gpus-per-host 8 --gpu h100 --network 400Gb\n"
      "  pfcctl plan --config job.json --workers 2 --gpu this --save this.json");
  verb->callback([flags] { run_plan(*flags); });
}

}  // namespace pfc
