// docs/configuration.md, the parser and JobConfig's defaults say the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "common/config/config.h"
#include "common/config/config_keys.h"

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

/// The table's rows by key: | `key` | type | `default` | meaning |
std::map<std::string, Row> documented() {
  std::ifstream in(PFC_SOURCE_DIR "/docs/configuration.md");
  std::map<std::string, Row> rows;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    for (std::size_t at = 1, bar; (bar = line.find('|', at)) != std::string::npos; at = bar + 1) {
      cells.push_back(without_ticks(line.substr(at, bar - at)));
    }
    EXPECT_EQ(cells.size(), 4u) << line;
    if (cells.size() == 4) rows[cells[0]] = {cells[1], cells[2], cells[3]};
  }
  return rows;
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
    const json expected = key == "fp16" ? json(false) : defaults[key];
    EXPECT_EQ(json::parse(row.standard), expected) << key;
    EXPECT_FALSE(row.meaning.empty()) << key;
  }
}

TEST(ConfigurationPage, GivesTheTypesThatTheParserTakes) {
  const json defaults = to_json(JobConfig{});
  for (const auto& [key, row] : documented()) {
    if (key == "fp16" || key == "lr_schedule") continue;
    const json& value = defaults[key];
    const std::string type = value.is_boolean()          ? "true or false"
                             : value.is_number_integer() ? "integer"
                             : value.is_number()         ? "number"
                             : value.is_array() ? key == "margin_list" ? "[m1" : "array of strings"
                             : row.type == "path" ? "path"
                                                  : "string";
    EXPECT_THAT(row.type, testing::StartsWith(type)) << key;
  }
}

}  // namespace
}  // namespace pfc
