//! Tests of trees, duplicates, rewriting and order: HTTPProxies in YAML as input, routes and findings as text.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test's own input")]

use std::collections::HashMap;

use holdfast_api::apis::{Body, Decoded, decode};
use holdfast_check::re2::Limits;

use super::*;
use crate::httpproxy::duplicates;
use crate::httpproxy::order::Rank;
use crate::httpproxy::rewrite::{self, Selected};
use crate::reader::NOT_FOUND;

/// Returns the routes of a root in their order, and the findings.
fn read_all(yaml: &str) -> (Vec<String>, Vec<String>) {
    let documents = holdfast_test_objects::documents(yaml);
    let proxies: Vec<(ObjectKey, Arc<HttpProxy>)> = documents
        .into_iter()
        .map(|mut spec| {
            let name = spec.as_object_mut().unwrap().remove("name").unwrap();
            let document = serde_json::json!({
                "apiVersion": "projectcontour.io/v1", "kind": "HTTPProxy", "metadata": {"name": name}, "spec": spec,
            });
            match decode(document, None) {
                Decoded::Object(object, _) => match &object.body {
                    Body::HttpProxy(proxy) => (object.key.clone(), proxy.clone()),
                    body => panic!("{body:?}"),
                },
                other => panic!("{other:?}"),
            }
        })
        .collect();
    let all: HashMap<ObjectKey, Arc<HttpProxy>> = proxies.iter().cloned().collect();
    let (root, proxy) = &proxies[0];
    let tree = read(root, proxy, &ClosedUnits::new(), &mut Budgets::new(Limits::default()), &mut |key| {
        all.get(key).cloned().ok_or(NOT_FOUND)
    });
    let (leaves, duplicates) = duplicates::judge(tree.leaves, |_| true);
    let mut findings: Vec<String> = tree.findings.iter().chain(&duplicates).map(line).collect();
    let mut replacements = Vec::new();
    for leaf in &leaves {
        let entries = match &leaf.what {
            What::Route { index, broken: None } => match &all[&leaf.owner].routes[*index] {
                ProxyEntry::Decoded(route) => route.path_rewrite_policy.clone().unwrap_or_default().replace_prefix,
                ProxyEntry::Broken { .. } => None,
            },
            _ => None,
        };
        let entries = entries.unwrap_or_default();
        replacements.push(match rewrite::select(&entries, &leaf.conditions.path) {
            Ok(Selected::Replacement(replacement)) => {
                let doubts = rewrite::doubts(&entries, &replacement, leaf);
                findings.extend(doubts.iter().map(|(reason, text)| format!("{}: {reason}: {text}", leaf.owner.name)));
                Some(replacement)
            }
            Ok(Selected::Nothing) => None,
            Ok(Selected::NoneMatches) => {
                findings.push(format!("{}: no match for {}", leaf.owner.name, leaf.conditions));
                None
            }
            Err((reason, message)) => {
                findings.push(format!("{}: {reason}: {message}", leaf.owner.name));
                None
            }
        });
    }
    let mut served = rewrite::expand(&leaves, &replacements);
    fn rank<'a>(served: &'a rewrite::Served<'_>) -> Rank<'a> {
        Rank { conditions: &served.conditions, origin: served.origin }
    }
    served.sort_by(|a, b| rank(a).cmp(&rank(b)));
    let routes = served.iter().map(|served| {
        let what = match &served.leaf.what {
            What::Route { index, broken } => format!("{index}{}", if broken.is_some() { " broken" } else { "" }),
            What::Closed { .. } => "closed".into(),
            What::Include { .. } => "502".into(),
        };
        let rewrite = served.replacement.as_ref().map(|new| format!(" to {new}")).unwrap_or_default();
        format!(
            "{} -> {} {what}{rewrite}",
            served.conditions.to_string().replacen("path ", "", 1),
            served.leaf.owner.name
        )
    });
    (routes.collect(), findings)
}

fn line(finding: &Finding) -> String {
    format!("{}: {}/{}: {}", finding.object.name, finding.kind, finding.reason, finding.message)
}

fn check(yaml: &str, routes: &[&str], findings: &[&str]) {
    let (served, found) = read_all(yaml);
    assert_eq!(
        (served, found),
        (routes.iter().map(|s| (*s).to_owned()).collect(), findings.iter().map(|s| (*s).to_owned()).collect()),
        "{yaml}"
    );
}

