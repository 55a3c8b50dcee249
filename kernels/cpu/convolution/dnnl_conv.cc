#include <algorithm>
#include <cstring>

#include "kernels/cpu/convolution/algorithms.h"

namespace pfc {
namespace {

using Dims = dnnl::memory::dims;
using Layout = dnnl::memory::desc;
constexpr auto kDnnlFloat = dnnl::memory::data_type::f32;

dnnl::memory::data_type dnnl_type(DType type) {
  return type == DType::kFloat32 ? kDnnlFloat : dnnl::memory::data_type::bf16;
}
constexpr auto kDirect = dnnl::algorithm::convolution_direct;
constexpr auto kWinograd = dnnl::algorithm::convolution_winograd;

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// A convolution in oneDNN's terms.
struct Description {
  Description(const Conv2dShape& s, DType type)
      : x({s.batch, s.in_c, s.in_h, s.in_w}, dnnl_type(type), dnnl::memory::format_tag::nhwc),
        y({s.batch, s.out_c, s.out_h(), s.out_w()}, dnnl_type(type),
          dnnl::memory::format_tag::nhwc),
        strides{s.stride, s.stride},
        padding{s.pad, s.pad},
        // Less than `padding` if the stride skips the last rows and columns.
        padding_end{(s.out_h() - 1) * s.stride + s.kernel - s.in_h - s.pad,
                    (s.out_w() - 1) * s.stride + s.kernel - s.in_w - s.pad} {
    const std::int64_t k = s.kernel;
    const std::int64_t in = s.in_c / s.groups;
    const std::int64_t out = s.out_c / s.groups;
    Dims dims{out, in, k, k};
    Dims ohwi_strides{k * k * in, 1, k * in, in};
    if (s.groups > 1) {
      dims.insert(dims.begin(), s.groups);
      ohwi_strides.insert(ohwi_strides.begin(), out * k * k * in);
    }
    ohwi = Layout(dims, dnnl_type(type), ohwi_strides);
    any = Layout(dims, dnnl_type(type), dnnl::memory::format_tag::any);
    any_x = Layout(x.dims(), dnnl_type(type), dnnl::memory::format_tag::any);
    any_y = Layout(y.dims(), dnnl_type(type), dnnl::memory::format_tag::any);
    gradient_ohwi = Layout(dims, kDnnlFloat, ohwi_strides);
    gradient_any = Layout(dims, kDnnlFloat, dnnl::memory::format_tag::any);
  }

