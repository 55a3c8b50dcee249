#include "common/config/keys/arcface_torch_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/config/config.h"
#include "common/config/job_file.h"
#include "common/config/job_json.h"
#include "common/error.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// The keys of configs/base.py, and those that the configurations of the data sets add.
const char* const kBase = R"({"margin_list": [1.0, 0.5, 0.0], "network": "r50", "resume": false,
    "save_all_states": false, "output": "ms1mv3_arcface_r50", "embedding_size": 512,
    "sample_rate": 1, "interclass_filtering_threshold": 0, "fp16": false, "batch_size": 128,
    "optimizer": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 5e-4, "verbose": 2000,
    "frequent": 10, "dali": false, "dali_aug": false, "gradient_acc": 1, "seed": 2048,
    "num_workers": 2, "wandb_key": "X", "suffix_run_name": null, "using_wandb": false,
    "wandb_entity": "entity", "wandb_project": "project", "wandb_log_all": true,
    "save_artifacts": false, "wandb_resume": false, "notes": "", "rec": "/train_tmp/ms1m",
    "num_classes": 93431, "num_image": 5179510, "num_epoch": 20, "warmup_epoch": 0,
    "val_targets": ["lfw", "cfp_fp", "agedb_30"]})";

TEST(ArcfaceTorchKeys, AcceptEveryKeyOfTheBaseConfiguration) {
  const JobConfig job = parse_job(json::parse(kBase), "job.json");
  EXPECT_EQ(job.num_classes, 93431);
  EXPECT_THAT(ignored_key_warnings(json::parse(kBase)),
              ElementsAre(StartsWith("wandb_key, wandb_entity, wandb_project, wandb_log_all are "
                                     "ignored: pfc sends nothing to Weights & Biases")));
}

TEST(ArcfaceTorchKeys, GiveOneWarningForEachReason) {
  EXPECT_THAT(ignored_key_warnings(json::parse(R"({"dali": true, "save_all_states": true})")),
              ElementsAre(HasSubstr("save_all_states is ignored: every checkpoint"),
                          HasSubstr("dali is ignored: num_workers threads of each worker decode")));
}

TEST(ArcfaceTorchKeys, GiveNoWarningIfFalseOrEmpty) {
  EXPECT_THAT(ignored_key_warnings(json::parse(R"({"dali": false, "wandb_key": ""})")), IsEmpty());
}

TEST(ArcfaceTorchKeys, DaliAugSelectsItsAugmentations) {
  const JobConfig job = parse_job(json::parse(R"({"dali_aug": true})"), "job.json");
  EXPECT_EQ(
      job.augment,
      (Augmentation{.flip = true, .low_resolution = 0.1, .blur = 0.2, .colour = 0.2, .grey = 0.1}));
  EXPECT_EQ(parse_job(to_json(job), "job.json").augment, job.augment);
  const std::string error = testing::message_of<InputError>([] {
    parse_job(json::parse(R"({"dali_aug": true, "augment": {"blur": 0.5}})"), "job.json");
  });
  EXPECT_THAT(error,
              HasSubstr("augment: expected no value, because \"dali_aug\" is true; remove one"));
}

TEST(ArcfaceTorchKeys, AreKnownInOverrides) {
  json job = json::object();
  for (const ArcfaceTorchKey& each : arcface_torch_keys()) {
    apply_overrides(job, std::vector{std::string(each.key) + "=true"});
    EXPECT_EQ(job[std::string(each.key)], true);
  }
}

}  // namespace
}  // namespace pfc
