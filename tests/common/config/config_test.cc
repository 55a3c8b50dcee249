#include "common/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "common/config/job_file.h"
#include "common/config/job_json.h"
#include "common/error.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

JobConfig parse(const char* text) { return parse_job(json::parse(text), "job.json"); }

std::string refusal(const char* text) {
  return testing::message_of<InputError>([&] { parse(text); });
}

TEST(ParseJob, UsesDefaultsForMissingKeys) {
  const JobConfig job = parse("{}");
  EXPECT_EQ(job.network, "r50");
  EXPECT_EQ(job.embedding_size, 512);
  EXPECT_EQ(job.sample_rate, 1.0);
  EXPECT_EQ(job.margin.m2, 0.5);
  EXPECT_EQ(job.margin_gradient, MarginGradient::kStraightThrough);  // as in arcface_torch
  EXPECT_EQ(job.seed, 2048u);
}

TEST(ParseJob, ReadsAllKindsOfKeys) {
  const JobConfig job = parse(R"({"network": "mbf", "embedding_size": 128,
      "margin_list": [1, 0, 0.4], "margin_gradient": "exact", "sample_rate": 0.1,
      "precision": "bf16", "optimizer": "adamw", "lr": 1e-3, "num_epoch": 2.5, "rec": "/data/x",
      "val_targets": ["lfw", "a/b.bin"], "resume": true, "device": "cpu",
      "seed": 18446744073709551615, "lr_schedule": {"name": "multistep", "epochs": [10, 16]}})");
  EXPECT_EQ(job.network, "mbf");
  EXPECT_EQ(job.margin.m1, 1.0);
  EXPECT_EQ(job.margin.m3, 0.4);
  EXPECT_EQ(job.margin_gradient, MarginGradient::kExact);
  EXPECT_EQ(job.precision, Precision::kBf16);
  EXPECT_EQ(job.optimizer, OptimizerKind::kAdamW);
  EXPECT_EQ(job.num_epoch, 2.5);
  EXPECT_THAT(job.rec, ::testing::ElementsAre("/data/x"));
  EXPECT_THAT(job.val_targets, ::testing::ElementsAre("lfw", "a/b.bin"));
  EXPECT_TRUE(job.resume);
  EXPECT_EQ(job.device, DeviceChoice::kCpu);
  EXPECT_EQ(job.seed, ~std::uint64_t{0});
  EXPECT_EQ(job.lr_schedule.kind, ScheduleKind::kMultistep);
  EXPECT_THAT(job.lr_schedule.epochs, ::testing::ElementsAre(10, 16));
  EXPECT_EQ(job.lr_schedule.gamma, 0.1);
}

TEST(ParseJob, AcceptsAugmentationsAsAnObject) {
  const JobConfig job = parse(R"({"augment": {"blur": 0.25, "cut_out": 1}})");
  EXPECT_EQ(job.augment, (Augmentation{.flip = true, .blur = 0.25, .cut_out = 1}));
  EXPECT_EQ(parse_job(to_json(job), "job.json").augment, job.augment) << "as workers receive it";
  EXPECT_EQ(parse(R"({"augment": false})").augment, Augmentation{.flip = false});
  EXPECT_THAT(refusal(R"({"augment": {"blurr": 0.1}})"),
              HasSubstr("augment: unknown key \"blurr\""));
  EXPECT_THAT(refusal(R"({"augment": {"blur": 1.5}})"), HasSubstr("augment: blur: expected"));
  EXPECT_THAT(refusal(R"({"augment": {"flip": 0.5}})"), HasSubstr("augment: flip: expected"));
  EXPECT_THAT(refusal(R"({"augment": 0.5})"), HasSubstr("augment"));
}

TEST(ParseJob, AcceptsARandomResizedCropAsAFlagOrAnObject) {
  const auto crop = [](const char* value) {
    const std::string text = R"({"augment": {"random_resized_crop": )" + std::string(value) + "}}";
    const JobConfig job = parse(text.c_str());
    EXPECT_EQ(parse_job(to_json(job), "job.json").augment, job.augment) << "as workers receive it";
    return job.augment.random_resized_crop;
  };
  EXPECT_EQ(crop("false"), std::nullopt);
  EXPECT_EQ(crop("true"), RandomResizedCrop{});
  EXPECT_EQ(crop(R"({"scale": [0.5, 0.75]})"), (RandomResizedCrop{.scale = {0.5, 0.75}}));
  EXPECT_EQ(crop(R"({"ratio": [1, 1]})"), (RandomResizedCrop{.ratio = {1, 1}}));
  for (const auto& [wrong, message] :
       {std::pair{"0.5", "augment: random_resized_crop: expected true, false, or"},
        {R"({"scales": [0.1, 1]})", "unknown key \"scales\""},
        {R"({"scale": [0, 1]})", "scale: expected two rising numbers above 0, at most 1"},
        {R"({"scale": [0.5, 1.5]})", "scale: expected two rising numbers above 0, at most 1"},
        {R"({"scale": [0.5, 0.25]})", "scale: expected two rising numbers above 0, at most 1"},
        {R"({"scale": 0.5})", "scale: expected two rising numbers above 0, at most 1"},
        {R"({"ratio": [0, 1]})", "ratio: expected two rising numbers from 0.01 to 100"}}) {
    const std::string text = R"({"augment": {"random_resized_crop": )" + std::string(wrong) + "}}";
    EXPECT_THAT(refusal(text.c_str()), HasSubstr(message));
  }
}

