#include "worker/memory/memory_plan.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <initializer_list>
#include <numeric>

#include "comm/make_comm.h"
#include "common/byte_size.h"
#include "common/config/no_network.h"
#include "common/config/parameters/parameter_rules.h"
#include "common/counted.h"
#include "data/images/decode.h"
#include "data/order/balanced_order.h"
#include "data/prefetch/prefetcher.h"
#include "kernels/cpu/margin/tile_products.h"
#include "kernels/cpu/ops/cpu_ops.h"
#include "kernels/cuda/scratch.h"
#include "kernels/make_ops.h"
#include "model/evaluation/evaluation.h"
#include "model/networks/statistics_backup.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/distillation/distillation.h"
#include "worker/gradients/weight_average.h"
#include "worker/initial/mean_centres.h"
#include "worker/input/image_upload.h"
#include "worker/input/step_input.h"
#include "worker/memory/step_shapes.h"
#include "worker/schedule/step_plan.h"
#include "worker/snapshot/snapshot_store.h"

namespace pfc {
namespace {

// The program, its libraries, the code that oneDNN generates, stacks, and memory that the
// allocator does not return. Measured: equal for all jobs within a few MiB (docs/memory.md).
constexpr std::uint64_t kProcess = 40 << 20;

// For a GPU: CUDA's context with the kernels of cuDNN, cuBLASLt and NCCL; the channel buffers of
// two NCCL communicators; and in host memory, CUDA's libraries. These sizes are estimates, not yet
// measured on a GPU. A job measures NCCL's buffers when it starts.
constexpr std::uint64_t kGpuProcess = std::uint64_t{1} << 30;
constexpr std::uint64_t kNcclBuffers = std::uint64_t{1} << 30;
constexpr std::uint64_t kHostProcessOfGpu = std::uint64_t{1} << 30;

constexpr const char* kProcessName = "process";
constexpr const char* kNcclName = "NCCL's buffers";
constexpr const char* kScratchName = "kernels' scratch";
constexpr const char* kSnapshotsName = "snapshots";

/// Measures, on the CPU, the memory that a network with this activation type takes on a device.
class SizingOps : public CpuOps {
 public:
  SizingOps(int threads, DType activations) : CpuOps(threads), activations_(activations) {}
  [[nodiscard]] DType activation_type() const override { return activations_; }
  void use_activations(DType type) override { activations_ = type; }

 private:
  DType activations_;
};

/// Returns the Ops for planning a job on CPUs. If the job or its teacher uses bf16 and this CPU
/// lacks it, plans the area for intermediate results of fp32.
std::unique_ptr<CpuOps> cpu_to_plan_with(const PlannedJob& p) {
  const DType own = p.job.precision == Precision::kBf16 ? DType::kBFloat16 : DType::kFloat32;
  const bool bf16 = own == DType::kBFloat16 || (p.teacher && p.teacher_type == DType::kBFloat16);
  if (bf16 && !cpu_has_bfloat16()) return std::make_unique<SizingOps>(p.threads, own);
  return std::make_unique<CpuOps>(p.threads, best_vector_kernels(), own);
}

/// A Comm that only knows the number of workers: measuring a network needs nothing else.
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
  void all_to_all(const Tensor&, const Tensor&) override { refuse(); }
  void broadcast(const Tensor&, int) override { refuse(); }
  void barrier() override { refuse(); }
  void abort(const std::string&) override {}