  Layout x, y, any_x, any_y, ohwi, any, gradient_ohwi, gradient_any;
  Dims strides, padding, padding_end;
};

dnnl::convolution_forward::primitive_desc describe_forward(const CpuDevice& device,
                                                           const Description& d) {
  return {{dnnl::prop_kind::forward_training, kDirect, d.x, d.any, d.y, d.strides, d.padding,
           d.padding_end},
          user_scratchpad(),
          device.dnnl.engine};
}

Conv2dShape with_batch(Conv2dShape s, std::int64_t batch) {
  s.batch = batch;
  return s;
}

// Winograd's algorithm, F(4 x 4, 3 x 3) of Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks" (2016): a quarter of the float32 products. Which shapes benefit, including the
// reorders for its layout, and the part sizes were measured (docs/benchmarks/cpu.md). The choice
// depends only on the shape, so that all processors of a kind give identical bits.
namespace winograd {

constexpr std::int64_t kLeastPixels = 1'500;  // over all images of a call; fewer leave tiles empty
constexpr std::int64_t kMostPixels = 8'192;   // so that their blocked copies stay in the caches

bool suits(const Conv2dShape& s, DType type) {
  constexpr std::int64_t kSide = 112;
  constexpr std::int64_t kChannels = 64;
  return type == DType::kFloat32 && s.kernel == 3 && s.stride == 1 && s.pad == 1 && s.groups == 1 &&
         s.in_h <= kSide && s.in_w <= kSide && s.in_c >= kChannels && s.out_c >= kChannels;
}

// Returns how many images of a batch to compute at once: a divisor of the batch size.
std::int64_t images_of_part(const Conv2dShape& s) {
  const std::int64_t pixels = s.out_h() * s.out_w();
  std::int64_t images = std::clamp<std::int64_t>(kMostPixels / pixels, 1, s.batch);
  while (s.batch % images != 0) --images;
  return images * pixels < kLeastPixels ? s.batch : images;
}

// Returns nullopt if oneDNN does not support it on this processor.
std::optional<dnnl::convolution_forward::primitive_desc> describe(const CpuDevice& device,
                                                                  const Description& d) {
  const dnnl::convolution_forward::primitive_desc desc(
      {dnnl::prop_kind::forward_training, kWinograd, d.any_x, d.any, d.any_y, d.strides, d.padding,
       d.padding_end},
      user_scratchpad(), device.dnnl.engine, /*allow_empty=*/true);
  if (!desc) return std::nullopt;
  return desc;
}

}  // namespace winograd

// A forward convolution in equal parts of the batch.
struct ForwardInParts {
  Description part;
  dnnl::convolution_forward::primitive_desc desc;
  std::int64_t parts = 1;
};

// Returns the fastest forward convolution.
ForwardInParts choose_forward(const CpuDevice& device, const Conv2dShape& s, DType type) {
  const std::int64_t images = winograd::images_of_part(s);
  if (winograd::suits(s, type) && images * s.out_h() * s.out_w() >= winograd::kLeastPixels) {
    const Description part(with_batch(s, images), type);
    if (const auto desc = winograd::describe(device, part)) return {part, *desc, s.batch / images};
  }
  const Description whole(s, type);
  return {whole, describe_forward(device, whole)};
}

// Returns how many images oneDNN computes at once for the gradient of the weights. oneDNN divides
// the images between threads, so there is at least one for each.
std::int64_t images_of_part(const CpuDevice& device, const Conv2dShape& s) {
  constexpr std::int64_t kPixels = 16384;  // limits the error of float32 sums to 1e-6
  const std::int64_t fitting =
      std::max<std::int64_t>(kPixels / (s.out_h() * s.out_w()), device.threads.count());
  const std::int64_t parts = (s.batch + fitting - 1) / fitting;
  return (s.batch + parts - 1) / parts;
}

// Returns the shape of the forward convolution that computes dx from dy.
Conv2dShape turned_shape(const Conv2dShape& s) {
  return {.batch = s.batch,
          .in_h = s.out_h(),
          .in_w = s.out_w(),
          .in_c = s.out_c,
          .out_c = s.in_c,
          .kernel = s.kernel,
          .stride = 1,
          .pad = s.kernel - 1 - s.pad,
          .groups = 1};
}

}  // namespace

DnnlWeightedPass::DnnlWeightedPass(CpuDevice& device, const Conv2dShape& shape, const Layouts& ours,
                                   bool turned, const Call& call)
    : device_(device),
      shape_(shape),
      input_(call.input.name),
      output_(call.output.name),
      pixel_bytes_(ours.weights.get_size() /
                   static_cast<std::size_t>(shape.out_c * shape.kernel * shape.kernel)),
      turned_bytes_(turned ? align_up(ours.weights.get_size()) : 0),
      own_place_(turned_bytes_),
      own_bytes_(call.scratchpad.get_size()),
      parts_(ours.parts),
      input_bytes_(ours.input.get_size()),
      output_bytes_(ours.output.get_size()),
      weights_(plan_reorder(ours.weights, call.weights, call.weights.get_size())),
      activations_(plan_reorder(ours.input, call.input.layout, call.input.layout.get_size())),
      result_(plan_reorder(call.output.layout, ours.output, call.output.layout.get_size())),
      call_(device.dnnl, call.primitive,
            {call.input,
             {DNNL_ARG_WEIGHTS, call.weights},
             call.output,
             {DNNL_ARG_SCRATCHPAD, call.scratchpad}}) {
  device.scratch.reserve(own_place_ + own_bytes_);
}

DnnlWeightedPass::Reordered DnnlWeightedPass::plan_reorder(const Layout& from, const Layout& to,
                                                           std::size_t bytes) {
  if (from == to) return {};
  const dnnl::reorder::primitive_desc desc(device_.dnnl.engine, from, device_.dnnl.engine, to,
                                           user_scratchpad());
  Reordered reordered{.place = own_place_,
                      .reorder = DnnlCall(device_.dnnl, dnnl::reorder(desc),
                                          {{DNNL_ARG_FROM, from},
                                           {DNNL_ARG_TO, to},
                                           {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}})};
  own_place_ += align_up(bytes);
  own_bytes_ = std::max(own_bytes_, desc.scratchpad_desc().get_size());
  return reordered;
}

void DnnlWeightedPass::turn(const std::byte* weights, std::byte* turned) const {
  const std::int64_t taps = std::int64_t{shape_.kernel} * shape_.kernel;
  const std::int64_t rows = shape_.out_c * taps;
  device_.threads.each_range(rows, taps, rows * shape_.in_c, [&](const Range& r) {
    for (std::int64_t row = r.begin; row < r.end; ++row) {
      const std::int64_t from = row - row % taps + (taps - 1 - row % taps);
      std::memcpy(turned + static_cast<std::size_t>(row) * pixel_bytes_,
                  weights + static_cast<std::size_t>(from) * pixel_bytes_, pixel_bytes_);
    }
  });
}

// oneDNN only reads this argument, but its API does not accept const.
void* DnnlWeightedPass::reordered(Reordered& argument, const void* from) {
  if (!argument.reorder) return const_cast<void*>(from);
  std::byte* const to = device_.scratch.data() + argument.place;
  argument.reorder->execute({{DNNL_ARG_FROM, const_cast<void*>(from)},
                             {DNNL_ARG_TO, to},
                             {DNNL_ARG_SCRATCHPAD, device_.scratch.data() + own_place_}});
  return to;
}

void DnnlWeightedPass::execute(const void* input, const void* weights, void* output) {
  device_.threads.apply();
  std::byte* const scratch = device_.scratch.data();
  std::byte* const own = scratch + own_place_;
  if (turned_bytes_ > 0) {
    turn(static_cast<const std::byte*>(weights), scratch);
    weights = scratch;
  }
  void* const ready = reordered(weights_, weights);
  const auto* from = static_cast<const std::byte*>(input);
  auto* to = static_cast<std::byte*>(output);
  for (std::int64_t part = 0; part < parts_; ++part) {
    void* const made = result_.reorder ? scratch + result_.place : to;
    call_.execute({{input_, reordered(activations_, from)},
                   {DNNL_ARG_WEIGHTS, ready},
                   {output_, made},
                   {DNNL_ARG_SCRATCHPAD, own}});
    if (result_.reorder) {
      result_.reorder->execute(
          {{DNNL_ARG_FROM, made}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, own}});
    }
    from += input_bytes_;
    to += output_bytes_;
  }
}

