// head_benchmark --classes C [--rate R] [--workers W] [--threads T] [--device cuda] ...
//
// Measures head steps over random embeddings and labels: the head's work in a training step and
// the collectives around it. Workers are threads of this process, connected by Gloo on loopback,
// or by NCCL with one GPU each (--device cuda). --threads: compute threads per worker on a CPU.
// Classes are sampled before the step and timed separately, because training samples them during
// the forward pass. Embeddings are on the device before the step. Prints one JSON object: the time
// to draw the initial centres and compute their norms (create_seconds), the seconds and
// sample_seconds of every measured step, the first step's loss, rank 0's active classes and
// collectives of a step, the peak resident memory of the process, and the used memory of rank 0's
// GPU after the last step (0 on a CPU).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <future>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "comm/make_comm.h"
#include "comm/memory_store.h"
#include "common/clock.h"
#include "common/config/config.h"
#include "common/config/job_json.h"
#include "common/error.h"
#include "common/machine/process_memory.h"
#include "kernels/make_ops.h"
#include "worker/head/head.h"

namespace pfc {
namespace {

struct Options {
  std::int64_t samples = 128;  // samples of all workers together
  std::int64_t classes = 0;
  std::int64_t warm_up = 1;
  std::int64_t steps = 5;
  int workers = 1;
  int threads = 2;
  bool moves_later = false;
  nlohmann::json job = {{"device", "cpu"}};  // keys of a job file
};

HeadOptions head_options_of(const JobConfig& job, const Options& options) {
  HeadOptions head = head_options(job);
  head.moves_later = head.moves_later || options.moves_later;
  return head;
}

struct Measurements {
  double create_seconds = 0;
  std::vector<double> seconds, sample_seconds;
  double first_loss = 0;
  std::int64_t active = 0;  // number of active classes in the last step
  CommCounters comm;        // of the last step
  std::size_t gpu_memory = 0;
};

// Each worker draws the same numbers and uses its own rows of the embeddings.
class Input {
 public:
  Input(const Options& options, std::int64_t dimension)
      : embeddings_(static_cast<std::size_t>(options.samples * dimension)),
        labels_(static_cast<std::size_t>(options.samples)),
        label_(0, options.classes - 1) {}

  void draw() {
    for (float& x : embeddings_) x = normal_(generator_);
    for (std::int64_t& label : labels_) label = label_(generator_);
  }
  [[nodiscard]] float* embeddings() { return embeddings_.data(); }
  [[nodiscard]] const std::vector<std::int64_t>& labels() const { return labels_; }

 private:
  std::mt19937_64 generator_{1};
  std::normal_distribution<float> normal_;
  std::vector<float> embeddings_;  // [N, D]
  std::vector<std::int64_t> labels_;
  std::uniform_int_distribution<std::int64_t> label_;
};

class Worker {
 public:
  Worker(const Options& options, const JobConfig& job, KeyValueStore& store, int rank)
      : options_(options),
        dimension_(job.embedding_size),
        own_(options.samples / options.workers),
        ops_(make_ops({.choice = job.device,
                       .index = rank,
                       .cpu_threads = options.threads,
                       .precision = job.precision,
                       .tf32 = job.tf32})),
        comms_(make_device_comms(
            *ops_, {.membership = {.rank = rank, .world_size = options.workers}}, &store)),
        comm_(*comms_.step),
        creation_(Clock::now()),
        head_(make_head(*ops_, comm_, head_options_of(job, options))),
        create_seconds_(seconds_since(creation_)),
        embeddings_(ops_->allocate(bytes(own_))),
        all_embeddings_(ops_->allocate(bytes(options.samples))),
        d_embeddings_(ops_->allocate(bytes(own_))) {}

  Measurements run() {
    Input input(options_, dimension_);
    Measurements m{.create_seconds = create_seconds_};
    for (std::int64_t step = 1; step <= options_.warm_up + options_.steps; ++step) {
      input.draw();
      const StepTimes times = run_step(input, step, m);
      if (step <= options_.warm_up) continue;
      m.seconds.push_back(times.step);
      m.sample_seconds.push_back(times.sampling);
    }
    const Ops::DeviceMemory gpu = ops_->memory();
    m.gpu_memory = gpu.total - gpu.free;
    return m;
  }

 private:
  struct StepTimes {
    double sampling = 0, step = 0;
  };