 private:
  static void refuse() { check(false, "WorldSize: a memory plan must not communicate"); }
  const int size_;
};

std::int64_t samples(const PlannedJob& p) { return p.job.batch_size * p.world_size; }

/// Returns the type and shape of a batch.
Tensor planned_batch(const PlannedJob& p) {
  return batch_of(backbone_options(p.job, p.data.height, p.data.width));
}

/// Returns the bytes of a batch of uint8 images: the device buffer of an evaluation.
std::size_t evaluated_images(const PlannedJob& p) {
  const std::int64_t images =
      p.data.verification_images + p.data.retrieval_images + p.data.classification_images;
  if (images == 0 && p.job.init_centres == InitialCentres::kRandom) return 0;
  return static_cast<std::size_t>(p.job.batch_size * p.data.height * p.data.width * 3);
}

std::uint64_t optimizer_bytes(const PlannedJob& p, const BackboneMemory& b) {
  return Optimizer::bytes(p.job.optimizer, static_cast<std::int64_t>(b.weights / sizeof(float)));
}

WeightAverage::Bytes average_bytes(const PlannedJob& p, const BackboneMemory& b) {
  return p.job.ema_decay > 0 ? WeightAverage::bytes(b.weights, b.state) : WeightAverage::Bytes{};
}

/// Returns the number of updates in the job; max_steps if the number of images is unknown.
std::int64_t updates(const PlannedJob& p) {
  if (p.data.images < samples(p)) return p.job.max_steps;
  return plan_steps(p.job, p.world_size, p.data.images).last_step;
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
  const std::int64_t rows = planned_head(p).positions().shard(0, p.world_size).size();
  const auto table = [&](std::uint64_t bytes) {
    const std::int64_t size = centre_size(p.job.loss, p.job.embedding_size, p.job.sub_centres);
    const auto elements = static_cast<std::uint64_t>(rows * size);
    return fmt::format("{} of {} classes x {} x {} bytes", rows, p.job.num_classes, size,
                       elements == 0 ? 0 : bytes / elements);
  };
  const bool adamw = p.job.optimizer == OptimizerKind::kAdamW;
  list.add("class centres", m.centres, table(m.centres));
  list.add("centres' momentum", m.momentum,
           (adamw ? "AdamW's first moment, " : "") + table(m.momentum));
  list.add("centres' second moment", m.second, "AdamW's, " + table(m.second));
  list.add(
      "centres' cache", m.cache,
      fmt::format("centre_cache {}; {} are on disk", p.job.centre_cache, byte_size_text(m.file)));
  list.add("centres' scales", m.scales, "of one-byte centres and momentum");
  list.add("inverse norms and active rows", m.inverse_norms + (p.gpu ? 0 : m.updated) + m.active,
           fmt::format("sample_rate {:g}", p.job.sample_rate.largest()));
  if (!p.gpu) {
    list.add("neighbours of classes", m.neighbours,
             fmt::format("hard_neighbours {}", p.job.hard_neighbours));
  }
  list.add("kept logits", m.logits, fmt::format("logits_memory {:g}", p.job.logits_memory));
  list.add("centres' summed gradients", m.gradients,
           fmt::format("gradient_acc {}", p.job.gradient_acc));
  list.add("teacher's class centres", m.teacher, "in the precision of the head's products");
  list.add("head buffers", m.buffers,
           fmt::format("{} samples of {}", samples(p), counted(p.world_size, "worker")));
}

/// Returns the total memory that buffers of these sizes use.
std::uint64_t taken(const PlannedJob& p, std::initializer_list<std::uint64_t> buffers) {
  std::uint64_t sum = 0;
  for (const std::uint64_t bytes : buffers) sum += p.gpu ? gpu_allocation(bytes) : bytes;
  return sum;
}

void add_backbone(const PlannedJob& p, const PlannedBackbone& b, PartList& list) {
  const std::size_t kept = StatisticsBackup::bytes(b.memory.state, p.job.gradient_acc > 1);
  const bool adamw = p.job.optimizer == OptimizerKind::kAdamW;
  const std::uint64_t optimizer = optimizer_bytes(p, b.memory);
  list.add("backbone weights", taken(p, {b.memory.weights, b.memory.state, kept}), p.job.network);
  list.add("backbone weights' copy", taken(p, {b.memory.operands}), "in the activations' type");
  list.add("backbone gradients", taken(p, {b.memory.gradients}), "");
  list.add("backbone optimizer",
           adamw ? taken(p, {optimizer / 2, optimizer / 2}) : taken(p, {optimizer}),
           adamw ? "AdamW: two moments" : "SGD: momentum");
  const WeightAverage::Bytes average = average_bytes(p, b.memory);
  list.add("average of the backbone", taken(p, {average.weights, average.state, average.scratch}),
           fmt::format("ema_decay {:g}", p.job.ema_decay));
  const std::string pixels = fmt::format(", {} x {} pixels", p.data.height, p.data.width);
  list.add("activations", taken(p, {b.memory.activations}),
           fmt::format("batch_size {}{}{}", p.job.batch_size,
                       p.job.network == kNoNetwork ? std::string() : pixels,
                       p.job.recompute.empty() ? "" : ", recompute"));
  if (p.teacher) {
    const auto buffers =
        Distillation::bytes(distillation_options(p.job, p.world_size, p.teacher->embedding_size));
    const std::uint64_t bytes = taken(
        p, {b.teacher.weights, b.teacher.state, b.teacher.operands, b.teacher.activations,
            buffers.difference, buffers.unit, buffers.inverse_norms, buffers.loss, buffers.all});
    list.add("teacher", bytes,
             fmt::format("{} in {}: weights, activations, and embeddings", p.teacher->network,
                         name_of(p.teacher_type)));
  }
  list.add(kScratchName, b.scratch,
           p.gpu ? "upper limit, for convolutions" : counted(p.threads, "thread"));
}

/// Adds a GPU's buffers other than head and backbone. Decoded batches, verification sets and files
/// being written are in host memory.
void add_gpu_buffers(const PlannedJob& p, PartList& list) {
  const Tensor images = planned_batch(p);
  const StepShapes shapes(p.job, p.world_size);
  const std::size_t slot = ImageUpload::bytes(images.shape, images.dtype) / ImageUpload::kSlots;
  list.add("communication",
           taken(p, {static_cast<std::uint64_t>(shapes.all_embeddings.elements()) * sizeof(float),
                     static_cast<std::uint64_t>(shapes.d_embeddings.elements()) * sizeof(float),
                     shapes.exchanged_bytes(), shapes.exchanged_bytes()}),
           counted(p.world_size, "worker"));
  list.add("images", taken(p, {evaluated_images(p)}) + ImageUpload::kSlots * taken(p, {slot}),
           "batches as read from the data set");
  list.add(kProcessName, kGpuProcess, "CUDA's context and libraries, estimated");
  list.add(kNcclName, p.world_size > 1 ? kNcclBuffers : 0, "estimated; a job measures it");
}

/// Adds the maximum memory that decoders keep between images if the job decodes whole photographs.
/// Without the keys for this, only large PNG and WebP files are decoded whole; they are not
/// counted.
void add_photographs(const PlannedJob& p, PartList& list) {
  const bool crops = p.job.augment.random_resized_crop.has_value();
  const bool centres = p.job.val_resize != 0 && p.data.classification_images > 0;
  const std::int64_t loaders = std::min<std::int64_t>(
      p.job.num_workers, prefetch_depth(static_cast<int>(p.job.num_workers)));
  const std::int64_t buffers = (crops ? loaders : 0) + (centres ? 2 * p.threads : 0);
  list.add("whole images", static_cast<std::uint64_t>(buffers) * kKeptPixelBytes,
           fmt::format("upper limit for {} of {} MiB", counted(buffers, "buffer"),
                       kKeptPixelBytes >> 20));
}

/// Adds the parts that are in host memory even if the worker trains on a GPU.
void add_inputs(const PlannedJob& p, const BackboneMemory& b, PartList& list) {
  const int ahead = prefetch_depth(static_cast<int>(p.job.num_workers));
  const std::int64_t labels = std::max<std::int64_t>(p.job.labels_per_image, 1);
  const std::size_t batch =
      Batch::bytes(p.job.batch_size,
                   planned_batch(p).bytes() / static_cast<std::size_t>(p.job.batch_size), labels);
  list.add(
      "input batches",
      prefetcher_bytes(ahead, kStepInputs, batch) + evaluated_images(p) +
          read_ahead_bytes(read_options(p.job), {p.data.images, p.data.stored_bytes},
                           p.job.batch_size, p.world_size, static_cast<int>(p.job.num_workers)) +
          step_label_bytes(samples(p) * labels, p.world_size) + p.data.index_bytes +
          (p.job.balance_classes ? BalancedOrder::bytes(p.data.images, p.job.num_classes) : 0),
      fmt::format("{} batches, an index of {}", ahead + kStepInputs,
                  counted(p.data.images, "image")));
  add_photographs(p, list);
  list.add("verification sets", p.data.verification_bytes, "encoded images");
  // Model files are written one at a time, after the evaluation, from a copy in PyTorch's layout.
  const std::uint64_t file = std::max<std::uint64_t>(b.weights + b.state, optimizer_bytes(p, b));
  const EmbedOptions embed{p.job.batch_size, p.data.height, p.data.width, p.job.embedding_size};
  const auto of_largest = [&](std::int64_t images, const auto& bytes) -> std::uint64_t {
    return images == 0 ? 0 : bytes(images, p.world_size, embed);
  };
  const std::uint64_t evaluation =
      std::max({of_largest(p.data.verification_images, evaluation_bytes),
                of_largest(p.data.retrieval_images, retrieval_bytes),
                of_largest(p.data.classification_images, classification_bytes)});
  const std::uint64_t centres =
      p.job.init_centres == InitialCentres::kRandom
          ? 0
          : mean_centres_bytes(p.world_size,
                               mean_centres_options(p.job, p.data.height, p.data.width), labels);
  const std::uint64_t embedding = std::max(evaluation, centres);
  list.add("between steps", std::max(file, embedding),
           file > embedding        ? "a model file being written"
           : evaluation >= centres ? "evaluation's embeddings"
                                   : "embeddings for the first class centres");
}

void add_host_buffers(const PlannedJob& p, const BackboneMemory& b, PartList& list) {
  // Two Comms, for the step and for gradients. The buckets of gradients are slices of the
  // gradients, and need no memory.
  list.add("communication",
           2 * host_comm_bytes(p.world_size) + StepShapes(p.job, p.world_size).bytes(),
           counted(p.world_size, "worker"));
  add_inputs(p, b, list);
  list.add(kProcessName, kProcess, "program, libraries, generated code");
}

}  // namespace

