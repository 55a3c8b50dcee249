// One oneDNN primitive and the memory descriptions of its arguments, ready to be executed on any
// addresses without an allocation.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

namespace pfc {

/// The CPU engine and the one stream of an Ops. oneDNN executes in the calling thread and its pool.
struct DnnlContext {
  DnnlContext() : DnnlContext(dnnl::engine(dnnl::engine::kind::cpu, 0)) {}
  explicit DnnlContext(const dnnl::engine& e) : engine(e), stream(e) {}
  dnnl::engine engine;
  dnnl::stream stream;
};

/// An argument: DNNL_ARG_*, and how its memory is laid out.
struct DnnlArgument {
  int name;
  dnnl::memory::desc layout;
};

/// An argument's address in one execution.
struct DnnlAddress {
  int name;
  void* address;
};

class DnnlCall {
 public:
  DnnlCall(DnnlContext& context, dnnl::primitive primitive,
           const std::vector<DnnlArgument>& arguments);

  /// Every argument by name. Returns when the work is done. Throws DeviceError with oneDNN's
  /// status.
  void execute(std::initializer_list<DnnlAddress> addresses);

 private:
  DnnlContext& context_;
  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;  // what the C call takes: made once
};

}  // namespace pfc
