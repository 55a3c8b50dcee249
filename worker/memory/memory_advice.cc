#include "worker/memory/memory_advice.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "common/byte_size.h"
#include "common/config/no_network.h"
#include "common/error.h"
#include "common/machine/host_memory.h"
#include "common/machine/process_memory.h"

namespace pfc {
namespace {

// Largest values that a job file may have (common/config/config.cc).
constexpr std::int64_t kMostClasses = std::int64_t{1} << 40;
constexpr std::int64_t kMostBatch = std::int64_t{1} << 20;
constexpr std::size_t kPartsNamed = 3;
// Thread stacks and allocator arenas are mapped in advance, but hardly used. They count towards a
// limit of the address space (ulimit -v). Measured: 0.2 GiB for a single worker with one decoding
// thread, 0.4 GiB with 16; the threads of gRPC and Gloo need more.
constexpr std::uint64_t kUnusedAddresses = std::uint64_t{1} << 30;

using Fits = std::function<bool(std::int64_t)>;

/// Returns the largest number in low .. high that fits; low - 1 if none fits. REQUIRES: if a number
/// fits, all smaller numbers fit. Searches around `guess` first, because each test may take 0.1 s.
std::int64_t largest(std::int64_t low, std::int64_t high, std::int64_t guess, const Fits& fits) {
  std::int64_t good = low - 1;
  std::int64_t bad = high + 1;
  std::int64_t probe = std::clamp(guess, low, high);
  for (std::int64_t stride = 1; bad - good > 1; stride *= 2) {
    (fits(probe) ? good : bad) = probe;
    const bool both = good >= low && bad <= high;
    probe = both          ? good + (bad - good) / 2
            : good >= low ? std::min(high, good + stride)
                          : std::max(low, bad - stride);
  }
  return good;
}

std::uint64_t needed(const PlannedJob& p, const PlannedBackbone& b) {
  // If no memory is available, the plan has no copy of the state for checkpoints, which are then
  // written in place.
  return plan_memory(p, b, 0).total();
}

PlannedJob changed(const PlannedJob& p, const std::function<void(JobConfig&)>& change) {
  PlannedJob other = p;
  change(other.job);
  return other;
}

/// Returns the largest global batch for which there are enough images.
std::int64_t largest_global_batch(const PlannedJob& p) {
  return p.data.images > 0 ? p.data.images : std::numeric_limits<std::int64_t>::max();
}

std::int64_t largest_batch(const PlannedJob& p, const PlannedBackbone& backbone,
                           std::uint64_t available) {
  const auto need = [&](std::int64_t batch) {
    if (batch == p.job.batch_size) return needed(p, backbone);
    const PlannedJob other = changed(p, [&](JobConfig& job) { job.batch_size = batch; });
    return needed(other, plan_backbone(other));
  };
  // Almost all memory is proportional to the batch size.
  const std::int64_t other = p.job.batch_size == 1 ? 2 : p.job.batch_size / 2;
  const auto here = static_cast<double>(need(p.job.batch_size));
  const double slope =
      (here - static_cast<double>(need(other))) / static_cast<double>(p.job.batch_size - other);
  const double guess = static_cast<double>(p.job.batch_size) +
                       (static_cast<double>(available) - here) / std::max(slope, 1.0);
  JobConfig smallest = p.job;
  smallest.batch_size = 1;
  const std::int64_t least = batch_norm_samples(smallest, p.world_size) > 1 ? 1 : 2;
  const std::int64_t limit = std::min(kMostBatch, largest_global_batch(p) / p.world_size);
  if (limit < least) return 0;
  const std::int64_t most =
      largest(least, limit, static_cast<std::int64_t>(std::clamp(guess, 1.0, 1e6)),
              [&](std::int64_t batch) { return need(batch) <= available; });
  return most < least ? 0 : most;
}

std::int64_t largest_classes(const PlannedJob& p, const PlannedBackbone& backbone,
                             std::uint64_t available) {
  const std::int64_t least = p.world_size;  // every worker needs a class
  const std::int64_t most = largest(least, kMostClasses, p.job.num_classes, [&](std::int64_t n) {
    return needed(changed(p, [&](JobConfig& job) { job.num_classes = n; }), backbone) <= available;
  });
  return most < least ? 0 : most;
}

/// Returns changes of one key each that make the job fit. The changes that affect training least
/// come first.
std::vector<std::string> remedies(const PlannedJob& p, const PlannedBackbone& backbone,
                                  std::uint64_t available) {
  std::vector<std::string> found;
  const auto try_change = [&](const std::string& text, const std::function<void(JobConfig&)>& f) {
    const bool fits = needed(changed(p, f), backbone) <= available;
    if (fits) found.push_back(text);
    return fits;
  };
  if (p.job.replicate) {
    try_change("replicate to false", [](JobConfig& job) { job.replicate = false; });
  }
  if (p.job.logits_memory > 0) {
    try_change("logits_memory to 0", [](JobConfig& job) { job.logits_memory = 0; });
  }
  if (p.job.recompute.empty() && p.job.network != kNoNetwork) {
    const PlannedJob other = changed(p, [](JobConfig& job) { job.recompute = {"*"}; });
    if (needed(other, plan_backbone(other)) <= available) found.push_back("recompute to true");
  }
  if (const std::int64_t batch = largest_batch(p, backbone, available); batch > 0) {
    found.push_back(fmt::format("batch_size to {}", batch));
  }
  for (const double rate : {0.3, 0.1, 0.03, 0.01}) {
    if (rate < p.job.sample_rate.largest() &&
        try_change(fmt::format("sample_rate to {:g}", rate),
                   [&](JobConfig& job) { job.sample_rate = rate; })) {
      break;
    }
  }
  using enum CentrePrecision;
  const bool half = p.job.centre_precision == kFp32 &&
                    try_change("centre_precision to \"bf16_momentum\"",
                               [](JobConfig& job) { job.centre_precision = kBf16Momentum; });
  const bool two_bytes = !half && !is_one_byte(p.job.centre_precision) &&
                         p.job.centre_precision != kBf16 &&
                         try_change("centre_precision to \"bf16\"",
                                    [](JobConfig& job) { job.centre_precision = kBf16; });
  const bool may_be_one = p.job.optimizer == OptimizerKind::kSgd && !is_plain_softmax(p.job.loss) &&
                          !is_one_byte(p.job.centre_precision);
  if (!half && !two_bytes && may_be_one) {
    try_change("centre_precision to \"int8\"",
               [](JobConfig& job) { job.centre_precision = kInt8; });
  }
  return found;
}

/// Doubles the number of workers until the job fits, with as much memory for each worker as now.
/// Returns the number; 0 if the job never fits.
int enough_workers(PlannedJob p, const PlannedBackbone& backbone, std::uint64_t available) {
  constexpr std::int64_t kMost = 1 << 12;
  const std::int64_t most =
      std::min({kMost, p.job.num_classes, largest_global_batch(p) / p.job.batch_size});
  while (p.world_size * 2 <= most) {
    p.world_size *= 2;
    if (needed(p, backbone) <= available) return p.world_size;
  }
  return 0;
}

}  // namespace

MemoryThere memory_of_this_host(int workers, const KeptMemory& kept) {
  const HostMemory host = host_memory();
  const std::uint64_t endless = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t there =
      host.available_bytes + std::min(kept.of_host, endless - host.available_bytes);
  const std::uint64_t share = there / static_cast<std::uint64_t>(workers);
  const std::string of = workers == 1 ? "" : fmt::format("1/{} of ", workers);
  const std::uint64_t used = process_memory().resident_bytes;
  const std::uint64_t resident = used - std::min(kept.mine, used);
  const std::optional<std::uint64_t> left = address_space_left();
  if (!left || *left >= kUnusedAddresses + share) {
    return {.bytes = share + resident, .where = of + host.limit};
  }
  return {.bytes = *left - std::min(kUnusedAddresses, *left) + resident,
          .where = "ulimit -v, less " + byte_size_text(kUnusedAddresses) +
                   " that are mapped but not used"};
}

MemoryThere memory_of_gpu(const Ops& ops) {
  const Ops::DeviceMemory memory = ops.memory();
  return {.bytes = memory.free + ops.scratch_bytes(),
          .where = fmt::format("free memory of a GPU with {}", byte_size_text(memory.total))};
}

LargestThatFits largest_that_fits(const PlannedJob& p, const PlannedBackbone& backbone,
                                  std::uint64_t available) {
  return {.num_classes = largest_classes(p, backbone, available),
          .batch_size = largest_batch(p, backbone, available)};
}

std::string advice(const PlannedJob& p, const PlannedBackbone& backbone, const MemoryThere& there) {
  const MemoryPlan plan = plan_memory(p, backbone, there.bytes);
  std::vector<MemoryPart> parts = plan.parts;
  std::ranges::stable_sort(parts, std::greater{}, &MemoryPart::bytes);
  std::string text = fmt::format(
      "a worker needs {} of memory, but only {} are available ({}): ", byte_size_text(plan.total()),
      byte_size_text(there.bytes), there.where);
  for (std::size_t i = 0; i < std::min(kPartsNamed, parts.size()); ++i) {
    text +=
        fmt::format("{}{} {}", i == 0 ? "" : ", ", parts[i].name, byte_size_text(parts[i].bytes));
  }
  std::vector<std::string> todo = remedies(p, backbone, there.bytes);
  for (std::string& change : todo) change = "set " + change;
  if (const int workers = enough_workers(p, backbone, there.bytes); workers > 0) {
    todo.push_back(fmt::format("use {} workers, each with as much memory", workers));
  }
  if (todo.empty()) todo.emplace_back("no single change makes it fit: lower several keys");
  text += fmt::format("; {}", fmt::join(todo, ", or "));
  if (const std::int64_t classes = largest_classes(p, backbone, there.bytes); classes > 0) {
    text += fmt::format("; {} classes would fit", classes);
  }
  return text + "; pfcctl plan shows every part";
}

int least_workers(const PlannedJob& p, std::uint64_t available, bool one_host) {
  const PlannedBackbone backbone = plan_backbone(p);
  const auto fits = [&](int workers) {
    PlannedJob smaller = p;
    smaller.world_size = workers;
    if (batch_norm_samples(p.job, workers) < 2) return false;
    const double share = one_host && !p.gpu ? static_cast<double>(p.world_size) / workers : 1;
    return static_cast<double>(needed(smaller, backbone)) <= static_cast<double>(available) * share;
  };
  int least = p.world_size;
  for (int bad = 0; least - bad > 1;) {
    const int middle = bad + (least - bad) / 2;
    (fits(middle) ? least : bad) = middle;
  }
  return least;
}

std::string memory_message(const MemoryPlan& plan) {
  std::string text = fmt::format("memory of a worker: {} planned of {}",
                                 byte_size_text(plan.total()), byte_size_text(plan.available));
  for (const MemoryPart& part : plan.parts) {
    if (part.detail == "measured") {
      text += fmt::format("; {} take {}", part.name, byte_size_text(part.bytes));
    }
  }
  if (plan.checkpoints_in_place) {
    text += fmt::format("; training waits while a checkpoint is written, because {}",
                        plan.checkpoint_copy == 0
                            ? "the class centres are on disk"
                            : fmt::format("a copy of {} would not fit into memory",
                                          byte_size_text(plan.checkpoint_copy)));
  }
  return text;
}

MemoryPlan expect_to_fit(const PlannedJob& p, const MemoryThere& there) {
  const PlannedBackbone backbone = plan_backbone(p);
  MemoryPlan plan = plan_memory(p, backbone, there.bytes);
  if (!plan.fits()) throw InputError("memory: " + advice(p, backbone, there));
  if (p.gpu && p.host_bytes > 0 && plan.snapshots > p.host_bytes) {
    throw InputError(fmt::format(
        "memory: the snapshots of a worker (\"replicate\": true) need {} of host memory, but only "
        "{} are available; set replicate to false, or use more workers",
        byte_size_text(plan.snapshots), byte_size_text(p.host_bytes)));
  }
  return plan;
}

}  // namespace pfc
