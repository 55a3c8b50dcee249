// The classification layer: this worker's rows of the class centres, Partial FC sampling, and the
// margin softmax over all workers (arXiv 2203.15565).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/class_positions.h"
#include "comm/comm.h"
#include "comm/shard.h"
#include "common/config/config.h"
#include "common/machine/gpu/gpus.h"
#include "kernels/margin/logit_distillation.h"
#include "kernels/margin/scaled_rows.h"
#include "kernels/margin/update_history.h"
#include "kernels/ops.h"
#include "worker/head/class_centres.h"
#include "worker/head/sample_margins.h"
#include "worker/head/sampling/class_neighbours.h"

namespace pfc {

struct HeadOptions {
  std::int64_t classes = 0;
  std::int64_t embedding_size = 512;
  std::int64_t sub_centres = 1;  ///< centres of a class (MarginSoftmaxOptions::sub_centres)
  Loss loss;
  Margin margin;  ///< used by CombinedMargin
  double scale = 64.0;
  MarginGradient margin_gradient = MarginGradient::kStraightThrough;
  double interclass_filtering_threshold = 0.0;
  double label_smoothing = 0.0;
  /// Above 1, a sample may have several labels, which then have equal wanted probabilities. Not for
  /// losses with has_sample_margins().
  std::int64_t labels_per_image = 1;
  SampleRate sample_rate;            ///< without follow(), every step uses the largest rate
  std::int64_t sample_hold = 1;      ///< SampleOptions::hold
  std::int64_t sample_unit = 1;      ///< SampleOptions::unit. Above 1 not for separate heads
  std::int64_t hard_neighbours = 0;  ///< above 0: Sampler::kHard with so many neighbours of a class
  bool sample_correction = false;
  std::uint64_t seed = 0;
  OptimizerKind optimizer = OptimizerKind::kSgd;
  double momentum = 0.9;  ///< 0, only for SGD: the head keeps no momentum
  double weight_decay = 5e-4;
  double lr_factor = 1.0;  ///< multiplies the learning rate of every step
  std::int64_t gradient_acc = 1;
  /// True: run() does not update the centres. Head::move() does, when it is known that the backbone
  /// is updated too. If gradient_acc is above 1, run() never updates them.
  bool moves_later = false;
  CentrePrecision centre_precision = CentrePrecision::kFp32;
  CentreFile centre_file = {};  ///< keeps the tables of centres in a file; only on a CPU
  bool bf16_products = false;   ///< operands of the matrix products; sums are float32
  /// Memory for logits that are kept for the backward pass, as a fraction of the memory of centres
  /// and momentum. With centre_file, it is a fraction of the cache if that is smaller.
  double logits_memory = 0.1;
  /// For several heads that share the backbone (separate_heads.h): the number of classes of each;
  /// their classes are contiguous. Fewer than two: one softmax over all classes.
  std::vector<std::int64_t> head_classes = {};
  /// The loss of a teacher's logits. Excludes PlainSoftmax, sub_centres and separate heads.
  LogitDistillation distillation = {};

  /// Returns the number of elements of a class's row: embedding_size for each of its centres, and 1
  /// for a bias.
  [[nodiscard]] std::int64_t centre_size() const {
    return pfc::centre_size(loss, embedding_size, sub_centres);
  }
  [[nodiscard]] ClassPositions positions() const {
    return {.classes = classes, .sample_unit = sample_unit, .seed = seed};
  }
};

/// Settings that may change from step to step.
struct HeadSettings {
  Margin margin;
  double sample_rate = 1.0;
  /// Added to the logits of classes that are not labels of the batch (drawn_logit()).
  double drawn_logit = 0;
};

/// Returns the job's options; classes = job.num_classes, head_classes = job.head_classes.
/// teacher_size: length of the teacher's embeddings; 0: without distillation of logits.
HeadOptions head_options(const JobConfig& job, std::int64_t teacher_size = 0);

/// Sorted global positions of this worker's classes that take part in a step.
struct ActiveCentres {
  std::int64_t step = 0;
  std::vector<std::int64_t> classes;
  /// The rows of these classes, if Head::read_ahead() reads them from a file; otherwise null.
  /// Shared with the head, which needs the rows until it has updated them.
  std::shared_ptr<PinnedPages> pages = {};
};

struct HeadResult {
  double loss = 0;  ///< mean over the N samples of all workers; the same on every worker
  /// Same mean of the loss of a teacher's logits, without its weight. It is not part of `loss`.
  double logits_loss = 0;
  Tensor d_embeddings;  ///< [N, D], this worker's part: the sum over workers is the gradient of
                        ///< loss + weight * logits_loss. Valid until the next run. Null
                        ///< when one of the two losses is not finite.
  bool moved = false;   ///< true: run() has updated the centres; false: Head::move() does
};

/// All members number classes by their positions() and never by the labels of the data. This is
/// true of labels, classes, rows and shards.
class Head {
 public:
  virtual ~Head() = default;

