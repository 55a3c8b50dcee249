#include "worker/check/check.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
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
#include "data/job_data.h"
#include "data/staging.h"
#include "kernels/make_ops.h"
#include "worker/check/collectives_check.h"
#include "worker/check/data_check.h"
#include "worker/check/device_check.h"
#include "worker/check/gpu_health.h"
#include "worker/check/limits_check.h"
#include "worker/check/output_findings.h"
#include "worker/check/step_speed.h"
#include "worker/memory/memory_advice.h"
#include "worker/start/host_check.h"
#include "worker/start/job_check.h"
#include "worker/start/output_check.h"
#include "worker/start/precision.h"

namespace pfc {
namespace {

using Verdict = CheckFinding::Verdict;

// Shorter than in a job, so that a check ends soon.
constexpr std::chrono::milliseconds kConnectLimit{15'000};
constexpr std::chrono::milliseconds kCollectiveLimit{20'000};

bool has_data(const JobConfig& job) { return !job.rec.empty(); }

void doing(const SessionOptions& options, const std::string& what) {
  if (options.doing) options.doing(what);
}

CheckFinding problem(const std::string& what, const std::string& found, const std::string& remedy,
                     Verdict verdict = Verdict::kStops) {
  return {.what = what, .found = found, .expected = {}, .verdict = verdict, .remedy = remedy};
}

/// The data of the job. If they cannot be read, this is reported as a finding.
struct OpenedData {
  std::unique_ptr<Dataset> dataset;
  EvaluationSets sets;
};

std::optional<OpenedData> open_data(JobConfig& job, const SessionOptions& options,
                                    const TellFindings& tell) {
  try {
    doing(options, "opening " + text_of(job.rec));
    OpenedData data{.dataset = open_job_data_and_complete(job, options.doing), .sets = {}};
    data.sets =
        open_evaluation_sets(job.val_targets, job.rec, data.dataset->info().height, options.doing);
    return data;
  } catch (const InputError& error) {
    if (options.membership.local_rank == 0) {
      tell({problem("data", error.what(), "give this host the same data as the others")});
    }
    return {};
  }
}

PlannedJob planned_job(const JobConfig& job, const SessionOptions& options, const OpenedData& data,
                       bool gpu) {
  return {.job = job,
          .world_size = options.membership.world_size,
          .threads = threads_of_worker(1),
          .data = planned_data(*data.dataset, data.sets),
          .gpu = gpu};
}

/// Checks each worker's GPU memory; on CPUs only once, because workers have equal shares.
void check_memory(const PlannedJob& planned, const Ops& ops, const SessionOptions& options,
                  const MemoryThere& of_host, const TellFindings& tell) {
  if (ops.on_host() && options.membership.local_rank != 0) return;
  const MemoryThere there = ops.on_host() ? of_host : memory_of_gpu(ops);
  const PlannedBackbone backbone = plan_backbone(planned);
  const MemoryPlan plan = plan_memory(planned, backbone, there.bytes);
  CheckFinding finding{.what = "memory of a worker",
                       .found = byte_size_text(there.bytes) + " (" + there.where + ")",
                       .expected = "at least " + byte_size_text(plan.total()),
                       .of_host = ops.on_host()};
  if (!plan.fits()) {
    finding.verdict = Verdict::kStops;
    finding.remedy = advice(planned, backbone, there);
  } else if (plan.checkpoints_in_place) {
    finding.verdict = Verdict::kSlows;
    finding.remedy = memory_message(plan);
  }
  tell({finding});
  if (options.membership.rank != 0) return;
  doing(options, "writing in " + planned.job.output.string());
  tell(output_findings(planned.job, checkpoints_bytes(planned, plan)));
}

/// Checks the job's keys, which are the same on all hosts.
void check_job_itself(const PlannedJob& planned, const TellFindings& tell) {
  try {
    check_job(planned);
    check_start_weights(planned);
    tell({{.what = "job", .found = "its keys fit its data and workers", .expected = {}}});
  } catch (const InputError& error) {
    tell({problem("job", error.what(), "change the job file")});
  }
  for (const std::string& warning : job_warnings(planned)) {
    tell({problem("job", warning, "change the job file", Verdict::kNote)});
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
           .found = job.stage.string() + " has room for the data",
           .expected = {}}});
  } catch (const InputError& error) {
    tell({problem("stage", error.what(),
                  "name a folder with room on every host, or leave stage out")});
  }
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
  doing(options, "asking NVML about the GPUs");
  tell(gpu_findings(gpu_health(pci_addresses(search.gpus)), nccl_version()));
}

/// Returns the worker's device. On failure reports a finding and returns nullptr.
std::unique_ptr<Ops> open_device(const JobConfig& job, const SessionOptions& options,
                                 const TellFindings& tell) {
  try {
    return make_ops({.choice = job.device,
                     .index = options.membership.local_rank,
                     .precision = job.precision,
                     .tf32 = job.tf32});
  } catch (const std::exception& error) {
    if (options.membership.local_rank == 0) {
      tell({problem("device", text_of(error),
                    "install NVIDIA's driver and a pfc with CUDA on this host, or set device to "
                    "\"cpu\"")});
    }
    return nullptr;
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

/// Sets the number of classes and sizes from the data. Errors were already reported.
void read_data(PlannedJob& planned) {
  JobConfig& job = planned.job;
  try {
    const auto dataset = open_job_data_and_complete(job);
    planned.data = planned_data(*dataset, {});
  } catch (const InputError&) {
    job.num_classes = 0;
  }
}

/// Predicts steps per second from the computing time of all workers, which run together.
void check_speed(Ops& ops, const DeviceComms& comms, Comm& comm, const PlannedJob& planned,
                 const CollectiveSeconds& collectives, const SessionOptions& options,
                 const TellFindings& tell) {
  doing(options, "passing images through the job's network");
  const ComputeSeconds own = time_compute(ops, *comms.step, planned);
  const ComputeSeconds slowest{.forward = of_slowest(comm, own.forward),
                               .backward = of_slowest(comm, own.backward),
                               .head = of_slowest(comm, own.head)};
  const bool several_hosts = options.membership.local_world_size < options.membership.world_size;
  if (options.membership.rank != 0) return;
  tell({speed_to_expect(slowest, collectives, planned, planned.gpu || several_hosts)});
}

/// Times the communicators of a step. Without data, uses the sizes of the job's defaults.
void check_collectives(const JobConfig& job, const SessionOptions& options, Comm& comm,
                       const TellFindings& tell) {
  const TellFindings nobody = [](const std::vector<CheckFinding>&) {};  // already reported
  const std::unique_ptr<Ops> ops = open_device(job, options, nobody);
  if (!all_have(comm, ops != nullptr)) return;
  doing(options, "connecting to the other workers as a step does");
  DeviceComms comms = make_device_comms(*ops, check_comm_options(options, ""), options.store);
  std::list<AbortSwitch::Guard> guards;
  if (options.abort_switch != nullptr) {
    guards.emplace_back(*options.abort_switch, *comms.step);
    guards.emplace_back(*options.abort_switch, *comms.gradients);
  }
  PlannedJob planned{.job = job, .world_size = options.membership.world_size};
  planned.gpu = !ops->on_host();
  if (has_data(job)) read_data(planned);
  if (planned.job.embedding_size == 0) planned.job.embedding_size = JobConfig{}.embedding_size;
  const bool classes_known = all_have(comm, planned.job.num_classes >= planned.world_size);
  planned.job.num_classes = std::max<std::int64_t>(planned.job.num_classes, planned.world_size);
  const std::size_t gradients = plan_backbone(planned).memory.gradients;
  doing(options, "timing the collectives of a step");
  TimedCollectives timed = time_collectives(*ops, comms, comm, planned, gradients);
  std::vector<CheckFinding>& findings = timed.findings;
  findings.push_back({.what = "collectives",
                      .found = comms.step->description(),
                      .expected = {},
                      .of_host = false});
  if (options.membership.rank == 0) tell(findings);
  if (has_data(job) && classes_known) {
    check_speed(*ops, comms, comm, planned, timed.seconds, options, tell);
  }
}

/// Reports which hosts share the `output` folder of rank 0's host.
void check_shared_output(const JobConfig& job, const SessionOptions& options, Comm& comm,
                         const TellFindings& tell) {
  doing(options, "looking whether all hosts share the output folder");
  std::optional<FolderForAWhile> folder;
  std::vector<bool> sees;
  try {
    on_rank_zero(comm, [&] { folder.emplace(job.output); });
    sees = who_sees(comm, job.output);
  } catch (const InputError&) {
    return;  // on all workers: it cannot be written, which rank 0's host has reported
  }
  const auto rank = static_cast<std::size_t>(options.membership.rank);
  if (options.membership.local_rank == 0 && options.membership.rank != 0) {
    if (sees.at(rank)) {
      tell(shared_output_findings(job));
    } else {
      tell({problem("output", "not shared with the host of rank 0",
                    "nothing has to be done: what this host writes goes through rank 0, over the "
                    "network; a shared folder is faster",
                    Verdict::kNote)});
    }
  }
  comm.barrier();  // rank 0 keeps the folder until all have looked
}

/// Does not use the affinity, because this worker may be bound to its own cores.
int cores_of_host() {
  const int quota = quota_cores();
  const auto online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return quota > 0 ? std::min(quota, online) : online;
}

}  // namespace

CheckFinding unexpected_finding(const std::exception& error) {
  CheckFinding finding =
      problem("worker", text_of(error), "do what the line says, and check again");
  finding.of_host = false;
  return finding;
}

CheckFinding finding_of_clock(double ahead, double precision) {
  const double most = std::chrono::duration<double>(kClockTolerance).count();
  CheckFinding finding{.what = "clock",
                       .found = fmt::format("{:+.3f} s, measured to {:.3f} s", ahead, precision),
                       .expected = fmt::format("within {:g} s of the coordinator's", most),
                       .value = ahead,
                       .unit = "s"};
  if (std::abs(ahead) > most) {
    finding.verdict = Verdict::kNote;
    finding.remedy =
        "let all hosts follow a time server (chrony, systemd-timesyncd): the times of lines and "
        "files are off, and certificates may be refused";
  }
  return finding;
}

void check_alone(const JobConfig& config, const SessionOptions& options, const TellFindings& tell) {
  JobConfig job = config;
  // A worker's own fastest precision; check_together() uses what all support, like the job.
  if (job.precision == Precision::kAuto) {
    job.precision = choose_precision({{precisions_here(job, options)}}).precision;
  }
  const bool first = options.membership.local_rank == 0;
  const MemoryThere memory = memory_of_this_host(options.membership.local_world_size);
  doing(options, "looking at limits and devices");
  if (first) check_host(job, options, tell);
  const std::unique_ptr<Ops> ops = open_device(job, options, tell);
  if (ops && (first || !ops->on_host()))
    tell(compute_findings(*ops, {.of_each = threads_of_worker(1),
                                 .workers = options.membership.local_world_size,
                                 .cores = cores_of_host()}));
  if (!has_data(job)) return;
  const auto data = open_data(job, options, tell);
  if (!data) return;
  if (first) {
    check_stage(job, tell);
    tell(facts_findings(*data->dataset, data->sets));
    doing(options, "reading and decoding images of " + text_of(job.rec));
    tell(data_speed(*data->dataset));
  }
  if (!ops) return;
  const PlannedJob planned = planned_job(job, options, *data, !ops->on_host());
  if (options.membership.rank == 0) check_job_itself(planned, tell);
  check_memory(planned, *ops, options, memory, tell);
}

void check_together(const JobConfig& config, const SessionOptions& options,
                    const TellFindings& tell) {
  JobConfig job = config;
  try {
    if (job.precision == Precision::kAuto) {
      doing(options, "waiting for the other workers' precisions");
      job.precision = agree_on_precision(options.store, options.membership,
                                         precisions_here(job, options), options.connect_timeout)
                          .precision;
    }
    doing(options, "connecting to the other workers");
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