PlannedData planned_data(const Dataset& dataset, const EvaluationSets& sets) {
  const DatasetInfo& info = dataset.info();
  PlannedData data{.images = info.images,
                   .height = info.height,
                   .width = info.width,
                   .index_bytes = info.index_bytes,
                   .stored_bytes = stored_bytes_of_image(dataset).value_or(0)};
  const auto add = [&](const LabelledSet& set, std::int64_t& largest) {
    data.index_bytes += set.dataset->info().index_bytes +
                        (set.labels.size() + set.other_labels.size()) * sizeof(std::int64_t);
    largest = std::max(largest, std::ssize(set.labels));
  };
  for (const RetrievalSet& set : sets.retrieval) add(set, data.retrieval_images);
  for (const ClassificationSet& set : sets.classification) add(set, data.classification_images);
  for (const VerificationSet& set : sets.verification) {
    data.verification_bytes += set.bytes();
    data.verification_images =
        std::max(data.verification_images, static_cast<std::int64_t>(set.images.size()));
  }
  return data;
}

BackboneOptions teacher_options(const PlannedJob& p) {
  BackboneOptions options = p.teacher.value();
  options.batch = p.job.batch_size;
  return options;
}

HeadOptions planned_head(const PlannedJob& p) {
  return head_options(p.job, p.teacher ? p.teacher->embedding_size : 0);
}

