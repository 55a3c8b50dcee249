#include "common/config/arcface_torch_job.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/config/job_json.h"

namespace pfc {
namespace {

using nlohmann::json;

TEST(ArcfaceTorchJob, HasTheDefaultsOfArcfaceTorch) {
  const json job = arcface_torch_job("config = EasyDict()\nconfig.output = None\n", "configs/a.py",
                                     std::nullopt);
  EXPECT_EQ(job["output"], "work_dirs/a");
  json expected = to_json(parse_job(json::object(), "defaults"));
  expected["output"] = "work_dirs/a";
  EXPECT_EQ(to_json(parse_job(job, "a.py")), expected);
}

TEST(ArcfaceTorchJob, TakesDefaultsFromBase) {
  const json job = arcface_torch_job(
      "config = EasyDict()\nconfig.output = 'o'\nconfig.seed = 6\nconfig.warmup_epoch = -1\n",
      "configs/a.py",
      "from easydict import EasyDict as edict\nconfig = edict()\nconfig.lr = 0.3\n"
      "config.seed = 5\nconfig.wandb_key = 'X'\nconfig.using_wandb = False\n");
  EXPECT_EQ(job, json({{"lr", 0.3}, {"seed", 6}, {"output", "o"}, {"warmup_epoch", 0}}));
}

}  // namespace
}  // namespace pfc
