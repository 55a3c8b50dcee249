// The folder of a job's event files, over the starts of its processes.
//
// TensorBoard takes the files of one folder as one run, in the order of their names:
//
//   tensorboard/events.out.tfevents.1794832811.host.4711.pfc
#pragma once

#include <cstdint>
#include <filesystem>

namespace pfc {

/// Takes the steps from `first_step` on, which will be trained again, out of all event files that
/// pfc has written. A file is cut before the first such event, and removed where it then shows
/// nothing. A last event that was not written whole goes too; another one that is damaged goes with
/// a warning, and with all after it, which no reader finds. Other files stay as they are. Nothing
/// where there is no folder. Throws StorageError, and InputError where a file cannot be read.
void drop_orphaned_events(const std::filesystem::path& tensorboard, std::int64_t first_step);

/// The path of a new file. Makes its folder. The name comes after those of all files that are
/// there, also where the clock has been set back. Throws StorageError.
std::filesystem::path next_event_file(const std::filesystem::path& tensorboard);

}  // namespace pfc
