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

DistillationOptions distillation_options(const JobConfig& job, int workers) {
  return {.file = job.teacher,
          .kind = job.distill_embeddings,
          .weight = job.distill_weight,
          .batch = job.batch_size,
          .embedding_size = job.embedding_size,
          .samples = job.batch_size * workers * job.gradient_acc};
}

Distillation::Bytes Distillation::bytes(const DistillationOptions& o) {
  const std::size_t rows = static_cast<std::size_t>(o.batch) * sizeof(float);
  const std::size_t all = rows * static_cast<std::size_t>(o.embedding_size);
  const bool cosine = o.kind == DistillEmbeddings::kCosine;
  return {.difference = all,
          .unit = cosine ? all : 0,
          .inverse_norms = cosine ? rows : 0,
          .loss = sizeof(float)};
}

Distillation::Distillation(Ops& ops, std::unique_ptr<Backbone> teacher,
                           const DistillationOptions& options)
    : ops_(ops),
      teacher_(std::move(teacher)),
      options_(options),
      difference_(ops, {options.batch, options.embedding_size}),
      unit_(tensor_of(ops, bytes(options).unit, difference_->shape)),
      inverse_norms_(tensor_of(ops, bytes(options).inverse_norms, {options.batch})),
      loss_(ops, {1}) {
  if (!teacher_->operands()) return;
  ops_.convert(teacher_->weights.flat(), teacher_->operands());
  teacher_->operands_are_current = true;  // its weights never change
}

void Distillation::compare(const Tensor& images, const Tensor& embeddings) {
  teacher_->read(images);
  const Tensor theirs = teacher_->forward(teacher_->input(), /*training=*/false, 0);
  if (cosine()) {
    ops_.normalise_rows(theirs, difference_, inverse_norms_);
    ops_.normalise_rows(embeddings, unit_, inverse_norms_);  // norms of embeddings
  }
  ops_.scale(cosine() ? *difference_ : theirs, -1.f, difference_);
  ops_.add(difference_, cosine() ? *unit_ : embeddings, difference_);
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
  if (std::isfinite(loss)) return loss;
  throw InputError(fmt::format(
      "teacher: {}: at step {} the embeddings of the network or of its teacher are not finite or "
      "too large; lower lr, use precision fp32 or bf16, or take the file of a trained model",
      options_.file.string(), step));
}

}  // namespace pfc
