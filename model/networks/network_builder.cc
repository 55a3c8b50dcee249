#include "model/networks/network_builder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "common/config/parameters/name_patterns.h"
#include "model/networks/layer_segments.h"
#include "model/networks/layers/layers.h"

namespace pfc {
namespace {

// Equals the number of the gradient reducer's buckets (default_bucket_bytes()).
constexpr std::int64_t kStretches = 16;

}  // namespace

/// A chain of layers over planned memory.
class NetworkBuilder::Network : public Backbone {
 public:
  explicit Network(Ops& ops) : ops_(ops) {}

  [[nodiscard]] Tensor input() const override { return input_->data; }

  void read(const Tensor& batch) override {
    if (batch.dtype != DType::kUInt8) return ops_.copy(batch, input_->data);
    ops_.normalise_images(batch, input_->data);
    if (!pixel_norm_) return;
    const PixelVariables& v = pixels_;
    pixel_norm_->forward({.x = input_->data,
                          .mean = v.mean->data,
                          .variance = v.variance->data,
                          .gamma = v.gamma->data,
                          .beta = v.beta->data,
                          .y = input_->data});
  }

  [[nodiscard]] Tensor operands() const override {
    if (!operands_) return {};
    return {operands_->data(), ops_.activation_type(), {weights.count}};
  }

  Tensor forward(const Tensor& images, bool training, std::int64_t step) override {
    check(images.shape == input_->data.shape, "backbone: images have another shape than planned");
    check(trainable_ || !training, "backbone: built without training");
    if (operands_ && !operands_are_current) ops_.convert(weights.flat(), operands());
    if (images.data != input_->data.data) ops_.copy(images, input_->data);
    const ForwardPass pass{.training = training, .step = step};
    step_ = step;
    for (Stretch& s : stretches_) {
      // Not recorded when a training network evaluates: this is rare, and enqueues other calls.
      run(s, training == trainable_ ? &s.forward : nullptr, [this, segment = s.segment, pass] {
        for (std::size_t i = segment.begin; i < segment.end; ++i) layers_[i].layer->forward(pass);
      });
    }
    if (training && tracks_batches_) ++batches_tracked;
    has_activations_ = training;
    return embeddings_->data;
  }

  void backward(const Tensor& d_embeddings, const BackwardOptions& o,
                const GradientsReady& ready) override {
    check(has_activations_, "backbone: backward() must follow a forward() with training");
    has_activations_ = false;
    check(d_embeddings.shape == embeddings_->data.shape, "backbone: d_embeddings of a wrong shape");
    ops_.scale(d_embeddings, o.gradient_scale, embeddings_->gradient);
    const std::int64_t first = first_trained();
    std::int64_t final_from = weights.count;
    for (auto s = stretches_.rbegin(); s != stretches_.rend() && final_from > first; ++s) {
      run(*s, &(o.accumulate ? s->accumulating_backward : s->backward),
          [this, segment = s->segment, accumulate = o.accumulate] {
            for (std::size_t i = segment.end; i-- > segment.begin;) {
              run_again(layers_[i].before_backward);
              if (layers_[i].y->needs_gradient) layers_[i].layer->backward(accumulate);
            }
          });
      const std::int64_t first_weight = layers_[s->segment.begin].first_weight;
      // No gradient has become final: these layers have no weights.
      if (first_weight == final_from) continue;
      final_from = first_weight;
      ready(std::max<std::int64_t>(0, final_from - first));
    }
    if (first == weights.count) ready(0);  // there are no gradients, so all are final
  }

 private:
  friend class NetworkBuilder;

  struct LayerEntry {
    std::unique_ptr<Layer> layer;
    const Variable* y;          // the activation that it writes
    std::int64_t first_weight;  // weights from here on belong to this layer or to later ones
    std::vector<std::size_t> before_backward = {};  // layers that run again before backward()
  };

  struct Stretch {
    Segment segment;
    // Each is recorded when the stretch first runs that kind of pass.
    std::unique_ptr<RepeatedWork> forward, backward, accumulating_backward;
  };

  /// `work`: where the recorded work is stored; null: nothing is recorded.
  template <typename Enqueue>
  void run(const Stretch& stretch, std::unique_ptr<RepeatedWork>* work, Enqueue enqueue) {
    if (work == nullptr || !stretch.segment.repeatable) return enqueue();
    if (*work == nullptr) *work = ops_.repeat(std::move(enqueue));
    (*work)->run();
  }

  void run_again(const std::vector<std::size_t>& layers) {
    const ForwardPass pass{.training = true, .step = step_, .again = true};
    for (const std::size_t i : layers) layers_[i].layer->forward(pass);
  }

