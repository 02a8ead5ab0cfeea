//! What is printed of reports, and the answers of servers that are played.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;

const BROKEN: &str = r#"{"status":"triggered",
 "brokenObjects":[
  {"group":"","kind":"Service","version":"v1","namespace":"shop","name":"pay","id":"u2","generation":null,
   "detectedBy":"translation","field":"","message":"its content cannot be read","gateways":[],"since":"2026-11-20T09:00:00Z"},
  {"group":"gateway.networking.k8s.io","kind":"HTTPRoute","version":"v1","namespace":"shop","name":"cart","id":"u1",
   "generation":5,"detectedBy":"nack","field":"spec.rules[1].matches[0].path","message":"missing ]:\u001b[31m [","gateways":["infra/public"],"since":"2026-11-20T10:00:00Z"}],
 "backfilledObjects":[{"group":"gateway.networking.k8s.io","kind":"HTTPRoute","version":"v1","namespace":"shop","name":"cart","id":"u1",
   "causingObjects":["gateway.networking.k8s.io/HTTPRoute:shop/cart"],"desiredGeneration":5,"servedGeneration":4,"servedSince":"2026-11-19T10:00:00Z"}],
 "replacedObjects":[{"group":"gateway.networking.k8s.io","kind":"HTTPRoute","version":"v1","namespace":"shop","name":"pay","id":"u3",
   "causingObjects":["core/Service:shop/pay"],"scope":"rule","section":"rules[0]","response":500}],
 "excludedObjects":[{"group":"","kind":"Service","version":"v1","namespace":"shop","name":"pay","id":"u2",
   "causingObjects":["core/Service:shop/pay"]}],
 "gateways":[{"name":"infra/public","state":"fallback","generation":42,"envoys":{"acknowledged":3,"refused":0,"pending":0}},
             {"name":"infra/b","state":"current","generation":1,"envoys":{"acknowledged":0,"refused":0,"pending":0}}]}"#;

/// 2026-11-20T10:05:00Z
const NOW: i64 = 1_795_169_100;

fn report(text: &str) -> FallbackReport {
    serde_json::from_str(text).unwrap()
}

#[test]
fn what_is_broken_stands_with_time_reason_remedy_and_those_it_affects() {
    let text = text::format(&report(BROKEN), NOW, Style::Plain);
    let expected = "\
NOT everything is served as it is desired: 2 broken, 1 backfilled, 1 replaced, 1 excluded.

GATEWAY       SERVED      ENVOYS
infra/public  fallback    3 acknowledged, 0 refused, 0 pending
infra/b       current     none connected

Service shop/pay
  since    2026-11-20T09:00:00Z (65m ago)
  why      cannot be translated: its content cannot be read
  instead  left out
  affects  HTTPRoute shop/pay: rules[0] answers 500

HTTPRoute shop/cart, generation 5
  since    2026-11-20T10:00:00Z (5m ago), at infra/public
  why      refused by Envoy: spec.rules[1].matches[0].path: missing ]: [31m [
  instead  generation 4 is served, last valid since 2026-11-19T10:00:00Z
";
    assert_eq!(text, expected);
    let coloured = text::format(&report(BROKEN), NOW, Style::Coloured);
    assert!(coloured.starts_with("\u{1b}[1;31mNOT") && !coloured.contains("\u{1b}[31m"), "{coloured}");
}

#[test]
fn what_is_current_takes_few_words() {
    let current = r#"{"status":"not-triggered","brokenObjects":[],"backfilledObjects":[],"replacedObjects":[],
      "excludedObjects":[],"gateways":[]}"#;
    let text = text::format(&report(current), NOW, Style::Plain);
    assert_eq!(text, "Everything is served as it is desired.\nThere is no Gateway.\n");
}

#[test]
fn one_envoy_that_refuses_or_an_unverified_gateway_is_not_current() {
    for (state, refused, expected) in [
        ("current", 0, true),
        ("probing", 0, true),
        ("trying", 0, true),
        ("current", 1, false),
        ("unverified", 0, false),
        ("held", 0, false),
        ("fallback", 0, false),
    ] {
        let gateway = format!(
            r#"{{"name":"a/b","state":"{state}","generation":1,"envoys":{{"acknowledged":1,"refused":{refused},"pending":0}}}}"#
        );
        let text = format!(
            r#"{{"status":"not-triggered","brokenObjects":[],"backfilledObjects":[],"replacedObjects":[],
               "excludedObjects":[],"gateways":[{gateway}]}}"#
        );
        assert_eq!(is_current(&report(&text)), expected, "{state} {refused}");
    }
}

#[test]
fn many_broken_objects_are_counted() {
    let mut many = report(BROKEN);
    let last = many.broken_objects.last().unwrap().clone();
    many.broken_objects.resize(60, last);
    let text = text::format(&many, NOW, Style::Plain);
    assert!(text.ends_with("and 10 more broken objects: --output json shows all\n"), "{text}");
}

#[test]
fn addresses_are_hosts_with_ports() {
    for good in ["127.0.0.1:10256", "http://localhost:1", "[::1]:10256", "http://holdfast.infra:10256/"] {
        assert!(good.parse::<Diagnostics>().is_ok(), "{good}");
    }
    for bad in ["", "localhost", ":1", "localhost:0", "localhost:99999", "https://a:1", "http://a:1/b", "user@a:1"] {
        assert!(bad.parse::<Diagnostics>().is_err(), "{bad}");
    }
}

/// One answer to one request.
fn played(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 1024];
        let read = stream.read(&mut request).unwrap();
        assert!(String::from_utf8_lossy(&request[..read]).starts_with("GET /debug/config/fallback HTTP/1.1"));
        let length = answer.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
        stream.write_all(format!("{head}{answer}").as_bytes()).unwrap();
    });
    address
}

#[test]
fn exit_codes_tell_what_is_the_matter() {
    let args = |address: &str| StatusArgs { diagnostics: address.parse().unwrap(), output: TableFormat::Json };
    let code = |code: Result<ExitCode, Failure>| format!("{:?}", code.unwrap_or_else(|failure| failure.exit_code()));
    let of = |number: u8| format!("{:?}", ExitCode::from(number));
    assert_eq!(code(run(&args(&played(BROKEN)))), of(1));
    let current = r#"{"status":"not-triggered","brokenObjects":[],"backfilledObjects":[],"replacedObjects":[],"excludedObjects":[],"gateways":[]}"#;
    assert_eq!(code(run(&args(&played(current)))), of(0));
    assert_eq!(code(run(&args(&played("{}")))), of(2));
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let failure = run(&args(&free)).unwrap_err();
    assert!(failure.to_string().contains("--diagnostics-listen"), "{failure}");
    assert_eq!(code(Err(failure)), of(2));
}
