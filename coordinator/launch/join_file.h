// What agents join with, in a file for the scripts that start them.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

namespace pfc {

/// Has a join string, for this user alone, as long as this object lives, and again and again a new
/// one, so that its token is always valid. An agent waits for the file (pfc-agent --join-file), so
/// both may be started at once. Used on the event loop only.
class JoinFile {
 public:
  struct Options {
    std::filesystem::path path;
    std::chrono::milliseconds renewed_after{};  ///< less than the lifetime of a token
    /// Makes a join string. Called here, and later on a thread of its own, because it waits for
    /// files. Throws like Gate::make_join_string().
    std::function<std::string()> make;
    std::function<void(const std::string&)> warn;  ///< on the loop: it could not be renewed
  };

  /// Replaces what has this name. Throws StorageError where it cannot be written.
  JoinFile(boost::asio::io_context& loop, Options options);
  /// Removes the file, unless it is another one by now.
  ~JoinFile();
  JoinFile(const JoinFile&) = delete;
  JoinFile& operator=(const JoinFile&) = delete;

 private:
  void write();
  void renew_later();
  void renew();

  boost::asio::io_context& loop_;
  const Options options_;
  std::string text_;  ///< that was written last
  boost::asio::steady_timer timer_;
  boost::asio::thread_pool files_{1};  // last: it uses all above
};

}  // namespace pfc