  /// Sets a schedule that replaces the settings in the options. The head calls it with step
  /// numbers, from any thread. REQUIRES: called before the first step.
  virtual void follow(std::function<HeadSettings(std::int64_t step)> schedule) = 0;
  [[nodiscard]] virtual HeadSettings settings(std::int64_t step) const = 0;

  [[nodiscard]] virtual const ClassPositions& positions() const = 0;

  /// Chooses the active classes for the labels of all workers: every label of this shard, with
  /// hard_neighbours some of their neighbours (add_neighbours()), and classes that are drawn with
  /// the step's sample_rate (sample_classes()). Thread-safe, so it can run while another thread
  /// trains. Throws InputError if a label is outside 0 .. classes - 1.
  [[nodiscard]] virtual ActiveCentres sample(std::span<const std::int64_t> all_labels,
                                             std::int64_t step) const = 0;
  /// Finds the nearest classes of each class, which sample() then uses. Without hard_neighbours
  /// does nothing. Collective. `host`: for tensors in host memory. REQUIRES: as for settle(), and
  /// no other thread calls sample() meanwhile. Throws CommError, DeviceError, StorageError.
  virtual void refresh_neighbours(Comm& /*host*/) {}
  /// Begins to read the rows of these classes, if the tables are in a file. run() waits for them.
  /// To measure the wait, the caller first calls active.pages->wait(). Thread-safe, and returns at
  /// once. REQUIRES: called in the order of the run() calls, for all of them or none.
  virtual void read_ahead(ActiveCentres& /*active*/) const {}

  struct Step {
    Tensor all_embeddings;  ///< [N, D], not normalised
    /// [N, labels_per_image], padded with -1.
    std::span<const std::int64_t> all_labels;
    const ActiveCentres& active;
    double lr = 0.1;
    std::int64_t update = 1;       ///< number of the update, from 1 (AdamW's bias correction)
    std::int64_t micro_batch = 0;  ///< 0 .. gradient_acc - 1
    /// 1 / gradient_acc: multiplies every gradient, but not the loss.
    double gradient_scale = 1.0;
    /// [N, teacher's D], not normalised. Null without HeadOptions::distillation.
    Tensor teacher_embeddings = {};
  };
  /// Collective: exchanges the row statistics of the softmax. Updates the active centres in
  /// place, or leaves that to move() (HeadResult::moved). Momentum and weight decay change the
  /// other centres too; those changes are applied when a centre is next needed. If the loss is
  /// not finite, no worker changes any centre, so the step can be examined. Throws CommError and
  /// DeviceError; with tables in a file also StorageError, and InputError if the cache is too small
  /// for the rows of one update.
  virtual HeadResult run(const Step& step) = 0;
  /// Updates the centres with the gradients of all run() calls of one update. If it is not
  /// called, the next run() with micro_batch 0 discards the gradients, and the centres stay as
  /// they were. REQUIRES: `step` is that of the last run(), with the last micro-batch, a finite
  /// loss and `moved` false. Its embeddings and active classes have not changed since.
  virtual void move(const Step& step) = 0;

  /// Sets cosines[i] of [N] to the cosine, as used by the loss, between embedding i of the last
  /// run() and the centre of its class, if this worker has that class; with several labels, to this
  /// worker's part of their mean. Leaves the other elements unchanged. Waits for the device. Throws
  /// DeviceError.
  virtual void target_cosines(std::span<float> cosines) = 0;

