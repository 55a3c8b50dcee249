// The embedding network: one flat arena of parameters, a forward and a backward pass.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "common/config/config.h"
#include "common/files/named_tensors.h"
#include "kernels/ops.h"

namespace pfc {

/// Memory layout of a parameter in the arena, relative to PyTorch's state dict.
enum class ParameterLayout {
  kPlain,        ///< as in PyTorch
  kConvolution,  ///< OIHW in PyTorch, OHWI here
  kFlattened,    ///< a linear layer after a flatten: [D, C*H*W] in PyTorch, [D, H*W*C] here
};

/// One named tensor. Offsets count float32 elements from the start of its arena.
struct Parameter {
  std::string name;                       ///< arcface_torch's state-dict name
  std::vector<std::int64_t> torch_shape;  ///< shape in PyTorch
  ParameterLayout layout = ParameterLayout::kPlain;
  std::int64_t offset = 0;
  std::int64_t count = 0;
  std::int64_t flatten_h = 1, flatten_w = 1;  ///< for kFlattened: H and W before the flatten
  /// For kConvolution: PyTorch's weights have the input channels in reverse order.
  bool reads_bgr = false;
  bool frozen = false;  ///< for weights: has no gradient (BackboneOptions::freeze)
};

std::vector<std::string> parameter_names(const std::vector<Parameter>& parameters);

/// A contiguous buffer of named float32 tensors.
struct Arena {
  std::vector<Parameter> parameters;  ///< in the order of the forward pass
  std::int64_t count = 0;             ///< elements, padding included (each starts 64-byte aligned)
  std::unique_ptr<Buffer> buffer;     ///< bytes() long
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(count) * sizeof(float);
  }
  [[nodiscard]] Tensor flat() const;  ///< [count]
};

struct BackboneOptions {
  /// kNoNetwork: the backbone returns its input (identity.cc), or with feature_size the result of a
  /// linear layer.
  std::string network = "r50";
  std::int64_t batch = 128;
  std::int64_t embedding_size = 512;
  std::int64_t feature_size = 0;  ///< kNoNetwork: numbers in a row of the input; 0: embedding_size
  std::int64_t height = 112, width = 112;
  PixelScale pixels = {};
  float dropout = 0.f;
  std::uint64_t seed = 0;
  bool random_weights = true;  ///< false: weights are undefined until the caller sets them
  bool training = true;        ///< false: no gradients, and activations need less memory
  /// If not null, batch norms compute their statistics over all workers of this Comm. Borrowed.
  Comm* sync_bn = nullptr;
  int rank = 0;  ///< selects the masks of dropout, drop path and tokens
  /// Patterns (common/config/parameters/name_patterns.h) of weights that training does not
  /// change. A batch norm whose weight and bias both match uses its running statistics and does
  /// not update them. Dropout stays on.
  std::vector<std::string> freeze = {};
  /// Patterns of the names of blocks, or of the beginnings of such names ("layer1"). The
  /// activations of these blocks are not kept for the backward pass, but computed again. Results
  /// have the same bits.
  std::vector<std::string> recompute = {};
  /// The weight of the last batch norm of each block starts at 0, so the block starts as the
  /// identity. Only for torchvision's networks.
  bool zero_init_residual = false;
};

/// Statistics of u = x / 127.5 - 1, for red, green and blue.
struct PixelStatistics {
  std::array<float, 3> mean, variance;
};
/// Returns the statistics that turn u into the numbers that a network with this scale reads: (u -
/// mean) / sqrt(variance).
PixelStatistics statistics_of(const PixelScale& pixels);

/// Returns the job's backbone options for images of this size. The caller adds sync_bn and rank.
BackboneOptions backbone_options(const JobConfig& job, std::int64_t height, std::int64_t width);

/// Returns the type and shape that read() expects, as a Tensor without memory: images uint8
/// [B, H, W, 3], or for kNoNetwork embeddings float32 [B, D] or features float32 [B, feature_size].
Tensor batch_of(const BackboneOptions& options);

class Backbone {
 public:
  virtual ~Backbone() = default;

  /// Returns the memory from which forward() reads the images: [B, H, W, 3] of the Ops'
  /// activation type. For kNoNetwork: float32, the shape of batch_of(). Writing the images here
  /// saves a copy. REQUIRES: results of the last forward() are no longer needed.
  [[nodiscard]] virtual Tensor input() const = 0;

  /// Writes a batch (batch_of()) to input(): pixels as BackboneOptions::pixels says, embeddings and
  /// features unchanged.
  virtual void read(const Tensor& batch) = 0;

  /// Computes embeddings, float32 [B, D], valid until the next forward(), from images [B, H, W,
  /// 3] of the Ops' activation type, or from input(). With `training`, batch norms use the
  /// statistics of the batch and update the running ones; without, they use the running ones. The
  /// masks of dropout, drop path and tokens are functions of `step`.
  virtual Tensor forward(const Tensor& images, bool training, std::int64_t step) = 0;

