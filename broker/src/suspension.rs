//! `POST /api/v1/tenants/{id}/suspend` and `resume`: begins, and answers when it is done, has failed, or
//! takes longer than a request should.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use halfwarp_broker_core::{Event, Progress};
use tokio::time::{Instant, sleep};

use crate::{
    api::{About, refused, unknown},
    desk::Answer,
};

/// A request is answered within this, done or not.
const PATIENCE: Duration = Duration::from_secs(25);
const LOOK: Duration = Duration::from_millis(5);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    Suspend,
    Resume,
}

pub(crate) async fn ask(about: Arc<About>, text: &str, uid: u32, asked: Asked) -> Response {
    let Ok(tenant) = text.parse() else { return unknown(text) };
    let event = match asked {
        Asked::Suspend => Event::Suspend { tenant, uid },
        Asked::Resume => Event::Resume { tenant, uid },
    };
    if let Some(Answer::Rejected(rejection)) = about.desk.step(event) {
        return refused(&rejection);
    }
    let until = Instant::now() + PATIENCE;
    let status = loop {
        let Some((progress, failed)) = about.desk.look(|state| state.suspension(tenant)) else {
            return unknown(text);
        };
        match (asked, progress, failed) {
            (_, Progress::Running | Progress::Suspended, Some(failed)) => return refused(&failed),
            (Asked::Suspend, Progress::Suspended, None)
            | (Asked::Resume, Progress::Running, None) => break StatusCode::OK,
            // Somebody else asked for the contrary meanwhile.
            (Asked::Suspend, Progress::Running | Progress::Resuming, None)
            | (Asked::Resume, Progress::Suspended, None) => break StatusCode::ACCEPTED,
            _ if Instant::now() >= until => break StatusCode::ACCEPTED,
            _ => sleep(LOOK).await,
        }
    };
    let shown = about.desk.show(|state| state.tenant(tenant));
    shown.map_or_else(|| unknown(text), |tenant| (status, Json(tenant)).into_response())
}
