#include "worker/start/worker_comms.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "comm/make_comm.h"

namespace pfc {
namespace {

CommOptions peer_options(const SessionOptions& o, TraceRecorder& trace, const std::string& name) {
  return {.membership = o.membership,
          .name = name,
          .address = o.peer_address,
          .connect_timeout = o.connect_timeout,
          .timeout = o.collective_timeout,
          .abort_switch = o.abort_switch,
          .trace = &trace};
}

void guard(WorkerComms& comms, const SessionOptions& options, Comm& comm) {
  if (options.abort_switch != nullptr) comms.guards.emplace_back(*options.abort_switch, comm);
}

}  // namespace

WorkerComms connect_workers(Ops& ops, const SessionOptions& options, bool snapshots,
                            TraceRecorder& trace) {
  WorkerComms comms;
  const auto connect = [&](const char* name) {
    auto comm = make_host_comm(peer_options(options, trace, name), options.store);
    guard(comms, options, *comm);
    return comm;
  };
  const std::size_t free_before = ops.memory().free;
  DeviceComms device = make_device_comms(ops, peer_options(options, trace, ""), options.store);
  comms.step = std::move(device.step);
  guard(comms, options, *comms.step);
  comms.gradients = std::move(device.gradients);
  guard(comms, options, *comms.gradients);
  comms.inputs = connect("inputs");
  if (snapshots) comms.snapshots = connect("snapshots");
  if (ops.on_host()) return comms;
  comms.gpu_host = connect("host");
  comms.nccl_bytes = taken_since(free_before, ops);
  return comms;
}

void link_output(WorkerComms& comms, const SessionOptions& options,
                 const std::filesystem::path& output, TraceRecorder& trace) {
  if (comms.hosts.empty()) return;
  const Membership& me = options.membership;
  tell_doing(options, "checking whether all hosts share the output folder");
  comms.output.host = comms.hosts.front();
  comms.output.sees = who_sees(*comms.inputs, output);
  if (comms.output.shared()) return;
  tell_doing(options, "connecting to the host that has the output folder");
  connect_links(comms.output, me.rank, comms.hosts, [&](Rank worker) {
    CommOptions link = peer_options(options, trace, "output/" + std::to_string(worker));
    link.membership = {.rank = me.rank == 0 ? 0 : 1, .world_size = 2, .generation = me.generation};
    return make_host_comm(link, options.store);
  });
  for (Comm* link : comms.output.comms()) guard(comms, options, *link);
  if (me.rank == 0) spdlog::info("{}", not_shared_message(comms.output, comms.hosts, output));
}

std::uint64_t taken_since(std::size_t free_before, const Ops& ops) {
  const std::size_t free = ops.memory().free;
  return free_before > free ? free_before - free : 0;
}

Communicated WorkerComms::counters() const {
  Communicated all{{"step", step->counters()},
                   {"gradients", gradients->counters()},
                   {"inputs", inputs->counters()}};
  if (gpu_host) all["host"] = gpu_host->counters();
  if (snapshots) all["snapshots"] = snapshots->counters();
  for (const Comm* link : output.comms()) {
    const CommCounters counters = link->counters();
    all["output"].calls += counters.calls;
    all["output"].bytes += counters.bytes;
    all["output"].sent_bytes += counters.sent_bytes;
  }
  return all;
}

}  // namespace pfc
