//! Tests of refusals: which resources are reported, which are never sent again, and which must not be affected.

use crate::script::{delta, sotw};

#[test]
fn a_refusal_names_exactly_what_its_response_carried() {
    delta(
        "! RDS r=1 s=1
         > RDS add=r,s
         < 1 RDS +r=1
         < 2 RDS +s=1
         > RDS n=1 err=missing ]: [
         = NACK RDS r=1 : missing ]: [
         > RDS n=2
         = ACK RDS s=1",
    );
}

#[test]
fn what_was_refused_is_not_sent_again_until_it_changes() {
    delta(
        "! SDS s=1 t=1
         > SDS add=s,t
         < 1 SDS +s=1
         < 2 SDS +t=1
         > SDS n=1 err=bad
         = NACK SDS s=1 : bad
         > SDS n=2 add=s
         = ACK SDS t=1
         ! SDS s=1 t=2
         < 3 SDS +t=2
         ! SDS s=2 t=2
         < 4 SDS +s=2
         > SDS n=4
         = ACK SDS s=2
         # Not even when it comes back later: Envoy would acknowledge it without using it.
         ! SDS s=1 t=2
         ! SDS s=2 t=2",
    );
}

#[test]
fn what_was_refused_is_taken_away_when_it_is_gone() {
    // Envoy may have applied part of a refused response.
    delta(
        "! CDS a=1
         > CDS init=a:1
         ! CDS a=1 b=1
         < 1 CDS +b=1
         > CDS n=1 err=bad
         = NACK CDS b=1 : bad
         ! CDS a=1
         < 2 CDS -b",
    );
}

#[test]
fn a_refusal_of_an_older_content_does_not_stop_the_newer_one() {
    delta(
        "! RDS r=1
         > RDS add=r
         < 1 RDS +r=1
         ! RDS r=2
         < 2 RDS +r=2
         > RDS n=1 err=bad
         = NACK RDS r=1 : bad
         > RDS n=2
         = ACK RDS r=2
         ! RDS r=1
         ! RDS r=3
         < 3 RDS +r=3",
    );
}

#[test]
fn the_last_good_content_is_sent_again_after_a_refusal() {
    delta(
        "! SDS s=1
         > SDS add=s init=s:1
         < 1 SDS +s=1
         > SDS n=1
         = ACK SDS s=1
         ! SDS s=2
         < 2 SDS +s=2
         > SDS n=2 err=bad
         = NACK SDS s=2 : bad
         ! SDS s=1
         < 3 SDS +s=1",
    );
}

#[test]
fn of_several_listeners_those_are_refused_that_envoy_names() {
    delta(
        "! LDS a=1 b=1 c=1
         > LDS
         < 1 LDS +a=1 +b=1 +c=1
         > LDS n=1 err=Error adding/updating listener(s) b: duplicate address\\n
         = NACK LDS b=1 : Error adding/updating listener(s) b: duplicate address
         = ACK LDS a=1 c=1
         ! LDS a=1 b=1 c=2
         < 2 LDS +c=2",
    );
}

#[test]
fn what_was_refused_in_company_is_tried_alone_also_when_it_was_gone_in_between() {
    delta(
        "! CDS x=1; LDS a=1 b=1
         > CDS init=x:1
         > LDS
         < 1 LDS +a=1 +b=1
         ! CDS x=2; LDS a=1
         < 2 CDS +x=2
         > LDS n=1 err=no
         ! CDS x=2; LDS a=1 b=1
         > CDS n=2
         = ACK CDS x=2
         < 3 LDS +a=1
         < 4 LDS +b=1",
    );
}

#[test]
fn without_a_named_resource_each_is_tried_alone_and_the_valid_ones_are_served() {
    delta(
        "! LDS a=1 b=1 c=1
         > LDS
         < 1 LDS +a=1 +b=1 +c=1
         > LDS n=1 err=Proto constraint validation failed
         < 2 LDS +a=1
         < 3 LDS +b=1
         < 4 LDS +c=1
         > LDS n=2
         = ACK LDS a=1
         > LDS n=3 err=Proto constraint validation failed
         = NACK LDS b=1 : Proto constraint validation failed
         > LDS n=4
         = ACK LDS c=1
         ! LDS a=1 b=1 c=2
         < 5 LDS +c=2",
    );
}

#[test]
fn where_envoys_list_was_cut_off_those_it_does_not_name_are_tried_alone() {
    delta(
        "! CDS a=1 b=1 c=1
         > CDS
         < 1 CDS +a=1 +b=1 +c=1
         > CDS n=1 err=Error adding/updating cluster(s) b: bad, ...(truncated)
         = NACK CDS b=1 : Error adding/updating cluster(s) b: bad, ...(truncated)
         < 2 CDS +a=1
         < 3 CDS +c=1",
    );
}

