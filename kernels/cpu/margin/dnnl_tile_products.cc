// The products of tile_products.h in bfloat16, using oneDNN.

#include <omp.h>

#include <algorithm>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "common/error.h"
#include "kernels/cpu/margin/tile_products.h"
#include "kernels/cpu/runtime/aligned_memory.h"
#include "kernels/cpu/runtime/dnnl_call.h"

namespace pfc {
namespace {

using Order = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;
using Layouts = dnnl::memory::desc;

/// Makes oneDNN create primitives for one thread. By default it uses OpenMP's current number of
/// threads, but these primitives run inside a team.
class PlanForOneThread {
 public:
  PlanForOneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~PlanForOneThread() { omp_set_num_threads(before_); }
  PlanForOneThread(const PlanForOneThread&) = delete;
  PlanForOneThread& operator=(const PlanForOneThread&) = delete;

 private:
  int before_;
};

Layouts layout(std::int64_t rows, std::int64_t columns, Order order) {
  return {{rows, columns}, Type::bf16, order};
}
/// Returns the layout of a tile's rows.
Layouts centres(std::int64_t classes, std::int64_t dimension) {
  return {{classes, dimension}, Type::bf16, {tile_row_stride(dimension), 1}};
}

/// Plans dst [m, n] (+)= src [m, k] * weights [k, n]: float32 from bfloat16.
dnnl::matmul::primitive_desc plan(const dnnl::engine& engine, const Layouts& src,
                                  const Layouts& weights, bool accumulate) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.f);
    attributes.set_post_ops(sum);
  }
  const dnnl::memory::desc dst({src.dims()[0], weights.dims()[1]}, Type::f32, Order::ab);
  return {dnnl::matmul::desc(src, weights, dst), attributes, engine};
}

DnnlCall call_of(DnnlContext& context, const dnnl::matmul::primitive_desc& p) {
  return {context,
          dnnl::matmul(p),
          {{DNNL_ARG_SRC, p.src_desc()},
           {DNNL_ARG_WEIGHTS, p.weights_desc()},
           {DNNL_ARG_DST, p.dst_desc()},
           {DNNL_ARG_SCRATCHPAD, p.scratchpad_desc()}}};
}

class DnnlTileProducts : public TileProducts {
 public:
  [[nodiscard]] DType row_type() const override { return DType::kBFloat16; }
  [[nodiscard]] std::int64_t prefetch_steps(std::int64_t /*classes*/) const override { return 0; }

  void set_embeddings(const float* unit, std::int64_t samples, std::int64_t dimension,
                      int parts) override {
    if (samples != n_ || dimension != d_ || parts != static_cast<int>(parts_.size())) {
      make_plans(samples, dimension, parts);
    }
    vector_.to_bfloat16(unit, rounded_.data(), n_ * d_);
    pack_right_->execute({{DNNL_ARG_FROM, rounded_.data()}, {DNNL_ARG_TO, right_.data()}});
    pack_left_->execute({{DNNL_ARG_FROM, rounded_.data()}, {DNNL_ARG_TO, left_.data()}});
  }

  bool forward(int part, const void* rows, std::int64_t /*classes*/, float* products,
               PrefetchList& /*soon*/) override {
    Part& p = parts_[static_cast<std::size_t>(part)];
    return run(p, p.product, rows, right_.data(), products);
  }

  void set_factors(int part, float* g, std::int64_t classes) override {
    Part& p = parts_[static_cast<std::size_t>(part)];
    std::fill(g + classes * n_, g + kTileRows * n_, 0.f);
    vector_.to_bfloat16(g, p.factors.data(), kTileRows * n_);
  }

  bool add_embedding_gradients(int part, const void* rows, float* d_unit,
                               PrefetchList& /*soon*/) override {
    Part& p = parts_[static_cast<std::size_t>(part)];
    return run(p, p.embeddings, p.factors.data(), rows, d_unit);
  }