TEST(ParseJob, AcceptsTheLossAsANameOrAnObject) {
  EXPECT_TRUE(is_combined_margin(parse("{}").loss));
  EXPECT_TRUE(is_combined_margin(parse(R"({"loss": "margin"})").loss));
  EXPECT_EQ(std::get<AdaFace>(parse(R"({"loss": "adaface"})").loss).h, 0.333);
  const JobConfig job = parse(R"({"loss": {"name": "magface", "u_a": 50, "lambda_g": 0}})");
  for (const JobConfig& each : {job, parse_job(to_json(job), "as workers receive it")}) {
    EXPECT_EQ(std::get<MagFace>(each.loss).u_a, 50);
    EXPECT_EQ(std::get<MagFace>(each.loss).l_a, 10);
    EXPECT_EQ(std::get<MagFace>(each.loss).lambda_g, 0);
  }
  EXPECT_TRUE(is_plain_softmax(parse(R"({"loss": "softmax"})").loss));
  EXPECT_THAT(refusal(R"({"loss": "softmax", "margin_scale": 30})"),
              HasSubstr("margin_scale: found a scale, but loss \"softmax\" has no scale"));
  EXPECT_THAT(refusal(R"({"loss": "softmax", "interclass_filtering_threshold": 0.4})"),
              HasSubstr("interclass_filtering_threshold: found a threshold, but loss \"softmax\""));
  EXPECT_THAT(refusal(R"({"loss": "softmax", "margin_gradient": "straight_through"})"),
              HasSubstr("margin_gradient: found \"straight_through\", but loss \"softmax\""));
  EXPECT_THAT(refusal(R"({"loss": "softmax", "init_centres": "mean"})"),
              HasSubstr("init_centres: found \"mean\", but loss \"softmax\""));
  EXPECT_THAT(refusal(R"({"loss": "softmax", "sub_centres": 3})"),
              HasSubstr("sub_centres: found 3, but loss \"softmax\" has no centres of classes"));
  EXPECT_THAT(refusal(R"({"loss": {"name": "softmax", "m": 0.4}})"),
              HasSubstr("loss: unknown key \"m\""));
  EXPECT_THAT(refusal(R"({"loss": "arcface"})"),
              HasSubstr(R"(loss: expected "margin", "adaface", "magface")"));
  EXPECT_THAT(refusal(R"({"loss": {"m": 0.4}})"), HasSubstr("loss: expected \"adaface\" or"));
  EXPECT_THAT(refusal(R"({"loss": {"name": "adaface", "std": 0.1}})"),
              HasSubstr("loss: unknown key \"std\""));
  EXPECT_THAT(refusal(R"({"loss": {"name": "adaface", "t_alpha": 2}})"),
              HasSubstr("loss: t_alpha: expected a number from 0 to 1, found 2"));
  EXPECT_THAT(refusal(R"({"loss": {"name": "magface", "u_a": 10}})"),
              HasSubstr("loss: found l_a 10.0, expected less than u_a, 10.0"));
  EXPECT_THAT(refusal(R"({"loss": {"name": "magface", "l_margin": 0.9}})"),
              HasSubstr("loss: found l_margin 0.9, expected at most u_margin, 0.8"));
  EXPECT_THAT(refusal(R"({"loss": "uniface", "sample_correction": true})"),
              HasSubstr("sample_correction: found true, expected false with loss \"uniface\""));
  EXPECT_THAT(refusal(R"({"loss": "uniface", "label_smoothing": 0.1})"),
              HasSubstr("label_smoothing: found 0.1, expected 0 with loss \"uniface\""));
  EXPECT_THAT(refusal(R"({"loss": "adaface", "margin_update": {"end_epoch": 2}})"),
              HasSubstr("margin_update: found a margin that changes, but the key loss selects"));
  EXPECT_THAT(
      refusal(R"({"loss": "adaface", "margin_list": [1, 0, 0.4]})"),
      HasSubstr("margin_list: found a margin, but the key loss selects a loss with its own"));
}

TEST(ParseJob, ReadsTheSamplerAndRejectsKeysThatExcludeHardNegatives) {
  EXPECT_EQ(parse("{}").sampler, Sampler::kRandom);
  const JobConfig job = parse(
      R"({"sampler": "hard", "sample_rate": [[0, 1], [2, 0.1]], "hard_neighbours": 5, "hard_refresh": 70})");
  for (const JobConfig& each : {job, parse_job(to_json(job), "as workers receive it")}) {
    EXPECT_EQ(each.sampler, Sampler::kHard);
    EXPECT_EQ(each.hard_neighbours, 5);
    EXPECT_EQ(each.hard_refresh, 70);
  }
  EXPECT_THAT(
      refusal(R"({"sampler": "hard"})"),
      HasSubstr("sampler: found \"hard\", but sample_rate is 1.0, so no classes are sampled"));
  EXPECT_THAT(refusal(R"({"sampler": "hard", "sample_rate": 0})"),
              HasSubstr("sampler: found \"hard\", but sample_rate is 0.0"));
  EXPECT_THAT(refusal(R"({"sampler": "hard", "sample_rate": 0.1, "sample_correction": true})"),
              HasSubstr("sample_correction: found true, expected false with sampler \"hard\""));
  EXPECT_THAT(
      refusal(R"({"sampler": "hard", "sample_rate": 0.1, "heads": "separate", "rec": ["a", "b"]})"),
      HasSubstr("heads: found \"separate\", expected \"one\" with sampler \"hard\""));
  EXPECT_THAT(refusal(R"({"sampler": "hard", "sample_rate": 0.1, "centre_storage": "disk"})"),
              HasSubstr("centre_storage: found \"disk\", expected \"device\" with sampler"));
}

TEST(ParseJob, LimitsSubCentres) {
  EXPECT_EQ(parse(R"({"sub_centres": 3})").sub_centres, 3);
  EXPECT_THAT(refusal(R"({"sub_centres": 0})"),
              HasSubstr("sub_centres: expected an integer from 1 to 16, found 0"));
  EXPECT_THAT(refusal(R"({"sub_centres": 3, "init_centres": "mean"})"),
              HasSubstr("init_centres: found \"mean\", but sub_centres is 3"));
}

TEST(ParseJob, LimitsLabelSmoothing) {
  EXPECT_EQ(parse(R"({"label_smoothing": 0.1})").label_smoothing, 0.1);
  EXPECT_THAT(refusal(R"({"label_smoothing": 1})"),
              HasSubstr("label_smoothing: expected a number from 0 to 0.99, found 1"));
}

