#include "kernels/cpu/conv2d.h"

#include <optional>

namespace pfc {
namespace {

using Dims = dnnl::memory::dims;
using Layout = dnnl::memory::desc;
constexpr auto kFloat = dnnl::memory::data_type::f32;

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// How a convolution is told to oneDNN: activations as they are; weights in any layout it likes.
struct Description {
  explicit Description(const Conv2dShape& s)
      : x({s.batch, s.in_c, s.in_h, s.in_w}, kFloat, dnnl::memory::format_tag::nhwc),
        y({s.batch, s.out_c, s.out_h(), s.out_w()}, kFloat, dnnl::memory::format_tag::nhwc),
        strides{s.stride, s.stride},
        padding{s.pad, s.pad},
        // What lies past the last window is not padding: the window that would need it is not
        // there.
        padding_end{(s.out_h() - 1) * s.stride + s.kernel - s.in_h - s.pad,
                    (s.out_w() - 1) * s.stride + s.kernel - s.in_w - s.pad} {
    const std::int64_t k = s.kernel;
    const std::int64_t in = s.in_c / s.groups;
    const std::int64_t out = s.out_c / s.groups;
    if (s.groups == 1) {
      ohwi = Layout({out, in, k, k}, kFloat, Dims{k * k * in, 1, k * in, in});
      any = Layout({out, in, k, k}, kFloat, dnnl::memory::format_tag::any);
    } else {
      ohwi = Layout({s.groups, out, in, k, k}, kFloat,
                    Dims{out * k * k * in, k * k * in, 1, k * in, in});
      any = Layout({s.groups, out, in, k, k}, kFloat, dnnl::memory::format_tag::any);
    }
  }

  Layout x, y, ohwi, any;
  Dims strides, padding, padding_end;
};

// A pass that needs the weights: they are reordered into oneDNN's layout, in scratch, each time,
// since they change between steps. Scratch: weights, then the primitive's own.
class WeightedPass {
 public:
  template <typename PrimitiveDesc>
  WeightedPass(CpuDevice& device, const Layout& ohwi, const Layout& blocked,
               const dnnl::primitive& primitive, const PrimitiveDesc& desc, DnnlArgument input,
               DnnlArgument output)
      : device_(device),
        input_(input.name),
        output_(output.name),
        weight_bytes_(align_up(blocked.get_size())),
        call_(device.dnnl, primitive,
              {input,
               {DNNL_ARG_WEIGHTS, blocked},
               output,
               {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}}) {
    std::size_t own = desc.scratchpad_desc().get_size();
    if (blocked != ohwi) {
      const dnnl::reorder::primitive_desc reorder(device.dnnl.engine, ohwi, device.dnnl.engine,
                                                  blocked, user_scratchpad());
      reorder_.emplace(device.dnnl, dnnl::reorder(reorder),
                       std::vector<DnnlArgument>{{DNNL_ARG_FROM, ohwi},
                                                 {DNNL_ARG_TO, blocked},
                                                 {DNNL_ARG_SCRATCHPAD, reorder.scratchpad_desc()}});
      own = std::max(own, reorder.scratchpad_desc().get_size());
    }
    device.scratch.reserve(weight_bytes_ + own);
  }

  void execute(float* input, float* weights, float* output) {
    device_.threads.apply();
    std::byte* const own = device_.scratch.data() + weight_bytes_;
    void* blocked = weights;
    if (reorder_) {
      blocked = device_.scratch.data();
      reorder_->execute(
          {{DNNL_ARG_FROM, weights}, {DNNL_ARG_TO, blocked}, {DNNL_ARG_SCRATCHPAD, own}});
    }
    call_.execute({{input_, input},
                   {DNNL_ARG_WEIGHTS, blocked},
                   {output_, output},
                   {DNNL_ARG_SCRATCHPAD, own}});
  }

 private:
  CpuDevice& device_;
  int input_, output_;
  std::size_t weight_bytes_;
  DnnlCall call_;
  std::optional<DnnlCall> reorder_;
};

// The gradient of the weights, made in oneDNN's layout in scratch, then stored or added in ours.
class WeightGradientPass {
 public:
  WeightGradientPass(CpuDevice& device, const Description& d,
                     const dnnl::convolution_backward_weights::primitive_desc& desc)
      : device_(device),
        gradient_bytes_(align_up(desc.diff_weights_desc().get_size())),
        call_(device.dnnl, dnnl::convolution_backward_weights(desc),
              {{DNNL_ARG_SRC, d.x},
               {DNNL_ARG_DIFF_DST, d.y},
               {DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc()},
               {DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc()}}),
        store_(reorder(desc.diff_weights_desc(), d.ohwi, false)),
        add_(reorder(desc.diff_weights_desc(), d.ohwi, true)) {
    device.scratch.reserve(gradient_bytes_ +
                           std::max(desc.scratchpad_desc().get_size(), reorder_bytes_));
  }

