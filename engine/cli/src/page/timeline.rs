//! The time line of a day: what was at fault when, as a picture and as a list.

use std::collections::BTreeMap;

use holdfast_check::time::Moment;
use holdfast_engine::health::timeline::{Episode, TIMELINE_SECONDS};
use holdfast_graph::ObjectKey;
use maud::{Markup, html};

use super::article::{link, severity_words};
use super::diagram::identity;
use super::filter::OverviewFilter;
use super::paging::ListPage;
use super::text::shortened;
use crate::finding::plain;

/// Maximum number of objects in the picture, the ones with the newest episodes.
const PICTURE_OBJECTS_MAX: usize = 30;
/// Width of a day, of the names beside it, and the height of a row, in units of the picture.
const DAY_WIDTH: i64 = 720;
const NAMES_WIDTH: i64 = 280;
const ROW_HEIGHT: i64 = 20;
/// Maximum number of characters of a name in the picture.
const PICTURE_NAME_CHARACTERS_MAX: usize = 38;

/// Returns the time line. `dropped` is the number of older episodes that are not known any more.
pub(super) fn section(episodes: &[&Episode], dropped: usize, filter: &OverviewFilter, now: i64) -> Markup {
    let page = ListPage::new(episodes, filter.episodes);
    html! {
        section aria-labelledby="timeline" {
            h2 #timeline { "Last 24 hours" }
            @if episodes.is_empty() {
                p { "No fault since Holdfast was started, or for 24 hours. Objects that are only affected are not listed." }
            } @else {
                (picture(episodes, now))
                details #episodes {
                    summary { "The episodes as a list (" (episodes.len()) ")" }
                    @if dropped > 0 { p { (dropped) " older episodes are not kept." } }
                    div class="wide" tabindex="0" role="group" aria-label="Episodes" {
                        table {
                            thead { tr { th scope="col" { "Object" } th scope="col" { "State" } th scope="col" { "From" } th scope="col" { "Until" } th scope="col" { "Why" } } }
                            tbody { @for episode in &page.rows { (line(episode)) } }
                        }
                    }
                    (page.links("episodes", "episodes", filter))
                }
            }
        }
    }
}

fn line(episode: &Episode) -> Markup {
    let (words, class) = severity_words(episode.severity);
    html! {
        tr class=(class) {
            td { (link(&identity(&episode.object))) }
            td { span class={ "state " (class) } { (words) } }
            td { (episode.since) }
            td { @if let Some(until) = episode.until { (until) } @else { "still" } }
            td { (plain(&episode.reason)) ": " (plain(&episode.message)) }
        }
    }
}

/// A bar for each episode, in a row for each object.
fn picture(episodes: &[&Episode], now: i64) -> Markup {
    let mut rows: Vec<(&ObjectKey, Vec<&Episode>)> = Vec::new();
    let mut places = BTreeMap::new();
    for episode in episodes {
        let next = rows.len();
        let place = *places.entry(&episode.object).or_insert(next);
        match rows.get_mut(place) {
            Some((_, row)) => row.push(episode),
            None => rows.push((&episode.object, vec![episode])),
        }
    }
    let left_out = rows.len().saturating_sub(PICTURE_OBJECTS_MAX);
    rows.truncate(PICTURE_OBJECTS_MAX);
    let height = (i64::try_from(rows.len()).unwrap_or(0) + 1) * ROW_HEIGHT;
    let begin = now - TIMELINE_SECONDS;
    let x = |at: i64| NAMES_WIDTH + (at.clamp(begin, now) - begin) * DAY_WIDTH / TIMELINE_SECONDS;
    html! {
        div class="wide" tabindex="0" role="group" aria-label="Picture of the last 24 hours" {
            svg class="timeline" role="img" aria-label="A bar for each period in which an object was at fault; the list below has the same" width=(NAMES_WIDTH + DAY_WIDTH) height=(height) {
                @for hours in (0..=24).step_by(6) {
                    @let at = begin + i64::from(hours) * 3_600;
                    line class="hour" x1=(x(at)) x2=(x(at)) y1="0" y2=(height - ROW_HEIGHT) {}
                    text class="hour" x=(x(at)) y=(height - 5) text-anchor=(if hours == 24 { "end" } else { "middle" }) {
                        (clock(at))
                    }
                }
                @for (row, (object, episodes)) in (0i64..).zip(&rows) {
                    text x="0" y=(row * ROW_HEIGHT + 14) { (shortened(&plain(&format!("{} {}", object.kind, object.namespaced_name())), PICTURE_NAME_CHARACTERS_MAX)) }
                    @for episode in episodes {
                        @let (words, class) = severity_words(episode.severity);
                        @let (from, to) = (x(episode.since.0), x(episode.until.map_or(now, |until| until.0)));
                        rect class=(class) x=(from) y=(row * ROW_HEIGHT + 3) width=((to - from).max(2)) height=(ROW_HEIGHT - 6) {
                            title { (words) " from " (episode.since) }
                        }
                    }
                }
            }
        }
        @if left_out > 0 { p { "The picture has the newest; " (left_out) " more objects are in the list." } }
    }
}

/// Returns hours and minutes of a moment.
fn clock(at: i64) -> String {
    Moment(at).to_string().get(11..16).unwrap_or_default().to_owned()
}
