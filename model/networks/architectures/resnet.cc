#include <string>

#include "model/networks/architectures/architectures.h"

namespace pfc {
namespace {

constexpr std::int64_t kBottleneckExpansion = 4;

class ResnetMaker {
 public:
  ResnetMaker(NetworkBuilder& net, bool bottlenecks) : net_(net), bottlenecks_(bottlenecks) {}

  Variable* make(const std::array<int, 4>& blocks) {
    Variable* x = conv("conv1", net_.images(), 64, 7, 2);
    x = net_.batch_norm("bn1", x, {.relu = true});
    x = net_.max_pool("maxpool", x, {.kernel = 3, .stride = 2, .pad = 1});
    std::int64_t channels = 64;
    for (int stage = 0; stage < 4; ++stage, channels *= 2) {
      for (int i = 0; i < blocks[static_cast<std::size_t>(stage)]; ++i) {
        const int stride = i == 0 && stage > 0 ? 2 : 1;
        x = block("layer" + std::to_string(stage + 1) + "." + std::to_string(i), x, channels,
                  stride);
      }
    }
    return net_.average_pool("avgpool", x, true);
  }

 private:
  Variable* conv(const std::string& name, Variable* x, std::int64_t out_c, int kernel, int stride) {
    return net_.conv(name, x,
                     {.out_c = out_c,
                      .kernel = kernel,
                      .stride = stride,
                      .pad = kernel / 2,
                      .initial = kaiming(out_c * kernel * kernel)});
  }

  Variable* conv_relu(const std::string& block, const char* number, Variable* x, std::int64_t out_c,
                      int kernel, int stride) {
    x = conv(block + ".conv" + number, x, out_c, kernel, stride);
    return net_.batch_norm(block + ".bn" + number, x, {.relu = true});
  }

  Variable* block(const std::string& name, Variable* x, std::int64_t channels, int stride) {
    const NetworkBuilder::Block scope(net_, name);
    Variable* y = nullptr;
    if (bottlenecks_) {
      y = conv_relu(name, "1", x, channels, 1, 1);
      y = conv_relu(name, "2", y, channels, 3, stride);
      y = conv(name + ".conv3", y, channels * kBottleneckExpansion, 1, 1);
    } else {
      y = conv_relu(name, "1", x, channels, 3, stride);
      y = conv(name + ".conv2", y, channels, 3, 1);
    }
    Variable* shortcut = x;
    if (x->data.shape != y->data.shape) {
      shortcut = conv(name + ".downsample.0", x, y->data.shape[3], 1, stride);
      shortcut = net_.batch_norm(name + ".downsample.1", shortcut);
    }
    return net_.batch_norm(name + (bottlenecks_ ? ".bn3" : ".bn2"), y,
                           {.residual = shortcut,
                            .relu = true,
                            .initial_weight = net_.options().zero_init_residual ? 0.f : 1.f});
  }

  NetworkBuilder& net_;
  const bool bottlenecks_;
};

}  // namespace

Variable* resnet(NetworkBuilder& net, const std::array<int, 4>& blocks, bool bottlenecks) {
  return ResnetMaker(net, bottlenecks).make(blocks);
}

}  // namespace pfc
