#include "proto/check_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "common/counted.h"
#include "common/network_address.h"
#include "common/one_line.h"
#include "proto/message_json.h"

namespace pfc {
namespace {

using proto::CheckFinding;
using proto::CheckReport;

constexpr std::size_t kWidestFound = 44;  // a longer text overflows its column
constexpr std::size_t kWidestName = 28;
constexpr std::size_t kLongestText = 2'000;
constexpr std::size_t kMostNamed = 3;   // hosts named in one row
constexpr std::size_t kMostInMap = 24;  // hosts; with more, no speeds are printed

/// Equal findings of several hosts.
struct Row {
  const CheckFinding* finding = nullptr;
  std::vector<std::string> hosts;
};

/// "host b", "rank 3", "all 3 hosts".
std::string where(const Row& row, std::size_t hosts) {
  const CheckFinding& finding = *row.finding;
  if (hosts > 1 && row.hosts.size() == hosts && finding.rank() < 0) {
    return "all " + std::to_string(hosts) + " hosts";
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(row.hosts.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + row.hosts[i];
  }
  if (row.hosts.size() > kMostNamed) {
    text += " and " + std::to_string(row.hosts.size() - kMostNamed) + " more";
  }
  return text.empty() ? "-" : text;
}

std::vector<Row> rows_of(const CheckReport& report) {
  std::map<std::tuple<int, std::string, std::string, std::string>, std::size_t> places;
  std::vector<Row> rows;
  for (const CheckFinding& each : report.findings()) {
    const auto [place, is_new] = places.try_emplace(
        {each.verdict(), each.what(), each.found(), each.expected()}, rows.size());
    if (is_new) rows.push_back({.finding = &each, .hosts = {}});
    std::string host = one_line(each.host());
    if (each.rank() >= 0) host += " rank " + std::to_string(each.rank());
    rows[place->second].hosts.push_back(std::move(host));
  }
  return rows;
}

const char* name_of(proto::CheckVerdict verdict) {
  switch (verdict) {
    case proto::CHECK_OK:
      return "ok";
    case proto::CHECK_NOTE:
      return "note";
    case proto::CHECK_SLOWS:
      return "SLOWS";
    default:
      return "STOPS";
  }
}

/// Pads to `width`, but always leaves two spaces before the next column.
std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size() + 2), ' ');
  return text;
}

std::string without_end(std::string text) {
  return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
}

struct Widths {
  std::size_t host = 4, what = 4, found = 5;
};

std::string line_of(const char* verdict, const std::string& host, const std::string& what,
                    const std::string& found, const std::string& expected, const Widths& widths) {
  return without_end(padded(verdict, 7) + padded(host, widths.host + 2) +
                     padded(what, widths.what + 2) + padded(found, widths.found + 2) + expected);
}

std::string table(const CheckReport& report) {
  const std::vector<Row> rows = rows_of(report);
  const auto hosts = static_cast<std::size_t>(std::max(report.hosts(), 0));
  Widths widths;
  for (const Row& row : rows) {
    widths.host = std::max(widths.host, std::min(where(row, hosts).size(), kWidestName));
    widths.what = std::max(widths.what, std::min(row.finding->what().size(), kWidestName));
    const std::size_t found = row.finding->found().size();
    if (found <= kWidestFound) widths.found = std::max(widths.found, found);
  }
  std::string text = line_of("", "host", "what", "found", "expected", widths);
  for (const Row& row : rows) {
    const CheckFinding& each = *row.finding;
    text += line_of(name_of(each.verdict()), where(row, hosts), one_line(each.what()),
                    one_line(each.found(), kLongestText), one_line(each.expected(), kLongestText),
                    widths);
    if (each.verdict() != proto::CHECK_OK && !each.remedy().empty()) {
      text += std::string(9, ' ') + "-> " + one_line(each.remedy(), kLongestText) + "\n";
    }
  }
  return text;
}

/// "9.4G", "940M"
std::string short_speed(double bits_per_second) {
  const bool giga = bits_per_second >= 1e9;
  const double value = bits_per_second / (giga ? 1e9 : 1e6);
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), value < 9.95 ? "%.1f%c" : "%.0f%c", value,
                giga ? 'G' : 'M');
  return text.data();
}

/// Returns one of four shades; darker is faster.
std::string shade(double part) {
  constexpr std::array<const char*, 4> kShades{"░", "▒", "▓", "█"};
  return kShades[static_cast<std::size_t>(std::clamp(part * 4, 0.0, 3.0))];
}

