#include "worker/cost/measure_machine.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <thread>

#include "comm/make_comm.h"
#include "comm/memory_store.h"
#include "common/clock.h"
#include "common/error.h"
#include "kernels/owned_tensor.h"
#include "worker/cost/fit.h"
#include "worker/head/class_sampler.h"
#include "worker/head/head.h"

namespace pfc {
namespace {

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Returns the quantities that determine the time of an op. Convolutions and products are bound by
/// flops, and their sizes are too similar to separate an overhead. The others move bytes, from a
/// cache or from memory.
std::vector<double> features(const MachineProfile& profile, const OpWork& work) {
  const bool multiplies = work.kind < OpKind::kDepthwise || work.kind == OpKind::kProduct;
  if (multiplies) return {work.flops, work.bytes};
  const bool near = profile.near(work);
  return {1, near ? 0 : work.bytes, near ? work.bytes : 0};
}

Rate rate_of(const std::vector<Measured>& times, const std::vector<double>& x) {
  if (x.size() == 2) return {.per_flop = x[0], .per_byte = x[1], .per_near_byte = x[1]};
  // If all ops were on one side of the cache size, use its rate for the other side too.
  const auto some = [&](std::size_t feature) {
    return std::ranges::any_of(times, [&](const Measured& m) { return m.features[feature] > 0; });
  };
  return {
      .overhead = x[0], .per_byte = some(1) ? x[1] : x[2], .per_near_byte = some(2) ? x[2] : x[1]};
}

/// Fits the single times, then scales so that their sum is right: a step is a sum of such ops, and
/// a fit to relative errors alone underestimates it.
std::vector<double> fit_sum(const std::vector<Measured>& times) {
  std::vector<double> x = fit(times);
  double said = 0, was = 0;
  for (const Measured& m : times) {
    for (std::size_t k = 0; k < x.size(); ++k) said += m.features[k] * x[k];
    was += m.seconds;
  }
  for (double& each : x) each *= was / said;
  return x;
}

/// Fits all rates for a cache of profile.cache_bytes. Returns the sum of squared relative errors.
double fit_ops(const std::vector<MeasuredOp>& measured, MachineProfile& profile) {
  double error = 0;
  for (std::size_t i = 0; i < kOpKinds; ++i) {
    std::vector<Measured> times;
    for (const MeasuredOp& op : measured) {
      if (op.work.kind != static_cast<OpKind>(i)) continue;
      times.push_back({.features = features(profile, op.work), .seconds = op.seconds});
    }
    const std::vector<double> x = fit_sum(times);
    error += squared_error(times, x);
    profile.ops[i] = rate_of(times, x);
  }
  return error;
}

/// Finds the cache size that fits the times best. Virtual machines often report the processor's
/// whole cache, although they share it with others.
void fit_ops_and_cache(const std::vector<MeasuredOp>& measured, MachineProfile& profile) {
  MachineProfile best = profile;
  double least = std::numeric_limits<double>::infinity();
  for (std::uint64_t cache = 1 << 20; cache <= 256 << 20; cache *= 2) {
    profile.cache_bytes = cache;
    const double error = fit_ops(measured, profile);
    if (error >= least) continue;
    least = error;
    best = profile;
  }
  profile = best;
}

struct HeadSize {
  std::int64_t samples, classes;
  double rate;
};

// Many and few samples per class; all rows active or a tenth.
constexpr std::array<HeadSize, 6> kHeads{{{8, 2'000, 1},
                                          {16, 40'000, 1},
                                          {64, 10'000, 1},
                                          {128, 20'000, 1},
                                          {16, 100'000, 0.1},
                                          {128, 100'000, 0.1}}};
constexpr std::int64_t kDimension = 512;
constexpr int kHeadSteps = 5;
constexpr std::int64_t kOthers = 16 << 20;  // number of elements

/// Measures the median time of a few steps of the classification layer, with its work.
Measured measure_head(Ops& ops, const HeadSize& size) {
  const std::unique_ptr<Comm> alone = make_host_comm({}, nullptr);
  const HeadOptions options{.classes = size.classes,
                            .embedding_size = kDimension,
                            .sample_rate = size.rate,
                            .bf16_products = ops.activation_type() != DType::kFloat32};
  const std::unique_ptr<Head> head = make_head(ops, *alone, options);
  std::vector<float> values(static_cast<std::size_t>(size.samples * kDimension));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((i * 2654435761U) % 1000) / 500.F - 1.F;
  }
  const OwnedTensor embeddings(ops, {size.samples, kDimension});
  ops.copy_to_device(embeddings, values.data());
  std::vector<std::int64_t> labels(static_cast<std::size_t>(size.samples));
  // Evicts the caches, as the backbone does between two steps of the head.
  const OwnedTensor others(ops, {kOthers});
  std::vector<double> seconds;
  for (std::int64_t step = 1; step <= kHeadSteps + 2; ++step) {
    for (std::size_t i = 0; i < labels.size(); ++i) {
      labels[i] = (static_cast<std::int64_t>(i) * 7919 + step * 104729) % size.classes;
    }
    const ActiveCentres active = head->sample(labels, step);
    ops.fill(others, static_cast<float>(step));
    ops.synchronize();
    const TimePoint start = Clock::now();
    head->run({.all_embeddings = embeddings,
               .all_labels = labels,
               .active = active,
               .lr = 0.01,
               .update = step});
    ops.synchronize();
    if (step > 2)
      seconds.push_back(seconds_since(start));  // the first steps allocate memory and plans
  }
  const HeadWork work = head_work(options, size.samples, size.classes);
  return {.features = {1, work.flops, work.logits, work.bytes}, .seconds = median(seconds)};
}

HeadRate fit_head(Ops& ops, const Measuring& doing) {
  std::vector<Measured> times;
  for (const HeadSize& size : kHeads) {
    doing(fmt::format("classification layer: {} samples, {} classes", size.samples, size.classes));
    times.push_back(measure_head(ops, size));
  }
  const std::vector<double> x = fit(times);
  HeadRate rate{.overhead = x[0], .per_flop = x[1], .per_logit = x[2], .per_byte = x[3]};
  constexpr std::int64_t kDrawn = 200'000;
  std::vector<double> drawing;
  for (std::int64_t step = 0; step < kHeadSteps; ++step) {
    const TimePoint start = Clock::now();
    sample_classes({.classes = kDrawn, .rate = 0.1}, {.begin = 0, .end = kDrawn}, {}, step);
    drawing.push_back(seconds_since(start) / static_cast<double>(kDrawn));
  }
  rate.per_drawn = median(drawing);
  return rate;
}

constexpr std::array<std::size_t, 4> kMessages{256, 16 << 10, 1 << 20, 8 << 20};  // in bytes

/// Runs as one of two workers. Returns the times of all-reduces, with their sizes.
std::vector<Measured> reduce_with_peer(int rank, KeyValueStore& store) {
  const std::unique_ptr<Comm> comm = make_host_comm(
      {.membership = {.rank = rank, .world_size = 2, .local_rank = rank, .local_world_size = 2},
       .name = "loopback"},
      &store);
  std::vector<Measured> times;
  for (const std::size_t bytes : kMessages) {
    std::vector<float> data(bytes / sizeof(float));
    const Tensor all(data.data(), {static_cast<std::int64_t>(data.size())});
    std::vector<double> seconds;
    for (int i = 0; i < 12; ++i) {
      comm->barrier();
      const TimePoint start = Clock::now();
      comm->all_reduce_sum(all);
      if (i > 1) seconds.push_back(seconds_since(start));
    }
    // Each of the two sends half of it twice.
    times.push_back(
        {.features = {1, 2.0 * static_cast<double>(bytes)}, .seconds = median(seconds)});
  }
  return times;
}

}  // namespace

MachineProfile measure_machine(Ops& ops, const Measuring& doing) {
  MachineProfile profile{.name = ops.description(),
                         .source = {},
                         .gpu = !ops.on_host(),
                         .cache_bytes = 0,
                         .ops = {},
                         .head = {},
                         .local = {},
                         .memory_bytes = ops.memory().total};
  fit_ops_and_cache(measure_ops(ops, doing), profile);
  profile.head = fit_head(ops, doing);
  return profile;
}

Link measure_loopback() {
  MemoryStore store;
  std::vector<Measured> times;
  std::exception_ptr failure;
  std::thread peer([&] {
    try {
      reduce_with_peer(1, store);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  try {
    times = reduce_with_peer(0, store);
  } catch (...) {
    failure = std::current_exception();
  }
  peer.join();
  if (failure) std::rethrow_exception(failure);
  const std::vector<double> x = fit(times);
  return {.latency = x[0] / 2, .per_byte = x[1]};  // two messages, one after the other
}

}  // namespace pfc
