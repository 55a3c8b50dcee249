#include "worker/head/head.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "common/config/parameters/parameter_rules.h"
#include "common/error.h"
#include "kernels/cpu/margin/margin_softmax.h"
#include "kernels/cuda/margin/margin_plan.h"
#include "kernels/cuda/scratch.h"
#include "kernels/make_ops.h"
#include "kernels/margin/margin_softmax.h"
#include "kernels/owned_tensor.h"
#include "worker/head/accumulated_gradients.h"
#include "worker/head/class_centres.h"
#include "worker/head/row_copy.h"
#include "worker/head/sampling/class_sampler.h"
#include "worker/head/separate_heads.h"

namespace pfc {
namespace {

CentreOptions centre_options(const HeadOptions& o) {
  return {.dimension = o.centre_size(),
          .sub_centres = o.sub_centres,
          .bias = is_plain_softmax(o.loss),
          .optimizer = o.optimizer,
          .momentum = o.optimizer == OptimizerKind::kAdamW || o.momentum != 0,
          .precision = o.centre_precision,
          .positions = o.positions(),
          .seed = o.seed,
          .file = o.centre_file};
}

NeighbourOptions neighbour_options(const HeadOptions& o) {
  return {.positions = o.positions(),
          .row_size = o.centre_size(),
          .sub_centres = o.sub_centres,
          .bias = is_plain_softmax(o.loss),
          .degree = o.hard_neighbours};
}

MarginSoftmaxOptions softmax_options(const HeadOptions& o, std::int64_t rows) {
  constexpr double kMost = 1e18;  // fits std::int64_t
  std::size_t tables = ClassCentres::bytes(rows, centre_options(o)).rows();
  if (o.centre_file.on()) tables = std::min(tables, o.centre_file.cache);
  return {.margin = o.margin,
          .scale = is_plain_softmax(o.loss) ? 1 : o.scale,
          .margin_gradient = o.margin_gradient,
          .interclass_filtering_threshold = o.interclass_filtering_threshold,
          .optimizer = o.optimizer,
          .momentum = o.momentum,
          .weight_decay = o.weight_decay,
          .bf16_products = o.bf16_products,
          .logits_bytes = static_cast<std::int64_t>(
              std::min(kMost, o.logits_memory * static_cast<double>(tables))),
          .seed = o.seed,
          .ranges = o.head_classes.size() > 1,
          .target_form = target_form(o.loss),
          .offsets = o.sample_correction,
          .sample_margins = has_sample_margins(o.loss),
          .hard_negatives = has_hard_negatives(o.loss),
          .binary = is_uniface(o.loss),
          .label_smoothing = o.label_smoothing,
          .targets = o.labels_per_image,
          .sub_centres = o.sub_centres,
          .distillation = o.distillation};
}

/// Returns the type and shape of the teacher's centres of a shard.
Tensor teacher_table(const HeadOptions& o, std::int64_t rows) {
  return {nullptr,
          o.bf16_products ? DType::kBFloat16 : DType::kFloat32,
          {rows, o.distillation.embedding_size}};
}

/// Returns how many sums over logits the workers exchange for each sample.
std::int64_t exchanged_numbers(const HeadOptions& o) {
  return summed_numbers(softmax_options(o, /*rows=*/1));
}

constexpr auto kRowBytes = static_cast<std::int64_t>(sizeof(RowStatistics));

/// Bytes per sample: its inverse length or target cosine, its length, and its margin.
constexpr std::size_t kSampleMarginBytes = sizeof(float) + sizeof(double) + sizeof(SampleMargin);

/// Returns n, the number of samples whose statistics one worker merges: N / W, rounded up.
std::int64_t merged_samples(std::int64_t samples, int workers) {
  return (samples + workers - 1) / workers;
}

/// Bytes of the buffers that a head sends, receives or returns, for N samples.
struct ExchangeBytes {
  ExchangeBytes(std::int64_t samples, const HeadOptions& o, int workers)
      : d_embeddings(static_cast<std::size_t>(samples * o.embedding_size) * sizeof(float)),
        statistics(static_cast<std::size_t>(workers * merged_samples(samples, workers)) *
                   sizeof(RowStatistics)),
        parts(workers > 1 ? statistics : 0),
        logits(static_cast<std::size_t>(exchanged_numbers(o) * samples) * sizeof(float)) {}
  std::size_t d_embeddings, statistics, parts, logits;
  [[nodiscard]] std::size_t total() const { return d_embeddings + statistics + parts + logits; }
};

class ShardedHead : public Head {
 public:
  ShardedHead(Ops& ops, Comm& comm, const HeadOptions& options)
      : ops_(ops),
        comm_(comm),
        options_(options),
        positions_(options.positions()),
        centres_(ops, positions_.shard(comm.rank(), comm.size()), centre_options(options)),
        softmax_(make_margin_softmax(ops, softmax_options(options, centres_.shard().size()),
                                     centres_.table())),
        heads_(options.head_classes) {
    if (options.gradient_acc > 1) accumulated_.emplace(ops, options.centre_size());
    if (options.distillation.on()) {
      const Tensor table = teacher_table(options, centres_.shard().size());
      teacher_ = OwnedTensor(ops, table.shape, table.dtype);
      softmax_->use_teacher(teacher_);
    }
    if (options.centre_file.taken_over()) return;
    centres_.draw(ops, [this](RowRange classes) { compute_inverse_norms(classes); });
  }

