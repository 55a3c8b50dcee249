// Converts between arenas and PyTorch's state dict.
#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <span>
#include <string_view>

#include "common/config/parameters/name_patterns.h"
#include "model/networks/arena.h"
#include "model/networks/backbone.h"

namespace pfc {
namespace {

constexpr std::string_view kRunningVariance = ".running_var";
constexpr std::string_view kBatchesTracked = ".num_batches_tracked";

/// Transposes the last two axes of [outer, channels, places]: kConvolution and kFlattened need it.
struct Transposition {
  std::size_t outer, channels, places;
  bool reversed;  ///< reverses the order of channels
};

Transposition transposition_of(const Parameter& p) {
  const auto count = static_cast<std::size_t>(p.count);
  if (p.layout == ParameterLayout::kPlain) return {1, 1, count, false};
  const auto outer = static_cast<std::size_t>(p.torch_shape[0]);
  const auto places = static_cast<std::size_t>(p.layout == ParameterLayout::kConvolution
                                                   ? p.torch_shape[2] * p.torch_shape[3]
                                                   : p.flatten_h * p.flatten_w);
  return {outer, count / outer / places, places, p.reads_bgr};
}

/// Calls pair(i, j) for each element: i is its index in PyTorch, j its index here.
template <typename F>
void for_each_pair(const Transposition& t, const F& pair) {
  std::size_t i = 0;
  for (std::size_t o = 0; o < t.outer; ++o) {
    for (std::size_t c = 0; c < t.channels; ++c) {
      std::size_t j = o * t.channels * t.places + (t.reversed ? t.channels - 1 - c : c);
      for (std::size_t p = 0; p < t.places; ++p, j += t.channels) pair(i++, j);
    }
  }
}

HostTensor export_parameter(Ops& ops, const Parameter& p, const Tensor& flat,
                            const std::string& prefix) {
  HostTensor out{.name = prefix + p.name, .dtype = "F32", .shape = p.torch_shape, .bytes = {}};
  const auto count = static_cast<std::size_t>(p.count);
  out.bytes.resize(count * sizeof(float));
  const Tensor view = parameter_view(p, flat);
  if (p.layout == ParameterLayout::kPlain) {
    ops.copy_to_host(out.bytes.data(), view);
    return out;
  }
  std::vector<float> copy;  // copy of a device's memory; host memory is read in place
  if (!ops.on_host()) {
    copy.resize(count);
    ops.copy_to_host(copy.data(), view);
  }
  const std::span<const float> ours(ops.on_host() ? view.f32() : copy.data(), count);
  const std::span theirs(reinterpret_cast<float*>(out.bytes.data()), count);
  for_each_pair(transposition_of(p), [&](auto i, auto j) { theirs[i] = ours[j]; });
  return out;
}

void import_parameter(Ops& ops, const Parameter& p, const Tensor& flat, const NamedTensors& file,
                      const std::string& prefix) {
  const std::span<const float> theirs = file.float32(prefix + p.name, p.torch_shape);
  std::vector<float> ours(theirs.size());
  for_each_pair(transposition_of(p), [&](auto i, auto j) { ours[j] = theirs[i]; });
  ops.copy_to_device(parameter_view(p, flat), ours.data());
}

/// Returns the names of the I64 scalars of the batch norms.
std::vector<std::string> batches_tracked_names(const std::vector<Parameter>& state) {
  std::vector<std::string> names;
  for (const Parameter& p : state) {
    if (!p.name.ends_with(kRunningVariance)) continue;
    const std::size_t stem = p.name.size() - kRunningVariance.size();
    names.push_back(p.name.substr(0, stem) + std::string(kBatchesTracked));
  }
  return names;
}

std::int64_t read_batches_tracked(const NamedTensors& file, const std::string& name) {
  const NamedTensors::Tensor& tensor = file.at(name);
  std::int64_t value = 0;
  if (tensor.dtype != "I64" || tensor.bytes.size() != sizeof value) {
    throw InputError(file.path().string() + ": tensor " + name + " is " + tensor.dtype + " of " +
                     std::to_string(tensor.bytes.size()) + " bytes, expected one I64");
  }
  std::memcpy(&value, tensor.bytes.data(), sizeof value);
  return value;
}

bool is_wanted(const std::string& name, const StateDictFit& fit) {
  return fit.names.empty() || matches_any(name, fit.names);
}

void check_no_unknown_tensor(const BackboneParameters& parameters, const NamedTensors& file,
                             const std::vector<std::string>& ignored, const StateDictFit& fit) {
  std::set<std::string> known(ignored.begin(), ignored.end());
  for (const auto* of : {&parameters.weights, &parameters.state}) {
    for (const Parameter& p : *of) known.insert(p.name);
  }
  const std::vector<std::string> counters = batches_tracked_names(parameters.state);
  known.insert(counters.begin(), counters.end());
  for (const auto& [name, tensor] : file.tensors()) {
    if (!known.contains(name) && is_wanted(name, fit)) {
      throw InputError(file.path().string() + ": tensor " + name +
                       " does not belong to this network; set \"network\" to that of the file");
    }
  }
}

/// Returns whether the tensor may be skipped: LastLayers covers it, and in the file it has another
/// shape.
bool is_left(const Parameter& p, const NamedTensors& file) {
  constexpr std::array<std::string_view, 6> kLast = {
      "fc.", "features.", "output_layer.3.", "output_layer.4.", "feature.", "pos_embed"};
  if (std::ranges::none_of(kLast, [&](auto last) { return p.name.starts_with(last); })) {
    return false;
  }
  const auto found = file.tensors().find(p.name);
  return found != file.tensors().end() && found->second.dtype == "F32" &&
         found->second.shape != p.torch_shape;
}

}  // namespace

std::vector<HostTensor> export_flat(Ops& ops, const Arena& arena, const Tensor& flat,
                                    const std::string& prefix) {
  std::vector<HostTensor> out;
  out.reserve(arena.parameters.size());
  for (const Parameter& p : arena.parameters) out.push_back(export_parameter(ops, p, flat, prefix));
  return out;
}

void import_flat(Ops& ops, const Arena& arena, const Tensor& flat, const NamedTensors& file,
                 const std::string& prefix) {
  for (const Parameter& p : arena.parameters) import_parameter(ops, p, flat, file, prefix);
}

std::vector<HostTensor> export_state_dict(Ops& ops, const Backbone& backbone) {
  std::vector<HostTensor> out = export_flat(ops, backbone.weights, backbone.weights.flat(), "");
  for (HostTensor& t : export_flat(ops, backbone.state, backbone.state.flat(), "")) {
    out.push_back(std::move(t));
  }
  const auto counter = std::as_bytes(std::span(&backbone.batches_tracked, 1));
  for (std::string& name : batches_tracked_names(backbone.state.parameters)) {
    out.push_back({std::move(name), "I64", {}, {counter.begin(), counter.end()}});
  }
  return out;
}

std::vector<std::string> check_state_dict(const BackboneParameters& parameters,
                                          const NamedTensors& file,
                                          const std::vector<std::string>& ignored,
                                          const StateDictFit& fit) {
  check_no_unknown_tensor(parameters, file, ignored, fit);
  std::vector<std::string> left;
  for (const auto* of : {&parameters.weights, &parameters.state}) {
    for (const Parameter& p : *of) {
      if (!is_wanted(p.name, fit)) continue;
      if (fit.last == LastLayers::kMayDiffer && is_left(p, file)) {
        left.push_back(p.name + " " + shape_text(file.at(p.name).shape) + ", here " +
                       shape_text(p.torch_shape));
      } else {
        (void)file.float32(p.name, p.torch_shape);
      }
    }
  }
  for (const std::string& name : batches_tracked_names(parameters.state)) {
    if (is_wanted(name, fit)) (void)read_batches_tracked(file, name);
  }
  return left;
}

std::vector<std::string> import_state_dict(Ops& ops, Backbone& backbone, const NamedTensors& file,
                                           const std::vector<std::string>& ignored,
                                           const StateDictFit& fit) {
  std::vector<std::string> left = check_state_dict(
      {backbone.weights.parameters, backbone.state.parameters}, file, ignored, fit);
  backbone.operands_are_current = false;
  for (const Arena* arena : {&backbone.weights, &backbone.state}) {
    for (const Parameter& p : arena->parameters) {
      if (!is_wanted(p.name, fit) || is_left(p, file)) continue;
      import_parameter(ops, p, arena->flat(), file, "");
    }
  }
  // PyTorch counts the batches of each batch norm separately. The counts are equal unless layers of
  // different networks were combined by hand. With a constant momentum the count has no effect.
  backbone.batches_tracked = 0;
  for (const std::string& name : batches_tracked_names(backbone.state.parameters)) {
    if (!is_wanted(name, fit)) continue;
    backbone.batches_tracked = std::max(backbone.batches_tracked, read_batches_tracked(file, name));
  }
  return left;
}

}  // namespace pfc
