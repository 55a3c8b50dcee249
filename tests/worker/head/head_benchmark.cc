// One head step of one worker: N = 128, D = 512. Arguments: thousands of classes, sample rate in
// thousandths. items_per_second counts active classes; GFLOP/s the three products that a step needs
// (logits, both gradients), not the logits made a second time.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/make_ops.h"
#include "worker/comm/comm.h"
#include "worker/head/head.h"

namespace pfc {
namespace {

constexpr std::int64_t kSamples = 128;
constexpr std::int64_t kDimension = 512;

class OneWorker : public Comm {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  [[nodiscard]] std::string description() const override { return "none"; }
  [[nodiscard]] CommCounters counters() const override { return {}; }
  void all_gather(const Tensor& in, const Tensor& out) override {
    std::copy_n(static_cast<const std::byte*>(in.data), in.bytes(),
                static_cast<std::byte*>(out.data));
  }
  void all_reduce_sum(const Tensor&) override {}
  void reduce_scatter_sum(const Tensor&, const Tensor&) override {}
  void broadcast(const Tensor&, int) override {}
  void barrier() override {}
};

void head_step(benchmark::State& state) {
  const std::int64_t classes = state.range(0) * 1000;
  const auto ops = make_ops({.choice = DeviceChoice::kCpu});
  OneWorker comm;
  const auto head = make_head(*ops, comm,
                              {.classes = classes,
                               .embedding_size = kDimension,
                               .sample_rate = static_cast<double>(state.range(1)) / 1000});
  std::mt19937_64 generator(1);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> embeddings(kSamples * kDimension);
  for (float& x : embeddings) x = normal(generator);
  std::vector<std::int64_t> labels(kSamples);
  for (std::int64_t& label : labels) {
    label = static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(classes));
  }
  std::int64_t step = 0;
  std::int64_t active_classes = 0;
  double sample_seconds = 0;
  const auto run_step = [&] {
    ++step;
    const auto begin = std::chrono::steady_clock::now();
    const ActiveCentres active = head->sample(labels, step);
    sample_seconds +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    head->run({.all_embeddings = Tensor(embeddings.data(), {kSamples, kDimension}),
               .all_labels = labels,
               .active = active,
               .lr = 1e-3,
               .update = step});
    active_classes += static_cast<std::int64_t>(active.classes.size());
  };
  run_step();  // touches all memory for the first time
  active_classes = 0;
  for (auto _ : state) run_step();
  state.SetItemsProcessed(active_classes);
  state.counters["GFLOP/s"] =
      benchmark::Counter(6e-9 * kSamples * kDimension * static_cast<double>(active_classes),
                         benchmark::Counter::kIsRate);
  state.counters["sample_ms"] = 1e3 * sample_seconds / static_cast<double>(step);
}
BENCHMARK(head_step)
    ->ArgNames({"kclasses", "rate_permille"})
    ->Args({200, 1000})
    ->Args({200, 100})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace pfc
