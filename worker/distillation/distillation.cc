#include "worker/distillation/distillation.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <utility>

#include "common/error.h"

namespace pfc {
namespace {

OwnedTensor tensor_of(Ops& ops, std::size_t bytes, const Shape& shape) {
  return bytes > 0 ? OwnedTensor(ops, shape) : OwnedTensor();
}

}  // namespace

DistillationOptions distillation_options(const JobConfig& job, int workers,
                                         std::int64_t teacher_size) {
  return {.file = job.teacher,
          .kind = job.distill_embeddings,
          .weight = job.distill_weight,
          .batch = job.batch_size,
          .embedding_size = job.embedding_size,
          .samples = job.batch_size * workers * job.gradient_acc,
          .teacher_size = teacher_size,
          .gathered = job.distill_logits > 0 ? job.batch_size * workers : 0};
}

DType teacher_activations(const JobConfig& job, DType job_type, bool has_bf16) {
  if (job.teacher_precision == Precision::kFp32) return DType::kFloat32;
  if (job.teacher_precision == Precision::kBf16 && !has_bf16) {
    throw InputError(
        "teacher_precision: found bf16, but this device lacks the instructions for it; set it to "
        "\"auto\" or \"fp32\"");
  }
  const bool bf16 = job.teacher_precision == Precision::kBf16 || job_type == DType::kFloat32;
  return bf16 && has_bf16 ? DType::kBFloat16 : job_type;
}

Distillation::Bytes Distillation::bytes(const DistillationOptions& o) {
  const std::size_t rows = static_cast<std::size_t>(o.batch) * sizeof(float);
  const std::size_t all = rows * static_cast<std::size_t>(o.embedding_size);
  const bool cosine = o.kind == DistillEmbeddings::kCosine;
  const bool none = o.kind == DistillEmbeddings::kNone;
  return {.difference = none ? 0 : all,
          .unit = cosine ? all : 0,
          .inverse_norms = cosine ? rows : 0,
          .loss = none ? 0 : sizeof(float),
          .all = static_cast<std::size_t>(o.gathered * o.teacher_size) * sizeof(float)};
}

Distillation::Distillation(Ops& ops, std::unique_ptr<Backbone> teacher, DType activations,
                           const DistillationOptions& options)
    : ops_(ops),
      teacher_(std::move(teacher)),
      activations_(activations),
      options_(options),
      difference_(
          tensor_of(ops, bytes(options).difference, {options.batch, options.embedding_size})),
      unit_(tensor_of(ops, bytes(options).unit, {options.batch, options.embedding_size})),
      inverse_norms_(tensor_of(ops, bytes(options).inverse_norms, {options.batch})),
      loss_(tensor_of(ops, bytes(options).loss, {1})),
      all_(tensor_of(ops, bytes(options).all, {options.gathered, options.teacher_size})) {
  const WithActivations teachers(ops, activations);
  if (!teacher_->operands()) return;
  ops_.convert(teacher_->weights.flat(), teacher_->operands());
  teacher_->operands_are_current = true;  // its weights never change
}

void Distillation::compare(const Tensor& images, const Tensor& embeddings) {
  {
    const WithActivations teachers(ops_, activations_);
    teacher_->read(images);
    theirs_ = teacher_->forward(teacher_->input(), /*training=*/false, 0);
  }
  if (!compares_embeddings()) return;
  if (cosine()) {
    ops_.normalise_rows(theirs_, difference_, inverse_norms_);
    ops_.normalise_rows(embeddings, unit_, inverse_norms_);  // norms of embeddings
  }
  ops_.scale(cosine() ? *difference_ : theirs_, -1.f, difference_);
  ops_.add(difference_, cosine() ? *unit_ : embeddings, difference_);
}

Tensor Distillation::gather(Comm& comm) {
  if (compares_logits()) comm.all_gather(theirs_, all_);
  return all_;
}

double Distillation::loss_sum() {
  const double squares = ops_.sum_of_squares({difference_->f32(), {difference_->elements()}});
  // For vectors of length 1, 1 - u . v = |u - v|^2 / 2, without cancellation.
  return cosine() ? squares / 2 : squares / static_cast<double>(options_.embedding_size);
}

void Distillation::add_gradient(const Tensor& d_embeddings) {
  const double factor = cosine() ? 1 : 2 / static_cast<double>(options_.embedding_size);
  const double share = options_.weight / static_cast<double>(options_.samples);
  if (cosine()) ops_.normalise_rows_backward(difference_, unit_, inverse_norms_, difference_);
  ops_.scale(difference_, static_cast<float>(factor * share), difference_);
  ops_.add(d_embeddings, difference_, d_embeddings);
}

double Distillation::step_loss(Comm& comm, double sum, std::int64_t step) {
  auto loss = static_cast<float>(sum / static_cast<double>(options_.samples));
  ops_.copy_to_device(loss_, &loss);
  comm.all_reduce_sum(loss_);
  ops_.copy_to_host(&loss, loss_);
  comm.throw_if_failed();
  expect_finite(double{loss}, step);
  return loss;
}

void Distillation::expect_finite(double loss, std::int64_t step) const {
  if (std::isfinite(loss)) return;
  throw InputError(fmt::format(
      "teacher: {}: at step {} the embeddings of the network or of its teacher are not finite or "
      "too large; lower lr, use precision fp32 or bf16, or take the file of a trained model",
      options_.file.string(), step));
}

}  // namespace pfc
