//! Tests of the state-of-the-world variant.

use crate::script::sotw;

#[test]
fn every_response_with_clusters_or_listeners_is_complete() {
    sotw(
        "! CDS a=1 b=1
         > CDS
         < 1 CDS a=1 b=1
         > CDS n=1
         = ACK CDS a=1 b=1
         ! CDS a=1 b=2 c=1
         < 2 CDS a=1 b=2 c=1
         > CDS n=2
         = ACK CDS b=2 c=1
         ! CDS a=1
         < 3 CDS a=1
         > CDS n=3
         = ACK CDS -b -c",
    );
}

#[test]
fn responses_of_the_other_types_hold_what_changed() {
    sotw(
        "! EDS a=1 b=1 c=1; RDS r=1 s=1
         > EDS names=a,b
         < 1 EDS a=1 b=1
         > EDS names=a,b n=1
         = ACK EDS a=1 b=1
         ! EDS a=2 b=1 c=2; RDS r=1 s=1
         < 2 EDS a=2
         > EDS names=a,b,c n=2
         = ACK EDS a=2
         < 3 EDS c=2",
    );
}

#[test]
fn one_response_of_a_type_is_unanswered_at_a_time_and_the_newest_content_wins() {
    sotw(
        "! CDS a=1
         > CDS
         < 1 CDS a=1
         ! CDS a=2
         ! CDS a=3
         > CDS n=1
         = ACK CDS a=1
         < 2 CDS a=3",
    );
}

#[test]
fn routes_and_secrets_travel_alone_so_that_a_refusal_is_exact() {
    sotw(
        "! RDS r=1 s=1
         > RDS names=r,s
         < 1 RDS r=1
         > RDS names=r,s n=1 err=bad
         = NACK RDS r=1 : bad
         < 2 RDS s=1
         > RDS names=r,s n=2
         = ACK RDS s=1",
    );
}

#[test]
fn a_list_without_a_name_gives_it_up() {
    sotw(
        "! EDS a=1 b=1
         > EDS names=a,b
         < 1 EDS a=1 b=1
         > EDS names=b n=1
         = ACK EDS a=1 b=1
         ! EDS a=2 b=1
         > EDS names=a,b n=1
         < 2 EDS a=2",
    );
}

#[test]
fn an_empty_list_subscribes_to_everything_until_names_are_given() {
    sotw(
        "! CDS a=1 b=1
         > CDS
         < 1 CDS a=1 b=1
         > CDS names=a n=1
         = ACK CDS a=1 b=1
         ! CDS a=2 b=2
         < 2 CDS a=2
         > CDS n=2
         = ACK CDS a=2
         ! CDS a=3 b=3",
    );
}

#[test]
fn a_wildcard_subscribes_to_everything() {
    sotw(
        "! LDS a=1 b=1
         > LDS names=*
         < 1 LDS a=1 b=1",
    );
}

#[test]
fn a_missing_cluster_requested_by_name_is_answered_by_a_response_without_it() {
    sotw(
        "! CDS a=1
         > CDS names=a
         < 1 CDS a=1
         > CDS names=a,b n=1
         = ACK CDS a=1
         < 2 CDS a=1",
    );
}

#[test]
fn a_stale_nonce_answers_nothing_but_its_list_holds() {
    sotw(
        "! EDS a=1 b=1
         > EDS names=a
         < 1 EDS a=1
         > EDS names=a n=1
         = ACK EDS a=1
         ! EDS a=2 b=1
         < 2 EDS a=2
         > EDS names=a,b n=1 err=old
         > EDS names=a,b n=2
         = ACK EDS a=2
         < 3 EDS b=1",
    );
}

#[test]
fn one_that_comes_back_with_the_version_of_what_it_should_have_is_sent_nothing() {
    sotw(
        "! CDS a=1 b=1; EDS e=1 f=1
         > CDS version=same
         > EDS names=e version=same
         > EDS names=e,f
         < 1 EDS f=1
         ! CDS a=1 b=2; EDS e=1 f=1
         < 2 CDS a=1 b=2",
    );
}

#[test]
fn one_that_comes_back_before_the_fleet_is_published_waits() {
    sotw(
        "> CDS version=old
         > EDS names=e
         ! CDS a=1; EDS e=1
         < 1 CDS a=1
         < 2 EDS e=1",
    );
}

#[test]
fn an_empty_fleet_answers_with_an_empty_response() {
    sotw(
        "!
         > CDS
         < 1 CDS
         > CDS n=1
         > CDS version=same n=1
         > EDS names=none
         > LDS
         < 2 LDS",
    );
}

#[test]
fn endpoints_are_sent_again_right_after_their_cluster_changed() {
    sotw(
        "! CDS c=eds1 d=eds1; EDS c=1 d=1
         > CDS
         < 1 CDS c=eds1 d=eds1
         > EDS names=c,d
         < 2 EDS c=1 d=1
         > EDS names=c,d n=2
         = ACK EDS c=1 d=1
         > CDS n=1
         = ACK CDS c=eds1 d=eds1
         ! CDS c=eds2 d=eds1; EDS c=1 d=1
         < 3 CDS c=eds2 d=eds1
         < 4 EDS c=1",
    );
}