  void follow(std::function<HeadSettings(std::int64_t)> schedule) override {
    schedule_ = std::move(schedule);
  }
  [[nodiscard]] HeadSettings settings(std::int64_t step) const override {
    if (schedule_) return schedule_(step);
    const double rate = options_.sample_rate.largest();
    return {.margin = options_.margin,
            .sample_rate = rate,
            .drawn_logit = options_.sample_correction ? drawn_logit(rate) : 0};
  }

  [[nodiscard]] const ClassPositions& positions() const override { return positions_; }

  [[nodiscard]] ActiveCentres sample(std::span<const std::int64_t> all_labels,
                                     std::int64_t step) const override {
    SampleOptions o{.classes = options_.classes,
                    .rate = settings(step).sample_rate,
                    .hold = options_.sample_hold,
                    .unit = options_.sample_unit,
                    .seed = options_.seed,
                    .labels_per_image = options_.labels_per_image};
    if (options_.hard_neighbours == 0) {
      return {.step = step, .classes = sample_classes(o, shard(), all_labels, step)};
    }
    const CertainClasses certain = add_neighbours(o, neighbours_, all_labels, step);
    o.rate = certain.rate;
    return {.step = step, .classes = sample_classes(o, shard(), certain.classes, step)};
  }

  void refresh_neighbours(Comm& host) override {
    if (options_.hard_neighbours == 0) return;
    // If the search fails, the neighbours stay as they are.
    neighbours_ = find_neighbours(
        ops_, host, neighbour_options(options_),
        [this](RowRange classes, std::span<float> rows) { read_current(classes, rows); });
  }

  void read_ahead(ActiveCentres& active) const override {
    active.pages = centres_.read_ahead(active.classes);
  }

  HeadResult run(const Step& step) override;
  void move(const Step& step) override;

  void target_cosines(std::span<float> cosines) override { softmax_->target_cosines(cosines); }

  [[nodiscard]] RowRange shard() const override { return centres_.shard(); }

  [[nodiscard]] State state() override {
    const CentreTable t = centres_.table();
    return {.centres = t.weight,
            .momentum = t.momentum,
            .second = t.second,
            .updated = t.updated,
            .history = t.history,
            .loss = &loss_state_,
            .neighbours = options_.hard_neighbours > 0 ? &neighbours_ : nullptr};
  }

  [[nodiscard]] std::unique_ptr<PinnedPages> pin(RowRange classes, PageUse use,
                                                 const Tensor& table) override {
    return centres_.pin(classes, use, table);
  }

  [[nodiscard]] CentreFile centre_file() const override { return options_.centre_file; }
  std::vector<FileTable> keep_tables(const std::string& checkpoint) override {
    centres_.keep(checkpoint);
    return file_tables(shard().size(), options_);
  }

  [[nodiscard]] PagingCounters paging() const override { return centres_.paging(); }

  [[nodiscard]] const LossState& loss_before(std::int64_t step) const override {
    return step == last_step_ ? loss_before_ : loss_state_;
  }

  void read_current(RowRange classes, std::span<float> rows) override {
    centres_.read_current(ops_, classes, rows);
  }

