#include "worker/comm/make_comm.h"

#include "worker/comm/gloo/gloo_comm.h"
#include "worker/comm/nccl/device_comms.h"
#include "worker/comm/self_comm.h"

namespace pfc {

std::unique_ptr<Comm> make_host_comm(const CommOptions& options, KeyValueStore* store) {
  if (options.membership.world_size == 1) return make_self_comm();
  check(store != nullptr, "make_host_comm: more than one worker needs a store to meet at");
  return make_gloo_comm(options, *store);
}

DeviceComms make_device_comms(Ops& ops, const CommOptions& options, KeyValueStore* store) {
  if (ops.on_host()) {
    const auto named = [&](const char* name) {
      CommOptions o = options;
      o.name = name;
      return make_host_comm(o, store);
    };
    return {.step = named("step"), .gradients = named("gradients")};
  }
  if (options.membership.world_size == 1) {
    return {.step = make_self_comm(&ops), .gradients = make_self_comm(&ops)};
  }
  check(store != nullptr, "make_device_comms: more than one worker needs a store to meet at");
  return make_nccl_comms(ops, options, *store);
}

std::size_t host_comm_bytes(int world_size) {
  return world_size == 1 ? 0 : gloo_comm_bytes(world_size);
}

}  // namespace pfc
