#include "worker/check/collectives_check.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/byte_size.h"
#include "common/clock.h"
#include "kernels/math/row_statistics.h"

namespace pfc {
namespace {

constexpr int kRepetitions = 5;
constexpr std::size_t kMostGradients = 64 << 20;  // in bytes
constexpr std::size_t kTrialBytes = 256 << 10;
constexpr double kLongestReduce = 0.5;  // in seconds

struct Memory {
  Memory(Ops& ops, std::size_t bytes) : buffer(ops.allocate(bytes)) {}
  [[nodiscard]] Tensor floats(const Shape& shape) const {
    return {reinterpret_cast<float*>(buffer->data()), shape};
  }
  [[nodiscard]] Tensor bytes(std::size_t count) const {
    return {buffer->data(), DType::kUInt8, {static_cast<std::int64_t>(count)}};
  }
  std::unique_ptr<Buffer> buffer;
};

/// Returns the seconds of the fastest of several calls. All workers start each call together.
double fastest(Ops& ops, Comm& comm, const std::function<void()>& collective) {
  collective();  // makes connections and buffers
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i < kRepetitions; ++i) {
    comm.barrier();
    const TimePoint start = Clock::now();
    collective();
    ops.synchronize();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

/// `moved`: minimum number of bytes that a worker must send.
CheckFinding finding(const std::string& what, std::size_t bytes, double seconds, double moved) {
  return {.what = what,
          .found = fmt::format("{} in {:.2f} ms, {:.2f} GB/s", byte_size_text(bytes), seconds * 1e3,
                               moved / seconds / 1e9),
          .expected = {},
          .value = seconds * 1e3,
          .unit = "ms",
          .of_host = false};
}

/// Returns how many bytes to reduce, at most `most`. Over a slow network they are fewer, so that
/// the reduction does not take long: if it timed out, the network would seem to be broken.
std::size_t reduced_bytes(Ops& ops, Comm& comm, Comm& host_comm, std::size_t most) {
  const std::size_t trial = std::min(most, kTrialBytes);
  const Memory memory(ops, trial);
  const Tensor all = memory.floats({static_cast<std::int64_t>(trial / sizeof(float))});
  ops.fill(all, 0);
  comm.all_reduce_sum(all);
  comm.barrier();
  const TimePoint start = Clock::now();
  comm.all_reduce_sum(all);
  ops.synchronize();
  const double seconds = of_slowest(host_comm, seconds_since(start));
  const double bytes = static_cast<double>(trial) * kLongestReduce / std::max(seconds, 1e-9);
  return bytes >= static_cast<double>(most)
             ? most
             : std::max(trial, static_cast<std::size_t>(bytes)) / sizeof(float) * sizeof(float);
}

struct Reduced {
  std::size_t bytes = 0;
  double seconds = 0;
};

Reduced all_reduce(Ops& ops, Comm& comm, Comm& host_comm, std::size_t most) {
  const std::size_t bytes = reduced_bytes(ops, comm, host_comm, most);
  const Memory gradients(ops, bytes);
  const Tensor all = gradients.floats({static_cast<std::int64_t>(bytes / sizeof(float))});
  ops.fill(all, 0);
  return {bytes, fastest(ops, comm, [&] { comm.all_reduce_sum(all); })};
}

}  // namespace

double of_slowest(Comm& host_comm, double seconds) {
  std::vector<double> all(static_cast<std::size_t>(host_comm.size()));
  const auto bytes = static_cast<std::int64_t>(sizeof(seconds));
  host_comm.all_gather(Tensor(&seconds, DType::kUInt8, {bytes}),
                       Tensor(all.data(), DType::kUInt8, {bytes * host_comm.size()}));
  return *std::ranges::max_element(all);
}

TimedCollectives time_collectives(Ops& ops, DeviceComms& comms, Comm& host_comm,
                                  const PlannedJob& planned, std::size_t gradient_bytes) {
  Comm& step = *comms.step;
  const std::int64_t batch = planned.job.batch_size, dimensions = planned.job.embedding_size;
  const auto workers = static_cast<std::size_t>(step.size());
  const auto others = static_cast<double>(workers - 1);
  const auto embeddings = static_cast<std::size_t>(batch * dimensions) * sizeof(float);
  const std::size_t statistics = static_cast<std::size_t>(batch) * workers * sizeof(RowStatistics);
  const Memory mine(ops, embeddings), all(ops, embeddings * workers);
  const Memory my_rows(ops, statistics), all_rows(ops, statistics);
  const Tensor own = mine.floats({batch, dimensions});
  const Tensor gathered = all.floats({batch * step.size(), dimensions});
  ops.fill(own, 0);
  ops.fill(gathered, 0);
  const double gather = fastest(ops, step, [&] { step.all_gather(own, gathered); });
  const double rows = fastest(ops, step, [&] {
    step.all_to_all(my_rows.bytes(statistics), all_rows.bytes(statistics));
    step.all_gather(my_rows.bytes(statistics / workers), all_rows.bytes(statistics));
  });
  const double scatter = fastest(ops, step, [&] { step.reduce_scatter_sum(gathered, own); });
  const double moved = static_cast<double>(embeddings) * others;
  const Reduced reduced =
      all_reduce(ops, *comms.gradients, host_comm,
                 std::min(gradient_bytes, kMostGradients) / sizeof(float) * sizeof(float));
  const auto summed = static_cast<double>(reduced.bytes);
  TimedCollectives timed{
      .findings = {finding("all-gather of embeddings", embeddings * workers, gather, moved),
                   finding("exchange of softmax statistics", 2 * statistics, rows,
                           2 * static_cast<double>(statistics) * others / (others + 1)),
                   finding("reduce-scatter of embedding gradients", embeddings * workers, scatter,
                           moved)},
      .seconds = {.gradients = 0, .embeddings = gather + scatter}};
  if (gradient_bytes == 0) return timed;  // there are no gradients to reduce
  timed.seconds.gradients = reduced.seconds * static_cast<double>(gradient_bytes) / summed;
  timed.findings.insert(timed.findings.begin(),
                        finding("all-reduce of gradients", reduced.bytes, reduced.seconds,
                                2 * summed * others / (others + 1)));
  return timed;
}

}  // namespace pfc
