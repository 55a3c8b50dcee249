// Many steps of a head from a file, for comparison with another implementation.
//
//   head_steps JOB IN.safetensors OUT.safetensors
//
// JOB is a job's keys as JSON. IN holds `embeddings` F32 [T, N, D] and `labels` I64 [T, N] of each
// step, its learning rate `lrs` F32 [T], and `centres` F32 [C, D]. OUT gets `losses` F32 [T],
// `d_embeddings` F32 [T, N, D], and `centres`, `momentum` and for AdamW `second` F32 [C, D] after
// the last step.
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <vector>

#include "comm/make_comm.h"
#include "common/config/job_json.h"
#include "common/files/safetensors.h"
#include "kernels/make_ops.h"
#include "worker/head/head.h"
#include "worker/head/row_copy.h"

namespace pfc {
namespace {

using Sizes = std::vector<std::int64_t>;

struct Steps {
  Steps(const SafetensorsFile& in, const JobConfig& job)
      : shape(in.at("embeddings").shape),
        embeddings(in.float32("embeddings", shape)),
        labels(reinterpret_cast<const std::int64_t*>(in.at("labels").bytes.data()),
               static_cast<std::size_t>(steps() * samples())),
        lrs(in.float32("lrs", Sizes{steps()})),
        options(head_options(job)) {
    options.embedding_size = dimension();
    options.classes = in.at("centres").shape.at(0);
    centres = in.float32("centres", Sizes{options.classes, dimension()});
  }
  [[nodiscard]] std::int64_t steps() const { return shape.at(0); }
  [[nodiscard]] std::int64_t samples() const { return shape.at(1); }
  [[nodiscard]] std::int64_t dimension() const { return shape.at(2); }

  const Sizes shape;
  const std::span<const float> embeddings;
  const std::span<const std::int64_t> labels;
  const std::span<const float> lrs;
  std::span<const float> centres;
  HeadOptions options;
};

struct Results {
  std::vector<float> losses, d_embeddings, centres, momentum, second;
};

std::vector<float> to_host(Ops& ops, const ScaledRows& rows) {
  std::vector<float> values(static_cast<std::size_t>(rows ? rows.elements() : 0));
  if (rows) copy_rows_to_host(ops, values.data(), rows);
  return values;
}

Results run(Ops& ops, const Steps& in) {
  const auto comm = make_host_comm({.membership = {}, .name = "head_steps"}, nullptr);
  const auto head = make_head(ops, *comm, in.options);
  copy_rows_to_device(ops, head->state().centres, in.centres.data());
  head->state_changed();
  Results out;
  std::vector<float> embeddings;
  for (std::int64_t t = 0; t < in.steps(); ++t) {
    const auto size = static_cast<std::size_t>(in.samples() * in.dimension());
    const auto place = static_cast<std::size_t>(t);
    const auto x = in.embeddings.subspan(place * size, size);
    embeddings.assign(x.begin(), x.end());
    const auto labels = in.labels.subspan(place * static_cast<std::size_t>(in.samples()),
                                          static_cast<std::size_t>(in.samples()));
    const ActiveCentres active = head->sample(labels, t + 1);
    const HeadResult result =
        head->run({.all_embeddings = Tensor(embeddings.data(), {in.samples(), in.dimension()}),
                   .all_labels = labels,
                   .active = active,
                   .lr = static_cast<double>(in.lrs[place]),
                   .update = t + 1});
    out.losses.push_back(static_cast<float>(result.loss));
    const std::vector<float> gradient = to_host(ops, result.d_embeddings);
    out.d_embeddings.insert(out.d_embeddings.end(), gradient.begin(), gradient.end());
  }
  head->settle_all();
  const Head::State state = head->state();
  out.centres = to_host(ops, state.centres);
  out.momentum = to_host(ops, state.momentum);
  out.second = to_host(ops, state.second);
  return out;
}

void write(const char* path, const Steps& in, const Results& out) {
  std::vector<SafetensorsEntry> entries;
  const auto add = [&](const char* name, Sizes shape, const std::vector<float>& values) {
    if (values.empty()) return;
    entries.push_back({.name = name,
                       .dtype = "F32",
                       .shape = std::move(shape),
                       .bytes = std::as_bytes(std::span(values)),
                       .pieces = {}});
  };
  const Sizes table{in.options.classes, in.dimension()};
  add("losses", {in.steps()}, out.losses);
  add("d_embeddings", in.shape, out.d_embeddings);
  add("centres", table, out.centres);
  add("momentum", table, out.momentum);
  add("second", table, out.second);
  write_safetensors(path, entries);
}

}  // namespace
}  // namespace pfc

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: head_steps JOB IN.safetensors OUT.safetensors\n");
    return 2;
  }
  try {
    const pfc::JobConfig job = pfc::parse_job(nlohmann::json::parse(argv[1]), std::string("JOB"));
    const pfc::SafetensorsFile in(argv[2]);
    const pfc::Steps steps(in, job);
    const auto ops = pfc::make_ops({.choice = pfc::DeviceChoice::kCpu});
    pfc::write(argv[3], steps, pfc::run(*ops, steps));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "head_steps: %s\n", e.what());
    return 1;
  }
  return 0;
}
