// The embedding network: one flat arena of parameters, a forward and a backward pass.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/config/config.h"
#include "common/files/safetensors.h"
#include "kernels/ops.h"
#include "worker/comm/comm.h"

namespace pfc {

/// How a parameter lies in the arena, against PyTorch's state-dict layout of the same name.
enum class ParameterLayout {
  kPlain,        ///< the same
  kConvolution,  ///< PyTorch OIHW, here OHWI
  kFlattened,    ///< linear after a flatten: PyTorch [D, C*H*W], here [D, H*W*C]
};

/// One named tensor. Offsets count float32 elements from the start of its arena.
struct Parameter {
  std::string name;                       ///< arcface_torch's state-dict name
  std::vector<std::int64_t> torch_shape;  ///< as PyTorch has it
  ParameterLayout layout = ParameterLayout::kPlain;
  std::int64_t offset = 0;
  std::int64_t count = 0;
  std::int64_t flatten_h = 1, flatten_w = 1;  ///< kFlattened: H and W before the flatten
};

/// A contiguous buffer of named float32 tensors.
struct Arena {
  std::vector<Parameter> parameters;  ///< in the order of the forward pass
  std::int64_t count = 0;             ///< elements, padding included (each starts 64-byte aligned)
  std::unique_ptr<Buffer> buffer;
  [[nodiscard]] Tensor flat() const;
};

struct BackboneOptions {
  std::string network = "r50";
  std::int64_t batch = 128;
  std::int64_t embedding_size = 512;
  std::int64_t height = 112, width = 112;
  float dropout = 0.f;
  std::uint64_t seed = 0;
  bool training = true;     ///< false: no gradients, buffers of activations are reused
  Comm* sync_bn = nullptr;  ///< not null: batch statistics over all its workers. Borrowed.
  int rank = 0;             ///< for dropout's mask
};

/// What the job says about the backbone, for images of this size. The caller adds sync_bn and rank.
BackboneOptions backbone_options(const JobConfig& job, std::int64_t height, std::int64_t width);

class Backbone {
 public:
  virtual ~Backbone() = default;

  /// The memory where forward() reads the images: [B, H, W, 3] of the Ops' activation type. Writing
  /// them here saves a copy. REQUIRES: nothing that the last forward() has made is still needed.
  [[nodiscard]] virtual Tensor input() const = 0;

  /// images [B, H, W, 3] of the Ops' activation type, or input() itself -> embeddings float32
  /// [B, D], valid until the next forward. `training` uses batch statistics and updates running
  /// ones; otherwise running ones are used. `step` keys the dropout mask.
  virtual Tensor forward(const Tensor& images, bool training, std::int64_t step) = 0;

  /// Once after each training forward, whose activations it uses up. Calls ready(offset) as the
  /// pass goes back through the layers: all gradients from `offset` to the end of the arena are
  /// final. The last call has offset 0. Gradients are overwritten, or added to when `accumulate`.
  using GradientsReady = std::function<void(std::int64_t offset)>;
  struct BackwardOptions {
    bool accumulate = false;
    float gradient_scale = 1.f;  ///< multiplies d_embeddings: the loss scale of float16
  };
  virtual void backward(const Tensor& d_embeddings, const BackwardOptions& options,
                        const GradientsReady& ready) = 0;

  Arena weights;  ///< trainable; weight decay applies to every one
  std::unique_ptr<Buffer> gradient_buffer;
  [[nodiscard]] Tensor gradients() const;  ///< [weights.count]
  Arena state;  ///< running statistics, and the last batch norm's weight, frozen at 1
  std::int64_t batches_tracked = 0;  ///< num_batches_tracked of every batch norm
  [[nodiscard]] virtual double flops_per_image() const = 0;  ///< forward, multiply and add as two
  [[nodiscard]] virtual std::size_t activation_bytes() const = 0;
};

/// Weights are initialised as the reference does, by a counter-based generator: a function of seed.
/// Throws InputError for an unknown network.
std::unique_ptr<Backbone> make_backbone(Ops& ops, const BackboneOptions& options);

/// Device memory of a backbone that trains, or not, in bytes.
struct BackboneMemory {
  std::size_t weights = 0;      ///< trainable parameters
  std::size_t operands = 0;     ///< their copy in the activations' type; 0 for float32
  std::size_t state = 0;        ///< running statistics
  std::size_t gradients = 0;    ///< 0 without training
  std::size_t activations = 0;  ///< and their gradients
};

/// What make_backbone(ops, options) would allocate, to the byte, without allocating it. The
/// network's plans are made, so that ops.scratch_bytes() is then what it would be too. Of sync_bn
/// only the size is asked. Throws as make_backbone.
BackboneMemory backbone_memory(Ops& ops, const BackboneOptions& options);

/// Every parameter and state tensor in PyTorch's names, layouts and dtypes (num_batches_tracked is
/// I64): what backbone.safetensors holds. Copies to host memory.
struct HostTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};
std::vector<HostTensor> export_state_dict(Ops& ops, const Backbone& backbone);
/// The reverse; missing, unknown (but for `ignored`) or misshapen tensors throw InputError naming
/// file and tensor.
void import_state_dict(Ops& ops, Backbone& backbone, const SafetensorsFile& file,
                       const std::vector<std::string>& ignored = {});

/// A flat tensor in the arena's layout (gradients, momentum) in PyTorch's names and layouts, and
/// back.
std::vector<HostTensor> export_flat(Ops& ops, const Arena& arena, const Tensor& flat,
                                    const std::string& prefix);
void import_flat(Ops& ops, const Arena& arena, const Tensor& flat, const SafetensorsFile& file,
                 const std::string& prefix);

}  // namespace pfc
