//! Power: what was asked for, and only for the owner.

use std::time::Duration;

use futures::future::join_all;
use sutler_provider::*;

use crate::{
    case::{Check, cases, ensure},
    context::{Context, Made, refused},
};

cases! { "power":
    off_is_off [OBSERVED] nothing,
    on_is_on [OBSERVED] nothing,
    off_twice_is_off [ONCE] nothing,
    on_twice_is_on [ONCE] nothing,
    a_reboot_ends_with_on [OBSERVED] nothing,
    a_shutdown_ends_with_off [OBSERVED] graceful_shutdown,
    a_pause_is_a_pause [OBSERVED] pause,
    a_stranger_does_not_switch [OWNER] nothing,
    many_at_once_end_with_off [ANSWERS] nothing,
}

async fn switch(context: &Context, made: &Made, op: PowerOp) -> Check {
    let started = context.provider.power(made.power(op)).await?;
    context.ended(started.task).await.map(drop)
}

async fn is(context: &Context, made: &Made, wanted: Power) -> Check {
    let power = context.shown(&made.id).await?.power;
    ensure!(power == wanted, "it was to be {wanted:?} and is {power:?}, although that has ended");
    Ok(())
}

async fn off_is_off(context: &Context) -> Check {
    let made = context.make().await?;
    switch(context, &made, PowerOp::Off).await?;
    is(context, &made, Power::Off).await
}

async fn on_is_on(context: &Context) -> Check {
    let request = CreateRequest { power_on: false, ..context.request() };
    let made = context.make_like(request).await?;
    switch(context, &made, PowerOp::On).await?;
    is(context, &made, Power::On).await
}

async fn off_twice_is_off(context: &Context) -> Check {
    let made = context.make().await?;
    for _ in 0..2 {
        switch(context, &made, PowerOp::Off).await?;
        is(context, &made, Power::Off).await?;
    }
    Ok(())
}

async fn on_twice_is_on(context: &Context) -> Check {
    let made = context.make().await?;
    for _ in 0..2 {
        switch(context, &made, PowerOp::On).await?;
        is(context, &made, Power::On).await?;
    }
    Ok(())
}

async fn a_reboot_ends_with_on(context: &Context) -> Check {
    let made = context.make().await?;
    switch(context, &made, PowerOp::Reboot).await?;
    is(context, &made, Power::On).await
}

async fn a_shutdown_ends_with_off(context: &Context) -> Check {
    let made = context.make().await?;
    let timeout = Duration::from_secs(60);
    for _ in 0..2 {
        switch(context, &made, PowerOp::Shutdown { timeout }).await?;
        context
            .until("it is off", || async {
                Ok((context.shown(&made.id).await?.power == Power::Off).then_some(()))
            })
            .await?;
    }
    Ok(())
}

async fn a_pause_is_a_pause(context: &Context) -> Check {
    let made = context.make().await?;
    for (op, power) in [(PowerOp::Pause, Power::Paused), (PowerOp::Resume, Power::On)] {
        for _ in 0..2 {
            switch(context, &made, op).await?;
            is(context, &made, power).await?;
        }
    }
    Ok(())
}

async fn a_stranger_does_not_switch(context: &Context) -> Check {
    let made = context.make().await?;
    let request = PowerRequest { id: made.id.clone(), proof: context.stranger(), op: PowerOp::Off };
    let answer = context.provider.power(request).await;
    refused(answer, ErrorKind::Conflict, "switching somebody else's machine off")?;
    is(context, &made, Power::On).await
}

async fn many_at_once_end_with_off(context: &Context) -> Check {
    let made = context.make().await?;
    let answers = join_all((0..6).map(|_| context.provider.power(made.power(PowerOp::Off)))).await;
    for answer in answers {
        match answer {
            Ok(started) => context.ended(started.task).await.map(drop)?,
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            Err(error) => return Err(error.into()),
        }
    }
    is(context, &made, Power::Off).await
}
