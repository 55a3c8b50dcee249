#include "coordinator/network/network_measurement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "common/error.h"
#include "common/one_line.h"
#include "common/random_id.h"

namespace pfc {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kLongestError = 120;
constexpr int kLastPort = 65'535;

}  // namespace

NetworkMeasurement::NetworkMeasurement(std::vector<NetworkHost> hosts, NetworkWish wish, Send send,
                                       TimePoint now, Pairs pairs)
    : hosts_(std::move(hosts)),
      wish_(std::move(wish)),
      send_(std::move(send)),
      begun_(now),
      id_(random_id()),
      secret_(random_id() + random_id()),
      answers_(hosts_.size()),
      reach_(host_count()),
      wanted_pairs_(pairs) {
  check(host_count() > 1, "a network is measured between two hosts or more");
  if (std::string problem = unfulfilled(hosts_, wish_); !problem.empty()) {
    end({.address = {}, .text = std::move(problem)});
  } else {
    begin(Stage::kListen, milliseconds{0});
  }
}

void NetworkMeasurement::begin(Stage stage, milliseconds limit) {
  stage_ = stage;
  limit_ = limit;
  number_ += 1;
  for (int host = 0; host < host_count(); ++host) {
    answers_[static_cast<std::size_t>(host)].report.reset();
    send_(host, step_for(host));
  }
}

proto::NetworkStep NetworkMeasurement::step_for(int host) const {
  proto::NetworkStep step;
  step.set_measurement(id_);
  step.set_number(choice_ ? 0 : number_);
  if (choice_) return step;
  step.set_secret(secret_);
  step.set_host(host);
  step.set_limit_ms(limit_.count());
  for (const Test& each : answers_[static_cast<std::size_t>(host)].tests) {
    const auto address = [&](Endpoint endpoint) {
      return hosts_[static_cast<std::size_t>(endpoint.host)]
          .addresses[static_cast<std::size_t>(endpoint.address)]
          .address;
    };
    const int to = each.connection.to.host;
    proto::NetworkTest* const test = step.add_tests();
    test->set_to_host(to);
    test->set_from(address(each.connection.from));
    test->set_to(address(each.connection.to));
    test->set_port(answers_[static_cast<std::size_t>(to)].port);
    test->set_transfer(stage_ == Stage::kTransfer || stage_ == Stage::kPairs);
    test->set_begin_ms(each.begin.count());
  }
  return step;
}

void NetworkMeasurement::said(int host, const proto::NetworkReport& report) {
  if (choice_ || report.measurement() != id_ || report.number() != number_) return;
  Answer& answer = answers_[static_cast<std::size_t>(host)];
  const std::string& name = hosts_[static_cast<std::size_t>(host)].name;
  if (!report.problem().empty()) {
    return end({.address = {},
                .text = "host " + name +
                        " cannot take part in the measurement: " + one_line(report.problem())});
  }
  const bool whole = report.results_size() == std::ssize(answer.tests) && report.port() > 0 &&
                     report.port() <= kLastPort;
  if (!whole) {
    return end({.address = {}, .text = "host " + name + ": its agent's answer is incomplete"});
  }
  answer.report = report;
  answer.port = report.port();
  const bool all =
      std::ranges::all_of(answers_, [](const Answer& each) { return each.report.has_value(); });
  if (all) next();
}

void NetworkMeasurement::repeat(int host) { send_(host, step_for(host)); }

void NetworkMeasurement::postpone(Clock::duration gap) { begun_ += gap; }

void NetworkMeasurement::expire(TimePoint now) {
  const auto limit = wanted_pairs_ == Pairs::kAll ? kLimit + kPairsLimit : kLimit;
  if (choice_ || now < begun_ + limit) return;
  std::string missing;
  std::vector<int> apart;
  for (int host = 0; host < host_count(); ++host) {
    const auto place = static_cast<std::size_t>(host);
    if (answers_[place].report) continue;
    missing += (missing.empty() ? "" : ", ") + hosts_[place].name;
    apart.push_back(host);
  }
  end({.address = {},
       .text = "no answer from the agent of " + one_line(missing) + " within " +
               std::to_string(limit.count() / 1000) + " s",
       .apart = std::move(apart)});
}

void NetworkMeasurement::next() {
  switch (stage_) {
    case Stage::kListen:
      return connect(Stage::kConnect, networks_of(hosts_, wish_));
    case Stage::kConnect:
      note_connections();
      find(networks_);
      if (found_.usable.empty()) {
        return connect(Stage::kConnectAnyhow, any_networks_of(hosts_, wish_));
      }
      return transfer();
    case Stage::kConnectAnyhow:
      note_connections();
      find(networks_);
      return transfer();
    case Stage::kTransfer:
      note_transfers();
      if (!data_arrive() && !std::exchange(transferred_twice_, true)) return transfer();
      return choose();
    case Stage::kPairs:
      note_pairs();
      if (!transferred_again_ && some_are_slow()) {
        transferred_again_ = true;
        return transfer_between_pairs();
      }
      return end(std::move(chosen_));
  }
}

void NetworkMeasurement::choose() {
  chosen_ = choose_network(hosts_, wish_, found_, reach_);
  if (wanted_pairs_ == Pairs::kAll && !chosen_.address.empty()) return transfer_between_pairs();
  end(std::move(chosen_));
}

/// Measures each pair three times and keeps the fastest, because a host may be busy for a moment.
void NetworkMeasurement::transfer_between_pairs() {
  constexpr int kRepetitions = 3;
  for (Answer& answer : answers_) answer.tests.clear();
  milliseconds begin_at{0};
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    for (int offset = 1; offset < host_count() && offset <= kMostPairs; ++offset) {
      add_round(chosen_.address, offset, begin_at);
      begin_at += kTransferSlot;
    }
  }
  begin(Stage::kPairs, begin_at + kTransferLimit);
}

