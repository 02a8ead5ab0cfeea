//! Requests that an API server has received, from its metrics.

/// Name of the counter of requests.
const REQUESTS: &str = "apiserver_request_total{";
/// Verbs that change nothing.
const READING: [&str; 4] = ["GET", "LIST", "WATCH", "CONNECT"];

/// Requests for statuses of Gateway API, and for Events. Other requests are those of the API server itself, watches, the
/// renewals of leases, and the measured edits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
}

impl Requests {
    /// Counts the requests in metrics.
    pub(crate) fn of(metrics: &str) -> Self {
        let mut all = Self::default();
        for (is_read, count) in metrics.lines().filter_map(|line| counted(line.strip_prefix(REQUESTS)?)) {
            *(if is_read { &mut all.reads } else { &mut all.writes }) += count;
        }
        all
    }
}

/// Returns whether a series counts reads, and its value.
fn counted(series: &str) -> Option<(bool, u64)> {
    let (labels, value) = series.rsplit_once("} ")?;
    let has = |name: &str, value: &str| labels.contains(&format!("{name}=\"{value}\""));
    let is_status = has("subresource", "status") && has("group", "gateway.networking.k8s.io");
    if !is_status && !has("resource", "events") {
        return None;
    }
    let is_read = READING.iter().any(|verb| has("verb", verb));
    // Large counters have an exponent.
    value.parse::<f64>().ok().map(|count| (is_read, count as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_statuses_and_events_are_counted() {
        let line = |verb: &str, group: &str, resource: &str, subresource: &str, value: &str| {
            format!(
                "apiserver_request_total{{code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"{group}\",\
                 resource=\"{resource}\",scope=\"resource\",subresource=\"{subresource}\",verb=\"{verb}\",\
                 version=\"v1\"}} {value}\n"
            )
        };
        let gateway_api = "gateway.networking.k8s.io";
        let counted = [
            line("GET", gateway_api, "httproutes", "status", "10"),
            line("APPLY", gateway_api, "httproutes", "status", "1.2e+06"),
            line("PATCH", gateway_api, "gateways", "status", "3"),
            line("POST", "events.k8s.io", "events", "", "4"),
        ];
        let others = [
            line("PATCH", gateway_api, "httproutes", "", "20"),
            line("PUT", "coordination.k8s.io", "leases", "", "30"),
            line("PATCH", "apiextensions.k8s.io", "customresourcedefinitions", "status", "40"),
        ];
        let other = "# TYPE apiserver_request_total counter\napiserver_requests 5\n";
        let all = Requests::of(&format!("{}{other}{}", counted.concat(), others.concat()));
        assert_eq!(all, Requests { reads: 10, writes: 1_200_007 });
        assert_eq!(Requests::of(""), Requests::default());
    }
}
