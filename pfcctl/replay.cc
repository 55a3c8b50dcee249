// pfcctl replay: repeats a step from the file that a worker wrote when the step failed.
#include "worker/head/replay.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "common/command_line.h"
#include "common/config/job_file.h"
#include "common/config/job_json.h"
#include "common/error.h"
#include "pfcctl/verbs.h"

namespace pfc {
namespace {

using std::filesystem::path;

struct ReplayFlags {
  std::vector<path> in;
  path out;
  std::vector<std::string> overrides;
  std::int64_t step = 0;  ///< 0: the step in the file
  int workers = 1;
};

void check_out(const ReplayFlags& flags, const HeadStepInput& input) {
  const path folder = flags.out.has_parent_path() ? flags.out.parent_path() : path(".");
  if (!std::filesystem::is_directory(folder)) {
    throw InputError("--out " + flags.out.string() +
                     ": this folder does not exist: " + folder.string());
  }
  std::error_code absent;
  for (const SafetensorsFile& file : input.files) {
    if (std::filesystem::equivalent(file.path(), flags.out, absent)) {
      throw InputError("--out " + flags.out.string() +
                       ": this is an input file of --in; choose another file");
    }
  }
}

ReplayOptions options_of(const ReplayFlags& flags, const HeadStepInput& input) {
  nlohmann::json keys = input.job;
  const JobConfig recorded = parse_job(keys, input.path().string() + ": metadata job");
  apply_overrides(keys, flags.overrides);
  const JobConfig job = parse_job(keys, {input.path().string(), flags.overrides});
  if (!input.classes.empty() && job.sample_rate != recorded.sample_rate) {
    throw InputError(
        "--set sample_rate: " + input.path().string() +
        " contains only the rows that were sampled, so the rate cannot change; remove this --set");
  }
  return {.job = job,
          .step = flags.step > 0 ? flags.step : input.step,
          .update = flags.step > 0 ? flags.step : input.update,
          .workers = flags.workers};
}

std::string bad_rows(const RowHealth& health, const char* row_name,
                     const std::vector<std::int64_t>& classes) {
  if (health.not_finite() == 0) return "-";
  const std::int64_t row = health.first_bad_row();
  std::string text =
      std::to_string(health.not_finite()) + ", first in " + row_name + " " + std::to_string(row);
  if (!classes.empty())
    text += " (class " + std::to_string(classes[static_cast<std::size_t>(row)]) + ")";
  return text;
}

void show_head() {
  std::printf("%-20s %-18s %-40s %s\n", "", "shape", "not finite", "length of rows");
}

void show(const char* name, const RowHealth& health, const char* row_name,
          const std::vector<std::int64_t>& classes = {}) {
  const std::string shape =
      std::to_string(health.rows()) + " x " + std::to_string(health.columns());
  std::printf("%-20s %-18s %-40s ", name, shape.c_str(),
              bad_rows(health, row_name, classes).c_str());
  if (std::isfinite(health.shortest())) {
    std::printf("%.4g .. %.4g\n", health.shortest(), health.longest());
  } else {
    std::printf("-\n");
  }
}

void show(const char* name, const RowTable& table, const char* row_name,
          const std::vector<std::int64_t>& classes = {}) {
  if (table.pieces.empty()) return;
  RowHealth health(table.columns);
  for (const std::span<const float> piece : table.pieces) health.add(piece);
  show(name, health, row_name, classes);
}

void show_input(const HeadStepInput& input, const ReplayOptions& options) {
  std::printf("step %lld, lr %g, %d worker%s", static_cast<long long>(options.step), options.job.lr,
              options.workers, options.workers == 1 ? "" : "s");
  if (input.micro_batches > 1) {
    std::printf(", %lld micro-batches of %lld samples", static_cast<long long>(input.micro_batches),
                static_cast<long long>(input.samples / input.micro_batches));
  }
  std::printf(input.story.empty() ? "\n" : "; %s\n", input.story.c_str());
  show_head();
  show("embeddings", RowTable{input.dimension, {input.embeddings}}, "sample");
  show("centres", input.centres, "row", input.classes);
  show("momentum", input.momentum, "row", input.classes);
  show("second", input.second, "row", input.classes);
  show("job's d_embeddings", input.job_d_embeddings, "sample");
}

void show_result(const ReplayResult& result, const HeadStepInput& input) {
  std::printf("\nafter the step: loss %.9g, |d_embeddings| %.6g\n", std::abs(result.loss),
              result.d_embeddings.norm());
  const auto wrong =
      std::ranges::find_if(result.losses, [](double loss) { return !std::isfinite(loss); });
  if (wrong != result.losses.end()) {
    std::printf("nothing was updated, because the loss%s is not finite\n",
                result.losses.size() == 1
                    ? ""
                    : (" of micro-batch " + std::to_string(wrong - result.losses.begin())).c_str());
  }
  show_head();
  show("d_embeddings", result.d_embeddings, "sample");
  show("centres", result.centres, "row", input.classes);
  if (result.momentum.rows() > 0) show("momentum", result.momentum, "row", input.classes);
  if (result.second.rows() > 0) show("second", result.second, "row", input.classes);
}

void run_head(const ReplayFlags& flags) {
  const HeadStepInput input = read_head_step(flags.in);
  check_out(flags, input);
  const ReplayOptions options = options_of(flags, input);
  check_replay(input, options);
  show_input(input, options);
  std::fflush(stdout);  // show the input now, because the step may take a while
  show_result(replay_head_step(input, options, flags.out), input);
}

void add_head(CLI::App& replay) {
  const auto flags = std::make_shared<ReplayFlags>();  // owned by the verb's callback
  CLI::App* verb = replay.add_subcommand("head", "Runs one step of the sharded margin softmax");
  verb->add_option("--in", flags->in, "File of the step, or the folder with all workers' parts")
      ->required();
  verb->add_option("--out", flags->out,
                   "Output file for loss, d_embeddings and the updated centres")
      ->required();
  verb->add_option("--workers", flags->workers,
                   "Number of workers that share the rows; they run as threads of this process")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  verb->add_option("--set", flags->overrides,
                   "key=value: changes a key of the job. May be repeated");
  verb->add_option("--step", flags->step,
                   "Number of the step and of its update. Default: the number in the file")
      ->check(whole_number(1, std::numeric_limits<std::int64_t>::max()));
  verb->footer(
      "Lists values in the file that are not finite, runs the step, and writes its results\n"
      "(docs/replay.md). Examples:\n"
      "  pfcctl replay head --in out/not-finite-step-000000012 --out /tmp/after.safetensors\n"
      "  pfcctl replay head --in x.safetensors --out y.safetensors --set lr=0.01 --workers 2");
  verb->callback([flags] { run_head(*flags); });
}

}  // namespace

void add_replay_verb(CLI::App& pfcctl) {
  CLI::App* replay = pfcctl.add_subcommand("replay", "Runs a recorded step again");
  replay->require_subcommand(1);
  add_head(*replay);
}

}  // namespace pfc
