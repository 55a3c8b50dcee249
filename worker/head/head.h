// The classification layer: this worker's rows of the class centres, Partial FC sampling, and the
// margin softmax over all workers (arXiv 2203.15565).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "comm/comm.h"
#include "comm/shard.h"
#include "common/config/config.h"
#include "kernels/margin/update_history.h"
#include "kernels/ops.h"

namespace pfc {

struct HeadOptions {
  std::int64_t classes = 0;
  std::int64_t embedding_size = 512;
  Margin margin;
  double scale = 64.0;
  MarginGradient margin_gradient = MarginGradient::kStraightThrough;
  double interclass_filtering_threshold = 0.0;
  double sample_rate = 1.0;
  std::uint64_t seed = 0;
  OptimizerKind optimizer = OptimizerKind::kSgd;
  double momentum = 0.9;
  double weight_decay = 5e-4;
  double lr_factor = 1.0;  ///< multiplies the learning rate of every step
  std::int64_t gradient_acc = 1;
  /// Centres move in a call of their own, Head::move(), once it is known whether the backbone
  /// moves. With gradient_acc above 1 they always do.
  bool moves_later = false;
  CentrePrecision centre_precision = CentrePrecision::kFp32;
  bool bf16_products = false;  ///< operands of the matrix products; sums are float32
  /// Memory for products that are kept for the backward pass, as a part of the memory of centres
  /// and momentum.
  double logits_memory = 0.1;
  /// Of several heads that share the backbone (separate_heads.h): the classes of each, one behind
  /// the other. Fewer than two: one softmax over all classes.
  std::vector<std::int64_t> head_classes = {};
};

/// What the job says about the head; classes = job.num_classes, head_classes = job.head_classes.
HeadOptions head_options(const JobConfig& job);

/// Sorted global class indices of this worker that take part in a step.
struct ActiveCentres {
  std::int64_t step = 0;
  std::vector<std::int64_t> classes;
};

struct HeadResult {
  double loss = 0;      ///< mean over the N samples of all workers; the same on every worker
  Tensor d_embeddings;  ///< [N, D], this worker's part: the sum over workers is the gradient of
                        ///< loss. Valid until the next run. Null when the loss is not finite.
  bool moved = false;   ///< whether run() has updated the centres; otherwise Head::move() does
};

class Head {
 public:
  virtual ~Head() = default;

  /// Chooses the active classes for the N labels of all workers: every label of this shard, and
  /// every class c with u(seed, step, c) < sample_rate (class_sampler.h). Thread-safe, so that it
  /// can run while another thread trains. Throws InputError when a label is outside
  /// 0 .. classes - 1.
  [[nodiscard]] virtual ActiveCentres sample(std::span<const std::int64_t> all_labels,
                                             std::int64_t step) const = 0;

  struct Step {
    Tensor all_embeddings;                     ///< [N, D], not normalised
    std::span<const std::int64_t> all_labels;  ///< [N]
    const ActiveCentres& active;
    double lr = 0.1;
    std::int64_t update = 1;       ///< number of the update, from 1 (AdamW's bias correction)
    std::int64_t micro_batch = 0;  ///< 0 .. gradient_acc - 1
    double gradient_scale = 1.0;   ///< 1 / gradient_acc: multiplies every gradient, not the loss
  };
  /// Collective: every worker calls it, and it exchanges the row statistics of the softmax. Updates
  /// the active centres in place, or leaves that to move() (HeadResult::moved). Momentum and weight
  /// decay move the other centres too; they are written when they are next needed. When the loss is
  /// not finite, no worker changes any centre, so that the step can be examined. Throws CommError
  /// and DeviceError.
  virtual HeadResult run(const Step& step) = 0;
  /// Updates the centres with the gradients of the runs of one update. Where it is not called, the
  /// next run with micro_batch 0 forgets them, and no centre has changed. REQUIRES: `step` is that
  /// of the last run, of the last micro-batch, with a finite loss and `moved` false; its embeddings
  /// and active classes have not changed since.
  virtual void move(const Step& step) = 0;

  /// Sets cosines[i], of [N], to the cosine between embedding i of the last run() and the centre of
  /// its class, as the loss has it, where that class is of this worker, and leaves the others as
  /// they are. Waits for the device. Throws DeviceError.
  virtual void target_cosines(std::span<float> cosines) = 0;

  [[nodiscard]] virtual RowRange shard() const = 0;  ///< the classes of this worker
  /// The shard's tables, [shard().size(), D], float32 or bfloat16 as HeadOptions::centre_precision
  /// says, for checkpoints. `second` is AdamW's v, null for SGD. Views of device memory. Row i is
  /// as it was after update number updated[i] of the history (CentreTable); after settle() it is as
  /// after the last update.
  struct State {
    Tensor centres, momentum, second;
    std::span<std::int32_t> updated;  ///< [shard().size()], host memory
    UpdateHistory* history = nullptr;
  };
  [[nodiscard]] virtual State state() = 0;
  /// REQUIRED after other code wrote to state(), as loading a checkpoint does.
  virtual void state_changed() = 0;

  /// Applies the updates that these classes (sorted), or all, have missed, so that others can read
  /// current rows. REQUIRES: not between the micro-batches of an update that is
  /// made. Training may go on
  /// afterwards, but its results differ in the last bits, because each such update rounds.
  virtual void settle(std::span<const std::int64_t> classes) = 0;
  virtual void settle_all() = 0;
};

/// Centres start as class_centres.h says. ops and comm are borrowed. Throws InputError for options
/// that do not fit each other or the number of workers.
std::unique_ptr<Head> make_head(Ops& ops, Comm& comm, const HeadOptions& options);

/// Bytes of device memory of a head, except where it says host memory.
struct HeadMemory {
  std::uint64_t centres = 0;
  std::uint64_t momentum = 0;       ///< SGD's velocity or AdamW's m
  std::uint64_t second = 0;         ///< AdamW's v
  std::uint64_t inverse_norms = 0;  ///< one number a centre
  std::uint64_t updated = 0;        ///< one number a centre: updates that it has seen; host memory
  std::uint64_t active = 0;         ///< indices of active classes; on a GPU they are in buffers
  std::uint64_t gradients = 0;      ///< of active classes, where gradient_acc is above 1
  std::uint64_t logits = 0;         ///< kept from forward to backward; on a GPU they are in buffers
  std::uint64_t buffers = 0;        ///< embeddings and their gradients, tiles, statistics
};

struct HeadMemoryOptions {
  HeadOptions head;
  int world_size = 1;
  std::int64_t samples = 1;  ///< N, of all workers
  int threads = 1;           ///< of this worker
  int active_sets = 1;       ///< sets of active classes that exist at the same time
  bool gpu = false;
  // Size of the GPU's L2 cache and number of its multiprocessors. The defaults are an H100's.
  std::int64_t l2_bytes = std::int64_t{50} << 20;
  int multiprocessors = 132;
};

/// The memory of rank 0, whose shard is the largest. Adds up what the parts of the head state. The
/// number of active classes varies: expected_active() (class_sampler.h) is taken.
HeadMemory head_memory(const HeadMemoryOptions& options);

}  // namespace pfc
