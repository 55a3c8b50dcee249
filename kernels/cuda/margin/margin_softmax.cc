// The margin softmax of kernels/margin/margin_softmax.h on a GPU. All work is enqueued on the Ops'
// compute stream; only combine() waits. The result is bit-identical every time on one kind of GPU:
// sums have a fixed order, and no floats are added atomically.
//
// The active classes are divided into tiles (margin_plan.h). For each tile,
// forward() gathers the rows (unless they are contiguous and of the products' type), cuBLASLt
// multiplies them with the normalised embeddings, and one pass reduces these products to a maximum
// and a sum for each sample. backward() recomputes the products or uses kept ones, converts them
// to factors in one pass, computes two more products, and updates the rows in one pass.

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/cuda/margin/centre_rows.h"
#include "kernels/cuda/margin/margin_plan.h"
#include "kernels/cuda/margin/margin_samples.h"
#include "kernels/cuda/margin/margin_tile.h"
#include "kernels/cuda/margin/row_lists.h"
#include "kernels/cuda/margin/teacher_logits.h"
#include "kernels/cuda/ops/cuda_ops.h"

namespace pfc {
namespace {

/// Active rows [begin, begin + rows), those of whole classes.
struct Tile {
  std::int64_t number = 0, begin = 0, rows = 0;
  [[nodiscard]] std::int64_t padded() const { return MarginPlan::padded_rows(rows); }
};

/// A tile's rows as operand of a matrix product.
struct TileRows {
  Tensor operand;              // [padded, padded D]
  const float* inverse_norms;  // [rows]
};

/// Gradients to compute in a backward pass over the tiles.
struct Wanted {
  bool embeddings = true, centres = true;
};

class CudaMarginSoftmax : public MarginSoftmax {
 public:
  CudaMarginSoftmax(CudaOps& ops, const MarginSoftmaxOptions& options, const CentreTable& table)
      : MarginSoftmax(options, table),
        ops_(ops),
        device_(ops.device()),
        operand_type_(options.bf16_products ? DType::kBFloat16 : DType::kFloat32),
        rows_(device_, table_, options),
        row_updates_(table_, options),
        batch_lists_(ops),
        move_lists_(ops),
        memory_(ops),
        kept_(ops) {}

  void move(const Update& update) override;

 private:
  void run_compute_inverse_norms(std::int64_t begin, std::int64_t end) override {
    rows_.compute_inverse_norms(begin, end);
    row_updates_.reset();
  }
  void run_find_targets(const Batch& batch, const Tensor& cosines) override;
  void run_forward(const Batch& batch, const Tensor& statistics, const Tensor& logits) override;
  void run_merge_parts(const Tensor& parts) override;
  double run_combine(const Tensor& statistics, const Tensor& logits) override;
  void run_backward(double gradient_scale, const Tensor& d_embeddings,
                    const Update& update) override;
  void run_backward_embeddings(double gradient_scale, const Tensor& d_embeddings) override;
  void run_backward_accumulate(double gradient_scale, const Tensor& d_embeddings,
                               const Tensor& gradients,
                               std::span<const std::int64_t> slots) override;
  void run_update(std::span<const std::int64_t> classes, std::span<const std::int64_t> slots,
                  const Tensor& gradients, const Update& update) override;
  void run_settle(std::span<const std::int64_t> classes) override;
  void run_target_cosines(std::span<float> cosines) override;

  void prepare(const Batch& batch);
  void point_into_memory(const MarginPlan& plan);
  void send_batch_lists(const Batch& batch);
  void plan_kept_tiles();
  template <typename F>  // void(const Positive&, std::size_t number, std::int64_t slot)
  void each_positive(const F& f) const;
  [[nodiscard]] std::int64_t active_rows() const {
    return std::ssize(batch_.classes) * options_.sub_centres;
  }
  const std::int32_t* add_places(std::span<const std::int64_t> slots);

