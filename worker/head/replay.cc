#include "worker/head/replay.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

#include "common/error.h"
#include "common/safetensors.h"
#include "worker/head/head.h"
#include "worker/head/row_copy.h"

namespace pfc {
namespace {

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(size);
  }
  return text + "]";
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& name,
                         const SafetensorsFile::Tensor& found, const std::string& expected) {
  throw InputError(path.string() + ": " + name + " is " + found.dtype + " " + text_of(found.shape) +
                   ", expected " + expected);
}

const SafetensorsFile::Tensor& matrix(const SafetensorsFile& file, const std::string& name,
                                      const std::string& expected) {
  const SafetensorsFile::Tensor& t = file.at(name);
  if (t.dtype != "F32" || t.shape.size() != 2 || t.shape[0] < 1 || t.shape[1] < 1) {
    refuse(file.path(), name, t, expected);
  }
  return t;
}

std::vector<float> floats(const SafetensorsFile& file, const std::string& name,
                          const std::vector<std::int64_t>& shape) {
  const std::span<const float> values = file.float32(name, shape);
  return {values.begin(), values.end()};
}

template <typename T>
SafetensorsEntry entry(const std::string& name, const std::vector<T>& values,
                       std::vector<std::int64_t> shape) {
  return {.name = name,
          .dtype = "F32",
          .shape = std::move(shape),
          .bytes = std::as_bytes(std::span(values))};
}

}  // namespace

HeadStepInput read_head_step(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  const auto& embeddings = matrix(file, "embeddings", "F32 [N, D]");
  const std::int64_t d = embeddings.shape[1];
  const auto& centres = matrix(file, "centres", "F32 [C, " + std::to_string(d) + "]");
  HeadStepInput in{.samples = embeddings.shape[0], .classes = centres.shape[0], .dimension = d};
  in.embeddings = floats(file, "embeddings", {in.samples, d});
  in.centres = floats(file, "centres", {in.classes, d});
  const auto& labels = file.at("labels");
  if (labels.dtype != "I64" || labels.shape != std::vector<std::int64_t>{in.samples}) {
    refuse(path, "labels", labels, "I64 " + text_of({in.samples}));
  }
  in.labels.resize(static_cast<std::size_t>(in.samples));
  std::memcpy(in.labels.data(), labels.bytes.data(), labels.bytes.size());
  if (file.tensors().contains("momentum")) {
    in.momentum = floats(file, "momentum", {in.classes, d});
  }
  if (file.tensors().contains("second")) in.second = floats(file, "second", {in.classes, d});
  return in;
}

HeadStepOutput make_head_step_output(const HeadStepInput& input, const JobConfig& job) {
  HeadStepOutput output;
  output.d_embeddings.resize(input.embeddings.size());
  output.centres.resize(input.centres.size());
  output.momentum.resize(input.centres.size());
  if (job.optimizer == OptimizerKind::kAdamW) output.second.resize(input.centres.size());
  return output;
}

void write_head_step(const std::filesystem::path& path, const HeadStepInput& input,
                     const HeadStepOutput& output) {
  const std::vector<float> loss{static_cast<float>(output.loss)};
  const std::vector<std::int64_t> table{input.classes, input.dimension};
  std::vector<SafetensorsEntry> entries{
      entry("loss", loss, {1}),
      entry("d_embeddings", output.d_embeddings, {input.samples, input.dimension}),
      entry("centres", output.centres, table), entry("momentum", output.momentum, table)};
  if (!output.second.empty()) entries.push_back(entry("second", output.second, table));
  write_safetensors(path, entries);
}

void replay_head_step(Ops& ops, Comm& comm, const JobConfig& job, std::int64_t step,
                      const HeadStepInput& input, HeadStepOutput& output) {
  HeadOptions options = head_options(job);
  options.classes = input.classes;
  options.embedding_size = input.dimension;
  options.gradient_acc = 1;
  const auto head = make_head(ops, comm, options);
  const Head::State state = head->state();
  const std::int64_t first = head->shard().begin * input.dimension;
  copy_rows_to_device(ops, state.centres, input.centres.data() + first);
  if (!input.momentum.empty()) {
    copy_rows_to_device(ops, state.momentum, input.momentum.data() + first);
  }
  if (state.second && !input.second.empty()) {
    copy_rows_to_device(ops, state.second, input.second.data() + first);
  }
  head->state_changed();

  const Shape shape{input.samples, input.dimension};
  const auto embeddings = ops.allocate(input.embeddings.size() * sizeof(float));
  const Tensor x(embeddings->data(), DType::kFloat32, shape);
  ops.copy_to_device(x, input.embeddings.data());
  const ActiveCentres active = head->sample(input.labels, step);
  const HeadResult result = head->run({.all_embeddings = x,
                                       .all_labels = input.labels,
                                       .active = active,
                                       .lr = job.lr,
                                       .update = step});
  comm.all_reduce_sum(result.d_embeddings);
  copy_rows_to_host(ops, output.centres.data() + first, state.centres);
  copy_rows_to_host(ops, output.momentum.data() + first, state.momentum);
  if (state.second) copy_rows_to_host(ops, output.second.data() + first, state.second);
  if (comm.rank() != 0) return;
  output.loss = result.loss;
  ops.copy_to_host(output.d_embeddings.data(), result.d_embeddings);
}

}  // namespace pfc
