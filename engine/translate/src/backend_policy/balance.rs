//! Load balancing settings of BackendConfigPolicy.

use std::sync::Arc;

use holdfast_api::apis::kgateway::backend_balance as written;
use holdfast_api::fault::at;
use holdfast_envoy::features::upstream::{Choice, Cookie, HashSource, HashedBy, LoadBalancing, SlowStartSettings};

use super::notes::Notes;

/// Hash policies of one BackendConfigPolicy; same limit as in the CRD.
const HASHED_MAX: usize = 16;
/// The largest ring that Envoy supports.
const RING_MAX: u64 = 8 * 1024 * 1024;
/// The minimum ring size where none is set.
const RING_DEFAULT: u64 = 1024;
/// The number of endpoints that are compared where none is set.
const CHOICES_DEFAULT: u32 = 2;
/// Range of `aggression`: how fast the share of a new endpoint may grow.
const AGGRESSION: std::ops::RangeInclusive<f64> = 0.001..=1000.0;
/// The initial weight of a new endpoint in percent, where none is set.
const WEIGHT_DEFAULT: u32 = 10;
/// The field path.
const FIELD: &str = "spec.loadBalancer";

pub(super) fn read(written: &written::LoadBalancer, notes: &mut Notes) -> Option<LoadBalancing> {
    if written.zone_aware.is_some() {
        let why = "Holdfast sends no zones to Envoys, so that it has no effect on load balancing; leave it out";
        notes.unsupported(format!("{FIELD}.zoneAware"), why);
    }
    // The endpoints of a backend are one locality, which gets all requests with and without locality weights.
    if let Some(other) = written.locality_type.as_deref().filter(|kind| *kind != "WeightedLb") {
        notes.invalid(format!("{FIELD}.localityType"), format!("{other:?} is not supported: use WeightedLb"));
    }
    let chosen = [
        written.least_request.as_ref().map(|least| least_request(least, notes)),
        written.round_robin.as_ref().map(|robin| {
            Choice::RoundRobin(slow_start(&format!("{FIELD}.roundRobin.slowStart"), robin.slow_start.as_ref(), notes))
        }),
        written.ring_hash.as_ref().map(|ring| ring_hash(ring, notes)),
        written.maglev.as_ref().map(|maglev| Choice::Maglev {
            by_name: maglev.use_hostname_for_hashing.unwrap_or(false),
            hashed: hashed(&format!("{FIELD}.maglev.hashPolicies"), maglev.hash_policies.as_deref(), notes),
        }),
        written.random.as_ref().map(|_| Choice::Random),
    ];
    let mut chosen = chosen.into_iter().flatten();
    let (Some(choice), None) = (chosen.next(), chosen.next()) else {
        notes.invalid(FIELD, "exactly one of leastRequest, roundRobin, ringHash, maglev and random must be set");
        return None;
    };
    let panic = written.healthy_panic_threshold;
    Some(LoadBalancing {
        choice,
        panic: notes.number(&format!("{FIELD}.healthyPanicThreshold"), panic, 0, 100),
        gathered: notes.duration(&format!("{FIELD}.updateMergeWindow"), written.update_merge_window.as_deref()),
        close: written.close_connections_on_host_set_change.unwrap_or(false),
    })
}

fn least_request(written: &written::LeastRequest, notes: &mut Notes) -> Choice {
    let field = format!("{FIELD}.leastRequest");
    let count = notes.number(&format!("{field}.choiceCount"), written.choice_count, 2, u32::MAX);
    let slow_start = slow_start(&format!("{field}.slowStart"), written.slow_start.as_ref(), notes);
    Choice::LeastRequest(count.unwrap_or(CHOICES_DEFAULT), slow_start)
}