  template <typename F>  // void(const Tile&)
  void each_tile(const F& f) const;
  TileRows rows_of(const Tile& tile) const;
  [[nodiscard]] float* products_of(const Tile& tile) const;
  void multiply(const Tile& tile, const TileRows& rows, float* products) const;
  [[nodiscard]] ProductTile describe(const Tile& tile, const TileRows& rows) const;
  [[nodiscard]] SubCentreProducts describe_centres(const Tile& tile, const TileRows& rows) const;
  [[nodiscard]] ProductTile reduce_to_classes(const Tile& tile, const TileRows& rows) const;
  void normalise_teacher();
  [[nodiscard]] DistilledProducts find_teacher_cosines(const Tile& tile,
                                                       const TileRows& rows) const;
  void make_gradients(const Tile& tile, const TileRows& rows, Wanted wanted) const;
  template <typename Sink>  // void(const Tile&, const CentreGradients&)
  void backward_tiles(Wanted wanted, const Sink& sink) const;
  void begin_backward(double gradient_scale);
  void move_centres(Wanted wanted, const Update& update);

  template <typename T>
  [[nodiscard]] T* at(std::int64_t offset) const {
    return reinterpret_cast<T*>(memory_.data() + offset);
  }

  CudaOps& ops_;
  const CudaDevice& device_;
  const DType operand_type_;
  const CudaCentreRows rows_;
  RowUpdates row_updates_;
  CudaLists batch_lists_, move_lists_;
  GrowingBuffer memory_;  // in the layout of plan_
  GrowingBuffer kept_;    // [kept_tiles_, tile, padded N]: products of the first tiles
  std::int64_t kept_tiles_ = 0;

