#include "common/config/arcface_torch_job.h"

#include <nlohmann/json.hpp>
#include <string>

#include "common/config/keys/arcface_torch_keys.h"
#include "common/config/python_config.h"

namespace pfc {
namespace {

using nlohmann::json;

/// Defaults of arcface_torch (recognition/arcface_torch/configs/base.py), without the keys of
/// Weights & Biases.
constexpr std::string_view kBase = R"(
config = EasyDict()
config.margin_list = (1.0, 0.5, 0.0)
config.network = "r50"
config.resume = False
config.save_all_states = False
config.output = "ms1mv3_arcface_r50"
config.embedding_size = 512
config.sample_rate = 1
config.interclass_filtering_threshold = 0
config.fp16 = False
config.batch_size = 128
config.optimizer = "sgd"
config.lr = 0.1
config.momentum = 0.9
config.weight_decay = 5e-4
config.verbose = 2000
config.frequent = 10
config.dali = False
config.dali_aug = False
config.gradient_acc = 1
config.seed = 2048
config.num_workers = 2
)";

}  // namespace

json arcface_torch_job(std::string_view text, const std::filesystem::path& path,
                       const std::optional<std::string>& base) {
  const std::filesystem::path base_path = path.parent_path() / "base.py";
  json job = parse_python_config(base ? *base : kBase, base_path.string());
  job.update(parse_python_config(text, path.string()));
  if (job.value("output", json()).is_null()) job["output"] = "work_dirs/" + path.stem().string();
  if (job.value("using_wandb", json(false)) != json(true)) {
    for (const ArcfaceTorchKey& each : wandb_keys()) job.erase(std::string(each.key));
  }
  const auto warmup = job.find("warmup_epoch");
  if (warmup != job.end() && warmup->is_number() && warmup->get<double>() < 0) *warmup = 0;
  return job;
}

}  // namespace pfc
