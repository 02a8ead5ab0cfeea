//! Client address, and forwarding of the client certificate to backends.

use std::net::IpAddr;

use holdfast_api::apis::kgateway::http_settings::{ForwardClientCertDetails, HttpSettings};
use holdfast_envoy::features::client_certificate::ForwardedDetails;
use holdfast_envoy::features::connection::ListenerSetting;
use holdfast_envoy::features::connection::client_address::{ClientAddress, HOPS_MAX, TRUSTED_MAX};
use holdfast_envoy::features::connection::forwarded_certificate::{ForwardedCertificate, Mode};

use super::super::reading::Reading;
use super::super::traffic::number;
use super::PortSettings;

/// Field name of all settings of the client address: they are merged as one field.
const ADDRESS: &str = "httpSettings.useRemoteAddress";

pub(super) fn read(written: &HttpSettings, port_settings: &mut PortSettings<'_>, reading: &mut Reading<'_, '_>) {
    if let Some(details) = &written.forward_client_cert_details {
        let field = "httpSettings.forwardClientCertDetails";
        if let Some(forwarded) = forwarded(&port_settings.below(field), details, reading) {
            port_settings.part(field, ListenerSetting::ForwardedCertificate(forwarded));
        }
    }
    let HttpSettings { use_remote_address, xff_num_trusted_hops, xff_trusted_cidrs, skip_xff_append, .. } = written;
    if (use_remote_address, xff_num_trusted_hops, xff_trusted_cidrs, skip_xff_append) == (&None, &None, &None, &None) {
        return;
    }
    let remote = use_remote_address.unwrap_or(true);
    let below = |field: &str| port_settings.below(&format!("httpSettings.{field}"));
    let hops = xff_num_trusted_hops.map(|hops| {
        let field = below("xffNumTrustedHops");
        let hops = number(&field, hops, 0, reading);
        if hops > HOPS_MAX {
            reading.invalid(format!("spec.{field}"), format!("must be at most {HOPS_MAX}"));
        }
        hops
    });
    let mut trusted = Vec::new();
    if let Some(ranges) = xff_trusted_cidrs {
        let field = format!("spec.{}", below("xffTrustedCIDRs"));
        if hops.is_some() {
            reading.invalid(&field, "must not be set together with xffNumTrustedHops");
        }
        if remote {
            reading.invalid(&field, "requires that useRemoteAddress is false");
        }
        if ranges.is_empty() || ranges.len() > TRUSTED_MAX {
            reading.invalid(&field, format!("must have from 1 to {TRUSTED_MAX} entries"));
        }
        for (index, range) in ranges.iter().enumerate().take(TRUSTED_MAX) {
            match self::range(range) {
                Some(range) => trusted.push(range),
                None => reading.invalid(format!("{field}[{index}]"), format!("{range:?} is not a CIDR range")),
            }
        }
    }
    let address = ClientAddress { remote, hops: hops.unwrap_or(0), trusted, skip_append: *skip_xff_append };
    port_settings.part(ADDRESS, ListenerSetting::ClientAddress(address));
}

fn range(text: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = text.split_once('/')?;
    let (address, length): (IpAddr, u8) = (address.parse().ok()?, length.parse().ok()?);
    let longest = if address.is_ipv4() { 32 } else { 128 };
    (length <= longest).then_some((address, length))
}

fn forwarded(
    field: &str,
    written: &ForwardClientCertDetails,
    reading: &mut Reading<'_, '_>,
) -> Option<ForwardedCertificate> {
    let details = written.details.as_ref().map(|details| ForwardedDetails {
        subject: details.subject.unwrap_or(false),
        cert: details.cert.unwrap_or(false),
        chain: details.chain.unwrap_or(false),
        dns: details.dns.unwrap_or(false),
        uri: details.uri.unwrap_or(false),
    });
    let mode = match &written.mode {
        // Details without a mode imply a mode that forwards them.
        None => details.map(|_| Mode::SanitizeSet)?,
        Some(name) => match Mode::read(name) {
            Some(mode) => mode,
            None => {
                let message = "must be Sanitize, ForwardOnly, AppendForward, SanitizeSet or AlwaysForwardOnly";
                reading.invalid(format!("spec.{field}.mode"), message);
                return None;
            }
        },
    };
    if details.is_some() && !mode.writes() {
        reading.invalid(format!("spec.{field}.details"), "needs mode AppendForward or SanitizeSet");
    }
    Some(ForwardedCertificate { mode, details })
}