PlannedBackbone plan_backbone(const PlannedJob& p) {
  WorldSize world(p.world_size);
  BackboneOptions options = backbone_options(p.job, p.data.height, p.data.width);
  options.sync_bn = p.job.sync_bn ? &world : nullptr;
  if (!p.job.parameters.empty()) {
    SizingOps names(1, DType::kFloat32);
    check_parameter_rules(p.job, parameter_names(backbone_parameters(names, options).weights));
  }
  const auto plan_with = [&](Ops& ops) {
    PlannedBackbone planned{.memory = backbone_memory(ops, options)};
    if (p.teacher) {
      const WithActivations teacher(ops, p.teacher_type);
      planned.teacher = backbone_memory(ops, teacher_options(p));
    }
    planned.scratch = p.gpu ? kMostScratch  // the fastest convolutions use all of it
                            : ops.scratch_bytes();
    return planned;
  };
  if (!p.gpu) return plan_with(*cpu_to_plan_with(p));
  SizingOps sizes(1, activation_type(p.job.precision));
  return plan_with(sizes);
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

void set_nccl_bytes(MemoryPlan& plan, std::uint64_t measured) {
  const auto part = std::ranges::find(plan.parts, kNcclName, &MemoryPart::name);
  if (part != plan.parts.end()) *part = {kNcclName, measured, "measured"};
}

std::uint64_t reserved_bytes(const MemoryPlan& plan) {
  std::uint64_t sum = 0;
  for (const MemoryPart& part : plan.parts) {
    const bool others = part.name == kProcessName || part.name == kNcclName;
    if (!others && part.name != kScratchName) sum += part.bytes;
  }
  return sum;
}

MemoryPlan plan_memory(const PlannedJob& p, const PlannedBackbone& backbone,
                       std::uint64_t available) {
  const BackboneMemory& b = backbone.memory;
  const HeadMemory head = head_memory({.head = planned_head(p),
                                       .world_size = p.world_size,
                                       .samples = samples(p),
                                       .threads = p.threads,
                                       .active_sets = kStepInputs,
                                       .gpu = p.gpu,
                                       .gpu_sizes = p.gpu_sizes});
  const std::uint64_t moments = optimizer_bytes(p, b) + average_bytes(p, b).averages();
  PartList list;
  add_head(p, head, list);
  add_backbone(p, backbone, list);
  if (p.gpu) {
    add_gpu_buffers(p, list);
  } else {
    add_host_buffers(p, b, list);
  }
  MemoryPlan plan{.parts = std::move(list.parts), .available = available};
  if (p.job.replicate) {
    plan.snapshots = snapshots_bytes(head, b, moments, updates(p), p.world_size);
    if (!p.gpu) {
      plan.parts.push_back({kSnapshotsName, plan.snapshots,
                            p.world_size > 1
                                ? "the newest and the next one: own rows, a neighbour's, "
                                  "and the backbone"
                                : "the newest and the next one"});
    }
  }
  const bool in_file = head.file > 0;
  plan.centre_file = head.file;
  plan.checkpoints_in_place = in_file && saves_while_training(p.job);
  if (saves_while_training(p.job) && !in_file) {
    plan.checkpoint_copy = checkpoint_copy_bytes(head, b, moments, updates(p));
  }
  if (p.gpu) {
    plan.checkpoints_in_place =
        p.host_bytes > 0 && plan.checkpoint_copy + plan.snapshots > p.host_bytes;
    PartList inputs;
    add_inputs(p, b, inputs);
    plan.host = std::accumulate(
                    inputs.parts.begin(), inputs.parts.end(), kHostProcessOfGpu,
                    [](std::uint64_t sum, const MemoryPart& part) { return sum + part.bytes; }) +
                head.neighbours + plan.snapshots +
                (plan.checkpoints_in_place ? 0 : plan.checkpoint_copy);
    return plan;
  }
  if (plan.checkpoint_copy == 0) return plan;
  plan.parts.push_back(
      {"checkpoint copy", plan.checkpoint_copy, "written while training continues"});
  if (plan.fits()) return plan;
  plan.parts.pop_back();
  plan.checkpoints_in_place = true;
  return plan;
}

}  // namespace pfc
