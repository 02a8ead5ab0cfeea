//! Tests of make before break: which resources wait for which others, and which never wait.

use crate::script::{delta, sotw};

/// A client that has a cluster, its endpoints, a listener and its routes.
const SETTLED: &str = "! CDS c=eds1; EDS c=1; LDS l=1; RDS r=1
     > CDS init=c:eds1
     > EDS add=c init=c:1
     > LDS init=l:1
     > RDS add=r init=r:1
";

fn settled(script: &str) {
    delta(&format!("{SETTLED}{script}"));
}

#[test]
fn a_fresh_envoy_is_served_in_the_order_of_its_requests() {
    delta(
        "! CDS c=eds1; EDS c=1; LDS l=1; RDS r=1
         > CDS
         < 1 CDS +c=eds1
         > EDS add=c
         < 2 EDS +c=1
         > EDS n=2
         = ACK EDS c=1
         > CDS n=1
         = ACK CDS c=eds1
         > LDS
         < 3 LDS +l=1
         > RDS add=r
         < 4 RDS +r=1
         > LDS n=3
         = ACK LDS l=1
         > RDS n=4
         = ACK RDS r=1",
    );
}

#[test]
fn routes_wait_for_the_clusters_that_came_with_them() {
    settled(
        "! CDS c=eds1 d=1; EDS c=1; LDS l=1; RDS r=2
         < 1 CDS +d=1
         > CDS n=1
         = ACK CDS d=1
         < 2 RDS +r=2",
    );
}

#[test]
fn a_refusal_of_the_clusters_lets_routes_go_too() {
    settled(
        "! CDS c=eds1 d=1; EDS c=1; LDS l=2; RDS r=2
         < 1 CDS +d=1
         > CDS n=1 err=no
         = NACK CDS d=1 : no
         < 2 LDS +l=2
         < 3 RDS +r=2",
    );
}

#[test]
fn routes_wait_for_the_endpoints_that_came_with_them() {
    settled(
        "! CDS c=eds1; EDS c=2; LDS l=1; RDS r=2
         < 1 EDS +c=2
         > EDS n=1
         = ACK EDS c=2
         < 2 RDS +r=2",
    );
}

#[test]
fn a_new_cluster_holds_routes_back_until_its_endpoints_are_answered_too() {
    settled(
        "! CDS c=eds1 d=eds1; EDS c=1 d=1; LDS l=1; RDS r=2
         < 1 CDS +d=eds1
         > EDS add=d
         < 2 EDS +d=1
         > CDS n=1
         = ACK CDS d=eds1
         > EDS n=2
         = ACK EDS d=1
         < 3 RDS +r=2",
    );
}

#[test]
fn endpoints_are_sent_again_right_after_their_cluster_changed() {
    settled(
        "! CDS c=eds2; EDS c=1; LDS l=1; RDS r=1
         < 1 CDS +c=eds2
         < 2 EDS +c=1",
    );
}

#[test]
fn endpoints_requested_after_their_changed_cluster_was_sent_are_sent_again() {
    delta(
        "! CDS c=eds2 d=eds1; EDS c=1 d=1
         > CDS init=c:eds1,d:eds1
         < 1 CDS +c=eds2
         > EDS add=c,d init=c:1,d:1
         < 2 EDS +c=1",
    );
}

#[test]
fn a_cluster_goes_only_when_the_routes_that_named_it_are_answered() {
    settled(
        "! CDS d=1; LDS l=1; RDS r=2
         < 1 CDS +d=1
         > CDS n=1
         = ACK CDS d=1
         < 2 RDS +r=2
         > RDS n=2
         = ACK RDS r=2
         < 3 CDS -c
         > CDS n=3
         = ACK CDS -c
         < 4 EDS -c",
    );
}

#[test]
fn endpoints_envoy_gives_up_with_their_cluster_are_forgotten() {
    settled(
        "! LDS l=1; RDS r=2
         < 1 RDS +r=2
         > RDS n=1
         = ACK RDS r=2
         < 2 CDS -c
         > EDS del=c
         > CDS n=2
         = ACK CDS -c",
    );
}

#[test]
fn a_cluster_stays_while_the_routes_that_no_longer_name_it_are_refused() {
    settled(
        "! LDS l=1; RDS r=2
         < 1 RDS +r=2
         > RDS n=1 err=bad
         = NACK RDS r=2 : bad
         ! LDS l=1; RDS r=3
         < 2 RDS +r=3
         > RDS n=2
         = ACK RDS r=3
         < 3 CDS -c
         > EDS del=c
         > CDS n=3
         = ACK CDS -c",
    );
}

#[test]
fn a_listener_goes_in_the_response_that_brings_the_one_that_takes_its_address() {
    settled(
        "! CDS c=eds1; EDS c=1; LDS m=1; RDS r=1
         < 1 LDS +m=1 -l",
    );
}

