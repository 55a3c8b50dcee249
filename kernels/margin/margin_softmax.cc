// Argument checks of the margin softmax, common to all devices.

#include "kernels/margin/margin_softmax.h"

#include <string>

#include "kernels/tensor_check.h"

namespace pfc {
namespace {

constexpr auto kStatisticsBytes = static_cast<std::int64_t>(sizeof(RowStatistics));

constexpr const char* kTable = "margin_softmax.table";

/// Checks that one-byte numbers have a scale for each centre.
void check_scales(const MarginSoftmaxOptions& o, const char* name, const ScaledRows& t) {
  if (!is_one_byte(t.dtype)) return;
  check(o.optimizer == OptimizerKind::kSgd && !is_plain(o),
        "margin_softmax.table: one-byte numbers exclude AdamW and a bias");
  expect({kTable, name, t.scales}, DType::kFloat32, {t.shape[0], o.sub_centres});
}

void check_table(const MarginSoftmaxOptions& o, const CentreTable& t) {
  constexpr DType kF32 = DType::kFloat32, kBf16 = DType::kBFloat16;
  check(t.weight.shape.rank() == 2, "margin_softmax.table: weight must be [R, D]");
  const Shape shape = t.weight.shape;
  expect({kTable, "weight", t.weight}, {kF32, kBf16, DType::kInt8, DType::kFloat8}, shape);
  check_scales(o, "weight's scales", t.weight);
  if (t.momentum || o.optimizer == OptimizerKind::kAdamW || o.momentum != 0) {
    expect({kTable, "momentum", t.momentum}, {kF32, kBf16, DType::kInt8}, shape);
    check_scales(o, "momentum's scales", t.momentum);
  }
  if (o.optimizer == OptimizerKind::kAdamW) {
    expect({kTable, "second", t.second}, t.momentum.dtype, shape);
  } else {
    check(!t.second, "margin_softmax.table: SGD has no second moment");
  }
  check(o.sub_centres >= 1 && shape[1] % o.sub_centres == 0 && (o.sub_centres == 1 || !is_plain(o)),
        "margin_softmax.table: a row must hold whole centres");
  expect({kTable, "inverse_norm", t.inverse_norm}, kF32, {shape[0] * o.sub_centres});
  check(t.updated.size() == static_cast<std::size_t>(shape[0]),
        "margin_softmax.table: updated needs one element for each row");
  check(t.history != nullptr && t.history->optimizer() == o.optimizer,
        "margin_softmax.table: needs a history of this optimizer's updates");
}

CentreTable with_a_row_per_centre(const MarginSoftmaxOptions& o, CentreTable table) {
  check_table(o, table);
  const std::int64_t k = o.sub_centres, rows = table.weight.shape[0], d = table.weight.shape[1] / k;
  for (ScaledRows* t : {&table.weight, &table.momentum, &table.second}) {
    if (*t) t->shape = {rows * k, d};
    if (t->scales) t->scales.shape = {rows * k, 1};
  }
  return table;
}

void check_slots(const std::string& op, std::size_t slots, std::size_t classes) {
  check(slots == classes, op + ": found " + std::to_string(slots) +
                              " slots, expected one for each of " + std::to_string(classes) +
                              " classes");
}

}  // namespace

MarginSoftmax::MarginSoftmax(const MarginSoftmaxOptions& options, const CentreTable& table)
    : options_(options), table_(with_a_row_per_centre(options, table)) {
  check(options.targets == 1 || !options.sample_margins,
        "margin_softmax: samples with several targets have no margins of their own");
  check(!options.binary || (options.label_smoothing == 0 && options.targets == 1),
        "margin_softmax: binary excludes label_smoothing and several targets");
  check(!options.distillation.on() || (!is_plain(options) && options.sub_centres == 1 &&
                                       !options.ranges && options.distillation.embedding_size > 0),
        "margin_softmax: distillation excludes plain softmaxes, sub-centres and ranges");
}

void MarginSoftmax::use_teacher(const Tensor& centres) {
  check(options_.distillation.on(), "margin_softmax.use_teacher: needs the option `distillation`");
  expect({"margin_softmax.use_teacher", "centres", centres},
         options_.bf16_products ? DType::kBFloat16 : DType::kFloat32,
         {table_.weight.shape[0], options_.distillation.embedding_size});
  teacher_ = centres;
}

std::int64_t MarginSoftmax::embedding_size() const {
  return table_.weight.shape[1] - int{is_plain(options_)};
}

void MarginSoftmax::check_classes(const char* op, std::span<const std::int64_t> classes) const {
  const std::int64_t first = table_.first_class, end = first + std::ssize(table_.updated);
  if (classes.empty() || (classes.front() >= first && classes.back() < end)) return;
  check(false, std::string(op) + ": classes " + std::to_string(classes.front()) + " to " +
                   std::to_string(classes.back()) + " are not within this worker's " +
                   std::to_string(first) + " to " + std::to_string(end - 1));
}

void MarginSoftmax::check_gradient(const char* op, const Tensor& d_embeddings) const {
  check(batch_samples_ > 0, std::string(op) + ": forward() comes first");
  expect({op, "d_embeddings", d_embeddings}, DType::kFloat32, {batch_samples_, embedding_size()});
}

void MarginSoftmax::check_logits(const char* op, const Tensor& logits) const {
  const std::int64_t numbers = summed_numbers(options_);
  check((numbers > 0) == bool{logits},
        "margin_softmax: logits are needed with label_smoothing, several targets, binary or "
        "distillation, and must be null otherwise");
  if (logits) expect({op, "logits", logits}, DType::kFloat32, {numbers, batch_samples_});
}

void MarginSoftmax::check_batch(const char* op, const Batch& batch) const {
  const std::int64_t n = batch.embeddings.shape[0];
  check(n > 0, std::string(op) + ": there are no embeddings");
  expect({op, "embeddings", batch.embeddings}, DType::kFloat32, {n, embedding_size()});
  check_classes(op, batch.classes);
  check(batch.positives.size() <= static_cast<std::size_t>(n * options_.targets),
        std::string(op) + ": more positives than the samples may have targets");
  if (!options_.distillation.on()) return;
  check(bool{teacher_}, std::string(op) + ": use_teacher() comes first");
  expect({op, "teacher", batch.teacher}, DType::kFloat32,
         {n, options_.distillation.embedding_size});
}

void MarginSoftmax::find_targets(const Batch& batch, const Tensor& cosines) {
  constexpr const char* kOp = "margin_softmax.find_targets";
  check_batch(kOp, batch);
  expect({kOp, "cosines", cosines}, DType::kFloat32, {batch.embeddings.shape[0]});
  run_find_targets(batch, cosines);
}

void MarginSoftmax::forward(const Batch& batch, const Tensor& statistics, const Tensor& logits) {
  constexpr const char* kOp = "margin_softmax.forward";
  check_batch(kOp, batch);
  const std::int64_t n = batch.embeddings.shape[0];
  expect({kOp, "statistics", statistics}, DType::kUInt8, {n, kStatisticsBytes});
  check(
      batch.ranges.empty() ||
          (options_.ranges && batch.ranges.size() == static_cast<std::size_t>(n)),
      "margin_softmax.forward: expected a range for each sample with the option `ranges`, or none");
  check(batch.offsets.empty() || (options_.offsets && batch.offsets.size() == batch.classes.size()),
        "margin_softmax.forward: expected an offset for each class with the option `offsets`, or "
        "none");
  check(batch.offsets.empty() || batch.offset == 0,
        "margin_softmax.forward: offsets exclude an offset for all classes");
  check(
      batch.margins.size() == (options_.sample_margins ? static_cast<std::size_t>(n) : 0),
      "margin_softmax.forward: expected a margin for each sample with `sample_margins`, else none");
  check(
      batch.target_shares.size() == (options_.targets > 1 ? static_cast<std::size_t>(n) : 0),
      "margin_softmax.forward: expected a target share for each sample if targets > 1, else none");
  check(batch.hard_above.size() == (options_.hard_negatives ? static_cast<std::size_t>(n) : 0),
        "margin_softmax.forward: expected hard_above for each sample with `hard_negatives`, else "
        "none");
  batch_samples_ = n;
  batch_classes_ = batch.classes.size();
  check_logits(kOp, logits);
  run_forward(batch, statistics, logits);
}

void MarginSoftmax::target_cosines(std::span<float> cosines) {
  check(batch_samples_ > 0, "margin_softmax.target_cosines: forward() comes first");
  check(cosines.size() == static_cast<std::size_t>(batch_samples_),
        "margin_softmax.target_cosines: needs one element for each sample");
  run_target_cosines(cosines);
}

void MarginSoftmax::merge_parts(const Tensor& parts) {
  expect({"margin_softmax.merge_parts", "parts", parts}, DType::kUInt8,
         {parts.shape[0], parts.shape[1], kStatisticsBytes});
  check(parts.shape[0] > 0 && parts.shape[1] > 0,
        "margin_softmax.merge_parts: parts must have workers and samples");
  run_merge_parts(parts);
}

double MarginSoftmax::combine(const Tensor& statistics, const Tensor& logits) {
  check(batch_samples_ > 0, "margin_softmax.combine: forward() comes first");
  expect({"margin_softmax.combine", "statistics", statistics}, DType::kUInt8,
         {batch_samples_, kStatisticsBytes});
  check_logits("margin_softmax.combine", logits);
  return run_combine(statistics, logits);
}

void MarginSoftmax::backward(double gradient_scale, const Tensor& d_embeddings,
                             const Update& update) {
  check_gradient("margin_softmax.backward", d_embeddings);
  run_backward(gradient_scale, d_embeddings, update);
}

void MarginSoftmax::backward_embeddings(double gradient_scale, const Tensor& d_embeddings) {
  check_gradient("margin_softmax.backward_embeddings", d_embeddings);
  run_backward_embeddings(gradient_scale, d_embeddings);
}

void MarginSoftmax::backward_accumulate(double gradient_scale, const Tensor& d_embeddings,
                                        const Tensor& gradients,
                                        std::span<const std::int64_t> slots) {
  constexpr const char* kOp = "margin_softmax.backward_accumulate";
  check_gradient(kOp, d_embeddings);
  expect_columns({kOp, "gradients", gradients}, DType::kFloat32, centre_size());
  check_slots(kOp, slots.size(), batch_classes_);
  run_backward_accumulate(gradient_scale, d_embeddings, gradients, slots);
}

void MarginSoftmax::update(std::span<const std::int64_t> classes,
                           std::span<const std::int64_t> slots, const Tensor& gradients,
                           const Update& update) {
  constexpr const char* kOp = "margin_softmax.update";
  check_classes(kOp, classes);
  expect_columns({kOp, "gradients", gradients}, DType::kFloat32, centre_size());
  check_slots(kOp, slots.size(), classes.size());
  run_update(classes, slots, gradients, update);
}

void MarginSoftmax::settle(std::span<const std::int64_t> classes) {
  check_classes("margin_softmax.settle", classes);
  run_settle(classes);
}

DType weight_type(CentrePrecision p) {
  if (p == CentrePrecision::kInt8) return DType::kInt8;
  if (p == CentrePrecision::kFp8) return DType::kFloat8;
  return p == CentrePrecision::kBf16 ? DType::kBFloat16 : DType::kFloat32;
}

DType momentum_type(CentrePrecision p) {
  if (is_one_byte(p)) return DType::kInt8;
  return p == CentrePrecision::kFp32 ? DType::kFloat32 : DType::kBFloat16;
}

CentrePrecision precision_of(const CentreTable& t) {
  using enum CentrePrecision;
  check(!t.second || t.second.dtype == t.momentum.dtype, "margin softmax: moments differ in type");
  for (const CentrePrecision p : {kFp32, kBf16Momentum, kBf16, kInt8, kFp8}) {
    const bool same_momentum = !t.momentum || t.momentum.dtype == momentum_type(p);
    if (t.weight.dtype == weight_type(p) && same_momentum) return p;
  }
  check(false, "margin softmax: no precision has these types of centres and momentum");
  return kFp32;
}

SgdOptions sgd_options(const MarginSoftmaxOptions& o, const MarginSoftmax::Update& update) {
  return {.lr = static_cast<float>(update.lr),
          .momentum = static_cast<float>(o.momentum),
          .weight_decay = static_cast<float>(o.weight_decay)};
}

PastUpdate past_update(const MarginSoftmaxOptions& o, const MarginSoftmax::Update& update) {
  const bool sgd = o.optimizer == OptimizerKind::kSgd;
  return {.lr = static_cast<float>(update.lr),
          .momentum_or_number =
              sgd ? static_cast<float>(o.momentum) : static_cast<float>(update.number),
          .weight_decay = static_cast<float>(o.weight_decay)};
}

}  // namespace pfc