  void state_changed() override {
    last_step_ = -1;
    const std::int64_t end = shard().end;
    const std::int64_t most =
        options_.centre_file.on() ? rows_at_once(options_.centre_size()) : shard().size();
    for (std::int64_t begin = shard().begin; begin < end; begin += most) {
      const RowRange part{begin, std::min(begin + most, end)};
      const auto pinned = pin(part, PageUse::kRead, centres_.table().weight);
      compute_inverse_norms(part);
    }
  }

  void settle(std::span<const std::int64_t> classes) override {
    centres_.in_pieces(classes,
                       [&](std::span<const std::int64_t> some) { softmax_->settle(some); });
  }
  void settle_all() override;
  [[nodiscard]] Tensor teacher() override { return teacher_; }

 private:
  void reserve(std::int64_t samples);
  void compute_inverse_norms(RowRange classes);
  void take_rows(const Step& step);
  void begin_update(const Step& step);
  void exchange_statistics(std::int64_t samples);
  void set_offsets(std::size_t active, double drawn_logit);
  void set_target_shares(std::span<const std::int64_t> all_labels);
  void make_margins(const Step& step, const MarginSoftmax::Batch& batch);
  void read_lengths(const Tensor& embeddings);
  void find_target_cosines(const MarginSoftmax::Batch& batch);
  [[nodiscard]] bool moves_in_run() const { return !accumulated_ && !options_.moves_later; }
  void backward(const Step& step, const Tensor& d_embeddings);
  void move_threshold(const Step& step);
  [[nodiscard]] MarginSoftmax::Update update_of(const Step& step) const {
    return {.lr = options_.lr_factor * step.lr, .number = step.update};
  }

