//! Protection of BackendTLSPolicies, field by field.

use super::backend_tls::{BackendTlsSpec, Validation};
use crate::apis::protection::{Declare, Sheet};

impl Declare for BackendTlsSpec {
    fn declare(&self, sheet: &mut Sheet) {
        let BackendTlsSpec { validation, options } = self;
        let Validation { ca_certificate_refs, well_known, hostname, subject_alt_names } = validation;
        let authorities = "the certificate authorities that verify backends";
        sheet.equal("validation.caCertificateRefs", authorities, ca_certificate_refs);
        sheet.equal("validation.wellKnownCACertificates", authorities, well_known);
        sheet.equal("validation.hostname", "the name that a backend must prove", &Some(hostname));
        sheet.equal("validation.subjectAltNames", "the names that a backend must prove", subject_alt_names);
        sheet.free("options", "none is known", options);
    }
}
