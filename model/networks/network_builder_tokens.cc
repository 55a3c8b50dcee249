#include <utility>

#include "model/networks/layers/token_layers.h"
#include "model/networks/network_builder.h"

namespace pfc {

Variable* NetworkBuilder::tokens(const std::string& positions, Variable* x,
                                 const Initial& initial_bias, const Initial& initial_positions) {
  const Shape& in = x->data.shape;  // [B, H, W, C]
  const std::int64_t count = in[1] * in[2], width = in[3];
  tokens_ = {count, count};
  Arena& weights = network_weights();
  const std::string& image = activation_names_.at(x);
  Variable* const bias =
      new_parameter(weights, {.name = image + ".bias", .torch_shape = {width}}, initial_bias);
  Variable* const table = new_parameter(
      weights, {.name = positions, .torch_shape = {1, count, width}}, initial_positions);
  Variable* const y = new_activation({in[0], count, width}, DType::kFloat32);
  y->needs_gradient = x->needs_gradient || bias->needs_gradient || table->needs_gradient;
  add_layer(std::make_unique<PositionLayer>(ops_, *x, *bias, *table, *y), x, y,
            {.kind = NetworkOp::Kind::kPositions, .name = positions});
  return y;
}

Variable* NetworkBuilder::keep_tokens(Variable* x, std::int64_t kept) {
  if (kept == tokens_.all) return x;
  tokens_.in_training = kept;
  Variable* const y = new_activation(x->data.shape, x->data.dtype);
  y->needs_gradient = x->needs_gradient;
  const TokenMask mask{
      .kept = kept, .seed = options_.seed, .first_sample = first_of_rank(options_.batch)};
  auto layer = std::make_unique<KeepLayer>(ops_, mask, tokens_, *x, *y);
  keeps_ = layer.get();
  add_identity(std::move(layer), x, y);
  return y;
}

Variable* NetworkBuilder::restore_tokens(const std::string& name, Variable* x,
                                         const Initial& initial) {
  const std::int64_t width = x->data.shape[2];
  Variable* const token = new_parameter(keeps_ == nullptr ? network_state() : network_weights(),
                                        {.name = name, .torch_shape = {1, 1, width}}, initial);
  if (keeps_ == nullptr) return x;
  Variable* const y = new_activation(x->data.shape, x->data.dtype);
  y->needs_gradient = x->needs_gradient || token->needs_gradient;
  add_identity(std::make_unique<RestoreLayer>(ops_, keeps_->places(), tokens_, *x, *token, *y), x,
               y);
  return y;
}

Variable* NetworkBuilder::layer_norm(const std::string& name, Variable* x) {
  const std::int64_t width = x->data.shape[2];
  Variable* const gamma = new_vector(network_weights(), name + ".weight", width, 1.f);
  Variable* const beta = new_vector(network_weights(), name + ".bias", width, 0.f);
  Variable* const y = new_activation(x->data.shape, ops_.activation_type());
  y->needs_gradient = x->needs_gradient || gamma->needs_gradient || beta->needs_gradient;
  add_layer(std::make_unique<LayerNormLayer>(ops_, tokens_, *x, *gamma, *beta, *y), x, y,
            {.kind = NetworkOp::Kind::kLayerNorm, .name = name});
  return y;
}

Variable* NetworkBuilder::attention(const std::string& name, Variable* x, std::int64_t heads) {
  const std::int64_t width = x->data.shape[2] / 3;
  check(width % heads == 0, "attention: heads must divide the width");
  const AttentionShape shape{
      .batch = x->data.shape[0], .tokens = tokens_.all, .heads = heads, .head_size = width / heads};
  Variable* const y = new_activation(shape.y_shape(), x->data.dtype);
  y->needs_gradient = x->needs_gradient;
  add_layer(std::make_unique<AttentionLayer>(ops_, shape, tokens_, *x, *y), x, y,
            {.kind = NetworkOp::Kind::kAttention, .name = name, .heads = heads});
  return y;
}

Variable* NetworkBuilder::add(const std::string& name, Variable* x, Variable* branch,
                              float drop_path) {
  Variable* const y = new_activation(x->data.shape, x->data.dtype);
  y->needs_gradient = x->needs_gradient || branch->needs_gradient;
  // Each layer has its own range of 2^40 numbers: one for each sample of each worker.
  const DropoutOptions path{.probability = drop_path,
                            .seed = options_.seed,
                            .first_element = (drop_paths_++ << 40) + first_of_rank(options_.batch)};
  add_layer(std::make_unique<AddLayer>(ops_, path, tokens_, *x, *branch, *y), branch, y,
            {.kind = NetworkOp::Kind::kAdd, .name = name, .residual = activation_names_.at(x)});
  return y;
}

Variable* NetworkBuilder::converted(Variable* x) {
  const DType type = ops_.activation_type();
  if (x->data.dtype == type) return x;
  Variable* const y = new_activation(x->data.shape, type);
  y->needs_gradient = x->needs_gradient;
  add_identity(std::make_unique<ConvertLayer>(ops_, *x, *y), x, y);
  return y;
}

}  // namespace pfc