TEST(ParseJob, UsesTheExactMarginGradientByDefaultForAdaFace) {
  EXPECT_EQ(parse("{}").margin_gradient, MarginGradient::kStraightThrough);
  EXPECT_EQ(parse(R"({"loss": "adaface"})").margin_gradient, MarginGradient::kExact);
  EXPECT_EQ(parse(R"({"loss": "adaface", "margin_gradient": "straight_through"})").margin_gradient,
            MarginGradient::kStraightThrough);
}

TEST(ParseJob, ChangesTheKeysOfALossFromTheCommandLine) {
  const auto loss_of = [](json job, const std::vector<std::string>& overrides) {
    apply_overrides(job, overrides);
    return parse_job(job, {"job.json", overrides}).loss;
  };
  EXPECT_EQ(std::get<AdaFace>(loss_of({{"loss", "adaface"}}, {"loss.h=0.2"})).h, 0.2);
  const json magface = to_json(parse(R"({"loss": "magface"})"));
  EXPECT_EQ(std::get<AdaFace>(loss_of(magface, {"loss.name=adaface", "loss.m=0.3"})).m, 0.3);
}

TEST(ParseJob, AcceptsTheScheduleAsANameOrAnObject) {
  EXPECT_EQ(parse(R"({"lr_schedule": "polynomial"})").lr_schedule.power, 1.0);
  EXPECT_EQ(parse(R"({"lr_schedule": {"name": "polynomial", "power": 2}})").lr_schedule.power, 2.0);
  EXPECT_EQ(parse(R"({"lr_schedule": "cosine"})").lr_schedule.final_factor, 0.0);
  const LrSchedule cycle =
      parse(R"({"lr_schedule": {"name": "one_cycle", "pct_start": 0.2}})").lr_schedule;
  EXPECT_EQ(cycle.kind, ScheduleKind::kOneCycle);
  EXPECT_EQ(cycle.pct_start, 0.2);
  EXPECT_EQ(cycle.div_factor, 25);
  EXPECT_THAT(refusal(R"({"lr_schedule": "multistep"})"), HasSubstr(R"("epochs": [10, 18])"));
  EXPECT_THAT(refusal(R"({"lr_schedule": {"power": 2}})"), HasSubstr("found an object"));
  EXPECT_THAT(refusal(R"({"lr_schedule": {"name": "multistep"}})"),
              HasSubstr("job.json: lr_schedule: epochs: expected epochs in rising order"));
  EXPECT_THAT(refusal(R"({"lr_schedule": {"name": "multistep", "epochs": [9, 9]}})"),
              HasSubstr("found 9 (number)"));
  EXPECT_THAT(refusal(R"({"lr_schedule": {"name": "polynomial", "powr": 2}})"),
              HasSubstr(R"(job.json: lr_schedule: unknown key "powr"; did you mean "power"?)"));
  EXPECT_THAT(refusal(R"({"lr_schedule": {"name": "cosine", "final_factor": 1.5}})"),
              HasSubstr("lr_schedule: final_factor: expected a number from 0 to 1"));
  EXPECT_THAT(refusal(R"({"lr_schedule": {"name": "one_cycle", "pct_start": 1}})"),
              HasSubstr("lr_schedule: pct_start: expected a number from 0 to 0.99"));
  EXPECT_THAT(refusal(R"({"lr_schedule": "one_cycle", "warmup_epoch": 1})"),
              HasSubstr("begins with its own rise; set lr_schedule.pct_start instead"));
}

TEST(ParseJob, AcceptsASampleRateForEachEpoch) {
  const SampleRate rate = parse(R"({"sample_rate": [[0, 0.1], [17.5, 1]]})").sample_rate;
  EXPECT_EQ(rate, SampleRate({{0, 0.1}, {17.5, 1.0}}));
  EXPECT_EQ(rate.at(17), 0.1);
  EXPECT_EQ(rate.at(17.5), 1.0);
  for (const char* wrong :
       {"[]", "[0.1, 1]", "[[1, 0.1]]", "[[0, 0.1], [0, 1]]", "[[0, 0.1], [5, 1], [4, 0.5]]",
        "[[0, 0.1, 2]]", R"([[0, 0.1], ["5", 1]])"}) {
    const std::string job = R"({"sample_rate": )" + std::string(wrong) + "}";
    EXPECT_THAT(refusal(job.c_str()), HasSubstr("job.json: sample_rate: expected a number"))
        << wrong;
  }
  EXPECT_THAT(refusal(R"({"sample_rate": [[0, 1.5]]})"), HasSubstr("a number from 0 to 1"));
  EXPECT_THAT(refusal(R"({"num_epoch": 5, "sample_rate": [[0, 0.1], [5, 1]]})"),
              HasSubstr("sample_rate: expected epochs below num_epoch, which is 5.0, found 5.0"));
}

TEST(ParseJob, AcceptsAMarginThatRises) {
  const JobConfig job = parse(R"({"margin_update": {"start_epoch": 2, "end_epoch": 5}})");
  ASSERT_TRUE(job.margin_update);
  EXPECT_EQ(job.margin_update->initial.m2, 0);
  EXPECT_EQ(job.margin_update->end_epoch, 5);
  EXPECT_EQ(job.margin_update->increase, MarginIncrease::kExponential);
  EXPECT_FALSE(parse("{}").margin_update);
  EXPECT_THAT(refusal(R"({"margin_update": true})"), HasSubstr(R"({"start_epoch": 4, )"));
  EXPECT_THAT(refusal(R"({"margin_update": {}})"),
              HasSubstr("margin_update: end_epoch: expected an epoch after start_epoch"));
  EXPECT_THAT(refusal(R"({"margin_update": {"start_epoch": 5, "end_epoch": 5}})"),
              HasSubstr("end_epoch: expected an epoch after start_epoch"));
  EXPECT_THAT(refusal(R"({"num_epoch": 4, "margin_update": {"end_epoch": 5}})"),
              HasSubstr("end_epoch: expected at most num_epoch, which is 4.0, found 5.0"));
  EXPECT_THAT(refusal(R"({"margin_update": {"end_epoch": 5, "increase": "cosine"}})"),
              HasSubstr(R"(increase: expected "exp" or "linear")"));
  EXPECT_THAT(refusal(R"({"margin_update": {"end_epoch": 5, "initial": [1, 0]}})"),
              HasSubstr("initial: expected three numbers"));
  EXPECT_THAT(refusal(R"({"margin_update": {"final_epoch": 5}})"), HasSubstr("unknown key"));
}

