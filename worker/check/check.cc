#include "worker/check/check.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "comm/gather_texts.h"
#include "comm/make_comm.h"
#include "comm/rank_zero.h"
#include "common/byte_size.h"
#include "common/error.h"
#include "common/error_text.h"
#include "common/machine/cores.h"
#include "common/machine/gpu/gpus.h"
#include "data/staging.h"
#include "kernels/make_ops.h"
#include "worker/check/collectives_check.h"
#include "worker/check/data_check.h"
#include "worker/check/device_check.h"
#include "worker/check/gpu_health.h"
#include "worker/check/limits_check.h"
#include "worker/check/output_findings.h"
#include "worker/check/step_speed.h"
#include "worker/checkpoint/output_links.h"
#include "worker/head/sample_margins.h"
#include "worker/memory/memory_advice.h"
#include "worker/start/host_check.h"
#include "worker/start/job_check.h"
#include "worker/start/local_start.h"
#include "worker/start/output_check.h"
#include "worker/start/precision.h"

namespace pfc {
namespace {

using Verdict = CheckFinding::Verdict;

// Shorter than in a job, so that a check ends soon.
constexpr std::chrono::milliseconds kConnectLimit{15'000};
constexpr std::chrono::milliseconds kCollectiveLimit{20'000};

bool has_data(const JobConfig& job) { return !job.rec.empty(); }

CheckFinding problem(const std::string& what, const std::string& found, const std::string& remedy,
                     Verdict verdict = Verdict::kStops) {
  return {.what = what, .found = found, .expected = {}, .verdict = verdict, .remedy = remedy};
}

/// Returns the error of `run`, if it has the type Error; empty on success. Other errors propagate.
template <typename Error>
std::string error_of(const std::function<void()>& run) {
  try {
    run();
    return {};
  } catch (const Error& error) {
    return text_of(error);
  }
}

std::vector<std::string> pci_addresses(const std::vector<Gpu>& gpus) {
  std::vector<std::string> addresses;
  for (const Gpu& gpu : gpus) addresses.push_back(gpu.pci_bus_id);
  return addresses;
}

WorkerPrecisions precisions_here(const JobConfig& job, const SessionOptions& options) {
  return {.host = host_of(options),
          .all = precisions_of(job.device, options.membership.local_rank)};
}

/// Checks the folder for staging the data on this host.
void check_stage(const JobConfig& job, const TellFindings& tell) {
  if (job.stage.empty()) return;
  try {
    check_staging(job.rec, job.stage);
    tell({{.what = "stage",
           .found = job.stage.string() + " has enough free space for the data",
           .expected = {}}});
  } catch (const InputError& error) {
    tell({problem("stage", error.what(),
                  "set stage to a folder with free space on every host, or remove it")});
  }
}

/// Returns the number of cores of the host. Ignores the CPU affinity, because this worker may be
/// bound to some of the cores.
int cores_of_host() {
  const int quota = quota_cores();
  const auto online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return quota > 0 ? std::min(quota, online) : online;
}

/// Checks the host as a whole, without its data.
void check_host(const JobConfig& job, const SessionOptions& options, const TellFindings& tell) {
  const GpuSearch search = job.device == DeviceChoice::kCpu ? GpuSearch{} : usable_gpus();
  const bool gpu = job.device == DeviceChoice::kCuda || !search.gpus.empty();
  tell({version_finding()});
  tell(limit_findings(limits_there(),
                      {.world_size = options.membership.world_size,
                       .workers_of_host = options.membership.local_world_size,
                       .threads = threads_of_worker(1) + static_cast<int>(job.num_workers),
                       .gpu = gpu}));
  if (search.gpus.empty()) return;
  tell_doing(options, "reading the state of the GPUs (NVML)");
  tell(gpu_findings(gpu_health(pci_addresses(search.gpus)), nccl_version()));
}

/// Reports the memory that the job needs. `error`: why it does not fit. Then checks the output
/// folder.
void check_memory(const LocalStart& start, const StartStep& step, const std::string& error,
                  const SessionOptions& options, const TellFindings& tell) {
  const PlannedJob planned = start.planned();
  const MemoryThere& there = start.device_memory;
  const PlannedBackbone backbone = plan_backbone(planned);
  const MemoryPlan plan = plan_memory(planned, backbone, there.bytes);
  CheckFinding finding{.what = step.name,
                       .found = byte_size_text(there.bytes) + " (" + there.where + ")",
                       .expected = "at least " + byte_size_text(plan.total()),
                       .of_host = !planned.gpu};
  if (!error.empty()) {
    finding.verdict = Verdict::kStops;
    finding.remedy = plan.fits() ? error : advice(planned, backbone, there);
  } else if (plan.checkpoints_in_place) {
    finding.verdict = Verdict::kSlows;
    finding.remedy = memory_message(plan);
  }
  tell({finding});
  if (options.membership.rank != 0) return;
  tell_doing(options, "writing to " + planned.job.output.string());
  tell(output_findings(planned.job, checkpoints_bytes(planned, plan)));
}

/// Reports the job's keys and its start weights, which are the same on all hosts.
void check_job_itself(const PlannedJob& planned, const StartStep& step, std::string error,
                      const TellFindings& tell) {
  if (error.empty()) error = error_of<InputError>([&] { check_start_weights(planned); });
  tell({error.empty() ? CheckFinding{.what = step.name,
                                     .found = "its keys fit its data and workers",
                                     .expected = {}}
                      : problem(step.name, error, step.remedy)});
  for (const std::string& warning : job_warnings(planned)) {
    tell({problem(step.name, warning, step.remedy, Verdict::kNote)});
  }
}

/// Reports a finished step of the start, and measures the device or data that it opened. If all
/// workers of a host have the same result, only the first one reports it.
void report_step(const LocalStart& start, const StartStep& step, const std::string& error,
                 const SessionOptions& options, const TellFindings& tell) {
  using enum StartStep::Kind;
  const bool first = options.membership.local_rank == 0;
  const bool own_device = start.ops && !start.ops->on_host();
  switch (step.kind) {
    case kDevice:
      if (!first && !own_device) return;
      if (!error.empty()) return tell({problem(step.name, error, step.remedy)});
      return tell(compute_findings(*start.ops, {.of_each = start.threads,
                                                .workers = options.membership.local_world_size,
                                                .cores = cores_of_host()}));
    case kData:
      if (!first) return;
      if (!error.empty()) return tell({problem(step.name, error, step.remedy)});
      check_stage(start.job, tell);
      tell(facts_findings(*start.dataset, start.evaluation_sets));
      tell_doing(options, "reading and decoding images of " + text_of(start.job.rec));
      return tell(data_speed(*start.dataset, start.job.augment));
    case kTeacher:
      if (!first) return;
      if (!error.empty()) return tell({problem(step.name, error, step.remedy)});
      return tell({{.what = start.job.teacher.string(),
                    .found = start.brief_of_teacher(),
                    .expected = {},
                    .remedy = step.remedy,
                    .comparison = CheckFinding::Comparison::kSameEverywhere,
                    .otherwise = Verdict::kStops}});
    case kJob:
      if (options.membership.rank == 0) check_job_itself(start.planned(), step, error, tell);
      return;
    case kMemory:
      if (first || own_device) check_memory(start, step, error, options, tell);
      return;
  }
}

CommOptions check_comm_options(const SessionOptions& options, const char* name) {
  return {.membership = options.membership,
          .name = name,
          .address = options.peer_address,
          .connect_timeout = std::min(options.connect_timeout, kConnectLimit),
          .timeout = std::min(options.collective_timeout, kCollectiveLimit),
          .abort_switch = options.abort_switch};
}

/// Returns whether `mine` is true on all workers.
bool all_have(Comm& comm, bool mine) {
  std::uint8_t own = mine ? 1 : 0;
  std::vector<std::uint8_t> all(static_cast<std::size_t>(comm.size()));
  comm.all_gather(Tensor(&own, DType::kUInt8, {1}),
                  Tensor(all.data(), DType::kUInt8, {comm.size()}));
  return std::ranges::count(all, 1) == comm.size();
}

/// Predicts the steps per second. All workers compute at the same time, and the slowest one counts.
void check_speed(Ops& ops, const DeviceComms& comms, Comm& comm, const PlannedJob& planned,
                 const CollectiveSeconds& collectives, const SessionOptions& options,
                 const TellFindings& tell) {
  tell_doing(options, "passing images through the job's network");
  const ComputeSeconds own = time_compute(ops, *comms.step, planned);
  const ComputeSeconds slowest{.forward = of_slowest(comm, own.forward),
                               .backward = of_slowest(comm, own.backward),
                               .head = of_slowest(comm, own.head)};
  const bool several_hosts = options.membership.local_world_size < options.membership.world_size;
  if (options.membership.rank != 0) return;
  tell({speed_to_expect(slowest, collectives, planned, planned.gpu || several_hosts)});
}

/// Times the communicators of a step. If the job has no data, uses default sizes. Does not report
/// the errors of this worker's device and data, because check_alone() has reported them.
void check_collectives(JobConfig job, const SessionOptions& options, Comm& comm,
                       const TellFindings& tell) {
  LocalStart start{.job = job, .membership = options.membership, .doing = options.doing};
  if (!all_have(comm, error_of<std::exception>([&] { start.open_device(); }).empty())) return;
  tell_doing(options, "connecting to the other workers as a step does");
  DeviceComms comms = make_device_comms(*start.ops, check_comm_options(options, ""), options.store);
  std::list<AbortSwitch::Guard> guards;
  if (options.abort_switch != nullptr) {
    guards.emplace_back(*options.abort_switch, *comms.step);
    guards.emplace_back(*options.abort_switch, *comms.gradients);
  }
  if (has_data(job) && !error_of<InputError>([&] {
                          start.open_training_data();
                          start.open_teacher();
                        }).empty()) {
    job.num_classes = 0;
  }
  if (job.embedding_size == 0) job.embedding_size = JobConfig{}.embedding_size;
  const bool enough_classes = blocks_of(job.num_classes, job.sample_unit) >= comm.size();
  const bool classes_known = all_have(comm, enough_classes);
  if (!enough_classes) job.num_classes = comm.size() * job.sample_unit;
  const PlannedJob planned = start.planned();
  const std::size_t gradients = plan_backbone(planned).memory.gradients;
  tell_doing(options, "timing the collectives of a step");
  TimedCollectives timed = time_collectives(*start.ops, comms, comm, planned, gradients);
  std::vector<CheckFinding>& findings = timed.findings;
  findings.push_back({.what = "collectives",
                      .found = comms.step->description(),
                      .expected = {},
                      .of_host = false});
  if (options.membership.rank == 0) tell(findings);
  // check_alone() has reported labels that do not fit the loss.
  const bool fits = job.labels_per_image <= 1 || !has_sample_margins(job.loss);
  if (has_data(job) && classes_known && fits) {
    check_speed(*start.ops, comms, comm, planned, timed.seconds, options, tell);
  }
}

/// Reports which hosts share the `output` folder of rank 0's host.
void check_shared_output(const JobConfig& job, const SessionOptions& options, Comm& comm,
                         const TellFindings& tell) {
  tell_doing(options, "checking whether all hosts share the output folder");
  std::optional<FolderForAWhile> folder;
  std::vector<bool> sees;
  try {
    on_rank_zero(comm, [&] { folder.emplace(job.output); });
    sees = who_sees(comm, job.output);
  } catch (const InputError&) {
    return;  // on all workers: rank 0's host has reported that it cannot write the folder
  }
  const auto rank = static_cast<std::size_t>(options.membership.rank);
  if (options.membership.local_rank == 0 && options.membership.rank != 0) {
    if (sees.at(rank)) {
      tell(shared_output_findings(job));
    } else {
      tell({problem("output", "not shared with the host of rank 0",
                    "no action needed: this host writes through rank 0, over the network; a shared "
                    "folder is faster",
                    Verdict::kNote)});
    }
  }
  comm.barrier();  // rank 0 keeps the folder until all workers have checked it
}

}  // namespace

CheckFinding unexpected_finding(const std::exception& error) {
  CheckFinding finding =
      problem("worker", text_of(error), "fix the reported problem, and run the check again");
  finding.of_host = false;
  return finding;
}

CheckFinding finding_of_clock(double ahead, double precision) {
  const double most = std::chrono::duration<double>(kClockTolerance).count();
  CheckFinding finding{.what = "clock",
                       .found = fmt::format("{:+.3f} s, accurate to {:.3f} s", ahead, precision),
                       .expected = fmt::format("within {:g} s of the coordinator's clock", most),
                       .value = ahead,
                       .unit = "s"};
  if (std::abs(ahead) > most) {
    finding.verdict = Verdict::kNote;
    finding.remedy =
        "synchronize all hosts with a time server (chrony, systemd-timesyncd): times in logs are "
        "wrong, and certificates may be refused";
  }
  return finding;
}

void check_alone(const JobConfig& config, const SessionOptions& options, const TellFindings& tell) {
  JobConfig job = config;
  // check_alone() uses the fastest precision of this worker's device. check_together() uses the
  // fastest precision that all devices support, as a job does.
  if (job.precision == Precision::kAuto) {
    job.precision = choose_precision({{precisions_here(job, options)}}).precision;
  }
  const Membership& me = options.membership;
  const bool first = me.local_rank == 0;
  LocalStart start{.job = job,
                   .membership = me,
                   .doing = options.doing,
                   .host_memory = memory_of_this_host(me.local_world_size)};
  tell_doing(options, "checking limits and devices");
  if (first) check_host(job, options, tell);
  std::vector<StartStep> steps = start.steps();
  std::ranges::stable_sort(steps, {}, &StartStep::kind);
  if (!has_data(job)) steps.resize(1);  // keeps only the step that opens the device
  bool all_open = true;
  for (const StartStep& step : steps) {
    if (!step.opens && !all_open) continue;
    // A device may fail in its libraries, with errors of any type.
    const std::string error = step.kind == StartStep::Kind::kDevice
                                  ? error_of<std::exception>(step.run)
                                  : error_of<InputError>(step.run);
    if (step.opens && !error.empty()) all_open = false;
    report_step(start, step, error, options, tell);
  }
}

void check_together(const JobConfig& config, const SessionOptions& options,
                    const TellFindings& tell) {
  JobConfig job = config;
  try {
    if (job.precision == Precision::kAuto) {
      tell_doing(options, "waiting for the other workers' precisions");
      job.precision = agree_on_precision(options.store, options.membership,
                                         precisions_here(job, options), options.connect_timeout)
                          .precision;
    }
    tell_doing(options, "connecting to the other workers");
    const auto comm = make_host_comm(check_comm_options(options, "check"), options.store);
    std::optional<AbortSwitch::Guard> guard;
    if (options.abort_switch != nullptr) guard.emplace(*options.abort_switch, *comm);
    check_collectives(job, options, *comm, tell);
    const bool several_hosts = options.membership.local_world_size < options.membership.world_size;
    if (has_data(job) && several_hosts) check_shared_output(job, options, *comm, tell);
  } catch (const CommError& error) {
    tell({problem("connections", text_of(error),
                  "open all ports between the hosts in their firewalls: workers listen on ports "
                  "that the system chooses; docs/network.md")});
  }
}

}  // namespace pfc
