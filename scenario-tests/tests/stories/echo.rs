//! The echo backend, from which all other stories read their responses.

use anyhow::{Result, ensure};
use holdfast_scenario_tests::grpc::call;
use holdfast_scenario_tests::request::get;
use holdfast_scenario_tests::{Story, World, stories};

pub(crate) fn stories() -> Vec<Story> {
    stories!("echo", false, [http1_and_http2_on_one_port, any_grpc_method, wishes])
}

async fn http1_and_http2_on_one_port(world: World) -> Result<()> {
    let echo = world.pod("shop", "cart", "cart-1").await?;
    let port = echo.address().port();
    let one =
        get(port, "/a/b?c=%20d").host("a.example").header("x-two", "1").header("x-two", "2").send().await?.echo()?;
    ensure!(one.path == "/a/b?c=%20d" && one.host == "a.example" && one.proto == "HTTP/1.1", "{one:?}");
    ensure!(one.header("x-two") == ["1", "2"], "{one:?}");
    ensure!(one.identity.namespace == "shop" && one.identity.service == "cart", "{one:?}");

    let two = get(port, "/two").host("b.example").http2().send().await?.echo()?;
    ensure!(two.proto == "HTTP/2.0" && two.host == "b.example" && two.path == "/two", "{two:?}");
    ensure!(echo.received() == 2 && echo.count(|recorded| recorded.request.path == "/two") == 1);
    Ok(())
}

async fn any_grpc_method(world: World) -> Result<()> {
    let echo = world.pod("shop", "cart", "cart-1").await?;
    let called = call(echo.address().port(), "shop.Cart/Add").reaches("cart-1").await?;
    ensure!(called.echo.is_some_and(|echo| echo.method == "shop.Cart/Add"));
    let refused = call(echo.address().port(), "shop.Cart/Add").header("x-echo-grpc-status", "7").make().await?;
    ensure!(refused.status == 7, "{refused:?}");
    ensure!(echo.count(|recorded| recorded.grpc) == 2);
    Ok(())
}

async fn wishes(world: World) -> Result<()> {
    let echo = world.pod("shop", "cart", "cart-1").await?;
    let request = get(echo.address().port(), "/?delay=20ms").header("x-echo-status", "418");
    let reply = request.header("x-echo-set-header", "x-a: 1, x-a: 2").answers(418).await?;
    ensure!(reply.header_values("x-a") == ["1", "2"], "{reply:?}");
    Ok(())
}