#[test]
fn removals_lost_with_a_refused_response_are_sent_again() {
    delta(
        "! LDS a=1 b=1
         > LDS init=a:1,b:1
         ! LDS b=2
         < 1 LDS +b=2 -a
         > LDS n=1 err=Proto constraint validation failed
         = NACK LDS b=2 : Proto constraint validation failed
         < 2 LDS -a
         > LDS n=2
         = ACK LDS -a",
    );
}

#[test]
fn removals_go_ahead_of_what_is_tried_alone_since_that_may_need_their_addresses() {
    delta(
        "! LDS a=1
         > LDS init=a:1
         ! LDS b=1 c=1
         < 1 LDS +b=1 +c=1 -a
         > LDS n=1 err=Invalid duration
         < 2 LDS -a
         < 3 LDS +b=1
         < 4 LDS +c=1",
    );
}

#[test]
fn an_answer_without_error_is_no_refusal_and_one_with_an_empty_message_is() {
    delta(
        "! RDS r=1 s=1
         > RDS add=r,s
         < 1 RDS +r=1
         < 2 RDS +s=1
         > RDS n=1
         = ACK RDS r=1
         > RDS n=2 err=
         = NACK RDS s=1 : ",
    );
}

#[test]
fn private_keys_in_a_refusal_go_no_further() {
    delta(
        "! SDS s=1
         > SDS add=s
         < 1 SDS +s=1
         > SDS n=1 err=bad tls_certificate { private_key { inline_string: \"-----BEGIN PRIVATE KEY-----MIIcanary\" } }
         = NACK SDS s=1 : bad tls_certificate { private_key [redacted]",
    );
}

#[test]
fn state_of_the_world_repeats_what_was_taken_in_the_place_of_what_was_refused() {
    sotw(
        "! LDS a=1 b=1
         > LDS
         < 1 LDS a=1 b=1
         > LDS n=1
         = ACK LDS a=1 b=1
         ! LDS a=1 b=2 c=1
         < 2 LDS a=1 b=2 c=1
         > LDS n=2 err=Error adding/updating listener(s) b: bad\\nc: bad\\n
         = NACK LDS b=2 : Error adding/updating listener(s) b: bad
         = NACK LDS c=1 : Error adding/updating listener(s) c: bad
         ! LDS a=2 b=2 c=1
         < 3 LDS a=2 b=1
         > LDS n=3
         = ACK LDS a=2
         ! LDS a=2 b=3 c=1
         < 4 LDS a=2 b=3",
    );
}

#[test]
fn state_of_the_world_finds_the_guilty_by_halves() {
    sotw(
        "! CDS a=1 b=1 c=1 d=1
         > CDS
         < 1 CDS a=1 b=1 c=1 d=1
         > CDS n=1 err=Proto constraint validation failed
         < 2 CDS a=1 b=1
         > CDS n=2
         = ACK CDS a=1 b=1
         < 3 CDS a=1 b=1 c=1 d=1
         > CDS n=3 err=Proto constraint validation failed
         < 4 CDS a=1 b=1 c=1
         > CDS n=4 err=Proto constraint validation failed
         = NACK CDS c=1 : Proto constraint validation failed
         < 5 CDS a=1 b=1 d=1
         > CDS n=5
         = ACK CDS d=1",
    );
}

#[test]
fn what_was_refused_for_a_reason_of_the_host_is_sent_once_more() {
    delta(
        "! LDS a=1 b=1
         > LDS
         < 1 LDS +a=1 +b=1
         > LDS n=1 err=Error adding/updating listener(s) b: cannot bind\\n
         = NACK LDS b=1 : Error adding/updating listener(s) b: cannot bind
         = ACK LDS a=1
         ! LDS a=1 b=1
         # Another content of it, and what was taken, are not concerned.
         ? LDS a=1 b=2
         ? LDS b=1
         < 2 LDS +b=1
         > LDS n=2 err=cannot bind
         = NACK LDS b=1 : cannot bind
         ? LDS b=1
         < 3 LDS +b=1
         > LDS n=3
         = ACK LDS b=1",
    );
    sotw(
        "! LDS a=1 b=1
         > LDS
         < 1 LDS a=1 b=1
         > LDS n=1 err=Error adding/updating listener(s) b: cannot bind\\n
         = NACK LDS b=1 : Error adding/updating listener(s) b: cannot bind
         = ACK LDS a=1
         ? LDS b=1
         < 2 LDS a=1 b=1
         > LDS n=2
         = ACK LDS b=1",
    );
}
