#include "worker/memory/memory_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "kernels/cpu/ops/cpu_ops.h"
#include "kernels/cuda/scratch.h"
#include "kernels/make_ops.h"
#include "worker/comm/make_comm.h"
#include "worker/comm/shard.h"
#include "worker/data/prefetcher.h"
#include "worker/head/head_memory.h"

namespace pfc {
namespace {

// The program, its libraries, the code that oneDNN generates, stacks, and what the allocator keeps:
// measured, within a few MiB the same for every job (docs/memory.md).
constexpr std::uint64_t kProcess = 40 << 20;

// Of a GPU: CUDA's context, the code of cuDNN's, cuBLASLt's and NCCL's kernels; and the buffers of
// NCCL's channels, for two communicators. Guesses from what others report, to be measured where
// there is a GPU.
constexpr std::uint64_t kGpuProcess = std::uint64_t{1} << 30;
constexpr std::uint64_t kNcclBuffers = std::uint64_t{1} << 30;

constexpr const char* kProcessName = "process";
constexpr const char* kScratchName = "kernels' scratch";

// Makes plans of which only the size is asked, for activations of a GPU's type.
class SizingOps : public CpuOps {
 public:
  explicit SizingOps(DType activations) : CpuOps(1), activations_(activations) {}
  [[nodiscard]] DType activation_type() const override { return activations_; }

 private:
  const DType activations_;
};

// A Comm of which only the size is asked.
class WorldSize : public Comm {
 public:
  explicit WorldSize(int size) : size_(size) {}
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return size_; }
  [[nodiscard]] std::string description() const override { return "a plan"; }
  [[nodiscard]] CommCounters counters() const override { return {}; }
  void all_gather(const Tensor&, const Tensor&) override { refuse(); }
  void all_reduce_sum(const Tensor&) override { refuse(); }
  void reduce_scatter_sum(const Tensor&, const Tensor&) override { refuse(); }
  void broadcast(const Tensor&, int) override { refuse(); }
  void barrier() override { refuse(); }

