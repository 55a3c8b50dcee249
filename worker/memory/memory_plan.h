// Plans the memory of a worker before it allocates anything (docs/memory.md). Each component
// computes its size next to its allocation; the plan adds the sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/machine/gpu/gpus.h"
#include "data/dataset.h"
#include "model/evaluation/evaluation_sets.h"
#include "model/networks/backbone.h"
#include "worker/head/head.h"

namespace pfc {

/// Sizes of the data set and the verification sets that affect memory.
struct PlannedData {
  std::int64_t images = 0;
  std::int64_t height = 112, width = 112;
  std::uint64_t index_bytes = 0;         ///< DatasetInfo::index_bytes, with labelled sets
  double stored_bytes = 0;               ///< per image (stored_bytes_of_image()); 0: no read-ahead
  std::uint64_t verification_bytes = 0;  ///< sum of VerificationSet::bytes()
  std::int64_t verification_images = 0;  ///< images in the largest set
  std::int64_t retrieval_images = 0;     ///< images in the largest retrieval set
  std::int64_t classification_images = 0;  ///< images in the largest classification set
};

PlannedData planned_data(const Dataset& dataset, const EvaluationSets& sets);

struct PlannedJob {
  JobConfig job;  ///< REQUIRES: num_classes is known
  /// The network of the job's teacher, as in its file (read_teacher()); its batch size does not
  /// matter.
  std::optional<BackboneOptions> teacher = {};
  DType teacher_type = DType::kFloat32;  ///< activations of the teacher (teacher_activations())
  int world_size = 1;
  int threads = 1;  ///< compute threads of this worker
  PlannedData data;
  bool gpu = false;  ///< whether to plan GPU memory; false: host memory
  GpuSizes gpu_sizes;
  /// Only with a GPU: the host memory that copies for checkpoints may use; 0 if unknown.
  std::uint64_t host_bytes = 0;
};

/// Memory of a backbone, of its teacher, and of the area that their kernels share for intermediate
/// results.
struct PlannedBackbone {
  BackboneMemory memory;
  std::size_t scratch = 0;
  BackboneMemory teacher = {};  ///< zeros without a teacher
};

/// Returns the options of the teacher in training. REQUIRES: the job has one.
BackboneOptions teacher_options(const PlannedJob& planned);
/// Returns the options of the job's classification layer. They include the distillation of logits,
/// if the job has it.
HeadOptions planned_head(const PlannedJob& planned);

/// Builds the networks without allocating tensors, so the result is exact. Takes about 0.1 s.
/// Throws InputError for an unknown network, or one that does not accept the job's image size.
PlannedBackbone plan_backbone(const PlannedJob& planned);

struct MemoryPart {
  std::string name;
  std::uint64_t bytes = 0;
  std::string detail;  ///< contents, for display
};

struct MemoryPlan {
  std::vector<MemoryPart> parts;  ///< everything that exists when most memory is used
  /// The copy of the state from which a checkpoint is written while training continues. 0 if the
  /// job writes no checkpoints in this way.
  std::uint64_t checkpoint_copy = 0;
  /// Snapshots of this worker and its neighbour, in host memory; 0 without `replicate`.
  std::uint64_t snapshots = 0;
  /// The host memory of a worker on a GPU, including snapshots and the copy for checkpoints; 0 on a
  /// CPU.
  std::uint64_t host = 0;
  /// The copy for checkpoints would not fit, or the class centres are in a file. The copy is not in
  /// `parts`: training waits while a checkpoint is written.
  bool checkpoints_in_place = false;
  std::uint64_t centre_file = 0;  ///< file of this worker's class centres (centre_storage disk)
  std::uint64_t available = 0;    ///< as given to plan_memory()

  [[nodiscard]] std::uint64_t total() const;
  [[nodiscard]] bool fits() const { return total() <= available; }
  /// Returns the part of that name. REQUIRES: it exists.
  [[nodiscard]] const MemoryPart& part(const std::string& name) const;
};

/// Replaces the estimated size of NCCL's buffers by the measured one.
void set_nccl_bytes(MemoryPlan& plan, std::uint64_t measured);

/// Returns the bytes that a worker reserves on its GPU when it starts (Ops::reserve): all parts
/// except the process, NCCL's buffers and the kernels' scratch.
std::uint64_t reserved_bytes(const MemoryPlan& plan);

/// Returns the plan of rank 0, which needs the most memory: it has the largest shard, and writes
/// the model files. Pure.
MemoryPlan plan_memory(const PlannedJob& planned, const PlannedBackbone& backbone,
                       std::uint64_t available);

}  // namespace pfc