#[test]
fn the_first_of_two_routes_in_one_proxy_is_served() {
    check(
        "
name: example
virtualhost: {fqdn: example.com}
routes:
- conditions: [{prefix: /foo}]
- conditions: [{prefix: /foo}]
- conditions: [{prefix: /foo/}]
- conditions: [{prefix: /foo}, {header: {name: X-A, exact: a}}]
- conditions: [{header: {name: x-a, exact: a}}, {prefix: /foo}]
",
        &[
            "prefix: \"/foo/\" -> example 2",
            "prefix: \"/foo\", header \"x-a\" exact \"a\" -> example 3",
            "prefix: \"/foo\" -> example 0",
        ],
        &[
            "example: RouteError/DuplicateMatchConditions: duplicate match conditions defined on route matching path \
             prefix: \"/foo\"; routes[0] of HTTPProxy default/example gets the requests",
            "example: RouteError/DuplicateMatchConditions: duplicate match conditions defined on route matching path \
             prefix: \"/foo\", header \"x-a\" exact \"a\"; routes[3] of HTTPProxy default/example gets the requests",
        ],
    );
}

#[test]
fn includes_with_equal_conditions_are_valid_and_their_routes_are_judged() {
    let example2 = "example-child2: RouteError/DuplicateMatchConditions: duplicate match conditions defined on route \
                    matching path prefix: ";
    let root = "example-root: IncludeError/DuplicateMatchConditions: duplicate match conditions defined in included \
                HTTPProxy \"default/example-child2\"";
    let winner = "; routes[0] of HTTPProxy default/example-child1 gets the requests";
    check(
        "
name: example-root
virtualhost: {fqdn: example.com}
includes:
- {name: example-child1, conditions: [{prefix: /foo}]}
- {name: example-child2, conditions: [{prefix: /foo}]}
---
name: example-child1
routes: [{conditions: [{prefix: /bar}]}]
---
name: example-child2
routes: [{conditions: [{prefix: /bar}]}, {conditions: [{prefix: /baz}]}]
",
        &["prefix: \"/foo/baz\" -> example-child2 1", "prefix: \"/foo/bar\" -> example-child1 0"],
        &[&format!("{example2}\"/foo/bar\"{winner}"), root],
    );
    check(
        "
name: example-root
virtualhost: {fqdn: example.com}
includes:
- {name: example-child1, conditions: [{prefix: /foo}]}
- {name: example-child2, conditions: [{prefix: /}]}
---
name: example-child1
routes: [{conditions: [{prefix: /}]}]
---
name: example-child2
routes: [{conditions: [{prefix: /foo}]}]
",
        &["prefix: \"/foo\" -> example-child1 0"],
        &[&format!("{example2}\"/foo\"{winner}"), root],
    );
}

#[test]
fn includes_that_lead_nowhere_are_answered_below_their_whole_prefix_only() {
    check(
        "
name: root
virtualhost: {fqdn: example.com}
includes:
- {name: a, conditions: [{prefix: /team-a}]}
routes: [{}, {conditions: [{prefix: /team-b}]}]
---
name: a
includes:
- {name: nobody, conditions: [{prefix: /team-b}]}
- {name: a, conditions: [{prefix: /again}]}
- {name: root, conditions: [{prefix: /root}]}
- {name: b, conditions: [{exact: /exact}]}
routes: [{conditions: [{prefix: /}]}]
",
        &[
            "prefix: \"/team-a/team-b\" -> a 502",
            "prefix: \"/team-a/exact\" -> a 502",
            "prefix: \"/team-a/again\" -> a 502",
            "prefix: \"/team-a/root\" -> a 502",
            "prefix: \"/team-b\" -> root 1",
            "prefix: \"/team-a\" -> a 0",
            "prefix: \"/\" -> root 0",
        ],
        &[
            "a: IncludeError/IncludeNotFound: include default/nobody not found",
            "a: IncludeError/IncludeCreatesCycle: include creates an include cycle: default/root -> default/a -> \
             default/a",
            "a: IncludeError/RootIncludesRoot: root httpproxy cannot include another root httpproxy (default/root)",
            "a: IncludeError/PathMatchConditionsNotValid: include: exact conditions are not allowed in includes block",
        ],
    );
}

