#include "kernels/cpu/ops/cpu_ops.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace pfc {
namespace {

class DoneEvent : public Event {
 public:
  void wait() override {}
};

void copy_bytes(const Threads& threads, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;  // memcpy() with a null pointer is undefined, even for 0 bytes
  const auto n = static_cast<std::int64_t>(bytes);
  threads.each_range(n, 64, n / 4, [&](const Range& r) {
    std::memcpy(static_cast<char*>(to) + r.begin, static_cast<const char*>(from) + r.begin,
                static_cast<std::size_t>(r.size()));
  });
}

}  // namespace

std::string CpuOps::description() const {
  const dnnl_version_t* v = dnnl_version();
  return "CPU (oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." +
         std::to_string(v->patch) + ", " + std::to_string(device_.threads.count()) +
         (device_.threads.count() == 1 ? " thread, " : " threads, ") + device_.vector.name + ")";
}

std::unique_ptr<Buffer> CpuOps::allocate(std::size_t bytes) {
  return std::make_unique<CpuBuffer>(bytes);
}

void CpuOps::copy_to_device(const Tensor& device, const void* host) {
  copy_bytes(device_.threads, device.data, host, device.bytes());
}

void CpuOps::copy_to_host(void* host, const Tensor& device) {
  copy_bytes(device_.threads, host, device.data, device.bytes());
}

void CpuOps::run_copy(const Tensor& from, const Tensor& to) {
  copy_bytes(device_.threads, to.data, from.data, from.bytes());
}

void CpuOps::run_fill(const Tensor& t, float value) {
  float* const x = t.f32();
  device_.threads.each_range(t.elements(), 16, t.elements(),
                             [&](const Range& r) { std::fill(x + r.begin, x + r.end, value); });
}

std::unique_ptr<RepeatedWork> CpuOps::repeat(std::function<void()> enqueue) {
  return std::make_unique<CalledWork>(std::move(enqueue));
}

std::unique_ptr<Event> CpuOps::record() { return std::make_unique<DoneEvent>(); }

}  // namespace pfc
