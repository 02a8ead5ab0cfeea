//! The validity of a certificate chain in time: when it begins and ends, and from when its end is reported in advance.
//!
//! There is no clock here: a caller passes the time.

use std::fmt;

use crate::time::Moment;

/// How long before its end a certificate is reported, in seconds: 14 days.
pub const EXPIRY_NOTICE_SECONDS: i64 = 14 * 24 * 3600;

/// The position of a certificate in its chain, from 1: that of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainPosition(pub usize);

impl ChainPosition {
    /// The certificate of the server.
    pub const SERVER: Self = Self(1);

    /// Returns what the owner has to do.
    fn remedy(self) -> &'static str {
        if self == Self::SERVER { "renew it" } else { "replace it with a valid one of the same issuer" }
    }
}

impl fmt::Display for ChainPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::SERVER => f.write_str("the certificate"),
            Self(position) => write!(f, "certificate {position} of the chain in tls.crt"),
        }
    }
}

/// The period in which a certificate and its issuers in the chain are valid (RFC 5280, section 4.1.2.5), in seconds of
/// Unix time; both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before: i64,
    /// The last second.
    pub not_after: i64,
    /// The certificate that becomes valid last.
    pub begins_with: ChainPosition,
    /// The certificate that expires first.
    pub ends_with: ChainPosition,
}

/// Why a certificate needs its owner at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DateFault {
    /// The validity has not begun.
    #[error("{of} is not valid before {from}: clients refuse it until then; use one that is valid now")]
    NotYetValid {
        /// The certificate.
        of: ChainPosition,
        /// The first second of the validity.
        from: Moment,
    },
    /// The validity has ended.
    #[error("{of} expired at {at}: clients refuse it; {}", of.remedy())]
    Expired {
        /// The certificate.
        of: ChainPosition,
        /// The last second of the validity.
        at: Moment,
    },
    /// The validity ends soon.
    #[error("{of} expires at {at}; {} before then", of.remedy())]
    Expiring {
        /// The certificate.
        of: ChainPosition,
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
    /// Returns the validity of one certificate of a chain.
    pub fn new(of: ChainPosition, not_before: i64, not_after: i64) -> Self {
        Self { not_before, not_after, begins_with: of, ends_with: of }
    }

    /// Returns the period in which both are valid.
    pub(super) fn within(self, other: Self) -> Self {
        let begins = if other.not_before > self.not_before { other } else { self };
        let ends = if other.not_after < self.not_after { other } else { self };
        Self {
            not_before: begins.not_before,
            begins_with: begins.begins_with,
            not_after: ends.not_after,
            ends_with: ends.ends_with,
        }
    }

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
        let (at, of) = (Moment(self.not_after), self.ends_with);
        match now {
            // One certificate of a chain may expire before another becomes valid.
            now if now > self.not_after => Some(DateFault::Expired { of, at }),
            now if now < self.not_before => {
                Some(DateFault::NotYetValid { of: self.begins_with, from: Moment(self.not_before) })
            }
            now if now >= self.notice() => Some(DateFault::Expiring { of, at }),
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
    const OF: ChainPosition = ChainPosition::SERVER;

    #[test]
    fn faults_change_at_the_announced_times() {
        for (begins, life) in [(0, 90 * DAY), (1_000, 4 * DAY), (5, 3), (7, 0), (10, -3), (-5, i64::MAX)] {
            let validity = Validity::new(OF, begins, begins.saturating_add(life));
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
        let year = Validity::new(OF, 0, 365 * DAY);
        assert_eq!(year.notice(), 351 * DAY);
        let week = Validity::new(OF, 0, 8 * DAY);
        assert_eq!(week.notice(), 6 * DAY);
        assert_eq!(year.fault(350 * DAY), None);
        assert_eq!(year.fault(351 * DAY), Some(DateFault::Expiring { of: OF, at: Moment(365 * DAY) }));
        assert_eq!(year.fault(365 * DAY + 1), Some(DateFault::Expired { of: OF, at: Moment(365 * DAY) }));
        assert_eq!(year.fault(-1), Some(DateFault::NotYetValid { of: OF, from: Moment(0) }));
        assert!(year.contains(0) && year.contains(365 * DAY) && !year.contains(-1) && !year.contains(365 * DAY + 1));
    }
}
