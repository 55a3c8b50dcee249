#include "coordinator/checks/judge.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include "common/counted.h"
#include "common/median.h"
#include "coordinator/network/network_choice.h"

namespace pfc {
namespace {

using proto::CheckFinding;
using proto::CheckPair;

/// Returns a finding with the most common value; the first one if there is a tie.
const CheckFinding& most_common(const std::vector<CheckFinding*>& findings) {
  std::map<std::string, int> count;
  for (const CheckFinding* each : findings) count[each->found()] += 1;
  const CheckFinding* best = findings.front();
  for (const CheckFinding* each : findings) {
    if (count[each->found()] > count[best->found()]) best = each;
  }
  return *best;
}

void expect_same(const std::vector<CheckFinding*>& findings, const KnownValues& known) {
  const auto told = known.find(findings.front()->what());
  std::string expected, who;
  if (told != known.end()) {
    expected = told->second;
    who = "the coordinator";
  } else {
    const CheckFinding& right = most_common(findings);
    expected = right.found();
    who = right.host();
  }
  for (CheckFinding* each : findings) {
    if (each->found() == expected) {
      each->clear_remedy();
      continue;
    }
    each->set_verdict(each->otherwise());
    each->set_expected(expected + ", as " + who + " has");
  }
}

void expect_as_fast(const std::vector<CheckFinding*>& findings) {
  std::vector<double> values;
  for (const CheckFinding* each : findings) values.push_back(each->value());
  const double usual = median_of(std::move(values));  // with two hosts, the faster one
  const auto right = std::ranges::min_element(
      findings, {}, [&](const CheckFinding* each) { return std::abs(each->value() - usual); });
  for (CheckFinding* each : findings) {
    const bool enough = each->enough() > 0 && each->value() >= each->enough();
    if (each->value() > kSlow * usual || enough) {
      each->clear_remedy();
      continue;
    }
    each->set_verdict(each->otherwise());
    each->set_expected("about " + (*right)->found() + ", as " + (*right)->host() + " has");
  }
}

std::string pair_text(const CheckPair& pair) { return pair.from() + " to " + pair.to(); }

/// Assigns each pair to the host that occurs in most pairs, and calls `found` with the host and
/// its pairs.
void blame_hosts(std::vector<const CheckPair*> pairs,
                 const std::function<void(const std::string& host,
                                          const std::vector<const CheckPair*>& pairs)>& found) {
  while (!pairs.empty()) {
    std::map<std::string, int> count;
    for (const CheckPair* pair : pairs) count[pair->from()] += 1, count[pair->to()] += 1;
    std::string worst = pairs.front()->from();
    for (const CheckPair* pair : pairs) {
      for (const std::string* host : {&pair->from(), &pair->to()}) {
        if (count[*host] > count[worst]) worst = *host;
      }
    }
    std::vector<const CheckPair*> its;
    for (const CheckPair* pair : pairs) {
      if (pair->from() == worst || pair->to() == worst) its.push_back(pair);
    }
    std::erase_if(
        pairs, [&](const CheckPair* pair) { return pair->from() == worst || pair->to() == worst; });
    found(worst, its);
  }
}

CheckFinding network_finding(const std::string& host, proto::CheckVerdict verdict,
                             std::string found, const std::string& expected,
                             const std::string& remedy, std::size_t pairs) {
  if (pairs > 1) found += ", and " + counted(static_cast<long long>(pairs - 1), "other pair");
  CheckFinding finding;
  finding.set_host(host);
  finding.set_rank(-1);
  finding.set_what("network");
  finding.set_found(found);
  finding.set_expected(expected);
  finding.set_verdict(verdict);
  finding.set_remedy(remedy);
  return finding;
}

}  // namespace

void compare(std::vector<CheckFinding>& findings, const KnownValues& known) {
  std::map<std::pair<std::string, int>, std::vector<CheckFinding*>> groups;
  for (CheckFinding& each : findings) {
    if (each.comparison() == proto::CHECK_NOT_COMPARED) continue;
    groups[{each.what(), static_cast<int>(each.comparison())}].push_back(&each);
  }
  for (const auto& [what, group] : groups) {
    if (what.second == proto::CHECK_SAME_EVERYWHERE) {
      expect_same(group, known);
    } else {
      expect_as_fast(group);
    }
  }
}

std::vector<CheckFinding> judge_pairs(const std::vector<CheckPair>& pairs) {
  std::vector<double> speeds;
  std::vector<const CheckPair*> broken, slow;
  for (const CheckPair& pair : pairs) {
    if (!pair.error().empty()) broken.push_back(&pair);
    if (pair.bits_per_second() > 0) speeds.push_back(pair.bits_per_second());
  }
  const double usual = median_of(std::move(speeds));
  for (const CheckPair& pair : pairs) {
    if (!pair.error().empty() || pair.bits_per_second() <= 0) continue;
    if (pair.bits_per_second() < kSlowLink * usual) slow.push_back(&pair);
  }
  std::vector<CheckFinding> findings;
  blame_hosts(broken, [&](const std::string& host, const auto& its) {
    findings.push_back(network_finding(
        host, proto::CHECK_STOPS, pair_text(*its.front()) + ": " + its.front()->error(),
        "hosts that reach each other",
        "open all ports between the hosts in their firewalls, look at routes and cables, or give "
        "--network; docs/network.md",
        its.size()));
  });
  blame_hosts(slow, [&](const std::string& host, const auto& its) {
    const CheckPair& worst = **std::ranges::min_element(
        its, {}, [](const CheckPair* p) { return p->bits_per_second(); });
    findings.push_back(network_finding(
        host, proto::CHECK_SLOWS, pair_text(worst) + " " + speed_text(worst.bits_per_second()),
        "about " + speed_text(usual) + ", as between other pairs",
        "check this host's cable, switch port and driver (ethtool), and other traffic on its link",
        its.size()));
  });
  return findings;
}

void sort_by_verdict(std::vector<CheckFinding>& findings) {
  std::map<std::string, std::size_t> place;  // order of first appearance
  for (const CheckFinding& each : findings) place.try_emplace(each.what(), place.size());
  std::ranges::stable_sort(findings, {}, [&](const CheckFinding& each) {
    return std::tuple(-static_cast<int>(each.verdict()), place[each.what()], each.host());
  });
}

}  // namespace pfc
