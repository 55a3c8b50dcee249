// The training loop: steps, and between them logs, reports, evaluations, checkpoints and the stop.
#pragma once

#include "worker/coordinator_link/coordinator_client.h"
#include "worker/training_session.h"

namespace pfc {

enum class TrainingEnd { kCompleted, kStopped };

/// Trains from session.plan.first_step() to the last step, or until a worker is asked to stop. When
/// it is asked to stop, the current step is abandoned unless its last micro-batch has begun. In
/// both cases the newest checkpoint then holds the state, if any step was completed. When the job
/// is complete, evaluates the model and writes it to backbone.safetensors in the output folder.
/// `coordinator` receives reports and may be null.
///
/// When the data or a verification set fails, or rank 0 cannot log any more, all workers first
/// write a checkpoint of the last step and the model, if a step was trained. Then the worker that
/// failed throws, and the others return kStopped. Throws CommError, InputError, StorageError,
/// DeviceError.
TrainingEnd train(TrainingSession& session, CoordinatorClient* coordinator);

}  // namespace pfc
