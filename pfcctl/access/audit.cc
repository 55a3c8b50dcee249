// pfcctl audit: prints the audit log of a coordinator.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>

#include "common/command_line.h"
#include "common/coordinator_file.h"
#include "common/error.h"
#include "common/files/regular_file.h"
#include "common/one_line.h"
#include "pfcctl/verbs.h"
#include "security/audit_log.h"
#include "security/secret_file.h"

namespace pfc {
namespace {

struct AuditOptions {
  std::filesystem::path state_dir = default_state_folder();
  std::int64_t tail = 0;  ///< lines to print; 0 prints all
  bool json = false;
};

/// Returns the last lines of the log, oldest first.
std::deque<std::string> read_audit_log(const AuditOptions& options) {
  // The log is rotated when it reaches kMostBytes. Its last line may exceed that.
  constexpr std::size_t kMost = AuditLog::kMostBytes + (std::size_t{1} << 20);
  const std::filesystem::path newest = options.state_dir / "audit.jsonl";
  if (!something_at(newest)) {
    throw InputError(
        newest.string() +
        " does not exist; run this on the coordinator's machine and give its --state-dir");
  }
  std::deque<std::string> lines;
  for (const std::string& path : {newest.string() + ".1", newest.string()}) {
    if (!something_at(path)) continue;
    std::istringstream text(read_secret(path, kMost));
    for (std::string line; std::getline(text, line);) {
      lines.push_back(std::move(line));
      if (options.tail > 0 && std::ssize(lines) > options.tail) lines.pop_front();
    }
  }
  return lines;
}

std::string table_row(const std::string& line) {
  const auto entry = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!entry.is_object()) return one_line(line) + "\n";
  const auto field = [&](const char* key) {
    const auto found = entry.find(key);
    return found == entry.end() || !found->is_string() ? "" : one_line(found->get<std::string>());
  };
  std::array<char, 400> row{};
  std::snprintf(row.data(), row.size(), "%-24s  %-18s  %-18s  %-9s  %-12s  %-24s  ",
                field("time").c_str(), field("what").c_str(), field("result").c_str(),
                field("role").c_str(), field("credential").substr(0, 12).c_str(),
                field("peer").c_str());
  return row.data() + field("detail") + "\n";
}

void show_audit_log(const AuditOptions& options) {
  const auto lines = read_audit_log(options);
  if (!options.json) {
    std::cout << table_row(R"({"time":"TIME","what":"WHAT","result":"RESULT","role":"ROLE",)"
                           R"("credential":"CREDENTIAL","peer":"PEER","detail":"DETAIL"})");
  }
  for (const std::string& line : lines) {
    std::cout << (options.json ? line + "\n" : table_row(line));
  }
}

}  // namespace

void add_audit_verb(CLI::App& pfcctl) {
  CLI::App* verb = pfcctl.add_subcommand(
      "audit", "Prints the audit log: agents that joined, changes, and rejected calls");
  const auto options = std::make_shared<AuditOptions>();  // owned by the verb's callback
  verb->add_option("--tail", options->tail, "Print only the last lines; 0 prints all")
      ->check(whole_number(0, 1'000'000))
      ->capture_default_str();
  verb->add_flag("--json", options->json,
                 "Print one JSON object per line, with all keys, for programs");
  verb->add_option("--state-dir", options->state_dir, "The coordinator's --state-dir")
      ->capture_default_str();
  verb->footer(
      "Run it on the coordinator's machine, as the same user. It also works after the\n"
      "coordinator has ended (docs/security.md). Example:\n"
      "  pfcctl audit --tail 20");
  verb->callback([options] { show_audit_log(*options); });
}

}  // namespace pfc
