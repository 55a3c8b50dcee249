// The networks of jobs that train on embeddings or features: none, or one linear layer.
#include <cmath>

#include "kernels/owned_tensor.h"
#include "model/networks/architectures/architectures.h"

namespace pfc {
namespace {

Shape embeddings_of(const BackboneOptions& options) {
  check(options.embedding_size > 0, "identity: the size of the embeddings is not known");
  return {options.batch, options.embedding_size};
}

class Identity : public Backbone {
 public:
  Identity(Ops& ops, const BackboneOptions& options)
      : ops_(ops), embeddings_(ops, embeddings_of(options)) {
    weights.buffer = ops.allocate(0);
    state.buffer = ops.allocate(0);
    gradient_buffer = ops.allocate(0);
  }

  [[nodiscard]] Tensor input() const override { return embeddings_; }
  [[nodiscard]] Tensor operands() const override { return {}; }
  void read(const Tensor& embeddings) override { ops_.copy(embeddings, embeddings_); }

  Tensor forward(const Tensor& embeddings, bool /*training*/, std::int64_t /*step*/) override {
    check(embeddings.shape == embeddings_->shape, "identity: the embeddings have another shape");
    if (embeddings.data != embeddings_->data) read(embeddings);
    return embeddings_;
  }

  /// Reports all gradients as final; there are none.
  void backward(const Tensor& /*d_embeddings*/, const BackwardOptions& /*options*/,
                const GradientsReady& ready) override {
    ready(0);
  }

 private:
  Ops& ops_;
  OwnedTensor embeddings_;  // [B, D]
};

}  // namespace

Variable* linear_features(NetworkBuilder& net) {
  const BackboneOptions& o = net.options();
  // torch.nn.Linear's own initialisation.
  const Initial initial = uniform(1.f / std::sqrt(static_cast<float>(o.feature_size)));
  return net.linear(
      "linear", net.features(o.feature_size),
      {.out = o.embedding_size, .bias = true, .initial = initial, .initial_bias = initial});
}

std::unique_ptr<Backbone> make_identity(Ops& ops, const BackboneOptions& options) {
  return std::make_unique<Identity>(ops, options);
}

BackboneMemory identity_memory(const BackboneOptions& options) {
  return {.activations =
              static_cast<std::size_t>(embeddings_of(options).elements()) * sizeof(float)};
}

}  // namespace pfc
