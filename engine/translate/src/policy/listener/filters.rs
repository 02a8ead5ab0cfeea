//! Filters of access logs and of local replies.

use std::sync::Arc;

use holdfast_api::apis::kgateway::log_filter::{
    AccessLogFilter, Comparison, GrpcStatusFilter, HeaderMatch, RuntimeFilter,
};
use holdfast_check::cel;
use holdfast_envoy::features::connection::log_filter::{
    Denominator, ENTRIES_MAX, GRPC_STATUSES, LogFilter, Op, Sampled, TEXT_BYTES_MAX,
};

use super::super::reading::Reading;
use super::super::traffic::number;

/// Reads a filter, which may be a list of filters.
pub(super) fn read(field: &str, written: &AccessLogFilter, reading: &mut Reading<'_, '_>) -> Option<LogFilter> {
    filter(field, written, true, reading)
}

fn filter(field: &str, written: &AccessLogFilter, outer: bool, reading: &mut Reading<'_, '_>) -> Option<LogFilter> {
    if kinds_set(written) != 1 {
        reading.invalid(format!("spec.{field}"), "exactly one kind of filter must be set");
        return None;
    }
    if let Some(entries) = &written.and_filter {
        return list(&format!("{field}.andFilter"), entries, outer, reading).map(LogFilter::And);
    }
    if let Some(entries) = &written.or_filter {
        return list(&format!("{field}.orFilter"), entries, outer, reading).map(LogFilter::Or);
    }
    if let Some(filter) = &written.cel_filter {
        return condition(&format!("{field}.celFilter.match"), &filter.condition, reading).map(LogFilter::Cel);
    }
    if let Some(written) = &written.duration_filter {
        let (op, value) = comparison(&format!("{field}.durationFilter"), written, reading)?;
        return Some(LogFilter::Duration(op, value));
    }
    if let Some(written) = &written.status_code_filter {
        let (op, value) = comparison(&format!("{field}.statusCodeFilter"), written, reading)?;
        return Some(LogFilter::Status(op, value));
    }
    if let Some(written) = &written.grpc_status_filter {
        return grpc_status(&format!("{field}.grpcStatusFilter"), written, reading);
    }
    if let Some(written) = &written.header_filter {
        return header(&format!("{field}.headerFilter.header"), &written.header, reading);
    }
    if let Some(written) = &written.response_flag_filter {
        let field = format!("spec.{field}.responseFlagFilter.flags");
        if !(1..=ENTRIES_MAX).contains(&written.flags.len()) {
            reading.invalid(field, format!("must have from 1 to {ENTRIES_MAX} entries"));
            return None;
        }
        return Some(LogFilter::Flags(written.flags.clone()));
    }
    if let Some(written) = &written.runtime_filter {
        return sampled(&format!("{field}.runtimeFilter"), written, reading).map(LogFilter::Sampled);
    }
    Some(if written.traceable_filter.is_some() { LogFilter::Traceable } else { LogFilter::NotHealthCheck })
}

/// Returns the number of kinds of filter that are set.
fn kinds_set(written: &AccessLogFilter) -> usize {
    let AccessLogFilter {
        and_filter,
        or_filter,
        cel_filter,
        duration_filter,
        grpc_status_filter,
        header_filter,
        not_health_check_filter,
        response_flag_filter,
        runtime_filter,
        status_code_filter,
        traceable_filter,
    } = written;
    let set = [
        and_filter.is_some(),
        or_filter.is_some(),
        cel_filter.is_some(),
        duration_filter.is_some(),
        grpc_status_filter.is_some(),
        header_filter.is_some(),
        not_health_check_filter.is_some(),
        response_flag_filter.is_some(),
        runtime_filter.is_some(),
        status_code_filter.is_some(),
        traceable_filter.is_some(),
    ];
    set.into_iter().filter(|set| *set).count()
}

/// Reads a list of filters, none of which may be a list itself.
fn list(
    field: &str,
    written: &[AccessLogFilter],
    outer: bool,
    reading: &mut Reading<'_, '_>,
) -> Option<Vec<LogFilter>> {
    if !outer || !(2..=ENTRIES_MAX).contains(&written.len()) {
        let message = format!("must have from 2 to {ENTRIES_MAX} entries, none of which is a list itself");
        reading.invalid(format!("spec.{field}"), message);
        return None;
    }
    let entries = written.iter().enumerate();
    let entries = entries.map(|(index, entry)| filter(&format!("{field}[{index}]"), entry, false, reading));
    // All entries are read, so that each fault is reported.
    let entries: Vec<Option<LogFilter>> = entries.collect();
    entries.into_iter().collect()
}

