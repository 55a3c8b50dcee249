// Job files, with options of --set in the first line. A job that is accepted must also be accepted
// in the form that a checkpoint stores.
#include <nlohmann/json.hpp>

#include "common/config/config.h"
#include "common/config/job_file.h"
#include "common/config/job_json.h"
#include "common/error.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/files.h"
#include "tests/support/temporary_folder.h"

std::vector<std::string> pfc::fuzz::seeds() {
  return {
      "lr=0.2\n"
      R"({"network": "r50", "rec": "/data/ms1m", "val_targets": ["lfw", "cfp_fp"],
"margin_list": [1.0, 0.5, 0.0], "sample_rate": 0.1, "batch_size": 128, "lr": 0.1, "num_epoch": 20,
"lr_schedule": {"name": "multistep", "milestones": [5, 9], "gamma": 0.1}, "output": "work_dirs/a",
"precision": "fp16", "optimizer": "adamw", "seed": 18446744073709551615})",
      "lr_schedule.power=2\n"
      R"({"network": "mbf", "rec": "a.rec", "fp16": true, "dali": false,
"momentum": 9e-1, "weight_decay": 1e-400, "notes": "\u00e4\ud83d\ude00", "max_steps": -1})"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(text.find('\n'), text.size());
  static const pfc::TemporaryFolder folder;
  const std::filesystem::path path = folder / "job.json";
  pfc::testing::write_file(path, text.substr(std::min(line + 1, text.size())));
  const std::string set(text.substr(0, line));
  try {
    const nlohmann::json job = pfc::read_job_file(path, {&set, set.empty() ? 0U : 1U});
    const nlohmann::json kept = pfc::to_json(pfc::parse_job(job, "job.json"));
    try {
      if (pfc::to_json(pfc::parse_job(kept, "kept")) != kept) __builtin_trap();
    } catch (const pfc::InputError&) {
      __builtin_trap();
    }
  } catch (const pfc::InputError&) {
  }
  return 0;
}
