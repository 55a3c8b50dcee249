// A oneDNN primitive with the layouts of its arguments. Runs on any addresses, without allocating.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

namespace pfc {

/// oneDNN's CPU engine and a stream. Computes in the calling thread and its OpenMP pool.
struct DnnlContext {
  DnnlContext() : DnnlContext(dnnl::engine(dnnl::engine::kind::cpu, 0)) {}
  explicit DnnlContext(const dnnl::engine& e) : engine(e), stream(e) {}
  dnnl::engine engine;
  dnnl::stream stream;
};

/// An argument: its name (DNNL_ARG_*) and the layout of its memory.
struct DnnlArgument {
  int name;
  dnnl::memory::desc layout;
};

/// Address of an argument in one execution.
struct DnnlAddress {
  int name;
  void* address;
};

/// Borrows the context.
class DnnlCall {
 public:
  DnnlCall(DnnlContext& context, dnnl::primitive primitive,
           const std::vector<DnnlArgument>& arguments);

  /// Executes the primitive and returns when it is complete. Throws DeviceError with oneDNN's
  /// status. REQUIRES: one address per argument, in the order of the constructor.
  void execute(std::initializer_list<DnnlAddress> addresses);

 private:
  DnnlContext& context_;
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;  // for oneDNN's C interface, which does not allocate
};

}  // namespace pfc
