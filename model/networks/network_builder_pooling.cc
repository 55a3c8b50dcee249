#include <utility>

#include "model/networks/layers/pooling_layers.h"
#include "model/networks/network_builder.h"

namespace pfc {

Variable* NetworkBuilder::relu(const std::string& name, Variable* x) {
  normalised_.erase(x);  // its statistics were those before the ReLU
  add_layer(std::make_unique<ReluLayer>(ops_, *x), x, x,
            {.kind = NetworkOp::Kind::kRelu, .name = name});
  return x;
}

Variable* NetworkBuilder::max_pool(const std::string& name, Variable* x, const PoolOptions& o) {
  const Shape& in = x->data.shape;
  const Conv2dShape shape{.batch = in[0],
                          .in_h = in[1],
                          .in_w = in[2],
                          .in_c = in[3],
                          .out_c = in[3],
                          .kernel = o.kernel,
                          .stride = o.stride,
                          .pad = o.pad,
                          .groups = in[3]};
  Variable* const y = new_activation(shape.y_shape(), x->data.dtype);
  y->needs_gradient = x->needs_gradient;
  add_layer(std::make_unique<MaxPoolLayer>(ops_, shape, *x, *y), x, y,
            {.kind = NetworkOp::Kind::kMaxPool,
             .name = name,
             .kernel = o.kernel,
             .stride = o.stride,
             .pad = o.pad});
  return y;
}

Variable* NetworkBuilder::average_pool(const std::string& name, Variable* x, bool embeddings) {
  const std::int64_t batch = x->data.shape[0], channels = x->data.shape[3];
  Variable* const y = embeddings ? new_activation({batch, channels}, DType::kFloat32)
                                 : new_activation({batch, 1, 1, channels}, x->data.dtype);
  y->needs_gradient = x->needs_gradient;
  add_layer(std::make_unique<AveragePoolLayer>(ops_, *x, *y), x, y,
            {.kind = NetworkOp::Kind::kAveragePool, .name = name, .embeddings = embeddings});
  return y;
}

Variable* NetworkBuilder::gate(const std::string& name, Variable* x, Variable* logits,
                               Variable* residual) {
  Variable* const y = new_activation(x->data.shape, x->data.dtype);
  y->needs_gradient = logits->needs_gradient || residual->needs_gradient;
  add_layer(std::make_unique<GateLayer>(ops_, *x, *logits, *residual, *y), x, y,
            {.kind = NetworkOp::Kind::kGate,
             .name = name,
             .residual = activation_names_.at(residual),
             .logits = activation_names_.at(logits)});
  return y;
}

}  // namespace pfc