  // For the current step.
  Batch batch_;
  MarginPlan plan_{{.samples = 1, .dimension = 1}};
  MarginSamples samples_;
  RowList active_;
  const float* hard_above_ = nullptr;  // [padded N], or nullptr
  const float* offsets_ = nullptr;     // [S], or nullptr
  CentreGradients positives_;          // only its lists of positives are set
  LogitStatistics running_;
  Tensor unit_, d_unit_;
  Tensor teacher_unit_;         // [padded N, padded teacher's D]
  float distilled_factor_ = 0;  // of the last backward pass
};

void CudaMarginSoftmax::prepare(const Batch& batch) {
  const Tensor& x = batch.embeddings;
  const std::int64_t n = x.shape[0];
  const std::int64_t d = rows_.dimension();
  batch_ = batch;
  plan_ = MarginPlan(
      {.samples = n,
       .dimension = d,
       .bf16_products = options_.bf16_products,
       .smoothed = options_.label_smoothing > 0,
       .binary = options_.binary,
       .targets = options_.targets,
       .sub_centres = options_.sub_centres,
       .classes = std::ssize(table_.updated),
       .teacher_dimension = options_.distillation.on() ? options_.distillation.embedding_size : 0,
       .gpu = device_.sizes});
  memory_.reserve(static_cast<std::size_t>(plan_.bytes));
  samples_ = {.samples = n,
              .padded_samples = plan_.padded_samples,
              .dimension = d,
              .padded_dimension = plan_.padded_dimension,
              .embeddings = x.f32(),
              .embedding_size = x.shape[1],
              .most_targets = static_cast<std::int32_t>(options_.targets),
              .sub_centres = options_.sub_centres,
              .binary = options_.binary};
  point_into_memory(plan_);
  send_batch_lists(batch);
  plan_kept_tiles();
}

void CudaMarginSoftmax::point_into_memory(const MarginPlan& plan) {
  samples_.inverse_length = at<double>(plan.inverse_length);
  samples_.angles = at<Angle>(plan.angles);
  samples_.softmax = at<RowSoftmax>(plan.softmax);
  samples_.max = at<float>(plan.max);
  samples_.factor = at<float>(plan.factor);
  if (options_.label_smoothing > 0) samples_.smoothing = at<float>(plan.smoothing);
  if (options_.sub_centres > 1) samples_.target_rows = at<std::int32_t>(plan.target_rows);
  samples_.d_unit = at<float>(plan.d_unit);
  samples_.target_gradients = at<float>(plan.target_gradients);
  if (options_.targets > 1) {
    samples_.target_mean = at<double>(plan.target_mean);
    samples_.all_targets = at<double>(plan.all_targets);
  }
  running_ = {
      .max = at<float>(plan.running_max), .sum = at<double>(plan.running_sum), .slots = plan.slots};
  if (has_second_sum(options_)) running_.second = at<double>(plan.running_second);
  const Shape shape{plan.padded_samples, plan.padded_dimension};
  unit_ = Tensor(at<void>(plan.unit), operand_type_, shape);
  d_unit_ = Tensor(samples_.d_unit, shape);
  teacher_unit_ = Tensor(at<void>(plan.teacher_unit), operand_type_,
                         {plan.padded_samples, plan.padded_teacher});
}

/// Calls f for each positive of the batch, with its slot (MarginSamples::targets).
template <typename F>
void CudaMarginSoftmax::each_positive(const F& f) const {
  const bool several = options_.targets > 1;
  std::vector<std::int64_t> next(several ? static_cast<std::size_t>(samples_.samples) : 0);
  for (std::size_t k = 0; k < batch_.positives.size(); ++k) {
    const Positive& p = batch_.positives[k];
    const std::int64_t row = several ? next[static_cast<std::size_t>(p.sample)]++ : 0;
    f(p, k, row * plan_.padded_samples + p.sample);
  }
}

void CudaMarginSoftmax::send_batch_lists(const Batch& batch) {
  const auto positives = static_cast<std::int64_t>(batch.positives.size());
  row_updates_.plan(batch.classes);
  const std::int64_t ranged = batch.ranges.empty() ? 0 : plan_.padded_samples;
  const std::int64_t hard = batch.hard_above.empty() ? 0 : plan_.padded_samples;
  const std::int64_t slots = options_.targets * plan_.padded_samples;
  batch_lists_.begin(CudaLists::rounded(slots * 4) +
                     CudaLists::rounded(std::ssize(batch.target_shares) * 8) +
                     CudaLists::rounded(ranged * static_cast<std::int64_t>(sizeof(ActiveRange))) +
                     CudaLists::rounded(std::ssize(batch.margins) *
                                        static_cast<std::int64_t>(sizeof(SampleMargin))) +
                     CudaLists::rounded(hard * 4) + 2 * CudaLists::rounded(positives * 4) +
                     CudaLists::rounded(std::ssize(batch.offsets) * 4) +
                     row_updates_.list_bytes(static_cast<std::int64_t>(batch.classes.size())));
  const auto targets = batch_lists_.add<std::int32_t>(slots);
  const auto shares = batch_lists_.add<double>(std::ssize(batch.target_shares));
  const auto ranges = batch_lists_.add<ActiveRange>(ranged);
  const auto margins = batch_lists_.add<SampleMargin>(std::ssize(batch.margins));
  const auto hard_above = batch_lists_.add<float>(hard);
  const auto classes = batch_lists_.add<std::int32_t>(positives);
  const auto places = batch_lists_.add<std::int32_t>(positives);
  const auto offsets = batch_lists_.add<float>(std::ssize(batch.offsets));
  std::ranges::copy(batch.offsets, offsets.host);
  std::fill_n(targets.host, slots, -1);
  std::ranges::copy(batch.target_shares, shares.host);
  std::fill_n(ranges.host, ranged, ActiveRange{});
  std::ranges::copy(batch.ranges, ranges.host);
  std::ranges::copy(batch.margins, margins.host);
  std::fill_n(hard_above.host, hard, 0.f);
  std::ranges::copy(batch.hard_above, hard_above.host);
  each_positive([&](const Positive& p, std::size_t k, std::int64_t slot) {
    targets.host[slot] = classes.host[k] = static_cast<std::int32_t>(p.index);
    places.host[k] = static_cast<std::int32_t>(slot);
  });
  active_ = row_updates_.add_lists(batch_lists_, batch.classes);
  batch_lists_.send();
  samples_.targets = targets.device;
  samples_.target_shares = batch.target_shares.empty() ? nullptr : shares.device;
  samples_.ranges = batch.ranges.empty() ? nullptr : ranges.device;
  offsets_ = batch.offsets.empty() ? nullptr : offsets.device;
  samples_.margins = batch.margins.empty() ? nullptr : margins.device;
  hard_above_ = batch.hard_above.empty() ? nullptr : hard_above.device;
  positives_ = {.stride = plan_.padded_dimension,
                .target_gradients = samples_.target_gradients,
                .positive_classes = classes.device,
                .positive_slots = places.device,
                .positives = static_cast<std::int32_t>(positives),
                .target_rows = samples_.target_rows,
                .sub_centres = options_.sub_centres};
}

// Keeps as many tiles as logits_bytes allows. Reserves a little more than this step needs, because
// the number of sampled classes varies between steps.
void CudaMarginSoftmax::plan_kept_tiles() {
  const std::int64_t bytes = plan_.kept_tile_bytes();
  const std::int64_t tiles = (active_rows() + plan_.tile - 1) / plan_.tile;
  const std::int64_t most = options_.logits_bytes / bytes;
  kept_tiles_ = std::min(tiles, most);
  if (static_cast<std::size_t>(kept_tiles_ * bytes) <= kept_.bytes()) return;
  kept_.reserve(static_cast<std::size_t>(std::min(tiles + tiles / 16, most) * bytes));
}

template <typename F>
void CudaMarginSoftmax::each_tile(const F& f) const {
  const std::int64_t active = active_rows();
  std::int64_t number = 0;
  for (std::int64_t begin = 0; begin < active; begin += plan_.tile, ++number) {
    f(Tile{.number = number, .begin = begin, .rows = std::min(plan_.tile, active - begin)});
  }
}

// Uses the table's memory if the rows are contiguous and up to date there, and need no padding.
TileRows CudaMarginSoftmax::rows_of(const Tile& tile) const {
  const RowList active = active_.from(tile.begin);
  const Shape shape{tile.padded(), plan_.padded_dimension};
  const bool in_a_row = active.rows == nullptr && active.missed == nullptr;
  if (in_a_row && tile.rows == tile.padded()) {
    if (void* const there = rows_.operand(active.first, operand_type_)) {
      return {Tensor(there, operand_type_, shape), rows_.view().inverse_norm + active.first};
    }
  }
  const Tensor gathered(at<void>(plan_.rows), operand_type_, shape);
  float* const inverse_norms = at<float>(plan_.inverse_norms);
  rows_.gather(active, tile.rows, gathered, inverse_norms);
  return {gathered, inverse_norms};
}

float* CudaMarginSoftmax::products_of(const Tile& tile) const {
  if (tile.number >= kept_tiles_) return at<float>(plan_.products);
  return reinterpret_cast<float*>(kept_.data() + tile.number * plan_.kept_tile_bytes());
}

void CudaMarginSoftmax::multiply(const Tile& tile, const TileRows& rows, float* products) const {
  const std::int64_t n = plan_.padded_samples;
  ops_.gemm({.m = tile.padded(),
             .n = n,
             .k = plan_.padded_dimension,
             .transpose_b = true,
             .a = rows.operand,
             .b = unit_,
             .c = Tensor(products, {tile.padded(), n})});
}

ProductTile CudaMarginSoftmax::describe(const Tile& tile, const TileRows& rows) const {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const double threshold = options_.interclass_filtering_threshold;
  const std::int64_t k = options_.sub_centres, begin = tile.begin / k;
  return {.begin = begin,
          .classes = tile.rows / k,
          .samples = plan_.padded_samples,
          .products = k == 1 ? products_of(tile) : at<float>(plan_.cosines),
          .inverse_norms = k == 1 ? rows.inverse_norms : nullptr,
          .offsets = offsets_ == nullptr ? nullptr : offsets_ + begin,
          .offset = batch_.offset,
          .targets = samples_.targets,
          .most_targets = samples_.most_targets,
          .ranges = samples_.ranges,
          .hard_above = hard_above_,
          .hardness = batch_.hardness,
          .smoothed = options_.label_smoothing > 0,
          .smoothing = samples_.smoothing,
          .binary = options_.binary,
          .scale = static_cast<float>(options_.scale),
          .limit = is_plain(options_) ? kInfinity : 1.f,
          .threshold = threshold > 0 ? static_cast<float>(threshold) : kInfinity};
}

SubCentreProducts CudaMarginSoftmax::describe_centres(const Tile& tile,
                                                      const TileRows& rows) const {
  return {.classes = tile.rows / options_.sub_centres,
          .sub_centres = options_.sub_centres,
          .samples = plan_.padded_samples,
          .products = products_of(tile),
          .inverse_norms = rows.inverse_norms};
}

/// Returns the tile's products, or with several centres a class, the largest cosine of each class.
ProductTile CudaMarginSoftmax::reduce_to_classes(const Tile& tile, const TileRows& rows) const {
  if (options_.sub_centres > 1) {
    largest_cosines(device_, describe_centres(tile, rows), at<float>(plan_.cosines));
  }
  return describe(tile, rows);
}

/// Computes the teacher's cosines of the tile. REQUIRES: the network's products are there.
DistilledProducts CudaMarginSoftmax::find_teacher_cosines(const Tile& tile,
                                                          const TileRows& rows) const {
  const RowList active = active_.from(tile.begin);
  const std::int64_t n = plan_.padded_samples, d = plan_.padded_teacher;
  Tensor operand(at<void>(plan_.teacher_rows), operand_type_, {tile.padded(), d});
  if (active.rows == nullptr && tile.rows == tile.padded() && teacher_.shape[1] == d) {
    operand.data = static_cast<std::byte*>(teacher_.data) +
                   active.first * d * static_cast<std::int64_t>(size_of(operand_type_));
  } else {
    gather_teacher(device_, teacher_, active, tile.rows, operand);
  }
  auto* const cosines = at<float>(plan_.teacher_cosines);
  ops_.gemm({.m = tile.padded(),
             .n = n,
             .k = d,
             .transpose_b = true,
             .a = operand,
             .b = teacher_unit_,
             .c = Tensor(cosines, {tile.padded(), n})});
  return {.classes = tile.rows,
          .samples = n,
          .products = products_of(tile),
          .inverse_norms = rows.inverse_norms,
          .cosines = cosines,
          .scale = static_cast<float>(options_.scale / options_.distillation.temperature)};
}

void CudaMarginSoftmax::normalise_teacher() {
  const Tensor& x = batch_.teacher;
  normalise_embeddings(device_,
                       {.samples = x.shape[0],
                        .padded_samples = plan_.padded_samples,
                        .dimension = x.shape[1],
                        .padded_dimension = plan_.padded_teacher,
                        .embeddings = x.f32(),
                        .embedding_size = x.shape[1],
                        .inverse_length = at<double>(plan_.teacher_length)},
                       teacher_unit_);
}

void CudaMarginSoftmax::run_find_targets(const Batch& batch, const Tensor& cosines) {
  prepare(batch);
  find_angles(device_, samples_, rows_, active_);
  write_target_cosines(device_, samples_, cosines.f32());
}

void CudaMarginSoftmax::run_forward(const Batch& batch, const Tensor& statistics,
                                    const Tensor& logits) {
  prepare(batch);
  normalise_embeddings(device_, samples_, unit_);
  find_angles(device_, samples_, rows_, active_);
  if (options_.distillation.on()) normalise_teacher();
  each_tile([&](const Tile& tile) {
    const TileRows rows = rows_of(tile);
    multiply(tile, rows, products_of(tile));
    if (options_.distillation.on()) {
      fold_distilled(device_, find_teacher_cosines(tile, rows), at<double>(plan_.distilled_sums),
                     plan_.slots, tile.number == 0);
    }
    fold_tile(device_, reduce_to_classes(tile, rows), running_, tile.number == 0);
  });
  if (batch.classes.empty()) running_.slots = 0;
  finish_statistics(device_, samples_, running_, options_,
                    static_cast<RowStatistics*>(statistics.data));
  if (logits) {
    sum_logits(device_, samples_, running_, static_cast<const RowStatistics*>(statistics.data),
               std::ssize(batch.classes), logits.f32());
  }
  if (options_.distillation.on()) {
    write_distilled_sums(device_, at<double>(plan_.distilled_sums), running_.slots,
                         samples_.samples, plan_.padded_samples,
                         logits.f32() + distilled_row(options_) * samples_.samples);
  }
}

void CudaMarginSoftmax::run_target_cosines(std::span<float> cosines) {
  std::vector<Angle> angles(static_cast<std::size_t>(options_.targets * samples_.padded_samples));
  const auto bytes = static_cast<std::int64_t>(angles.size() * sizeof(Angle));
  ops_.copy_to_host(angles.data(), Tensor(samples_.angles, DType::kUInt8, {bytes}));
  for (const Positive& p : batch_.positives) cosines[static_cast<std::size_t>(p.sample)] = 0;
  each_positive([&](const Positive& p, std::size_t, std::int64_t slot) {
    cosines[static_cast<std::size_t>(p.sample)] += static_cast<float>(
        target_share(batch_, p.sample) * angles[static_cast<std::size_t>(slot)].cos);
  });
}

void CudaMarginSoftmax::run_merge_parts(const Tensor& parts) {
  merge_statistics(device_, static_cast<RowStatistics*>(parts.data), parts.shape[0],
                   parts.shape[1]);
}

double CudaMarginSoftmax::run_combine(const Tensor& statistics, const Tensor& logits) {
  auto* const loss = at<double>(plan_.loss);
  combine_statistics(device_, samples_,
                     {.rows = static_cast<const RowStatistics*>(statistics.data),
                      .logits = logits ? logits.f32() : nullptr},
                     options_.label_smoothing, loss);
  if (options_.distillation.on()) {
    combine_distilled(device_, logits.f32() + distilled_row(options_) * samples_.samples,
                      samples_.samples, plan_.padded_samples, options_.distillation.temperature,
                      at<float>(plan_.inverse_sums), loss + 2);
  }
  ops_.device().fetch(loss, 3 * sizeof(double));
  const auto n = static_cast<double>(samples_.samples);
  threshold_gradient_ = device_.answers.as<double>()[1] / n;
  if (options_.distillation.on()) logits_loss_ = device_.answers.as<double>()[2] / n;
  return device_.answers.as<double>()[0] / n;
}

// Computes d_unit += transposed factors * rows, and gradients = factors * unit.
void CudaMarginSoftmax::make_gradients(const Tile& tile, const TileRows& rows,
                                       Wanted wanted) const {
  const std::int64_t n = plan_.padded_samples;
  const std::int64_t d = plan_.padded_dimension;
  const Tensor factors(at<void>(plan_.factors), operand_type_, {tile.padded(), n});
  const ProductTile of_classes = reduce_to_classes(tile, rows);
  if (options_.sub_centres == 1) {
    make_factors(device_, of_classes, samples_.max, samples_.factor, factors);
  } else {
    auto* const cosines = at<float>(plan_.cosines);
    make_factors(device_, of_classes, samples_.max, samples_.factor,
                 Tensor(cosines, {of_classes.classes, n}));
    spread_factors(device_, describe_centres(tile, rows), cosines, factors);
  }
  if (options_.distillation.on()) {
    add_distilled_factors(device_, find_teacher_cosines(tile, rows), at<float>(plan_.inverse_sums),
                          distilled_factor_, factors);
  }
  if (wanted.embeddings) {
    ops_.gemm({.m = n,
               .n = d,
               .k = tile.padded(),
               .transpose_a = true,
               .a = factors,
               .b = rows.operand,
               .beta = 1.f,
               .c = d_unit_});
  }
  if (!wanted.centres) return;
  ops_.gemm({.m = tile.padded(),
             .n = d,
             .k = n,
             .a = factors,
             .b = unit_,
             .c = Tensor(at<float>(plan_.gradients), {tile.padded(), d})});
}

template <typename Sink>
void CudaMarginSoftmax::backward_tiles(Wanted wanted, const Sink& sink) const {
  each_tile([&](const Tile& tile) {
    const TileRows rows = rows_of(tile);
    if (tile.number >= kept_tiles_) multiply(tile, rows, products_of(tile));
    make_gradients(tile, rows, wanted);
    if (!wanted.centres) return;
    CentreGradients gradients = positives_;
    gradients.count = tile.rows;
    gradients.gradients = at<float>(plan_.gradients);
    gradients.inverse_norms = is_plain(options_) ? nullptr : rows.inverse_norms;
    gradients.first_row = tile.begin;
    sink(tile, gradients);
  });
}

void CudaMarginSoftmax::begin_backward(double gradient_scale) {
  begin_gradients(device_, samples_, rows_, active_, options_, gradient_scale);
  distilled_factor_ = static_cast<float>(
      distilled_factor(options_.distillation, options_.scale, gradient_scale, samples_.samples));
}

void CudaMarginSoftmax::run_backward(double gradient_scale, const Tensor& d_embeddings,
                                     const Update& update) {
  begin_backward(gradient_scale);
  move_centres({}, update);
  finish_gradients(device_, samples_, options_, gradient_scale, d_embeddings.f32());
}

void CudaMarginSoftmax::run_backward_embeddings(double gradient_scale, const Tensor& d_embeddings) {
  begin_backward(gradient_scale);
  backward_tiles({.centres = false}, [](const Tile&, const CentreGradients&) {});
  finish_gradients(device_, samples_, options_, gradient_scale, d_embeddings.f32());
}

void CudaMarginSoftmax::move(const Update& update) { move_centres({.embeddings = false}, update); }

void CudaMarginSoftmax::move_centres(Wanted wanted, const Update& update) {
  backward_tiles(wanted, [&](const Tile& tile, const CentreGradients& gradients) {
    rows_.move(active_.from(tile.begin), gradients, update);
  });
  row_updates_.moved(batch_.classes, update);
}

/// Adds the list of the rows of gradients. A slot is for a class, and has a row for each centre of
/// the class.
const std::int32_t* CudaMarginSoftmax::add_places(std::span<const std::int64_t> slots) {
  const std::int64_t k = options_.sub_centres;
  const auto places = move_lists_.add<std::int32_t>(std::ssize(slots) * k);
  std::int32_t* next = places.host;
  for (const std::int64_t slot : slots) {
    for (std::int64_t row = slot * k; row < (slot + 1) * k; ++row) {
      *next++ = static_cast<std::int32_t>(row);
    }
  }
  return places.device;
}

void CudaMarginSoftmax::run_backward_accumulate(double gradient_scale, const Tensor& d_embeddings,
                                                const Tensor& gradients,
                                                std::span<const std::int64_t> slots) {
  move_lists_.begin(CudaLists::rounded(active_rows() * 4));
  const std::int32_t* const places = add_places(slots);
  move_lists_.send();
  begin_backward(gradient_scale);
  backward_tiles({}, [&](const Tile& tile, const CentreGradients& part) {
    rows_.add_gradients(active_.from(tile.begin), part, gradients.f32(), places + tile.begin);
  });
  finish_gradients(device_, samples_, options_, gradient_scale, d_embeddings.f32());
}

void CudaMarginSoftmax::run_update(std::span<const std::int64_t> classes,
                                   std::span<const std::int64_t> slots, const Tensor& gradients,
                                   const Update& update) {
  const std::int64_t count = std::ssize(classes) * options_.sub_centres;
  row_updates_.plan(classes);
  move_lists_.begin(CudaLists::rounded(count * 4) + row_updates_.list_bytes(std::ssize(classes)));
  const std::int32_t* const places = add_places(slots);
  const RowList active = row_updates_.add_lists(move_lists_, classes);
  move_lists_.send();
  rows_.move(
      active,
      {.count = count, .gradients = gradients.f32(), .stride = rows_.dimension(), .slots = places},
      update);
  row_updates_.moved(classes, update);
}

void CudaMarginSoftmax::run_settle(std::span<const std::int64_t> classes) {
  row_updates_.plan(classes);
  move_lists_.begin(row_updates_.list_bytes(std::ssize(classes)));
  const RowList rows = row_updates_.add_lists(move_lists_, classes);
  move_lists_.send();
  if (rows.missed == nullptr) return;
  rows_.settle(rows, std::ssize(classes) * options_.sub_centres, row_updates_.settled(classes));
}

}  // namespace

std::unique_ptr<MarginSoftmax> make_cuda_margin_softmax(Ops& ops,
                                                        const MarginSoftmaxOptions& options,
                                                        const CentreTable& table) {
  auto* const cuda = dynamic_cast<CudaOps*>(&ops);
  check(cuda != nullptr, "margin softmax: expected the Ops of a GPU");
  return std::make_unique<CudaMarginSoftmax>(*cuda, options, table);
}

}  // namespace pfc