#[test]
fn conditions_of_an_include_are_judged_where_they_are_written() {
    check(
        "
name: root
virtualhost: {fqdn: example.com}
includes:
- {name: a, conditions: [{prefix: /regex}, {header: {name: x-a, regex: '['}}]}
- {name: a, conditions: [{prefix: /query}, {queryParameter: {name: q}}]}
- {name: a, conditions: [{prefix: /good}, {header: {name: x-a, exact: '1'}}]}
- {name: b, conditions: [{prefix: /below}, {header: {name: x-a, exact: '1'}}]}
---
name: a
routes: [{}]
---
name: b
includes:
- {name: a, conditions: [{header: {name: x-a, notexact: '1'}}]}
",
        &[
            "prefix: \"/regex\", header \"x-a\" present -> root 502",
            "prefix: \"/query\", query parameter \"q\" present -> root 502",
            "prefix: \"/below\", header \"x-a\" present -> b 502",
            "prefix: \"/good\", header \"x-a\" exact \"1\" -> a 0",
        ],
        &[
            "root: RouteError/HeaderMatchConditionsNotValid: invalid regular expression specified for 'regex' condition",
            "root: RouteError/QueryParameterMatchConditionsNotValid: must specify at least one query parameter condition",
            "b: RouteError/HeaderMatchConditionsNotValid: cannot specify contradictory 'exact' and 'notexact' conditions \
             for the same route and header",
        ],
    );
}

#[test]
fn broken_routes_keep_their_position() {
    check(
        "
name: root
virtualhost: {fqdn: example.com}
routes:
- conditions: [{regex: '/api/[a'}]
- conditions: [{prefix: api}]
- conditions: [{prefix: /typed}]
  services: nonsense
- conditions: [{prefix: /api/}]
- {}
",
        &[
            "prefix: \"/typed\" -> root 2 broken",
            "prefix: \"/api/\" -> root 3",
            "prefix: \"/api/\" -> root 0 broken",
            "prefix: \"/api\" -> root 1 broken",
            "prefix: \"/\" -> root 4",
        ],
        &[
            "root: RouteError/PathMatchConditionsNotValid: route: supplied regex: /api/[a invalid. error: invalid regex: \
             missing ]: \"[a\"",
            "root: RouteError/PathMatchConditionsNotValid: route: prefix conditions must start with /, api was supplied",
            "root: RouteError/NotReadable: spec.routes[2].services: invalid type: text \"nonsense\", expected a list",
        ],
    );
}

#[test]
fn a_rewrite_makes_two_routes_unless_both_are_declared() {
    let one = |conditions: &str, replacement: &str| {
        let yaml = format!(
            "
name: root
virtualhost: {{fqdn: example.com}}
routes:
- conditions: [{{prefix: {conditions}}}]
  pathRewritePolicy: {{replacePrefix: [{{replacement: {replacement}}}]}}
"
        );
        read_all(&yaml).0.join("; ").replace(" -> root 0", "")
    };
    for replacement in ["/bar", "/bar/"] {
        assert_eq!(one("/foo", replacement), "prefix: \"/foo/\" to /bar/; prefix: \"/foo\" to /bar");
        assert_eq!(one("/foo/", replacement), "prefix: \"/foo/\" to /bar/; exact: \"/foo\" to /bar");
        assert_eq!(one("/", replacement), format!("prefix: \"/\" to {replacement}"));
    }
    assert_eq!(one("/foo", "/"), "prefix: \"/foo/\" to /; prefix: \"/foo\" to /");
    check(
        "
name: root
virtualhost: {fqdn: example.com}
routes:
- conditions: [{prefix: /foo}]
  pathRewritePolicy: {replacePrefix: [{replacement: /bar}]}
- conditions: [{prefix: /foo/}]
- conditions: [{prefix: /foo}, {header: {name: x-a, present: true}}]
  pathRewritePolicy: {replacePrefix: [{replacement: /a/}]}
- conditions: [{prefix: /v/}]
  pathRewrite: {replacePrefix: [{prefix: /w/, replacement: /}]}
- conditions: [{exact: /v}]
  pathRewritePolicy: {replacePrefix: [{replacement: /bar}]}
- conditions: [{prefix: /w}]
  pathRewritePolicy: {replacePrefix: [{replacement: bar}]}
- conditions: [{prefix: /x}]
  pathRewritePolicy: {replacePrefix: [{replacement: /a}, {replacement: /b}]}
- conditions: [{prefix: /y}]
  pathRewritePolicy: {replacePrefix: [{prefix: /y, replacement: /a}, {prefix: /y, replacement: /b}]}
- conditions: [{prefix: /z}]
  pathRewritePolicy: {replacePrefix: [{replacement: ''}]}
",
        &[
            "exact: \"/v\" -> root 4",
            "prefix: \"/foo/\" -> root 1",
            "prefix: \"/foo/\", header \"x-a\" present -> root 2 to /a/",
            "prefix: \"/foo\", header \"x-a\" present -> root 2 to /a",
            "prefix: \"/foo\" -> root 0 to /bar",
            "prefix: \"/v/\" -> root 3",
            "prefix: \"/z\" -> root 8",
            "prefix: \"/y\" -> root 7",
            "prefix: \"/x\" -> root 6",
            "prefix: \"/w\" -> root 5",
        ],
        &[
            "root: no match for path prefix: \"/v/\"",
            "root: MustHavePrefix: cannot specify prefix replacements without a prefix condition",
            "root: RelativeReplacement: prefix replacements must start with /, bar was supplied",
            "root: AmbiguousReplacement: ambiguous prefix replacement",
            "root: DuplicateReplacement: duplicate replacement prefix '/y'",
            "root: EmptyReplacement: a prefix replacement must not be empty",
        ],
    );
}

