//! Tests of audiences: different configurations for everyone, a build or a node of one fleet; for Envoys with and
//! without a configuration.

use crate::script::{delta, sotw};

/// A client that has two clusters, a listener and two routes.
const SETTLED: &str = "! CDS a=1 b=1; LDS l=1; RDS r=1 s=1
     > CDS init=a:1,b:1
     > LDS init=l:1
     > RDS add=r,s init=r:1,s:1
";

#[test]
fn a_node_comes_before_a_build_and_a_build_before_everyone() {
    delta(
        "! CDS a=1
         > CDS
         < 1 CDS +a=1
         > CDS n=1
         = ACK CDS a=1
         !build CDS a=2
         < 2 CDS +a=2
         > CDS n=2
         = ACK CDS a=2
         !node CDS a=3
         < 3 CDS +a=3
         > CDS n=3
         = ACK CDS a=3
         # What others are offered is not for this one.
         !build CDS a=4
         ! CDS a=5
         !others CDS a=6
         !-node
         < 4 CDS +a=4
         > CDS n=4
         = ACK CDS a=4
         !-build
         < 5 CDS +a=5",
    );
}

#[test]
fn a_client_that_moves_to_another_audience_is_sent_the_differences() {
    delta(&format!(
        "{SETTLED}
         !node CDS a=1 c=1; LDS l=1; RDS r=1 s=2
         < 1 CDS +c=1
         > CDS n=1
         = ACK CDS c=1
         < 2 RDS +s=2
         > RDS n=2
         = ACK RDS s=2
         < 3 CDS -b
         > CDS n=3
         = ACK CDS -b
         !-node
         < 4 CDS +b=1
         > CDS n=4
         = ACK CDS b=1
         < 5 RDS +s=1
         > RDS n=5
         = ACK RDS s=1
         < 6 CDS -c"
    ));
}

#[test]
fn a_moved_client_is_sent_the_differences_in_the_state_of_the_world_too() {
    sotw(
        "! CDS a=1 b=1; RDS r=1
         > CDS version=same
         > RDS names=r version=same
         !build CDS a=1 c=1; RDS r=2
         < 1 CDS a=1 b=1 c=1
         > CDS n=1
         = ACK CDS c=1
         < 2 RDS r=2
         > RDS n=2 names=r
         = ACK RDS r=2
         < 3 CDS a=1 c=1
         > CDS n=3
         = ACK CDS -b
         !-build
         < 4 CDS a=1 b=1 c=1",
    );
}

#[test]
fn an_audience_with_the_same_content_costs_nothing() {
    delta(&format!(
        "{SETTLED}
         !build CDS a=1 b=1; LDS l=1; RDS r=1 s=1
         !node CDS a=1 b=1; LDS l=1; RDS r=1 s=1
         !-build
         !-node"
    ));
}

#[test]
fn what_was_refused_is_not_sent_again_in_another_audience() {
    delta(&format!(
        "{SETTLED}
         !node CDS a=1 b=1; LDS l=1; RDS r=1 s=bad
         < 1 RDS +s=bad
         > RDS n=1 err=no
         = NACK RDS s=bad : no
         !build CDS a=1 b=1; LDS l=1; RDS r=1 s=bad
         !-node
         !-build
         < 2 RDS +s=1"
    ));
}

#[test]
fn endpoints_flow_in_each_audience_whatever_waits_there() {
    delta(
        "! CDS c=eds1; EDS c=1; LDS l=1; RDS r=1
         > CDS init=c:eds1
         > EDS add=c init=c:1
         > LDS init=l:1
         > RDS add=r init=r:1
         # Its routes wait for a cluster that is not answered.
         !node CDS c=eds1 d=1; EDS c=1; LDS l=1; RDS r=2
         < 1 CDS +d=1
         !node CDS c=eds1 d=1; EDS c=2; LDS l=1; RDS r=2
         < 2 EDS +c=2
         ! CDS c=eds1; EDS c=3; LDS l=1; RDS r=1
         !node CDS c=eds1 d=1; EDS c=3; LDS l=1; RDS r=2
         < 3 EDS +c=3",
    );
}

