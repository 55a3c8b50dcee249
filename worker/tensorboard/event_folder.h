// The folder of a job's event files, over the starts of its processes.
//
// TensorBoard takes the files of one folder as one run, in the order of their names, and a run has
// one axis of steps. A job that goes on with another global batch counts its steps anew, so that
// they may be fewer than before: it continues in a folder of its own,
//
//   tensorboard/events.out.tfevents.1794832811.host.4711.batch-512
//   tensorboard/batch-384/events.out.tfevents.1794832999.host.4711.batch-384
#pragma once

#include <cstdint>
#include <filesystem>

namespace pfc {

/// Takes out of all event files what belongs to images that will be seen again, those of steps with
/// more than `images` at the global batch in the file's name. A file is cut before the first such
/// event, and removed where it then shows nothing. A last event that was not written whole goes
/// too; another one that is damaged goes with a warning, and with all after it, which no reader
/// finds. Other files stay as they are. Nothing where there is no folder. Throws StorageError, and
/// InputError where a file cannot be read.
void drop_orphaned_events(const std::filesystem::path& tensorboard, std::int64_t images);

/// The path of a new file of a job with this global batch. Makes its folder. The name comes after
/// those of all files that are there, also where the clock has been set back. Throws StorageError.
std::filesystem::path next_event_file(const std::filesystem::path& tensorboard,
                                      std::int64_t global_batch);

}  // namespace pfc