TEST(ParseJob, BalancesClassesOnlyInRandomReading) {
  EXPECT_TRUE(parse(R"({"balance_classes": true})").balance_classes);
  EXPECT_THAT(refusal(R"({"balance_classes": true, "read": "sequential"})"),
              HasSubstr("balance_classes: found true, but read is \"sequential\""));
}

TEST(ParseJob, AcceptsADecayOfTheAveragedBackbone) {
  EXPECT_EQ(parse("{}").ema_decay, 0);
  EXPECT_EQ(parse(R"({"ema_decay": 0.9999})").ema_decay, 0.9999);
  EXPECT_THAT(refusal(R"({"ema_decay": 1})"), HasSubstr("ema_decay: expected a number from 0 to"));
  EXPECT_THAT(refusal(R"({"ema_decay": 0.9, "network": "none"})"), HasSubstr("has no backbone"));
}

TEST(ParseJob, AcceptsATeacherAndItsLoss) {
  EXPECT_EQ(parse("{}").teacher, "");
  const JobConfig job =
      parse(R"({"teacher": "r50.pt", "distill_embeddings": "mse", "distill_weight": 4})");
  EXPECT_EQ(job.teacher, "r50.pt");
  EXPECT_EQ(job.distill_embeddings, DistillEmbeddings::kMse);
  EXPECT_EQ(job.distill_weight, 4);
  EXPECT_THAT(refusal(R"({"teacher": "r50.pt", "distill_weight": 0})"),
              HasSubstr("distill_weight: expected a number above 0"));
  EXPECT_THAT(refusal(R"({"teacher": "r50.pt", "distill_embeddings": "kl"})"),
              HasSubstr(R"(distill_embeddings: expected "cosine", "mse" or "none")"));
  EXPECT_EQ(parse(R"({"teacher": "", "distill_embeddings": "mse", "distill_weight": 4})").teacher,
            "");
  EXPECT_THAT(refusal(R"({"teacher": "r50.pt", "network": "none"})"),
              HasSubstr("teacher: found a file, but network \"none\" reads no images"));
}

TEST(ParseJob, AcceptsTheLogitsOfATeacher) {
  EXPECT_EQ(parse("{}").distill_logits, 0);
  EXPECT_EQ(parse("{}").distill_temperature, 4);
  EXPECT_EQ(parse("{}").teacher_precision, Precision::kAuto);
  const JobConfig job = parse(
      R"({"teacher": "t", "distill_logits": 2, "distill_temperature": 8, "distill_embeddings": "none",
          "teacher_precision": "bf16", "loss": "uniface"})");
  EXPECT_EQ(job.distill_logits, 2);
  EXPECT_EQ(job.distill_temperature, 8);
  EXPECT_EQ(job.distill_embeddings, DistillEmbeddings::kNone);
  EXPECT_EQ(job.teacher_precision, Precision::kBf16);
  const auto refused = [](const std::string& keys) {
    return refusal((R"({"teacher": "t", "distill_logits": 2, )" + keys + "}").c_str());
  };
  EXPECT_THAT(refused(R"("loss": "softmax", "margin_gradient": "exact")"),
              HasSubstr("distill_logits: found 2.0, but the logits of loss \"softmax\" are not"));
  EXPECT_THAT(refused(R"("sub_centres": 3)"),
              HasSubstr("distill_logits: found 2.0, but sub_centres is 3"));
  EXPECT_THAT(refused(R"("heads": "separate", "rec": ["a", "b"])"),
              HasSubstr("distill_logits: found 2.0, but heads is \"separate\""));
  EXPECT_THAT(refused(R"("distill_temperature": 0.5)"),
              HasSubstr("distill_temperature: found 0.5, expected at least 1.0, which is "
                        "margin_scale / 64"));
  EXPECT_THAT(refused(R"("teacher_precision": "fp16")"),
              HasSubstr(R"(teacher_precision: expected "auto", "fp32" or "bf16")"));
  EXPECT_THAT(refusal(R"({"teacher": "t", "distill_embeddings": "none"})"),
              HasSubstr("distill_embeddings: found \"none\", but distill_logits is 0"));
}

TEST(ParseJob, AcceptsFp16AsThePrecision) {
  EXPECT_EQ(parse(R"({"fp16": true})").precision, Precision::kFp16);
  EXPECT_EQ(parse(R"({"fp16": false})").precision, Precision::kFp32);
  EXPECT_EQ(parse(R"({"fp16": false, "precision": "bf16"})").precision, Precision::kBf16);
  EXPECT_EQ(parse(R"({"fp16": true, "precision": "fp16"})").precision, Precision::kFp16);
  EXPECT_THAT(refusal(R"({"fp16": true, "precision": "bf16"})"), HasSubstr("\"fp16\" is true"));
  EXPECT_THAT(refusal(R"({"fp16": 1})"), HasSubstr("fp16: expected true or false"));
}

TEST(ParseJob, SuggestsTheNearestKeyForAnUnknownKey) {
  EXPECT_EQ(refusal(R"({"batchsize": 4})"),
            R"(job.json: unknown key "batchsize"; did you mean "batch_size"?)");
  EXPECT_EQ(refusal(R"({"profiler": "x"})"),
            R"(job.json: unknown key "profiler"; docs/configuration.md lists all keys)");
}

