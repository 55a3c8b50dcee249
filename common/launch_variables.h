// Environment variables that deploy/kubernetes sets for the coordinator and the agents.
#pragma once

namespace pfc {

inline constexpr const char* kKubernetesPodsVariable = "PFC_KUBERNETES_PODS";
/// Name of the agents' Indexed Job; its pods are named JOB-0, JOB-1, ...
inline constexpr const char* kKubernetesJobVariable = "PFC_KUBERNETES_JOB";
/// Headless service that gives the pods their DNS names: "pfc-agents", or its full domain name.
inline constexpr const char* kKubernetesServiceVariable = "PFC_KUBERNETES_SERVICE";
inline constexpr const char* kKubernetesSlotsVariable = "PFC_KUBERNETES_SLOTS";

}  // namespace pfc
