#include "kernels/cpu/runtime/dnnl_call.h"

#include <string>
#include <utility>

#include "common/error.h"

namespace pfc {
namespace {

void check_status(dnnl_status_t status, const char* what) {
  if (status == dnnl_success) return;
  throw DeviceError(std::string("CPU: oneDNN failed (") + what + ", status " +
                    std::to_string(static_cast<int>(status)) + ")");
}

}  // namespace

DnnlCall::DnnlCall(DnnlContext& context, dnnl::primitive primitive,
                   const std::vector<DnnlArgument>& arguments)
    : context_(context), primitive_(std::move(primitive)) {
  for (const DnnlArgument& argument : arguments) {
    memories_.emplace_back(argument.layout, context.engine, nullptr);  // execute() sets it
    arguments_.push_back({argument.name, memories_.back().get()});
  }
}

void DnnlCall::execute(std::initializer_list<DnnlAddress> addresses) {
  check(addresses.size() == arguments_.size(), "DnnlCall: wrong number of addresses");
  std::size_t i = 0;
  for (const DnnlAddress& a : addresses) {
    check(arguments_[i].arg == a.name, "DnnlCall: addresses in the wrong order");
    check_status(
        dnnl_memory_set_data_handle_v2(arguments_[i].memory, a.address, context_.stream.get()),
        "set address");
    ++i;
  }
  check_status(dnnl_primitive_execute(primitive_.get(), context_.stream.get(),
                                      static_cast<int>(arguments_.size()), arguments_.data()),
               "execute");
  check_status(dnnl_stream_wait(context_.stream.get()), "wait");
}

}  // namespace pfc
