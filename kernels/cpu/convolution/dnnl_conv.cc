#include <algorithm>
#include <cstring>

#include "kernels/cpu/convolution/algorithms.h"

namespace pfc {
namespace {

using Dims = dnnl::memory::dims;
using Layout = dnnl::memory::desc;
constexpr auto kFloat = dnnl::memory::data_type::f32;

dnnl::memory::data_type dnnl_type(DType type) {
  return type == DType::kFloat32 ? kFloat : dnnl::memory::data_type::bf16;
}
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// A convolution as oneDNN describes it.
struct Description {
  Description(const Conv2dShape& s, DType type)
      : x({s.batch, s.in_c, s.in_h, s.in_w}, dnnl_type(type), dnnl::memory::format_tag::nhwc),
        y({s.batch, s.out_c, s.out_h(), s.out_w()}, dnnl_type(type),
          dnnl::memory::format_tag::nhwc),
        strides{s.stride, s.stride},
        padding{s.pad, s.pad},
        // Less than `padding` where the stride skips the last rows and columns.
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
    gradient_ohwi = Layout(dims, kFloat, ohwi_strides);
    gradient_any = Layout(dims, kFloat, dnnl::memory::format_tag::any);
  }

  Layout x, y, ohwi, any, gradient_ohwi, gradient_any;
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

// How many images oneDNN is given at once for the gradient of the weights. oneDNN divides the
// images among the threads, so there is one for each.
std::int64_t images_of_part(const CpuDevice& device, const Conv2dShape& s) {
  constexpr std::int64_t kPixels = 16384;  // few enough for float32 sums with errors below 1e-6
  const std::int64_t fitting =
      std::max<std::int64_t>(kPixels / (s.out_h() * s.out_w()), device.threads.count());
  const std::int64_t parts = (s.batch + fitting - 1) / fitting;
  return (s.batch + parts - 1) / parts;
}

// The shape of the forward convolution that makes dx from dy.
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

DnnlWeightedPass::DnnlWeightedPass(CpuDevice& device, const Conv2dShape& shape,
                                   const Layout& weights, bool turned, const Call& call)
    : device_(device),
      shape_(shape),
      input_(call.input.name),
      output_(call.output.name),
      pixel_bytes_(weights.get_size() /
                   static_cast<std::size_t>(shape.out_c * shape.kernel * shape.kernel)),
      turned_bytes_(turned ? align_up(weights.get_size()) : 0),
      blocked_bytes_(align_up(call.blocked.get_size())),
      call_(device.dnnl, call.primitive,
            {call.input,
             {DNNL_ARG_WEIGHTS, call.blocked},
             call.output,
             {DNNL_ARG_SCRATCHPAD, call.scratchpad}}) {
  std::size_t own = call.scratchpad.get_size();
  if (call.blocked != weights) {
    const dnnl::reorder::primitive_desc desc(device.dnnl.engine, weights, device.dnnl.engine,
                                             call.blocked, user_scratchpad());
    reorder_.emplace(device.dnnl, dnnl::reorder(desc),
                     std::vector<DnnlArgument>{{DNNL_ARG_FROM, weights},
                                               {DNNL_ARG_TO, call.blocked},
                                               {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}});
    own = std::max(own, desc.scratchpad_desc().get_size());
  }
  device.scratch.reserve(turned_bytes_ + blocked_bytes_ + own);
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

void DnnlWeightedPass::execute(const void* input, const void* weights, void* output) {
  device_.threads.apply();
  std::byte* const scratch = device_.scratch.data();
  std::byte* const own = scratch + turned_bytes_ + blocked_bytes_;
  void* ready = const_cast<void*>(weights);  // oneDNN only reads it, but its API takes no const
  if (turned_bytes_ > 0) {
    turn(static_cast<const std::byte*>(weights), scratch);
    ready = scratch;
  }
  if (reorder_) {
    std::byte* const blocked = scratch + turned_bytes_;
    reorder_->execute({{DNNL_ARG_FROM, ready}, {DNNL_ARG_TO, blocked}, {DNNL_ARG_SCRATCHPAD, own}});
    ready = blocked;
  }
  call_.execute({{input_, const_cast<void*>(input)},
                 {DNNL_ARG_WEIGHTS, ready},
                 {output_, output},
                 {DNNL_ARG_SCRATCHPAD, own}});
}

DnnlWeightedPass dnnl_forward(CpuDevice& device, const Conv2dShape& shape, DType type) {
  device.threads.apply();  // oneDNN fixes the division of the work when it creates a primitive
  const Description d(shape, type);
  const auto desc = describe_forward(device, d);
  return {device,
          shape,
          d.ohwi,
          false,
          {.primitive = dnnl::convolution_forward(desc),
           .blocked = desc.weights_desc(),
           .scratchpad = desc.scratchpad_desc(),
           .input = {DNNL_ARG_SRC, d.x},
           .output = {DNNL_ARG_DST, d.y}}};
}

DnnlWeightedPass dnnl_backward_data(CpuDevice& device, const Conv2dShape& shape, DType type) {
  device.threads.apply();
  const Description d(shape, type);
  if (shape.stride == 1 && shape.groups == 1 && shape.pad < shape.kernel) {
    const Description turned(turned_shape(shape), type);
    const auto desc = describe_forward(device, turned);
    const std::int64_t k = shape.kernel;
    // Our weights, read with input and output channels exchanged.
    const Layout exchanged({shape.in_c, shape.out_c, k, k}, dnnl_type(type),
                           Dims{1, k * k * shape.in_c, k * shape.in_c, shape.in_c});
    return {device,
            shape,
            exchanged,
            shape.kernel > 1,
            {.primitive = dnnl::convolution_forward(desc),
             .blocked = desc.weights_desc(),
             .scratchpad = desc.scratchpad_desc(),
             .input = {DNNL_ARG_SRC, turned.x},
             .output = {DNNL_ARG_DST, turned.y}}};
  }
  const dnnl::convolution_backward_data::primitive_desc desc(
      {kDirect, d.x, d.any, d.y, d.strides, d.padding, d.padding_end}, user_scratchpad(),
      device.dnnl.engine, describe_forward(device, d));
  return {device,
          shape,
          d.ohwi,
          false,
          {.primitive = dnnl::convolution_backward_data(desc),
           .blocked = desc.weights_desc(),
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
