//! Reduction of a story that fails to a short one that fails in the same way.
//!
//! Steps, objects, and fields of objects are left out one after the other, as long as the story fails.

use anyhow::Result;
use serde_json::Value;

use super::language::{StoryFile, StoryStep};

/// Returns the shortest story that was found; `fails` returns whether a story still fails in the same way.
pub(super) fn shortest(mut story: StoryFile, fails: impl Fn(&StoryFile) -> bool) -> StoryFile {
    loop {
        let before = size(&story);
        without_steps(&mut story, &fails);
        without_parts(&mut story, &fails);
        if size(&story) == before {
            return story;
        }
    }
}

/// Returns the story in the language of stories.
pub(super) fn yaml(story: &StoryFile) -> Result<String> {
    let mut text = format!("why: {}\n", story.why);
    for (name, value) in
        [("settings", serde_json::to_value(&story.settings)?), ("envoys", serde_json::to_value(&story.envoys)?)]
    {
        text.push_str(&format!("{name}: {value}\n"));
    }
    text.push_str("steps:\n");
    for step in &story.steps {
        match step {
            StoryStep::Apply(objects) => {
                let lines = objects.lines().map(|line| format!("    {line}\n")).collect::<String>();
                text.push_str(&format!("- apply: |\n{lines}"));
            }
            other => text.push_str(&format!("- {}\n", without_defaults(serde_json::to_value(other)?))),
        }
    }
    Ok(text)
}

fn without_defaults(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        for content in fields.values_mut() {
            if let Value::Object(inner) = content {
                inner.retain(|_, value| !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()));
                inner.retain(|_, value| value.as_object().is_none_or(|map| !map.is_empty()));
            }
        }
    }
    value
}

fn size(story: &StoryFile) -> usize {
    format!("{:?}", story.steps).len()
}

fn without_steps(story: &mut StoryFile, fails: &impl Fn(&StoryFile) -> bool) {
    let mut length = story.steps.len() / 2;
    while length > 0 {
        let mut end = story.steps.len();
        while end > 0 {
            let start = end.saturating_sub(length);
            let mut shorter = story.clone();
            shorter.steps.drain(start..end);
            if fails(&shorter) {
                *story = shorter;
            }
            end = start;
        }
        length /= 2;
    }
}

/// Leaves out objects, and fields and list elements within objects.
fn without_parts(story: &mut StoryFile, fails: &impl Fn(&StoryFile) -> bool) {
    for index in 0..story.steps.len() {
        let StoryStep::Apply(text) = &story.steps[index] else { continue };
        let mut objects = Value::Array(holdfast_test_support::documents(text));
        let mut places = places(&objects);
        // The innermost places come last.
        while let Some(place) = places.pop() {
            let mut fewer = objects.clone();
            remove(&mut fewer, &place);
            let mut shorter = story.clone();
            shorter.steps[index] = StoryStep::Apply(written(&fewer));
            if fails(&shorter) {
                (objects, *story) = (fewer, shorter);
            }
        }
    }
}

fn written(objects: &Value) -> String {
    objects.as_array().into_iter().flatten().map(Value::to_string).collect::<Vec<_>>().join("\n---\n")
}

/// Returns the JSON pointers of all values, outer ones first and later ones last.
fn places(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let children: Vec<(String, &Value)> = match value {
        Value::Array(list) => list.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.replace('/', "~1"), value)).collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        found.push(format!("/{name}"));
        found.extend(places(child).into_iter().map(|place| format!("/{name}{place}")));
    }
    found
}

fn remove(value: &mut Value, place: &str) {
    let Some((parent, name)) = place.rsplit_once('/') else { return };
    match value.pointer_mut(parent) {
        Some(Value::Array(list)) => {
            if let Ok(index) = name.parse::<usize>()
                && index < list.len()
            {
                list.remove(index);
            }
        }
        Some(Value::Object(fields)) => {
            fields.remove(&name.replace("~1", "/"));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use anyhow::{Context, Result};

    use super::{StoryFile, StoryStep, shortest, yaml};

    fn story() -> Result<StoryFile> {
        let text = r#"
why: a test
steps:
- refuse: {name: all, route: [BAD]}
- apply: "{service: shop/a}\n---\n{route: shop/cart, rules: [{to: a}, {to: b, add: {x-mark: BAD, x-other: good}}]}"
- clock: 3
- restart
"#;
        Ok(serde_saphyr::from_str(text)?)
    }

    fn refuses(story: &StoryFile) -> bool {
        let is_cause = |step: &StoryStep| matches!(step, StoryStep::Apply(text) if text.contains(r#""x-mark":"BAD""#));
        let is_expanded = |step: &StoryStep| matches!(step, StoryStep::Apply(text) if text.contains("x-mark: BAD"));
        story.steps.iter().any(|step| is_cause(step) || is_expanded(step))
    }

    #[test]
    fn only_the_cause_is_left() -> Result<()> {
        let short = shortest(story()?, refuses);
        let text = yaml(&short)?;
        let (_, steps) = text.split_once("steps:\n").context("no steps")?;
        assert_eq!(steps, "- apply: |\n    {\"rules\":[{\"add\":{\"x-mark\":\"BAD\"}}]}\n");
        Ok(())
    }

    #[test]
    fn the_text_is_a_story() -> Result<()> {
        let read: StoryFile = serde_saphyr::from_str(&yaml(&story()?)?)?;
        let trimmed = |story: &StoryFile| format!("{:?}", story.steps).replace("\\n\")", "\")");
        assert_eq!(trimmed(&read), trimmed(&story()?));
        Ok(())
    }
}
