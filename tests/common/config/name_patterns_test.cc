#include "common/config/parameters/name_patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "common/config/job_json.h"
#include "common/config/parameters/parameter_rules.h"
#include "common/error.h"

namespace pfc {
namespace {

using ::testing::HasSubstr;

TEST(NamePattern, AgreesWithARegularExpression) {
  std::mt19937 random(1);
  const auto draw = [&](std::string_view letters) {
    std::string text(random() % 7, ' ');
    for (char& c : text) c = letters[random() % letters.size()];
    return text;
  };
  int matched = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string name = draw("ab."), pattern = draw("ab.**");
    std::string expression;
    for (const char c : pattern) {
      expression += c == '*' ? ".*" : c == '.' ? "\\." : std::string(1, c);
    }
    const bool expected = std::regex_match(name, std::regex(expression));
    EXPECT_EQ(matches_pattern(name, pattern), expected) << name << " " << pattern;
    matched += expected ? 1 : 0;
  }
  EXPECT_GT(matched, 300);
}

std::string pattern_refusal(const std::string& pattern) {
  const std::vector<std::string> names = {"conv1.weight", "layer1.0.bn1.weight", "layer2.0.bias"};
  try {
    check_patterns("freeze", std::vector{pattern}, names);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(NamePattern, RejectsAPatternWithoutAMatchAndSuggestsNearNames) {
  EXPECT_EQ(pattern_refusal("layer1.*"), "");
  EXPECT_EQ(pattern_refusal("layr1.*"),
            "freeze: \"layr1.*\" matches no tensor, did you mean \"layer1\"?; names begin with "
            "conv1, layer1, layer2");
  EXPECT_THAT(pattern_refusal("layer1.0.bn2.*"), HasSubstr("did you mean \"layer1.0.bn1\"?"));
  EXPECT_EQ(pattern_refusal("head"),
            "freeze: \"head\" matches no tensor; names begin with conv1, layer1, layer2");
}

JobConfig job_with_rules(const std::string& keys) {
  const JobConfig job = parse_job(nlohmann::json::parse(keys), "job.json");
  return parse_job(to_json(job), "job.json");  // as a worker gets it
}

TEST(ParameterRules, LaterRulesOverrideEarlierRules) {
  const JobConfig job =
      job_with_rules(R"({"weight_decay": 0.5, "no_decay_on_norms": true, "parameters": [
      {"names": "*", "lr": 0.25}, {"names": "layer4.*", "weight_decay": 0.125, "lr": null},
      {"names": "centres", "lr": 2, "weight_decay": 0}]})");
  const auto expect = [&](const char* name, bool is_vector, double lr, double weight_decay) {
    const TensorUpdate update = update_of_tensor(job, name, is_vector);
    EXPECT_EQ(update.lr, lr) << name;
    EXPECT_EQ(update.weight_decay, weight_decay) << name;
  };
  expect("conv1.weight", false, 0.25, 0.5);
  expect("bn1.weight", true, 0.25, 0);
  expect("layer4.0.conv1.weight", false, 0.25, 0.125);
  expect("layer4.0.bn1.weight", true, 0.25, 0.125);
  expect(kCentresName, false, 2, 0);
}

TEST(ParameterRules, RejectUnknownNames) {
  const std::vector<std::string> names = {"conv1.weight"};
  EXPECT_NO_THROW(
      check_parameter_rules(job_with_rules(R"({"parameters": [{"names": "centres"}]})"), names));
  EXPECT_THROW(
      check_parameter_rules(job_with_rules(R"({"parameters": [{"names": "centre"}]})"), names),
      InputError);
}

TEST(ParameterRules, RejectMalformedRules) {
  for (const char* rules : {R"({"names": "fc.*"})", R"(["fc.*"])", R"([{"name": "fc.*"}])",
                            R"([{"names": "fc.*", "lr": -1}])", R"([{"names": 1}])"}) {
    EXPECT_THROW(job_with_rules(std::string(R"({"parameters": )") + rules + "}"), InputError)
        << rules;
  }
}

}  // namespace
}  // namespace pfc
