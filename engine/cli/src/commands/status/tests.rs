//! Tests of the printed health, and of the responses of simulated servers.

use std::io::{Read, Write};
use std::net::TcpListener;

use holdfast_api::fault::Class;
use holdfast_api::settings::Settings;
use holdfast_engine::health::facts::{Effect, ObjectProblem};
use holdfast_engine::health::view::Gets;
use holdfast_engine::health::{SettingsInForce, judge};
use holdfast_test_support::facts::{broken_shop, effect, facts, found, identity};

use super::*;

/// 2026-11-20T10:05:00Z
const NOW: i64 = 1_795_169_100;
const ADDRESS: &str = "127.0.0.1:10256";

#[test]
fn outages_come_first_with_owner_file_reason_remedy_and_everyone_they_affect() {
    let text = text::format(&judge(&broken_shop()), &SelectedPart::default(), ADDRESS, NOW, Style::Plain);
    holdfast_golden::check(concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands/status/golden.txt"), &text);
}

#[test]
fn healthy_parts_take_few_lines() {
    let mut healthy = facts();
    healthy.gateways.clear();
    let text = text::format(&judge(&healthy), &SelectedPart::default(), ADDRESS, NOW, Style::Plain);
    let expected = "Everything is served as desired.\nThere is no Gateway.\n\n\
                    Objects come from manifests: read, 4 objects\n";
    assert_eq!(text, expected);
}

#[test]
fn a_part_of_a_last_valid_version_is_named_with_its_generation() {
    let mut facts = facts();
    let mut of_last = effect(identity("HTTPRoute", "shop", "cart"), "rules[0]", Gets::Status { status: 500 }, &[]);
    of_last.version = Some(4);
    facts.effects.push(of_last);
    let text = text::format(&judge(&facts), &SelectedPart::default(), ADDRESS, NOW, Style::Plain);
    let line = "  instead  rules[0] of generation 4 answers 500: shop.example.com /cart/*\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn the_settings_in_force_are_the_last_line() {
    let settings = Some(SettingsInForce::from(&Settings::standalone()));
    let health = Health { settings, ..judge(&facts()) };
    let text = text::format(&health, &SelectedPart::default(), ADDRESS, NOW, Style::Plain);
    let line = "\nGates: BackfillUnresolvedReferences=false, FallbackConfiguration=false, InvalidRouteReplacement=true; \
                last valid configuration: off\n";
    assert!(text.ends_with(line), "{text}");
    let json = serde_json::to_value(&health).unwrap();
    assert_eq!(json["settings"]["gates"]["InvalidRouteReplacement"], true);
    assert_eq!(json["settings"]["useLastValid"], false);
}

#[test]
fn nothing_that_comes_from_elsewhere_steers_a_terminal() {
    let mut facts = broken_shop();
    facts.found[0].message = "missing ]:\u{1b}[31m\nHTTPRoute forged".into();
    let text = text::format(&judge(&facts), &SelectedPart::default(), ADDRESS, NOW, Style::Coloured);
    assert!(text.starts_with("\u{1b}[1;31mNOT") && !text.contains("\u{1b}[31m"), "{text}");
    assert!(!text.contains("\nHTTPRoute forged"), "{text}");
}

#[test]
fn what_is_too_much_for_a_screen_is_counted() {
    let mut facts = broken_shop();
    let found = facts.found[0].clone();
    facts.found = (0..60)
        .map(|index| {
            let mut found = found.clone();
            found.object.name = format!("r{index:02}").into();
            found.message = format!("missing {index:02}");
            found
        })
        .collect();
    facts.effects.clear();
    let text = text::format(&judge(&facts), &SelectedPart::default(), ADDRESS, NOW, Style::Plain);
    assert!(text.contains("\nand 10 more: --output json shows all\n"), "{text}");
    facts.found.iter_mut().for_each(|found| found.message = "missing".into());
    let text = text::format(&judge(&facts), &SelectedPart::default(), ADDRESS, NOW, Style::Plain);
    assert!(text.contains(", and 59 more with the same cause\n"), "{text}");
    assert!(text.contains(" and 54 more (--output json shows all)\n"), "{text}");
}

#[test]
fn a_route_that_other_listeners_serve_is_affected_at_the_closed_listener() {
    let gateway = identity("Gateway", "infra", "public");
    let of = |gets: Gets| {
        let mut facts = facts();
        let message = "Secret infra/shop does not exist";
        let field = "spec.listeners[1].tls.certificateRefs[0]";
        facts.found.push(found(gateway.clone(), field, Class::Referential, "InvalidCertificateRef", message));
        facts.effects.push(effect(gateway.clone(), "listeners[1]", gets.clone(), &[]));
        let route = effect(identity("HTTPRoute", "shop", "cart"), "", gets, &[&gateway]);
        facts.effects.push(Effect { listener: Some("https".into()), causing_section: "listeners[1]".into(), ..route });
        text::format(&judge(&facts), &SelectedPart::default(), ADDRESS, NOW, Style::Plain)
    };
    let text = of(Gets::Refused);
    let line = "\n  affects  HTTPRoute shop/cart: not served at listener https (shop.example.com); \
                other listeners serve it\n";
    assert!(text.contains(line) && !text.contains("instead  not served"), "{text}");
    let text = of(Gets::Untrusted);
    let line = "\n  affects  HTTPRoute shop/cart: clients that verify certificates refuse connections to it at \
                listener https (shop.example.com); other listeners serve it\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn a_route_at_several_closed_listeners_is_listed_once_with_all_of_them() {
    let gateway = identity("Gateway", "infra", "public");
    let mut facts = facts();
    for (index, name) in ["c1", "c2"].into_iter().enumerate() {
        let (field, section) = (format!("spec.listeners[{index}]"), format!("listeners[{index}]"));
        let message = "2 listeners claim host \"shop.example.com\" on port 80";
        facts.found.push(found(gateway.clone(), &field, Class::Conflict, "HostnameConflict", message));
        let route = effect(identity("HTTPRoute", "shop", "cart"), "", Gets::Status { status: 404 }, &[&gateway]);
        facts.effects.push(Effect { listener: Some(name.into()), causing_section: section.into(), ..route });
    }
    let text = text::format(&judge(&facts), &SelectedPart::default(), ADDRESS, NOW, Style::Plain);
    let line = "\n  affects  HTTPRoute shop/cart: it answers 404 at listeners c1, c2 (shop.example.com); \
                other listeners serve it\n";
    assert!(text.contains(line) && text.matches("affects").count() == 1, "{text}");
}

#[test]
fn an_object_with_several_faults_is_counted_once_and_equal_lines_are_written_once() {
    let mut facts = broken_shop();
    let found = facts.found[0].clone();
    let at = |rule: usize| ObjectProblem { field: format!("spec.rules[{rule}].backendRefs[0].name"), ..found.clone() };
    facts.found = (0..3).map(at).collect();
    let effect = facts.effects[0].clone();
    facts.effects =
        ["infra/public", "infra/other"].map(|gateway| Effect { gateway: gateway.into(), ..effect.clone() }).into();
    let text = text::format(&judge(&facts), &SelectedPart::default(), ADDRESS, NOW, Style::Plain);
    assert!(!text.contains("more with the same cause"), "{text}");
    assert!(text.contains("  also     spec.rules[1].backendRefs[0].name"), "{text}");
    assert_eq!(text.matches(" answers 500").count(), 1, "{text}");
}

#[test]
fn addresses_are_hosts_with_ports() {
    for good in ["127.0.0.1:10256", "http://localhost:1", "[::1]:10256", "http://holdfast.infra:10256/"] {
        assert!(good.parse::<Diagnostics>().is_ok(), "{good}");
    }
    for bad in ["", "localhost", ":1", "localhost:0", "localhost:99999", "https://a:1", "http://a:1/b", "user@a:1"] {
        assert!(bad.parse::<Diagnostics>().is_err(), "{bad}");
    }
    assert!(gateway("infra/public").is_ok());
    for bad in ["public", "/public", "infra/", "a/b/c"] {
        assert!(gateway(bad).is_err(), "{bad}");
    }
}

/// A server with the same response to each of `count` requests.
fn played(answer: String, count: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for _ in 0..count {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let read = stream.read(&mut request).unwrap();
            assert!(String::from_utf8_lossy(&request[..read]).starts_with("GET /debug/"));
            let length = answer.len();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
            stream.write_all(format!("{head}{answer}").as_bytes()).unwrap();
        }
    });
    address
}

