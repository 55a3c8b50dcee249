// Steps, and what happens between them: logs, reports, evaluation, checkpoints, a stop.
#pragma once

#include "worker/report/coordinator_client.h"
#include "worker/training_session.h"

namespace pfc {

enum class TrainingEnd { kCompleted, kStopped };

/// Trains from session.first_step to the last step, or until any worker was asked to stop; then the
/// newest checkpoint holds the state. When the job is complete, evaluates and writes
/// backbone.safetensors to the output folder. `coordinator` may be null. Throws CommError,
/// InputError, StorageError, DeviceError.
TrainingEnd train(TrainingSession& session, CoordinatorClient* coordinator);

}  // namespace pfc
