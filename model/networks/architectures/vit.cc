#include <algorithm>
#include <cmath>
#include <string>

#include "model/networks/architectures/architectures.h"

namespace pfc {
namespace {

constexpr std::int64_t kVitHeads = 8;
constexpr float kFeatureEpsilon = 2e-5f;
// arcface_torch truncates at 100 standard deviations, which no random value reaches.
constexpr Initial kVitInitial = normal(0.02f);

/// A linear layer of each token with a bias.
LinearOptions token_linear(std::int64_t out) {
  return {.out = out,
          .bias = true,
          .initial = kVitInitial,
          .initial_bias = constant(0.f),
          .per_token = true};
}

Variable* transformer_block(NetworkBuilder& net, const std::string& name, Variable* x,
                            float drop_path) {
  const NetworkBuilder::Block scope(net, name);
  const std::int64_t width = x->data.shape[2];
  Variable* y = net.layer_norm(name + ".norm1", x);
  y = net.linear(name + ".attn.qkv", y,
                 {.out = 3 * width, .initial = kVitInitial, .per_token = true, .activation = true});
  y = net.attention(name + ".attn", y, kVitHeads);
  y = net.linear(name + ".attn.proj", y, token_linear(width));
  x = net.add(name + ".add1", x, y, drop_path);
  y = net.layer_norm(name + ".norm2", x);
  LinearOptions hidden = token_linear(4 * width);
  hidden.relu6 = hidden.activation = true;
  y = net.linear(name + ".mlp.fc1", y, hidden);
  y = net.linear(name + ".mlp.fc2", y, token_linear(width));
  return net.add(name + ".add2", x, y, drop_path);
}

}  // namespace

Variable* vit(NetworkBuilder& net, const VitOptions& o) {
  // torch.nn.Conv2d's own initialisation.
  const Initial of_patches = uniform(1.f / std::sqrt(3.f * kVitPatch * kVitPatch));
  Variable* x =
      net.conv("patch_embed.proj", net.images(),
               {.out_c = o.width, .kernel = kVitPatch, .stride = kVitPatch, .initial = of_patches});
  x = net.tokens("pos_embed", x, of_patches, kVitInitial);
  const auto tokens = static_cast<double>(x->data.shape[1]);
  const auto kept = static_cast<std::int64_t>(tokens * (1 - o.mask));
  x = net.keep_tokens(x, std::max<std::int64_t>(kept, 1));
  for (int i = 0; i < o.depth; ++i) {
    const float rate =
        o.depth == 1 ? 0.f : o.drop_path * static_cast<float>(i) / static_cast<float>(o.depth - 1);
    x = transformer_block(net, "blocks." + std::to_string(i), x, rate);
  }
  x = net.restore_tokens("mask_token", net.layer_norm("norm", x), kVitInitial);
  x = net.linear("feature.0", x, {.out = o.width, .initial = kVitInitial});
  x = net.batch_norm("feature.1", x, {.epsilon = kFeatureEpsilon});
  x = net.linear("feature.2", x, {.out = net.options().embedding_size, .initial = kVitInitial});
  return net.batch_norm("feature.3", x, {.epsilon = kFeatureEpsilon});
}

}  // namespace pfc