#[test]
fn exit_codes_follow_the_verdict() {
    let args = |address: &str, output: TableFormat| StatusArgs {
        diagnostics: address.parse().unwrap(),
        output,
        namespace: None,
        gateway: None,
        watch: false,
    };
    let code = |code: Result<ExitCode, Failure>| format!("{:?}", code.unwrap_or_else(|failure| failure.exit_code()));
    let of = |number: u8| format!("{:?}", ExitCode::from(number));
    let page = |facts| serde_json::to_string(&judge(&facts)).unwrap();
    assert_eq!(code(run(&args(&played(page(broken_shop()), 1), TableFormat::Text))), of(1));
    assert_eq!(code(run(&args(&played(page(facts()), 1), TableFormat::Text))), of(0));
    assert_eq!(code(run(&args(&played(page(facts()), 2), TableFormat::Json))), of(0));
    assert_eq!(code(run(&args(&played("{}".into(), 1), TableFormat::Text))), of(3));
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let failure = run(&args(&free, TableFormat::Text)).unwrap_err();
    assert!(failure.to_string().contains("--diagnostics-listen"), "{failure}");
    assert_eq!(code(Err(failure)), of(3));
}

#[test]
fn a_name_of_which_nothing_is_known_is_a_mistake_and_a_known_one_is_named() {
    let mut health = judge(&facts());
    health.namespaces.insert("shop".into(), Default::default());
    let of = |namespace, gateway| SelectedPart { namespace, gateway };
    let typo = of(Some("shpo"), None).unknown(&health).unwrap();
    assert!(typo.starts_with("--namespace shpo: ") && typo.ends_with("namespaces with objects: shop"), "{typo}");
    let typo = of(Some("shop"), Some("infra/pubilc")).unknown(&health).unwrap();
    assert!(typo.starts_with("--gateway infra/pubilc: ") && typo.ends_with("Gateways: infra/public"), "{typo}");
    let both = of(Some("shop"), Some("infra/public"));
    assert_eq!(both.unknown(&health), None);
    let text = text::format(&both.of(health.clone()), &both, ADDRESS, NOW, Style::Plain);
    let sentence = "Everything of namespace shop at Gateway infra/public is served as desired.\n";
    assert!(text.starts_with(sentence), "{text}");
    let namespace = of(Some("shop"), None);
    let text = text::format(&namespace.of(health.clone()), &namespace, ADDRESS, NOW, Style::Plain);
    assert!(text.starts_with("Everything of namespace shop is served as desired.\n"), "{text}");

    let page = serde_json::to_string(&health).unwrap();
    let code = |namespace: &str, output| {
        let args = StatusArgs {
            diagnostics: played(page.clone(), 2).parse().unwrap(),
            output,
            namespace: Some(namespace.to_owned()),
            gateway: None,
            watch: false,
        };
        format!("{:?}", run(&args).unwrap_or_else(|failure| failure.exit_code()))
    };
    for output in [TableFormat::Text, TableFormat::Json] {
        assert_eq!(code("shpo", output), format!("{:?}", ExitCode::from(2)));
        assert_eq!(code("shop", output), format!("{:?}", ExitCode::from(0)));
    }
}

#[test]
fn ages_alone_are_no_change() {
    let at = |age: &str| format!("a\n  since    2026-11-20T10:00:00Z ({age} ago), at infra/public\nb (c)\n");
    assert_eq!(without_ages(&at("5m")), without_ages(&at("6m")));
    assert_ne!(without_ages(&at("5m")), without_ages("a\n"));
}