DnnlWeightedPass dnnl_forward(CpuDevice& device, const Conv2dShape& shape, DType type) {
  device.threads.apply();  // oneDNN divides the work when it creates a primitive
  const auto [part, desc, parts] = choose_forward(device, shape, type);
  return {device,
          shape,
          {.input = part.x, .weights = part.ohwi, .output = part.y, .parts = parts},
          false,
          {.primitive = dnnl::convolution_forward(desc),
           .weights = desc.weights_desc(),
           .scratchpad = desc.scratchpad_desc(),
           .input = {DNNL_ARG_SRC, desc.src_desc()},
           .output = {DNNL_ARG_DST, desc.dst_desc()}}};
}

DnnlWeightedPass dnnl_backward_data(CpuDevice& device, const Conv2dShape& shape, DType type) {
  device.threads.apply();
  const Description d(shape, type);
  if (shape.stride == 1 && shape.groups == 1 && shape.pad < shape.kernel) {
    const auto [part, desc, parts] = choose_forward(device, turned_shape(shape), type);
    const std::int64_t k = shape.kernel;
    // Our weights with input and output channels exchanged.
    const Layout exchanged({shape.in_c, shape.out_c, k, k}, dnnl_type(type),
                           Dims{1, k * k * shape.in_c, k * shape.in_c, shape.in_c});
    return {device,
            shape,
            {.input = part.x, .weights = exchanged, .output = part.y, .parts = parts},
            shape.kernel > 1,
            {.primitive = dnnl::convolution_forward(desc),
             .weights = desc.weights_desc(),
             .scratchpad = desc.scratchpad_desc(),
             .input = {DNNL_ARG_SRC, desc.src_desc()},
             .output = {DNNL_ARG_DST, desc.dst_desc()}}};
  }
  const dnnl::convolution_backward_data::primitive_desc desc(
      {kDirect, d.x, d.any, d.y, d.strides, d.padding, d.padding_end}, user_scratchpad(),
      device.dnnl.engine, describe_forward(device, d));
  return {device,
          shape,
          {.input = d.y, .weights = d.ohwi, .output = d.x},
          false,
          {.primitive = dnnl::convolution_backward_data(desc),
           .weights = desc.weights_desc(),
           .scratchpad = desc.scratchpad_desc(),
           .input = {DNNL_ARG_DIFF_DST, d.y},
           .output = {DNNL_ARG_DIFF_SRC, d.x}}};
}

