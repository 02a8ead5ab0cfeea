//! Fields of GatewayParameters that have a counterpart among the parameters of the Envoys.

use holdfast_api::apis::kgateway;

use super::{SettingTable, setting};

/// The object GatewayParameters.
pub(in super::super) const TABLE: SettingTable = SettingTable {
    of: (kgateway::GROUP, "GatewayParameters"),
    field: "spec",
    is_text: false,
    known: "the parameters of Holdfast have a field for this one",
    unknown: "the parameters of Holdfast have no such field",
    parts: &[&[
        setting("kube.deployment.replicas", "replicas"),
        setting("kube.envoyContainer.bootstrap.logLevel", "logLevel"),
        setting("kube.envoyContainer.image.pullPolicy", "imagePullPolicy"),
        setting("kube.envoyContainer.image", "image, one text with registry, repository and tag"),
        setting("kube.envoyContainer.resources", "resources"),
        setting("kube.podTemplate.extraLabels", "pod.labels"),
        setting("kube.podTemplate.extraAnnotations", "pod.annotations"),
        setting("kube.podTemplate.imagePullSecrets", "imagePullSecrets, a list of names"),
        setting("kube.podTemplate.nodeSelector", "pod.nodeSelector"),
        setting("kube.podTemplate.affinity", "pod.affinity"),
        setting("kube.podTemplate.tolerations", "pod.tolerations"),
        setting("kube.podTemplate.topologySpreadConstraints", "pod.topologySpreadConstraints"),
        setting("kube.podTemplate.priorityClassName", "pod.priorityClassName"),
        setting("kube.podTemplate.gracefulShutdown.sleepTimeSeconds", "drainSeconds"),
        setting("kube.service.type", "service.type"),
        setting("kube.service.extraLabels", "service.labels"),
        setting("kube.service.extraAnnotations", "service.annotations"),
        setting("kube.service.externalTrafficPolicy", "service.externalTrafficPolicy"),
        setting("kube.service.loadBalancerClass", "service.loadBalancerClass"),
        setting("kube.service.loadBalancerSourceRanges", "service.loadBalancerSourceRanges"),
        setting("kube.podDisruptionBudget.spec.minAvailable", "podDisruptionBudget.minAvailable"),
        setting("kube.podDisruptionBudget.spec.maxUnavailable", "podDisruptionBudget.maxUnavailable"),
        setting("kube.horizontalPodAutoscaler.spec.minReplicas", "autoscaling.minReplicas"),
        setting("kube.horizontalPodAutoscaler.spec.maxReplicas", "autoscaling.maxReplicas"),
    ]],
};
