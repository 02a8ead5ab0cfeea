//! Lists in pages of [`PAGE_ROWS_MAX`] rows.

use maud::{Markup, html};

use super::PAGE_ROWS_MAX;
use super::filter::OverviewFilter;

/// A page of a list.
pub(super) struct ListPage<'a, T> {
    /// The rows.
    pub(super) rows: Vec<&'a T>,
    /// The number of the page, from 1.
    number: usize,
    pages: usize,
    all: usize,
}

impl<'a, T> ListPage<'a, T> {
    /// Returns a page of a list; a number beyond the last page means the last page.
    pub(super) fn new(list: &'a [T], number: usize) -> Self {
        let pages = list.len().div_ceil(PAGE_ROWS_MAX).max(1);
        let number = number.clamp(1, pages);
        let rows = list.iter().skip((number - 1) * PAGE_ROWS_MAX).take(PAGE_ROWS_MAX).collect();
        Self { rows, number, pages, all: list.len() }
    }

    /// Returns links to the other pages; empty if there is one page. `parameter` is the parameter with the number.
    pub(super) fn links(&self, what: &str, parameter: &'static str, filter: &OverviewFilter) -> Markup {
        let to = |number: usize| filter.link(Some((parameter, number)));
        html! {
            @if self.pages > 1 {
                nav class="pages" aria-label={ "Pages of " (what) } {
                    @if self.number > 1 { a rel="prev" href=(to(self.number - 1)) { "Previous" } }
                    span { "Page " (self.number) " of " (self.pages) " (" (self.all) " " (what) ")" }
                    @if self.number < self.pages { a rel="next" href=(to(self.number + 1)) { "Next" } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_the_list_mean_its_ends() {
        let list: Vec<usize> = (0..250).collect();
        let rows = |number| {
            let page = ListPage::new(&list, number);
            (page.number, page.rows.first().map(|row| **row), page.rows.len())
        };
        assert_eq!(rows(0), (1, Some(0), 100));
        assert_eq!(rows(3), (3, Some(200), 50));
        assert_eq!(rows(usize::MAX), (3, Some(200), 50));
        assert_eq!(ListPage::<usize>::new(&[], 7).number, 1);
    }
}