#[test]
fn removals_go_from_what_names_to_what_is_named() {
    settled(
        "!
         < 1 LDS -l
         > LDS n=1
         = ACK LDS -l
         < 2 RDS -r
         > RDS n=2
         = ACK RDS -r
         < 3 CDS -c
         > CDS n=3
         = ACK CDS -c
         < 4 EDS -c
         > EDS n=4
         = ACK EDS -c",
    );
}

#[test]
fn a_cluster_that_comes_back_before_it_was_removed_is_left_alone() {
    settled(
        "! CDS d=1; EDS c=1; LDS l=1; RDS r=2
         < 1 CDS +d=1
         ! CDS c=eds1 d=1; EDS c=1; LDS l=1; RDS r=2
         > CDS n=1
         = ACK CDS d=1
         < 2 RDS +r=2
         > RDS n=2
         = ACK RDS r=2",
    );
}

#[test]
fn what_routes_on_their_way_still_name_is_not_taken_away_before_them() {
    settled(
        "! CDS c=eds1 d=eds1; EDS c=1 d=1; LDS l=1; RDS r=2
         < 1 CDS +d=eds1
         # Gone again before anybody had it whole; the routes that go next still name it.
         ! CDS c=eds1 e=1; EDS c=1; LDS l=1; RDS r=3
         < 2 CDS +e=1
         > EDS add=d
         < 3 EDS +d=1
         > EDS n=3
         = ACK EDS d=1
         > CDS n=1
         = ACK CDS d=eds1
         < 4 RDS +r=2
         > CDS n=2
         = ACK CDS e=1
         < 5 RDS +r=3
         > RDS n=4
         = ACK RDS r=2
         > RDS n=5
         = ACK RDS r=3
         < 6 CDS -d
         > EDS del=d
         > CDS n=6
         = ACK CDS -d",
    );
}

#[test]
fn types_without_a_subscription_hold_up_nothing() {
    delta(
        "! CDS c=1; EDS e=1; LDS l=1; RDS r=1
         > RDS add=r
         < 1 RDS +r=1
         ! CDS c=2; EDS e=2; LDS l=2; RDS r=2
         < 2 RDS +r=2
         > CDS add=c
         < 3 CDS +c=2
         ! RDS r=2
         > CDS n=3
         = ACK CDS c=2
         > RDS n=1
         = ACK RDS r=1
         > RDS n=2
         = ACK RDS r=2
         < 4 CDS -c",
    );
}

#[test]
fn routes_are_not_overtaken_for_ever_by_clusters_that_keep_changing() {
    settled(
        "! CDS c=eds1 d=1; EDS c=1; LDS l=1; RDS r=2
         < 1 CDS +d=1
         # Before the answer comes there is another cluster already, and routes that name it.
         ! CDS c=eds1 d=1 e=1; EDS c=1; LDS l=1; RDS r=3
         < 2 CDS +e=1
         > CDS n=1
         = ACK CDS d=1
         < 3 RDS +r=2
         ! CDS c=eds1 d=1 e=1 f=1; EDS c=1; LDS l=1; RDS r=4
         < 4 CDS +f=1
         > CDS n=2
         = ACK CDS e=1
         < 5 RDS +r=3
         > CDS n=4
         = ACK CDS f=1
         < 6 RDS +r=4",
    );
}

#[test]
fn endpoints_never_wait() {
    settled(
        "! CDS c=eds1 d=1; EDS c=1; LDS l=1; RDS r=2
         < 1 CDS +d=1
         ! CDS c=eds1 d=1; EDS c=2; LDS l=1; RDS r=2
         < 2 EDS +c=2
         ! CDS c=eds1 d=1; EDS c=3; LDS l=1; RDS r=2
         < 3 EDS +c=3
         > CDS n=1
         = ACK CDS d=1
         < 4 RDS +r=2",
    );
}

#[test]
fn one_that_comes_back_gets_changed_clusters_before_changed_routes() {
    delta(
        "! CDS c=1 d=1; LDS l=1; RDS r=2
         > CDS init=c:1
         < 1 CDS +d=1
         > LDS init=l:1
         > RDS add=r init=r:1
         > CDS n=1
         = ACK CDS d=1
         < 2 RDS +r=2",
    );
}

#[test]
fn state_of_the_world_keeps_the_same_order() {
    sotw(
        "! CDS c=eds1; EDS c=1; LDS l=1; RDS r=1
         > CDS
         < 1 CDS c=eds1
         > EDS names=c
         < 2 EDS c=1
         > EDS names=c n=2
         = ACK EDS c=1
         > CDS n=1
         = ACK CDS c=eds1
         > LDS
         < 3 LDS l=1
         > RDS names=r
         < 4 RDS r=1
         > LDS n=3
         = ACK LDS l=1
         > RDS names=r n=4
         = ACK RDS r=1
         # A cluster is replaced: it stays until the routes have moved.
         ! CDS d=1; LDS l=1; RDS r=2
         < 5 CDS c=eds1 d=1
         > CDS n=5
         = ACK CDS d=1
         < 6 RDS r=2
         > RDS names=r n=6
         = ACK RDS r=2
         < 7 CDS d=1
         > CDS n=7
         = ACK CDS -c",
    );
}
