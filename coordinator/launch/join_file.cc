#include "coordinator/launch/join_file.h"

#include <system_error>
#include <utility>

#include "security/secret_file.h"

namespace pfc {

JoinFile::JoinFile(std::filesystem::path path, const std::string& join_string)
    : path_(std::move(path)) {
  write_secret(path_, join_string + "\n");
}

JoinFile::~JoinFile() {
  std::error_code ignored;  // its token is of no use without the coordinator
  std::filesystem::remove(path_, ignored);
}

}  // namespace pfc