  bool centre_gradients(int part, std::int64_t first, std::int64_t /*count*/, float* gradients,
                        PrefetchList& /*soon*/) override {
    Part& p = parts_[static_cast<std::size_t>(part)];
    return run(p, p.gradients, p.factors.data() + first * n_, left_.data(), gradients);
  }

 private:
  /// Calls of one thread: not shared, because a call sets addresses in oneDNN's memory objects.
  struct Part {
    DnnlCall product, gradients, embeddings;
    std::vector<BFloat16> factors;  // [tile, N]
    AlignedMemory scratch;
  };

  void make_plans(std::int64_t samples, std::int64_t dimension, int parts);

  static bool run(Part& p, DnnlCall& call, const void* src, const void* weights, float* dst) {
    try {
      call.execute({{DNNL_ARG_SRC, const_cast<void*>(src)},  // only read
                    {DNNL_ARG_WEIGHTS, const_cast<void*>(weights)},
                    {DNNL_ARG_DST, dst},
                    {DNNL_ARG_SCRATCHPAD, p.scratch.data()}});
      return true;
    } catch (const DeviceError&) {
      return false;
    }
  }

  const VectorKernels& vector_ = best_vector_kernels();
  std::vector<std::unique_ptr<DnnlContext>> contexts_;  // by part: threads do not share a stream
  std::int64_t n_ = 0, d_ = 0;
  std::vector<BFloat16> rounded_;  // [N, D]
  AlignedMemory right_, left_;     // transposed unit, and unit, in oneDNN's layout
  std::unique_ptr<DnnlCall> pack_right_, pack_left_;
  std::vector<Part> parts_;
};

void DnnlTileProducts::make_plans(std::int64_t samples, std::int64_t dimension, int parts) {
  n_ = samples;
  d_ = dimension;
  rounded_.resize(static_cast<std::size_t>(n_ * d_));
  parts_.clear();
  contexts_.clear();
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  for (int i = 0; i < parts; ++i) contexts_.push_back(std::make_unique<DnnlContext>(engine));
  const PlanForOneThread one_thread;
  const auto product = plan(engine, centres(kTileRows, d_), layout(d_, n_, Order::any), false);
  const auto gradients =
      plan(engine, layout(kGradientRows, n_, Order::ab), layout(n_, d_, Order::any), false);
  const auto embeddings =
      plan(engine, layout(n_, kTileRows, Order::ba), centres(kTileRows, d_), true);

  const auto pack = [&](Order order, const dnnl::memory::dims& shape,
                        const dnnl::memory::desc& to) {
    const dnnl::memory::desc from(shape, Type::bf16, order);
    const dnnl::reorder::primitive_desc p(engine, from, engine, to);
    return std::make_unique<DnnlCall>(
        *contexts_[0], dnnl::reorder(p),
        std::vector<DnnlArgument>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
  };
  pack_right_ = pack(Order::ba, {d_, n_}, product.weights_desc());
  pack_left_ = pack(Order::ab, {n_, d_}, gradients.weights_desc());
  right_ = AlignedMemory(product.weights_desc().get_size());
  left_ = AlignedMemory(gradients.weights_desc().get_size());

  const std::size_t scratch =
      std::max({product.scratchpad_desc().get_size(), gradients.scratchpad_desc().get_size(),
                embeddings.scratchpad_desc().get_size()});
  for (const auto& context : contexts_) {
    parts_.push_back({.product = call_of(*context, product),
                      .gradients = call_of(*context, gradients),
                      .embeddings = call_of(*context, embeddings),
                      .factors = std::vector<BFloat16>(static_cast<std::size_t>(kTileRows * n_)),
                      .scratch = AlignedMemory(scratch)});
  }
}

}  // namespace

std::unique_ptr<TileProducts> make_dnnl_tile_products() {
  return std::make_unique<DnnlTileProducts>();
}

}  // namespace pfc
