// Plans which cores and memory each worker of this host uses.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

struct hwloc_topology;

namespace pfc {

/// The cores and NUMA nodes of a machine, and the location of its PCI devices.
class Topology {
 public:
  /// Returns the topology of this machine, restricted to the cores that this process may use
  /// (affinity and control group). Throws std::runtime_error if hwloc fails.
  static Topology here();
  /// Parses hwloc's synthetic description: "numa:2 core:4 pu:2". Throws std::runtime_error.
  static Topology synthetic(const std::string& description);

  /// Returns the hardware threads (Linux' numbers) of each core, in the machine's order.
  [[nodiscard]] std::vector<std::vector<int>> cores() const;
  /// Returns the NUMA node (Linux' number) of this hardware thread; -1 if unknown.
  [[nodiscard]] int node_of(int cpu) const;
  /// Returns the NUMA node of the device, such as "0000:1b:00.0"; -1 if unknown or several.
  [[nodiscard]] int node_of_device(const std::string& pci_bus_id) const;

 private:
  struct Destroy {
    void operator()(hwloc_topology* topology) const;
  };
  explicit Topology(std::unique_ptr<hwloc_topology, Destroy> topology);

  std::unique_ptr<hwloc_topology, Destroy> topology_;
};

/// kNuma: a worker may use all cores of the NUMA nodes that its share is on. kCores: only its own
/// share of whole cores.
enum class BindMode { kNone, kNuma, kCores };

struct Binding {
  std::vector<int> cpus;  ///< Linux' numbers, sorted; empty: not bound
  int cores = 0;          ///< number of cores in its share; 0: no exclusive share
};

/// Divides the cores into contiguous shares, one per worker. `near` is the NUMA node of each
/// worker's GPU, by slot; -1 or absent: unknown. If all nodes are known, and each has a core for
/// every worker whose GPU is on it, workers get shares on their GPU's node. No worker is bound if
/// there are more workers than cores, or if kNuma would give every worker all cores. Pure.
std::vector<Binding> plan_binding(const Topology& topology, BindMode mode, int workers,
                                  std::span<const int> near);

}  // namespace pfc