  /// Returns the constants' operands, [constants_.count]. They follow operands() in memory.
  [[nodiscard]] Tensor operands_of_constants() const {
    const DType type = ops_.activation_type();
    auto* const begin = static_cast<std::byte*>(operands_->data());
    return {
        begin + static_cast<std::size_t>(weights.count) * size_of(type), type, {constants_.count}};
  }

  void cut_into_stretches() {
    std::vector<LayerTraits> traits;
    for (const LayerEntry& entry : layers_) {
      const bool repeatable = entry.layer->repeatable() &&
                              std::ranges::all_of(entry.before_backward, [&](std::size_t i) {
                                return layers_[i].layer->repeatable();
                              });
      traits.push_back({repeatable, entry.first_weight});
    }
    // On a host, long segments have no benefit, and short ones report gradients earlier.
    const std::int64_t weights_each = ops_.on_host() ? 0 : weights.count / kStretches;
    for (const Segment& segment : segments_of(traits, weights.count, weights_each)) {
      stretches_.push_back({.segment = segment});
    }
  }

  struct PixelVariables {
    Variable *gamma, *beta, *mean, *variance;  // [3]
  };

  Ops& ops_;
  // Scales pixels per colour, like a batch norm with fixed statistics; null: x / 127.5 - 1.
  std::unique_ptr<BatchNorm> pixel_norm_;
  PixelVariables pixels_{};
  Arena constants_;  // parameters that are neither trained nor in a state dict
  bool trainable_ = false;
  bool has_activations_ = false;    // set by a training forward(), cleared by backward()
  std::int64_t step_ = 0;           // step of the last forward()
  bool tracks_batches_ = false;     // some batch norm is not frozen
  std::deque<Variable> variables_;  // a deque: their addresses are constant
  std::vector<LayerEntry> layers_;
  std::vector<Stretch> stretches_;
  Variable* input_ = nullptr;
  Variable* embeddings_ = nullptr;
  std::unique_ptr<Buffer> operands_;  // null: activations are float32, like the weights
  std::unique_ptr<Buffer> activations_;
};

NetworkBuilder::NetworkBuilder(Ops& ops, const BackboneOptions& options)
    : ops_(ops), options_(options), network_(std::make_unique<Network>(ops)) {
  network_->trainable_ = options.training;
}

NetworkBuilder::~NetworkBuilder() = default;

PixelStatistics statistics_of(const PixelScale& pixels) {
  PixelStatistics of_u{};
  for (std::size_t c = 0; c < 3; ++c) {
    of_u.mean[c] = static_cast<float>(2 * pixels.mean[c] - 1);
    of_u.variance[c] = static_cast<float>(std::pow(2 * pixels.std[c], 2));
  }
  return of_u;
}

NetworkBuilder::Block::Block(NetworkBuilder& net, std::string name) : net_(net) {
  const std::size_t begin = net.network_->layers_.size();
  net.blocks_.push_back({.name = std::move(name), .begin = begin, .end = begin});
}

NetworkBuilder::Block::~Block() { net_.blocks_.back().end = net_.network_->layers_.size(); }

Variable* NetworkBuilder::images() {
  return new_input({options_.batch, options_.height, options_.width, 3}, ops_.activation_type());
}

Variable* NetworkBuilder::features(std::int64_t size) {
  return new_input({options_.batch, size}, DType::kFloat32);
}

Variable* NetworkBuilder::new_input(Shape shape, DType type) {
  Variable* const input = new_activation(shape, type);
  input->needs_gradient = false;
  network_->input_ = input;
  activation_names_[input] = kNetworkInput;
  return input;
}

void NetworkBuilder::scale_pixels() {
  if (options_.pixels == PixelScale{}) return;
  constexpr std::int64_t kColours = 3;
  network_->pixel_norm_ =
      ops_.batch_norm({.rows = options_.batch * options_.height * options_.width,
                       .channels = kColours,
                       .eps = 0.f});
  const auto vector = [&](const char* name, float initial) {
    return new_vector(network_->constants_, name, kColours, initial);
  };
  network_->pixels_ = {.gamma = vector("pixels.weight", 1.f),
                       .beta = vector("pixels.bias", 0.f),
                       .mean = vector("pixels.mean", 0.f),
                       .variance = vector("pixels.var", 1.f)};
}

void NetworkBuilder::set_pixel_scale() {
  if (!network_->pixel_norm_) return;
  const PixelStatistics statistics = statistics_of(options_.pixels);
  ops_.copy_to_device(network_->pixels_.mean->data, statistics.mean.data());
  ops_.copy_to_device(network_->pixels_.variance->data, statistics.variance.data());
}

Variable* NetworkBuilder::conv(const std::string& name, Variable* x, const ConvOptions& o) {
  const Shape& in = x->data.shape;
  const Conv2dShape shape{.batch = in[0],
                          .in_h = in[1],
                          .in_w = in[2],
                          .in_c = in[3],
                          .out_c = o.out_c,
                          .kernel = o.kernel,
                          .stride = o.stride,
                          .pad = o.pad,
                          .groups = o.groups};
  Variable* const weight =
      new_parameter(network_->weights,
                    {.name = name + ".weight",
                     .torch_shape = {o.out_c, shape.in_c / o.groups, o.kernel, o.kernel},
                     .layout = ParameterLayout::kConvolution,
                     .reads_bgr = o.reads_bgr},
                    o.initial);
  Variable* const y = new_activation(shape.y_shape(), x->data.dtype);
  y->needs_gradient = x->needs_gradient || weight->needs_gradient;
  add_layer(std::make_unique<ConvLayer>(ops_, shape, *x, *weight, *y), x, y,
            {.kind = NetworkOp::Kind::kConv,
             .name = name,
             .kernel = o.kernel,
             .stride = o.stride,
             .pad = o.pad,
             .groups = o.groups,
             .reads_bgr = o.reads_bgr});
  return y;
}

// Adds a depthwise convolution with 1 x 1 kernels whose weights are 1.
Variable* NetworkBuilder::subsample(const std::string& name, Variable* x, int stride) {
  const Shape& in = x->data.shape;
  const std::int64_t channels = in[3];
  const Conv2dShape shape{.batch = in[0],
                          .in_h = in[1],
                          .in_w = in[2],
                          .in_c = channels,
                          .out_c = channels,
                          .kernel = 1,
                          .stride = stride,
                          .groups = channels};
  Variable* const ones = new_parameter(
      network_->constants_,
      {.name = name, .torch_shape = {channels, 1, 1, 1}, .layout = ParameterLayout::kConvolution},
      constant(1.f));
  Variable* const y = new_activation(shape.y_shape(), x->data.dtype);
  y->needs_gradient = x->needs_gradient;
  add_layer(std::make_unique<ConvLayer>(ops_, shape, *x, *ones, *y), x, y,
            {.kind = NetworkOp::Kind::kMaxPool, .name = name, .stride = stride});
  return y;
}

Variable* NetworkBuilder::batch_norm(const std::string& name, Variable* x,
                                     const BatchNormFusion& fusion) {
  const std::int64_t channels = x->data.shape[x->data.shape.rank() - 1];
  Arena& state = network_->state;
  Arena& affine = fusion.affine ? network_->weights : network_->constants_;
  BatchNormVariables v{.x = x, .residual = fusion.residual};
  v.gamma = new_vector(fusion.frozen_weight ? state : affine, name + ".weight", channels,
                       fusion.initial_weight);
  v.beta = new_vector(affine, name + ".bias", channels, 0.f);
  v.running_mean = new_vector(state, name + ".running_mean", channels, 0.f);
  v.running_variance = new_vector(state, name + ".running_var", channels, 1.f);
  if (!fusion.prelu.empty()) {
    v.slope = new_vector(network_->weights, fusion.prelu + ".weight", channels, 0.25f);
  } else if (fusion.relu && fusion.residual == nullptr) {
    v.slope = new_vector(network_->constants_, name + ".relu", channels, 0.f);
  }
  v.frozen = fusion.affine ? !v.gamma->needs_gradient && !v.beta->needs_gradient
                           : matches_any(name + ".weight", options_.freeze) &&
                                 matches_any(name + ".bias", options_.freeze);
  v.epsilon = fusion.epsilon;
  v.y = new_activation(x->data.shape, x->data.dtype);
  const auto inputs = {x, v.gamma, v.beta, v.slope, v.residual};
  v.y->needs_gradient = std::ranges::any_of(
      inputs, [](const Variable* each) { return each != nullptr && each->needs_gradient; });
  auto layer = std::make_unique<BatchNormLayer>(ops_, v, options_.sync_bn);
  network_->tracks_batches_ |= !layer->frozen();
  if (const auto maker = normalised_.find(x); maker != normalised_.end()) {
    maker->second->feed_statistics_to(*layer);
  }
  normalised_[v.y] = layer.get();
  add_layer(std::move(layer), x, v.y,
            {.kind = NetworkOp::Kind::kBatchNorm,
             .name = name,
             .affine = fusion.affine,
             .epsilon = fusion.epsilon,
             .prelu = fusion.prelu,
             .residual = fusion.residual == nullptr ? "" : activation_names_.at(fusion.residual)});
  if (!fusion.relu) return v.y;
  if (fusion.residual != nullptr) return relu(name + ".relu", v.y);
  graph_.push_back({.kind = NetworkOp::Kind::kRelu, .name = name + ".relu", .x = name});
  activation_names_[v.y] = name + ".relu";
  return v.y;
}

Variable* NetworkBuilder::dropout(Variable* x) {
  if (options_.dropout == 0.f) return x;
  const DropoutOptions o{.probability = options_.dropout,
                         .seed = options_.seed,
                         .first_element = first_of_rank(x->data.elements())};
  add_layer(std::make_unique<DropoutLayer>(ops_, o, *x), x);  // no operation at inference
  return x;
}

Variable* NetworkBuilder::linear(const std::string& name, Variable* x, const LinearOptions& o) {
  x = converted(x);
  const Shape& in = x->data.shape;  // [B, H, W, C], tokens [B, T, C], or [B, C]
  const std::int64_t batch = in[0];
  const Rows rows =
      o.per_token ? Rows{batch * tokens_.all, batch * tokens_.in_training} : Rows{batch, batch};
  Parameter matrix{.name = name + ".weight", .torch_shape = {o.out, x->data.elements() / rows.all}};
  if (in.rank() == 4) {
    matrix.layout = ParameterLayout::kFlattened;
    matrix.flatten_h = in[1];
    matrix.flatten_w = in[2];
  }
  Variable* const weight = new_parameter(network_->weights, std::move(matrix), o.initial);
  Variable* bias = nullptr;
  if (o.bias) {
    bias = new_parameter(network_->weights, {.name = name + ".bias", .torch_shape = {o.out}},
                         o.initial_bias);
  }
  Variable* const y =
      new_activation(o.per_token ? Shape{batch, tokens_.all, o.out} : Shape{batch, o.out},
                     o.activation ? ops_.activation_type() : DType::kFloat32);
  y->needs_gradient =
      x->needs_gradient || weight->needs_gradient || (bias != nullptr && bias->needs_gradient);
  const LinearVariables variables{
      .x = x, .weight = weight, .bias = bias, .y = y, .rows = rows, .relu6 = o.relu6};
  add_layer(std::make_unique<LinearLayer>(ops_, variables), x, y,
            {.kind = NetworkOp::Kind::kLinear,
             .name = name,
             .bias = o.bias,
             .per_token = o.per_token,
             .relu6 = o.relu6});
  return y;
}

std::unique_ptr<Backbone> NetworkBuilder::build(Variable* embeddings) {
  scale_pixels();  // after the parameters, whose initial weights depend on their order
  bind_parameters();
  set_pixel_scale();
  network_->activations_ = rehearse(embeddings).allocate(ops_);
  network_->cut_into_stretches();
  return std::move(network_);
}

BackboneParameters NetworkBuilder::parameters() const {
  return {.weights = network_->weights.parameters, .state = network_->state.parameters};
}

std::vector<std::string> NetworkBuilder::block_names() const {
  std::vector<std::string> names;
  for (const BlockLayers& block : blocks_) {
    for (std::string& each : beginnings_of(block.name)) names.push_back(std::move(each));
  }
  return names;
}

BackboneMemory NetworkBuilder::measure(Variable* embeddings) {
  scale_pixels();
  return {.weights = network_->weights.bytes(),
          .operands = operand_bytes(),
          .state = network_->state.bytes() + network_->constants_.bytes(),
          .gradients = options_.training ? gradient_bytes() : 0,
          .activations = static_cast<std::size_t>(rehearse(embeddings).bytes())};
}

Variable* NetworkBuilder::new_activation(Shape shape, DType type) {
  return &network_->variables_.emplace_back(shape, type);
}

Variable* NetworkBuilder::new_parameter(Arena& arena, Parameter parameter, const Initial& initial) {
  const bool trainable = &arena == &network_->weights;
  parameter.frozen = trainable && matches_any(parameter.name, options_.freeze);
  Variable* const variable = &network_->variables_.emplace_back();
  variable->needs_gradient = trainable && !parameter.frozen;
  append_parameter(arena, std::move(parameter));
  parameters_.push_back({&arena, arena.parameters.size() - 1, initial, variable});
  return variable;
}

Variable* NetworkBuilder::new_vector(Arena& arena, const std::string& name, std::int64_t n,
                                     float initial) {
  return new_parameter(arena, {.name = name, .torch_shape = {n}}, constant(initial));
}

void NetworkBuilder::add_layer(std::unique_ptr<Layer> layer, const Variable* y) {
  // The layer's weights were appended before it, so they begin where the previous layer's end.
  std::vector<Network::LayerEntry>& layers = network_->layers_;
  layers.push_back({std::move(layer), y, weights_end_});
  weights_end_ = network_->weights.count;
}

void NetworkBuilder::add_layer(std::unique_ptr<Layer> layer, const Variable* x, const Variable* y,
                               NetworkOp op) {
  add_layer(std::move(layer), y);
  op.x = activation_names_.at(x);
  activation_names_[y] = op.name;
  graph_.push_back(std::move(op));
}

void NetworkBuilder::add_identity(std::unique_ptr<Layer> layer, const Variable* x,
                                  const Variable* y) {
  add_layer(std::move(layer), y);
  activation_names_[y] = activation_names_.at(x);
}

Arena& NetworkBuilder::network_weights() const { return network_->weights; }
Arena& NetworkBuilder::network_state() const { return network_->state; }

std::uint64_t NetworkBuilder::first_of_rank(std::int64_t each) const {
  return static_cast<std::uint64_t>(options_.rank) * static_cast<std::uint64_t>(each);
}

std::size_t NetworkBuilder::operand_bytes() const {
  const DType type = ops_.activation_type();
  if (type == DType::kFloat32) return 0;
  return static_cast<std::size_t>(network_->weights.count + network_->constants_.count) *
         size_of(type);
}

std::size_t NetworkBuilder::gradient_bytes() const {
  const Network& n = *network_;
  return static_cast<std::size_t>(n.weights.count - n.first_trained()) * sizeof(float);
}

void NetworkBuilder::bind_parameters() {
  Network& n = *network_;
  for (Arena* arena : {&n.weights, &n.state, &n.constants_}) {
    arena->buffer = ops_.allocate(arena->bytes());
  }
  if (options_.training) {
    n.gradient_buffer = ops_.allocate(gradient_bytes());
  }
  if (operand_bytes() > 0) n.operands_ = ops_.allocate(operand_bytes());
  std::vector<float> values;
  std::uint32_t number = 0;
  for (const NewParameter& p : parameters_) {
    const Parameter& parameter = p.arena->parameters[p.index];
    p.variable->data = parameter_view(parameter, p.arena->flat());
    p.variable->operand = p.variable->data;
    if (n.operands_ && p.arena == &n.weights) {
      p.variable->operand = parameter_view(parameter, n.operands());
    }
    if (n.operands_ && p.arena == &n.constants_) {
      p.variable->operand = parameter_view(parameter, n.operands_of_constants());
    }
    if (options_.training && p.variable->needs_gradient) {
      Parameter place = parameter;
      place.offset -= n.first_trained();
      p.variable->gradient = parameter_view(place, n.gradients());
    }
    if (options_.random_weights || p.initial.kind == Initial::Kind::kConstant) {
      values.resize(static_cast<std::size_t>(parameter.count));
      fill_initial(p.initial, options_.seed, number, values);
      ops_.copy_to_device(p.variable->data, values.data());
    }
    ++number;
  }
  if (n.operands_ && n.constants_.count > 0) {
    ops_.convert(n.constants_.flat(), n.operands_of_constants());
  }
}

ActivationPlan NetworkBuilder::rehearse(Variable* embeddings) {
  Network& n = *network_;
  n.embeddings_ = embeddings;
  ActivationPlan plan;
  plan.make(n.input_->data);
  std::vector<int> forward, backward(n.layers_.size());  // the plan's numbers of the layers
  for (const Network::LayerEntry& entry : n.layers_) {
    forward.push_back(plan.advance());
    entry.layer->plan_forward(plan, options_.training);
  }
  plan.advance();
  plan.use(embeddings->data);
  if (options_.training) {
    plan.make(embeddings->gradient);
    for (std::size_t i = n.layers_.size(); i-- > 0;) {
      backward[i] = plan.advance();
      if (n.layers_[i].y->needs_gradient) n.layers_[i].layer->plan_backward(plan);
    }
    // The caller may read the embeddings until the next forward pass.
    plan.use(embeddings->data);
    for (const BlockLayers& block : blocks_) {
      if (std::ranges::none_of(beginnings_of(block.name), [&](const std::string& each) {
            return matches_any(each, options_.recompute);
          })) {
        continue;
      }
      const std::size_t last = block.end - 1;
      for (const int layer :
           plan.recompute({forward[block.begin], forward[last]}, backward[last])) {
        n.layers_[last].before_backward.push_back(static_cast<std::size_t>(layer - forward[0]));
      }
    }
  }
  return plan;
}

}  // namespace pfc
