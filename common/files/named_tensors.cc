#include "common/files/named_tensors.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/config/nearest.h"
#include "common/error.h"
#include "common/one_line.h"

namespace pfc {

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t d : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(d);
  }
  return text + "]";
}

std::string quoted_name(std::string_view name) {
  constexpr std::size_t kLongest = 200;
  std::string shown(name.substr(0, kLongest));
  std::ranges::replace_if(
      shown, [](char c) { return static_cast<unsigned char>(c) < 32; }, '?');
  return "'" + one_line(shown) + (name.size() > kLongest ? "...'" : "'");
}

const NamedTensors::Tensor& NamedTensors::at(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, tensor] : tensors_) names.push_back(known);
  const std::string nearest = nearest_word(name, names);
  throw InputError(path_.string() + ": has no tensor " + quoted_name(name) +
                   (nearest.empty() ? "" : "; the nearest is " + quoted_name(nearest)));
}

std::span<const float> NamedTensors::float32(const std::string& name,
                                             std::span<const std::int64_t> shape) const {
  const Tensor& t = at(name);
  if (t.dtype != "F32" || !std::ranges::equal(t.shape, shape)) {
    throw InputError(path_.string() + ": tensor " + quoted_name(name) + " is " + t.dtype + " " +
                     shape_text(t.shape) + ", expected F32 " + shape_text(shape));
  }
  return {reinterpret_cast<const float*>(t.bytes.data()), t.bytes.size() / sizeof(float)};
}

NamedTensors NamedTensors::extract(const std::function<bool(const std::string&)>& match) {
  NamedTensors out(path_);
  out.memory_ = memory_;
  for (auto i = tensors_.begin(); i != tensors_.end();) {
    const auto next = std::next(i);
    if (match(i->first)) out.tensors_.insert(tensors_.extract(i));
    i = next;
  }
  return out;
}

void NamedTensors::add_owned(const std::string& name, const std::string& dtype,
                             std::vector<std::int64_t> shape, std::vector<std::byte> bytes) {
  const auto owned = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  keep(owned);
  add(name, {.dtype = dtype, .shape = std::move(shape), .bytes = *owned});
}

}  // namespace pfc
