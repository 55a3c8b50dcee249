// Builds a network layer by layer, in the order of its forward pass.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/networks/arena.h"
#include "model/networks/backbone.h"
#include "model/networks/layers/batch_norm_layer.h"
#include "model/networks/layers/layers.h"
#include "model/networks/network_graph.h"

namespace pfc {

class KeepLayer;

struct ConvOptions {
  std::int64_t out_c = 1;
  int kernel = 1;
  int stride = 1;
  int pad = 0;
  std::int64_t groups = 1;
  Initial initial = {};
  bool reads_bgr = false;  ///< in files its input channels are blue, green, red
};

struct BatchNormFusion {
  std::string prelu = {};        ///< name of a PReLU that follows; empty: none
  Variable* residual = nullptr;  ///< added to the result; null: none
  bool relu = false;             ///< a ReLU follows, after the sum; not together with a PReLU
  float initial_weight = 1.f;
  bool frozen_weight = false;  ///< gamma stays 1, and is saved as state
  bool affine = true;          ///< false: gamma stays 1 and beta 0, and neither is saved
  float epsilon = kBatchNormEpsilon;
};

struct PoolOptions {
  int kernel = 1, stride = 1, pad = 0;
};

struct LinearOptions {
  std::int64_t out = 1;
  bool bias = false;
  Initial initial = {}, initial_bias = {};
  bool per_token = false;  ///< x is tokens [B, T, k], y [B, T, out]; otherwise y is [B, out]
  bool relu6 = false;      ///< clips y to [0, 6]; needs a bias
  /// y has the type of activations. Otherwise it is float32, as embeddings and sums are.
  bool activation = false;
};

/// Adds the layers. Names are those of arcface_torch's modules ("layer1.0.conv1"); the builder
/// appends ".weight" and so on. The network owns the variables.
class NetworkBuilder {
 public:
  NetworkBuilder(Ops& ops, const BackboneOptions& options);
  ~NetworkBuilder();

  [[nodiscard]] const BackboneOptions& options() const { return options_; }

  /// All layers that are added during the lifetime of a Block form a block, which
  /// BackboneOptions::recompute can name. Blocks do not overlap. A recomputed block keeps little
  /// more than its input for the backward pass.
  class Block {
   public:
    Block(NetworkBuilder& net, std::string name);
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    ~Block();

   private:
    NetworkBuilder& net_;
  };

  // The input. A network has one of them.
  Variable* images();                     ///< [B, H, W, 3], scaled as the options say
  Variable* features(std::int64_t size);  ///< [B, size], float32
  Variable* conv(const std::string& name, Variable* x, const ConvOptions& o);
  /// Takes every stride-th pixel of every stride-th row.
  Variable* subsample(const std::string& name, Variable* x, int stride);
  Variable* batch_norm(const std::string& name, Variable* x, const BatchNormFusion& fusion = {});
  Variable* dropout(Variable* x);  ///< changes x in place; adds no layer if the probability is 0
  Variable* linear(const std::string& name, Variable* x, const LinearOptions& o);

  // network_builder_pooling.cc
  Variable* relu(const std::string& name, Variable* x);  ///< changes x in place
  Variable* max_pool(const std::string& name, Variable* x, const PoolOptions& o);
  /// Returns the average over each sample's pixels: as embeddings, float32 [B, C], or as
  /// activations [B, 1, 1, C].
  Variable* average_pool(const std::string& name, Variable* x, bool embeddings);
  /// Returns x * sigmoid(logits) + residual.
  Variable* gate(const std::string& name, Variable* x, Variable* logits, Variable* residual);

  // network_builder_tokens.cc: layers of vision transformers. Sums of branches are float32.
  /// Returns the tokens [B, H * W, C] of x [B, H, W, C]: adds a bias, x's name + ".bias", and the
  /// parameter `positions`. Called once.
  Variable* tokens(const std::string& positions, Variable* x, const Initial& initial_bias,
                   const Initial& initial_positions);
  /// In training, keeps `kept` random tokens of each sample. Called at most once.
  Variable* keep_tokens(Variable* x, std::int64_t kept);
  /// Undoes keep_tokens(): the tokens that were not kept become the parameter `name` [1, 1, D]. If
  /// all tokens are kept, the parameter belongs to the state: it is in files, but not trained.
  Variable* restore_tokens(const std::string& name, Variable* x, const Initial& initial);
  Variable* layer_norm(const std::string& name, Variable* x);
  Variable* attention(const std::string& name, Variable* x, std::int64_t heads);
  /// Returns x + branch, with drop path of this probability. Overwrites the branch.
  Variable* add(const std::string& name, Variable* x, Variable* branch, float drop_path);

  /// Plans and allocates all memory, and initialises the weights. The builder cannot be used
  /// afterwards.
  std::unique_ptr<Backbone> build(Variable* embeddings);
  /// The parameters of the layers added so far.
  [[nodiscard]] BackboneParameters parameters() const;
  /// Returns the names of the blocks, and the beginnings of these names: "layer1", "layer1.0".
  [[nodiscard]] std::vector<std::string> block_names() const;
  /// Returns the operations of the layers so far, at inference.
  [[nodiscard]] const std::vector<NetworkOp>& graph() const { return graph_; }
  /// Returns the bytes that build() would allocate. The builder cannot be used afterwards.
  BackboneMemory measure(Variable* embeddings);

 private:
  class Network;

  void scale_pixels();
  void set_pixel_scale();
  Variable* new_input(Shape shape, DType type);
  Variable* new_activation(Shape shape, DType type);
  Variable* new_parameter(Arena& arena, Parameter parameter, const Initial& initial);
  Variable* new_vector(Arena& arena, const std::string& name, std::int64_t n, float initial);
  /// y: the activation that the layer writes.
  void add_layer(std::unique_ptr<Layer> layer, const Variable* y);
  /// `op`: the layer's operation at inference, which computes y from x. Sets its field x.
  void add_layer(std::unique_ptr<Layer> layer, const Variable* x, const Variable* y, NetworkOp op);
  /// Adds a layer that returns its input at inference.
  void add_identity(std::unique_ptr<Layer> layer, const Variable* x, const Variable* y);
  /// Returns x in the type of activations.
  Variable* converted(Variable* x);
  /// Returns the global index of this worker's first element if each worker has `each` elements.
  [[nodiscard]] std::uint64_t first_of_rank(std::int64_t each) const;
  [[nodiscard]] Arena& network_weights() const;
  [[nodiscard]] Arena& network_state() const;
  [[nodiscard]] std::size_t operand_bytes() const;
  [[nodiscard]] std::size_t gradient_bytes() const;
  void bind_parameters();
  ActivationPlan rehearse(Variable* embeddings);

  struct NewParameter {
    Arena* arena;
    std::size_t index;  // index in its arena
    Initial initial = {};
    Variable* variable;
  };

  /// Layers [begin, end).
  struct BlockLayers {
    std::string name;
    std::size_t begin = 0, end = 0;
  };

  Ops& ops_;
  const BackboneOptions options_;
  std::unique_ptr<Network> network_;
  std::vector<NewParameter> parameters_;
  std::int64_t weights_end_ = 0;                           // number of weights in the layers so far
  std::map<const Variable*, BatchNormLayer*> normalised_;  // activation -> batch norm that made it
  std::vector<NetworkOp> graph_;
  std::map<const Variable*, std::string> activation_names_;
  Rows tokens_;                 // tokens of a sample
  KeepLayer* keeps_ = nullptr;  // null: all tokens are kept
  std::uint64_t drop_paths_ = 0;
  std::vector<BlockLayers> blocks_;
};

}  // namespace pfc
