// pfcctl data bench: images per second of the loader here, compared with the need of a job.
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/command_line.h"
#include "common/config/config.h"
#include "common/config/job_file.h"
#include "common/config/job_json.h"
#include "common/error.h"
#include "common/machine/cores.h"
#include "common/one_line.h"
#include "data/job_data.h"
#include "pfcctl/data/bench/bench.h"
#include "pfcctl/data/progress.h"
#include "pfcctl/data/verbs.h"
#include "pfcctl/plan/capacity.h"
#include "worker/capacity/step_cost.h"

namespace pfc {

namespace {

struct Flags {
  std::filesystem::path data;
  std::string config;
  std::vector<std::string> overrides;
  std::vector<int> threads;
  double seconds = 1;
  int workers = 1;
  int workers_per_host = 0;  // 0: all workers
  bool json = false;
  CapacityFlags capacity;
};

/// Returns 1, 2, 4 ... and all cores.
std::vector<int> thread_counts(int cores) {
  std::vector<int> counts;
  for (int threads = 1; threads < cores; threads *= 2) counts.push_back(threads);
  counts.push_back(cores);
  return counts;
}

JobConfig job_of(const Flags& flags) {
  JobConfig job;
  if (!flags.config.empty()) {
    job = parse_job(read_job_file(flags.config, flags.overrides), {flags.config, flags.overrides});
  }
  if (!flags.data.empty()) {
    job.rec = {flags.data};
    job.overlay.clear();  // belongs to the data of the job
  }
  if (job.rec.empty())
    throw InputError("data bench: found no data set; give one, or --config with a \"rec\"");
  return job;
}

/// Returns the named machine, or this one if none is named.
CapacityFlags capacity_of(const Flags& flags) {
  CapacityFlags capacity = flags.capacity;
  if (!capacity.any()) capacity.machine = "this";
  return capacity;
}

/// Returns the images per second that a worker consumes when it never waits for images.
Appetite appetite_of(const Flags& flags, const JobConfig& job, const Dataset& dataset) {
  const int on_host = flags.workers_per_host == 0 ? flags.workers : flags.workers_per_host;
  PlannedJob planned{.job = job, .world_size = flags.workers};
  planned.threads = threads_of_worker(on_host);
  planned.data = planned_data(dataset, {});
  const CapacityFlags capacity = capacity_of(flags);
  const MachineProfile machine = machine_of(capacity, planned).value();
  planned.gpu = machine.gpu;
  ClusterModel cluster{.machine = machine,
                       .workers = flags.workers,
                       .workers_of_host = on_host,
                       .network = {},
                       .decoding_threads = job.num_workers};
  if (!capacity.network.empty()) cluster.network = parse_network(capacity.network);
  if (cluster.hosts() > 1 && capacity.network.empty()) {
    throw InputError(
        "--network: missing; the job has several hosts, so give their network, for example 400Gb");
  }
  const std::int64_t pixels = planned.data.height * planned.data.width;
  const StepCost step = predict_step(count_step(planned), job.batch_size, pixels, cluster);
  const auto samples = static_cast<double>(job.batch_size * job.gradient_acc);
  return {.images_per_second = samples / (step.seconds() - step.of("data_wait")),
          .machine = one_line(machine.name, 60) + " (" + machine.source + ")",
          .workers_of_host = on_host};
}

void run(const Flags& flags) {
  if (!flags.config.empty()) prepare_capacity(capacity_of(flags));
  JobConfig job = job_of(flags);
  const auto dataset = open_job_data(job);
  expect_images(*dataset, "bench");
  complete_job(job, dataset->info());
  if (dataset->info().images < flags.workers) {
    throw InputError(fmt::format("--workers: found {} workers, but the data have only {} images",
                                 flags.workers, dataset->info().images));
  }
  const int cores = usable_cores();
  BenchReport report;
  if (!flags.config.empty()) {
    decide_precision(flags.capacity, job);
    report.appetite = appetite_of(flags, job, *dataset);
  }
  BenchOptions options{
      .threads = flags.threads.empty() ? thread_counts(cores) : flags.threads,
      .seconds = flags.seconds,
      .loader = {.batch_size = std::min(job.batch_size, dataset->info().images / flags.workers),
                 .world_size = flags.workers,
                 .seed = job.seed,
                 .shuffle = job.shuffle,
                 .read = read_options(job),
                 .augmentation = job.augment}};
  std::ranges::sort(options.threads);
  {
    Progress progress("measuring", "measurements");
    report.rows = bench_loader(*dataset, options, progress.as_function());
  }
  std::fputs((flags.json ? bench_json(report, cores) : bench_text(report, cores)).c_str(), stdout);
}

}  // namespace

void add_data_bench(CLI::App& data) {
  const auto flags = std::make_shared<Flags>();  // owned by the verb's callback
  CLI::App* verb = data.add_subcommand(
      "bench", "Measures how many images per second this host reads, decodes, augments and copies");
  verb->add_option("data", flags->data, "A data set in any layout. Default: the rec of --config");
  verb->add_option("--config", flags->config,
                   "Job file: measures with its augmentations and order, and prints how many "
                   "images per second its device needs");
  verb->add_option("--set", flags->overrides,
                   "key=value: changes a key of the job file. May be repeated")
      ->needs("--config");
  verb->add_option("--threads", flags->threads, "Numbers of threads. Default: 1, 2, 4 ... cores")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(whole_number(1, 1024));
  verb->add_option("--seconds", flags->seconds, "Duration of each of a row's two measurements")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  verb->add_option("--workers,--gpus", flags->workers, "Workers of the job")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  verb->add_option("--workers-per-host,--gpus-per-host", flags->workers_per_host,
                   "Workers that share this host's cores. Default: all")
      ->check(whole_number(1, 1 << 20));
  add_capacity_options(*verb, flags->capacity);
  verb->add_flag("--json", flags->json, "Prints JSON, for programs");
  verb->footer(
      "Examples:\n"
      "  pfcctl data bench /data/faces\n"
      "  pfcctl data bench --config job.json --gpus 8 --gpu h100");
  verb->callback([flags] { run(*flags); });
}

}  // namespace pfc