fn ring_hash(written: &written::RingHash, notes: &mut Notes) -> Choice {
    let field = format!("{FIELD}.ringHash");
    let mut size = |below: &str, value: Option<i64>| {
        let size = u64::try_from(value?).ok().filter(|size| (1..=RING_MAX).contains(size));
        if size.is_none() {
            notes.invalid(format!("{field}.{below}"), format!("must be between 1 and {RING_MAX}"));
        }
        size
    };
    let least = size("minimumRingSize", written.minimum_ring_size);
    let most = size("maximumRingSize", written.maximum_ring_size);
    if most.is_some_and(|most| most < least.unwrap_or(RING_DEFAULT)) {
        let message = format!("must not be smaller than minimumRingSize, which is {RING_DEFAULT} where it is unset");
        notes.invalid(format!("{field}.maximumRingSize"), message);
    }
    Choice::RingHash {
        sizes: (least, most),
        by_name: written.use_hostname_for_hashing.unwrap_or(false),
        hashed: hashed(&format!("{field}.hashPolicies"), written.hash_policies.as_deref(), notes),
    }
}

fn slow_start(field: &str, written: Option<&written::SlowStart>, notes: &mut Notes) -> Option<SlowStartSettings> {
    let written = written?;
    let text = written.aggression.as_deref().unwrap_or("1.0");
    let aggression = text.parse::<f64>().ok().filter(|value| AGGRESSION.contains(value));
    if aggression.is_none() {
        let (from, to) = (AGGRESSION.start(), AGGRESSION.end());
        notes.invalid(format!("{field}.aggression"), format!("{text:?} is not a number between {from} and {to}"));
    }
    let weight = notes.number(&format!("{field}.minWeightPercent"), written.min_weight_percent, 0, 100);
    // A window of zero is an error, since the slow start would have no effect.
    let window = notes.positive(&format!("{field}.window"), written.window.as_deref())?;
    // Thousandths of a number up to 1000 fit.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let aggression = (aggression? * 1000.0).round() as u32;
    Some(SlowStartSettings { window, aggression, min_weight: weight.unwrap_or(WEIGHT_DEFAULT) })
}

fn hashed(field: &str, written: Option<&[written::HashPolicy]>, notes: &mut Notes) -> Vec<HashedBy> {
    let written = written.unwrap_or_default();
    if written.len() > HASHED_MAX {
        notes.invalid(field, format!("must have at most {HASHED_MAX} entries"));
    }
    let all = written.iter().take(HASHED_MAX).enumerate();
    all.filter_map(|(index, policy)| {
        let field = at(field, index);
        let part = match (&policy.header, &policy.cookie, &policy.source_ip) {
            (Some(header), None, None) => {
                HashSource::Header(name(&format!("{field}.header.name"), &header.name, notes))
            }
            (None, Some(written), None) => HashSource::Cookie(cookie(&format!("{field}.cookie"), written, notes)),
            (None, None, Some(_)) => HashSource::Address,
            _ => {
                notes.invalid(field, "exactly one of header, cookie and sourceIP must be set");
                return None;
            }
        };
        Some(HashedBy { terminal: policy.terminal.unwrap_or(false), part })
    })
    .collect()
}

fn name(field: &str, name: &str, notes: &mut Notes) -> Arc<str> {
    match holdfast_check::header::name(name) {
        Ok(name) => name.into(),
        Err(fault) => {
            notes.invalid(field, fault);
            "".into()
        }
    }
}

fn cookie(field: &str, written: &written::HashedCookie, notes: &mut Notes) -> Cookie {
    // Names of cookies are tokens like names of headers; cookie names keep their case.
    if let Err(fault) = holdfast_check::header::name(&written.name) {
        notes.invalid(format!("{field}.name"), fault);
    }
    let path = notes.text(&format!("{field}.path"), written.path.as_ref());
    if path.contains(';') {
        notes.invalid(format!("{field}.path"), "the path of a cookie must not contain ';'");
    }
    let same_site = written.same_site.clone();
    if let Some(other) = same_site.as_deref().filter(|value| !["Strict", "Lax", "None"].contains(value)) {
        notes.invalid(format!("{field}.sameSite"), format!("{other:?} is none of Strict, Lax and None"));
    }
    Cookie {
        name: written.name.clone(),
        path,
        ttl: notes.duration(&format!("{field}.ttl"), written.ttl.as_deref()),
        secure: written.secure.unwrap_or(false),
        http_only: written.http_only.unwrap_or(false),
        same_site,
    }
}