 private:
  static void refuse() { check(false, "a memory plan does not communicate"); }
  const int size_;
};

std::string counted(std::int64_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

/// Sizes that many parts are made of; all in bytes but for the counts.
struct Sizes {
  explicit Sizes(const PlannedJob& p)
      : batch(u(p.job.batch_size)),
        samples(batch * u(p.world_size)),
        pixels(batch * u(p.data.height * p.data.width * 3)),
        embeddings(batch * u(p.job.embedding_size) * sizeof(float)) {}
  static std::uint64_t u(std::int64_t n) { return static_cast<std::uint64_t>(n); }

  std::uint64_t batch, samples;
  std::uint64_t pixels;      ///< of a batch, one byte each
  std::uint64_t embeddings;  ///< of a batch
};

/// Decoded batches: those that the prefetcher keeps ahead, and one each that waits for its step, is
/// being gathered and is trained on.
std::uint64_t decoded_batches(const PlannedJob& p) {
  return Sizes::u(prefetch_depth(static_cast<int>(p.job.num_workers)) + 3);
}

/// The reducer's buckets are slices of the gradients: only the transport needs memory, for the
/// step's and for the gradients' sums.
std::uint64_t communication(const PlannedJob& p, const Sizes& s) {
  return 2 * host_comm_bytes(p.world_size) + (Sizes::u(p.world_size) + 1) * s.embeddings;
}

/// Decoded batches; the images trained on as bytes and as floats; where each record of the data set
/// begins.
std::uint64_t input_batches(const PlannedJob& p, const Sizes& s) {
  const std::uint64_t labels = 8 * sizeof(std::int64_t) * s.samples;
  const std::uint64_t index = 2 * sizeof(std::int64_t) * Sizes::u(p.data.images);
  return decoded_batches(p) * s.pixels + s.pixels * (1 + sizeof(float)) + labels + index;
}

/// Embeddings of the largest verification set: this worker's, all workers', and once more sorted
/// into the two sides of the pairs.
std::uint64_t evaluation(const PlannedJob& p, const Sizes& s) {
  if (p.data.verification_images == 0) return 0;
  const std::uint64_t images = Sizes::u(p.data.verification_images);
  const std::uint64_t row = Sizes::u(p.job.embedding_size + 1) * sizeof(float);
  const std::uint64_t own = images / Sizes::u(p.world_size) + 1;
  return (own + 2 * images) * row + s.pixels + 2 * s.embeddings;
}

std::uint64_t optimizer_bytes(const PlannedJob& p, const BackboneMemory& b) {
  return b.weights * (p.job.optimizer == OptimizerKind::kAdamW ? 2 : 1);
}

bool saves_while_training(const JobConfig& job) {
  return job.save_every_steps > 0 || job.save_every_seconds > 0;
}

class PartList {
 public:
  void add(const std::string& name, std::uint64_t bytes, std::string detail) {
    if (bytes > 0) parts.push_back({name, bytes, std::move(detail)});
  }
  std::vector<MemoryPart> parts;
};

void add_head(const PlannedJob& p, const HeadMemory& m, PartList& list) {
  const std::int64_t rows = shard_of(p.job.num_classes, 0, p.world_size).size();
  const auto table = [&](std::uint64_t bytes) {
    const std::uint64_t elements = Sizes::u(rows * p.job.embedding_size);
    return fmt::format("{} of {} classes x {} x {} bytes", rows, p.job.num_classes,
                       p.job.embedding_size, elements == 0 ? 0 : bytes / elements);
  };
  const bool adamw = p.job.optimizer == OptimizerKind::kAdamW;
  list.add("class centres", m.centres, table(m.centres));
  list.add("centres' momentum", m.momentum,
           (adamw ? "AdamW's first moment, " : "") + table(m.momentum));
  list.add("centres' second moment", m.second, "AdamW's, " + table(m.second));
  list.add("inverse norms and active rows", m.inverse_norms + (p.gpu ? 0 : m.updated) + m.active,
           fmt::format("sample_rate {:g}", p.job.sample_rate));
  list.add("kept logits", m.logits, fmt::format("logits_memory {:g}", p.job.logits_memory));
  list.add("centres' summed gradients", m.gradients,
           fmt::format("gradient_acc {}", p.job.gradient_acc));
  list.add("head buffers", m.buffers,
           fmt::format("{} samples of {}", Sizes(p).samples, counted(p.world_size, "worker")));
}

void add_backbone(const PlannedJob& p, const PlannedBackbone& b, PartList& list) {
  list.add("backbone weights", b.memory.weights + b.memory.state, p.job.network);
  list.add("backbone weights' copy", b.memory.operands, "in the activations' type");
  list.add("backbone gradients", b.memory.gradients, "");
  list.add("backbone optimizer", optimizer_bytes(p, b.memory),
           p.job.optimizer == OptimizerKind::kAdamW ? "AdamW: two moments" : "SGD: momentum");
  list.add(
      "activations", b.memory.activations,
      fmt::format("batch_size {}, {} x {} pixels", p.job.batch_size, p.data.height, p.data.width));
  list.add(kScratchName, b.scratch,
           p.gpu ? "at most, for convolutions" : counted(p.threads, "thread"));
}

/// What a GPU holds beside head and backbone; batches that are on their way, verification sets and
/// files to be written are the host's.
MemoryPlan gpu_plan(const PlannedJob& p, const Sizes& s, PartList list, std::uint64_t copy,
                    std::uint64_t available) {
  list.add("communication", (Sizes::u(p.world_size) + 1) * s.embeddings,
           counted(p.world_size, "worker"));
  list.add("images", s.pixels * (3 + size_of(activation_type(p.job.precision))), "three as bytes");
  list.add(kProcessName, kGpuProcess + (p.world_size > 1 ? kNcclBuffers : 0),
           p.world_size > 1 ? "CUDA's context, libraries, NCCL's buffers, a guess"
                            : "CUDA's context and libraries, a guess");
  MemoryPlan plan{.parts = std::move(list.parts), .available = available};
  if (!saves_while_training(p.job)) return plan;
  plan.checkpoint_copy = copy;
  plan.checkpoints_in_place = p.host_bytes > 0 && copy > p.host_bytes;
  return plan;
}

}  // namespace

PlannedData planned_data(const Dataset& dataset, std::span<const VerificationSet> sets) {
  const DatasetInfo& info = dataset.info();
  PlannedData data{.images = info.images, .height = info.height, .width = info.width};
  for (const VerificationSet& set : sets) {
    for (const auto& image : set.images) data.verification_bytes += image.size();
    data.verification_images =
        std::max(data.verification_images, static_cast<std::int64_t>(set.images.size()));
  }
  return data;
}

PlannedBackbone plan_backbone(const PlannedJob& p) {
  WorldSize world(p.world_size);
  BackboneOptions options = backbone_options(p.job, p.data.height, p.data.width);
  options.sync_bn = p.job.sync_bn ? &world : nullptr;
  if (p.gpu) {
    SizingOps sizes(activation_type(p.job.precision));
    return {.memory = backbone_memory(sizes, options),
            .scratch = kMostScratch};  // the fastest convolutions take it all
  }
  const auto ops = make_ops({.choice = DeviceChoice::kCpu, .cpu_threads = p.threads});
  PlannedBackbone planned{.memory = backbone_memory(*ops, options)};
  planned.scratch = ops->scratch_bytes();
  return planned;
}

std::uint64_t MemoryPlan::total() const {
  std::uint64_t sum = 0;
  for (const MemoryPart& part : parts) sum += part.bytes;
  return sum;
}

const MemoryPart& MemoryPlan::part(const std::string& name) const {
  const auto found = std::ranges::find(parts, name, &MemoryPart::name);
  check(found != parts.end(), "memory plan: no part " + name);
  return *found;
}

std::uint64_t reserved_bytes(const MemoryPlan& plan) {
  return plan.total() - plan.part(kProcessName).bytes - plan.part(kScratchName).bytes;
}

MemoryPlan plan_memory(const PlannedJob& p, const PlannedBackbone& backbone,
                       std::uint64_t available) {
  const Sizes sizes(p);
  const BackboneMemory& b = backbone.memory;
  const HeadMemory head = head_memory({.head = head_options(p.job),
                                       .world_size = p.world_size,
                                       .samples = static_cast<std::int64_t>(sizes.samples),
                                       .threads = p.threads,
                                       .gpu = p.gpu});
  PartList list;
  add_head(p, head, list);
  add_backbone(p, backbone, list);
  const std::uint64_t copy = head.centres + head.momentum + head.second + head.updated + b.weights +
                             b.state + optimizer_bytes(p, b);
  if (p.gpu) return gpu_plan(p, sizes, std::move(list), copy, available);
  list.add("communication", communication(p, sizes), counted(p.world_size, "worker"));
  list.add("input batches", input_batches(p, sizes),
           fmt::format("{} batches, an index of {}", decoded_batches(p),
                       counted(p.data.images, "image")));
  list.add("verification sets", p.data.verification_bytes, "encoded images");
  // One file is in memory at a time, in PyTorch's layout; evaluation is over before it.
  const std::uint64_t file = std::max(b.weights + b.state, optimizer_bytes(p, b));
  const std::uint64_t evaluating = evaluation(p, sizes);
  list.add("between steps", std::max(file, evaluating),
           file > evaluating ? "a file of the model to be written" : "evaluation's embeddings");
  list.add(kProcessName, kProcess, "program, libraries, generated code");

  MemoryPlan plan{.parts = std::move(list.parts), .available = available};
  if (!saves_while_training(p.job)) return plan;
  plan.checkpoint_copy = copy;
  plan.parts.push_back({"checkpoint copy", plan.checkpoint_copy, "written while training goes on"});
  if (plan.fits()) return plan;
  plan.parts.pop_back();
  plan.checkpoints_in_place = true;
  return plan;
}

}  // namespace pfc
