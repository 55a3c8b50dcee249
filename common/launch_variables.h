// Environment variables that deploy/kubernetes sets for both the coordinator and the agents.
#pragma once

namespace pfc {

inline constexpr const char* kKubernetesPodsVariable = "PFC_KUBERNETES_PODS";
/// The Indexed Job of the agents: its pods are called JOB-0, JOB-1, ...
inline constexpr const char* kKubernetesJobVariable = "PFC_KUBERNETES_JOB";
/// The headless service in whose domain these names are: "pfc-agents", or with the whole domain.
inline constexpr const char* kKubernetesServiceVariable = "PFC_KUBERNETES_SERVICE";
inline constexpr const char* kKubernetesSlotsVariable = "PFC_KUBERNETES_SLOTS";

}  // namespace pfc
