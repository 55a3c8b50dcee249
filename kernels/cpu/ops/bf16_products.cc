#include "kernels/cpu/ops/bf16_products.h"

namespace pfc {
namespace {

using Layout = dnnl::memory::desc;
using Type = dnnl::memory::data_type;

Layout matrix(std::int64_t rows, std::int64_t columns, Type type, bool transposed) {
  return {{rows, columns},
          type,
          transposed ? dnnl::memory::dims{1, rows} : dnnl::memory::dims{columns, 1}};
}

dnnl::primitive_attr attributes_of(const Gemm& g) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (g.alpha != 1.f) attributes.set_output_scales(0, {g.alpha});
  if (g.beta != 0.f) {
    dnnl::post_ops sum;
    sum.append_sum(g.beta);
    attributes.set_post_ops(sum);
  }
  return attributes;
}

}  // namespace

struct Bf16Products::Plan {
  DnnlCall call;
};

Bf16Products::Bf16Products(CpuDevice& device) : device_(device) {}
Bf16Products::~Bf16Products() = default;

Bf16Products::Plan& Bf16Products::plan_of(const Gemm& g) {
  std::unique_ptr<Plan>& plan =
      plans_[{g.m, g.n, g.k, g.transpose_a, g.transpose_b, g.alpha, g.beta, g.c.dtype}];
  if (plan) return *plan;
  const Layout a = matrix(g.m, g.k, Type::bf16, g.transpose_a);
  const Layout b = matrix(g.k, g.n, Type::bf16, g.transpose_b);
  const Layout c = matrix(g.m, g.n, g.c.dtype == DType::kFloat32 ? Type::f32 : Type::bf16, false);
  const dnnl::matmul::primitive_desc desc({a, b, c}, attributes_of(g), device_.dnnl.engine);
  const Layout scratch = desc.scratchpad_desc();
  device_.scratch.reserve(scratch.get_size());
  plan = std::make_unique<Plan>(Plan{.call = {device_.dnnl,
                                              dnnl::matmul(desc),
                                              {{DNNL_ARG_SRC, a},
                                               {DNNL_ARG_WEIGHTS, b},
                                               {DNNL_ARG_DST, c},
                                               {DNNL_ARG_SCRATCHPAD, scratch}}}});
  return *plan;
}

template <typename F>
void Bf16Products::call_dnnl(const F& f) const {
  device_.threads.apply();
  try {
    f();
  } catch (const dnnl::error& error) {
    throw DeviceError(std::string("CPU: oneDNN cannot multiply bf16 matrices: ") + error.what());
  }
}

void Bf16Products::plan(const Gemm& g) {
  call_dnnl([&] { plan_of(g); });
}

void Bf16Products::multiply(const Gemm& g) {
  call_dnnl([&] {
    Plan& plan = plan_of(g);
    plan.call.execute({{DNNL_ARG_SRC, g.a.data},
                       {DNNL_ARG_WEIGHTS, g.b.data},
                       {DNNL_ARG_DST, g.c.data},
                       {DNNL_ARG_SCRATCHPAD, device_.scratch.data()}});
  });
}

}  // namespace pfc
