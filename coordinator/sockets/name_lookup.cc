#include "coordinator/sockets/name_lookup.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "common/clock.h"

namespace pfc {
namespace {

constexpr std::size_t kMostThreads = 32;

/// Shared with the threads, which may outlive the caller.
struct Lookups {
  std::vector<std::string> names;  // constant
  Resolve resolve;                 // constant
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t next = 0;      // guarded by mutex
  bool over = false;         // guarded by mutex
  std::size_t done = 0;      // guarded by mutex
  FoundAddresses addresses;  // guarded by mutex
};

void work(Lookups& lookups) {
  std::unique_lock lock(lookups.mutex);
  while (!lookups.over && lookups.next < lookups.names.size()) {
    const std::string name = lookups.names[lookups.next++];
    lock.unlock();
    std::optional<std::vector<std::string>> addresses = lookups.resolve(name);
    lock.lock();
    lookups.done += 1;
    if (addresses) lookups.addresses[name] = std::move(*addresses);
    lookups.changed.notify_all();
  }
}

}  // namespace

std::optional<std::vector<std::string>> resolve(const std::string& name) {
  boost::asio::io_context io;
  boost::system::error_code error;
  std::vector<std::string> addresses;
  for (const auto& entry : boost::asio::ip::tcp::resolver(io).resolve(name, "", error)) {
    addresses.push_back(entry.endpoint().address().to_string());
  }
  if (error == boost::asio::error::host_not_found_try_again) return std::nullopt;
  return addresses;
}

FoundAddresses look_up(const std::vector<std::string>& names, std::chrono::milliseconds limit,
                       Resolve resolve_name) {
  const auto lookups = std::make_shared<Lookups>();
  lookups->names = names;
  lookups->resolve = std::move(resolve_name);
  for (std::size_t i = 0; i < std::min(names.size(), kMostThreads); ++i) {
    std::thread([lookups] { work(*lookups); }).detach();
  }
  std::unique_lock lock(lookups->mutex);
  lookups->changed.wait_for(lock, limit, [&] { return lookups->done == names.size(); });
  lookups->over = true;
  return lookups->addresses;
}

void RepeatedLookup::run(const std::stop_token& stop,
                         const std::function<void(const std::vector<std::string>& names,
                                                  const FoundAddresses& found)>& found) {
  const TimePoint deadline = Clock::now() + limit;
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any stopped;
  while (!names.empty() && Clock::now() + pause < deadline) {
    stopped.wait_for(lock, stop, pause, [] { return false; });
    if (stop.stop_requested()) return;
    const FoundAddresses addresses = look_up(names, each, resolve_name);
    found(names, addresses);
    std::erase_if(names, [&](const std::string& name) {
      const auto answer = addresses.find(name);
      return answer != addresses.end() && !answer->second.empty();
    });
  }
}

}  // namespace pfc
