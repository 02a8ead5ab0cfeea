//! Tests of the incremental variant: subscriptions, responses, and the absence of responses.

use holdfast_xds::connection::{Connection, Protocol, Violation};
use holdfast_xds::limits::NAMES_MAX;

use crate::script::delta;
use crate::vocabulary::request;

#[test]
fn a_first_request_without_names_subscribes_to_all_clusters_and_listeners() {
    delta(
        "! CDS a=1 b=1; LDS l=1
         > CDS
         < 1 CDS +a=1 +b=1
         > CDS n=1
         = ACK CDS a=1 b=1
         > LDS
         < 2 LDS +l=1
         > LDS n=2
         = ACK LDS l=1",
    );
}

#[test]
fn a_first_request_without_names_subscribes_to_nothing_of_the_other_types() {
    delta(
        "! EDS a=1; SDS s=1; RDS r=1
         > EDS
         > SDS
         > RDS",
    );
}

#[test]
fn a_wildcard_subscribes_to_everything_until_it_is_unsubscribed() {
    delta(
        "! CDS a=1 b=1
         > CDS add=*
         < 1 CDS +a=1 +b=1
         > CDS n=1
         = ACK CDS a=1 b=1
         > CDS del=*
         ! CDS a=2 b=1 c=1",
    );
}

#[test]
fn named_subscriptions_outlive_the_wildcard() {
    delta(
        "! CDS a=1 b=1
         > CDS add=*,a
         < 1 CDS +a=1 +b=1
         > CDS n=1
         = ACK CDS a=1 b=1
         > CDS del=*
         ! CDS a=2 b=2
         < 2 CDS +a=2",
    );
}

#[test]
fn giving_up_a_name_that_the_star_covers_is_answered_with_what_holds() {
    delta(
        "! CDS a=1
         > CDS add=*,a
         < 1 CDS +a=1
         > CDS n=1 del=a
         = ACK CDS a=1
         < 2 CDS +a=1",
    );
}

#[test]
fn each_subscribed_name_is_sent_in_its_own_response() {
    delta(
        "! EDS a=1 b=1 c=1
         > EDS add=a,c
         < 1 EDS +a=1
         < 2 EDS +c=1
         > EDS n=1
         = ACK EDS a=1
         > EDS n=2
         = ACK EDS c=1
         ! EDS a=1 b=2 c=2
         < 3 EDS +c=2",
    );
}

#[test]
fn a_missing_name_is_reported_at_once_and_sent_when_it_appears() {
    delta(
        "! RDS r=1
         > RDS add=r,missing
         < 1 RDS -missing
         < 2 RDS +r=1
         > RDS n=1
         = ACK RDS -missing
         > RDS n=2
         = ACK RDS r=1
         ! RDS r=1 missing=1
         < 3 RDS +missing=1",
    );
}

#[test]
fn subscribing_again_to_a_known_name_sends_it_again() {
    delta(
        "! RDS r=1
         > RDS add=r
         < 1 RDS +r=1
         > RDS n=1
         = ACK RDS r=1
         > RDS add=r
         < 2 RDS +r=1
         > RDS n=2 add=gone
         = ACK RDS r=1
         < 3 RDS -gone
         > RDS n=3 add=gone
         = ACK RDS -gone
         < 4 RDS -gone",
    );
}

#[test]
fn what_was_given_up_is_not_sent_any_more() {
    delta(
        "! EDS a=1 b=1
         > EDS add=a,b
         < 1 EDS +a=1
         < 2 EDS +b=1
         > EDS n=1 del=a
         = ACK EDS a=1
         > EDS n=2
         = ACK EDS b=1
         ! EDS a=2 b=1
         > EDS add=a
         < 3 EDS +a=2",
    );
}

#[test]
fn one_that_comes_back_with_what_it_should_have_is_sent_nothing() {
    delta(
        "! CDS a=1 b=1; EDS e=1; LDS l=1
         > CDS init=a:1,b:1
         > EDS add=e init=e:1
         > LDS add=* init=l:1",
    );
}

#[test]
fn a_reconnecting_client_is_sent_changes_and_removals() {
    delta(
        "! CDS a=1 b=2 d=1
         > CDS init=a:1,b:1,c:1
         < 1 CDS +b=2 +d=1
         < 2 CDS -c
         > EDS add=x,y init=x:1
         < 3 EDS -y
         > CDS n=2
         = ACK CDS -c
         < 4 EDS -x",
    );
}

#[test]
fn versions_that_were_never_ours_are_replaced() {
    delta(
        "! CDS a=1
         > CDS init=a:other,b:other
         < 1 CDS +a=1
         < 2 CDS -b",
    );
}

#[test]
fn nothing_at_all_is_sent_before_the_fleet_is_published() {
    delta(
        "> CDS
         > EDS add=a init=a:1
         > LDS init=l:1
         > RDS add=r
         ! CDS c=1; EDS a=1; LDS l=1; RDS r=1
         < 1 CDS +c=1
         > CDS n=1
         = ACK CDS c=1
         < 2 RDS +r=1",
    );
}

#[test]
fn an_empty_fleet_answers_a_fresh_envoy_with_an_empty_response() {
    delta(
        "!
         > CDS
         < 1 CDS
         > CDS n=1
         > LDS
         < 2 LDS
         > LDS n=2
         !",
    );
}

#[test]
fn an_empty_fleet_takes_away_what_was_there() {
    delta(
        "! CDS a=1; LDS l=1
         > CDS init=a:1
         > LDS init=l:1
         !
         < 1 LDS -l
         > LDS n=1
         = ACK LDS -l
         < 2 CDS -a",
    );
}

#[test]
fn the_same_content_again_sends_nothing() {
    delta(
        "! CDS a=1; RDS r=1
         > CDS
         < 1 CDS +a=1
         > CDS n=1
         = ACK CDS a=1
         ! CDS a=1; RDS r=2",
    );
}

#[test]
fn an_answer_with_an_unknown_nonce_is_ignored() {
    delta(
        "! RDS r=1
         > RDS add=r n=77
         < 1 RDS +r=1
         > RDS n=2 err=what?
         > RDS n=nonsense err=what?
         > RDS n=1
         = ACK RDS r=1
         > RDS n=1 err=too late",
    );
}

#[test]
fn a_type_that_is_answered_with_the_nonce_of_another_is_not_answered() {
    delta(
        "! CDS a=1; RDS r=1
         > CDS
         < 1 CDS +a=1
         > RDS n=1
         > CDS n=1
         = ACK CDS a=1",
    );
}

#[test]
fn one_that_flaps_while_it_is_unanswered_ends_with_the_newest() {
    delta(
        "! RDS r=1
         > RDS add=r
         < 1 RDS +r=1
         ! RDS r=2
         < 2 RDS +r=2
         ! RDS r=1
         < 3 RDS +r=1
         > RDS n=1
         = ACK RDS r=1
         > RDS n=2
         = ACK RDS r=2
         > RDS n=3
         = ACK RDS r=1",
    );
}

#[test]
fn a_stream_may_not_subscribe_to_more_names_than_the_limit() {
    let mut connection = Connection::new(Protocol::Delta);
    let names = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
    let nearly_all = request(&format!("EDS add={}", names(NAMES_MAX - 1)));
    assert_eq!(nearly_all.send_to(&mut connection), Ok(Vec::new()));
    assert_eq!(request("RDS add=r").send_to(&mut connection), Ok(Vec::new()));
    assert_eq!(request("SDS add=s").send_to(&mut connection), Err(Violation::TooManyNames));
}
