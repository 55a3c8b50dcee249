// Which cores and which memory each worker of this host gets.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

struct hwloc_topology;

namespace pfc {

/// The cores and NUMA nodes of a machine, and where its PCI devices are.
class Topology {
 public:
  /// This machine's. Only the cores that this process may use, by its affinity and control group,
  /// count. Throws std::runtime_error where hwloc cannot find them out.
  static Topology here();
  /// hwloc's description of a made-up machine: "numa:2 core:4 pu:2". Throws std::runtime_error.
  static Topology synthetic(const std::string& description);

  /// Each core in the machine's order, as the numbers that Linux has for its hardware threads.
  [[nodiscard]] std::vector<std::vector<int>> cores() const;
  /// Linux' number of the NUMA node that has this hardware thread; -1: not known.
  [[nodiscard]] int node_of(int cpu) const;
  /// The NUMA node that the device is attached to; "0000:1b:00.0". -1: not known, or to several.
  [[nodiscard]] int node_of_device(const std::string& pci_bus_id) const;

 private:
  struct Destroy {
    void operator()(hwloc_topology* topology) const;
  };
  explicit Topology(std::unique_ptr<hwloc_topology, Destroy> topology);

  std::unique_ptr<hwloc_topology, Destroy> topology_;
};

/// kNuma: a worker may use all cores of the NUMA nodes on which its share of the cores is. kCores:
/// only its share, which are whole cores.
enum class BindMode { kNone, kNuma, kCores };

/// What one worker gets.
struct Binding {
  std::vector<int> cpus;  ///< Linux' numbers, sorted; empty: it is not bound
  int cores = 0;          ///< in its share; 0: it has none of its own
};

/// Shares the cores out to the workers of the host, so that shares lie together. `near`
/// has the NUMA node of each worker's GPU, by slot; -1 or absent: not known. Where all are known,
/// and each node has a core for each of its workers, they get their shares there. Nobody is bound
/// where there are more workers than cores, or where kNuma would leave every worker all cores.
/// Pure.
std::vector<Binding> plan_binding(const Topology& topology, BindMode mode, int workers,
                                  std::span<const int> near);

}  // namespace pfc