  Ops& ops_;
  Comm& comm_;
  const HeadOptions options_;
  const ClassPositions positions_;
  std::function<HeadSettings(std::int64_t)> schedule_;
  ClassCentres centres_;
  std::vector<std::shared_ptr<PinnedPages>> in_use_;  // rows of the update in progress
  std::unique_ptr<MarginSoftmax> softmax_;
  SeparateHeads heads_;
  ClassNeighbours neighbours_;     // empty until the first refresh, and without hard_neighbours
  OwnedTensor teacher_;            // null without distillation
  LossState loss_state_;           // state after the last whole step
  LossState loss_before_;          // state before last_step_
  std::int64_t last_step_ = -1;    // step of the last run(); -1: no run since state_changed()
  LossState running_state_;        // state after the last micro-batch
  double threshold_gradient_ = 0;  // UniFace: sum over the step's micro-batches so far
  StepMargins margins_;            // margins of the last run(); empty unless has_sample_margins()
  std::vector<float> inverse_lengths_, target_cosines_;  // [N], or empty
  std::vector<double> lengths_;                          // [N], or empty
  std::optional<AccumulatedGradients> accumulated_;      // used if gradient_acc is above 1
  std::vector<Positive> positives_;                      // positives of the last run()
  std::vector<float> offsets_;                           // one for each active class
  std::vector<double> target_shares_;                    // [N], if there may be several labels
  std::int64_t samples_ = 0;                             // N of the buffers below
  std::unique_ptr<Buffer> d_embeddings_;                 // [N, D]
  std::unique_ptr<Buffer> statistics_;  // RowStatistics [W n], n = N / W rounded up
  std::unique_ptr<Buffer> parts_;       // RowStatistics [W, n]; null if W is 1
  std::unique_ptr<Buffer> logits_;      // [summed_numbers(), N], or null
};

HeadResult ShardedHead::run(const Step& step) {
  const std::int64_t n = step.all_embeddings.shape[0];
  check(step.all_embeddings.shape == Shape({n, options_.embedding_size}) &&
            n * options_.labels_per_image == std::ssize(step.all_labels),
        "head: embeddings must be [N, D] and labels [N, labels_per_image]");
  check(step.micro_batch >= 0 && step.micro_batch < options_.gradient_acc,
        "head: micro_batch must be in 0 .. gradient_acc - 1");
  reserve(n);
  const Tensor statistics(statistics_->data(), DType::kUInt8, {n, kRowBytes});

  const HeadSettings now = settings(step.active.step);
  softmax_->use_margin(now.margin);
  positives_ =
      find_positives(shard(), step.active.classes, step.all_labels, options_.labels_per_image);
  if (options_.labels_per_image > 1) set_target_shares(step.all_labels);
  if (step.micro_batch == 0) begin_update(step);
  take_rows(step);
  if (options_.sample_correction) set_offsets(step.active.classes.size(), now.drawn_logit);
  MarginSoftmax::Batch batch{
      .embeddings = step.all_embeddings,
      .classes = step.active.classes,
      .positives = positives_,
      .target_shares = target_shares_,
      .ranges = heads_.ranges(step.active.classes, step.all_labels, options_.labels_per_image),
      .offsets = offsets_,
      .teacher = step.teacher_embeddings};
  make_margins(step, batch);
  batch.margins = margins_.samples;
  batch.hard_above = margins_.hard_above;
  batch.hardness = margins_.hardness;
  batch.offset = margins_.offset;
  const Tensor logits =
      logits_ ? Tensor(logits_->data(), DType::kFloat32, {exchanged_numbers(options_), n})
              : Tensor();
  softmax_->forward(batch, statistics, logits);
  exchange_statistics(n);                    // max, sum and target
  if (logits) comm_.all_reduce_sum(logits);  // the rows of summed_numbers()
  HeadResult result;
  result.loss = softmax_->combine(statistics, logits) + margins_.added;
  result.logits_loss = softmax_->logits_loss();
  // The losses are the same on all workers.
  if (!std::isfinite(result.loss) || !std::isfinite(result.logits_loss)) return result;
  threshold_gradient_ += step.gradient_scale * softmax_->threshold_gradient();
  if (step.micro_batch + 1 == options_.gradient_acc) loss_state_ = running_state_;
  result.d_embeddings = Tensor(d_embeddings_->data(), DType::kFloat32, step.all_embeddings.shape);
  result.moved = moves_in_run();
  backward(step, result.d_embeddings);
  if (result.moved) in_use_.clear();
  return result;
}

/// Replaces the statistics of this worker's classes by those of all classes. Every worker receives
/// the statistics of n samples from all workers, merges them, and sends the result to all. So it
/// receives 2 N statistics. One all-gather of the statistics of all workers would receive W N.
void ShardedHead::exchange_statistics(std::int64_t samples) {
  const int workers = comm_.size();
  if (workers == 1) return;
  const std::int64_t n = merged_samples(samples, workers);
  const Tensor all(statistics_->data(), DType::kUInt8, {workers * n, kRowBytes});
  const Tensor parts(parts_->data(), DType::kUInt8, {workers, n, kRowBytes});
  comm_.all_to_all(all, parts);
  softmax_->merge_parts(parts);
  comm_.all_gather({parts.data, DType::kUInt8, {n, kRowBytes}}, all);
}

/// REQUIRES: the rows of these classes are in memory.
void ShardedHead::compute_inverse_norms(RowRange classes) {
  softmax_->compute_inverse_norms(classes.begin - shard().begin, classes.end - shard().begin);
}

/// Waits until the step's rows are in memory.
void ShardedHead::take_rows(const Step& step) {
  auto pages = step.active.pages ? step.active.pages : centres_.read_ahead(step.active.classes);
  if (!pages) return;
  pages->wait();
  centres_.expect_pinned(step.active.classes);
  in_use_.push_back(std::move(pages));
}

void ShardedHead::begin_update(const Step& step) {
  in_use_.clear();
  last_step_ = step.active.step;
  loss_before_ = loss_state_;
  if (is_uniface(options_.loss) && !loss_before_.threshold) {
    loss_before_.threshold = first_threshold(expected_active(
        settings(last_step_).sample_rate, options_.classes, std::ssize(step.all_labels)));
  }
  running_state_ = loss_before_;
  threshold_gradient_ = 0;
}

// Labels of the batch are always active, so their logits are not corrected.
void ShardedHead::set_offsets(std::size_t active, double drawn_logit) {
  offsets_.assign(active, static_cast<float>(drawn_logit));
  for (const Positive& p : positives_) offsets_[static_cast<std::size_t>(p.index)] = 0;
}

void ShardedHead::set_target_shares(std::span<const std::int64_t> all_labels) {
  const auto labels = static_cast<std::size_t>(options_.labels_per_image);
  target_shares_.resize(all_labels.size() / labels);
  for (std::size_t i = 0; i < target_shares_.size(); ++i) {
    const auto own = all_labels.subspan(i * labels, labels);
    target_shares_[i] =
        1 / static_cast<double>(std::ranges::count_if(own, [](auto label) { return label >= 0; }));
  }
}

/// Fills margins_, unless all samples have the same margin. Changes running_state_, which run()
/// copies to loss_state_ after the last micro-batch: a checkpoint never holds half an update.
void ShardedHead::make_margins(const Step& step, const MarginSoftmax::Batch& batch) {
  if (!has_sample_margins(options_.loss)) return;
  const std::int64_t n = step.all_embeddings.shape[0];
  if (uses_lengths(options_.loss)) read_lengths(step.all_embeddings);
  if (uses_target_cosines(options_.loss)) find_target_cosines(batch);
  margins_.samples.resize(static_cast<std::size_t>(n));
  sample_margins(options_.loss,
                 {.scale = options_.scale,
                  .lengths = lengths_,
                  .target_cosines = target_cosines_,
                  .seed = options_.seed,
                  .step = step.active.step,
                  .first = step.micro_batch * n},
                 running_state_, margins_);
}

/// Fills target_cosines_ for the samples of all workers, with one more collective. Uses a buffer
/// that later holds this step's statistics.
void ShardedHead::find_target_cosines(const MarginSoftmax::Batch& batch) {
  const std::int64_t n = batch.embeddings.shape[0];
  const Tensor cosines(statistics_->data(), DType::kFloat32, {n});
  softmax_->find_targets(batch, cosines);
  comm_.all_reduce_sum(cosines);
  target_cosines_.resize(static_cast<std::size_t>(n));
  ops_.copy_to_host(target_cosines_.data(), cosines);
}

/// Fills lengths_. Uses buffers that later hold this step's results.
void ShardedHead::read_lengths(const Tensor& embeddings) {
  const std::int64_t n = embeddings.shape[0];
  const Tensor inverse(statistics_->data(), DType::kFloat32, {n});
  ops_.normalise_rows(embeddings, Tensor(d_embeddings_->data(), DType::kFloat32, embeddings.shape),
                      inverse);
  inverse_lengths_.resize(static_cast<std::size_t>(n));
  ops_.copy_to_host(inverse_lengths_.data(), inverse);
  lengths_.resize(static_cast<std::size_t>(n));
  std::ranges::transform(inverse_lengths_, lengths_.begin(),
                         [](float x) { return x == 0 ? 0.0 : 1 / double{x}; });
}

void ShardedHead::backward(const Step& step, const Tensor& d_embeddings) {
  const double scale = step.gradient_scale;
  if (moves_in_run()) {
    softmax_->backward(scale, d_embeddings, update_of(step));
    return move_threshold(step);
  }
  if (!accumulated_) return softmax_->backward_embeddings(scale, d_embeddings);
  if (step.micro_batch == 0) accumulated_->clear();
  const std::span<const std::int64_t> slots = accumulated_->slots_of(step.active.classes);
  softmax_->backward_accumulate(scale, d_embeddings, accumulated_->gradients(), slots);
}

void ShardedHead::move(const Step& step) {
  check(!moves_in_run() && step.micro_batch == options_.gradient_acc - 1,
        "head: move() needs a run() with the last micro-batch that did not update the centres");
  move_threshold(step);
  if (accumulated_) {
    const AccumulatedGradients& sums = *accumulated_;
    centres_.expect_pinned(sums.classes());
    softmax_->update(sums.classes(), sums.slots(), sums.gradients(), update_of(step));
  } else {
    softmax_->move(update_of(step));
  }
  in_use_.clear();
}

void ShardedHead::move_threshold(const Step& step) {
  if (!is_uniface(options_.loss)) return;
  update_threshold(softmax_options(options_, /*rows=*/1), update_of(step), threshold_gradient_,
                   loss_state_);
}

void ShardedHead::settle_all() {
  constexpr std::int64_t kRowsAtOnce = 65536;
  std::vector<std::int64_t> classes;
  for (std::int64_t begin = shard().begin; begin < shard().end; begin += kRowsAtOnce) {
    classes.resize(static_cast<std::size_t>(std::min(kRowsAtOnce, shard().end - begin)));
    std::iota(classes.begin(), classes.end(), begin);
    settle(classes);
  }
}

void ShardedHead::reserve(std::int64_t samples) {
  if (samples <= samples_) return;
  const ExchangeBytes bytes(samples, options_, comm_.size());
  d_embeddings_ = ops_.allocate(bytes.d_embeddings);
  statistics_ = ops_.allocate(bytes.statistics);
  if (bytes.parts > 0) parts_ = ops_.allocate(bytes.parts);
  const auto words = static_cast<std::int64_t>(bytes.statistics / sizeof(float));
  // Rows beyond N are sent and merged too, but the results are not used.
  ops_.fill({statistics_->data(), DType::kFloat32, {words}}, 0);
  if (bytes.logits > 0) logits_ = ops_.allocate(bytes.logits);
  samples_ = samples;
}

void check_options(const HeadOptions& o, int world_size) {
  if (!(o.scale > 0)) {
    throw InputError("margin_scale is " + std::to_string(o.scale) +
                     ": it must be above 0 (64 is usual)");
  }
  if (!(o.sample_rate.smallest() >= 0 && o.sample_rate.largest() <= 1)) {
    throw InputError("sample_rate is " + std::to_string(o.sample_rate.largest()) +
                     ": it must be in 0 .. 1 (1 takes all classes)");
  }
  const std::int64_t blocks = blocks_of(o.classes, o.sample_unit);
  if (blocks < world_size) {
    const std::string in_blocks = o.sample_unit == 1 ? ""
                                                     : " in " + std::to_string(blocks) +
                                                           " blocks of sample_unit " +
                                                           std::to_string(o.sample_unit);
    throw InputError("the data has " + std::to_string(o.classes) + " classes" + in_blocks +
                     ", fewer than the " + std::to_string(world_size) +
                     " workers that would share them: start fewer workers");
  }
  check(o.embedding_size > 0 && o.gradient_acc > 0 && o.labels_per_image > 0,
        "head: a size is not positive");
  check(!o.distillation.on() || (!is_plain_softmax(o.loss) && o.sub_centres == 1 &&
                                 o.head_classes.size() < 2 && o.distillation.embedding_size > 0),
        "head: distillation excludes softmax, sub-centres and separate heads");
  check(o.sample_unit == 1 || o.head_classes.size() < 2,
        "head: sample_unit excludes separate heads");
  check(!is_uniface(o.loss) || (!o.sample_correction && o.label_smoothing == 0),
        "head: uniface excludes sample_correction and label_smoothing");
  check(o.hard_neighbours == 0 || (!o.sample_correction && o.head_classes.size() < 2),
        "head: hard_neighbours excludes sample_correction and separate heads");
  if (o.hard_neighbours > 0 && o.classes > std::numeric_limits<std::int32_t>::max()) {
    throw InputError(
        "sampler: found \"hard\" and " + std::to_string(o.classes) + " classes, expected at most " +
        std::to_string(std::numeric_limits<std::int32_t>::max()) + "; set it to \"random\"");
  }
  if (o.labels_per_image > 1 && has_sample_margins(o.loss)) {
    throw InputError("loss: samples with several labels need the loss margin or softmax");
  }
  const std::int64_t of_heads =
      std::accumulate(o.head_classes.begin(), o.head_classes.end(), std::int64_t{0});
  if (!o.head_classes.empty() && of_heads != o.classes) {
    throw InputError("head_classes: the heads have " + std::to_string(of_heads) +
                     " classes together, expected num_classes, which is " +
                     std::to_string(o.classes));
  }
}

/// Replaces the memory of the tables by that of their file. active: number of active classes.
void keep_in_file(const HeadMemoryOptions& o, const CentreBytes& table, std::int64_t active,
                  HeadMemory& m) {
  m.file = table.file();
  m.cache = std::min<std::size_t>(o.head.centre_file.cache + PagedMemoryOptions::kDefaultWindow,
                                  table.file()) +
            PagedMemory::record_bytes(table.file());
  m.centres = m.momentum = m.second = 0;
  // Each set lists the pages of its rows in every table, and so does each micro-batch.
  const std::int64_t labels = o.samples * o.head.labels_per_image;
  const std::int64_t ranges = std::min(active, labels + active / o.head.sample_unit);
  const std::int64_t tables = 1 + int{table.momentum > 0} + int{table.second > 0};
  const std::int64_t lists = (o.active_sets + o.head.gradient_acc) * tables;
  m.active += static_cast<std::uint64_t>(lists * ranges) * sizeof(PageRange);
}

/// Returns the most neighbours in a micro-batch. They may all be in one shard.
std::int64_t neighbours_in_shard(const HeadMemoryOptions& o) {
  const std::int64_t labels = o.samples * o.head.labels_per_image;
  return most_neighbours(o.head.sample_rate.largest(), o.head.classes,
                         labels * o.head.hard_neighbours * o.head.sample_unit);
}

/// Returns the expected active rows of a micro-batch.
std::int64_t active_rows(const HeadMemoryOptions& o, std::int64_t rows) {
  std::int64_t certain = o.samples * o.head.labels_per_image;
  // A single shard has neighbours in place of random classes.
  if (o.world_size > 1) certain += neighbours_in_shard(o);
  return expected_active(o.head.sample_rate.largest(), rows, certain);
}

/// Returns the rows with gradients in a step of several micro-batches, of which one has `active`.
/// Each micro-batch adds its labels and their neighbours; all share the sampled classes.
std::int64_t summed_rows(const HeadMemoryOptions& o, std::int64_t rows, std::int64_t active) {
  const std::int64_t certain = o.samples * o.head.labels_per_image + neighbours_in_shard(o);
  return std::min(rows, active + (o.head.gradient_acc - 1) * certain);
}

void plan_neighbours(const HeadMemoryOptions& o, HeadMemory& m) {
  if (o.head.hard_neighbours == 0) return;
  const NeighbourBytes bytes = neighbour_bytes(neighbour_options(o.head), o.world_size, o.gpu);
  m.saved_neighbours = bytes.table;
  m.neighbours = 2 * bytes.table + bytes.host;  // the neighbours before a search, and those found
  for (const std::size_t buffer : {bytes.own, bytes.others, bytes.products}) {
    if (o.gpu) {
      m.buffers += gpu_allocation(buffer);
    } else {
      m.neighbours += buffer;
    }
  }
}

}  // namespace

HeadOptions head_options(const JobConfig& job, std::int64_t teacher_size) {
  const TensorUpdate own = update_of_tensor(job, kCentresName, /*is_vector=*/false);
  return {.classes = job.num_classes,
          .embedding_size = job.embedding_size,
          .sub_centres = job.sub_centres,
          .loss = job.loss,
          .margin = job.margin,
          .scale = job.margin_scale,
          .margin_gradient = job.margin_gradient,
          .interclass_filtering_threshold = job.interclass_filtering_threshold,
          .label_smoothing = job.label_smoothing,
          .labels_per_image = std::max<std::int64_t>(job.labels_per_image, 1),
          .sample_rate = job.sample_rate,
          .sample_hold = job.sample_hold,
          .sample_unit = job.sample_unit,
          .hard_neighbours = job.sampler == Sampler::kHard ? job.hard_neighbours : 0,
          .sample_correction = job.sample_correction,
          .seed = job.seed,
          .optimizer = job.optimizer,
          .momentum = centre_momentum(job),
          .weight_decay = own.weight_decay,
          .lr_factor = own.lr,
          .gradient_acc = job.gradient_acc,
          // An update whose gradients have overflowed is skipped, for centres and backbone alike.
          .moves_later = job.precision == Precision::kFp16,
          .centre_precision = job.centre_precision,
          .centre_file = job.centre_storage == CentreStorage::kDisk
                             ? CentreFile{.folder = job.output,
                                          .cache = static_cast<std::size_t>(job.centre_cache) << 20}
                             : CentreFile{},
          // Also for fp16: bf16 represents the smallest gradients without a loss scale.
          .bf16_products = job.precision != Precision::kFp32,
          .logits_memory = job.logits_memory,
          .head_classes =
              job.heads == Heads::kSeparate ? job.head_classes : std::vector<std::int64_t>{},
          .distillation = {.weight = teacher_size > 0 ? job.distill_logits : 0,
                           .temperature = job.distill_temperature,
                           .embedding_size = teacher_size}};
}

std::vector<FileTable> file_tables(std::int64_t rows, const HeadOptions& options) {
  return ClassCentres::file_tables(rows, centre_options(options));
}

std::unique_ptr<Head> make_head(Ops& ops, Comm& comm, const HeadOptions& options) {
  check_options(options, comm.size());
  return std::make_unique<ShardedHead>(ops, comm, options);
}

HeadMemory head_memory(const HeadMemoryOptions& o) {
  const std::int64_t rows = o.head.positions().shard(0, o.world_size).size();
  const std::int64_t n = o.samples;
  const std::int64_t row_size = o.head.centre_size(), d = row_size / o.head.sub_centres;
  const std::int64_t active = active_rows(o, rows);
  const CentreBytes table = ClassCentres::bytes(rows, centre_options(o.head));
  const MarginSoftmaxOptions softmax = softmax_options(o.head, rows);
  const ExchangeBytes exchange(n, o.head, o.world_size);
  HeadMemory m{.centres = table.weight,
               .momentum = table.momentum,
               .second = table.second,
               .scales = table.scales,
               .inverse_norms = table.inverse_norm,
               .updated = table.updated,
               .teacher = o.head.distillation.on() ? teacher_table(o.head, rows).bytes() : 0,
               .buffers = exchange.total()};
  if (o.head.gradient_acc > 1) {
    m.gradients = AccumulatedGradients::bytes(summed_rows(o, rows, active), row_size);
  }
  if (o.gpu) {
    const MarginPlanOptions margin{
        .samples = n,
        .dimension = d,
        .bf16_products = o.head.bf16_products,
        .ranges = softmax.ranges,
        .offsets = softmax.offsets,
        .sample_margins = softmax.sample_margins,
        .hard_negatives = softmax.hard_negatives,
        .smoothed = softmax.label_smoothing > 0,
        .binary = softmax.binary,
        .targets = softmax.targets,
        .sub_centres = softmax.sub_centres,
        .classes = rows,
        .teacher_dimension = o.head.distillation.on() ? o.head.distillation.embedding_size : 0,
        .gpu = o.gpu_sizes};
    for (std::uint64_t* buffer :
         {&m.centres, &m.momentum, &m.second, &m.inverse_norms, &m.gradients, &m.teacher}) {
      *buffer = gpu_allocation(*buffer);
    }
    if (m.scales > 0) {  // a table for the centres and one for their momentum
      m.scales = m.scales / table.inverse_norm * gpu_allocation(table.inverse_norm);
    }
    m.buffers =
        gpu_allocation(exchange.d_embeddings) + gpu_allocation(exchange.statistics) +
        (exchange.parts > 0 ? gpu_allocation(exchange.parts) : 0) +
        (exchange.logits > 0 ? gpu_allocation(exchange.logits) : 0) +
        static_cast<std::uint64_t>(margin_device_bytes(margin, active, softmax.logits_bytes));
    // Before a checkpoint all rows are listed, to apply the updates that they have missed. In a
    // step with gradient accumulation the rows with gradients are listed.
    if (o.head.sample_rate.smallest() < 1 || o.head.gradient_acc > 1) {
      const std::int64_t slots = o.head.gradient_acc > 1 ? margin_slot_bytes(margin, rows) : 0;
      m.buffers +=
          gpu_allocation(static_cast<std::size_t>(margin_list_bytes(margin, rows) + slots));
    }
    plan_neighbours(o, m);
    return m;
  }
  const CpuMarginBytes margin = cpu_margin_bytes(
      softmax, {.samples = n, .dimension = d, .active = active, .threads = o.threads});
  m.active = static_cast<std::uint64_t>(o.active_sets * active) * sizeof(std::int64_t) +
             CatchUpPlan::bytes(active) +
             (o.head.sample_correction ? static_cast<std::uint64_t>(active) * sizeof(float) : 0);
  if (o.head.centre_file.on()) keep_in_file(o, table, active, m);
  m.logits = static_cast<std::uint64_t>(margin.kept);
  m.buffers += static_cast<std::uint64_t>(margin.working);
  if (softmax.sample_margins) m.buffers += static_cast<std::uint64_t>(n) * kSampleMarginBytes;
  if (softmax.targets > 1) m.buffers += static_cast<std::uint64_t>(n) * sizeof(double);
  plan_neighbours(o, m);
  return m;
}

}  // namespace pfc