/// Rows send, columns receive. Hosts are numbered if a name is too long for a column header.
std::string heat_map(const CheckReport& report) {
  std::vector<std::string> hosts;
  std::map<std::pair<std::string, std::string>, const proto::CheckPair*> pairs;
  double fastest = 0;
  for (const proto::CheckPair& pair : report.pairs()) {
    for (const std::string& host : {pair.from(), pair.to()}) {
      if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
    }
    pairs[{pair.from(), pair.to()}] = &pair;
    fastest = std::max(fastest, pair.bits_per_second());
  }
  if (hosts.size() < 2) return {};
  if (hosts.size() > kMostInMap) {
    return "pfcctl check --json prints the speeds of " + counted(report.pairs_size(), "pair") +
           " of hosts\n";
  }
  constexpr std::size_t kColumn = 8;
  std::vector<std::string> heads, rows;
  const bool has_numbers =
      std::ranges::any_of(hosts, [](const auto& host) { return host.size() > kColumn; });
  std::size_t width = kColumn;
  for (const std::string& host : hosts) {
    heads.push_back(has_numbers ? std::to_string(heads.size() + 1) : one_line(host));
    rows.push_back((has_numbers ? heads.back() + " " : "") + one_line(host, kWidestName));
    width = std::max(width, rows.back().size());
  }
  std::string text = "bits per second from the host of the row to the host of the column:\n" +
                     std::string(width + 2, ' ');
  for (const std::string& head : heads) text += padded(head, kColumn + 2);
  text = without_end(text);
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::string& from = hosts[i];
    std::string row = padded(rows[i], width + 2);
    for (const std::string& to : hosts) {
      const auto found = pairs.find({from, to});
      if (from == to || found == pairs.end()) {
        row += padded(from == to ? "." : "?", 10);
      } else if (!found->second->error().empty()) {
        row += padded("x none", 10);
      } else if (found->second->bits_per_second() <= 0) {
        row += padded("connects", 10);
      } else {
        const double speed = found->second->bits_per_second();
        row += shade(speed / fastest) + " " + padded(short_speed(speed), 8);
      }
    }
    text += without_end(row);
  }
  return text;
}

void shorten_texts(nlohmann::ordered_json& json) {
  if (json.is_string()) json = one_line(std::string(json), kLongestText);
  if (!json.is_structured()) return;
  for (auto& each : json) shorten_texts(each);
}

}  // namespace

int count_of(const CheckReport& report, proto::CheckVerdict verdict) {
  return static_cast<int>(std::ranges::count_if(
      rows_of(report), [&](const Row& row) { return row.finding->verdict() == verdict; }));
}

bool is_good(const CheckReport& report) {
  return report.workers() > 0 &&
         std::ranges::none_of(report.findings(), [](const CheckFinding& each) {
           return each.verdict() >= proto::CHECK_SLOWS;
         });
}

std::string check_sentence(const CheckReport& report) {
  const int stops = count_of(report, proto::CHECK_STOPS);
  const int slows = count_of(report, proto::CHECK_SLOWS);
  const std::string what = report.job_file().empty() ? "a job" : "this job";
  if (stops == 0 && slows == 0 && report.workers() == 0) {
    return "no worker completed the check: nothing is known about " + what;
  }
  if (stops == 0 && slows == 0) {
    return "the cluster would run " + what + ": " + counted(report.workers(), "worker") + " on " +
           counted(report.hosts(), "host");
  }
  std::string text;
  if (stops > 0) text = counted(stops, "thing") + " would stop " + what;
  if (slows > 0 && stops > 0) return text + ", and " + std::to_string(slows) + " would slow it";
  return slows > 0 ? counted(slows, "thing") + " would slow " + what : text;
}

std::string check_text(const CheckReport& report) {
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), " (%.0f s)\n", report.seconds());
  std::string text = table(report);
  if (const std::string map = heat_map(report); !map.empty()) text += "\n" + map;
  if (!report.network().empty()) text += "\n" + one_line(report.network(), kLongestText) + "\n";
  return text + "\n" + check_sentence(report) + seconds.data();
}

nlohmann::ordered_json check_json(const CheckReport& report) {
  auto json = message_json(
      report, {"job_file", "version", "hosts", "workers", "seconds", "network", "pairs"});
  json["would_run"] = count_of(report, proto::CHECK_STOPS) == 0;
  json["good"] = is_good(report);
  json["sentence"] = check_sentence(report);
  json["findings"] = nlohmann::ordered_json::array();
  for (const CheckFinding& each : report.findings()) {
    auto shown = message_json(each, {"host", "rank", "what", "found", "expected", "remedy"});
    shown["verdict"] = lower_case(name_of(each.verdict()));
    if (each.rank() < 0) shown["rank"] = nullptr;
    if (each.verdict() == proto::CHECK_OK) shown["remedy"] = "";
    if (!each.unit().empty()) shown.update(message_json(each, {"value", "unit"}));
    json["findings"].push_back(std::move(shown));
  }
  shorten_texts(json);
  return json;
}

}  // namespace pfc