void NetworkMeasurement::note_pairs() {
  for (const Answer& answer : answers_) {
    for (std::size_t i = 0; i < answer.tests.size(); ++i) {
      const double told = answer.report->results(static_cast<int>(i)).bits_per_second();
      const Connection& connection = answer.tests[i].connection;
      double& best = speeds_[{connection.from.host, connection.to.host}];
      if (std::isfinite(told)) best = std::max(best, told);
    }
  }
}

/// Returns whether some pairs are much slower than the fastest, perhaps because a host was busy.
bool NetworkMeasurement::some_are_slow() const {
  constexpr double kMuchSlower = 0.5;
  double fastest = 0;
  for (const auto& [hosts, speed] : speeds_) fastest = std::max(fastest, speed);
  return std::ranges::any_of(speeds_,
                             [&](const auto& each) { return each.second < kMuchSlower * fastest; });
}

std::vector<proto::CheckPair> NetworkMeasurement::pairs() const {
  std::vector<proto::CheckPair> pairs;
  const auto add = [&](int from, int to) -> proto::CheckPair& {
    proto::CheckPair& pair = pairs.emplace_back();
    pair.set_from(hosts_[static_cast<std::size_t>(from)].name);
    pair.set_to(hosts_[static_cast<std::size_t>(to)].name);
    return pair;
  };
  for (const auto& [hosts, speed] : speeds_)
    add(hosts.first, hosts.second).set_bits_per_second(speed);
  if (!speeds_.empty()) return pairs;
  for (int from = 0; from < host_count(); ++from) {
    for (const int to : tried_by(from, host_count())) {
      proto::CheckPair& pair = add(from, to);
      if (reach_.some_connect(from, to)) continue;
      const auto failures = reach_.failures(from, to);
      pair.set_error(failures.empty() ? "no address to try" : failures.front().second);
    }
  }
  return pairs;
}

void NetworkMeasurement::connect(Stage stage, const std::vector<Network>& networks) {
  networks_.insert(networks_.end(), networks.begin(), networks.end());
  const auto connections = connections_of(networks);
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    answers_[host].tests.clear();
    if (connections.empty()) continue;
    for (const Connection& each : connections[host]) {
      if (!reach_.was_tried(each)) answers_[host].tests.push_back({.connection = each});
    }
  }
  begin(stage, kConnectLimit);
}

void NetworkMeasurement::note_connections() {
  for (const Answer& answer : answers_) {
    for (std::size_t i = 0; i < answer.tests.size(); ++i) {
      const auto& result = answer.report->results(static_cast<int>(i));
      reach_.add(answer.tests[i].connection, one_line(result.error(), kLongestError));
    }
  }
}

void NetworkMeasurement::find(const std::vector<Network>& networks) {
  found_ = find_networks(hosts_, networks, reach_);
}

void NetworkMeasurement::transfer() {
  const bool known = !found_.usable.empty() && was_used_before(hosts_, found_.usable.front());
  if (found_.usable.empty() || known) return choose();
  for (Answer& answer : answers_) answer.tests.clear();
  for (UsableNetwork& network : found_.usable) network.speed.reset();
  const std::size_t measured = std::min(found_.usable.size(), kMostMeasured);
  // If several networks are compared, measures each twice, so that a short disturbance of one host
  // does not decide.
  const int repetitions = measured > 1 ? 2 : 1;
  milliseconds begin_at{0};
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (std::size_t network = 0; network < measured; ++network) {
      for (const int offset : rounds_of(host_count())) {
        add_round(found_.usable[network].address, offset, begin_at, network);
        begin_at += kTransferSlot;
      }
    }
  }
  begin(Stage::kTransfer, begin_at + kTransferLimit);
}

void NetworkMeasurement::add_round(const std::vector<int>& addresses, int offset,
                                   milliseconds begin_at, std::size_t network) {
  const auto end_of = [&](int host) {
    return Endpoint{.host = host, .address = addresses[static_cast<std::size_t>(host)]};
  };
  for (int host = 0; host < host_count(); ++host) {
    answers_[static_cast<std::size_t>(host)].tests.push_back(
        {.connection = {.from = end_of(host), .to = end_of((host + offset) % host_count())},
         .network = network,
         .begin = begin_at});
  }
}

/// Keeps the fastest transfer between the same addresses.
void NetworkMeasurement::note_transfers() {
  struct Best {
    std::size_t network = 0;
    double speed = 0;
    std::string error;
  };
  std::map<Connection, Best> best;
  for (const Answer& answer : answers_) {
    for (std::size_t i = 0; i < answer.tests.size(); ++i) {
      const auto& result = answer.report->results(static_cast<int>(i));
      const double told = result.bits_per_second();
      const bool arrived = result.error().empty() && std::isfinite(told) && told > 0;
      Best& known = best[answer.tests[i].connection];
      known.network = answer.tests[i].network;
      known.speed = std::max(known.speed, arrived ? told : 0);
      known.error = one_line(result.error(), kLongestError);
    }
  }
  for (const auto& [connection, result] : best) {
    add_speed(found_.usable[result.network], connection.from.host, connection.to.host, result.speed,
              result.error);
  }
}

bool NetworkMeasurement::data_arrive() const {
  return std::ranges::any_of(found_.usable,
                             [](const UsableNetwork& each) { return each.speed.value_or(0) > 0; });
}

void NetworkMeasurement::end(NetworkChoice choice) {
  choice_ = std::move(choice);
  for (int host = 0; host < host_count(); ++host) repeat(host);  // sends the last step
}

}  // namespace pfc
