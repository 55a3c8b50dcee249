// The embedding network: one flat arena of parameters, a forward and a backward pass.
#pragma once

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
  std::vector<std::int64_t> torch_shape;  ///< as PyTorch has it
  ParameterLayout layout = ParameterLayout::kPlain;
  std::int64_t offset = 0;
  std::int64_t count = 0;
  std::int64_t flatten_h = 1, flatten_w = 1;  ///< for kFlattened: H and W before the flatten
  bool reads_bgr = false;  ///< for kConvolution: the order of I is reversed in PyTorch
  bool frozen = false;     ///< for weights: has no gradient (BackboneOptions::freeze)
};

std::vector<std::string> parameter_names(const std::vector<Parameter>& parameters);

/// A contiguous buffer of named float32 tensors.
struct Arena {
  std::vector<Parameter> parameters;  ///< in the order of the forward pass
  std::int64_t count = 0;             ///< elements, padding included (each starts 64-byte aligned)
  std::unique_ptr<Buffer> buffer;     ///< of bytes()
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(count) * sizeof(float);
  }
  [[nodiscard]] Tensor flat() const;  ///< [count]
};

struct BackboneOptions {
  std::string network = "r50";  ///< kNoNetwork: embeddings are passed on (identity.cc)
  std::int64_t batch = 128;
  std::int64_t embedding_size = 512;
  std::int64_t height = 112, width = 112;
  float dropout = 0.f;
  std::uint64_t seed = 0;
  bool training = true;  ///< false: no gradients, and activations need less memory
  /// Where it is not null, batch norms take their statistics over all its workers. Borrowed.
  Comm* sync_bn = nullptr;
  int rank = 0;  ///< for dropout's mask
  /// Patterns (common/config/parameters/name_patterns.h) of weights that training does not change.
  /// A batch norm whose weight and bias are among them uses its running statistics and leaves them
  /// as they are. Dropout stays on.
  std::vector<std::string> freeze = {};
};

/// Returns the job's backbone options for images of this size. The caller adds sync_bn and rank.
BackboneOptions backbone_options(const JobConfig& job, std::int64_t height, std::int64_t width);

/// A batch as read() takes it, without memory: images uint8 [B, H, W, 3], or for kNoNetwork
/// embeddings float32 [B, D].
Tensor batch_of(const BackboneOptions& options);

class Backbone {
 public:
  virtual ~Backbone() = default;

  /// The memory where forward() reads the images: [B, H, W, 3] of the Ops' activation type. Writing
  /// them here saves a copy. REQUIRES: nothing that the last forward() has made is still needed.
  /// Where there is no network: embeddings, float32 [B, D].
  [[nodiscard]] virtual Tensor input() const = 0;

  /// Writes a batch, of which batch_of() says type and shape, to input(): pixels as x / 127.5 - 1,
  /// embeddings as they are.
  virtual void read(const Tensor& batch) = 0;

  /// images [B, H, W, 3] of the Ops' activation type, or input() itself -> embeddings float32
  /// [B, D], valid until the next forward(). With `training`, batch norms use the statistics of the
  /// batch and update the running ones; without, they use the running ones. The dropout mask is a
  /// function of `step`.
  virtual Tensor forward(const Tensor& images, bool training, std::int64_t step) = 0;

  /// REQUIRES: one forward() with `training` since the last backward(), whose activations this call
  /// overwrites. Goes back through the layers and calls ready(offset) whenever the elements of
  /// gradients() from `offset` on are final. The last call has offset 0. Overwrites the gradients,
  /// or adds to them with `accumulate`. Those of frozen weights stay zero.
  using GradientsReady = std::function<void(std::int64_t offset)>;
  struct BackwardOptions {
    bool accumulate = false;
    float gradient_scale = 1.f;  ///< multiplies d_embeddings: the loss scale of float16
  };
  virtual void backward(const Tensor& d_embeddings, const BackwardOptions& options,
                        const GradientsReady& ready) = 0;

