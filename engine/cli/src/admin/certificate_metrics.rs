//! Metrics of the dates of served certificates.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdfast_engine::report::certificates::EarliestDates;
use prometheus::IntGaugeVec;

use super::namespace_metrics::NamespaceMetrics;
use super::register::Register;

/// Metrics of certificates, by Gateway and by the namespace of their Secrets.
#[derive(Debug)]
pub struct CertificateMetrics {
    expiry: IntGaugeVec,
    notice: IntGaugeVec,
}

impl CertificateMetrics {
    /// Registers the metrics without any certificate.
    ///
    /// # Errors
    /// Returns an error only if two metrics have the same name.
    pub(super) fn new(all: Register<'_>) -> prometheus::Result<Self> {
        let labels = ["gateway", "namespace"];
        Ok(Self {
            expiry: all.gauges(
                "certificate_expiry_timestamp_seconds",
                "Earliest expiry of a certificate that listeners serve (seconds since 1970)",
                &labels,
            )?,
            notice: all.gauges(
                "certificate_notice_timestamp_seconds",
                "Time from which the earliest expiry of a certificate is reported in advance (seconds since 1970)",
                &labels,
            )?,
        })
    }

    /// Records the dates of all served certificates.
    pub fn served(&self, dates: &BTreeMap<(Arc<str>, Arc<str>), EarliestDates>, namespaces: &NamespaceMetrics) {
        let mut earliest: BTreeMap<(Arc<str>, Arc<str>), EarliestDates> = BTreeMap::new();
        for ((gateway, namespace), dates) in dates {
            let at = (gateway.clone(), namespaces.label(namespace));
            earliest.entry(at).and_modify(|all| *all = all.earlier(*dates)).or_insert(*dates);
        }
        self.expiry.reset();
        self.notice.reset();
        for ((gateway, namespace), dates) in earliest {
            let labels = [&*gateway, &*namespace];
            self.expiry.with_label_values(&labels).set(dates.expiry);
            self.notice.with_label_values(&labels).set(dates.notice);
        }
    }
}
