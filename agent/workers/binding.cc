#include "agent/workers/binding.h"

#include <hwloc.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

namespace pfc {
namespace {

struct FreeBitmap {
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, FreeBitmap>;

void require(bool ok, const std::string& what) {
  if (!ok) throw std::runtime_error("hwloc: " + what);
}

std::vector<int> numbers_in(hwloc_const_bitmap_t bitmap) {
  std::vector<int> numbers;
  for (int number = hwloc_bitmap_first(bitmap); number >= 0;
       number = hwloc_bitmap_next(bitmap, number)) {
    numbers.push_back(number);
  }
  return numbers;
}

using Core = std::vector<int>;

/// Returns share i of n of the cores. Sizes differ by at most one.
std::span<const Core> share(std::span<const Core> cores, std::size_t i, std::size_t n) {
  const std::size_t begin = cores.size() * i / n;
  return cores.subspan(begin, cores.size() * (i + 1) / n - begin);
}

/// Returns the workers' shares of all cores, by slot.
std::vector<std::vector<Core>> equal_shares(std::span<const Core> cores, std::size_t workers) {
  std::vector<std::vector<Core>> shares;
  for (std::size_t i = 0; i < workers; ++i) {
    const auto own = share(cores, i, workers);
    shares.emplace_back(own.begin(), own.end());
  }
  return shares;
}

/// Returns shares of the cores of each worker's NUMA node. Empty if a node is unknown or has too
/// few cores.
std::vector<std::vector<Core>> shares_near(const std::map<int, std::vector<Core>>& cores_by_node,
                                           std::span<const int> nodes) {
  std::map<int, std::size_t> workers_of_node, given;
  for (const int node : nodes) ++workers_of_node[node];
  for (const auto& [node, workers] : workers_of_node) {
    const auto cores = cores_by_node.find(node);
    if (node < 0 || cores == cores_by_node.end() || cores->second.size() < workers) return {};
  }
  std::vector<std::vector<Core>> shares;
  for (const int node : nodes) {
    const auto own = share(cores_by_node.at(node), given[node]++, workers_of_node[node]);
    shares.emplace_back(own.begin(), own.end());
  }
  return shares;
}

}  // namespace

void Topology::Destroy::operator()(hwloc_topology* topology) const {
  hwloc_topology_destroy(topology);
}

namespace {

/// Disables hwloc's plugins, which search for GPUs with OpenCL, OpenGL and CUDA and load their
/// drivers. All that is needed here is in the library itself.
hwloc_topology_t begin_topology() {
  setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 0);  // NOLINT(concurrency-mt-unsafe)
  hwloc_topology_t made = nullptr;
  require(hwloc_topology_init(&made) == 0, "cannot initialise hwloc");
  return made;
}

}  // namespace

Topology::Topology(std::unique_ptr<hwloc_topology, Destroy> topology)
    : topology_(std::move(topology)) {}

Topology Topology::here() {
  hwloc_topology_t made = begin_topology();
  Topology topology{std::unique_ptr<hwloc_topology, Destroy>(made)};
  hwloc_topology_set_io_types_filter(made, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  require(hwloc_topology_load(made) == 0, "cannot read this machine's cores");
  const Bitmap usable(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(made, usable.get(), HWLOC_CPUBIND_PROCESS) == 0) {
    require(hwloc_topology_restrict(made, usable.get(), 0) == 0,
            "cannot restrict the topology to the cores of this process");
  }
  return topology;
}

Topology Topology::synthetic(const std::string& description) {
  hwloc_topology_t made = begin_topology();
  Topology topology{std::unique_ptr<hwloc_topology, Destroy>(made)};
  require(hwloc_topology_set_synthetic(made, description.c_str()) == 0 &&
              hwloc_topology_load(made) == 0,
          "not a description of a machine: '" + description + "'");
  return topology;
}

std::vector<std::vector<int>> Topology::cores() const {
  std::vector<Core> cores;
  hwloc_topology* const topology = topology_.get();
  const int depth = hwloc_get_type_or_below_depth(topology, HWLOC_OBJ_CORE);
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_by_depth(topology, depth, core)) != nullptr;) {
    Core cpus = numbers_in(core->cpuset);
    if (!cpus.empty()) cores.push_back(std::move(cpus));
  }
  return cores;
}

int Topology::node_of(int cpu) const {
  const hwloc_obj_t unit =
      hwloc_get_pu_obj_by_os_index(topology_.get(), static_cast<unsigned>(cpu));
  return unit == nullptr || unit->nodeset == nullptr ? -1 : hwloc_bitmap_first(unit->nodeset);
}

int Topology::node_of_device(const std::string& pci_bus_id) const {
  const hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology_.get(), pci_bus_id.c_str());
  if (device == nullptr) return -1;
  const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology_.get(), device);
  if (place == nullptr || place->nodeset == nullptr) return -1;
  return hwloc_bitmap_weight(place->nodeset) == 1 ? hwloc_bitmap_first(place->nodeset) : -1;
}

std::vector<Binding> plan_binding(const Topology& topology, BindMode mode, int workers,
                                  std::span<const int> near) {
  const auto count = static_cast<std::size_t>(std::max(workers, 0));
  std::vector<Binding> plan(count);
  const std::vector<Core> cores = topology.cores();
  if (mode == BindMode::kNone || cores.size() < count) return plan;
  std::map<int, std::vector<Core>> by_node;
  for (const Core& core : cores) by_node[topology.node_of(core.front())].push_back(core);
  std::vector<int> nodes(count, -1);
  std::ranges::copy(near.first(std::min(count, near.size())), nodes.begin());
  std::vector<std::vector<Core>> shares = shares_near(by_node, nodes);
  if (shares.empty()) shares = equal_shares(cores, count);
  for (std::size_t slot = 0; slot < count; ++slot) {
    std::set<int> cpus, own_nodes;
    for (const Core& core : shares[slot]) {
      cpus.insert(core.begin(), core.end());
      own_nodes.insert(topology.node_of(core.front()));
    }
    if (mode == BindMode::kNuma) {
      if (own_nodes.size() == by_node.size()) continue;
      for (const int node : own_nodes) {
        for (const Core& core : by_node.at(node)) cpus.insert(core.begin(), core.end());
      }
    }
    plan[slot].cpus.assign(cpus.begin(), cpus.end());
    if (mode == BindMode::kCores) plan[slot].cores = static_cast<int>(shares[slot].size());
  }
  return plan;
}

}  // namespace pfc
