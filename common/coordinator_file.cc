#include "common/coordinator_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/files/atomic_file.h"

namespace pfc {
namespace {

std::filesystem::path file_in(const std::filesystem::path& folder) {
  return folder / "coordinator.json";
}

/// In /tmp anybody could have made the folder first, and then say where the coordinator is.
void check_owner(const std::filesystem::path& folder) {
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
    throw StorageError(folder.string() +
                       ": expected a folder of this user; choose another with --state-dir");
  }
}

}  // namespace

std::filesystem::path default_state_folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");  // NOLINT(concurrency-mt-unsafe): read only
  if (runtime != nullptr && *runtime != '\0') return std::filesystem::path(runtime) / "pfc";
  return "/tmp/pfc-" + std::to_string(geteuid());
}

void write_coordinator_file(const std::filesystem::path& folder, const CoordinatorFile& file) {
  std::error_code error;
  if (folder.has_parent_path()) std::filesystem::create_directories(folder.parent_path(), error);
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    throw StorageError(folder.string() +
                       ": cannot be made: " + std::generic_category().message(errno) +
                       "; choose another folder with --state-dir");
  }
  check_owner(folder);
  const nlohmann::ordered_json json = {{"address", file.address},
                                       {"http_address", file.http_address},
                                       {"pid", file.pid},
                                       {"job", file.job}};
  write_file_atomically(file_in(folder), json.dump(2) + "\n");
}

CoordinatorFile read_coordinator_file(const std::filesystem::path& folder) {
  const std::filesystem::path path = file_in(folder);
  std::ifstream stream(path);
  if (!stream) {
    throw InputError(path.string() +
                     ": no coordinator of this user runs on this machine; expected one, or its "
                     "address with --coordinator HOST:PORT");
  }
  check_owner(folder);
  try {
    const auto json = nlohmann::json::parse(stream);
    return {.address = json.at("address").get<std::string>(),
            .http_address = json.at("http_address").get<std::string>(),
            .pid = json.at("pid").get<pid_t>(),
            .job = json.at("job").get<std::string>()};
  } catch (const nlohmann::json::exception& error) {
    throw InputError(path.string() + ": not what a coordinator writes (" + error.what() +
                     "); give its address with --coordinator HOST:PORT");
  }
}

void remove_coordinator_file(const std::filesystem::path& folder, pid_t pid) noexcept {
  try {
    if (read_coordinator_file(folder).pid == pid) std::filesystem::remove(file_in(folder));
  } catch (const std::exception&) {
    // A file that is left behind does no harm: no coordinator answers at its address.
  }
}

}  // namespace pfc