  void execute(float* x, float* dy, float* dw, bool accumulate) {
    device_.threads.apply();
    void* const gradient = device_.scratch.data();
    void* const own = device_.scratch.data() + gradient_bytes_;
    call_.execute({{DNNL_ARG_SRC, x},
                   {DNNL_ARG_DIFF_DST, dy},
                   {DNNL_ARG_DIFF_WEIGHTS, gradient},
                   {DNNL_ARG_SCRATCHPAD, own}});
    DnnlCall& out = accumulate ? add_ : store_;
    out.execute({{DNNL_ARG_FROM, gradient}, {DNNL_ARG_TO, dw}, {DNNL_ARG_SCRATCHPAD, own}});
  }

 private:
  DnnlCall reorder(const Layout& from, const Layout& to, bool accumulate) {
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

  CpuDevice& device_;
  std::size_t gradient_bytes_;
  std::size_t reorder_bytes_ = 0;
  DnnlCall call_, store_, add_;
};

class DnnlConv2d : public Conv2d {
 public:
  DnnlConv2d(CpuDevice& device, const Conv2dShape& shape) : shape_(shape) {
    device.threads.apply();  // oneDNN divides the work when it makes a primitive
    const Description d(shape);
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    const dnnl::primitive_attr attributes = user_scratchpad();
    const dnnl::engine& engine = device.dnnl.engine;

    const dnnl::convolution_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, kDirect, d.x, d.any, d.y, d.strides, d.padding,
         d.padding_end},
        attributes, engine);
    forward_.emplace(device, d.ohwi, forward.weights_desc(), dnnl::convolution_forward(forward),
                     forward, DnnlArgument{DNNL_ARG_SRC, d.x}, DnnlArgument{DNNL_ARG_DST, d.y});

    const dnnl::convolution_backward_data::primitive_desc data(
        {kDirect, d.x, d.any, d.y, d.strides, d.padding, d.padding_end}, attributes, engine,
        forward);
    data_.emplace(device, d.ohwi, data.weights_desc(), dnnl::convolution_backward_data(data), data,
                  DnnlArgument{DNNL_ARG_DIFF_DST, d.y}, DnnlArgument{DNNL_ARG_DIFF_SRC, d.x});

    weights_.emplace(device, d,
                     dnnl::convolution_backward_weights::primitive_desc(
                         {kDirect, d.x, d.any, d.y, d.strides, d.padding, d.padding_end},
                         attributes, engine, forward));
  }

  void forward(const Tensor& x, const Tensor& w, const Tensor& y) override {
    forward_->execute(input(x), weights(w), output(y));
  }
  void backward_data(const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    data_->execute(output(dy), weights(w), input(dx));
  }
  void backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                        bool accumulate) override {
    weights_->execute(input(x), output(dy), weights(dw), accumulate);
  }

 private:
  [[nodiscard]] float* input(const Tensor& t) const {
    return float_argument(t, shape_.x_shape().elements(), "conv2d: shape of x");
  }
  [[nodiscard]] float* weights(const Tensor& t) const {
    return float_argument(t, shape_.w_shape().elements(), "conv2d: shape of w");
  }
  [[nodiscard]] float* output(const Tensor& t) const {
    return float_argument(t, shape_.y_shape().elements(), "conv2d: shape of y");
  }

  Conv2dShape shape_;
  std::optional<WeightedPass> forward_, data_;
  std::optional<WeightGradientPass> weights_;
};

}  // namespace

std::unique_ptr<Conv2d> make_conv2d(CpuDevice& device, const Conv2dShape& shape) {
  check(shape.batch > 0 && shape.in_c > 0 && shape.out_c > 0 && shape.kernel > 0 &&
            shape.stride > 0 && shape.pad >= 0 && shape.groups > 0,
        "conv2d: sizes must be positive");
  check(shape.in_c % shape.groups == 0 && shape.out_c % shape.groups == 0,
        "conv2d: groups must divide the channels");
  check(shape.in_h + 2 * shape.pad >= shape.kernel && shape.in_w + 2 * shape.pad >= shape.kernel,
        "conv2d: the kernel is larger than the padded image");
  return std::make_unique<DnnlConv2d>(device, shape);
}

}  // namespace pfc