  /// Computes the gradients. Goes back through the layers and calls ready(offset) whenever the
  /// elements of gradients() from `offset` on are final. The last call has offset 0. Overwrites
  /// the gradients, or adds to them with `accumulate`. Those of frozen weights stay zero.
  /// REQUIRES: one forward() with `training` since the last backward(). backward() overwrites the
  /// activations of that forward().
  using GradientsReady = std::function<void(std::int64_t offset)>;
  struct BackwardOptions {
    bool accumulate = false;
    float gradient_scale = 1.f;  ///< multiplies d_embeddings: the loss scale of float16
  };
  virtual void backward(const Tensor& d_embeddings, const BackwardOptions& options,
                        const GradientsReady& ready) = 0;

  /// Returns the copy of the weights that convolutions and linear layers read, [weights.count] in
  /// the Ops' activation type. Null if that is float32; then they read the weights themselves.
  [[nodiscard]] virtual Tensor operands() const = 0;
  /// Whether operands() matches the current weights. If not, forward() updates it. Code that writes
  /// both weights and operands (Optimizer::step) may set this flag. REQUIRES: code that later
  /// writes only the weights clears it.
  bool operands_are_current = false;

  Arena weights;  ///< trainable
  std::unique_ptr<Buffer> gradient_buffer;
  /// Returns the offset of the first weight that is not frozen. Gradients begin there.
  [[nodiscard]] std::int64_t first_trained() const;
  [[nodiscard]] Tensor gradients() const;  ///< [weights.count - first_trained()]
  Arena state;  ///< running statistics, and the last batch norm's weight, frozen at 1
  std::int64_t batches_tracked = 0;  ///< num_batches_tracked of every batch norm
};

/// Returns the networks that make_backbone() knows, without kNoNetwork.
std::vector<std::string> network_names();
/// Returns whether the network takes images of this size and has embeddings of this size. Throws
/// InputError for an unknown one.
bool has_sizes(const BackboneOptions& options);
/// Creates a network. Weights start with arcface_torch's distributions, determined by the seed.
/// Borrows ops. Throws InputError for an unknown network; an image size, embedding size or other
/// option that the network does not support; a pattern of `freeze` that matches no weight; or one
/// of `recompute` that matches no block.
std::unique_ptr<Backbone> make_backbone(Ops& ops, const BackboneOptions& options);

/// Bytes of device memory of a backbone.
struct BackboneMemory {
  std::size_t weights = 0;      ///< trainable parameters
  std::size_t operands = 0;     ///< a copy of the weights in the activations' type; 0 for float32
  std::size_t state = 0;        ///< running statistics
  std::size_t gradients = 0;    ///< 0 without training
  std::size_t activations = 0;  ///< activations and their gradients, in shared memory
};

/// Returns the exact bytes that make_backbone(ops, options) would allocate, without allocating
/// them. Creates the plans of the network's ops, so ops.scratch_bytes() is then as large as after
/// make_backbone(). Uses only the size of sync_bn. Throws as make_backbone() does.
BackboneMemory backbone_memory(Ops& ops, const BackboneOptions& options);

/// The named tensors of a backbone's two arenas.
struct BackboneParameters {
  std::vector<Parameter> weights, state;
};
/// Returns the tensors of make_backbone(ops, options), without memory. Throws as it does.
BackboneParameters backbone_parameters(Ops& ops, const BackboneOptions& options);

/// A parameter or state tensor with PyTorch's name, layout and dtype (num_batches_tracked is
/// I64), copied to host memory. backbone.safetensors holds all of them.
struct HostTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};
std::vector<HostTensor> export_state_dict(Ops& ops, const Backbone& backbone);
/// kMayDiffer: the state dict may come from a network with another embedding or image size, so
/// tensors of the last layers ("fc", "features", "feature") and "pos_embed" may have other shapes.
/// Tensors with another shape are not loaded: the backbone keeps its own values.
enum class LastLayers { kSame, kMayDiffer };
struct StateDictFit {
  LastLayers last = LastLayers::kSame;
  /// Patterns of the tensors to compare, in the file and in the network; empty: all.
  std::vector<std::string> names = {};
};
/// Throws InputError that names file and tensor if the file does not match export_state_dict() of
/// a backbone with these tensors: one is missing, has another shape, or is unknown and not in
/// `ignored`. Returns a text for each tensor that does not fit and is skipped: "fc.bias [512],
/// here [256]".
std::vector<std::string> check_state_dict(const BackboneParameters& parameters,
                                          const NamedTensors& file,
                                          const std::vector<std::string>& ignored = {},
                                          const StateDictFit& fit = {});
/// Loads the result of export_state_dict(). Before any change, throws like check_state_dict().
/// Returns the result of check_state_dict().
std::vector<std::string> import_state_dict(Ops& ops, Backbone& backbone, const NamedTensors& file,
                                           const std::vector<std::string>& ignored = {},
                                           const StateDictFit& fit = {});

/// Returns a flat tensor with the arena's layout (gradients, momentum) as tensors with PyTorch's
/// names and layouts. Each name begins with `prefix`.
std::vector<HostTensor> export_flat(Ops& ops, const Arena& arena, const Tensor& flat,
                                    const std::string& prefix);
/// Loads the result of export_flat(). Throws InputError as import_state_dict() does.
void import_flat(Ops& ops, const Arena& arena, const Tensor& flat, const NamedTensors& file,
                 const std::string& prefix);

}  // namespace pfc
