// The folder of a job's event files. Each start of the job adds one.
//
// TensorBoard takes the files of one folder as one run, in the order of their names:
//
//   tensorboard/events.out.tfevents.1794832811.host.4711.pfc
#pragma once

#include <cstdint>
#include <filesystem>

namespace pfc {

/// Removes the steps from `first_step` on, which will be trained again, from all event files
/// written by pfc. Cuts a file before the first such event, and deletes it if nothing displayable
/// remains. Also removes an incomplete last event. A damaged event is removed with a warning,
/// together with everything after it, which no reader could find. Leaves other files unchanged.
/// Does nothing if the folder does not exist. Throws StorageError, and InputError if a file cannot
/// be read.
void drop_orphaned_events(const std::filesystem::path& tensorboard, std::int64_t first_step);

/// Returns the path of a new file, and creates its folder. The name sorts after all existing
/// files, even if the clock was set back. Throws StorageError.
std::filesystem::path next_event_file(const std::filesystem::path& tensorboard);

}  // namespace pfc
