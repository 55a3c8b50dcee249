#include "common/config/python_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "tests/support/error_message.h"

namespace pfc {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

json config_after(const std::string& statements) {
  return parse_python_config(
      "from easydict import EasyDict as edict\nconfig = edict()\n" + statements + "\n", "c.py");
}

json python_value(const std::string& expression) {
  return config_after("config.x = " + expression)["x"];
}

std::string config_refusal(const std::string& statements) {
  return testing::message_of<InputError>([&] { config_after(statements); });
}

TEST(PythonConfig, ReadsLiterals) {
  for (const auto& [python, expected] : std::vector<std::pair<const char*, json>>{
           {"True", true},
           {"None", nullptr},
           {"1_000", 1000},
           {"5e-4", 5e-4},
           {".5", 0.5},
           {"(1.0, 0.5, 0)", {1.0, 0.5, 0}},
           {"1, 2", {1, 2}},
           {"12,", json::array({12})},
           {"()", json::array()},
           {"(7)", 7},
           {"['lfw',\n  \"cfp_fp\",  # not agedb_30\n]", {"lfw", "cfp_fp"}},
           {"{'name': \"multistep\", 'epochs': [10, 18]}",
            {{"name", "multistep"}, {"epochs", {10, 18}}}},
           {R"('a' "b" # joined)", "ab"},
           {R"(r'C:\new')", R"(C:\new)"},
           {R"('ä\t\q\'')", "ä\t\\q'"},
           {"'''two\nlines'''", "two\nlines"}}) {
    EXPECT_EQ(python_value(python), expected) << python;
  }
}

TEST(PythonConfig, ComputesAsPythonDoes) {
  for (const auto& [python, expected] :
       std::vector<std::pair<const char*, json>>{{"30 * 10000", 300000},
                                                 {"7 // 2", 3},
                                                 {"-7 // 2", -4},
                                                 {"7 / 2", 3.5},
                                                 {"6 / 2", 3.0},
                                                 {"-7 % 3", 2},
                                                 {"7 % -3", -2},
                                                 {"7.5 // 2", 3.0},
                                                 {"-2 ** 2", -4},
                                                 {"2 ** 3 ** 2", 512},
                                                 {"2 ** -1", 0.5},
                                                 {"2 + 3 * (4 - 1)", 11},
                                                 {"'work_dirs/' + 'a'", "work_dirs/a"},
                                                 {"[1] + [2]", {1, 2}}}) {
    const json found = python_value(python);
    EXPECT_EQ(found, expected) << python;
    EXPECT_EQ(found.is_number_integer(), expected.is_number_integer()) << python;
  }
  EXPECT_EQ(config_after("config.num_epoch = 20\nconfig.warmup_epoch = config.num_epoch // 10")
                .at("warmup_epoch"),
            2);
}

TEST(PythonConfig, RejectsOtherPythonAndShowsTheLine) {
  EXPECT_EQ(config_refusal("import os"),
            "c.py:3: 'import os': not an assignment to config.KEY; pfc reads lines like config.lr "
            "= 0.1 without running Python: write the value itself here, or use a JSON job file");
  for (const auto& [python, line, problem] : std::vector<std::tuple<const char*, int, const char*>>{
           {"\nfrom os import system", 4, "only EasyDict of easydict can be imported"},
           {"config.x = __import__('os')", 3, "unsupported kind of value"},
           {"config.x = 1 if True else 2", 3, "unexpected text after the value"},
           {"if True:\n  config.x = 1", 3, "not an assignment"},
           {"  config.x = 1", 3, "indented"},
           {"config.x += 1", 3, "expected = after config.x"},
           {"config.x = config.y", 3, "config.y has no value yet"},
           {"config.x = [1,\n 2", 4, "expected"},
           {"config.x = (1/0\n)", 3, "division by zero"},
           {"config.x = 'open", 3, "a string is not closed"},
           {"config.x = 1 // 0", 3, "division by zero"},
           {"config.x = 2 ** 63", 3, "does not fit in 64 bits"},
           {"config.x = 1e999", 3, "too large"},
           {"config.x = '\\x41'", 3, "unsupported escape sequence"},
           {"config.x = 12ab", 3, "expected a decimal number"},
           {"config.x = 1.5 * 'a'", 3, "expected numbers in arithmetic"},
           {"config.x = 010", 3, "may not begin with 0"},
           {"config.x = {1: 2}", 3, "expected a string as the key"}}) {
    EXPECT_THAT(config_refusal(python), StartsWith("c.py:" + std::to_string(line) + ": '"))
        << python;
    EXPECT_THAT(config_refusal(python), HasSubstr(problem)) << python;
  }
  std::string doubled = "config.x = [1]\n";
  for (int i = 0; i < 40; ++i) doubled += "config.x = [config.x, config.x]\n";
  EXPECT_THAT(config_refusal(doubled), HasSubstr("reused values are too large"));
  EXPECT_THAT(config_refusal("config.x = " + std::string(100'000, '[')),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(config_refusal("config.x = " + std::string(100'000, '-')),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(testing::message_of<InputError>([] { parse_python_config("# empty\n", "c.py"); }),
              HasSubstr("found no assignment"));
}

}  // namespace
}  // namespace pfc