TEST(ParseJob, SuggestsThePfcKeyForAKeyOfAnotherProgram) {
  for (const char* job : {R"({"lr_steps": [10]})", R"({"decay_epoch": [10]})"}) {
    EXPECT_THAT(refusal(job),
                HasSubstr(R"("; expected "lr_schedule": {"name": "multistep", "epochs")"));
  }
}

TEST(ParseJob, TreatsNullAsAMissingKey) {
  nlohmann::json job = to_json(JobConfig{});
  for (auto& [key, value] : job.items()) value = nullptr;
  job["fp16"] = nullptr;
  EXPECT_EQ(to_json(parse_job(job, "job.json")), to_json(JobConfig{}));
  EXPECT_EQ(parse_job({{"fp16", true}, {"precision", nullptr}}, "job.json").precision,
            Precision::kFp16);
}

TEST(ParseJob, RejectsAnEmptyOutput) {
  EXPECT_EQ(refusal(R"({"output": ""})"),
            R"(job.json: output: expected the path of a folder, found "" (string))");
}

TEST(ParseJob, ReportsWhatWasFoundAndExpectedForAWrongType) {
  EXPECT_EQ(refusal(R"({"batch_size": "128"})"),
            R"(job.json: batch_size: expected an integer from 1 to 1048576, found "128" (string))");
  EXPECT_EQ(refusal(R"({"batch_size": 12.5})"),
            "job.json: batch_size: expected an integer from 1 to 1048576, found 12.5 (number)");
  EXPECT_EQ(refusal(R"({"resume": "yes"})"),
            R"(job.json: resume: expected true or false, found "yes" (string))");
  EXPECT_EQ(refusal(R"({"network": "r51"})"),
            R"(job.json: network: expected "r18", "r34", "r50", "r100", "r200", "mbf", )"
            R"("mbf_large", "ir_18", "ir_50", "ir_101", "ir_se_50", "ir_se_101", "resnet18", )"
            R"("resnet34", "resnet50", "resnet101", "vit_t", "vit_t_dp005_mask0", "vit_s", )"
            R"("vit_s_dp005_mask_0", "vit_b", "vit_b_dp005_mask_005", "vit_l_dp005_mask_005", )"
            R"("vit_h" or "none", found "r51" (string))");
  EXPECT_EQ(refusal(R"({"val_targets": "lfw"})"),
            R"(job.json: val_targets: expected an array of strings, for example ["val"], )"
            R"(found "lfw" (string))");
  EXPECT_EQ(refusal(R"({"margin_list": [1, 0.5]})"),
            "job.json: margin_list: expected three numbers [m1, m2, m3], for example "
            "[1.0, 0.5, 0.0], found an array of 2");
  EXPECT_THAT(refusal("[1]"), HasSubstr("found an array of 1"));
}

TEST(ParseJob, RejectsValuesOutOfRange) {
  for (const char* job :
       {R"({"sample_rate": 1.01})",
        R"({"sample_rate": -0.1})",
        R"({"sample_hold": 0})",
        R"({"sample_hold": 1.5})",
        R"({"sample_hold": 1000001})",
        R"({"sample_unit": 0})",
        R"({"sample_unit": 6})",
        R"({"sample_unit": 128})",
        R"({"sample_unit": 8, "heads": "separate", "rec": ["a", "b"]})",
        R"({"sampler": "hardest", "sample_rate": 0.1})",
        R"({"sampler": "hard", "sample_rate": 0.1, "hard_neighbours": 0})",
        R"({"sampler": "hard", "sample_rate": 0.1, "hard_neighbours": 1001})",
        R"({"sampler": "hard", "sample_rate": 0.1, "hard_refresh": 0})",
        R"({"centre_storage": "host"})",
        R"({"centre_cache": 0})",
        R"({"margin_scale": 0})",
        R"({"batch_size": 0})",
        R"({"embedding_size": 0})",
        R"({"dropout": 1})",
        R"({"dropout": 0.9999999999})",
        R"({"lr": -1})",
        R"({"momentum": 1})",
        R"({"centre_momentum": 1})",
        R"({"momentum": 0.9999999999})",
        R"({"logits_memory": 1e18})",
        R"({"batch_size": 1})",
        R"({"lr": 1e-50})",
        R"({"clip_norm": 1e-300})",
        R"({"margin_scale": 1e300})",
        R"({"weight_decay": -1})",
        R"({"num_epoch": 0})",
        R"({"seed": -1})",
        R"({"seed": 1e30})",
        R"({"gradient_acc": 0})",
        R"({"num_workers": 0})",
        R"({"max_steps": 99999999999999999999})",
        R"({"max_steps": 99999999999})",
        R"({"frequent": 9999999999})",
        R"({"verbose": 9999999999})",
        R"({"save_every_steps": 9999999999})",
        R"({"save_every_seconds": 1e30})",
        R"({"keep_checkpoints": 0})",
        R"({"keep_checkpoints": 9999999999})",
        R"({"lr": 1e31})",
        R"({"clip_norm": 1e30})",
        R"({"weight_decay": 1e30})",
        R"({"margin_scale": 1e30})",
        R"({"margin_list": [1e30, 0.5, 0]})",
        R"({"margin_list": [1, 1e30, 0]})",
        R"({"margin_list": [1, 0.5, -1e30]})",
        R"({"lr_schedule": {"name": "polynomial", "power": 1e30}})",
        R"({"lr_schedule": {"name": "multistep", "epochs": [1], "gamma": 1e30}})",
        R"({"interclass_filtering_threshold": 2})",
        R"({"margin_list": [0, 0.5, 0]})",
        R"({"num_epoch": 2, "warmup_epoch": 3})",
        R"({"num_epoch": 1e30})",
        R"({"lr_schedule": {"name": "multistep", "epochs": [18446744073709551615]}})"}) {
    EXPECT_THAT(refusal(job), AllOf(HasSubstr("expected"), HasSubstr("found"))) << job;
  }
  EXPECT_EQ(parse(R"({"sample_rate": 0})").sample_rate, 0.0);
  EXPECT_EQ(parse(R"({"sample_rate": 1})").sample_rate, 1.0);
  EXPECT_EQ(parse(R"({"sample_hold": 1000000})").sample_hold, 1'000'000);
  EXPECT_EQ(parse(R"({"sample_unit": 64})").sample_unit, 64);
}

TEST(ParseJob, RejectsABatchOfOneImageUnlessWorkersShareStatistics) {
  EXPECT_THAT(refusal(R"({"batch_size": 1})"),
              ::testing::StartsWith("job.json: batch_size: expected 2 or more, found 1: the "
                                    "gradient of a batch norm over 1 sample is 0"));
  const JobConfig job = parse(R"({"batch_size": 1, "sync_bn": true})");
  EXPECT_NO_THROW(check_batch_norm_samples(job, 2));
  EXPECT_THAT(testing::message_of<InputError>([&] { check_batch_norm_samples(job, 1); }),
              HasSubstr("(with a single worker, sync_bn has no effect): "));
  EXPECT_EQ(batch_norm_samples({.batch_size = 8, .sync_bn = true}, 3), 24);
  EXPECT_EQ(batch_norm_samples({.batch_size = 8}, 3), 8);
}

TEST(ParseJob, AllowsAJobWithoutEmbeddingSizeIfTheNetworkIsNone) {
  EXPECT_EQ(parse(R"({"network": "none"})").embedding_size, 0);
  EXPECT_EQ(parse(R"({"network": "none", "embedding_size": null})").embedding_size, 0);
  EXPECT_EQ(parse(R"({"network": "none", "embedding_size": 128})").embedding_size, 128);
  EXPECT_THAT(refusal(R"({"embedding_size": 0})"),
              HasSubstr("job.json: embedding_size: found 0, expected an integer from 1 to 65536"));
}

TEST(ParseJob, AcceptsALinearLayerWithoutANetwork) {
  const JobConfig job = parse(
      R"({"network": "none", "feature_size": 512, "embedding_size": 64, "freeze": ["linear.bias"]})");
  EXPECT_EQ(job.feature_size, 512);
  EXPECT_EQ(job.embedding_size, 64);
  EXPECT_THAT(refusal(R"({"network": "none", "feature_size": 512})"),
              HasSubstr("job.json: embedding_size: found 0, but feature_size adds a linear layer"));
  EXPECT_THAT(refusal(R"({"feature_size": 512})"),
              HasSubstr("job.json: feature_size: found 512, but network \"r50\" embeds images"));
  EXPECT_THAT(refusal(R"({"network": "none", "feature_size": 70000})"),
              HasSubstr("feature_size: expected an integer from 0 to 65536"));
  EXPECT_THAT(
      refusal(R"({"network": "none", "feature_size": 9, "embedding_size": 9, "sync_bn": true})"),
      HasSubstr("has no batch norm"));
}

TEST(ParseJob, ReadsBackAJobWithoutANetwork) {
  const JobConfig job = parse(R"({"network": "none", "batch_size": 1})");
  EXPECT_EQ(to_json(parse_job(to_json(job), "job.json")), to_json(job));
}

TEST(ParseJob, RejectsKeysOfImagesWithoutANetwork) {
  EXPECT_THAT(refusal(R"({"network": "none", "export": ["pt"]})"),
              HasSubstr("job.json: export: found formats, but network \"none\""));
  EXPECT_EQ(refusal(R"({"export": ["onnx", "ptt"]})"),
            R"(job.json: export: found "ptt", expected "onnx" or "pt")");
  EXPECT_THAT(refusal(R"({"network": "none", "val_targets": ["lfw"]})"),
              HasSubstr("job.json: val_targets: found verification sets, but network \"none\""));
  EXPECT_THAT(refusal(R"({"network": "none", "val_rec": "val"})"),
              HasSubstr("job.json: val_rec: found validation data, but network \"none\""));
  for (const char* key : {R"("image_size": 112)", R"("augment": {"blur": 0.1})",
                          R"("dali_aug": true)", R"("dropout": 0.4)", R"("sync_bn": true)",
                          R"("recompute": true)", R"("zero_init_residual": true)"}) {
    const std::string text = std::string(R"({"network": "none", )") + key + "}";
    EXPECT_THAT(refusal(text.c_str()), HasSubstr("but network \"none\" "));
  }
  for (const char* augment : {"true", "false"}) {
    const std::string text = std::string(R"({"network": "none", "augment": )") + augment + "}";
    EXPECT_EQ(parse(text.c_str()).network, "none");
  }
}

TEST(ParseJob, ReadsRecomputeAsAllNoneOrNames) {
  using Patterns = std::vector<std::string>;
  EXPECT_EQ(parse(R"({"recompute": true})").recompute, Patterns{"*"});
  EXPECT_EQ(parse(R"({"recompute": false})").recompute, Patterns{});
  EXPECT_EQ(parse(R"({"recompute": ["layer1.*", "layer2.0"]})").recompute,
            (Patterns{"layer1.*", "layer2.0"}));
  const json names = to_json(parse(R"({"recompute": ["layer1.*"]})"));
  EXPECT_EQ(names["recompute"], json::array({"layer1.*"}));
  EXPECT_EQ(refusal(R"({"recompute": "layer1.*"})"),
            "job.json: recompute: expected true, false, or names, for example [\"layer1\"], found "
            "\"layer1.*\" (string)");
  EXPECT_THAT(refusal(R"({"recompute": [1]})"),
              HasSubstr("recompute: expected an array of strings"));
}

TEST(ParseJob, WritesErrorsOnOneLineForAnyValue) {
  const std::string error = refusal(R"({"network": "a\nb\u0000c"})");
  EXPECT_EQ(error.find('\n'), std::string::npos);
  EXPECT_THAT(refusal(("{\"network\": \"" + std::string(5000, 'x') + "\"}").c_str()),
              ::testing::SizeIs(::testing::Lt(450u)));
  EXPECT_THAT(refusal(("{\"" + std::string(5000, 'x') + "\": 1}").c_str()),
              ::testing::SizeIs(::testing::Lt(250u)));
}

TEST(ParseJob, RejectsPathsThatTheSystemWouldTruncate) {
  EXPECT_EQ(
      refusal(R"({"rec": "data\u0000set"})"),
      R"(job.json: rec: expected a path (at most 4095 bytes, without NUL), or an array of them, found )"
      R"("data\u0000set" (string))");
  EXPECT_THAT(refusal(R"({"val_targets": ["lfw\u0000"]})"), HasSubstr("val_targets: expected"));
}

TEST(ParseJob, NamesTheOverrideThatSetAWrongValue) {
  const auto refusal_of = [](json job, const std::vector<std::string>& overrides) {
    return testing::message_of<InputError>([&] {
      apply_overrides(job, overrides);
      parse_job(job, {"job.json", overrides});
    });
  };
  EXPECT_EQ(refusal_of({}, {"lr=0.5", "batch_size=0"}),
            "--set batch_size=0: batch_size: expected an integer from 1 to 1048576, found 0 "
            "(number)");
  EXPECT_THAT(refusal_of({{"batch_size", 0}}, {"lr=0.5"}),
              ::testing::StartsWith("job.json: batch_"));
  EXPECT_EQ(refusal_of({}, {"lr_schedule.powr=2"}),
            "--set lr_schedule.powr=2: lr_schedule: unknown key \"powr\"; did you mean \"power\"?");
  EXPECT_EQ(refusal_of({{"warmup_epoch", 3}}, {"num_epoch=2"}),
            "--set num_epoch=2: warmup_epoch: expected at most num_epoch, which is 2.0, found 3.0 "
            "(number)");
}

TEST(ParseJob, AcceptsOneOrSeveralDataSets) {
  EXPECT_THAT(parse_job(json::parse(R"({"rec": "/a"})"), "job.json").rec, ::testing::SizeIs(1));
  EXPECT_THAT(parse_job(json::parse(R"({"rec": ["/a", "/b"]})"), "job.json").rec,
              ::testing::ElementsAre("/a", "/b"));
  EXPECT_THAT(refusal(R"({"rec": 3})"), HasSubstr("or an array of them, found 3"));
  EXPECT_THAT(refusal(R"({"rec": ["/a", 3]})"), HasSubstr("or an array of them, found 3"));
  EXPECT_THAT(refusal(R"({"rec": ["/a", "/b"], "identities": ["x"]})"),
              HasSubstr("identities: found 1 files, expected one for each of the 2 data sets"));
  EXPECT_THAT(refusal(R"({"rec": ["/a", "/b"], "overlay": "x"})"),
              HasSubstr("overlay: found 1 files, expected one for each of the 2 data sets of rec; "
                        "\"\" means that its labels do not change"));
  EXPECT_THAT(refusal(R"({"rec": "/a", "identities": "x", "overlay": "y"})"),
              HasSubstr("identities: found x, but overlay changes the labels of this data set"));
  EXPECT_THAT(refusal(R"({"rec": ["/a", "/b"], "heads": "separate", "share_identities": true})"),
              HasSubstr("remove one of the two keys"));
  EXPECT_THAT(refusal(R"({"rec": ["/a", "/b", "/a"]})"),
              HasSubstr("rec: found /a twice, so each of its people would be two classes"));
  EXPECT_THAT(refusal(R"({"rec": ["/a", "/b"], "heads": "separate", "head_classes": [3]})"),
              HasSubstr("head_classes: found 1 numbers, expected one for each of the 2"));
  EXPECT_THAT(refusal(R"({"rec": ["/a", "/b"], "head_classes": [3]})"),
              HasSubstr("head_classes: found 1 numbers, expected one for each of the 2"));
}

TEST(ParseJob, AcceptsTheMeanAndDeviationOfColours) {
  const JobConfig job =
      parse(R"({"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]})");
  EXPECT_EQ(job.pixels, (PixelScale{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}}));
  EXPECT_THAT(refusal(R"({"image_mean": [0.5, 0.5]})"),
              HasSubstr("image_mean: expected three numbers from 0 to 1"));
  EXPECT_THAT(refusal(R"({"image_mean": [124, 116, 104]})"), HasSubstr("image_mean: expected"));
  EXPECT_THAT(refusal(R"({"image_std": [0.2, 0.2, 0]})"),
              HasSubstr("image_std: expected three numbers from 0.001 to 1"));
  EXPECT_THAT(refusal(R"({"network": "none", "image_std": [0.2, 0.2, 0.2]})"),
              HasSubstr("image_std: found a scale of pixels, but network \"none\""));
}