fn condition(field: &str, written: &Arc<str>, reading: &mut Reading<'_, '_>) -> Option<Arc<str>> {
    let condition = text(field, written, reading)?;
    if let Err(fault) = cel::check_of_log(&condition, reading.regexes()) {
        reading.invalid(format!("spec.{field}"), fault.to_string());
        return None;
    }
    Some(condition)
}

fn text(field: &str, text: &Arc<str>, reading: &mut Reading<'_, '_>) -> Option<Arc<str>> {
    let fits = (1..=TEXT_BYTES_MAX).contains(&text.len());
    if !fits {
        reading.invalid(format!("spec.{field}"), format!("must have from 1 to {TEXT_BYTES_MAX} bytes"));
    }
    fits.then(|| text.clone())
}

fn comparison(field: &str, written: &Comparison, reading: &mut Reading<'_, '_>) -> Option<(Op, u32)> {
    let value = number(&format!("{field}.value"), written.value, 0, reading);
    let op = Op::read(&written.op);
    if op.is_none() {
        reading.invalid(format!("spec.{field}.op"), "must be EQ, GE or LE");
    }
    op.map(|op| (op, value))
}

fn grpc_status(field: &str, written: &GrpcStatusFilter, reading: &mut Reading<'_, '_>) -> Option<LogFilter> {
    let mut numbers = Vec::new();
    for (index, name) in written.statuses.iter().enumerate().take(GRPC_STATUSES.len() + 1) {
        let number = GRPC_STATUSES.iter().position(|known| **known == **name);
        match number.and_then(|number| i32::try_from(number).ok()) {
            Some(number) => numbers.push(number),
            None => {
                reading.invalid(format!("spec.{field}.statuses[{index}]"), format!("{name:?} is no status of gRPC"));
            }
        }
    }
    if numbers.is_empty() || numbers.len() > GRPC_STATUSES.len() {
        reading.invalid(format!("spec.{field}.statuses"), "must list at least one gRPC status, and none of them twice");
        return None;
    }
    Some(LogFilter::GrpcStatus(numbers, written.exclude.unwrap_or(false)))
}

fn header(field: &str, written: &HeaderMatch, reading: &mut Reading<'_, '_>) -> Option<LogFilter> {
    let name: Arc<str> = match holdfast_check::header::name(&written.name) {
        Ok(name) => name.into(),
        Err(fault) => {
            reading.invalid(format!("spec.{field}.name"), fault);
            return None;
        }
    };
    let value = text(&format!("{field}.value"), &written.value, reading)?;
    match written.kind.as_deref() {
        None | Some("Exact") => Some(LogFilter::Header(name, value)),
        Some("RegularExpression") => match reading.regexes().check(&value) {
            Ok(_) => Some(LogFilter::HeaderRegex(name, value)),
            Err(fault) => {
                reading.invalid(format!("spec.{field}.value"), fault);
                None
            }
        },
        Some(_) => {
            reading.invalid(format!("spec.{field}.type"), "must be Exact or RegularExpression");
            None
        }
    }
}

fn sampled(field: &str, written: &RuntimeFilter, reading: &mut Reading<'_, '_>) -> Option<Sampled> {
    let key = text(&format!("{field}.runtimeKey"), &written.runtime_key, reading)?;
    let share = match &written.percent_sampled {
        None => None,
        Some(share) => {
            let numerator = number(&format!("{field}.percentSampled.numerator"), share.numerator, 0, reading);
            let Some(denominator) = Denominator::read(share.denominator.as_deref().unwrap_or("HUNDRED")) else {
                let field = format!("spec.{field}.percentSampled.denominator");
                reading.invalid(field, "must be HUNDRED, TEN_THOUSAND or MILLION");
                return None;
            };
            Some((numerator, denominator))
        }
    };
    Some(Sampled { key, share, independent: written.use_independent_randomness.unwrap_or(false) })
}
