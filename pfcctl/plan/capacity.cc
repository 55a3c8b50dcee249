#include "pfcctl/plan/capacity.h"

#include <spdlog/fmt/chrono.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "common/byte_size.h"
#include "common/clock.h"
#include "common/counted.h"
#include "common/error.h"
#include "common/files/atomic_file.h"
#include "common/files/regular_file.h"
#include "common/machine/cores.h"
#include "common/machine/gpu/gpus.h"
#include "common/machine/thread_waiting.h"
#include "common/one_line.h"
#include "data/job_data.h"
#include "kernels/cpu/cpu_info.h"
#include "kernels/make_ops.h"
#include "worker/capacity/measure_machine.h"
#include "worker/capacity/measured_run.h"
#include "worker/check/data_check.h"
#include "worker/check/output_findings.h"
#include "worker/schedule/step_plan.h"

namespace pfc {
namespace {

constexpr double kPayload = 0.9;  // usable part of a network's speed
constexpr double kDefaultLatency = 10e-6;
constexpr double kHostStep = 0.5e-3;  // seconds per step outside of ops; measured on a CPU
constexpr double kDecode = 400e-6;    // seconds per image if the data are not on this machine

std::string today() {
  return fmt::format(
      "{:%Y-%m-%d}",
      fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

void say(const std::string& what) { std::fprintf(stderr, "plan: measuring %s\n", what.c_str()); }

MachineProfile measure_this(const PlannedJob& planned) {
  const int cores = usable_cores();
  const auto ops = make_ops({.choice = planned.job.device,
                             .cpu_threads = cores,
                             .precision = planned.job.precision,
                             .tf32 = planned.job.tf32});
  MachineProfile machine = measure_machine(*ops, planned, say);
  machine.source = fmt::format("measured {} with {}", today(), planned.job.network);
  machine.cores = cores;
  machine.step_seconds = kHostStep;
  if (machine.gpu) {
    // A single GPU cannot measure its links to others; use --gpu NAME for a data sheet's values.
    machine.local = {};
  } else {
    say("messages over loopback");
    machine.local = measure_loopback();
  }
  return machine;
}

/// Throws InputError if the run cannot correct a plan for this machine.
void expect_comparable(const std::string& run, PlannedJob planned) {
  const DeviceChoice device = planned.job.device;
  planned.gpu = device == DeviceChoice::kCuda ||
                (device == DeviceChoice::kAuto && !usable_gpus().gpus.empty());
  (void)corrections_of_run(run, planned, {.workers = planned.world_size});
}

bool is_gpu_name(const std::string& name) {
  const std::vector<std::string> names = gpu_names();
  return std::ranges::find(names, name) != names.end();
}

/// Returns seconds per image on one core; 0 if the data are not here or no image can be decoded.
double decode_seconds(const PlannedJob& planned) {
  if (!has_data_here(planned.job)) return 0;
  const auto dataset = open_job_data(planned.job);
  const DatasetInfo& info = dataset->info();
  const double pixels = static_cast<double>(info.height * info.width) / (112.0 * 112.0);
  const double speed = decode_speed(*dataset, planned.job.augment).images_a_second;
  return speed > 0 ? 1 / (speed * pixels) : 0;
}

std::string ms(double seconds) { return fmt::format("{:.2f} ms", seconds * 1e3); }

std::string hours(double seconds) {
  if (seconds < 120) return fmt::format("{:.0f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

std::string place(const Capacity& c) {
  const MachineProfile& machine = c.cluster.machine;
  std::string text = machine.gpu
                         ? fmt::format("{} x {}", c.cluster.workers, one_line(machine.name, 60))
                         : counted(c.cluster.workers, "worker");
  if (!machine.gpu || c.cluster.hosts() > 1) text += " on " + counted(c.cluster.hosts(), "host");
  if (!machine.gpu) text += fmt::format(" like {}", one_line(machine.name, 60));
  if (c.cluster.hosts() > 1) text += ", network " + c.network;
  return text;
}

std::string bottleneck_text(const Capacity& c) {
  const Bottleneck most = bottleneck_of(c.step);
  std::string remedy;
  if (most.what == "decoding") {
    remedy = fmt::format("; num_workers {:.0f} would remove it",
                         std::ceil(c.decoding_cores() / c.cluster.workers_of_host));
  } else if (most.what == "communication") {
    remedy = "; a larger batch_size or a faster network lowers it";
  } else if (most.what == "classification layer") {
    remedy = "; a smaller sample_rate lowers it";
  }
  return fmt::format("bottleneck: {}, {:.0f} % of a step{}\n", most.what, 100 * most.share, remedy);
}

}  // namespace

void add_capacity_options(CLI::App& verb, CapacityFlags& flags) {
  verb.add_option(
      "--gpu,--machine", flags.machine,
      "Also predicts how long the job takes on this kind of machine: h200, h100, a100 or v100 "
      "(from data sheets), this (measured with the job's network), or a FILE written by --save");
  verb.add_option("--network", flags.network,
                  "Network between the hosts: 400Gb, or 25Gb:30us with its latency")
      ->needs("--gpu");
  verb.add_option("--save", flags.save,
                  "File to which the measurements of this machine are written")
      ->needs("--gpu");
  verb.add_option("--measured", flags.measured,
                  "Output folder of a short run on this kind of machine, whose times correct the "
                  "plan")
      ->needs("--gpu");
}

void prepare_capacity(const CapacityFlags& flags) {
  if (!flags.network.empty()) parse_network(flags.network);
  if (flags.machine == "this") begin_again_as_workers_wait();
}

Link parse_network(const std::string& text) {
  static const std::regex kForm(
      R"((\d+(?:\.\d+)?)\s*([MG])b(?:it/s|ps)?(?::(\d+(?:\.\d+)?)(us|ms))?)");
  std::smatch found;
  if (text.size() > 64 || !std::regex_match(text, found, kForm) || std::stod(found[1]) <= 0) {
    throw InputError("--network: found '" + text +
                     "', expected a speed in bits per second, such as 400Gb, or a speed and a "
                     "latency, such as 25Gb:30us");
  }
  const double bits = std::stod(found[1]) * (found[2] == "G" ? 1e9 : 1e6);
  const double latency =
      found[3].matched ? std::stod(found[3]) * (found[4] == "us" ? 1e-6 : 1e-3) : kDefaultLatency;
  return {.latency = latency, .per_byte = 8 / (bits * kPayload)};
}

void decide_precision(const CapacityFlags& flags, JobConfig& job) {
  if (job.precision != Precision::kAuto) return;
  if (gpu_profile(flags.machine, DType::kFloat16, false)) {
    const bool bf16 = gpu_profile(flags.machine, DType::kBFloat16, false).has_value();
    job.precision = bf16 ? Precision::kBf16 : Precision::kFp16;
  } else if (job.device == DeviceChoice::kCuda && usable_gpus().gpus.empty()) {
    job.precision = Precision::kBf16;
  } else {
    job.precision = precisions_of(job.device, 0).front();
  }
}

std::optional<MachineProfile> machine_of(const CapacityFlags& flags, const PlannedJob& planned) {
  if (!flags.any()) return std::nullopt;
  std::optional<MachineProfile> machine;
  if (flags.machine == "this") {
    // Fail before the long measurement.
    if (!flags.save.empty()) const AtomicFile can_be_written(flags.save);
    if (!flags.measured.empty()) expect_comparable(flags.measured, planned);
    machine = measure_this(planned);
    if (!flags.save.empty()) write_profile(*machine, flags.save);
  } else if (!flags.save.empty()) {
    throw InputError("--save: only measurements can be saved; give --gpu this");
  } else if (is_gpu_name(flags.machine)) {
    machine = gpu_profile(flags.machine, activation_type(planned.job.precision), planned.job.tf32);
    if (!machine) {
      throw InputError("--gpu " + flags.machine +
                       ": it has no bf16; give --set precision=fp16, or fp32");
    }
  } else if (!something_at(flags.machine)) {
    throw InputError(fmt::format(
        "--gpu {}: neither a file nor a known GPU: expected {}, this, or a FILE written by --save",
        one_line(flags.machine, 200), fmt::join(gpu_names(), ", ")));
  } else {
    machine = read_profile(flags.machine);
  }
  if (machine->decode_seconds == 0) machine->decode_seconds = decode_seconds(planned);
  if (machine->decode_seconds == 0) machine->decode_seconds = kDecode;
  return machine;
}

double Capacity::samples_per_second() const {
  return static_cast<double>(samples) / step.seconds();
}

double Capacity::decoding_cores() const {
  return cluster.workers_of_host * step.input / (step.seconds() - step.of("data_wait"));
}

Capacity plan_capacity(const CapacityFlags& flags, const PlannedJob& planned, int workers_of_host,
                       const MemoryPlan& memory, MachineProfile machine) {
  Capacity c{.cluster = {.machine = std::move(machine),
                         .workers = planned.world_size,
                         .workers_of_host = workers_of_host,
                         .network = {},
                         .decoding_threads = planned.job.num_workers},
             .step = {},
             .network = flags.network,
             .measured = flags.measured,
             .samples = planned.job.batch_size * planned.world_size * planned.job.gradient_acc,
             .checkpoint = checkpoint_bytes(planned, memory),
             .kept = checkpoints_bytes(planned, memory)};
  if (!flags.network.empty()) c.cluster.network = parse_network(flags.network);
  if (c.cluster.hosts() > 1 && flags.network.empty()) {
    throw InputError(
        fmt::format("{} workers, {} per host: give --network, the network between the {} hosts "
                    "(400Gb, 25Gb:30us)",
                    planned.world_size, workers_of_host, c.cluster.hosts()));
  }
  const std::int64_t pixels = planned.data.height * planned.data.width;
  Corrections corrected;
  if (!flags.measured.empty()) {
    corrected = corrections_of_run(flags.measured, planned, c.cluster);
  }
  c.step = predict_step(count_step(planned), planned.job.batch_size, pixels, c.cluster, corrected);
  if (!(c.step.seconds() > 0 && std::isfinite(c.step.seconds()))) {
    throw InputError("--gpu " + one_line(flags.machine, 200) +
                     ": the time of a step is 0, so this is not a profile of pfcctl plan");
  }
  if (planned.data.images >= c.samples) {
    c.steps = plan_steps(planned.job, planned.world_size, planned.data.images).last_step;
    c.epochs = static_cast<double>(c.steps * c.samples) / static_cast<double>(planned.data.images);
  }
  return c;
}

std::string capacity_text(const Capacity& c) {
  const double all = c.step.seconds();
  std::string text =
      fmt::format("\nA step on {} ({})\n", place(c), one_line(c.cluster.machine.source, 200));
  if (!c.measured.empty()) text += "corrected by the run in " + c.measured + "\n";
  for (const PhaseCost& phase : c.step.phases) {
    text += fmt::format("  {:<30} {:>12} {:>5.1f} %\n", phase.phase, ms(phase.seconds),
                        100 * phase.seconds / all);
  }
  text += fmt::format("  {:<30} {:>12}\n", "in all", ms(all));
  text += fmt::format("{:.0f} samples/s, {:.1f} a worker; {:.2f} steps/s of {} samples\n",
                      c.samples_per_second(), c.samples_per_second() / c.cluster.workers, 1 / all,
                      c.samples);
  if (c.steps > 0) {
    text += fmt::format("{} steps ({:.3g} epochs) in {}, plus evaluations and checkpoints\n",
                        c.steps, c.epochs, hours(static_cast<double>(c.steps) * all));
  }
  text += fmt::format("inputs: {:.1f} cores of each host, at {:.0f} us an image on one core\n",
                      c.decoding_cores(), c.cluster.machine.decode_seconds * 1e6);
  text += bottleneck_text(c);
  return text + fmt::format("a checkpoint: {}; room in output for all that are kept: {}\n",
                            byte_size_text(c.checkpoint), byte_size_text(c.kept));
}

nlohmann::ordered_json capacity_json(const Capacity& c) {
  nlohmann::ordered_json phases;
  for (const PhaseCost& phase : c.step.phases) phases[phase.phase] = phase.seconds;
  return {{"machine", c.cluster.machine.name},
          {"machine_source", c.cluster.machine.source},
          {"hosts", c.cluster.hosts()},
          {"network", c.network},
          {"measured", c.measured},
          {"phases", phases},
          {"step_seconds", c.step.seconds()},
          {"samples_per_step", c.samples},
          {"samples_per_second", c.samples_per_second()},
          {"steps", c.steps},
          {"seconds", static_cast<double>(c.steps) * c.step.seconds()},
          {"decoding_cores_of_host", c.decoding_cores()},
          {"bottleneck", bottleneck_of(c.step).what},
          {"checkpoint_bytes", c.checkpoint},
          {"kept_checkpoints_bytes", c.kept}};
}

}  // namespace pfc