#[test]
fn an_entry_without_effect_and_a_lost_slash_are_reported() {
    let of = |prefix: &str, entries: &str| {
        let yaml = format!(
            "
name: root
virtualhost: {{fqdn: example.com}}
routes:
- conditions: [{{prefix: {prefix}}}]
  pathRewritePolicy: {{replacePrefix: [{entries}]}}
"
        );
        read_all(&yaml).1
    };
    assert_eq!(of("/a", "{replacement: /b}"), [""; 0]);
    assert_eq!(of("/", "{prefix: /, replacement: /b/}"), [""; 0]);
    assert_eq!(
        of("/", "{prefix: /, replacement: /b}"),
        ["root: MissingSlash: the prefix / is replaced by /b, which does not end with a slash: /a becomes /ba; write \
          /b/"]
    );
    assert_eq!(
        of("/a", "{prefix: /a, replacement: /b}, {prefix: /c, replacement: /d}"),
        ["root: UnusedReplacement: the entry for the prefix /c is not used: the prefix of the route is /a"]
    );
    assert_eq!(
        of("/a", "{replacement: /b}, {prefix: /a, replacement: /d}"),
        ["root: UnusedReplacement: an entry without prefix is not used: another entry has the prefix /a of the route"]
    );
}

#[test]
fn a_leaf_of_several_includes_is_rewritten_by_the_prefix_that_each_renders() {
    check(
        "
name: root
virtualhost: {fqdn: example.com}
includes:
- {name: app, conditions: [{prefix: /v1/}]}
- {name: app, conditions: [{prefix: /v2/}]}
- {name: app, conditions: [{prefix: /}]}
---
name: app
routes:
- pathRewritePolicy: {replacePrefix: [{replacement: /v3/}, {prefix: /, replacement: /v1/}]}
",
        &[
            "prefix: \"/v2/\" -> app 0 to /v3/",
            "prefix: \"/v1/\" -> app 0 to /v3/",
            "exact: \"/v2\" -> app 0 to /v3",
            "exact: \"/v1\" -> app 0 to /v3",
            "prefix: \"/\" -> app 0 to /v1/",
        ],
        &[],
    );
}

#[test]
fn the_order_is_the_same_however_routes_are_shuffled() {
    let mut routes: Vec<String> = Vec::new();
    for path in ["{prefix: /a}", "{prefix: /a/}", "{exact: /a}", "{regex: '/a.*'}", "{prefix: /b}"] {
        for headers in ["", "a:1,b:2", "a:2,b:1", "a:1", "b:1", "b:2"] {
            let headers: String = headers
                .split(',')
                .filter_map(|pair| pair.split_once(':'))
                .map(|(name, value)| format!(", {{header: {{name: x-{name}, contains: '{value}'}}}}"))
                .collect();
            routes.push(format!("- conditions: [{path}{headers}]\n"));
        }
    }
    let served = |routes: &[String]| {
        let yaml = format!("name: root\nvirtualhost: {{fqdn: example.com}}\nroutes:\n{}", routes.concat());
        let conditions = |line: &String| line.split(" -> ").next().unwrap().to_owned();
        read_all(&yaml).0.iter().map(conditions).collect::<Vec<_>>()
    };
    let expected = served(&routes);
    let mut state = 1_u64;
    for _ in 0..1_000 {
        for index in (1..routes.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            routes.swap(index, usize::try_from(state >> 33).unwrap() % (index + 1));
        }
        assert_eq!(served(&routes), expected);
    }
}