  [[nodiscard]] virtual RowRange shard() const = 0;  ///< the classes of this worker
  /// The shard's tables, [shard().size(), centre_size()], for checkpoints, in the types of
  /// HeadOptions::centre_precision. `momentum` is null for SGD without momentum. `second` is
  /// AdamW's v, null for SGD. Views of device memory; if the tables are in a file, only rows of
  /// pin() may be used. Scales are always in memory. Row i has the value after update number
  /// updated[i] of the history (CentreTable); after settle() it has the value after the last
  /// update.
  struct State {
    ScaledRows centres, momentum, second;
    std::span<std::int32_t> updated;  ///< [shard().size()], host memory
    UpdateHistory* history = nullptr;
    LossState* loss = nullptr;              ///< state after the last whole step
    ClassNeighbours* neighbours = nullptr;  ///< null without HeadOptions::hard_neighbours
  };
  [[nodiscard]] virtual State state() = 0;
  /// Keeps the rows of these classes of shard() in memory while the result exists. `table` is a
  /// table of state(), or null for the rows of all tables. Returns null if the tables are not in a
  /// file. REQUIRES: at most rows_at_once() rows (row_copy.h). Throws StorageError.
  [[nodiscard]] virtual std::unique_ptr<PinnedPages> pin(RowRange /*classes*/, PageUse /*use*/,
                                                         const Tensor& /*table*/) {
    return nullptr;
  }
  [[nodiscard]] std::unique_ptr<PinnedPages> pin(RowRange classes, PageUse use) {
    return pin(classes, use, Tensor());
  }
  /// Returns the options of the tables' file.
  [[nodiscard]] virtual CentreFile centre_file() const { return {}; }
  /// Writes all changed rows to the tables' file, and makes it the base of a new checkpoint.
  /// Returns the tables in the file. Throws StorageError; earlier checkpoints then stay readable.
  /// REQUIRES: centre_file().kept(), and not called during a step.
  virtual std::vector<FileTable> keep_tables(const std::string& /*checkpoint*/) { return {}; }
  /// Returns the numbers of pages read and written so far; zeros if the tables are not in a file.
  [[nodiscard]] virtual PagingCounters paging() const { return {}; }
  /// Returns the loss's state before this step, which is that of the last run() or the next one.
  [[nodiscard]] virtual const LossState& loss_before(std::int64_t step) const = 0;
  /// Copies the centres of these classes of shard() to rows [n, centre_size()] in host memory, as
  /// they are after all updates. Unlike settle() it changes nothing. REQUIRES: as for settle().
  virtual void read_current(RowRange classes, std::span<float> rows) = 0;
  /// Must be called after other code has written to state(), for example to load a checkpoint.
  virtual void state_changed() = 0;

  /// Applies the updates that these classes (sorted), or all classes, have missed, so that others
  /// can read current rows. Training can continue afterwards, but its results differ in the last
  /// bits, because each such update rounds. REQUIRES: not called between the micro-batches of an
  /// update that is then applied.
  virtual void settle(std::span<const std::int64_t> classes) = 0;
  virtual void settle_all() = 0;

  /// Returns the table of the teacher's centres [shard().size(), teacher's D], in the type of the
  /// products. At first it has zeros. The caller must fill it with unit vectors before the first
  /// run(). A view of device memory. Null without HeadOptions::distillation.
  [[nodiscard]] virtual Tensor teacher() = 0;
};

/// Returns the tables that the file of a worker with `rows` classes has.
std::vector<FileTable> file_tables(std::int64_t rows, const HeadOptions& options);

/// Creates a head whose centres start as class_centres.h describes. If it takes over a file, the
/// caller must set scales, `updated` and the history, and call state_changed(). Borrows ops and
/// comm. Throws InputError for options that contradict each other or do not suit the number of
/// workers, and as ClassCentres does for the file of the tables.
std::unique_ptr<Head> make_head(Ops& ops, Comm& comm, const HeadOptions& options);

/// Bytes of device memory of a head, unless a field says host memory or file. If the tables are in
/// a file, centres, momentum and second are 0.
struct HeadMemory {
  std::uint64_t centres = 0;
  std::uint64_t momentum = 0;       ///< SGD's velocity or AdamW's m
  std::uint64_t second = 0;         ///< AdamW's v
  std::uint64_t scales = 0;         ///< of one-byte centres and momentum
  std::uint64_t inverse_norms = 0;  ///< one number per centre
  std::uint64_t updated = 0;        ///< one number per class: updates that it has seen; host memory
  std::uint64_t active = 0;         ///< indices of active classes; on a GPU they are in buffers
  std::uint64_t gradients = 0;      ///< gradients of active classes, if gradient_acc is above 1
  std::uint64_t logits = 0;         ///< kept from forward to backward; on a GPU they are in buffers
  std::uint64_t teacher = 0;        ///< the teacher's centres
  std::uint64_t neighbours = 0;     ///< of all classes, and to find them; host memory
  std::uint64_t saved_neighbours = 0;  ///< the part of `neighbours` that is in checkpoints
  std::uint64_t buffers = 0;           ///< embeddings and their gradients, tiles, statistics
  std::uint64_t cache = 0;             ///< for rows of a file, and to keep track of its pages
  std::uint64_t file = 0;              ///< size of the tables' file, on the disk
  /// Bytes of a shard's rows in checkpoints and snapshots.
  [[nodiscard]] std::uint64_t rows() const {
    return centres + momentum + second + scales + updated;
  }
};

struct HeadMemoryOptions {
  HeadOptions head;
  int world_size = 1;
  std::int64_t samples = 1;  ///< N, of all workers
  int threads = 1;           ///< compute threads of this worker
  int active_sets = 1;       ///< sets of active classes that exist at the same time
  bool gpu = false;
  GpuSizes gpu_sizes;
};

/// Returns the memory of rank 0, whose shard is the largest. The number of active classes varies
/// between steps, so this uses expected_active() (class_sampler.h).
HeadMemory head_memory(const HeadMemoryOptions& options);

}  // namespace pfc