  StepTimes run_step(Input& input, std::int64_t step, Measurements& m) {
    const TimePoint sampling = Clock::now();
    const ActiveCentres active = head_->sample(input.labels(), step);
    StepTimes times{.sampling = seconds_since(sampling)};
    const Tensor embeddings(embeddings_->data(), DType::kFloat32, {own_, dimension_});
    const Tensor all(all_embeddings_->data(), DType::kFloat32, {options_.samples, dimension_});
    const Tensor d_embeddings(d_embeddings_->data(), DType::kFloat32, {own_, dimension_});
    ops_->copy_to_device(embeddings, input.embeddings() + own_ * dimension_ * comm_.rank());
    ops_->synchronize();
    comm_.barrier();
    const CommCounters before = comm_.counters();

    const TimePoint begin = Clock::now();
    comm_.all_gather(embeddings, all);
    const Head::Step given{.all_embeddings = all,
                           .all_labels = input.labels(),
                           .active = active,
                           .lr = 0.1,
                           .update = step};
    const HeadResult result = head_->run(given);
    comm_.reduce_scatter_sum(result.d_embeddings, d_embeddings);
    if (!result.moved) head_->move(given);
    ops_->synchronize();
    times.step = seconds_since(begin);

    if (step == 1) m.first_loss = result.loss;
    m.active = static_cast<std::int64_t>(active.classes.size());
    m.comm = {.calls = comm_.counters().calls - before.calls,
              .bytes = comm_.counters().bytes - before.bytes};
    return times;
  }

  [[nodiscard]] std::size_t bytes(std::int64_t rows) const {
    return static_cast<std::size_t>(rows * dimension_) * sizeof(float);
  }

  const Options& options_;
  const std::int64_t dimension_;
  const std::int64_t own_;  // number of samples of this worker
  std::unique_ptr<Ops> ops_;
  DeviceComms comms_;
  Comm& comm_;
  const TimePoint creation_;
  std::unique_ptr<Head> head_;
  const double create_seconds_;
  std::unique_ptr<Buffer> embeddings_;      // [N / W, D]
  std::unique_ptr<Buffer> all_embeddings_;  // [N, D]
  std::unique_ptr<Buffer> d_embeddings_;    // [N / W, D]
};

Measurements measure(const Options& options) {
  JobConfig job = parse_job(options.job, "options");
  job.num_classes = options.classes;
  if (options.samples % options.workers != 0) {
    throw InputError("head_benchmark: --samples must be a multiple of --workers");
  }
  MemoryStore store;
  std::vector<std::future<Measurements>> workers;
  for (int rank = 0; rank < options.workers; ++rank) {
    workers.push_back(std::async(std::launch::async,
                                 [&, rank] { return Worker(options, job, store, rank).run(); }));
  }
  for (std::size_t rank = 1; rank < workers.size(); ++rank) workers[rank].get();
  return workers.front().get();
}

Options parse(CLI::App& app, int argc, char** argv) {
  Options o;
  app.add_option("--samples", o.samples, "N, of all workers together")->check(CLI::PositiveNumber);
  app.add_option("--classes", o.classes)->required()->check(CLI::PositiveNumber);
  app.add_option("--workers", o.workers)->check(CLI::PositiveNumber);
  app.add_option("--threads", o.threads, "of each worker")->check(CLI::PositiveNumber);
  app.add_option("--warm-up", o.warm_up, "steps that are not measured");
  app.add_option("--steps", o.steps)->check(CLI::PositiveNumber);
  app.add_flag("--moves-later", o.moves_later, "updates centres in a separate call, as with fp16");
  const auto key = [&]<typename Value>(const char* flag, const char* name, Value) {
    app.add_option_function<Value>(flag, [&o, name](const Value& value) { o.job[name] = value; });
  };
  key("--dimension", "embedding_size", std::int64_t{});
  key("--rate", "sample_rate", double{});
  key("--hold", "sample_hold", std::int64_t{});
  key("--device", "device", std::string());
  key("--precision", "precision", std::string());
  key("--centre-precision", "centre_precision", std::string());
  key("--centre-momentum", "centre_momentum", double{});
  key("--logits-memory", "logits_memory", double{});
  key("--optimizer", "optimizer", std::string());
  app.parse(argc, argv);
  return o;
}

}  // namespace
}  // namespace pfc

int main(int argc, char** argv) {
  CLI::App app("Measures head steps");
  try {
    const pfc::Options options = pfc::parse(app, argc, argv);
    const pfc::Measurements m = pfc::measure(options);
    const nlohmann::ordered_json object{{"create_seconds", m.create_seconds},
                                        {"seconds", m.seconds},
                                        {"sample_seconds", m.sample_seconds},
                                        {"loss", m.first_loss},
                                        {"active_classes", m.active},
                                        {"comm_calls", m.comm.calls},
                                        {"comm_bytes", m.comm.bytes},
                                        {"memory_bytes", pfc::process_memory().peak_resident_bytes},
                                        {"gpu_memory_bytes", m.gpu_memory}};
    std::printf("%s\n", object.dump().c_str());
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "head_benchmark: %s\n", error.what());
    return 2;
  }
}
