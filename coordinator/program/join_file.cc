#include "coordinator/program/join_file.h"

#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

#include "common/files/regular_file.h"
#include "security/secret_file.h"

namespace pfc {

JoinFile::JoinFile(boost::asio::io_context& loop, Options options)
    : loop_(loop), options_(std::move(options)), timer_(loop) {
  write();
  renew_later();
}

JoinFile::~JoinFile() {
  timer_.cancel();
  files_.join();
  try {  // its token is useless without the coordinator
    if (read_text(options_.path, text_.size() + 1) == text_) {
      std::filesystem::remove(options_.path);
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): it is not there any more
  }
}

void JoinFile::write() {
  std::string text = options_.make() + "\n";
  write_secret(options_.path, text, "--join-file");
  text_ = std::move(text);
}

void JoinFile::renew_later() {
  timer_.expires_after(options_.renewed_after);
  timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    boost::asio::post(files_, [this] { renew(); });
    renew_later();
  });
}

/// Writes a new token. The previous one stays valid, because an agent may just have read it.
void JoinFile::renew() {
  try {
    write();
  } catch (const std::exception& error) {
    const std::string why = error.what();
    boost::asio::post(loop_, [warn = options_.warn, why] {
      warn("the join file is not renewed, and its token may expire: " + why);
    });
  }
}

}  // namespace pfc
