#include "worker/capacity/measure_machine.h"

#include <algorithm>
#include <cstddef>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "comm/make_comm.h"
#include "comm/memory_store.h"
#include "common/clock.h"
#include "common/median.h"
#include "kernels/owned_tensor.h"
#include "worker/capacity/timed_step.h"
#include "worker/head/sampling/class_sampler.h"

namespace pfc {
namespace {

/// Returns the median time of a call. The first call, which allocates memory, is not timed.
double median_call_seconds(const std::function<void()>& call) {
  constexpr int kRepetitions = 5;
  call();
  std::vector<double> seconds;
  for (int i = 0; i < kRepetitions; ++i) {
    const TimePoint start = Clock::now();
    call();
    seconds.push_back(seconds_since(start));
  }
  return median_of(std::move(seconds));
}

double seconds_per_flop(Ops& ops) {
  const std::int64_t n = ops.on_host() ? 1024 : 8192;
  const OwnedTensor ones(ops, {n, n}), c(ops, {n, n}, ops.activation_type());
  const OwnedTensor a(ops, {n, n}, ops.activation_type());
  ops.fill(ones, 1);
  ops.activation_type() == DType::kFloat32 ? ops.copy(ones, a) : ops.convert(ones, a);
  const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n * n);
  return median_call_seconds([&] {
           ops.gemm({.m = n, .n = n, .k = n, .a = a, .b = a, .c = c});
           ops.synchronize();
         }) /
         flops;
}

double seconds_per_byte(Ops& ops) {
  const std::int64_t n = ops.on_host() ? 16 << 20 : 256 << 20;  // larger than a cache
  const OwnedTensor a(ops, {n}), b(ops, {n});
  ops.fill(a, 1);
  return median_call_seconds([&] {
           ops.add(a, a, b);
           ops.synchronize();
         }) /
         static_cast<double>(2 * a->bytes());
}

double draw_seconds() {
  constexpr std::int64_t kDrawn = 200'000;
  return median_call_seconds([] {
           sample_classes({.classes = kDrawn, .rate = 0.1}, {.begin = 0, .end = kDrawn}, {}, 0);
         }) /
         static_cast<double>(kDrawn);
}

/// Returns the part of a job that is timed. It is small, so that the measurement takes seconds.
PlannedJob timed_part(const PlannedJob& planned, bool on_host) {
  constexpr std::int64_t kImages = 8, kImagesOfGpu = 128, kClasses = 50'000;
  PlannedJob part = planned;
  part.world_size = 1;
  part.job.gradient_acc = 1;
  part.job.heads = Heads::kOne;  // separate heads would need the number of classes of each
  part.job.batch_size = std::min(part.job.batch_size, on_host ? kImages : kImagesOfGpu);
  part.job.num_classes = std::min(part.job.num_classes, kClasses);
  return part;
}

/// Runs as one of two workers. Returns the median time of an all-reduce of `bytes` bytes.
double reduce_with_peer(Comm& comm, std::size_t bytes) {
  std::vector<float> data(bytes / sizeof(float));
  const Tensor all(data.data(), {static_cast<std::int64_t>(data.size())});
  return median_call_seconds([&] { comm.all_reduce_sum(all); });
}

Link link_with_peer(int rank, KeyValueStore& store) {
  const std::unique_ptr<Comm> comm = make_host_comm(
      {.membership = {.rank = rank, .world_size = 2, .local_rank = rank, .local_world_size = 2},
       .name = "loopback"},
      &store);
  constexpr std::size_t kSmall = 256, kLarge = 8 << 20;
  const double small = reduce_with_peer(*comm, kSmall), large = reduce_with_peer(*comm, kLarge);
  // Each worker sends half of the bytes, and then again half of them, in two consecutive messages.
  return {.latency = small / 2, .per_byte = std::max(0.0, large - small) / (2.0 * kLarge)};
}

}  // namespace

MachineProfile measure_machine(Ops& ops, const PlannedJob& planned, const Measuring& doing) {
  MachineProfile profile{.name = ops.description(),
                         .source = {},
                         .gpu = !ops.on_host(),
                         .roofline = {},
                         .local = {},
                         .memory_bytes = ops.memory().total};
  doing("matrix products and memory");
  profile.roofline = {.per_flop = seconds_per_flop(ops), .per_byte = seconds_per_byte(ops)};
  profile.draw_seconds = draw_seconds();
  const PlannedJob part = timed_part(planned, ops.on_host());
  doing(part.job.network + ": forward and backward");
  constexpr int kPasses = 5;
  const BackboneSeconds backbone = time_backbone(ops, part, kPasses);
  doing("the classification layer");
  const double head = time_head(ops, *make_host_comm({}, nullptr), part, kPasses);
  const StepWork work = count_step(part);
  const auto factor = [&](double seconds, const auto& counted) {
    const double modelled = profile.roofline.seconds(counted);
    return modelled > 0 ? seconds / modelled : 1;  // network "none" has no ops
  };
  profile.forward = factor(backbone.forward, work.forward);
  profile.backward = factor(backbone.backward, work.backward);
  profile.head = factor(head, work.head);
  return profile;
}

Link measure_loopback() {
  MemoryStore store;
  std::future<Link> peer = std::async(std::launch::async, [&] { return link_with_peer(1, store); });
  const Link link = link_with_peer(0, store);
  peer.get();
  return link;
}

}  // namespace pfc
