#include <string>

#include "model/networks/architectures/architectures.h"

namespace pfc {
namespace {

ConvOptions with_initial(ConvOptions o) {
  o.initial = kaiming(o.out_c * o.kernel * o.kernel);
  return o;
}

Variable* linear_block(NetworkBuilder& net, const std::string& name, Variable* x,
                       const ConvOptions& o, Variable* residual = nullptr) {
  x = net.conv(name + ".layers.0", x, with_initial(o));
  return net.batch_norm(name + ".layers.1", x, {.residual = residual});
}

Variable* conv_block(NetworkBuilder& net, const std::string& name, Variable* x,
                     const ConvOptions& o) {
  x = net.conv(name + ".layers.0", x, with_initial(o));
  return net.batch_norm(name + ".layers.1", x, {.prelu = name + ".layers.2"});
}

// Expands to `width` channels, convolves each separately, and projects to out_c.
Variable* depthwise(NetworkBuilder& net, const std::string& name, Variable* x, std::int64_t out_c,
                    std::int64_t width, int stride, Variable* residual = nullptr) {
  const NetworkBuilder::Block scope(net, name);
  x = conv_block(net, name + ".layers.0", x, {.out_c = width});
  x = conv_block(net, name + ".layers.1", x,
                 {.out_c = width, .kernel = 3, .stride = stride, .pad = 1, .groups = width});
  return linear_block(net, name + ".layers.2", x, {.out_c = out_c}, residual);
}

Variable* residuals(NetworkBuilder& net, const std::string& name, Variable* x, int blocks,
                    std::int64_t width) {
  const std::int64_t channels = x->data.shape[3];
  for (int i = 0; i < blocks; ++i) {
    x = depthwise(net, name + ".layers." + std::to_string(i), x, channels, width, 1, x);
  }
  return x;
}

// Global depthwise convolution instead of average pooling.
Variable* gdc(NetworkBuilder& net, const std::string& name, Variable* x) {
  const auto size = static_cast<int>(x->data.shape[1]);
  x = linear_block(net, name + ".layers.0", x, {.out_c = 512, .kernel = size, .groups = 512});
  const std::int64_t embedding = net.options().embedding_size;
  x = net.linear(name + ".layers.2", x, {.out = embedding, .initial = kaiming(embedding)});
  return net.batch_norm(name + ".layers.3", x);
}

}  // namespace

Variable* mobilefacenet(NetworkBuilder& net, const std::array<int, 4>& blocks, std::int64_t scale) {
  const std::int64_t c1 = 64 * scale;
  const std::int64_t c2 = 128 * scale;
  Variable* x =
      conv_block(net, "layers.0", net.images(), {.out_c = c1, .kernel = 3, .stride = 2, .pad = 1});
  if (blocks[0] == 1) {
    x = conv_block(net, "layers.1", x, {.out_c = c1, .kernel = 3, .pad = 1, .groups = 64});
  } else {
    x = residuals(net, "layers.1", x, blocks[0], 128);
  }
  x = depthwise(net, "layers.2", x, c1, 128, 2);
  x = residuals(net, "layers.3", x, blocks[1], 128);
  x = depthwise(net, "layers.4", x, c2, 256, 2);
  x = residuals(net, "layers.5", x, blocks[2], 256);
  x = depthwise(net, "layers.6", x, c2, 512, 2);
  x = residuals(net, "layers.7", x, blocks[3], 256);
  x = conv_block(net, "conv_sep", x, {.out_c = 512});
  return gdc(net, "features", x);
}

}  // namespace pfc