DnnlBackwardWeights::DnnlBackwardWeights(CpuDevice& device, const Conv2dShape& shape, DType type)
    : device_(device) {
  device.threads.apply();
  const Description d(shape, type);
  const dnnl::convolution_backward_weights::primitive_desc desc(
      {kDirect, d.x, d.gradient_any, d.y, d.strides, d.padding, d.padding_end}, user_scratchpad(),
      device.dnnl.engine, describe_forward(device, d));
  const Layout blocked = desc.diff_weights_desc();
  gradient_bytes_ = align_up(blocked.get_size());
  call_.emplace(device.dnnl, dnnl::convolution_backward_weights(desc),
                std::vector<DnnlArgument>{{DNNL_ARG_SRC, d.x},
                                          {DNNL_ARG_DIFF_DST, d.y},
                                          {DNNL_ARG_DIFF_WEIGHTS, blocked},
                                          {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}});
  store_.emplace(reorder(blocked, d.gradient_ohwi, false));
  add_.emplace(reorder(blocked, d.gradient_ohwi, true));
  device.scratch.reserve(gradient_bytes_ +
                         std::max(desc.scratchpad_desc().get_size(), reorder_bytes_));
}

DnnlCall DnnlBackwardWeights::reorder(const Layout& from, const Layout& to, bool accumulate) {
  dnnl::primitive_attr attributes = user_scratchpad();
  if (accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.f);
    attributes.set_post_ops(sum);
  }
  const dnnl::reorder::primitive_desc desc(device_.dnnl.engine, from, device_.dnnl.engine, to,
                                           attributes);
  reorder_bytes_ = std::max(reorder_bytes_, desc.scratchpad_desc().get_size());
  return {
      device_.dnnl,
      dnnl::reorder(desc),
      {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}}};
}

void DnnlBackwardWeights::execute(const void* x, const void* dy, float* dw, bool accumulate) {
  device_.threads.apply();
  void* const gradient = device_.scratch.data();
  void* const own = device_.scratch.data() + gradient_bytes_;
  call_->execute({{DNNL_ARG_SRC, const_cast<void*>(x)},
                  {DNNL_ARG_DIFF_DST, const_cast<void*>(dy)},
                  {DNNL_ARG_DIFF_WEIGHTS, gradient},
                  {DNNL_ARG_SCRATCHPAD, own}});
  DnnlCall& out = accumulate ? *add_ : *store_;
  out.execute({{DNNL_ARG_FROM, gradient}, {DNNL_ARG_TO, dw}, {DNNL_ARG_SCRATCHPAD, own}});
}

DnnlBackwardWeightsInParts::DnnlBackwardWeightsInParts(CpuDevice& device, const Conv2dShape& shape,
                                                       DType type)
    : part_shape_(with_batch(shape, images_of_part(device, shape))),
      rest_shape_(with_batch(shape, shape.batch % part_shape_.batch)),
      parts_(shape.batch / part_shape_.batch),
      number_bytes_(size_of(type)),
      part_(device, part_shape_, type) {
  if (rest_shape_.batch > 0) rest_.emplace(device, rest_shape_, type);
}

void DnnlBackwardWeightsInParts::execute(const void* x, const void* dy, float* dw,
                                         bool accumulate) {
  const auto* next_x = static_cast<const std::byte*>(x);
  const auto* next_dy = static_cast<const std::byte*>(dy);
  for (std::int64_t part = 0; part < parts_; ++part) {
    part_.execute(next_x, next_dy, dw, accumulate || part > 0);
    next_x += static_cast<std::size_t>(part_shape_.x_shape().elements()) * number_bytes_;
    next_dy += static_cast<std::size_t>(part_shape_.y_shape().elements()) * number_bytes_;
  }
  if (rest_) rest_->execute(next_x, next_dy, dw, true);
}

}  // namespace pfc
