//! The validity of a certificate in time: when it begins and ends, and from when its end is reported in advance.
//!
//! There is no clock here: a caller passes the time.

use crate::time::Moment;

/// How long before its end a certificate is reported, in seconds: 14 days.
pub const EXPIRY_NOTICE_SECONDS: i64 = 14 * 24 * 3600;

/// The period in which a certificate is valid (RFC 5280, section 4.1.2.5), in seconds of Unix time; both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before: i64,
    /// The last second.
    pub not_after: i64,
}

/// Why a certificate needs its owner at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DateFault {
    /// The validity has not begun.
    #[error("the certificate is not valid before {from}: clients refuse it until then; use one that is valid now")]
    NotYetValid {
        /// The first second of the validity.
        from: Moment,
    },
    /// The validity has ended.
    #[error("the certificate expired at {at}: clients refuse it; renew it")]
    Expired {
        /// The last second of the validity.
        at: Moment,
    },
    /// The validity ends soon.
    #[error("the certificate expires at {at}; renew it before then")]
    Expiring {
        /// The last second of the validity.
        at: Moment,
    },
}

impl DateFault {
    /// All reasons.
    pub const REASONS: [&'static str; 3] = ["CertificateNotYetValid", "CertificateExpired", "CertificateExpiring"];

    /// Returns the reason, one word in CamelCase.
    pub fn reason(self) -> &'static str {
        let [not_yet_valid, expired, expiring] = Self::REASONS;
        match self {
            Self::NotYetValid { .. } => not_yet_valid,
            Self::Expired { .. } => expired,
            Self::Expiring { .. } => expiring,
        }
    }

    /// Returns whether clients refuse the certificate now.
    pub fn is_outside(self) -> bool {
        !matches!(self, Self::Expiring { .. })
    }
}

impl Validity {
    /// Returns the first second after the validity.
    pub fn ends(self) -> i64 {
        self.not_after.saturating_add(1)
    }

    /// Returns the time from which the end is reported in advance: [`EXPIRY_NOTICE_SECONDS`] before it, and for
    /// certificates with a short life in the last quarter of their validity.
    pub fn notice(self) -> i64 {
        let quarter = self.not_after.saturating_sub(self.not_before).max(0) / 4;
        self.not_after.saturating_sub(quarter.min(EXPIRY_NOTICE_SECONDS))
    }

    /// Returns whether clients accept the certificate at this time, in seconds of Unix time.
    pub fn contains(self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    /// Returns what is reported about the certificate at this time, in seconds of Unix time.
    pub fn fault(self, now: i64) -> Option<DateFault> {
        let at = Moment(self.not_after);
        match now {
            now if now < self.not_before => Some(DateFault::NotYetValid { from: Moment(self.not_before) }),
            now if now > self.not_after => Some(DateFault::Expired { at }),
            now if now >= self.notice() => Some(DateFault::Expiring { at }),
            _ => None,
        }
    }

    /// Returns the next time after this one at which [`Self::fault`] changes.
    pub fn next_change(self, now: i64) -> Option<i64> {
        [self.not_before, self.notice(), self.ends()].into_iter().filter(|change| *change > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3600;

    #[test]
    fn faults_change_at_the_announced_times() {
        for (begins, life) in [(0, 90 * DAY), (1_000, 4 * DAY), (5, 3), (7, 0), (10, -3), (-5, i64::MAX)] {
            let validity = Validity { not_before: begins, not_after: begins.saturating_add(life) };
            let mut now = begins - 10;
            let mut seen = vec![validity.fault(now)];
            while let Some(next) = validity.next_change(now) {
                assert_eq!(
                    validity.fault(next - 1),
                    validity.fault(now),
                    "{validity:?}: nothing changes before {next}"
                );
                now = next;
                seen.push(validity.fault(now));
            }
            assert_eq!(validity.fault(i64::MAX).is_some(), seen.last().is_some_and(Option::is_some), "{validity:?}");
        }
    }

    #[test]
    fn the_end_is_reported_in_advance() {
        let year = Validity { not_before: 0, not_after: 365 * DAY };
        assert_eq!(year.notice(), 351 * DAY);
        let week = Validity { not_before: 0, not_after: 8 * DAY };
        assert_eq!(week.notice(), 6 * DAY);
        assert_eq!(year.fault(350 * DAY), None);
        assert_eq!(year.fault(351 * DAY), Some(DateFault::Expiring { at: Moment(365 * DAY) }));
        assert_eq!(year.fault(365 * DAY + 1), Some(DateFault::Expired { at: Moment(365 * DAY) }));
        assert_eq!(year.fault(-1), Some(DateFault::NotYetValid { from: Moment(0) }));
        assert!(year.contains(0) && year.contains(365 * DAY) && !year.contains(-1) && !year.contains(365 * DAY + 1));
    }
}
