// Compares docs/configuration.md and docs/exit-codes.md with the code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "common/config/config.h"
#include "common/config/job_json.h"
#include "common/config/keys/arcface_torch_keys.h"
#include "common/exit_codes.h"

namespace pfc {
namespace {

using nlohmann::json;

struct Row {
  std::string type, standard, meaning;
};

std::string without_ticks(std::string cell) {
  std::erase(cell, '`');
  const std::size_t first = cell.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : cell.substr(first, cell.find_last_not_of(' ') - first + 1);
}

/// Returns the rows of a page's tables that have this many columns.
std::vector<std::vector<std::string>> table_rows(const std::string& page, std::size_t columns) {
  std::ifstream in(PFC_SOURCE_DIR "/docs/" + page);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("| ")) continue;
    std::vector<std::string> cells;
    for (std::size_t at = 1, bar; (bar = line.find('|', at)) != std::string::npos; at = bar + 1) {
      cells.push_back(without_ticks(line.substr(at, bar - at)));
    }
    if (cells.size() == columns) rows.push_back(cells);
  }
  return rows;
}

/// Returns the rows of the table of keys: | `key` | type | `default` | meaning |
std::map<std::string, Row> documented() {
  std::map<std::string, Row> rows;
  for (const auto& cells : table_rows("configuration.md", 4)) {
    if (cells[0] != "key") rows[cells[0]] = {cells[1], cells[2], cells[3]};
  }
  return rows;
}

/// Returns the meanings of arcface_torch's keys: | `key`, `key` | its default | here |
std::map<std::string, std::string> migration() {
  std::map<std::string, std::string> meanings;
  for (const auto& cells : table_rows("configuration.md", 3)) {
    std::istringstream keys(cells[0]);
    for (std::string key; keys >> key;) {
      std::erase(key, ',');
      if (key != "arcface_torch") meanings[key] = cells[2];
    }
  }
  return meanings;
}

TEST(ConfigurationPage, ListsEveryKeyOfTheParserAndNoOther) {
  std::set<std::string> listed;
  for (const auto& [key, row] : documented()) listed.insert(key);
  const std::vector<std::string> keys = job_keys();
  EXPECT_EQ(listed, std::set<std::string>(keys.begin(), keys.end()));
}

TEST(ConfigurationPage, GivesTheDefaultsOfJobConfig) {
  const json defaults = to_json(JobConfig{});
  for (const auto& [key, row] : documented()) {
    // to_json() does not write fp16 and dali_aug, which stand for other keys, and writes `augment`
    // as an object, for which the page has `true`.
    const bool is_short = key == "fp16" || key == "dali_aug";
    const json expected = is_short ? json(false) : key == "augment" ? json(true) : defaults[key];
    EXPECT_EQ(json::parse(row.standard), expected) << key;
    EXPECT_FALSE(row.meaning.empty()) << key;
  }
  EXPECT_EQ(Augmentation{.flip = true}, JobConfig{}.augment);
}

TEST(ConfigurationPage, GivesTheTypesThatTheParserAccepts) {
  const json defaults = to_json(JobConfig{});
  for (const auto& [key, row] : documented()) {
    if (key == "fp16" || key == "dali_aug" || key == "lr_schedule" || key == "loss") continue;
    if (key == "margin_update" || key == "centre_momentum") continue;
    const json& value = defaults[key];
    const std::string type = value.is_boolean()             ? "true or false"
                             : value.is_object()            ? "true, false, or an object"
                             : value.is_number_integer()    ? "integer"
                             : value.is_number()            ? "number"
                             : value.is_array()             ? key == "margin_list"    ? "[m1"
                                                              : key == "head_classes" ? "array of integers"
                                                              : key == "parameters"   ? "array of objects"
                                                              : key.starts_with("image_")
                                                                  ? "array of three numbers"
                                                                  : "array of strings"
                             : row.type.starts_with("path") ? "path"
                                                            : "string";
    EXPECT_THAT(row.type, ::testing::StartsWith(type)) << key;
  }
}

TEST(MigrationTable, ListsOnlyKeysThatAJobAccepts) {
  std::vector<std::string> known = job_keys();
  for (const ArcfaceTorchKey& each : arcface_torch_keys()) known.emplace_back(each.key);
  EXPECT_GT(migration().size(), 30u);
  for (const auto& [key, meaning] : migration()) EXPECT_THAT(known, ::testing::Contains(key));
}

TEST(MigrationTable, SaysWhichKeysAreIgnored) {
  std::set<std::string> ignored, expected;
  for (const auto& [key, meaning] : migration()) {
    if (meaning.starts_with("ignored with a warning: ")) ignored.insert(key);
  }
  for (const ArcfaceTorchKey& each : arcface_torch_keys()) {
    expected.insert(std::string(each.key));
  }
  EXPECT_EQ(ignored, expected);
}

TEST(ExitCodesPage, HasTheNumbersOfTheCode) {
  std::map<std::string, std::string> codes;
  for (const auto& cells : table_rows("exit-codes.md", 4)) codes[cells[1]] = cells[0];
  codes.erase("constant");
  EXPECT_EQ(codes,
            (std::map<std::string, std::string>{
                {"kExitSuccess", std::to_string(kExitSuccess)},
                {"kExitFailed", std::to_string(kExitFailed)},
                {"kExitBadInput", std::to_string(kExitBadInput)},
                {"kExitNotStarted", std::to_string(kExitNotStarted)},
                {"kExitPeerFailed", std::to_string(kExitPeerFailed)},
                {"kExitHostLeft", std::to_string(kExitHostLeft)},
                {"exit_code_of_signal()", std::to_string(exit_code_of_signal(0)) + " + signal"}}));
}

}  // namespace
}  // namespace pfc