TEST(ParseJob, AcceptsValidationData) {
  const JobConfig job = parse(R"({"val_rec": ["a", "b"], "val_resize": 256, "image_size": 224})");
  EXPECT_THAT(job.val_rec, ::testing::ElementsAre("a", "b"));
  EXPECT_EQ(job.val_resize, 256);
  EXPECT_THAT(refusal(R"({"val_resize": 200, "image_size": 224})"),
              HasSubstr("val_resize: found 200, expected 0 or at least image_size, which is 224"));
  EXPECT_THAT(refusal(R"({"val_resize": 256, "image_size": 224})"),
              HasSubstr("val_resize: found 256, but val_rec is empty"));
  EXPECT_THAT(refusal(R"({"val_rec": "v", "rec": ["a", "b"], "heads": "separate"})"),
              HasSubstr("val_rec: found validation data, but heads is \"separate\""));
}

TEST(ParseJob, ReadsTheMomentumOfCentres) {
  EXPECT_EQ(centre_momentum(parse(R"({"momentum": 0.5})")), 0.5);
  EXPECT_EQ(centre_momentum(parse(R"({"momentum": 0.5, "centre_momentum": 0})")), 0);
  EXPECT_FALSE(parse(R"({"centre_momentum": null})").centre_momentum);
  EXPECT_THAT(refusal(R"({"centre_momentum": 0, "optimizer": "adamw"})"),
              HasSubstr("centre_momentum: found 0.0, but optimizer \"adamw\" always has"));
}