/// Returns routes with the prefixes `/r0/`, `/r1/` …
fn routes(count: usize) -> String {
    (0..count).map(|index| format!("- conditions: [{{prefix: /r{index}/}}]\n")).collect()
}

#[test]
fn routes_over_the_limit_are_closed_at_their_own_conditions() {
    let yaml = format!(
        "name: root\nvirtualhost: {{fqdn: example.com}}\nroutes:\n- conditions: [{{prefix: /}}]\n{}\
         - conditions: [{{prefix: /admin}}]\n  ipDenyPolicy: [{{source: Peer, cidr: 127.0.0.0/8}}]\n",
        routes(999)
    );
    let (served, found) = read_all(&yaml);
    assert_eq!(served.len(), 1001);
    assert!(served.contains(&"prefix: \"/admin\" -> root 1000 broken".to_owned()), "{served:?}");
    let why = "root: RouteError/NotReadable: spec.routes: has 1001 entries, at most 1000 are allowed: requests of \
               routes[1000] are answered with an error";
    assert_eq!(found, [why]);
}

#[test]
fn a_proxy_with_more_routes_than_can_be_closed_one_by_one_is_closed_below_its_include() {
    let yaml = format!(
        "name: root\nvirtualhost: {{fqdn: example.com}}\nincludes:\n- {{name: child, conditions: [{{prefix: /c}}]}}\n\
         - {{name: other, conditions: [{{prefix: /o}}]}}\n---\nname: child\nroutes:\n{}\n---\nname: other\nroutes: [{{}}]\n",
        routes(2001)
    );
    let (served, found) = read_all(&yaml);
    assert_eq!(served, ["prefix: \"/o\" -> other 0", "prefix: \"/c\" -> child closed"]);
    let why = "child: RouteError/NotReadable: spec.routes: has 2001 entries, at most 1000 are allowed: with more than \
               2000, all requests of the HTTPProxy are answered with an error";
    assert_eq!(found, [why]);
}

#[test]
fn a_route_over_the_limit_with_an_unknown_path_closes_the_whole_proxy() {
    let yaml = format!(
        "name: root\nvirtualhost: {{fqdn: example.com}}\nroutes:\n{}- conditions: [{{prefx: /admin}}]\n",
        routes(1000)
    );
    assert_eq!(read_all(&yaml).0, ["prefix: \"/\" -> root closed"]);
}

#[test]
fn includes_over_the_limit_are_closed_at_their_own_conditions() {
    let includes: String =
        (0..1002).map(|index| format!("- {{name: child, conditions: [{{prefix: /i{index}/}}]}}\n")).collect();
    let yaml = format!(
        "name: root\nvirtualhost: {{fqdn: example.com}}\nroutes: [{{}}]\nincludes:\n{includes}---\nname: child\n\
         routes: [{{}}]\n"
    );
    let (served, found) = read_all(&yaml);
    assert_eq!(served.len(), 1003);
    for closed in ["prefix: \"/i1000/\" -> root 502", "prefix: \"/i1001/\" -> root 502"] {
        assert!(served.contains(&closed.to_owned()), "{closed}");
    }
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn a_child_with_many_routes_takes_none_from_its_sibling() {
    let many: String =
        (10..35).map(|index| format!("- {{name: many, conditions: [{{prefix: /k{index}}}]}}\n")).collect();
    let yaml = format!(
        "name: root\nvirtualhost: {{fqdn: example.com}}\nroutes: [{{}}]\nincludes:\n\
         - {{name: a, conditions: [{{prefix: /a}}]}}\n- {{name: b, conditions: [{{prefix: /b}}]}}\n---\n\
         name: a\nroutes: [{{}}]\nincludes:\n{many}---\n\
         name: many\nroutes:\n{}---\n\
         name: b\nincludes: [{{name: few, conditions: [{{prefix: /few}}]}}]\n---\n\
         name: few\nroutes: [{{}}, {{conditions: [{{prefix: /admin}}]}}]\n",
        routes(1000)
    );
    let (served, found) = read_all(&yaml);
    assert!(served.len() <= LEAVES_MAX);
    let count = |text: &str| served.iter().filter(|route| route.contains(text)).count();
    assert_eq!((count("-> many"), count("-> a 502"), count("-> few"), count("-> root 0")), (19_000, 6, 2, 1));
    assert!(served.contains(&"prefix: \"/a/k34\" -> a 502".to_owned()));
    let why = "a: IncludeError/TooMany: 6 includes from includes[19] to includes[24] are closed: the root would have more \
               than 20000 routes or 20000 includes";
    assert_eq!(found, [why]);
}
