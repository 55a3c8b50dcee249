// Measures how fast two workers of one host exchange gradients. The ranks are threads; with two
// cores the results are the same for two processes.
#include <benchmark/benchmark.h>

#include <thread>
#include <vector>

#include "tests/comm/ranks.h"

namespace pfc {
namespace {

using Collective = void (*)(Comm&, std::vector<float>&);

void all_reduce(Comm& comm, std::vector<float>& values) {
  comm.all_reduce_sum({values.data(), Shape{static_cast<std::int64_t>(values.size())}});
}

void reduce_scatter(Comm& comm, std::vector<float>& values) {
  const auto part = static_cast<std::int64_t>(values.size()) / comm.size();
  static thread_local std::vector<float> out;
  out.resize(static_cast<std::size_t>(part));
  comm.reduce_scatter_sum({values.data(), Shape{part * comm.size()}}, {out.data(), Shape{part}});
}

void all_gather(Comm& comm, std::vector<float>& values) {
  const auto part = static_cast<std::int64_t>(values.size()) / comm.size();
  static thread_local std::vector<float> in;
  in.resize(static_cast<std::size_t>(part));
  comm.all_gather({in.data(), Shape{part}}, {values.data(), Shape{part * comm.size()}});
}

void all_to_all(Comm& comm, std::vector<float>& values) {
  const Shape shape{static_cast<std::int64_t>(values.size()) / comm.size() * comm.size()};
  static thread_local std::vector<float> out;
  out.resize(values.size());
  comm.all_to_all({values.data(), shape}, {out.data(), shape});
}

/// Arguments: workers, floats. Measures the time on rank 0. The other ranks run the same
/// collectives until the store says "over".
void run(benchmark::State& state, Collective collective) {
  const int world_size = static_cast<int>(state.range(0));
  const auto floats = static_cast<std::size_t>(state.range(1));
  MemoryStore store;
  on_threads(world_size, [&](int rank) {
    const auto comm = make_host_comm(options_of(rank, world_size), &store);
    std::vector<float> values(floats);
    float go_on = 1;
    const Tensor signal(&go_on, Shape{1});
    if (rank != 0) {
      for (comm->broadcast(signal, 0); go_on == 1; comm->broadcast(signal, 0)) {
        collective(*comm, values);
      }
      return;
    }
    for (auto _ : state) {
      state.PauseTiming();
      comm->broadcast(signal, 0);
      state.ResumeTiming();
      collective(*comm, values);
    }
    go_on = 0;
    comm->broadcast(signal, 0);
  });
  state.SetBytesProcessed(state.iterations() * state.range(1) * 4);
}

void sizes(benchmark::internal::Benchmark* b) {
  for (const int world_size : {2, 4}) {
    for (const int floats : {256, 2 << 20, 25'000'000}) b->Args({world_size, floats});
  }
  b->UseRealTime()->Unit(benchmark::kMicrosecond);
}

BENCHMARK_CAPTURE(run, all_reduce, &all_reduce)->Apply(sizes);
BENCHMARK_CAPTURE(run, reduce_scatter, &reduce_scatter)->Apply(sizes);
BENCHMARK_CAPTURE(run, all_gather, &all_gather)->Apply(sizes);
BENCHMARK_CAPTURE(run, all_to_all, &all_to_all)->Apply(sizes);

}  // namespace
}  // namespace pfc
