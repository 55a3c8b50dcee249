#include <cmath>
#include <string>

#include "model/networks/architectures/architectures.h"

namespace pfc {
namespace {

/// The names of a network's modules, and the initial weights of its convolutions and of its last
/// layer.
struct Form {
  const char *stem_conv, *stem_bn, *stem_prelu;
  const char *bn1, *conv1, *bn2, *prelu, *conv2, *bn3;  ///< names in a block
  const char *shortcut_conv, *shortcut_bn;              ///< names in a block that changes the shape
  const char *bn, *linear, *features;                   ///< names after the last block
  bool adaface;
  bool squeezes;   ///< squeeze and excitation at the end of each branch
  bool reads_bgr;  ///< whether the network's files have weights for BGR
};

constexpr Form kArcface = {"conv1",         "bn1",    "prelu",  ".bn1",     ".conv1",
                           ".bn2",          ".prelu", ".conv2", ".bn3",     ".downsample.0",
                           ".downsample.1", "bn2",    "fc",     "features", false,
                           false,           false};
constexpr Form kAdaface = {"input_layer.0",
                           "input_layer.1",
                           "input_layer.2",
                           ".res_layer.0",
                           ".res_layer.1",
                           ".res_layer.2",
                           ".res_layer.3",
                           ".res_layer.4",
                           ".res_layer.5",
                           ".shortcut_layer.0",
                           ".shortcut_layer.1",
                           "output_layer.0",
                           "output_layer.3",
                           "output_layer.4",
                           true,
                           false,
                           true};

constexpr Form with_squeezes(Form form) {
  form.squeezes = true;
  form.reads_bgr = false;
  return form;
}
constexpr Form kTface = with_squeezes(kAdaface);

constexpr std::int64_t kSqueezeReduction = 16;

class Maker {
 public:
  Maker(NetworkBuilder& net, const Form& form) : net_(net), form_(form) {}

  Variable* make(const std::array<int, 4>& blocks) {
    ConvOptions stem = conv3x3(64);
    stem.reads_bgr = form_.reads_bgr;
    Variable* x = net_.conv(form_.stem_conv, net_.images(), stem);
    x = net_.batch_norm(form_.stem_bn, x, {.prelu = form_.stem_prelu});
    std::int64_t channels = 64;
    int number = 0;  // AdaFace counts the blocks of all stages together
    for (int stage = 0; stage < 4; ++stage, channels *= 2) {
      for (int i = 0; i < blocks[static_cast<std::size_t>(stage)]; ++i) {
        const std::string name =
            form_.adaface ? "body." + std::to_string(number++)
                          : "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
        x = block(name, x, channels, i == 0 ? 2 : 1);
      }
    }
    return embeddings(x);
  }

 private:
  /// Returns the initial weights of a convolution in which each input reaches `fan_out` outputs.
  [[nodiscard]] Initial convolution(std::int64_t fan_out) const {
    return form_.adaface ? kaiming(fan_out) : normal(0.1f);
  }
  [[nodiscard]] ConvOptions conv3x3(std::int64_t channels, int stride = 1) const {
    return {.out_c = channels,
            .kernel = 3,
            .stride = stride,
            .pad = 1,
            .initial = convolution(9 * channels)};
  }

  Variable* block(const std::string& name, Variable* x, std::int64_t channels, int stride) {
    const NetworkBuilder::Block scope(net_, name);
    Variable* out = net_.batch_norm(name + form_.bn1, x);
    out = net_.conv(name + form_.conv1, out, conv3x3(channels));
    out = net_.batch_norm(name + form_.bn2, out, {.prelu = name + form_.prelu});
    out = net_.conv(name + form_.conv2, out, conv3x3(channels, stride));
    Variable* const identity = stride == 1 ? x : shortcut(name, x, channels, stride);
    if (form_.squeezes) return squeezed(name, net_.batch_norm(name + form_.bn3, out), identity);
    return net_.batch_norm(name + form_.bn3, out, {.residual = identity});
  }

  Variable* squeezed(const std::string& block, Variable* x, Variable* identity) {
    const std::string name = block + ".res_layer.se_block";
    const std::int64_t channels = x->data.shape[3], few = channels / kSqueezeReduction;
    Variable* y = net_.average_pool(name + ".avg_pool", x, false);
    y = net_.conv(name + ".fc1", y, {.out_c = few, .initial = convolution(few)});
    y = net_.relu(name + ".relu", y);
    y = net_.conv(name + ".fc2", y, {.out_c = channels, .initial = convolution(channels)});
    return net_.gate(name, x, y, identity);
  }

  Variable* shortcut(const std::string& name, Variable* x, std::int64_t channels, int stride) {
    if (form_.adaface && x->data.shape[3] == channels) {
      return net_.subsample(name + ".shortcut_layer", x, stride);
    }
    x = net_.conv(name + form_.shortcut_conv, x,
                  {.out_c = channels, .stride = stride, .initial = convolution(channels)});
    return net_.batch_norm(name + form_.shortcut_bn, x);
  }

  Variable* embeddings(Variable* x) {
    x = net_.dropout(net_.batch_norm(form_.bn, x));
    const std::int64_t size = net_.options().embedding_size;
    // torch.nn.Linear's own initialisation: weight and bias in U(-1/sqrt(fan_in), 1/sqrt(fan_in)).
    const auto fan_in = static_cast<float>(x->data.elements() / x->data.shape[0]);
    const Initial initial = form_.adaface ? kaiming(size) : uniform(1.f / std::sqrt(fan_in));
    x = net_.linear(form_.linear, x,
                    {.out = size,
                     .bias = true,
                     .initial = initial,
                     .initial_bias = form_.adaface ? constant(0.f) : initial});
    return net_.batch_norm(form_.features, x,
                           {.frozen_weight = !form_.adaface, .affine = !form_.adaface});
  }

  NetworkBuilder& net_;
  const Form& form_;
};

}  // namespace

Variable* iresnet(NetworkBuilder& net, const std::array<int, 4>& blocks) {
  return Maker(net, kArcface).make(blocks);
}

Variable* adaface_iresnet(NetworkBuilder& net, const std::array<int, 4>& blocks) {
  return Maker(net, kAdaface).make(blocks);
}

Variable* tface_iresnet(NetworkBuilder& net, const std::array<int, 4>& blocks) {
  return Maker(net, kTface).make(blocks);
}

}  // namespace pfc