TEST(ParseJob, AcceptsExchangePrecisionBf16OnlyWithPrecisionBf16) {
  EXPECT_EQ(parse(R"({"exchange_precision": "bf16", "precision": "bf16"})").exchange_precision,
            Precision::kBf16);
  for (const char* job :
       {R"({"exchange_precision": "bf16"})", R"({"exchange_precision": "bf16", "fp16": true})",
        R"({"exchange_precision": "bf16", "precision": "auto"})"}) {
    EXPECT_THAT(refusal(job), HasSubstr("exchange_precision: found \"bf16\", which needs "
                                        "\"precision\": \"bf16\""));
  }
  EXPECT_THAT(refusal(R"({"exchange_precision": "fp16"})"), HasSubstr("exchange_precision"));
}

TEST(ParseJob, RejectsKeysThatOneByteCentresDoNotSupport) {
  EXPECT_EQ(parse(R"({"centre_precision": "fp8"})").centre_precision, CentrePrecision::kFp8);
  EXPECT_THAT(refusal(R"({"centre_precision": "int8", "optimizer": "adamw"})"),
              HasSubstr("centre_precision: found \"int8\", expected \"fp32\", \"bf16_momentum\" or "
                        "\"bf16\" with optimizer \"adamw\""));
  EXPECT_THAT(refusal(R"({"centre_precision": "fp8", "loss": "softmax"})"),
              HasSubstr("centre_precision: found \"fp8\", expected \"fp32\", \"bf16_momentum\" or "
                        "\"bf16\" with loss \"softmax\""));
  EXPECT_THAT(
      refusal(R"({"centre_precision": "bf16", "centre_momentum": 0, "init_centres": "mean"})"),
      HasSubstr("init_centres: found \"mean\", but the momentum of the centres is 0"));
  parse(R"({"centre_precision": "int8", "init_centres": "mean"})");
  parse(R"({"centre_momentum": 0, "init_centres": "mean"})");
}

