#include <cmath>
#include <string>

#include "model/networks/architectures.h"

namespace pfc {
namespace {

constexpr Initial kConvInitial = normal(0.1f);

ConvOptions conv3x3(std::int64_t channels, int stride = 1) {
  return {.out_c = channels, .kernel = 3, .stride = stride, .pad = 1, .initial = kConvInitial};
}

ConvOptions conv1x1(std::int64_t channels, int stride) {
  return {.out_c = channels, .kernel = 1, .stride = stride, .initial = kConvInitial};
}

Variable* block(NetworkBuilder& net, const std::string& name, Variable* x, std::int64_t channels,
                int stride) {
  Variable* out = net.batch_norm(name + ".bn1", x);
  out = net.conv(name + ".conv1", out, conv3x3(channels));
  out = net.batch_norm(name + ".bn2", out, {.prelu = name + ".prelu"});
  out = net.conv(name + ".conv2", out, conv3x3(channels, stride));
  Variable* identity = x;
  if (stride != 1) {
    identity = net.conv(name + ".downsample.0", x, conv1x1(channels, stride));
    identity = net.batch_norm(name + ".downsample.1", identity);
  }
  return net.batch_norm(name + ".bn3", out, {.residual = identity});
}

}  // namespace

Variable* iresnet(NetworkBuilder& net, const std::array<int, 4>& blocks) {
  Variable* x = net.conv("conv1", net.images(), conv3x3(64));
  x = net.batch_norm("bn1", x, {.prelu = "prelu"});
  std::int64_t channels = 64;
  for (int stage = 0; stage < 4; ++stage, channels *= 2) {
    for (int i = 0; i < blocks[static_cast<std::size_t>(stage)]; ++i) {
      const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
      x = block(net, name, x, channels, i == 0 ? 2 : 1);
    }
  }
  x = net.batch_norm("bn2", x);
  x = net.dropout(x);
  // torch.nn.Linear's own initialisation: weight and bias in U(-1/sqrt(fan_in), 1/sqrt(fan_in)).
  const auto fan_in = static_cast<float>(x->data.elements() / x->data.shape[0]);
  x = net.linear("fc", x,
                 {.out = net.options().embedding_size,
                  .bias = true,
                  .initial = uniform(1.f / std::sqrt(fan_in))});
  return net.batch_norm("features", x, {.frozen_weight = true});
}

}  // namespace pfc
