//! Conditions: merged along includes of every depth, and duplicates of every kind.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::{Story, World, stories};

use super::{proxy, serve};

pub(crate) fn stories() -> Vec<Story> {
    stories!("proxies::conditions", true, [includes_in_every_depth, duplicates_of_every_kind])
}

type Headers = &'static [(&'static str, &'static str)];

async fn includes_in_every_depth(world: World) -> Result<()> {
    // Each level adds conditions: a path, a header, a path and a query parameter, a header, a path.
    let conditions = [
        "{prefix: /one}",
        "{header: {name: x-two, exact: '2'}}",
        "{prefix: /three}, {queryParameter: {name: q, present: true}}",
        "{header: {name: x-four, contains: four}}",
        "{prefix: /five}",
    ];
    let route = |depth: usize| format!("routes:\n- directResponsePolicy: {{statusCode: {}}}", 210 + depth);
    let include = |depth: usize| match conditions.get(depth) {
        Some(conditions) => format!("includes:\n- {{name: d{}, conditions: [{conditions}]}}\n", depth + 1),
        None => String::new(),
    };
    for depth in 0..=5 {
        let host = if depth == 0 { "virtualhost: {fqdn: example.com}\n" } else { "" };
        let spec = format!("{host}{}{}", include(depth), route(depth));
        world.write(&format!("d{depth}.yaml"), proxy("shop", &format!("d{depth}"), &spec))?;
    }
    let served = serve(&world).await?;
    served.get("example.com", "/one").comes_to_answer(211).await?;
    let rows: [(&str, Headers, u16); 11] = [
        ("/", &[], 210),
        ("/one/x", &[], 211),
        ("/one", &[("x-two", "2")], 212),
        ("/one", &[("x-two", "3")], 211),
        ("/", &[("x-two", "2")], 210),
        ("/one/three", &[("x-two", "2")], 212),
        ("/one/three?q", &[("x-two", "2")], 213),
        ("/one/three?q", &[("x-two", "2"), ("x-four", "is four")], 214),
        ("/one/three/five?q=1", &[("x-two", "2"), ("x-four", "four")], 215),
        ("/one/three/five?q=1", &[("x-two", "2")], 213),
        ("/one/three/five", &[("x-two", "2"), ("x-four", "four")], 212),
    ];
    for (path, headers, status) in rows {
        let request =
            headers.iter().fold(served.get("example.com", path), |request, (name, value)| request.header(name, value));
        request.answers(status).await?;
    }
    served.comes_to_be("shop", "d0", "valid").await
}

async fn duplicates_of_every_kind(world: World) -> Result<()> {
    // Condition, and a matching request: the suffix of the path, and a header.
    let rows = [
        ("{header: {name: X-A, present: true}}", "", "x-a: 1"),
        ("{header: {name: x-a, notpresent: true}}", "", ""),
        ("{header: {name: x-a, contains: one}}", "", "x-a: is one"),
        ("{header: {name: x-a, notcontains: one}}", "", "x-a: two"),
        ("{header: {name: x-a, exact: one, ignoreCase: true}}", "", "x-a: ONE"),
        ("{header: {name: x-a, notexact: one, treatMissingAsEmpty: true}}", "", ""),
        ("{header: {name: x-a, regex: 'o[a-z]e'}}", "", "x-a: one"),
        ("{queryParameter: {name: q, exact: one}}", "?q=one", ""),
        ("{queryParameter: {name: q, prefix: one}}", "?q=one1", ""),
        ("{queryParameter: {name: q, suffix: one}}", "?q=1one", ""),
        ("{queryParameter: {name: q, regex: 'o[a-z]e'}}", "?q=one", ""),
        ("{queryParameter: {name: q, contains: ONE, ignoreCase: true}}", "?q=1one1", ""),
        ("{queryParameter: {name: q, present: true}}", "?q=1", ""),
    ];
    let mut spec = "virtualhost: {fqdn: example.com}\nroutes:\n".to_owned();
    let twice = |spec: &mut String, conditions: &str| {
        for status in [201, 202] {
            *spec += &format!("- conditions: [{conditions}]\n  directResponsePolicy: {{statusCode: {status}}}\n");
        }
    };
    for (index, (condition, _, _)) in rows.iter().enumerate() {
        twice(&mut spec, &format!("{{prefix: /k{index}}}, {condition}"));
    }
    for path in ["{prefix: /prefix}", "{exact: /exact}", "{regex: '/regex[0-9]+'}"] {
        twice(&mut spec, path);
    }
    world.write("proxy.yaml", proxy("shop", "proxy", &spec))?;
    let served = serve(&world).await?;
    served.get("example.com", "/prefix/x").comes_to_answer(201).await?;
    served.get("example.com", "/exact").answers(201).await?;
    served.get("example.com", "/regex12").answers(201).await?;
    for (index, (condition, query, header)) in rows.iter().enumerate() {
        let request = served.get("example.com", &format!("/k{index}{query}"));
        let request = match header.split_once(": ") {
            Some((name, value)) => request.header(name, value),
            None => request,
        };
        ensure!(request.send().await?.status.as_u16() == 201, "{condition}: the first of two routes does not answer");
    }
    served.comes_to_be("shop", "proxy", "invalid").await?;
    let status = served.status("shop", "proxy").await?;
    let errors = status["conditions"][0]["errors"].as_array().cloned().unwrap_or_default();
    let duplicates = errors.iter().filter(|error| error["reason"] == "DuplicateMatchConditions").count();
    ensure!(duplicates == rows.len() + 3 && errors.len() == duplicates, "{status}");
    Ok(())
}
