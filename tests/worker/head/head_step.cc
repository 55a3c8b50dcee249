// head_step --in X.safetensors --out Y.safetensors [--workers W] [--step K] [--job JSON]
// One head step from a file (worker/head/replay.h), its workers as threads.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/config.h"
#include "common/error.h"
#include "kernels/make_ops.h"
#include "tests/support/thread_comm.h"
#include "worker/head/replay.h"

int main(int argc, char** argv) {
  CLI::App app("One head step from a file");
  std::filesystem::path in, out;
  int workers = 1;
  std::int64_t step = 1;
  std::string settings = "{}";
  app.add_option("--in", in)->required();
  app.add_option("--out", out)->required();
  app.add_option("--workers", workers);
  app.add_option("--step", step);
  app.add_option("--job", settings, "the job's keys as a JSON object");
  CLI11_PARSE(app, argc, argv);
  try {
    nlohmann::json keys = nlohmann::json::parse(settings);
    const pfc::JobConfig job = pfc::parse_job(keys, "--job");
    const pfc::HeadStepInput input = pfc::read_head_step(in);
    pfc::HeadStepOutput output = pfc::make_head_step_output(input, job);
    pfc::testing::run_ranks(workers, [&](pfc::Comm& comm) {
      const auto ops = pfc::make_ops({.choice = pfc::DeviceChoice::kCpu, .cpu_threads = 2});
      pfc::replay_head_step(*ops, comm, job, step, input, output);
    });
    pfc::write_head_step(out, input, output);
    return 0;
  } catch (const pfc::InputError& error) {
    std::fprintf(stderr, "head_step: %s\n", error.what());
    return 2;
  }
}
