#include "worker/embedding_exchange.h"

#include "worker/head/row_copy.h"
#include "worker/memory/step_shapes.h"

namespace pfc {

EmbeddingExchange::EmbeddingExchange(Ops& ops, Comm& comm, const JobConfig& job)
    : ops_(ops), comm_(comm) {
  const StepShapes shapes(job, comm.size());
  if (shapes.exchanged.elements() == 0) return;
  sent_ = OwnedTensor(ops, shapes.exchanged, DType::kBFloat16);
  received_ = OwnedTensor(ops, shapes.exchanged, DType::kBFloat16);
}

void EmbeddingExchange::all_gather(const Tensor& embeddings, const Tensor& all) {
  if (!sent_) return comm_.all_gather(embeddings, all);
  const Tensor own = row_range(sent_, 0, embeddings.shape[0]);
  ops_.convert(embeddings, own);
  comm_.all_gather(own, received_);
  ops_.convert(received_, all);
}

void EmbeddingExchange::reduce_scatter(const Tensor& all, const Tensor& own) {
  if (!sent_ || !ops_.on_host()) return comm_.reduce_scatter_sum(all, own);
  ops_.convert(all, sent_);
  comm_.all_to_all(sent_, received_);
  const Tensor parts(received_->data, DType::kBFloat16, {comm_.size(), own.elements()});
  ops_.column_sums(parts, Tensor(own.f32(), {own.elements()}), /*accumulate=*/false);
}

}  // namespace pfc
