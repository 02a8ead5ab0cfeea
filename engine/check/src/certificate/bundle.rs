//! Bundles of certificate authorities, and their validity in time.
//!
//! A peer is verified with any of the certificates, so a bundle is of no use only while none of them is valid.

use super::validity::{ChainPosition, DateFault, Validity};
use super::{BUNDLE_BYTES_MAX, CertificateFault, certificates, leaf};
use crate::time::Moment;

/// Properties of a valid bundle of certificate authorities, or of several bundles that are used together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundle {
    /// The validity of each certificate.
    pub validities: Vec<Validity>,
}

/// Why no peer can be verified with a bundle at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BundleFault {
    /// No certificate is valid yet.
    #[error("no certificate of ca.crt is valid before {from}")]
    NotYetValid {
        /// The first second of a validity.
        from: Moment,
    },
    /// Every certificate has expired.
    #[error("every certificate of ca.crt has expired, the last one at {at}")]
    Expired {
        /// The last second of a validity.
        at: Moment,
    },
}

impl BundleFault {
    /// Returns the reason, one word in CamelCase.
    pub fn reason(self) -> &'static str {
        let [not_yet_valid, expired, _] = DateFault::REASONS;
        match self {
            Self::NotYetValid { .. } => not_yet_valid,
            Self::Expired { .. } => expired,
        }
    }
}

impl Bundle {
    /// Returns why no peer can be verified at this time, in seconds of Unix time.
    pub fn fault(&self, now: i64) -> Option<BundleFault> {
        if self.validities.iter().any(|validity| validity.contains(now)) {
            return None;
        }
        let begins = self.validities.iter().map(|validity| validity.not_before).filter(|begins| *begins > now);
        if let Some(from) = begins.min() {
            return Some(BundleFault::NotYetValid { from: Moment(from) });
        }
        let ends = self.validities.iter().map(|validity| validity.not_after);
        ends.max().map(|at| BundleFault::Expired { at: Moment(at) })
    }

    /// Returns the next time after this one at which [`Self::fault`] may change.
    pub fn next_change(&self, now: i64) -> Option<i64> {
        let changes = self.validities.iter().flat_map(|validity| [validity.not_before, validity.ends()]);
        changes.filter(|change| *change > now).min()
    }
}

/// Checks a bundle of certificates of certificate authorities, as PEM text.
pub fn check_ca_bundle(pem: &[u8]) -> Result<Bundle, CertificateFault> {
    let read = |(index, der): (usize, &Vec<u8>)| {
        let position = index + 1;
        let (begins, ends) = leaf::validity(der).ok_or(CertificateFault::Certificate { what: "bundle", position })?;
        Ok(Validity::new(ChainPosition(position), begins, ends))
    };
    let found = certificates("bundle", pem, BUNDLE_BYTES_MAX)?;
    Ok(Bundle { validities: found.iter().enumerate().map(read).collect::<Result<_, _>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_is_of_no_use_only_while_no_certificate_is_valid() {
        let of = |dates: &[(i64, i64)]| {
            let validity = |(begins, ends): &(i64, i64)| Validity::new(ChainPosition::SERVER, *begins, *ends);
            Bundle { validities: dates.iter().map(validity).collect() }
        };
        let expired = |at| Some(BundleFault::Expired { at: Moment(at) });
        let not_yet_valid = |from| Some(BundleFault::NotYetValid { from: Moment(from) });
        let bundle = of(&[(10, 20), (30, 40)]);
        for (now, fault, next) in [
            (9, not_yet_valid(10), Some(10)),
            (10, None, Some(21)),
            (20, None, Some(21)),
            (21, not_yet_valid(30), Some(30)),
            (40, None, Some(41)),
            (41, expired(40), None),
        ] {
            assert_eq!((bundle.fault(now), bundle.next_change(now)), (fault, next), "at {now}");
        }
        assert_eq!(of(&[(10, 20), (0, 15)]).fault(16), None);
        assert_eq!(of(&[(10, 20), (0, 15)]).fault(21), expired(20));
    }
}