  /// The copy of the weights that convolutions and linear layers read, [weights.count] in the Ops'
  /// activation type; null where that is float32, and they read the weights themselves.
  [[nodiscard]] virtual Tensor operands() const = 0;
  /// Whether operands() holds the weights as they are now; where not, forward() makes them anew.
  /// Whoever writes both (Optimizer::step) may set it. REQUIRES: whoever writes weights alone after
  /// that clears it.
  bool operands_are_current = false;

  Arena weights;  ///< trainable
  std::unique_ptr<Buffer> gradient_buffer;
  /// Offset of the first weight that is not frozen: gradients begin there.
  [[nodiscard]] std::int64_t first_trained() const;
  [[nodiscard]] Tensor gradients() const;  ///< [weights.count - first_trained()]
  Arena state;  ///< running statistics, and the last batch norm's weight, frozen at 1
  std::int64_t batches_tracked = 0;  ///< num_batches_tracked of every batch norm
};

/// The networks that make_backbone() knows, kNoNetwork not among them.
std::vector<std::string> network_names();
/// Weights start with arcface_torch's distributions, determined by the seed. ops is borrowed.
/// Throws InputError for an unknown network, an image size or dropout that it does not take, or a
/// pattern of `freeze` that matches no weight.
std::unique_ptr<Backbone> make_backbone(Ops& ops, const BackboneOptions& options);

/// Bytes of device memory of a backbone.
struct BackboneMemory {
  std::size_t weights = 0;      ///< trainable parameters
  std::size_t operands = 0;     ///< a copy of the weights in the activations' type; 0 for float32
  std::size_t state = 0;        ///< running statistics
  std::size_t gradients = 0;    ///< 0 without training
  std::size_t activations = 0;  ///< activations and their gradients, in shared memory
};

/// The exact bytes that make_backbone(ops, options) would allocate, without allocating them. Makes
/// the plans of the network's ops, so that afterwards ops.scratch_bytes() is what it would be too.
/// Uses nothing of sync_bn but its size. Throws as make_backbone() does.
BackboneMemory backbone_memory(Ops& ops, const BackboneOptions& options);

/// The named tensors of a backbone's two arenas.
struct BackboneParameters {
  std::vector<Parameter> weights, state;
};
/// Those of make_backbone(ops, options), without allocating them. Throws as it does.
BackboneParameters backbone_parameters(Ops& ops, const BackboneOptions& options);

/// Every parameter and state tensor in PyTorch's names, layouts and dtypes (num_batches_tracked is
/// I64): what backbone.safetensors holds. Copies to host memory.
struct HostTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};
std::vector<HostTensor> export_state_dict(Ops& ops, const Backbone& backbone);
/// Whether a state dict may be of a network whose last layers ("fc", "features") have other shapes,
/// because its embeddings or images have another size. Those tensors are left as they are.
enum class LastLayers { kSame, kMayDiffer };
struct StateDictFit {
  LastLayers last = LastLayers::kSame;
  /// Patterns of the tensors that are looked at, in the file and in the network; empty: all.
  std::vector<std::string> names = {};
};
/// Throws InputError that names file and tensor where the file is not what export_state_dict()
/// gives of a backbone with these tensors: one is missing, has another shape, or is unknown and not
/// one of `ignored`. Returns a text for each tensor that is left: "fc.bias [512], here [256]".
std::vector<std::string> check_state_dict(const BackboneParameters& parameters,
                                          const NamedTensors& file,
                                          const std::vector<std::string>& ignored = {},
                                          const StateDictFit& fit = {});
/// Loads what export_state_dict() gives. Throws as check_state_dict() does, before it changes
/// anything, and returns what it does.
std::vector<std::string> import_state_dict(Ops& ops, Backbone& backbone, const NamedTensors& file,
                                           const std::vector<std::string>& ignored = {},
                                           const StateDictFit& fit = {});

/// A flat tensor that is laid out as the arena (gradients, momentum), as tensors of PyTorch's names
/// and layouts. Each name begins with `prefix`.
std::vector<HostTensor> export_flat(Ops& ops, const Arena& arena, const Tensor& flat,
                                    const std::string& prefix);
/// Loads what export_flat() gives. Throws InputError as import_state_dict() does.
void import_flat(Ops& ops, const Arena& arena, const Tensor& flat, const NamedTensors& file,
                 const std::string& prefix);

}  // namespace pfc