TEST(ParseJob, RejectsReplicationOfCentresOnDisk) {
  EXPECT_EQ(parse(R"({"centre_storage": "disk"})").centre_cache, 1024);
  EXPECT_THAT(refusal(R"({"centre_storage": "disk", "replicate": true})"),
              HasSubstr("replicate: found true, expected false with centre_storage \"disk\""));
}

TEST(ToJson, RoundTripsEveryKey) {
  json changed = to_json(JobConfig{});
  for (auto& [key, value] : changed.items()) {
    if (value.is_boolean()) value = !value.get<bool>();
    if (value.is_number_float()) value = value.get<double>() / 2 + 0.125;
    if (value.is_number_integer()) value = value.get<std::int64_t>() + 3;
  }
  changed.update(json::parse(
      R"({"network": "r100", "loss": {"name": "adaface", "m": 0.25, "h": 0.5, "t_alpha": 0.5}, "margin_list": [1.0, 0.25, 0.125],
      "margin_gradient": "exact", "precision": "bf16", "exchange_precision": "bf16",
      "centre_precision": "bf16", "centre_storage": "disk", "centre_momentum": 0.5, "optimizer": "adamw",
      "lr_schedule": {"name": "multistep", "epochs": [2, 5], "gamma": 0.5},
      "lr_scaling": "sqrt", "rec": ["d", "e"],
      "identities": ["", "x.txt"], "overlay": ["y.jsonl", ""], "heads": "separate", "head_classes": [3, 4],
      "augment": {"flip": false, "random_resized_crop": {"scale": [0.25, 0.5], "ratio": [0.5, 2.0]},
                  "crop": 0.5, "low_resolution": 0.125, "blur": 0.25,
                  "colour": 0.75, "grey": 0.375, "cut_out": 1.0},
      "margin_update": {"initial": [1.0, 0.5, 0.25], "start_epoch": 0.5, "end_epoch": 1.0,
                        "increase": "linear"},
      "read": "sequential", "stage": "/dev/shm",
      "val_targets": ["v"], "val_rec": "w", "image_mean": [0.25, 0.5, 0.75], "image_std": [0.25, 0.25, 0.25], "export": ["onnx", "pt"], "notes": "n", "output": "o", "sampler": "hard", "init_from": "i", "teacher": "t", "distill_embeddings": "mse", "teacher_precision": "fp32", "device": "cuda",
      "parameters": [{"names": "fc.*", "lr": 0.5}, {"names": "centres", "weight_decay": 0.25}],
      "freeze": ["conv1*"], "init_from_names": ["layer*"], "init_centres": "mean"})"));
  const json defaults = to_json(JobConfig{});
  for (const auto& [key, value] : changed.items()) EXPECT_NE(value, defaults[key]) << key;
  json shared = changed, separate = changed;  // these pairs exclude each other
  shared["balance_classes"] = false;
  shared["centre_storage"] = "device";
  separate["replicate"] = false;
  separate["read"] = "random";
  shared["sub_centres"] = 1;
  separate["init_centres"] = "random";
  shared["heads"] = "one";
  separate["share_identities"] = false;
  separate["val_rec"] = "";
  separate["val_resize"] = 0;
  separate["distill_logits"] = 0.0;
  separate["sample_unit"] = 1;
  separate["sampler"] = "random";
  shared["sample_correction"] = false;
  shared["feature_size"] = separate["feature_size"] = 0;  // only with network "none"
  shared["loss"] = defaults["loss"];
  shared["optimizer"] = "sgd";
  separate["centre_momentum"] = nullptr;
  for (const char* margin : {"margin_list", "margin_update"}) separate[margin] = defaults[margin];
  EXPECT_EQ(to_json(parse_job(shared, "job.json")), shared);
  EXPECT_EQ(to_json(parse_job(separate, "job.json")), separate);
  EXPECT_EQ(to_json(parse_job(defaults, "job.json")), defaults);
  for (const char* schedule :
       {R"({"name": "cosine", "final_factor": 0.25})",
        R"({"name": "one_cycle", "pct_start": 0.5, "div_factor": 2.0, "final_div_factor": 3.0})"}) {
    json with = defaults;
    with["lr_schedule"] = json::parse(schedule);
    EXPECT_EQ(to_json(parse_job(with, "job.json")), with);
  }
  json features = defaults;
  features.update({{"network", "none"}, {"feature_size", 8}});
  EXPECT_EQ(to_json(parse_job(features, "job.json")), features);
  json by_epoch = defaults;
  by_epoch["sample_rate"] = json::parse("[[0.0, 0.1], [18.0, 1.0]]");
  EXPECT_EQ(to_json(parse_job(by_epoch, "job.json")), by_epoch);
}

}  // namespace
}  // namespace pfc
