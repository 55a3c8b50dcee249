// A network's forward pass as a list of named operations, for code that writes it to files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/networks/backbone.h"

namespace pfc {

/// The epsilon of most batch norms and of layer norms, as in arcface_torch.
inline constexpr float kBatchNormEpsilon = 1e-5f;

/// One operation at inference. It reads named activations, and writes the activation that has the
/// operation's name.
struct NetworkOp {
  enum class Kind {
    kConv,
    kBatchNorm,
    kLinear,
    kMaxPool,
    kAveragePool,  ///< over all pixels
    kRelu,
    kGate,       ///< x * sigmoid(logits) + residual
    kPositions,  ///< tokens [N, H * W, C] = x [N, C, H, W] + bias of x [C] + `name` [H * W, C]
    kLayerNorm,
    kAttention,
    kAdd,  ///< x + residual
  };
  Kind kind = Kind::kConv;
  std::string name;  ///< the module in the state dict: "layer1.0.conv1"
  std::string
      x;  ///< the activation that it reads: the name of an earlier operation, or kNetworkInput

  int kernel = 1, stride = 1, pad = 0;  ///< for a convolution, which has no bias, or a max pooling
  std::int64_t groups = 1;
  bool reads_bgr = false;  ///< a convolution whose weights have the input channels in reverse order

  /// Whether a batch norm has weight and bias; otherwise they count as 1 and 0.
  bool affine = true;
  float epsilon = kBatchNormEpsilon;  ///< for batch norm and layer norm

  std::string prelu;     ///< module of the PReLU that follows a batch norm; empty: none
  std::string residual;  ///< activation that is then added to the result; empty: none

  std::string logits;       ///< activation [N, C, 1, 1], for a gate
  bool embeddings = false;  ///< an average pooling's result is [N, C]; otherwise [N, C, 1, 1]

  bool bias = false;  ///< for a linear layer, which reads a 4-D activation flattened as [N, C*H*W]
  bool per_token = false;  ///< a linear layer of each token; otherwise it reads [N, T*C]
  bool relu6 = false;      ///< a linear layer's result is clipped to [0, 6]

  std::int64_t heads = 0;  ///< number of heads of an attention
};

inline constexpr const char* kNetworkInput = "data";  ///< the images, as an activation

/// Returns the operations of make_backbone(ops, options) in the order of its forward pass. The
/// last one computes the embeddings. Allocates no weights. Throws as make_backbone() does.
/// REQUIRES: the network is not kNoNetwork.
std::vector<NetworkOp> network_graph(Ops& ops, const BackboneOptions& options);

}  // namespace pfc
