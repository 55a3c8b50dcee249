// The memory that a worker will need, before anything is allocated (docs/memory.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "worker/backbone/backbone.h"
#include "worker/data/dataset.h"
#include "worker/evaluation/verification_bin.h"

namespace pfc {

/// What the data set and the verification sets are, as far as memory goes.
struct PlannedData {
  std::int64_t images = 0;
  std::int64_t height = 112, width = 112;
  std::uint64_t verification_bytes = 0;  ///< encoded images of all verification sets
  std::int64_t verification_images = 0;  ///< of the largest set
};

PlannedData planned_data(const Dataset& dataset, std::span<const VerificationSet> sets);

struct PlannedJob {
  JobConfig job;  ///< num_classes is known
  int world_size = 1;
  int threads = 1;  ///< of this worker
  PlannedData data;
  bool gpu = false;  ///< the memory that is planned is that of a GPU; otherwise the host's
  std::uint64_t host_bytes = 0;  ///< with a GPU: what copies for checkpoints may take of the host
};

/// What a backbone takes, with the area that its kernels share for intermediate results.
struct PlannedBackbone {
  BackboneMemory memory;
  std::size_t scratch = 0;
};

/// Exact: the network is built on the job's device, without its tensors. A tenth of a second.
/// Throws InputError for a network or device that there is not.
PlannedBackbone plan_backbone(const PlannedJob& planned);

struct MemoryPart {
  std::string name;
  std::uint64_t bytes = 0;
  std::string detail;  ///< what it consists of, for people
};

struct MemoryPlan {
  std::vector<MemoryPart> parts;      ///< those that are there at once, at the worst moment
  std::uint64_t checkpoint_copy = 0;  ///< one that is written while training goes on; 0: none is
  bool checkpoints_in_place =
      false;                    ///< that copy would not fit: training waits, and it is no part
  std::uint64_t available = 0;  ///< what it was made for

  [[nodiscard]] std::uint64_t total() const;
  [[nodiscard]] bool fits() const { return total() <= available; }
  /// The part of that name; a programmer's error when there is none.
  [[nodiscard]] const MemoryPart& part(const std::string& name) const;
};

/// Of a GPU's plan: what the worker's buffers are cut from (Ops::reserve).
std::uint64_t reserved_bytes(const MemoryPlan& plan);

/// Pure. Of rank 0, which needs the most: its shard is the largest, and it writes the model.
MemoryPlan plan_memory(const PlannedJob& planned, const PlannedBackbone& backbone,
                       std::uint64_t available);

}  // namespace pfc
