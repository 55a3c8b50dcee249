// The architectures of the networks, layer by layer.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "model/networks/network_builder.h"

namespace pfc {

/// Duta et al., "Improved residual networks for image and video recognition", arXiv 2004.04989,
/// as implemented in arcface_torch (backbones/iresnet.py). `blocks`: the number of blocks in each
/// of the four stages. Returns the embeddings.
Variable* iresnet(NetworkBuilder& net, const std::array<int, 4>& blocks);

/// The iresnet of AdaFace and CVLface (AdaFace's net.py, mode "ir"). It differs from iresnet(): it
/// has other names and initial weights, and no weights in the last batch norm, and the first
/// block's shortcut takes every second pixel. Its files read BGR; the network here reads RGB.
/// Returns the embeddings.
Variable* adaface_iresnet(NetworkBuilder& net, const std::array<int, 4>& blocks);

/// The iresnet of TFace (torchkit/backbone/model_irse.py, mode "ir_se"): AdaFace's form with
/// squeeze and excitation (Hu et al., arXiv 1709.01507) at the end of each branch. Its files read
/// RGB. Returns the embeddings.
Variable* tface_iresnet(NetworkBuilder& net, const std::array<int, 4>& blocks);

/// Chen et al., "MobileFaceNets", arXiv 1804.07573, as implemented in arcface_torch
/// (backbones/mobilefacenet.py), with `scale` times the paper's channels. REQUIRES: square
/// images. Returns the embeddings.
Variable* mobilefacenet(NetworkBuilder& net, const std::array<int, 4>& blocks, std::int64_t scale);

/// He et al., "Deep residual learning for image recognition", arXiv 1512.03385, as implemented in
/// torchvision (models/resnet.py), without its classifier: the stride of a bottleneck is in its
/// second convolution. Returns the embeddings, the average over the last activation's pixels: 512
/// numbers, with `bottlenecks` 2048.
Variable* resnet(NetworkBuilder& net, const std::array<int, 4>& blocks, bool bottlenecks);

inline constexpr int kVitPatch = 9;  ///< pixels on each side

struct VitOptions {
  std::int64_t width = 256;  ///< numbers in a token
  int depth = 12;
  float drop_path = 0;  ///< probability in the last block; rises linearly from 0
  double mask = 0;      ///< fraction of tokens that training leaves out
};

/// Dosovitskiy et al., "An image is worth 16x16 words", arXiv 2010.11929, as implemented in
/// arcface_torch (backbones/vit.py): patches of 9 x 9 pixels, 8 heads, no class token, and last
/// layers that read all tokens. arcface_torch masks 0.1 of the tokens for every `mask` above 0;
/// this network masks the fraction `mask`. Returns the embeddings.
Variable* vit(NetworkBuilder& net, const VitOptions& o);

/// One linear layer, named "linear", for jobs that train on features. Returns the embeddings.
Variable* linear_features(NetworkBuilder& net);

/// The network of a job that trains on embeddings: it returns its input. It has no
/// parameters, so gradients, optimizer state and checkpoints of them are empty.
std::unique_ptr<Backbone> make_identity(Ops& ops, const BackboneOptions& options);
BackboneMemory identity_memory(const BackboneOptions& options);

}  // namespace pfc