#[test]
fn a_fresh_only_offer_is_sent_to_a_client_without_resources() {
    delta(
        "!fresh CDS a=1; LDS l=1
         > CDS
         < 1 CDS +a=1
         > CDS n=1
         = ACK CDS a=1
         > LDS
         < 2 LDS +l=1
         > LDS n=2
         = ACK LDS l=1
         !fresh CDS a=1; LDS l=2
         < 3 LDS +l=2",
    );
    sotw(
        "!fresh CDS a=1
         > CDS
         < 1 CDS a=1",
    );
}

#[test]
fn what_was_refused_while_only_fresh_clients_were_served_is_sent_once_more() {
    delta(
        "!fresh CDS a=1; LDS l=1; SDS s=1
         > CDS
         < 1 CDS +a=1
         > CDS n=1
         = ACK CDS a=1
         > LDS
         < 2 LDS +l=1
         > LDS n=2 err=no
         = NACK LDS l=1 : no
         > SDS add=s
         < 3 SDS +s=1
         > SDS n=3 err=no
         = NACK SDS s=1 : no
         # The listener is gone for a while, as one with a port in use.
         ! CDS a=1; SDS s=1
         < 4 LDS -l
         > LDS n=4
         = ACK LDS -l
         ! CDS a=1; LDS l=1; SDS s=1
         < 5 LDS +l=1
         > LDS n=5 err=no
         = NACK LDS l=1 : no
         # Later refusals are kept, as always.
         ! CDS a=1; LDS l=2; SDS s=2
         < 6 SDS +s=2
         < 7 LDS +l=2
         > SDS n=6
         = ACK SDS s=2
         > LDS n=7
         = ACK LDS l=2
         ! CDS a=1; LDS l=1; SDS s=1",
    );
}

#[test]
fn a_fresh_only_offer_is_not_sent_to_a_client_with_resources() {
    delta(
        "!fresh CDS a=1; LDS l=1
         > CDS init=a:2,b:2
         > LDS
         > RDS add=r,x init=r:2
         !fresh CDS a=0; LDS l=1
         # Not what it has of it already, and nothing in between.
         ! CDS a=2; LDS l=2; RDS r=2
         < 1 LDS +l=2
         < 2 RDS -x
         > LDS n=1
         = ACK LDS l=2
         > RDS n=2
         = ACK RDS -x
         < 3 CDS -b",
    );
    sotw(
        "!fresh CDS a=1
         > CDS version=other
         ! CDS a=2
         < 1 CDS a=2",
    );
}

#[test]
fn a_reconnecting_client_with_everything_is_sent_nothing_before_and_after() {
    delta(
        "!fresh CDS a=1
         > CDS init=a:1
         > RDS add=r init=r:1
         ! CDS a=1; RDS r=1
         !node CDS a=1; RDS r=1",
    );
    sotw(
        "!fresh CDS a=1
         > CDS version=same
         ! CDS a=1
         ! CDS a=2
         < 1 CDS a=2",
    );
}

#[test]
fn a_connected_client_with_resources_waits_while_only_fresh_clients_are_served() {
    delta(
        "! CDS a=1
         > CDS init=a:1
         !fresh CDS a=0
         ! CDS a=1
         ! CDS a=2
         < 1 CDS +a=2",
    );
}

#[test]
fn a_client_that_reports_its_versions_late_is_not_rolled_back() {
    delta(
        "!fresh CDS a=old; LDS l=old; RDS r=old
         > CDS
         < 1 CDS +a=old
         > LDS init=l:new
         > RDS add=r init=r:older
         > CDS n=1
         = ACK CDS a=old
         ! CDS a=new; LDS l=new; RDS r=new
         < 2 CDS +a=new
         > CDS n=2
         = ACK CDS a=new
         < 3 RDS +r=new",
    );
    // The same while the sent clusters are not answered.
    delta(
        "!fresh CDS a=old; LDS l=old
         > CDS
         < 1 CDS +a=old
         > LDS init=l:new
         ! CDS a=new; LDS l=new
         < 2 CDS +a=new
         > CDS n=1
         = ACK CDS a=old
         > CDS n=2
         = ACK CDS a=new",
    );
}
